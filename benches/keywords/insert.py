"""Single inserts: rows per second and write-ahead log, and what they leave."""

import struct
import time

from keywords.bench import BUCKETS, session, wire
from keywords.build import ensure_index
from keywords.report import versus
from keywords.search import ask_prepared, times
from keywords.sides import ALL, PLAIN, RAG
from support.client import search
from support.index import check, log_position
from support.process import together
from support.results import note, row

ROUNDS = 4
# ids that no chunk has
FIRST = 10_000_000
# rag's to the peer's
RATE = {"gin": 1.7}
LOG = {"gin": 0.21}


def run(bench):
    sides = [PLAIN, *bench.sides]
    for side in bench.sides:
        ensure_index(bench, side)
    clients = {side: inserter(side) for side in sides}
    before = speed_and_size(bench) if bench.has(RAG) else None
    bench.of(PLAIN).execute("CHECKPOINT")
    seconds, log, slowest = ({side: 0 for side in sides} for _ in range(3))
    share = len(bench.held) // ROUNDS
    for number in range(ROUNDS):
        rows = [
            (struct.pack(">i", FIRST + i), bench.held[i].encode())
            for i in range(number * share, (number + 1) * share)
        ]
        for side in sides[:: -1 if number % 2 else 1]:
            position = log_position(bench.of(side))
            waits = insert(clients[side], rows)
            log[side] += log_position(bench.of(side)) - position
            seconds[side] += sum(waits)
            slowest[side] = max(slowest[side], *waits)
    for client in clients.values():
        client.close()
    count = share * ROUNDS
    rate = {side: count / seconds[side] for side in sides}
    log = {side: log[side] / count for side in sides}
    for side in sides:
        note(
            f"{count:,} inserts, {side.label}: {rate[side]:,.0f} rows/s, "
            f"{log[side]:,.0f} bytes of log a row, slowest {slowest[side] * 1000:.1f} ms"
        )
    for side in [PLAIN, *filter(bench.has, ALL[1:])]:
        versus(
            "single inserts, rows/s",
            rate.get(RAG),
            side.label,
            rate[side],
            "{:,.0f}",
            at_least=RATE.get(side.name),
        )
        versus(
            "log of an insert, bytes",
            log.get(RAG),
            side.label,
            log[side],
            "{:,.0f}",
            at_most=LOG.get(side.name),
        )
    if bench.has(RAG):
        check(bench.of(RAG), "chunks_body", "after inserts")
        after_inserts(bench, before)


def inserter(side):
    client = session(side)
    # the disk's time is the same for all, and would hide the rest
    client.set({"synchronous_commit": "off"})
    # no filter selects the new rows
    client.prepare(
        f"INSERT INTO chunks (id, bucket, body) VALUES ($1::integer, {BUCKETS}, $2::text)"
    )
    return client


def insert(client, rows):
    """Returns the client's wait for each row, in seconds."""
    waits = []
    with together(client.pid):
        for parameters in rows:
            asked = time.perf_counter()
            client.run(*parameters)
            waits.append(time.perf_counter() - asked)
    return waits


def speed_and_size(bench):
    """Returns the milliseconds of queries of rag, and the megabytes of its index."""
    client, _ = ask_prepared(RAG, bench.queries[0])
    parameters = wire(RAG, bench.queries)
    search(client, parameters)
    made = times([search(client, parameters).waits for _ in range(3)])
    client.close()
    size = bench.of(RAG).execute("SELECT pg_relation_size('chunks_body')").fetchone()[0]
    return made, size / 1e6


def after_inserts(bench, before):
    states = {"after inserts": speed_and_size(bench)}
    bench.of(RAG).execute("VACUUM chunks")
    states["after inserts and VACUUM"] = speed_and_size(bench)
    tell = lambda made, size: f"{made.p50:.3f} and {made.p99:.3f} ms, {size:.1f} MB"
    note(f"before inserts: top 10 in {tell(*before)}")
    for what, state in states.items():
        row(f"top 10, p50 and p99, and index size, {what}", tell(*state))
    check(bench.of(RAG), "chunks_body", "after VACUUM")
