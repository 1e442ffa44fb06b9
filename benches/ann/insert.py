"""Time and log of single inserts, minus those of a table without an index."""

import struct
import time

from ann.bench import QUICK
from ann.build import ensure_index
from ann.dataset import BUCKETS, SEED, fill, perturbed, wire
from ann.report import compare
from ann.sides import turns
from support.client import Client
from support.index import check, log_position
from support.process import cpu_nanoseconds, together
from support.results import median, note

import numpy

ROUNDS = 4
ROWS = 25 if QUICK else 125
# ids that no base vector has
FIRST = 10_000_000


def run(bench):
    rows = 2 * ROUNDS * ROWS
    sources = numpy.random.default_rng(SEED).choice(len(bench.data.base), rows, replace=False)
    vectors = wire(perturbed(bench.data.base[sources], seed=1000))
    clients = {}
    for side in bench.sides:
        ensure_index(bench, side)
        clients[side.name] = inserter(bench, side, side.table)
    # both types have the same bytes: one table without an index does for both
    side = bench.sides[0]
    fill(
        bench.connection,
        "plain_items",
        side.type,
        {"id": bench.data.ids, "bucket": bench.data.buckets},
        bench.data.base,
    )
    clients["no index"] = inserter(bench, side, "plain_items")
    for images in [False, True]:
        start = ROUNDS * ROWS * images
        measure(bench, clients, images, FIRST + start, vectors[start : start + ROUNDS * ROWS])
    for client in clients.values():
        client.close()
    bench.connection.execute("DROP TABLE plain_items")
    if bench.sides[0].name == "rag":
        check(bench.connection, bench.sides[0].index, "after inserts")


def inserter(bench, side, table):
    client = bench.client(side)
    # the disk's time is the same for both, and would hide the rest
    client.set({"synchronous_commit": "off"})
    # no filter selects the new rows, which are not part of the truth
    client.prepare(
        f"INSERT INTO {table} (id, bucket, embedding) "
        f"VALUES ($1::integer, {BUCKETS}, $2::{side.type})"
    )
    return client


def measure(bench, clients, images, first, vectors):
    """Runs rounds of ROWS inserts into each table, each round after a checkpoint."""
    set_page_images(bench.connection, images)
    runs = {name: [] for name in clients}
    for number in range(ROUNDS):
        part = range(number * ROWS, (number + 1) * ROWS)
        bench.connection.execute("CHECKPOINT")
        for name in turns(list(clients), number):
            log = log_position(bench.connection)
            cpu, waits = insert(clients[name], [(first + i, vectors[i]) for i in part])
            runs[name].append((cpu, waits, (log_position(bench.connection) - log) / ROWS))
    set_page_images(bench.connection, True)
    state = "after a checkpoint" if images else "no page images"
    cpu, waits, log = (
        {name: median(run[i] for run in made) for name, made in runs.items()} for i in range(3)
    )
    for name in clients:
        note(
            f"insert, {state}, {name}: {cpu[name]:.0f} µs of CPU, {waits[name]:.0f} µs wait, "
            f"{log[name]:.0f} bytes of log"
        )
    for figure, values in [
        ("server CPU, µs", cpu),
        ("client's wait, µs", waits),
        ("write-ahead log, bytes", log),
    ]:
        share = {side.name: values[side.name] - values["no index"] for side in bench.sides}
        compare(
            f"insert, {state}: {figure} for the index",
            share,
            at_most=None if figure.startswith("client") else 1 / 2,
        )


def insert(client: Client, rows):
    """Returns CPU and median wait of an insert, in microseconds."""
    waits = []
    with together(client.pid):
        cpu = cpu_nanoseconds(client.pid)
        for id, vector in rows:
            asked = time.perf_counter()
            client.run(struct.pack(">i", id), vector)
            waits.append(time.perf_counter() - asked)
        cpu = cpu_nanoseconds(client.pid) - cpu
    return cpu / 1000 / len(rows), median(waits) * 1e6


def set_page_images(connection, on):
    """Whether the first change of a page after a checkpoint logs the whole page."""
    connection.execute(f"ALTER SYSTEM SET full_page_writes = {'on' if on else 'off'}")
    connection.execute("SELECT pg_reload_conf()")
    while connection.execute("SHOW full_page_writes").fetchone()[0] != ("on" if on else "off"):
        time.sleep(0.05)
    # it is the checkpointer that tells the others
    time.sleep(0.5)
    connection.execute("CHECKPOINT")
