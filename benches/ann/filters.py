"""The ten nearest among the rows that a random filter selects."""

import numpy

from ann.bench import QUICK
from ann.build import ensure_index
from ann.dataset import BUCKETS, nearest, recall, text, wire
from ann.plots import plot_filters
from ann.report import compare
from ann.sides import turns
from support.client import search
from support.results import median, note, row

SHARES = [0.5, 0.1, 0.01, 0.001]
QUERIES = 50 if QUICK else 100
# after the first; where that takes longer than a second, the first is enough
ROUNDS = 6
EFS = [10, 20, 40, 80, 160, 320, 640, 1000]
ENOUGH = 0.95


def run(bench):
    for side in bench.sides:
        ensure_index(bench, side)
    times = {}
    for btree in [False, True]:
        for share in SHARES:
            for side in bench.sides:
                bench.connection.execute(f"DROP INDEX IF EXISTS {side.table}_bucket")
                if btree:
                    bench.connection.execute(
                        f"CREATE INDEX {side.table}_bucket ON {side.table} (bucket)"
                    )
            for name, milliseconds in measure(bench, share, btree).items():
                times.setdefault(f"{name}, {'btree' if btree else 'no btree'}", []).append(
                    (share, milliseconds)
                )
    for side in bench.sides:
        bench.connection.execute(f"DROP INDEX {side.table}_bucket")
    plot_filters(
        "hnsw-filters.svg",
        f"filtered top 10 at recall >= {ENOUGH}, {len(bench.data.base):,} vectors",
        times,
    )


def measure(bench, share, btree):
    """Returns side name -> milliseconds of CPU of a query at the smallest sufficient ef."""
    limit = round(BUCKETS * share)
    where = f"bucket < {limit}"
    queries = bench.data.queries[:QUERIES]
    matching = numpy.flatnonzero(bench.data.buckets < limit)
    truth = nearest(bench.data.base[matching], queries, matching)
    label = f"filter {share * 100:g} %, {'btree' if btree else 'no btree'}"
    clients, chosen, plans = {}, {}, {}
    for side in bench.sides:
        client = clients[side.name] = bench.client(side)
        client.set({"work_mem": "64MB", "enable_seqscan": "on" if btree else "off"})
        for setup, settings in side.filtered.items():
            client.set(settings)
            plan, run = ask(side, client, side.default_ef, where, queries)
            found, short = recall(run.found, truth), sum(
                len(ids) < truth.shape[1] for ids in run.found
            )
            note(
                f"{label}, {side.name}{setup}, ef {side.default_ef}: {describe(plan, run, found)}, "
                f"{short} queries short of rows"
            )
            if side.name == "rag":
                row(
                    f"{label}: recall@10 as installed",
                    f"{found:.4f}",
                    target=f">= {ENOUGH}",
                    met=found >= ENOUGH,
                )
                row(
                    f"{label}: queries with fewer rows than match",
                    str(short),
                    target="0",
                    met=short == 0,
                )
        # with the last setup
        for ef in EFS:
            plan, run = ask(side, client, ef, where, queries)
            found = recall(run.found, truth)
            if found >= ENOUGH:
                note(f"{label}, {side.name}{setup}, ef {ef}: {describe(plan, run, found)}")
                chosen[side.name], plans[side.name] = [run], plan
                break
    # the statements that found enough are still prepared
    for number in range(ROUNDS):
        for side in turns(bench.sides, number):
            if side.name in chosen and chosen[side.name][0].seconds < 1:
                chosen[side.name].append(search(clients[side.name], wire(queries)))
    for client in clients.values():
        client.close()
    cpu = {
        side.name: (
            median(run.cpu for run in chosen[side.name]) / 1000 if side.name in chosen else None
        )
        for side in bench.sides
    }
    # where pgvector's planner takes the filter's index and sorts, rag's may do the same; a wrong
    # choice costs far more than this
    iterative = "embedding" in plans.get("pgvector", "embedding")
    shown = ", ".join(f"{name} by {plan}" for name, plan in plans.items())
    note(f"{label}: {shown}")
    compare(
        f"{label}: server CPU at recall >= {ENOUGH}, ms",
        cpu,
        "{:.3f}",
        at_most=1 / 3 if iterative else 1.25,
    )
    return cpu


def ask(side, client, ef, where, queries):
    """Returns the scans of the plan, which is made for this ef, and the run."""
    client.set({side.ef_setting: ef})
    plan = client.plan(side.query(where=where, literal=text(queries[0])))
    client.prepare(side.query(where=where))
    search(client, wire(queries[:5]))
    scans = [
        node.get("Index Name", node["Node Type"]) for node in plan if "Scan" in node["Node Type"]
    ]
    return " and ".join(scans), search(client, wire(queries))


def describe(plan, run, found):
    return f"recall {found:.4f}, {run.cpu:.0f} µs of CPU, {run.p50:.0f} µs wait, {plan}"
