"""CPU time and memory of a server's processes, from the kernel."""

import os
import threading
from contextlib import contextmanager

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAUSE = 0.02


def _read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except OSError:  # it is gone
        return ""


def cpu_nanoseconds(pid):
    """CPU time of the process's first thread, which executes a backend's queries. It is exact while
    the backend waits for the next query."""
    return int(_read(pid, "schedstat").split()[0])


@contextmanager
def together(pid):
    """Runs this process and a backend on one processor, in turns: waking an idle processor for each
    short query can cost the backend up to twice the query's time."""
    usual, theirs = os.sched_getaffinity(0), os.sched_getaffinity(pid)
    os.sched_setaffinity(0, {max(usual)})
    os.sched_setaffinity(pid, {max(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
        os.sched_setaffinity(pid, theirs)


def _times(pid):
    """CPU seconds of the process with all its threads, and of its ended children."""
    fields = _read(pid, "stat").rsplit(")", 1)[1].split()
    user, system, ended_user, ended_system = (int(field) * TICK for field in fields[11:15])
    return user + system, ended_user + ended_system


def _parent(pid):
    return int(_read(pid, "stat").rsplit(")", 1)[1].split()[1])


def _status(pid):
    """Bytes of each kind of memory."""
    lines = (line.split() for line in _read(pid, "status").splitlines())
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if words[-1:] == ["kB"]}


def _mapped_segments(pid):
    """Bytes of the dynamic shared memory that a process maps, which parallel workers share."""
    total = 0
    for line in _read(pid, "maps").splitlines():
        if "/dev/shm/PostgreSQL." in line:
            start, end = line.split()[0].split("-")
            total += int(end, 16) - int(start, 16)
    return total


class Meter:
    """CPU time and memory of a backend, its threads and its parallel workers during the block.

    `cpu` is in seconds. `peak` is in bytes above the backend's memory before: private memory of all
    of them, and dynamic shared memory, which Postgres reserves when it maps it. Shared buffers do
    not count. Memory is sampled; for the backend itself the kernel's high-water mark counts as
    well."""

    def __init__(self, pid):
        self.pid = pid
        self.postmaster = _parent(pid)
        self.workers = set()
        self.done = threading.Event()

    def __enter__(self):
        try:
            with open(f"/proc/{self.pid}/clear_refs", "w") as file:
                file.write("5")  # the high-water mark starts anew
            self.marked = True
        except PermissionError:
            self.marked = False
        self.before = self._memory()
        self.highest = self.before
        self.cpu_before = _times(self.pid)[0] + _times(self.postmaster)[1]
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def _memory(self):
        total = _status(self.pid).get("RssAnon", 0) + _mapped_segments(self.pid)
        for child in _read(self.postmaster, f"task/{self.postmaster}/children").split():
            if f"parallel worker for PID {self.pid} " in _read(child, "cmdline").replace("\0", " "):
                self.workers.add(child)
                total += _status(child).get("RssAnon", 0)
        return total

    def _sample(self):
        while not self.done.wait(PAUSE):
            self.highest = max(self.highest, self._memory())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.cpu = _times(self.pid)[0] + _times(self.postmaster)[1] - self.cpu_before
        if self.marked:
            # Pages of files and shared memory stay resident, so there were not more of them at the
            # mark than now.
            now = _status(self.pid)
            self.highest = max(self.highest, now["VmHWM"] - now["RssShmem"] - now["RssFile"])
        self.peak = self.highest - self.before
