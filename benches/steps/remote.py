"""What a call of an embedding model on another server takes, compared with a bare client."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from support import scifact
from support.database import SCRATCH, fresh_database, set_allowed_hosts, sync
from support.model_server import BareClient, model_server
from support.results import median, note, row

SINGLE = int(os.environ.get("BENCH_REMOTE_TEXTS", "300"))
ROUNDS = 5
DOCUMENTS = 640
BATCH, CONCURRENCY = 32, 4


def timed(action):
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def single(connection, port):
    """One text for each call, in turns."""
    texts = [document["text"] for document in scifact.documents()[:SINGLE + 20]]
    bare = BareClient(port)

    def ours(text):
        return connection.execute("SELECT rag_embed(%s, 'remote')", [text], prepare=True,
            binary=True).fetchone()

    for text in texts[:20]:
        ours(text), bare.embed([text])
    rag, peer = [], []
    for text in texts[20:]:
        peer.append(timed(lambda: bare.embed([text]))[0] * 1000)
        rag.append(timed(lambda: ours(text))[0] * 1000)
    above = median(a - b for a, b in zip(rag, peer))
    row("rag_embed(text, model on a server), p50 ms", f"{median(rag):.2f}",
        f"{median(peer):.2f} (bare client)")
    row("the same, ms above the bare client", f"{above:.2f}")


def add_source(connection, name, folder):
    connection.execute("SELECT rag_create_collection(%s, model => 'remote')", [name])
    connection.execute(
        "SELECT rag_create_source(%s, 'folder', jsonb_build_object('path', %s::text), "
        "collection => %s)", [name, folder, name])


def requests(connection):
    return connection.execute(
        "SELECT coalesce(sum(calls), 0)::int FROM rag.model_usage WHERE model = 'remote'"
    ).fetchone()[0]


def in_batches(port, texts):
    """All texts by bare clients, as many at the same time as a sync has requests."""
    batches = [texts[at:at + BATCH] for at in range(0, len(texts), BATCH)]
    clients = [BareClient(port) for _ in range(CONCURRENCY)]

    def share(n):
        for batch in batches[n::CONCURRENCY]:
            clients[n].embed(batch)

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return timed(lambda: list(pool.map(share, range(CONCURRENCY))))[0]


def syncs(connection, port):
    """The same documents by a sync, by a sync that finds the vectors in the cache, and bare."""
    documents = scifact.documents()
    rag, cached, peer, sent = [], [], [], 0
    for n in range(ROUNDS):
        chosen = documents[1000 + n * DOCUMENTS:1000 + (n + 1) * DOCUMENTS]
        folder = os.path.join(SCRATCH, f"texts{n}")
        scifact.write_markdown(folder, chosen)
        add_source(connection, f"first{n}", folder)
        add_source(connection, f"second{n}", folder)
        before = requests(connection)
        seconds, run = sync(connection, f"first{n}")
        sent = requests(connection) - before
        assert run["documents_added"] == DOCUMENTS and run["chunks_embedded"], run
        texts = [text for (text,) in connection.execute(
            "SELECT content FROM rag.chunks WHERE collection = %s", [f"first{n}"])]
        rag.append(seconds)
        seconds, run = sync(connection, f"second{n}")
        # but for the two requests that tell a new collection the dimensions
        assert run["documents_added"] == DOCUMENTS and not run["chunks_embedded"], run
        cached.append(seconds)
        peer.append(in_batches(port, texts))
    note(f"{DOCUMENTS} documents, {len(texts)} chunks, {sent} requests counted")
    row("sync through the server, s", f"{median(rag):.2f}",
        f"{median(cached):.2f} (vectors from the cache)", median(rag) / median(cached))
    above = median(a - b for a, b in zip(rag, cached))
    row("what the requests add to a sync, s", f"{above:.2f}",
        f"{median(peer):.2f} (bare clients)", above / median(peer))
    each = median(1000 * (a - b - c) / sent for a, b, c in zip(rag, cached, peer))
    row("the same, ms above the bare clients for each request", f"{each:.1f}")


def main():
    set_allowed_hosts("127.0.0.1")
    connection = fresh_database("bench")
    with model_server() as port:
        spec = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m", "batch": BATCH,
                "concurrency": CONCURRENCY}
        connection.execute("SELECT rag_create_model('remote', 'embedding', 'openai', %s::jsonb)",
            [json.dumps(spec)])
        single(connection, port)
        syncs(connection, port)
    connection.close()


main()
