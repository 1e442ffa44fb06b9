"""Exact search over 100,000 vectors with rag_types.vector and with pgvector's vector in one server;
and the casts between the two."""

import time

import numpy
import psycopg

from ann import dataset
from support.database import connect
from support.results import median, note, row

RUNS = 31
WARM = 3
TABLES = {"rag": ("rag_items", "rag_types.vector"), "pgvector": ("pgvector_items",
    "pgvector.vector")}


def nearest(connection, which, vector):
    """Milliseconds, and the ids found."""
    table, kind = TABLES[which]
    operator = {"rag": "OPERATOR(public.<=>)", "pgvector": "OPERATOR(pgvector.<=>)"}[which]
    text = dataset.text(vector)
    started = time.perf_counter()
    found = connection.execute(
        f"SELECT id FROM {table} ORDER BY embedding {operator} %s::{kind} LIMIT 10", [text],
            prepare=True).fetchall()
    return (time.perf_counter() - started) * 1000, [id for (id,) in found]


def compare(connection, queries, truth, workers):
    connection.execute(f"SET max_parallel_workers_per_gather = {workers}")
    plan = connection.execute(
        "EXPLAIN SELECT id FROM rag_items ORDER BY embedding <=> (SELECT embedding FROM rag_items LIMIT 1) LIMIT 10"
    ).fetchall()
    parallel = any("Parallel" in line for (line,) in plan)
    times = {which: [] for which in TABLES}
    for run in range(-WARM, RUNS):
        vector = queries[run % len(queries)]
        found = {}
        for which in sorted(TABLES, reverse=run % 2 == 1):
            milliseconds, found[which] = nearest(connection, which, vector)
            if run >= 0:
                times[which].append(milliseconds)
        assert set(found["rag"]) == set(found["pgvector"]), (run, found)
        assert set(found["rag"]) == set(truth[run % len(queries)][:10].tolist()), (run, found)
    ratio = median(times["rag"]) / median(times["pgvector"])
    label = "parallel" if workers else "one process"
    if workers and not parallel:
        note("the planner chose no parallel plan")
    row(
        f"exact top 10 of 100,000, {label}, ms",
        f"{median(times['rag']):.1f}",
        f"{median(times['pgvector']):.1f} (pgvector {version(connection)})",
        ratio,
        "<= 1.50",
        ratio <= 1.5,
    )


def version(connection):
    return connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()[0]


def check_casts(extensions):
    """Both casts, with the extensions installed in this order and in the same schema; each can be
    dropped without the other."""
    with connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS casts WITH (FORCE)")
        admin.execute("CREATE DATABASE casts")
    connection = connect("casts")
    for extension in extensions:
        connection.execute(f"CREATE EXTENSION {extension}")
    if extensions[-1] == "vector":
        assert connection.execute("SELECT rag_pgvector_casts()").fetchone()[0]
    there = connection.execute(
        "SELECT ('[1,2.5,-3]'::rag_types.vector::vector)::text").fetchone()[0]
    back = connection.execute("SELECT ('[1,2.5,-3]'::vector::rag_types.vector)::text").fetchone()[0]
    assert there == back == "[1,2.5,-3]", (there, back)
    connection.execute("CREATE TABLE kept (v rag_types.vector)")
    connection.execute("INSERT INTO kept SELECT '[1,2]'::vector")
    connection.execute("DROP EXTENSION vector CASCADE")
    assert connection.execute("SELECT v <-> '[1,3]' FROM kept").fetchone()[0] == 1
    connection.execute("CREATE EXTENSION vector")
    connection.execute("SELECT rag_pgvector_casts()")
    connection.execute("SELECT '[1]'::vector::rag_types.vector")
    connection.execute("DROP EXTENSION rag CASCADE")
    connection.execute("SELECT '[1]'::vector")
    connection.close()


def main():
    connection = connect()
    connection.execute("CREATE SCHEMA pgvector")
    connection.execute("CREATE EXTENSION vector SCHEMA pgvector")
    connection.execute("CREATE EXTENSION rag")
    base, queries, truth = dataset.read()
    for table, kind in TABLES.values():
        dataset.fill(connection, table, kind, {"id": numpy.arange(len(base))}, base)
    sizes = [connection.execute("SELECT pg_table_size(%s)", [table]).fetchone()[0] for table,
        _ in TABLES.values()]
    assert sizes[0] == sizes[1], sizes
    for workers in [0, 2]:
        compare(connection, queries, truth, workers)
    connection.close()
    for extensions in [["vector", "rag"], ["rag", "vector"]]:
        figure = f"casts, {extensions[0]} before {extensions[1]}"
        try:
            check_casts(extensions)
        except psycopg.Error as error:
            note(f"{figure}: {error}")
            row(figure, "an error, see above", target="both ways", met=False)
        else:
            row(figure, "both ways", target="both ways", met=True)


main()
