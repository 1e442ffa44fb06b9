"""What rag-gateway adds to a search by words, and how soon it is ready."""

import json
import os
import re
import subprocess
import time

from support.database import SCRATCH, fresh_database
from support.results import note, row

DOCUMENTS = 2000
REQUESTS = 5000


def start(program, log):
    """Starts the program. Returns its process, its address, and the seconds until it is ready."""
    environment = dict(os.environ, PGHOST=SCRATCH, PGDATABASE="bench")
    began = time.perf_counter()
    process = subprocess.Popen(
        [program, "serve", "--listen", "127.0.0.1:0"], env=environment, stderr=log)
    while True:
        with open(log.name) as text:
            found = re.search(r"listening on (\S+)", text.read())
        if found and subprocess.run(
            ["curl", "--silent", "--fail", f"http://{found[1]}/readyz"], capture_output=True
        ).returncode == 0:
            return process, found[1], time.perf_counter() - began
        time.sleep(0.005)


def main():
    connection = fresh_database("bench")
    connection.execute(
        "SELECT count(*) FROM rag_add_documents((SELECT jsonb_agg(jsonb_build_object("
        "'uri', 'd' || i, 'content', 'Document ' || i || ' is about keys and locks.')) "
        f"FROM generate_series(1, {DOCUMENTS}) i))")
    connection.execute("DROP ROLE IF EXISTS bench_web")
    connection.execute("CREATE ROLE bench_web IN ROLE rag_reader")
    key = connection.execute("SELECT rag_create_api_key('bench', 'bench_web')").fetchone()[0]
    libdir = subprocess.check_output(["pg_config", "--pkglibdir"], text=True).strip()
    with open(f"{SCRATCH}/gateway.log", "w") as log:
        process, address, seconds = start(f"{libdir}/rag/rag-gateway", log)
        try:
            row("rag-gateway from start to ready, s", f"{seconds:.2f}", target="1",
                met=seconds <= 1)
            for clients in (1, 4):
                output = subprocess.check_output(
                    [os.environ["BENCH_OVERHEAD"], address, key,
                     f"host={SCRATCH} user=postgres dbname=bench", str(REQUESTS), str(clients)])
                times = json.loads(output)
                added = {p: times[f"http_{p}"] - times[f"sql_{p}"] for p in ("p50", "p99")}
                note(f"{clients} clients: {times['http_a_second']:.0f} requests a second")
                for share, limit in (("p50", 0.3), ("p99", 2)):
                    row(
                        f"search through rag-gateway, {clients} at a time, {share}, ms",
                        f"{times[f'http_{share}']:.2f}",
                        f"{times[f'sql_{share}']:.2f} (tokio-postgres)",
                        target=f"{limit} above" if clients == 1 else "",
                        met=added[share] <= limit if clients == 1 else None)
        finally:
            process.terminate()
            process.wait()


main()
