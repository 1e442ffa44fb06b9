"""1,536 dimensions, stored out of line as installed: build, search, and the planner's choice."""

import numpy

from ann.bench import EFS, QUICK, ROUNDS, prepare, session
from ann.build import create_index, tell
from ann.curve import RECALLS, measure, points
from ann.dataset import SEED, create_table, copy_rows, nearest, text, wire
from ann.report import at, compare
from support.index import check
from support.results import note, row

ROWS = 2_000 if QUICK else 20_000
DIMENSIONS = 1536
# of the planner's choice
LIMITS = [10, 100]


def widened(vectors, seed):
    """Rotates vectors into more dimensions, adds Gaussian noise of norm .3, scales to length 1."""
    turn = numpy.random.default_rng(SEED).standard_normal(
        (vectors.shape[1], DIMENSIONS), numpy.float32
    )
    noise = numpy.random.default_rng([SEED, seed]).standard_normal(
        (len(vectors), DIMENSIONS), numpy.float32
    )
    wide = vectors @ (turn / DIMENSIONS**0.5) + noise * (0.3 / DIMENSIONS**0.5)
    return wide / numpy.linalg.norm(wide, axis=1, keepdims=True)


def run(bench):
    base, queries = widened(bench.data.base[:ROWS], 1), widened(bench.data.queries, 2)
    truth = nearest(base, queries)
    builds, clients = {}, {}
    for side in bench.sides:
        table = f"{side.name}_wide"
        create_table(bench.connection, table, side.type, {"id": None}, DIMENSIONS, inline=False)
        copy_rows(bench.connection, table, {"id": numpy.arange(len(base))}, base)
        bench.connection.execute(f"VACUUM ANALYZE {table}")
        builds[side.name] = create_index(side, table)
        tell(builds[side.name])
        clients[side.name] = session()
        clients[side.name].set({side.ef_setting: side.default_ef})
        choices(side, table, clients[side.name], queries[0])
        note(f"{side.name}: {prepare(clients[side.name], side, table, queries[0])}")
    rows = f"{len(base):,} x {DIMENSIONS}"
    each = lambda what, scale=1: {
        name: getattr(build, what) / scale for name, build in builds.items()
    }
    compare(f"build of {rows}, s", each("seconds"), "{:.1f}", at_most=1 / 4)
    compare(f"index size of {rows}, MB", each("size", 1e6), "{:.1f}", at_most=1 / 5)
    runs = measure(bench.sides, wire(queries), clients, ROUNDS)
    curves = {name: points(made, truth, "cpu") for name, made in runs.items()}
    for name, curve in curves.items():
        note(f"{name}: ef_search, recall@10, server CPU a query")
        for ef, (found, cpu) in zip(EFS, curve):
            note(f"   {ef:4}  {found:.4f}  {cpu:7.0f} µs")
    for wanted in RECALLS:
        value = {name: at(curve, wanted) for name, curve in curves.items()}
        compare(f"{rows}: server CPU a query at recall@10 {wanted}, µs", value, at_most=1 / 4)
    for side in bench.sides:
        clients[side.name].close()
        if side.name == "rag":
            check(bench.connection, f"{side.name}_wide_embedding", f"over {rows}")
        bench.connection.execute(f"DROP TABLE {side.name}_wide")


def choices(side, table, client, query):
    """Reports the plans that the planner chooses without restrictions."""
    for limit in LIMITS:
        statement = side.query(table, literal=text(query)).replace("LIMIT 10", f"LIMIT {limit}")
        indexed = any("Index Name" in node for node in client.plan(statement))
        target, met = ("index", indexed) if side.name == "rag" else ("", None)
        row(
            f"{side.name}: plan of LIMIT {limit} over {ROWS:,} x {DIMENSIONS}",
            "index" if indexed else "sort of all rows",
            target=target,
            met=met,
        )
