"""Search quality: nDCG@10 on BEIR SciFact, title and text of a document as one chunk."""

import os

import numpy

from keywords.bench import analyze, fill, session, terms_of, wire
from keywords.build import create_index
from keywords.exact import Exact, best
from keywords.report import at_least
from keywords.sides import PLAIN, RAG
from support import scifact
from support.client import search
from support.results import note

TABLE = "scifact"
LEAST = 0.665


def run(bench):
    if not os.path.isdir(scifact.FOLDER):
        note(f"skipped: {scifact.FOLDER} is missing")
        return
    documents, relevant = scifact.documents(), scifact.judgements()
    asked = [query for query in scifact.queries() if query["_id"] in relevant]
    texts = [f"{document['title']} {document['text']}" for document in documents]
    buckets = numpy.zeros(len(texts), int)
    plain = bench.of(PLAIN)
    fill(plain, TABLE, texts, buckets)
    queries = analyze(plain, [query["text"] for query in asked])
    ndcg = lambda found: scifact.ndcg_at_10(
        {query["_id"]: [documents[i]["_id"] for i in ids] for query, ids in zip(asked, found)},
        relevant,
    )
    exact = Exact(terms_of(plain, TABLE))
    ours = None
    theirs = {"exact BM25": ndcg([best(exact.scores(query.terms)) for query in queries])}
    for side in bench.sides:
        fill(bench.of(side), TABLE, texts, buckets)
        create_index(side, TABLE)
        client = session(side)
        for ranking in side.rankings:
            client.prepare(side.query(ranking, TABLE))
            found = ndcg(search(client, wire(side, queries)).found)
            if side is RAG:
                ours = found
            else:
                theirs[f"{side.label} {ranking}".strip()] = found
        client.close()
    at_least("SciFact nDCG@10", ours, LEAST, theirs)
