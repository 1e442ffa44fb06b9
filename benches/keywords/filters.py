"""The ten best among the rows that a random filter selects, and all rows that match."""

import numpy

from keywords.bench import BUCKETS, QUICK, wire
from keywords.build import ensure_index
from keywords.report import at_least, none, versus
from keywords.search import RECALL, ask_prepared, recalls, times
from keywords.sides import ALL, RAG
from support.client import search
from support.results import note

SHARES = [0.1, 0.01, 0.001]
QUERIES = 50 if QUICK else 200
# queries of which all rows are fetched
ALL_ROWS = 20
# rag's time to the peer's, at one row in a hundred
LIMITS = {("textsearch", 0.01): 0.2}


def run(bench):
    for side in bench.sides:
        ensure_index(bench, side)
    for btree in [False, True]:
        for side in bench.sides:
            bench.of(side).execute("DROP INDEX IF EXISTS chunks_bucket")
            if btree:
                bench.of(side).execute("CREATE INDEX chunks_bucket ON chunks (bucket)")
        for share in SHARES:
            measure(bench, share, btree)
    for side in bench.sides:
        bench.of(side).execute("DROP INDEX chunks_bucket")
    if bench.has(RAG):
        all_rows(bench)


def measure(bench, share, btree):
    limit = round(BUCKETS * share)
    label = f"filter {share * 100:g} %, {'btree' if btree else 'no btree'}"
    queries, chosen = bench.queries[:QUERIES], bench.buckets < limit
    matching = [numpy.count_nonzero(bench.exact.scores(query.terms)[chosen]) for query in queries]
    short = lambda found: sum(len(ids) < min(10, n) for ids, n in zip(found, matching))
    made, found = {}, {}
    for side in bench.sides:
        ranking = next(iter(side.rankings))
        client, plan = ask_prepared(side, queries[0], ranking, f"bucket < {limit}")
        parameters = wire(side, queries)
        search(client, parameters[:10])
        asked = search(client, parameters)
        client.close()
        found[side.name], made[side.name] = asked.found, times([asked.waits])
        missing = f", {short(asked.found)} queries short of rows" if side.is_bm25 else ""
        note(f"{label}: {side.label} by {plan}, {asked.cpu:.0f} µs of CPU a query{missing}")
    ours = made.get(RAG.name)
    for side in filter(bench.has, ALL[1:]):
        for what in ["p50", "p99"]:
            versus(
                f"{label}: top 10, {what}, ms",
                getattr(ours, what, None),
                side.label,
                getattr(made[side.name], what),
                "{:.2f}",
                at_most=LIMITS.get((side.name, share)),
            )
    exact = {side.label: found[side.name] for side in bench.sides if side.is_bm25}
    right = recalls(bench, queries, exact, chosen)
    ours = right.pop(RAG.label, None)
    at_least(f"{label}: recall@10 of exact BM25", ours, RECALL, right)
    if ours is not None:
        none(f"{label}: queries with fewer rows than match", short(found[RAG.name]))


def all_rows(bench):
    """Fetches all rows of some queries: none may be missing, and none may come twice."""
    queries = bench.queries[:ALL_ROWS]
    client, _ = ask_prepared(RAG, queries[0])
    client.prepare(RAG.query("", limit=""))
    found = search(client, wire(RAG, queries)).found
    client.close()
    right = [numpy.flatnonzero(bench.exact.scores(query.terms)).tolist() for query in queries]
    wrong = sum(sorted(ids) != matching for ids, matching in zip(found, right))
    none(f"{ALL_ROWS} queries without LIMIT: with other rows than match", wrong)
