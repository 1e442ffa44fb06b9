"""Recall and server CPU of a query by ef_search; queries per second of one and two clients."""

import math
import multiprocessing
import time

from ann.bench import EFS, QUICK, ROUNDS, measure_recall, prepare, session
from ann.build import ensure_index
from ann.dataset import recall, wire
from ann.plots import plot_recall
from ann.report import at, compare
from ann.sides import turns
from support.client import search
from support.results import median, note

SECONDS = 1 if QUICK else 4
# recall -> highest ratio of rag's CPU to pgvector's
RECALLS = {0.95: 1 / 8, 0.99: 1 / 12}


def measure(sides, vectors, clients, rounds):
    """Returns side name -> ef -> runs, the sides in turns."""
    runs = {side.name: {ef: [] for ef in EFS} for side in sides}
    for side in sides:
        for _ in range(2):  # statement planned, pages in shared buffers
            search(clients[side.name], vectors)
    for number in range(rounds):
        for ef in EFS:
            for side in turns(sides, number):
                clients[side.name].set({side.ef_setting: ef})
                runs[side.name][ef].append(search(clients[side.name], vectors))
    return runs


def points(runs, truth, what):
    """Returns (recall, median of a figure) for each ef."""
    return [
        (recall(made[0].found, truth), median(getattr(run, what) for run in made))
        for made in runs.values()
    ]


def run(bench):
    vectors = wire(bench.data.queries)
    clients = {side.name: bench.client(side) for side in bench.sides}
    for side in bench.sides:
        ensure_index(bench, side)
        note(f"{side.name}: {prepare(clients[side.name], side, side.table, bench.data.queries[0])}")
    runs = measure(bench.sides, vectors, clients, ROUNDS)
    truth = bench.data.truth
    curves = {name: points(made, truth, "cpu") for name, made in runs.items()}
    waits = {name: points(made, truth, "p50") for name, made in runs.items()}
    for name, curve in curves.items():
        note(f"{name}: ef_search, recall@10, server CPU a query, client's median wait")
        for ef, (found, cpu), (_, wait) in zip(EFS, curve, waits[name]):
            note(f"   {ef:4}  {found:.4f}  {cpu:7.0f} µs  {wait:7.0f} µs")
    for side in bench.sides:
        note(
            f"{side.name}: {overhead(side, clients[side.name], vectors):.0f} µs of CPU "
            "for a statement that only receives the vector"
        )
        clients[side.name].close()
    for wanted, limit in RECALLS.items():
        value = lambda lines: {name: at(line, wanted) for name, line in lines.items()}
        compare(f"server CPU a query at recall@10 {wanted}, µs", value(curves), at_most=limit)
        compare(f"client's median wait at recall@10 {wanted}, µs", value(waits))
    plot_recall(
        "hnsw-recall.svg",
        f"{len(bench.data.base):,} vectors, {bench.data.base.shape[1]} dimensions, recall@10",
        {name: list(zip(EFS, curve)) for name, curve in curves.items()},
    )
    throughput(
        bench,
        {
            name: at(list(zip([found for found, _ in curve], EFS)), 0.95)
            for name, curve in curves.items()
        },
    )


def overhead(side, client, vectors):
    client.prepare(f"SELECT 1 WHERE $1::{side.type} IS NULL")
    search(client, vectors)
    return search(client, vectors).cpu


def throughput(bench, efs):
    """Measures each side at the ef that gives it recall .95."""
    sides = [side for side in bench.sides if efs[side.name] is not None]
    efs = {side.name: math.ceil(efs[side.name]) for side in sides}
    for side in sides:
        client = bench.client(side)
        prepare(client, side, side.table, bench.data.queries[0])
        client.set({side.ef_setting: efs[side.name]})
        note(
            f"{side.name}: recall {measure_recall(bench, client):.4f} at ef_search {efs[side.name]}"
        )
        client.close()
    for clients in [1, 2]:
        rates = {side.name: [] for side in sides}
        for number in range(ROUNDS):
            for side in turns(sides, number):
                rates[side.name].append(rate(side, efs[side.name], bench.data.queries, clients))
        compare(
            f"queries per second of {clients} client{'s' * (clients > 1)} at .95",
            {name: median(made) for name, made in rates.items()},
            at_least=5,
        )


def rate(side, ef, queries, clients):
    """Returns the queries per second of `clients` processes together."""
    context = multiprocessing.get_context("spawn")
    ready, counts = context.Barrier(clients), context.Queue()
    arguments = [
        (side, ef, queries[0], wire(queries[number::clients]), ready, counts)
        for number in range(clients)
    ]
    processes = [context.Process(target=keep_asking, args=each) for each in arguments]
    for process in processes:
        process.start()
    rates = [counts.get(timeout=60 + SECONDS) for _ in processes]
    for process in processes:
        process.join()
    return sum(rates)


def keep_asking(side, ef, first, vectors, ready, counts):
    client = session()
    client.set({side.ef_setting: side.default_ef})
    prepare(client, side, side.table, first)
    client.set({side.ef_setting: ef})
    for vector in vectors:
        client.run(vector)
    ready.wait(60)
    began, asked = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        client.run(vectors[asked % len(vectors)])
        asked += 1
    counts.put(asked / (time.perf_counter() - began))
    client.close()
