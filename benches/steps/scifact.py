"""Quality of search through SQL on SciFact: nDCG@10 in each mode."""

import json
import os

from support import scifact
from support.database import SCRATCH, add_folder, fresh_database, set_precision, sync
from support.reference import PRECISIONS, Reference
from support.results import note, row

# mode, what it is compared with, and the least that it must reach
MODES = [
    ("vector", 0.645, ".645 (published, vectors)", 0.635),
    ("keyword", 0.679, ".679 (published, BM25)", 0.665),
    ("hybrid", 0.679, ".679 (published, BM25)", 0.720),
]
STORED = [("whole", 1_000_000, 0, "whole documents"), ("chunked", 1000, 200, "chunks of 1000/200")]


def by_search(connection, collection, mode, queries, relevant):
    """Returns the mean nDCG@10 of the judged queries. A document ranks by its best chunk."""
    texts = {query["_id"]: query["text"] for query in queries if query["_id"] in relevant}
    files = {query: {f"{document}.md": grade for document, grade in grades.items()}
             for query, grades in relevant.items()}
    (found,) = connection.execute(
        "SELECT value FROM rag_evaluate(%s::jsonb, %s, %s::jsonb, jsonb_build_object("
        "'mode', %s::text), resamples => 1) WHERE measure = 'ndcg@10'",
        [json.dumps(texts), collection, json.dumps(files), mode]).fetchone()
    return found


def by_reference(reference, documents, queries):
    """Ranks whole documents, truncated at the model's limit, as the published figure does."""
    base = reference.embed([f"{d['title']}\n\n{d['text']}" for d in documents])
    asked = reference.embed([query["text"] for query in queries])
    best = (-(asked @ base.T)).argsort(axis=1, kind="stable")[:, :10]
    return {query["_id"]: [documents[i]["_id"] for i in ids] for query, ids in zip(queries, best)}


def main():
    documents, queries, relevant = scifact.documents(), scifact.queries(), scifact.judgements()
    folder = os.path.join(SCRATCH, "scifact")
    scifact.write_markdown(folder, documents)
    for precision in PRECISIONS:
        set_precision(precision)
        connection = fresh_database("bench")
        for name, size, overlap, what in STORED:
            if name not in os.environ.get("BENCH_SCIFACT", "whole chunked").split():
                continue
            if name == "chunked" and precision != PRECISIONS[0]:
                continue  # slow, and the same result
            add_folder(connection, name, folder, size, overlap)
            seconds, run = sync(connection, name)
            assert run["documents_added"] == len(documents) and run["documents_failed"] == 0, run
            note(f"{precision}, {what}: {run['chunks_written']} chunks in {seconds:.0f} s")
            for mode, published, peer, least in MODES:
                found = by_search(connection, name, mode, queries, relevant)
                row(f"SciFact nDCG@10, {mode}, {precision}, {what}", f"{found:.4f}", peer,
                    found / published, f">= {least:.3f}", found >= least)
        connection.close()
        cut = scifact.ndcg_at_10(by_reference(Reference(precision, spinning=False), documents,
            queries), relevant)
        row(f"the same in Python, {precision}, documents cut at 256 tokens", "", f"{cut:.4f}")


main()
