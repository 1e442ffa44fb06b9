"""The cost and the result of VACUUM.

Measured after a tenth of the rows was deleted as clusters, after a non-HOT update of all rows, and
with the index not in memory.
"""

import time

import numpy
import psycopg

from ann.bench import QUICK, prepare
from ann.build import create_index
from ann.dataset import SEED, perturbed, wire
from ann.insert import FIRST, insert, inserter
from ann.report import compare
from support.client import search
from support.index import check
from support.results import median, note, row

CLUSTERS = 10
QUERIES = 50 if QUICK else 500
INSERTS = 20 if QUICK else 100
# What a query or an insert may take more than before, or than with a fresh index.
NEAR_DELETED = 2.0
AFTER_UPDATE = 1.2


def run(bench):
    after_deletion(bench)
    after_update(bench)
    if bench.sides[0].name == "rag":
        cold_repair(bench, bench.sides[0])


def after_deletion(bench):
    gone = clusters(bench.data.base)
    near = perturbed(
        bench.data.base[numpy.random.default_rng(SEED).choice(gone, QUERIES + 2 * INSERTS)],
        seed=2000,
    )
    queries, inserts = wire(near[:QUERIES]), wire(near[QUERIES:])
    made = {}
    for side in bench.sides:
        table = fresh_table(bench, side)
        before = cpu_of_queries(bench, side, queries), cpu_of_inserts(
            bench, side, FIRST, inserts[:INSERTS]
        )
        keep(bench, side, gone)
        bench.connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM gone)")
        seconds = vacuum(bench, table)
        after = cpu_of_queries(bench, side, queries), cpu_of_inserts(
            bench, side, FIRST + INSERTS, inserts[INSERTS:]
        )
        note(
            f"{side.name}: near the deleted rows a query took {before[0]:.0f} µs before "
            f"and {after[0]:.0f} after, "
            f"an insert {before[1]:.0f} and {after[1]:.0f}"
        )
        made[side.name] = seconds, before, after
        if side.name == "rag":
            check(bench.connection, side.index, "after clusters were deleted")
        bench.connection.execute(f"INSERT INTO {table} SELECT * FROM gone")
        bench.connection.execute("DROP TABLE gone")
    deleted = f"a tenth deleted as {CLUSTERS} clusters"
    compare(f"{deleted}: vacuum, s", {name: each[0] for name, each in made.items()}, "{:.1f}")
    for i, what in enumerate(["query", "insert"]):
        compare(
            f"{deleted}: server CPU of a {what} there, µs",
            {name: each[2][i] for name, each in made.items()},
        )
        compare_growth(
            f"{deleted}: a {what} there to before",
            made,
            lambda each: each[2][i] / each[1][i],
            NEAR_DELETED,
        )


def after_update(bench):
    made = {}
    for side in bench.sides:
        table = fresh_table(bench, side)
        fresh = index_bytes(bench, side), cpu_of_queries(
            bench, side, wire(bench.data.queries[:QUERIES])
        )
        # with the column indexed no update of it is HOT
        bench.connection.execute(f"CREATE INDEX {table}_bucket ON {table} (bucket)")
        bench.connection.execute(f"UPDATE {table} SET bucket = bucket + 1")
        seconds = vacuum(bench, table)
        after = index_bytes(bench, side), cpu_of_queries(
            bench, side, wire(bench.data.queries[:QUERIES])
        )
        made[side.name] = seconds, fresh, after
        if side.name == "rag":
            check(bench.connection, side.index, "after an update of all rows")
        bench.connection.execute(f"UPDATE {table} SET bucket = bucket - 1")
        bench.connection.execute(f"DROP INDEX {table}_bucket")
    updated = "all rows updated, not HOT"
    compare(f"{updated}: vacuum, s", {name: each[0] for name, each in made.items()}, "{:.1f}")
    compare(
        f"{updated}: server CPU of a query, µs", {name: each[2][1] for name, each in made.items()}
    )
    for i, what in enumerate(["index size", "CPU of a query"]):
        compare_growth(
            f"{updated}: {what} to fresh", made, lambda each: each[2][i] / each[1][i], AFTER_UPDATE
        )


