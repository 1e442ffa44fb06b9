"""What collections of 10,000 chunks and more take: disk, time to build the indexes, and searches."""

import os
import time

from support import scifact
from support.chunks import as_text, vectors
from support.database import fresh_database
from support.hundred_thousand import fill
from support.plot import Axis, plot
from support.process import cpu_nanoseconds
from support.results import median, row

SIZES = [int(size) for size in os.environ.get("BENCH_SIZING", "10000 100000").split()]
QUERIES = 200
PARTITION = "rag_internal.rag_kb_hybrid"


def build(connection):
    """Builds each index again. Returns the seconds and megabytes of those that searches use."""
    figures = {}
    for method in ("rag_hnsw", "rag_bm25"):
        name, = connection.execute(
            "SELECT i.indexrelid::regclass::text FROM pg_index AS i"
            " JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam"
            f" WHERE i.indrelid = '{PARTITION}'::regclass AND a.amname = %s", [method]).fetchone()
        started = time.perf_counter()
        connection.execute(f"REINDEX INDEX {name}")
        seconds = time.perf_counter() - started
        size, = connection.execute("SELECT pg_relation_size(%s::regclass)", [name]).fetchone()
        figures[method] = seconds, size
    return figures


def searches(connection):
    """Returns milliseconds of processor time of the server for each search in mode hybrid."""
    pid, = connection.execute("SELECT pg_backend_pid()").fetchone()
    texts = [query["text"] for query in scifact.queries()][:QUERIES]
    times = []
    for part in range(2):
        for text, vector in zip(texts, vectors("query")[:QUERIES]):
            before = cpu_nanoseconds(pid)
            connection.execute(
                "SELECT chunk_id, content FROM rag_search(%s, 'hybrid',"
                " query_embedding => %s::rag_types.vector)", [text, as_text(vector)]).fetchall()
            if part == 1:
                times.append((cpu_nanoseconds(pid) - before) / 1e6)
    return times


def main():
    builds, waits = {}, []
    for size in SIZES:
        connection = fresh_database("bench")
        connection.execute("SET maintenance_work_mem = '1GB'")
        fill(connection, size)
        connection.execute("VACUUM ANALYZE")
        table, toast, indexes = connection.execute(
            "SELECT table_bytes, toast_bytes, index_bytes FROM rag.relation_sizes"
            " WHERE relation = %s", [PARTITION]).fetchone()
        figures = build(connection)
        times = searches(connection)
        total = (table + toast + indexes) / size
        waits.append((size, median(times), f"{median(times):.2f} ms"))
        what = f"{size:,} chunks"
        row(f"{what}: bytes a chunk, of table / long values / indexes",
            f"{total:,.0f}, {table / size:,.0f} / {toast / size:,.0f} / {indexes / size:,.0f}")
        for method, (seconds, index_size) in figures.items():
            builds.setdefault(method, []).append((size, seconds, f"{seconds:.1f} s"))
            row(f"{what}: {method}, seconds to build / MB",
                f"{seconds:.1f} / {index_size / 1e6:.0f}")
        row(f"{what}: processor time of a search in mode hybrid, p50, ms", f"{median(times):.2f}")
        connection.close()
    if len(SIZES) > 1:
        folder = os.path.dirname(os.environ["BENCH_RESULTS"])
        chunks = Axis("chunks", "log")
        plot(f"{folder}/sizing-searches.svg", "Processor time of a search in mode hybrid",
             chunks, Axis("ms", "log"), {"rag_search": waits})
        plot(f"{folder}/sizing-builds.svg", "Time to build an index", chunks,
             Axis("seconds", "log"), builds)


main()
