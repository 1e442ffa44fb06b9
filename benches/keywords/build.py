"""Building: time, size, memory and write-ahead log."""

import time
from dataclasses import dataclass

from keywords import tantivy
from keywords.bench import QUICK, maintenance
from keywords.report import versus
from keywords.sides import ALL, PLAIN, RAG, TANTIVY
from support.index import check, log_position
from support.process import Meter
from support.results import median, note

ROUNDS = 1 if QUICK else 3
# rag's to the peer's
TIME = {"textsearch": 0.8}
SIZE = {"textsearch": 0.45, TANTIVY: 1.1}


@dataclass
class Build:
    steps: dict  # step -> seconds
    cpu: float
    peak: int
    log: int
    size: int
    processes: int

    @property
    def seconds(self):
        return sum(self.steps.values())


def create_index(side, table="chunks"):
    """Makes the index in a session of its own."""
    index = f"{table}_body"
    with maintenance(side) as connection:
        connection.execute("CHECKPOINT")
        log, steps = log_position(connection), {}
        with Meter(connection.info.backend_pid) as meter:
            for what, statement in side.statements(table, index).items():
                started = time.perf_counter()
                connection.execute(statement)
                steps[what] = time.perf_counter() - started
        log = log_position(connection) - log
        size = connection.execute(
            "SELECT " + side.size.format(table=table, index=index)
        ).fetchone()[0]
        connection.execute(f"VACUUM ANALYZE {table}")
    return Build(steps, meter.cpu, meter.peak, log, int(size), 1 + len(meter.workers))


def tell(side, build):
    steps = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in build.steps.items())
    note(
        f"{side.label}: {steps}; {build.cpu:.1f} s of CPU in {build.processes} processes, "
        f"{build.size / 1e6:.1f} MB, {build.log / 1e6:.1f} MB of log, "
        f"peak memory {build.peak / 1e6:.0f} MB"
    )


def ensure_index(bench, side):
    if bench.of(side).execute("SELECT to_regclass('chunks_body')").fetchone()[0] is None:
        create_index(side)


def run(bench):
    builds = {side.name: [] for side in bench.sides}
    for number in range(ROUNDS):
        for side in bench.sides:
            if number == 0 or not side.is_slow:
                bench.of(side).execute("DROP INDEX IF EXISTS chunks_body")
                builds[side.name].append(create_index(side))
                tell(side, builds[side.name][-1])
    started = time.perf_counter()
    bench.of(PLAIN).execute("SELECT count(to_tsvector('english', body)) FROM chunks")
    note(f"to_tsvector of all chunks in one process: {time.perf_counter() - started:.1f} s")
    middle = lambda name, what: (
        median(getattr(build, what) for build in builds[name]) if name in builds else None
    )
    ours, size = middle(RAG.name, "seconds"), middle(RAG.name, "size")
    size = size and size / 1e6
    rows = f"{len(bench.documents):,} chunks"
    for side in filter(bench.has, ALL[1:]):
        label = side.label + " and tsvectors" * (len(side.build) > 1)
        theirs = middle(side.name, "seconds")
        versus(f"build of {rows}, s", ours, label, theirs, at_most=TIME.get(side.name))
        theirs = middle(side.name, "size") / 1e6
        versus("index size, MB", size, label, theirs, at_most=SIZE.get(side.name))
    if bench.has_tantivy:
        seconds, theirs = tantivy.build(bench.documents)
        versus("build, s; peer without to_tsvector", ours, TANTIVY, seconds)
        versus("index size, MB", size, TANTIVY, theirs / 1e6, at_most=SIZE[TANTIVY])
    if bench.has(RAG):
        check(bench.of(RAG), "chunks_body", "after the build")
