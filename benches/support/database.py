"""The throwaway server: connections, settings, syncs, and the processes behind it."""

import os
import threading
import time

import psycopg

SCRATCH = os.environ["BENCH_SCRATCH"]


def connect(database="postgres"):
    return psycopg.connect(host=SCRATCH, user="postgres", dbname=database, autocommit=True)


def fresh_database(name):
    """Creates an empty database with the extension, without embeddings to reuse."""
    with connect() as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
    connection = connect(name)
    connection.execute("CREATE EXTENSION rag")
    return connection


def set_precision(precision):
    configure("rag.model_precision", precision)


def set_allowed_hosts(hosts):
    """Sets the private hosts that sources may connect to."""
    configure("rag.allowed_private_hosts", hosts)


def configure(name, value):
    """Sets a parameter for all processes: the one that runs a sync does not see a session's SET."""
    with connect() as admin:
        admin.execute("LOAD 'rag'")
        admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        admin.execute("SELECT pg_reload_conf()")
    for _ in range(100):
        with connect() as probe:
            probe.execute("LOAD 'rag'")
            if probe.execute(f"SHOW {name}").fetchone()[0] == value:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{name} did not change")


def add_folder(connection, name, path, chunk_size=None, chunk_overlap=None):
    """Creates a collection with a source of the same name."""
    connection.execute("SELECT rag_create_collection(%s, chunk_size => %s, chunk_overlap => %s)",
        [name, chunk_size, chunk_overlap])
    connection.execute(
        "SELECT rag_create_source(%s, 'folder', jsonb_build_object('path', %s::text), collection => %s)", [name, path, name]
    )


def sync(connection, name):
    """Syncs a source. Returns the seconds, and the run's row."""
    started = time.perf_counter()
    run_id = connection.execute("SELECT rag_sync(%s)", [name]).fetchone()[0]
    seconds = time.perf_counter() - started
    cursor = connection.execute("SELECT * FROM rag.runs WHERE run_id = %s", [run_id])
    return seconds, dict(zip([column.name for column in cursor.description], cursor.fetchone()))


def _stat(pid):
    """Parent and CPU seconds, or None if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def processes():
    """pid -> (command line, CPU seconds) of the server and all its descendants."""
    with open(os.path.join(SCRATCH, "data", "postmaster.pid")) as file:
        postmaster = int(file.readline())
    stats = {pid: stat for pid in map(int, filter(str.isdigit,
        os.listdir("/proc"))) if (stat := _stat(pid))}
    ours = {postmaster}
    while True:
        more = {pid for pid, (parent, _) in stats.items() if parent in ours} - ours
        if not more:
            break
        ours |= more
    return {pid: (_command(pid), stats[pid][1]) for pid in ours if pid in stats}


class CpuSampler:
    """CPU seconds of each kind of process during the block, sampled every quarter second."""

    KINDS = {"rag-engine embed": "model", "rag-engine ingest": "ingest", "rag runner": "runner"}

    def __enter__(self):
        self.before, self.last, self.done = processes(), {}, threading.Event()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()
        return self

    def _sample(self):
        while not self.done.wait(0.25):
            self.last.update(processes())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.seconds = dict.fromkeys([*self.KINDS.values(), "other"], 0.0)
        for pid, (command, cpu) in self.last.items():
            kind = next((kind for part, kind in self.KINDS.items() if part in command), "other")
            self.seconds[kind] += cpu - self.before.get(pid, ("", 0.0))[1]
