"""tantivy in a process of its own, over the same terms: the program is in ../tantivy."""

import os
import subprocess

from support.database import SCRATCH

PROGRAM = os.environ.get("BENCH_TANTIVY", "")
FOLDER = os.path.join(SCRATCH, "tantivy")


def _run(command, lines):
    # on the processor on which backends are measured
    usual = os.sched_getaffinity(0)
    pin = lambda: os.sched_setaffinity(0, {max(usual)})
    return subprocess.run(
        [PROGRAM, command, FOLDER],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        check=True,
        text=True,
        preexec_fn=pin if command == "search" else None,
    ).stdout


def is_built():
    return os.path.exists(FOLDER)


def build(documents):
    """Returns seconds and bytes. `documents`: the terms of each, with repetitions."""
    lines = (f"{number}\t{' '.join(terms)}" for number, terms in enumerate(documents))
    seconds, size, segments = _run("build", lines).split()
    assert segments == "1", segments
    return float(seconds), int(size)


def search(queries):
    """Returns the ids found and the microseconds of each query. `queries`: their terms."""
    found, times = [], []
    for line in _run("search", map(" ".join, queries)).splitlines():
        time, *ids = line.split()
        times.append(float(time))
        found.append([int(id) for id in ids])
    return found, times
