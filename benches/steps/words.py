"""The analyses of rag_bm25 side by side: quality on codes, identifiers and prose; size and speed."""

import os
import time

from keywords.identifiers import python_library, ticket_queries, tickets
from support import scifact
from support.chunks import texts as prose
from support.database import fresh_database
from support.results import median, note, row

ANALYSES = os.environ.get("BENCH_WORDS_ANALYSES", "exact words code").split()
PROSE_ROWS = int(os.environ.get("BENCH_WORDS_ROWS", "50000"))
ROUNDS = 7


def options(analysis):
    """An installed version without analyses has one that is like `exact`. `words+positions` is an
    index with positions."""
    name, _, positions = analysis.partition("+")
    chosen = "" if name == "none" else f", analysis = '{name}'"
    return chosen + (", positions = on" if positions else "")


def fill(connection, texts):
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, body text)")
    with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        for number, text in enumerate(texts):
            copy.write_row((number, text))
    connection.execute("VACUUM ANALYZE t")


def build(connection, analysis):
    """Creates the index. Returns seconds and bytes."""
    connection.execute("DROP INDEX IF EXISTS t_body")
    connection.execute("SET maintenance_work_mem = '1GB'")
    began = time.perf_counter()
    connection.execute("CREATE INDEX t_body ON t USING rag_bm25 (body) "
        f"WITH (text_config = 'english'{options(analysis)})")
    seconds = time.perf_counter() - began
    (size,) = connection.execute("SELECT pg_relation_size('t_body')").fetchone()
    return seconds, size


SEARCH = "SELECT id FROM t ORDER BY body <@> rag_bm25_query(%s, 't_body') LIMIT 10"


def found(connection, query, limit=10):
    statement = SEARCH.replace("LIMIT 10", f"LIMIT {limit}")
    return [number for (number,) in connection.execute(statement, [query])]


def ndcg(connection, queries):
    relevant = {query: {number: 1 for number in right} for query, right in queries}
    ranked = {query: found(connection, query) for query, _ in queries}
    return scifact.ndcg_at_10(ranked, relevant)


def identifiers(connection):
    texts, facts = tickets()
    sets = ticket_queries(facts)
    fill(connection, texts)
    for analysis in ANALYSES:
        seconds, size = build(connection, analysis)
        note(f"tickets, {analysis}: {seconds:.1f} s, {size / 1e6:.1f} MB")
        for name, queries in sets.items():
            row(f"nDCG@10, tickets, {name}", f"{ndcg(connection, queries):.3f}", analysis)
    texts, queries = python_library()
    fill(connection, texts)
    for analysis in ANALYSES:
        seconds, size = build(connection, analysis)
        note(f"Python, {analysis}: {seconds:.1f} s, {size / 1e6:.1f} MB")
        pairs = sum(len(right) for _, right in queries)
        hits = sum(len(right & set(found(connection, query, len(texts))))
            for query, right in queries)
        row("(file, called method) pairs of Python found", f"{hits / pairs:.3f}", analysis)
        row("nDCG@10, file by called method", f"{ndcg(connection, queries):.3f}", analysis)


def prose_quality(connection):
    documents, relevant = scifact.documents(), scifact.judgements()
    asked = [query for query in scifact.queries() if query["_id"] in relevant]
    fill(connection, [f"{document['title']} {document['text']}" for document in documents])
    for analysis in ANALYSES:
        seconds, size = build(connection, analysis)
        ranked = {query["_id"]: [documents[number]["_id"]
            for number in found(connection, query["text"])] for query in asked}
        note(f"SciFact, {analysis}: {seconds:.1f} s, {size / 1e6:.2f} MB")
        row("nDCG@10, SciFact", f"{scifact.ndcg_at_10(ranked, relevant):.4f}", analysis)


def prose_costs(connection):
    """Two tables with the same rows, so that indexes are compared in turns."""
    texts = list(prose(PROSE_ROWS))
    queries = [query["text"] for query in scifact.queries()][:300]
    fill(connection, texts)
    names = {}
    for analysis in ANALYSES:
        seconds, size = build(connection, analysis)
        name = names[analysis] = "t_" + analysis.replace("+", "_")
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM t ORDER BY id")
        connection.execute(f"CREATE INDEX {name}_body ON {name} USING rag_bm25 (body) "
            f"WITH (text_config = 'english'{options(analysis)})")
        connection.execute(f"VACUUM ANALYZE {name}")
        row(f"index of {PROSE_ROWS} chunks of prose, MB", f"{size / 1e6:.1f}", analysis)
        row("its build, s", f"{seconds:.1f}", analysis)
    waits = {analysis: [] for analysis in ANALYSES}
    for _ in range(ROUNDS):
        for analysis, name in names.items():
            statement = SEARCH.replace("t ORDER", f"{name} ORDER").replace("t_body", f"{name}_body")
            times = []
            for query in queries:
                began = time.perf_counter()
                connection.execute(statement, [query], prepare=True).fetchall()
                times.append(time.perf_counter() - began)
            waits[analysis].append(times)
    for analysis, rounds in waits.items():
        of_queries = [median(times) * 1e6 for times in zip(*rounds)]
        mean = sum(of_queries) / len(of_queries)
        row("top 10 of prose, p50 / mean, µs", f"{median(of_queries):.0f} / {mean:.0f}", analysis)


def main():
    connection = fresh_database("bench")
    parts = os.environ.get("BENCH_WORDS_PARTS", "identifiers quality costs").split()
    if "identifiers" in parts:
        identifiers(connection)
    if "quality" in parts:
        prose_quality(connection)
    if "costs" in parts:
        prose_costs(connection)


main()
