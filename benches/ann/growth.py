"""The growth of size, build and search from 100,000 vectors to ten times as many."""

import math
from dataclasses import dataclass

import numpy

from ann.bench import EFS, QUICK, ROUNDS, open_database, prepare, session
from ann.build import create_index, tell
from ann.curve import measure, points
from ann.dataset import Nearest, copy_rows, create_table, dataset, perturbed, text, wire
from ann.plots import plot_recall
from ann.report import at
from ann.sides import chosen
from support.index import check
from support.results import note, row

COPIES = 3 if QUICK else 10
QUERIES = 200
RECALL = 0.95
# queries whose pages are counted
COUNTED = 50


@dataclass
class Figures:
    rows: int
    build: float  # seconds
    build_cpu: float
    size: int
    peak: int
    ef: int  # the smallest with recall .95
    cpu: float  # at recall .95, microseconds a query
    pages: float  # accesses a query, in index and table, at ef
    curve: list


def run():
    sides = chosen("rag")
    connection = open_database(sides)
    data = dataset(10_000 if QUICK else 100_000, QUERIES)
    note(
        f"copies 2 to {COPIES} of the vectors are moved by seeded Gaussian noise of norm .3 "
        f"and scaled to length 1; {QUERIES} queries"
    )
    for side in sides:
        made = [grown(connection, side, data, copies) for copies in (1, COPIES)]
        report(side, *made)
        curves = {f"{figures.rows:,}": list(zip(EFS, figures.curve)) for figures in made}
        plot_recall(
            f"hnsw-growth-{side.name}.svg",
            f"{side.name}: {made[0].rows:,} and {made[1].rows:,} vectors",
            curves,
        )
    connection.close()


def grown(connection, side, data, copies):
    """Measures everything at one size and drops the table."""
    table = f"{side.name}_{copies}"
    size = len(data.base)
    truth = Nearest(data.queries)
    create_table(connection, table, side.type, ["id"], data.base.shape[1])
    for number in range(copies):
        ids = numpy.arange(number * size, (number + 1) * size)
        vectors = data.base if number == 0 else perturbed(data.base, number)
        copy_rows(connection, table, {"id": ids}, vectors)
        truth.add(ids, vectors)
    connection.execute(f"VACUUM ANALYZE {table}")
    index = f"{table}_embedding"
    build = create_index(side, table)
    note(
        f"{side.name}, {copies * size:,} rows: built in {build.seconds:.1f} s, "
        f"{build.cpu:.1f} s of CPU"
    )
    tell(build)
    client = session()
    client.set({side.ef_setting: side.default_ef})
    prepare(client, side, table, data.queries[0])
    runs = measure([side], wire(data.queries), {side.name: client}, ROUNDS)[side.name]
    client.close()
    curve = points(runs, truth.ids, "cpu")
    for ef, (found, cpu) in zip(EFS, curve):
        note(f"   {ef:4}  {found:.4f}  {cpu:7.0f} µs")
    ef = next((ef for ef, (found, _) in zip(EFS, curve) if found >= RECALL), EFS[-1])
    pages = count_pages(connection, side, table, data.queries[:COUNTED], ef)
    if side.name == "rag":
        check(connection, index, f"at {copies * size:,} rows")
    connection.execute(f"DROP TABLE {table}")
    return Figures(
        copies * size,
        build.seconds,
        build.cpu,
        build.size,
        build.peak,
        ef,
        at(curve, RECALL),
        pages,
        curve,
    )


def count_pages(connection, side, table, queries, ef):
    """Returns the mean buffer accesses of a query, for the index and for the rows."""
    connection.execute(f"SET {side.ef_setting} = {ef}")
    counts = []
    for query in queries:
        statement = side.query(table, literal=text(query))
        (plan,) = connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
        ).fetchone()[0]
        counts.append(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
    return sum(counts) / len(counts)


def report(side, small, large):
    scale = math.log(large.rows / small.rows)
    for figure, what, form, unit in [
        ("build, s", "build", "{:.1f}", 1),
        ("build, s of CPU", "build_cpu", "{:.1f}", 1),
        ("peak memory of the build, MB", "peak", "{:.1f}", 1e6),
        ("index size, MB", "size", "{:.1f}", 1e6),
        (f"server CPU a query at recall@10 {RECALL}, µs", "cpu", "{:.0f}", 1),
        (f"smallest measured ef_search with recall@10 {RECALL}", "ef", "{:.0f}", 1),
        ("pages touched a query at that ef_search", "pages", "{:.0f}", 1),
    ]:
        before, after = getattr(small, what), getattr(large, what)
        show = lambda value: "not reached" if value is None else form.format(value / unit)
        exponent = f", exponent {math.log(after / before) / scale:.2f}" if before and after else ""
        row(
            f"growth, {side.name}: {figure}",
            f"{show(before)} at {small.rows:,}; {show(after)} at {large.rows:,}{exponent}",
        )
