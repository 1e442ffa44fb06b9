"""Index strategies: searches of one collection among 500, in a partition of its own, in one
partition for all, and in one for ten. All have the same chunks. Queries come with their embedding,
so that the model does not count."""

import json
import os
import random
import time
import uuid

import numpy

from support.database import fresh_database
from support.results import median, row

COLLECTIONS = int(os.environ.get("BENCH_STRATEGY_COLLECTIONS", 500))
CHUNKS = 200
DIMENSIONS = 384
WORDS = 5_000
QUERIES = 100
ROUNDS = 3
STRATEGIES = {
    "per_dataset": {"mode": "per_dataset"},
    "fixed": {"mode": "fixed"},
    "rolling": {"mode": "rolling"},
}
MODES = ["vector", "keyword", "hybrid"]
TARGET = 2.0
COLUMNS = """collection, partition, uri, title, document_id, document_type, chunk_id, chunk_index,
    start_index, content, metadata, embedding, embedding_key, fetched_at, indexed_at, start_line,
    end_line"""
NOW = "2026-01-01"


def as_text(vector):
    # whole numbers, which are written faster: cosines do not change
    return "[" + ",".join(map(str, (vector * 1000).astype(int).tolist())) + "]"


def chunk_texts(rng):
    """Texts of words with the frequencies of a natural language."""
    words = [f"word{n}" for n in range(WORDS)]
    weights = [1 / (n + 2) for n in range(WORDS)]
    return lambda: " ".join(rng.choices(words, weights, k=60))


def fill(connection, strategy):
    """Writes the chunks past the model, and lets the extension create the indexes."""
    spec = {"storageConfig": {"indexStrategy": STRATEGIES[strategy]}}
    connection.execute("SELECT rag_create_retriever(%s, %s)",
        [strategy.replace("_", "-"), json.dumps(spec)])
    for n in range(COLLECTIONS):
        connection.execute("SELECT rag_create_collection(%s, retriever => %s)",
            [f"{strategy}-{n}", strategy.replace("_", "-")])
        connection.execute("SELECT rag_add_document('first', 'first', collection => %s)",
            [f"{strategy}-{n}"])
    partitions = dict(connection.execute("SELECT name, partition FROM rag.collections").fetchall())
    rng = random.Random(1)
    text = chunk_texts(rng)
    vectors = numpy.random.default_rng(1)
    for n in range(COLLECTIONS):
        name = f"{strategy}-{n}"
        with connection.cursor().copy(f"COPY rag.chunks ({COLUMNS}) FROM STDIN") as copy:
            for i, vector in enumerate(vectors.standard_normal((CHUNKS, DIMENSIONS))):
                number = str(uuid.UUID(int=n * CHUNKS + i + 1))
                copy.write_row((name, partitions[name], f"doc/{i}", f"Title {i}", number, "text",
                    number, 0, 0, text(), "{}", as_text(vector), number, NOW, NOW, 1, 9))
    connection.execute("SELECT rag_add_document('last', 'last', collection => %s)",
        [f"{strategy}-{COLLECTIONS - 1}"])
    # as autovacuum does
    connection.execute("VACUUM ANALYZE")


def measure(connection, strategy, mode, queries):
    """Returns the milliseconds of each search, as the client sees them, and what was found."""
    times, found = [], []
    for n, text, embedding in queries:
        started = time.perf_counter()
        rows = connection.execute(
            "SELECT uri FROM rag_search(%s, %s, mode => %s,"
            " query_embedding => %s::rag_types.vector)",
            [text, f"{strategy}-{n}", mode, embedding]).fetchall()
        times.append((time.perf_counter() - started) * 1000)
        found.append([uri for uri, in rows])
    return times, found


def main():
    connection = fresh_database("bench")
    filled = {}
    for strategy in STRATEGIES:
        started = time.perf_counter()
        fill(connection, strategy)
        filled[strategy] = time.perf_counter() - started
    rng = random.Random(2)
    text = chunk_texts(rng)
    vectors = numpy.random.default_rng(2)
    # some collections, so that the session has met each of them before
    chosen = rng.sample(range(COLLECTIONS), min(10, COLLECTIONS))
    queries = [(rng.choice(chosen), " ".join(text().split()[:4]),
        as_text(vectors.standard_normal(DIMENSIONS))) for _ in range(QUERIES)]
    times = {}
    for strategy in STRATEGIES:
        for mode in MODES:
            measure(connection, strategy, mode, queries)
    for _ in range(ROUNDS):
        for mode in MODES:
            answers = {}
            for strategy in STRATEGIES:
                found, answers[strategy] = measure(connection, strategy, mode, queries)
                times.setdefault((strategy, mode), []).extend(found)
            # words are weighted by how frequent they are in the partition
            if mode == "vector":
                assert answers["fixed"] == answers["per_dataset"] == answers["rolling"]
    what = f"rag_search of one collection among {COLLECTIONS}, {CHUNKS} chunks each"
    for strategy in ("fixed", "rolling"):
        for mode in MODES:
            own, shared = median(times["per_dataset", mode]), median(times[strategy, mode])
            row(f"{what}, {strategy}, {mode}, p50 ms", f"{shared:.2f}",
                f"{own:.2f} (own partition)", shared / own, f"<= {TARGET}", shared <= TARGET * own)
    for strategy in STRATEGIES:
        size, relations = connection.execute(
            """SELECT sum(total_size_bytes), (SELECT count(*) FROM pg_class r WHERE EXISTS (
                   SELECT FROM rag.collections c JOIN pg_class p ON p.relname = c.partition
                   WHERE c.index_strategy = %s AND (r.oid IN (p.oid, p.reltoastrelid) OR r.oid IN (
                       SELECT indexrelid FROM pg_index WHERE indrelid IN (p.oid, p.reltoastrelid)))))
               FROM rag_collection_status() s WHERE index_strategy = %s""",
            [strategy, strategy]).fetchone()
        row(f"{COLLECTIONS} collections, {strategy}: size MB; relations; filled in s",
            f"{float(size) / 1e6:.0f}; {relations}; {filled[strategy]:.0f}")


main()
