"""A repository of 5,000 files over HTTP: its first sync, and the sync after ten files changed."""

import http.server
import os
import subprocess
import threading
import time

from support.database import SCRATCH, fresh_database, set_allowed_hosts, sync
from support.results import median, note, row

FILES = 5000
CHANGED = 10
RUNS = 5
LIMIT = 2.0


def git(repository, *command):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    identity = ["-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]
    subprocess.run(["git", "-C", repository, *identity, *command], check=True, env=environment)


def write(repository, i, revision):
    directory = os.path.join(repository, f"{i % 50:02}")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{i}.md"), "w") as file:
        file.write(
            f"# Note {i}\n\nShelf {i % 37} holds {i * 7 % 101} boxes of part number {i * i}, revision {revision}.\n")


def commit(repository):
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a change")


def serve(repository):
    """Serves git's own CGI program over HTTP on loopback. Yields the repository's URL."""
    environment = {**os.environ, "GIT_PROJECT_ROOT": repository, "GIT_HTTP_EXPORT_ALL": "1"}
    environment |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command}
            request |= {"CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body))}
            reply = subprocess.run(
                ["git", "http-backend"], input=body, stdout=subprocess.PIPE,
                    env=environment | request, check=True
            ).stdout
            headers, _, content = reply.partition(b"\r\n\r\n")
            self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + headers)
            self.wfile.write(f"\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/.git"


def main():
    repository = os.path.join(SCRATCH, "repository")
    os.makedirs(repository)
    git(repository, "init", "--quiet")
    git(repository, "symbolic-ref", "HEAD", "refs/heads/main")
    for i in range(FILES):
        write(repository, i, 0)
    commit(repository)
    set_allowed_hosts("127.0.0.1")
    connection = fresh_database("bench")
    connection.execute("SELECT rag_create_collection('notes')")
    connection.execute(
        "SELECT rag_create_source('notes', 'git', jsonb_build_object('repositoryURL', %s::text), collection => 'notes')",
        [serve(repository)],
    )
    connection.execute("SELECT rag_embed('the model is loaded')")
    first, run = sync(connection, "notes")
    assert run["documents_added"] == FILES and run["documents_failed"] == 0, run
    note(f"first sync: {first:.1f} s, {run['chunks_embedded']} chunks embedded")
    row(f"first sync of a repository of {FILES} small files, s", f"{first:.1f}")

    unchanged, changed, embedding = [], [], []
    for revision in range(1, RUNS + 1):
        seconds, run = sync(connection, "notes")
        assert run["documents_unchanged"] == FILES, run
        unchanged.append(seconds)
        for i in range(CHANGED):
            write(repository, i * FILES // CHANGED, revision)
        commit(repository)
        seconds, run = sync(connection, "notes")
        assert run["documents_updated"] == CHANGED == run["chunks_embedded"], run
        changed.append(seconds)
        texts = [f"Note {i}\n\n# Note {i}\n\nShelf {i} holds 7 boxes of part number {i}, revision {-revision}." for i in range(CHANGED)]
        started = time.perf_counter()
        connection.execute("SELECT rag_embed(%s::text[])", [texts])
        embedding.append(time.perf_counter() - started)
    beyond = median(changed) - median(embedding)
    row("next sync, nothing changed, s", f"{median(unchanged):.2f}")
    row(f"next sync, {CHANGED} files changed, s beyond embedding them", f"{beyond:.2f}",
        target=f"<= {LIMIT:g} s", met=beyond <= LIMIT)


main()
