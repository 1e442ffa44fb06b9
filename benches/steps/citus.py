"""Searches of 100,000 chunks that Citus distributes over nodes of this machine: CPU of the
coordinator and of each worker for a search. They share the processors, so times say little, and
nothing is said of more throughput. Queries come with their embedding."""

import glob
import json
import os
import threading
import time

import psycopg

from support.hundred_thousand import MODES, fill
from support import scifact
from support.chunks import as_text, vectors
from support.database import SCRATCH, connect
from support.results import median, note, row

DOCUMENTS = 400
QUERIES = int(os.environ.get("BENCH_CITUS_QUERIES", 200))
NODES = ["data", "worker1", "worker2", "worker3"]
PORTS = {"worker1": 5433, "worker2": 5434, "worker3": 5435}


def cpu():
    """CPU seconds of all processes of each node: their working folder is its data folder."""
    seconds = dict.fromkeys(NODES, 0.0)
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            folder = os.path.basename(os.readlink(os.path.join(os.path.dirname(stat), "cwd")))
            if not os.readlink(os.path.join(os.path.dirname(stat), "cwd")).startswith(SCRATCH):
                continue
            with open(stat) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if folder in seconds:
            seconds[folder] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def measure(connection, queries, embeddings, mode):
    """Returns the p50 and minimum in ms, CPU ms of a search by node, and what was found."""
    def ask(n):
        return connection.execute(
            "SELECT chunk_id, score FROM rag_search(%s, 'hybrid', mode => %s,"
            " query_embedding => %s::rag_types.vector)",
            [queries[n], mode, embeddings[n]]).fetchall()
    for n in range(30):
        ask(n)
    before, times, found = cpu(), [], []
    for n in range(len(queries)):
        started = time.perf_counter()
        found.append(ask(n))
        times.append((time.perf_counter() - started) * 1000)
    after = cpu()
    used = {node: (after[node] - before[node]) * 1000 / len(queries) for node in NODES}
    return median(times), min(times), used, found


def same(one, other):
    """The fraction of the results of one search that the other has, too."""
    hits = [len({id for id, _ in a} & {id for id, _ in b}) / max(len(a), 1)
            for a, b in zip(one, other)]
    return sum(hits) / len(hits)


def difference(one, other):
    """The largest difference between the scores of two searches at the same rank."""
    return max((abs(a - b) for first, second in zip(one, other)
        for (_, a), (_, b) in zip(first, second)), default=0)


def move_under_load(connection, queries, embeddings):
    """Moves a shard to a third worker while another session searches."""
    errors, done, searches = [], threading.Event(), [0]

    def search():
        with connect() as session:
            while not done.is_set():
                n = searches[0] % len(queries)
                try:
                    session.execute("SELECT count(*) FROM rag_search(%s, 'hybrid',"
                        " query_embedding => %s::rag_types.vector)",
                        [queries[n], embeddings[n]]).fetchall()
                except psycopg.Error as error:
                    errors.append(str(error))
                searches[0] += 1

    thread = threading.Thread(target=search)
    thread.start()
    connection.execute("SELECT citus_add_node(%s, %s)", [SCRATCH, PORTS["worker3"]])
    shard = connection.execute(
        "SELECT min(shardid) FROM pg_dist_shard"
        " WHERE logicalrelid = 'rag.chunks'::regclass").fetchone()[0]
    port, = connection.execute("SELECT nodeport FROM pg_dist_shard_placement WHERE shardid = %s",
        [shard]).fetchone()
    started = time.perf_counter()
    connection.execute("SELECT citus_move_shard_placement(%s, %s, %s, %s, %s,"
        " shard_transfer_mode => 'force_logical')",
        [shard, SCRATCH, port, SCRATCH, PORTS["worker3"]])
    seconds = time.perf_counter() - started
    done.set()
    thread.join()
    row("a shard of half of 100,000 chunks moves under searches, s", f"{seconds:.1f}", "",
        None, "0 errors", not errors)
    note(f"{searches[0]} searches meanwhile, {len(errors)} errors {errors[:1]}")