def cold_repair(bench, side):
    """Measures how often a page is read if none is in shared buffers at the start."""
    try:
        bench.connection.execute("CREATE EXTENSION IF NOT EXISTS pg_buffercache SCHEMA public")
        evict = "SELECT * FROM public.pg_buffercache_evict_relation(%s::regclass)"
        table = fresh_table(bench, side)
        keep(bench, side, numpy.flatnonzero(numpy.arange(len(bench.data.base)) % 5 == 0))
        bench.connection.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM gone)")
        bench.connection.execute("CHECKPOINT")
        bench.connection.execute(evict, [side.index])
    except psycopg.Error as error:
        note(f"cold repair: {error}".strip())
        return
    before = blocks(bench, side)
    seconds = vacuum(bench, table)
    hit, read = (now - then for now, then in zip(blocks(bench, side), before))
    pages = index_bytes(bench, side) / 8192
    note(f"cold repair: {hit:,} hits, {read:,} reads of {pages:,.0f} pages")
    row("cold repair, a fifth deleted, s", f"{seconds:.1f}")
    row(
        "cold repair: reads of a page",
        f"{read / pages:.1f}",
        target="<= 10",
        met=read <= 10 * pages,
    )
    bench.connection.execute(f"INSERT INTO {table} SELECT * FROM gone")
    bench.connection.execute("DROP TABLE gone")


def clusters(base):
    """Returns a tenth of the rows: those nearest to a few of them."""
    unit = base / numpy.linalg.norm(base, axis=1, keepdims=True)
    found = numpy.array([], dtype=int)
    for centre in numpy.random.default_rng(SEED).choice(len(base), CLUSTERS, replace=False):
        order = numpy.argsort(-(unit @ unit[centre]))
        order = order[~numpy.isin(order, found)]
        found = numpy.concatenate([found, order[: len(base) // (10 * CLUSTERS)]])
    return found


def fresh_table(bench, side):
    """Fills the table again and builds a fresh index."""
    bench.connection.execute(f"DELETE FROM {side.table} WHERE id >= {FIRST}")
    bench.connection.execute(f"DROP INDEX IF EXISTS {side.index}")
    bench.connection.execute(f"VACUUM {side.table}")
    create_index(side, side.table)
    return side.table


def keep(bench, side, ids):
    """Copies these rows of the table to `gone`."""
    bench.connection.execute("DROP TABLE IF EXISTS gone")
    statement = (
        f"CREATE TABLE gone AS SELECT t.* FROM {side.table} t "
        "JOIN unnest(%s::int[]) AS g (id) USING (id)"
    )
    with psycopg.ClientCursor(bench.connection) as cursor:
        cursor.execute(statement, [ids.tolist()])
    bench.connection.execute("ANALYZE gone")


def vacuum(bench, table):
    started = time.perf_counter()
    bench.connection.execute(f"VACUUM {table}")
    return time.perf_counter() - started


def cpu_of_queries(bench, side, queries):
    client = bench.client(side)
    prepare(client, side, side.table, bench.data.queries[0])
    search(client, queries)
    cpu = median(search(client, queries).cpu for _ in range(3))
    client.close()
    return cpu


def cpu_of_inserts(bench, side, first, vectors):
    client = inserter(bench, side, side.table)
    cpu, _ = insert(client, [(first + i, vector) for i, vector in enumerate(vectors)])
    client.close()
    return cpu


def compare_growth(figure, made, growth, limit):
    rag = growth(made["rag"]) if "rag" in made else None
    compare(
        figure,
        {name: growth(each) for name, each in made.items()},
        "{:.2f}",
        target=f"<= {limit}",
        met=None if rag is None else rag <= limit,
    )


def index_bytes(bench, side):
    return bench.connection.execute(
        "SELECT pg_relation_size(%s::regclass)", [side.index]
    ).fetchone()[0]


def blocks(bench, side):
    bench.connection.execute("SELECT pg_stat_force_next_flush()")
    counted = (
        "SELECT idx_blks_hit, idx_blks_read FROM pg_statio_user_indexes "
        "WHERE indexrelid = %s::regclass"
    )
    return bench.connection.execute(counted, [side.index]).fetchone()
