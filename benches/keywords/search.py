"""The time of the ten best rows, and how many of them are right."""

from dataclasses import dataclass

import numpy

from keywords import tantivy
from keywords.bench import QUICK, session, wire
from keywords.build import ensure_index
from keywords.exact import hits
from keywords.report import at_least, versus
from keywords.sides import ALL, RAG, TANTIVY
from support.client import search
from support.results import note

ROUNDS = 1 if QUICK else 5
# Queries that are measured once on a slow side.
FEW = 20 if QUICK else 200
# p50 and p99 of rag to those of the peer
P50 = {"textsearch": 0.4, TANTIVY: 0.6}
P99 = {"textsearch": 0.4, TANTIVY: 0.7}
RECALL = 0.98


@dataclass
class Times:
    p50: float  # milliseconds
    p99: float


def times(rounds, queries=None):
    """`rounds`: microseconds of each query, a list for each round. Of the first `queries`."""
    each = numpy.median(numpy.array(rounds)[:, :queries], axis=0) / 1000
    return Times(float(numpy.percentile(each, 50)), float(numpy.percentile(each, 99)))


def ask_prepared(side, example, ranking="", where=""):
    """Opens a session with the prepared query. Returns it, and the scans of its plan."""
    client = session(side)
    statement = side.query(ranking, where=where)
    literal = "'" + example.parameter(side).replace("'", "''") + "'"
    plan = client.plan(statement.replace("$1", literal))
    client.prepare(statement)
    scans = [
        node.get("Index Name") or node.get("Index") or node["Node Type"]
        for node in plan
        if "Scan" in node["Node Type"] and node["Node Type"] != "CTE Scan"
    ]
    return client, " and ".join(scans)


def run(bench):
    for side in bench.sides:
        ensure_index(bench, side)
    if bench.has_tantivy and not tantivy.is_built():
        tantivy.build(bench.documents)
    found, rounds = measure_fast(bench)
    ours = rounds.get(RAG.name)
    for side in filter(bench.has, ALL[1:]):
        if side.is_slow:
            for ranking in side.rankings:
                against_slow(bench, side, ranking, ours)
        else:
            against(side.label, side.name, rounds)
    if bench.has_tantivy:
        against(TANTIVY, TANTIVY, rounds)
    right = recalls(bench, bench.queries, found)
    labels = {side.name: side.label for side in bench.sides} | {TANTIVY: TANTIVY}
    at_least(
        "recall@10 of exact BM25",
        right.pop(RAG.name, None),
        RECALL,
        {labels[name]: value for name, value in right.items()},
    )


def measure_fast(bench):
    """Measures all sides that are not slow in turns.

    Returns the ids that each found, of the sides that rank by BM25 over the same terms, and the
    microseconds of each round.
    """
    clients, found, rounds = {}, {}, {}
    for side in bench.sides:
        if not side.is_slow:
            clients[side], plan = ask_prepared(side, bench.queries[0])
            assert plan == "chunks_body", f"{side.label}: the planner chose {plan}"
            search(clients[side], wire(side, bench.queries))
            rounds[side.name] = []
    if bench.has_tantivy:
        rounds[TANTIVY] = []
    for _ in range(ROUNDS):
        for side, client in clients.items():
            made = search(client, wire(side, bench.queries))
            rounds[side.name].append(made.waits)
            note(f"{side.label}: {made.cpu:.0f} µs of CPU a query")
            if side.is_bm25:
                found[side.name] = made.found
        if bench.has_tantivy:
            terms = [query.terms for query in bench.queries]
            found[TANTIVY], waits = tantivy.search(terms)
            rounds[TANTIVY].append(waits)
    for client in clients.values():
        client.close()
    return found, rounds


def against(label, name, rounds):
    ours, theirs = (times(rounds[each]) if each in rounds else None for each in [RAG.name, name])
    for what, limits in [("p50", P50), ("p99", P99)]:
        versus(
            f"top 10, {what}, ms",
            getattr(ours, what, None),
            label,
            getattr(theirs, what),
            "{:.3f}",
            at_most=limits.get(name),
        )


def against_slow(bench, side, ranking, ours):
    queries = bench.queries[:FEW]
    client, plan = ask_prepared(side, queries[0], ranking)
    note(f"{side.label}, {ranking}, by {plan}")
    parameters = wire(side, queries)
    search(client, parameters[:5])
    made = search(client, parameters)
    client.close()
    theirs, ours = times([made.waits]), times(ours, FEW) if ours else None
    for what in ["p50", "p99"]:
        versus(
            f"top 10 of {len(queries)} queries, {what}, ms",
            getattr(ours, what, None),
            f"{side.label}, {ranking}",
            getattr(theirs, what),
            "{:.2f}",
        )
    right = recalls(bench, queries, {ranking: made.found})[ranking]
    note(f"{side.label}, {ranking}: recall@10 of exact BM25 {right:.4f}")


def recalls(bench, queries, found, chosen=None):
    """Returns the recall of each searcher. `chosen`: which documents may be found, or all."""
    counted = {name: [0, 0] for name in found}
    for number, query in enumerate(queries):
        scores = bench.exact.scores(query.terms)
        if chosen is not None:
            scores[~chosen] = 0
        for name, lists in found.items():
            right, possible = hits(scores, lists[number])
            counted[name][0] += right
            counted[name][1] += possible
    return {name: right / possible for name, (right, possible) in counted.items()}
