"""Deletes half of the rows and inserts them again, with VACUUM after each: recall must stay."""

import time
from dataclasses import dataclass

from ann.bench import measure_recall, prepare
from ann.build import create_index
from ann.insert import FIRST
from ann.report import compare
from support.index import check
from support.results import note, row

EFS = [40, 80, 160]
LIMIT = 0.01


@dataclass
class Churn:
    fresh: dict  # ef -> recall
    after: dict
    seconds: dict  # step -> time


def run(bench):
    made = {side.name: churn(bench, side) for side in bench.sides}
    for step in STEPS:
        compare(
            f"churn: {step}, s", {name: each.seconds[step] for name, each in made.items()}, "{:.1f}"
        )
    show = lambda each, ef: f"{each.after[ef]:.4f} (fresh {each.fresh[ef]:.4f})" if each else ""
    rag, peer = made.get("rag"), made.get("pgvector")
    for ef in EFS:
        met = rag.fresh[ef] - rag.after[ef] <= LIMIT if rag else None
        row(
            f"churn: recall@10 at ef_search {ef}",
            show(rag, ef),
            show(peer, ef),
            target=f"within {LIMIT} of fresh",
            met=met,
        )


STEPS = {
    "delete half": "DELETE FROM {table} WHERE id IN (SELECT id FROM gone)",
    "vacuum": "VACUUM {table}",
    "insert them again": "INSERT INTO {table} SELECT * FROM gone",
    "vacuum again": "VACUUM {table}",
}


def churn(bench, side):
    connection, table = bench.connection, side.table
    # what the inserts left
    connection.execute(f"DELETE FROM {table} WHERE id >= {FIRST}")
    connection.execute(f"DROP INDEX IF EXISTS {side.index}")
    connection.execute(f"VACUUM {table}")
    built = create_index(side, table)
    fresh = recalls(bench, side)
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"CREATE TABLE gone AS SELECT * FROM {table} ORDER BY random() "
        f"LIMIT {len(bench.data.base) // 2}"
    )
    connection.execute("ANALYZE gone")
    seconds = {}
    for step, statement in STEPS.items():
        started = time.perf_counter()
        connection.execute(statement.format(table=table))
        seconds[step] = time.perf_counter() - started
        note(f"{side.name}: {step}: {seconds[step]:.1f} s")
    connection.execute("DROP TABLE gone")
    size = connection.execute("SELECT pg_relation_size(%s)", [side.index]).fetchone()[0]
    note(f"{side.name}: the index has {size / 1e6:.1f} MB, fresh {built.size / 1e6:.1f} MB")
    if side.name == "rag":
        check(connection, side.index, "after churn")
    return Churn(fresh, recalls(bench, side), seconds)


def recalls(bench, side):
    client = bench.client(side)
    prepare(client, side, side.table, bench.data.queries[0])
    found = {}
    for ef in EFS:
        client.set({side.ef_setting: ef})
        found[ef] = measure_recall(bench, client)
    client.close()
    return found
