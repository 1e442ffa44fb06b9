"""Shared by the parts: a database with both extensions, its tables, and the amount to measure."""

import os
from dataclasses import dataclass

import psycopg

from ann import dataset
from ann.sides import Side, chosen
from support.client import Client, search
from support.database import connect
from support.results import note

DATABASE = "bench"
# A few minutes on a tenth of the rows, to try things out: its figures mean little.
QUICK = os.environ.get("BENCH_HNSW_QUICK") == "1"
ROUNDS = 1 if QUICK else 3
EFS = [10, 16, 24, 32, 40, 50, 64, 80, 120, 160, 240, 320, 480]
MEMORY = "1GB"
# With the backend itself one process a core.
WORKERS = max(0, os.cpu_count() - 1)


@dataclass
class Bench:
    connection: psycopg.Connection
    sides: list[Side]
    data: dataset.Dataset

    def client(self, side):
        """Opens a session of one side with its default ef."""
        client = session()
        client.set({side.ef_setting: side.default_ef})
        return client

    def has_index(self, side):
        return self.connection.execute(
            "SELECT to_regclass(%s) IS NOT NULL", [side.index]
        ).fetchone()[0]


def session():
    client = Client(DATABASE)
    client.execute(SESSION)
    return client


# Operator classes are looked up by their access method, so that the order does not matter. Work of
# parallel workers would not be seen in the backend's time.
SESSION = """SET search_path = public, rag, pgvector;
    SET max_parallel_workers_per_gather = 0;
    SET jit = off"""


def open_database(sides):
    with connect() as admin:
        admin.execute(f"CREATE DATABASE {DATABASE}")
    connection = connect(DATABASE)
    connection.execute("CREATE SCHEMA pgvector")
    connection.execute("CREATE EXTENSION vector SCHEMA pgvector")
    libraries = ["vector"]
    if any(side.name == "rag" for side in sides):
        connection.execute("CREATE EXTENSION rag")
        libraries.append("rag")
    # a setting of a library that is not loaded yet is not checked
    connection.execute(
        f"ALTER DATABASE {DATABASE} SET session_preload_libraries = {', '.join(libraries)}"
    )
    connection.close()
    return maintenance(MEMORY)


def maintenance(memory):
    """Opens a session for everything that is not measured by the query."""
    connection = connect(DATABASE)
    connection.execute(SESSION)
    connection.execute(f"SET maintenance_work_mem = '{memory}'")
    connection.execute(f"SET max_parallel_maintenance_workers = {WORKERS}")
    return connection


def open_bench():
    sides = chosen("rag pgvector")
    connection = open_database(sides)
    data = dataset.dataset(10_000 if QUICK else 100_000, 200 if QUICK else 1000)
    for side in sides:
        dataset.fill(
            connection, side.table, side.type, {"id": data.ids, "bucket": data.buckets}, data.base
        )
    note(
        f"{len(data.base):,} rows, {data.base.shape[1]} dimensions, {len(data.queries):,} queries; "
        f"{os.cpu_count()} processors, {WORKERS} parallel maintenance workers, "
        f"maintenance_work_mem {MEMORY}"
    )
    return Bench(connection, sides, data)


def prepare(client, side, table, query):
    """Prepares the search at the session's ef, at which the planner must choose the index.

    The plan is kept when ef changes. Returns its description.
    """
    plan = client.plan(side.query(table, literal=dataset.text(query)))
    described = " under ".join(node.get("Index Name", node["Node Type"]) for node in reversed(plan))
    assert f"{table}_embedding" in described, f"{side.name}: the planner chose {described}"
    client.prepare(side.query(table))
    client.run(*dataset.wire(query[None]))
    return described


def measure_recall(bench, client):
    """Returns the recall of the prepared statement."""
    return dataset.recall(search(client, dataset.wire(bench.data.queries)).found, bench.data.truth)
