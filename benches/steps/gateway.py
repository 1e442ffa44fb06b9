"""What rag-gateway adds to a search, an embedding and a streamed answer, and how soon it is ready.

The chat model is a server of this program, which writes one word and notes when.
"""

import http.server
import json
import os
import re
import socket
import statistics
import subprocess
import threading
import time

from support.database import SCRATCH, fresh_database, set_allowed_hosts
from support.results import note, row

DOCUMENTS = 2000
REQUESTS = 5000
ANSWERS = 50


class Model(http.server.BaseHTTPRequestHandler):
    """Streams an answer of one word. `wrote` is when it was sent."""

    wrote = 0.0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        time.sleep(0.02)
        delta = {"choices": [{"delta": {"content": "Keys."}, "finish_reason": None}]}
        Model.wrote = time.perf_counter()
        self.wfile.write(f"data: {json.dumps(delta)}\n\n".encode())
        self.wfile.flush()
        time.sleep(0.02)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


def first_bytes(address, key):
    """Seconds from the model's first word to that of the answer of the gateway."""
    body = json.dumps({"query": "keys", "mode": "keyword", "stream": True})
    host, port = address.split(":")
    times = []
    for _ in range(ANSWERS + 5):
        with socket.create_connection((host, int(port))) as stream:
            stream.sendall(
                f"POST /v1/answer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                f"Connection: close\r\n\r\n{body}".encode())
            seen = b""
            while b"event: text" not in seen:
                piece = stream.recv(65536)
                if not piece:
                    raise RuntimeError(seen.decode())
                seen += piece
            times.append(time.perf_counter() - Model.wrote)
            while stream.recv(65536):
                pass
    return times[5:]


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
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    set_allowed_hosts("127.0.0.1")
    spec = json.dumps({"base_url": f"http://127.0.0.1:{model.server_port}/v1", "model": "tiny"})
    connection.execute("SELECT rag_create_model('chat', 'chat', 'openai', %s::jsonb)", (spec,))
    connection.execute("SELECT rag_grant_model('chat', 'public')")
    connection.execute("ALTER DATABASE bench SET rag.chat_model = 'chat'")
    key = connection.execute("SELECT rag_create_api_key('bench', 'bench_web')").fetchone()[0]
    libdir = subprocess.check_output(["pg_config", "--pkglibdir"], text=True).strip()
    with open(f"{SCRATCH}/gateway.log", "w") as log:
        process, address, seconds = start(f"{libdir}/rag/rag-gateway", log)
        try:
            row("rag-gateway from start to ready, s", f"{seconds:.2f}", target="1",
                met=seconds <= 1)
            for clients in (1, 4):
                output = subprocess.check_output(
                    [os.environ["BENCH_OVERHEAD"], "search", address, key,
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
            output = subprocess.check_output(
                [os.environ["BENCH_OVERHEAD"], "embeddings", address, key,
                 f"host={SCRATCH} user=postgres dbname=bench", str(REQUESTS), "1"])
            times = json.loads(output)
            row(
                "/v1/embeddings of a cached text through rag-gateway, p50, ms",
                f"{times['http_p50']:.2f}", f"{times['sql_p50']:.2f} (tokio-postgres)",
                target="1 above", met=times["http_p50"] - times["sql_p50"] <= 1)
            first = [1000 * seconds for seconds in first_bytes(address, key)]
            median = statistics.median(first)
            row(
                "streamed answer: first word after the model's, p50, ms", f"{median:.2f}",
                target="5", met=median <= 5)
        finally:
            process.terminate()
            process.wait()


main()
