"""What is done to a collection of 50,000 chunks as a whole: rebuild, dump and restore, export."""

import json
import os
import shutil
import subprocess
import time
import uuid

from support.chunks import texts, vectors
from support.database import SCRATCH, configure, connect, fresh_database
from support.results import median, row

BUNDLES = f"{SCRATCH}/bundles"
CHUNKS = int(os.environ.get("BENCH_LIFECYCLE_CHUNKS", 50_000))
PARTS = os.environ.get("BENCH_LIFECYCLE_PARTS", "export dump rebuild").split()
BATCH = 500
ROUNDS = 3
REBUILD_TARGET = 1.3
DUMP_TARGET = 1.2
EXPORT_TARGET = 100  # MB/s
STRATEGIES = {"shared": {"mode": "fixed"}, "own": {"mode": "per_dataset"}}


def seconds(act):
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def fill(connection):
    """Creates a collection with the chunks, by the function for applications that split texts
    themselves, so that the model does not count."""
    connection.execute("SELECT rag_create_collection('docs')")
    batch = []
    base = vectors("base")
    for n, text in enumerate(texts(CHUNKS)):
        batch.append({"chunk_id": str(uuid.UUID(int=n + 1)), "uri": f"doc/{n // 5}", "text": text,
            "title": f"Title {n // 5}", "metadata": {"team": f"t{n // 35 % 100}"},
            "embedding": [float(f"{x:.6g}") for x in base[n]]})
        if len(batch) == BATCH or n + 1 == CHUNKS:
            connection.execute("SELECT rag_upsert_chunks(%s, 'docs')", [json.dumps(batch)])
            batch = []
    connection.execute("VACUUM ANALYZE")


def partition(connection):
    statement = "SELECT partition FROM rag.collections WHERE name = 'docs'"
    return connection.execute(statement).fetchone()[0]


def rebuilds(connection):
    """Moves the collection into a shared partition and back, and builds all indexes of the
    partition alone after each move."""
    for name, strategy in STRATEGIES.items():
        spec = {"storageConfig": {"indexStrategy": strategy}}
        connection.execute("SELECT rag_create_retriever(%s, %s)", [name, json.dumps(spec)])
    whole, alone = {}, {}
    for _ in range(ROUNDS):
        for name in STRATEGIES:
            connection.execute("SELECT rag_alter_collection('docs', retriever => %s)", [name])
            former = partition(connection)
            whole.setdefault(name, []).append(
                seconds(lambda: connection.execute("CALL rag_rebuild_collection('docs')")))
            assert partition(connection) != former
            table = f'rag_internal."{partition(connection)}"'
            alone.setdefault(name, []).append(
                seconds(lambda: connection.execute(f"REINDEX TABLE {table}")))
    for name, strategy in STRATEGIES.items():
        ours, peer = median(whole[name]), median(alone[name])
        row(f"rebuild of {CHUNKS:,} chunks to strategy {strategy['mode']}, s", f"{ours:.1f}",
            f"{peer:.1f} (its indexes alone)", ours / peer, f"<= {REBUILD_TARGET}",
            ours <= REBUILD_TARGET * peer)


def run(*command):
    subprocess.run(command, check=True)


def copy_plain(connection):
    """Copies documents and chunks into a database without the extension."""
    with connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS plain WITH (FORCE)")
        admin.execute("CREATE DATABASE plain")
    for table in ("documents", "chunks"):
        columns = connection.execute(
            """SELECT attname, CASE attname WHEN 'embedding' THEN 'real[]'
                   ELSE format_type(atttypid, atttypmod) END
               FROM pg_attribute WHERE attrelid = ('rag.' || %s)::regclass AND attnum > 0
                   AND NOT attisdropped ORDER BY attnum""", [table]).fetchall()
        definition = ", ".join(f"{name} {kind}" for name, kind in columns)
        chosen = ", ".join("embedding::real[]" if kind == "real[]" else name
            for name, kind in columns)
        with connect("plain") as plain:
            plain.execute(f"CREATE TABLE {table} ({definition})")
            copy = f"COPY (SELECT {chosen} FROM rag.{table}) TO STDOUT"
            with connection.cursor().copy(copy) as rows, \
                    plain.cursor().copy(f"COPY {table} FROM STDIN") as into:
                for block in rows:
                    into.write(block)


def dumps(connection):
    """Dumps and restores the database, and one with the same rows in plain tables. Indexes are
    restored apart: the plain tables have none."""
    copy_plain(connection)
    server = ["-h", SCRATCH, "-U", "postgres"]
    times = {}
    for _ in range(ROUNDS):
        for name in ("bench", "plain"):
            file = f"{SCRATCH}/{name}.dump"
            times.setdefault((name, "dump"), []).append(
                seconds(lambda: run("pg_dump", *server, "-Fc", "-f", file, name)))
            with connect() as admin:
                admin.execute("DROP DATABASE IF EXISTS restored WITH (FORCE)")
                admin.execute("CREATE DATABASE restored")
            for part, sections in (("rows", ["pre-data", "data"]), ("indexes", ["post-data"])):
                only = [f"--section={section}" for section in sections]
                times.setdefault((name, part), []).append(
                    seconds(lambda: run("pg_restore", *server, "-d", "restored", *only, file)))
            schema = "rag_internal." if name == "bench" else ""
            with connect("restored") as restored:
                count = restored.execute(f"SELECT count(*) FROM {schema}chunks").fetchone()[0]
            assert count == CHUNKS
            os.remove(file)
    for part, what in (("dump", "pg_dump"), ("rows", "pg_restore of the rows")):
        ours, peer = median(times["bench", part]), median(times["plain", part])
        row(f"{what}, {CHUNKS:,} chunks, s", f"{ours:.1f}", f"{peer:.1f} (plain tables)",
            ours / peer, f"<= {DUMP_TARGET}", ours <= DUMP_TARGET * peer)
    row(f"pg_restore of the indexes, {CHUNKS:,} chunks, s",
        f"{median(times['bench', 'indexes']):.1f}")


def exports(connection):
    """Exports the collection, and copies the bundle: as fast as the disk takes it."""
    folder, copy = f"{BUNDLES}/docs", f"{BUNDLES}/copy"
    export = "SELECT bytes FROM rag_export_collection('docs', %s)"
    ours, disk = [], []
    for _ in range(ROUNDS):
        ours.append(seconds(lambda: connection.execute(export, [folder])))
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
        disk.append(seconds(lambda: run("sh", "-c", f"cp -R {folder} {copy} && sync {copy}/*")))
        shutil.rmtree(folder)
        shutil.rmtree(copy)
    rate, peer = size / 1e6 / median(ours), size / 1e6 / median(disk)
    row(f"export of {CHUNKS:,} chunks, {size / 1e6:.0f} MB, MB/s", f"{rate:.0f}",
        f"{peer:.0f} (copy of the bundle)", rate / peer, f">= {EXPORT_TARGET} or the copy",
        rate >= min(EXPORT_TARGET, peer))


def main():
    connection = fresh_database("bench")
    os.makedirs(BUNDLES)
    owner = os.stat(f"{SCRATCH}/data")
    os.chown(BUNDLES, owner.st_uid, owner.st_gid)
    configure("rag.bundle_folders", BUNDLES)
    fill(connection)
    for part in PARTS:
        {"export": exports, "dump": dumps, "rebuild": rebuilds}[part](connection)


main()
