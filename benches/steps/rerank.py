"""Reranking on SciFact: nDCG@10 of searches without and with it, and ms per candidate."""

import json
import os
import statistics
import time

from support import scifact
from support.database import SCRATCH, add_folder, fresh_database, set_precision, sync
from support.results import note, row

MODES = os.environ.get("BENCH_RERANK_MODES", "vector hybrid").split()
CANDIDATES = os.environ.get("BENCH_RERANK_CANDIDATES", "20").split()
# 0: all
QUERIES = int(os.environ.get("BENCH_RERANK_QUERIES", "0"))
# the folder of a cross-encoder to measure, too
CROSS = os.environ.get("BENCH_RERANK_CROSS")


def create_rerankers(connection):
    """Returns name -> what it is, None without reranking."""
    specs = {f"late-{n}": {"late": True, "candidates": int(n)} for n in CANDIDATES}
    if CROSS:
        specs |= {f"cross-{n}": {"path": CROSS, "candidates": int(n)} for n in CANDIDATES}
    for name, spec in specs.items():
        connection.execute("SELECT rag_create_model(%s, 'rerank', 'local', %s::jsonb)",
            [name, json.dumps({**spec, "timeout": 600})])
    return [None, *specs]


def ranked(connection, mode, reranker, queries):
    """Returns query id -> document ids, and the seconds of the median search."""
    found, seconds = {}, []
    for query in queries:
        started = time.perf_counter()
        rows = connection.execute(
            "SELECT uri FROM rag_search(%s, 'docs', mode => %s, top_k => 10, "
            "rerank => %s, settings => '{\"per_document\": 1}')"
            " ORDER BY rank", [query["text"], mode, reranker]).fetchall()
        seconds.append(time.perf_counter() - started)
        found[query["_id"]] = [os.path.basename(uri).removesuffix(".md") for (uri,) in rows]
    return found, statistics.median(seconds)


def main():
    documents, relevant = scifact.documents(), scifact.judgements()
    queries = [query for query in scifact.queries() if query["_id"] in relevant]
    if QUERIES:
        queries = queries[:QUERIES]
        relevant = {query["_id"]: relevant[query["_id"]] for query in queries}
    folder = os.path.join(SCRATCH, "scifact")
    scifact.write_markdown(folder, documents)
    set_precision("int8")
    connection = fresh_database("bench")
    add_folder(connection, "docs", folder, 1_000_000, 0)
    seconds, run = sync(connection, "docs")
    assert run["documents_added"] == len(documents) and run["documents_failed"] == 0, run
    note(f"{run['chunks_written']} chunks in {seconds:.0f} s; {len(queries)} queries")
    rerankers = create_rerankers(connection)
    for mode in MODES:
        base, alone = None, 0.0
        for reranker in rerankers:
            found, median = ranked(connection, mode, reranker, queries)
            quality = scifact.ndcg_at_10(found, relevant)
            if reranker is None:
                base, alone = quality, median
                row(f"SciFact nDCG@10, {mode}, p50 {1000 * median:.1f} ms", f"{quality:.4f}")
                continue
            each = 1000 * (median - alone) / int(reranker.rsplit("-", 1)[1])
            row(f"the same with {reranker}, {each:.1f} ms per candidate", f"{quality:.4f}",
                f"{base:.4f} (without)", quality / base)
    connection.close()


main()
