"""The cost of idle schedulers, the delay of scheduled runs, and the time of rag.sources."""

import os
import time

from support.client import Client
from support.database import SCRATCH, configure, connect, fresh_database
from support.results import median, note, row

IDLE_SECONDS = 240
IDLE_DATABASES = 20
PATIENCE_SECONDS = 600
DUE = 200
CREATED = 20


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def folder(name):
    path = os.path.join(SCRATCH, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "note.md"), "w") as file:
        file.write(f"# {name}\n\nA note.\n")
    os.system(f"chmod -R a+rX '{path}'")
    return path


def create(connection, name, **more):
    arguments = "".join(f", {key} => %s" for key in more)
    connection.execute(
        f"SELECT rag_create_source(%s, 'folder', jsonb_build_object('path', %s::text){arguments})",
            [name, folder(name), *more.values()]
    )


def workers():
    """Process ids of the launcher and the running schedulers."""
    with connect() as admin:
        found = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('rag launcher', 'rag scheduler')").fetchall()
    return [pid for (pid,) in found]


def engine_workers():
    """Process ids of the engine's supervisors. They have no database, and so are in no view."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
            if b"rag engine supervisor" in command and os.readlink(
                f"/proc/{pid}/cwd") == data_directory():
                found.append(int(pid))
        except OSError:
            pass
    return found


def data_directory():
    with connect() as admin:
        return admin.execute("SHOW data_directory").fetchone()[0]


def wakeups_and_cpu(pids):
    """Sums over the processes: voluntary context switches, and nanoseconds of CPU."""
    switches, nanoseconds = 0, 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as file:
            switches += sum(int(line.split()[1]) for line in file if line.startswith("voluntary"))
        with open(f"/proc/{pid}/schedstat") as file:
            nanoseconds += int(file.read().split()[0])
    return switches, nanoseconds


def wait_for(connection, query):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not connection.execute(query).fetchone()[0]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"this did not become true: {query}")
        time.sleep(0.002)


def idle():
    connections = [fresh_database(f"idle{i}") for i in range(IDLE_DATABASES)]
    for i in range(50):
        create(connections[i % IDLE_DATABASES], f"resting-{i}", schedule="* * * * *", suspend=True)
    for connection in connections:
        wait_for(connection, "SELECT rag_internal.has_scheduler()")
        connection.close()
    with connect() as admin:
        wait_for(admin,
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rag scheduler'")
    # processes that the creation of the sources has woken
    time.sleep(5)
    # A scheduler that starts meanwhile is not counted, but the launcher's work for it is.
    pids = workers() + engine_workers()
    assert len(pids) == 2, pids
    before = wakeups_and_cpu(pids)
    time.sleep(IDLE_SECONDS)
    wakeups, nanoseconds = (after - before for after, before in zip(wakeups_and_cpu(pids), before))
    a_minute = wakeups * 60 / IDLE_SECONDS
    row(
        f"idle, {IDLE_DATABASES} databases, 50 suspended sources: wake-ups a minute, all workers",
        f"{a_minute:.1f}",
        target="<= 5",
        met=a_minute <= 5,
    )
    row("the same: CPU seconds an hour", f"{nanoseconds / 1e9 * 3600 / IDLE_SECONDS:.2f}")
    with connect() as admin:
        for i in range(IDLE_DATABASES):
            admin.execute(f"DROP DATABASE idle{i}")


def creation():
    times = []
    for _ in range(CREATED):
        connection = connect()
        connection.execute("DROP DATABASE IF EXISTS fresh")
        connection.execute("CREATE DATABASE fresh")
        inside = connect("fresh")
        inside.execute("CREATE EXTENSION rag")
        began = time.perf_counter()
        wait_for(inside, "SELECT rag_internal.has_scheduler()")
        times.append((time.perf_counter() - began) * 1000)
        inside.close()
        connection.close()
    row("from CREATE EXTENSION to sources being synced, ms, p50", f"{median(times):.0f}",
        target="<= 5000", met=max(times) <= 5000)
    note(f"the longest of {CREATED}: {max(times):.0f} ms")


def due():
    connection = fresh_database("due")
    for i in range(DUE):
        create(connection, f"due-{i}", schedule="@yearly", suspend=True)
    connection.execute("SELECT rag_embed('the model is loaded')")
    for slots in ["2", "8"]:
        configure("rag.max_running_syncs", slots)
        connection.execute("DELETE FROM rag_internal.run")
        connection.execute(
            "UPDATE rag_internal.source SET suspend = false, next_run = clock_timestamp() + '3 s', last_run_id = NULL")
        # notifies the scheduler, whose sleep was computed before
        connection.execute("SELECT rag_suspend('due-0'), rag_resume('due-0')")
        connection.execute(
            "UPDATE rag_internal.source SET next_run = (SELECT max(next_run) FROM rag_internal.source WHERE name = 'due-1') WHERE name = 'due-0'")
        at = connection.execute("SELECT max(next_run) FROM rag_internal.source").fetchone()[0]
        wait_for(connection, f"SELECT count(*) = {DUE} FROM rag_internal.run WHERE phase = 'Completed'")
        found = connection.execute(
            "SELECT extract(epoch FROM started_at - %s), extract(epoch FROM queued_at - %s) FROM rag_internal.run", [at, at])
        delays, queued = zip(*((float(started), float(queued)) for started, queued in found))
        row(f"{DUE} sources due at once, {slots} at a time: p50 from due to start, s",
            f"{median(delays):.2f}")
        row(f"the same: p99; the first", f"{percentile(delays, 0.99):.2f}; {min(delays):.3f}")
        note(
            f"{slots} at a time: all are queued {max(queued):.2f} s after they were due, {DUE / max(delays):.1f} runs a second")
    configure("rag.max_running_syncs", "2")
    connection.close()


def view():
    connection = fresh_database("view")
    configure("rag.scheduler", "off")
    connection.execute(
        """INSERT INTO rag_internal.source (name, kind, spec, collection, owner, owner_id, schedule, conditions, last_run_id)
           SELECT 'source-' || i, 'folder', '{"path": "/srv"}', 'default', 'postgres', 'postgres'::regrole, '@daily',
                  rag_internal.merge_conditions('[]', jsonb_build_array(
                      jsonb_build_object('type', 'ResourceReady', 'status', 'True',
                                          'reason', 'Ready', 'message', ''),
                      jsonb_build_object('type', 'AutoIndexerScheduled', 'status', 'True',
                                          'reason', 'Scheduled', 'message', ''),
                      jsonb_build_object('type', 'AutoIndexerError', 'status', 'False',
                                          'reason', 'NoError', 'message', ''))),
                  99000 + i
           FROM generate_series(1, 1000) i"""
    )
    connection.execute(
        """INSERT INTO rag_internal.run (run_id, source, collection, trigger, generation, phase, started_at, finished_at, documents_unchanged)
           SELECT i, 'source-' || (i - 1) % 1000 + 1, 'default', 'schedule', 1, CASE WHEN i % 10 = 0 THEN 'Failed' ELSE 'Completed' END,
                  now() - '1 hour'::interval, now(), 10
           FROM generate_series(1, 100000) i"""
    )
    connection.execute("VACUUM ANALYZE rag_internal.source, rag_internal.run")
    connection.execute("CREATE ROLE bench_admin IN ROLE rag_admin")
    # no run may be deleted
    configure("rag.successful_runs_history_limit", "1000")
    configure("rag.failed_runs_history_limit", "1000")
    # a client that does not convert the rows to Python objects
    client = Client("view")
    for scheduler in ["off", "on"]:
        configure("rag.scheduler", scheduler)
        wait_for(connection, f"SELECT rag_internal.has_scheduler() = ('{scheduler}' = 'on')")
        for role in ["postgres", "bench_admin"]:
            client.execute(f"SET ROLE {role}")
            times = []
            for _ in range(21):
                client.prepare("SELECT * FROM rag.sources")
                began = time.perf_counter()
                assert client.run().ntuples == 1000
                times.append((time.perf_counter() - began) * 1000)
            client.execute("RESET ROLE")
            row(
                f"SELECT * FROM rag.sources, 1,000 sources, 100,000 runs, as {role}, scheduler {scheduler}, ms",
                f"{median(times):.1f}",
                target="<= 50",
                met=median(times) <= 50,
            )
    client.close()
    connection.close()


def main():
    view()
    creation()
    due()
    with connect() as admin:
        for name in ["view", "due", "fresh"]:
            admin.execute(f"DROP DATABASE {name}")
    idle()


main()
