"""Building: time, size, memory and write-ahead log."""

import time
from dataclasses import dataclass, field

from ann.bench import MEMORY, ROUNDS, maintenance, measure_recall, prepare
from ann.report import compare
from ann.sides import turns
from support.index import check, log_position
from support.process import Meter
from support.results import median, note, row


@dataclass
class Build:
    seconds: float
    cpu: float
    peak: int
    log: int
    size: int
    # (seconds after the start, text)
    notices: list = field(default_factory=list)
    processes: int = 1


def create_index(side, table, memory=MEMORY):
    """Builds the index again, in a session of its own."""
    index = f"{table}_embedding"
    with maintenance(memory) as connection:
        connection.execute(f"DROP INDEX IF EXISTS {index}")
        connection.execute("CHECKPOINT")
        statement = (
            f"CREATE INDEX {{}} ON {{}} USING {side.method} (embedding vector_cosine_ops) "
            f"WITH ({side.options})"
        )
        # what any first index takes of a session's memory, catalogs above all, is not the build's
        connection.execute(f"CREATE TEMPORARY TABLE empty (LIKE {table})")
        connection.execute(statement.format("empty_embedding", "empty"))
        notices = []
        connection.add_notice_handler(
            lambda notice: notices.append((time.perf_counter() - started, wording(notice)))
        )
        log = log_position(connection)
        with Meter(connection.info.backend_pid) as meter:
            started = time.perf_counter()
            connection.execute(statement.format(index, table))
            seconds = time.perf_counter() - started
        log = log_position(connection) - log
        size = connection.execute("SELECT pg_relation_size(%s)", [index]).fetchone()[0]
    return Build(seconds, meter.cpu, meter.peak, log, size, notices, 1 + len(meter.workers))


def wording(notice):
    return ". ".join(
        filter(None, [notice.message_primary, notice.message_detail, notice.message_hint])
    )


def tell(build):
    for when, text in build.notices:
        note(f"after {when:.1f} s: {text}")


def ensure_index(bench, side):
    if not bench.has_index(side):
        create_index(side, side.table)


def run(bench):
    small = {side.name: build_in_little_memory(bench, side) for side in bench.sides}
    builds = {side.name: [] for side in bench.sides}
    for number in range(ROUNDS):
        for side in turns(bench.sides, number):
            build = create_index(side, side.table)
            builds[side.name].append(build)
            note(
                f"{side.name} ({side.options}): {build.seconds:.1f} s, {build.cpu:.1f} s of CPU "
                f"in {build.processes} processes"
            )
            tell(build)
    rows = f"{len(bench.data.base):,} rows"
    middle = lambda what: {
        name: median(getattr(build, what) for build in made) for name, made in builds.items()
    }
    each = lambda what, scale: {name: value / scale for name, value in middle(what).items()}
    compare(f"build of {rows}, s", middle("seconds"), "{:.1f}", at_most=1 / 4)
    compare("build, s of CPU in all processes", middle("cpu"), "{:.1f}")
    compare("index size, MB", each("size", 1e6), "{:.1f}", at_most=1 / 5)
    compare("index size, bytes a row", each("size", len(bench.data.base)))
    compare("write-ahead log of the build, MB", each("log", 1e6), "{:.1f}")
    peak = middle("peak")
    limit = setting_bytes(bench.connection, MEMORY)
    compare(
        f"peak memory of the build, MB, of {MEMORY}",
        each("peak", 1e6),
        "{:.1f}",
        target=f"<= {limit / 1e6:.0f}",
        met=peak["rag"] <= limit if "rag" in peak else None,
    )
    if "rag" in builds:
        check(bench.connection, bench.sides[0].index, "after the build")
    report_little_memory(bench, small)


def setting_bytes(connection, memory):
    return connection.execute("SELECT pg_size_bytes(%s)", [memory]).fetchone()[0]


def little_memory(bench):
    """Returns a fraction of the memory that rag's graph needs."""
    return f"{max(1, len(bench.data.base) * 160 // 2**20)}MB"


def build_in_little_memory(bench, side):
    """Returns the build and the recall of its index."""
    memory = little_memory(bench)
    build = create_index(side, side.table, memory)
    client = bench.client(side)
    prepare(client, side, side.table, bench.data.queries[0])
    found = measure_recall(bench, client)
    client.close()
    if side.name == "rag":
        check(bench.connection, side.index, f"after a build in {memory}")
    return build, found


def report_little_memory(bench, small):
    memory = little_memory(bench)
    limit = setting_bytes(bench.connection, memory)
    builds = {name: build for name, (build, _) in small.items()}
    compare(
        f"build in {memory}, s",
        {name: build.seconds for name, build in builds.items()},
        "{:.1f}",
        at_most=1 / 4,
    )
    compare(
        f"build in {memory}, recall@10 as installed",
        {name: found for name, (_, found) in small.items()},
        "{:.4f}",
    )
    peak = {name: build.peak / 1e6 for name, build in builds.items()}
    compare(
        f"build in {memory}, peak memory, MB",
        peak,
        "{:.1f}",
        target=f"<= {limit / 1e6:.1f}",
        met=builds["rag"].peak <= limit if "rag" in builds else None,
    )
    for build in builds.values():
        tell(build)
    if "rag" in builds:
        build = builds["rag"]
        first = build.notices[0][0] if build.notices else None
        row(
            f"build in {memory}: says that the memory will not do",
            f"after {first:.1f} s" if build.notices else "never",
            target="in advance",
            met=first is not None and first < build.seconds / 2,
        )
