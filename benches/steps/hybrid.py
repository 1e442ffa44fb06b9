"""Time of rag_search in each mode over 100,000 chunks: real embeddings of documentation, and texts of
sentences of SciFact. Queries come with their embedding, so that the model does not count."""

import json
import time

from support import scifact
from support.chunks import as_text, vectors
from support.database import fresh_database
from support.hundred_thousand import MODES, fill
from support.results import median, note, row

ROUNDS = 3
QUERIES = 300
FILTERS = [
    ("knowledge_id, 1 %", {"knowledge_id": 7}),
    ("metadata key, 1 %", {"team": "t7"}),
    ("metadata key, 0.1 %", {"k": 7}),
    ("knowledge_id, 10 %", {"conditions": [{"key": "knowledge_id", "operator": "<", "value": 10}]}),
]
TARGET = 3.0  # ms


def measure(connection, queries, embeddings, mode, chosen=None):
    """Returns the milliseconds of each search, as the client sees them."""
    times = []
    for n, text in enumerate(queries):
        arguments = [text, mode, json.dumps(chosen) if chosen else None, embeddings[n]]
        started = time.perf_counter()
        connection.execute(
            "SELECT chunk_id, score, content FROM rag_search(%s, 'hybrid', mode => %s,"
            " filter => %s::jsonb, query_embedding => %s::rag_types.vector)", arguments).fetchall()
        times.append((time.perf_counter() - started) * 1000)
    return times


def percentile(times, fraction):
    return sorted(times)[int(len(times) * fraction)]


def main():
    connection = fresh_database("bench")
    fill(connection)
    queries = [query["text"] for query in scifact.queries()][:QUERIES]
    embeddings = [as_text(vector) for vector in vectors("query")[:QUERIES]]
    cases = [(mode, None, None) for mode in MODES]
    cases += [("hybrid", name, chosen) for name, chosen in FILTERS]
    times = {}
    for mode, _, chosen in cases:
        measure(connection, queries[:50], embeddings, mode, chosen)
    connection.execute("SELECT rag_reset_search_stats()")
    for _ in range(ROUNDS):
        for mode, name, chosen in cases:
            found = measure(connection, queries, embeddings, mode, chosen)
            times.setdefault((mode, name), []).extend(found)
            if name is None and mode == "hybrid":
                stats = connection.execute(
                    "SELECT mean_ms, vector_mean_ms, keyword_mean_ms, fusion_mean_ms"
                    " FROM rag.search_stats WHERE mode = 'hybrid'").fetchone()
                connection.execute("SELECT rag_reset_search_stats()")
    note("hybrid, mean ms in the server: all {:.2f}, vector {:.2f}, keyword {:.2f}, fusion {:.2f}"
        .format(*stats))
    whole = median(times["hybrid", None])
    for (mode, name), found in times.items():
        p50, p99 = median(found), percentile(found, 0.99)
        what = f"rag_search, 100,000 chunks, {mode}{f', filter on {name}' if name else ''}"
        figures = f"{p50:.2f} / {p99:.2f}"
        if name is None:
            is_hybrid = mode == "hybrid"
            row(f"{what}, p50 / p99 ms", figures, "", None,
                f"p50 <= {TARGET:.0f}" if is_hybrid else "", p50 <= TARGET if is_hybrid else None)
        else:
            is_small = "1 %" in name
            row(f"{what}, p50 / p99 ms", figures, f"{whole:.2f} (no filter)", p50 / whole,
                "<= 1.0" if is_small else "", p50 <= whole if is_small else None)


main()