def sync(connection, what):
    """Syncs files of one chunk each, and shows what embedding them costs each node."""
    name = what.replace(" ", "-")
    folder = os.path.join(SCRATCH, name)
    os.makedirs(folder)
    os.chmod(folder, 0o755)
    for n in range(DOCUMENTS):
        with open(os.path.join(folder, f"{n}.md"), "w") as file:
            file.write(f"{what} {n}. " + scifact.documents()[n]["text"][:900])
    connection.execute("SELECT rag_create_collection(%s)", [name])
    connection.execute("SELECT rag_create_source(%s, 'folder', %s, %s)",
        [name, json.dumps({"path": folder}), name])
    before, started = cpu(), time.perf_counter()
    connection.execute("SELECT rag_sync(%s)", [name])
    seconds = time.perf_counter() - started
    after = cpu()
    used = " + ".join(f"{(after[node] - before[node]):.1f}" for node in NODES[:3])
    row(f"sync of {DOCUMENTS} files, {what}: files/s", f"{DOCUMENTS / seconds:.1f}",
        f"CPU s {used}")


def main():
    for port in PORTS.values():
        with psycopg.connect(host=SCRATCH, port=port, user="postgres", autocommit=True) as worker:
            worker.execute("CREATE EXTENSION citus")
    connection = connect()
    connection.execute("CREATE EXTENSION citus")
    connection.execute("SELECT citus_set_coordinator_host(%s, 5432)", [SCRATCH])
    for worker in ("worker1", "worker2"):
        connection.execute("SELECT citus_add_node(%s, %s)", [SCRATCH, PORTS[worker]])
    connection.execute("CREATE EXTENSION rag")
    fill(connection)
    # the documents of the chunks that were written past the extension
    connection.execute("""
        INSERT INTO rag.documents (document_id, collection, uri, title, document_type, status,
            chunk_count)
        SELECT document_id, collection, min(uri), min(title), 'text', 'active', count(*)
        FROM rag.chunks GROUP BY document_id, collection ON CONFLICT DO NOTHING""")
    queries = [query["text"] for query in scifact.queries()][:QUERIES]
    embeddings = [as_text(vector) for vector in vectors("query")[:QUERIES]]
    local = {}

    def on_one_server():
        for mode in MODES:
            p50, least, used, _ = local[mode] = measure(connection, queries, embeddings, mode)
            row(f"one server, {mode}: p50 / min ms", f"{p50:.2f} / {least:.2f}",
                f"CPU {used['data']:.2f}")

    def distributed(what, workers):
        for mode in MODES:
            p50, least, used, found = measure(connection, queries, embeddings, mode)
            mine = local[mode][2]["data"]
            each = [used[node] for node in workers]
            row(f"{what}, {mode}: p50 / min ms", f"{p50:.2f} / {least:.2f}",
                f"CPU {used['data']:.2f} + " + " + ".join(f"{ms:.2f}" for ms in each)
                + f" ({mine:.2f} on one server)", used["data"] / mine, "<= 1.3",
                used["data"] <= 1.3 * mine)
            note(f"equal results {same(local[mode][3], found):.3f}, scores differ by at most "
                 f"{difference(local[mode][3], found):.6f}; workers / one server "
                 + ", ".join(f"{ms / mine:.2f}" for ms in each))

    on_one_server()
    started = time.perf_counter()
    connection.execute("SELECT rag_distribute()")
    row("rag_distribute() of 100,000 chunks, s", f"{time.perf_counter() - started:.1f}")
    distributed("2 workers by document", ["worker1", "worker2"])
    started = time.perf_counter()
    for n in range(50):
        connection.execute("SELECT rag_add_document('A short text.', %s, collection => 'hybrid')",
            [f"short/{n}"])
    row("a document of one chunk is added, ms", f"{(time.perf_counter() - started) * 20:.1f}")
    sync(connection, "two workers")
    move_under_load(connection, queries, embeddings)
    started = time.perf_counter()
    connection.execute("SELECT rag_undistribute()")
    row("rag_undistribute(), s", f"{time.perf_counter() - started:.1f}")
    sync(connection, "one server")
    on_one_server() # again: others may use this machine
    connection.execute("SELECT rag_distribute('collection')")
    distributed("3 workers by collection", ["worker1", "worker2", "worker3"])


main()
