"""Time to the first token of rag_answer_stream, compared with a bare client of the same server."""

import json
import os
import time

from support import scifact
from support.database import SCRATCH, add_folder, fresh_database, set_allowed_hosts, sync
from support.model_server import BareClient, model_server
from support.results import median, note, row

QUESTIONS = int(os.environ.get("BENCH_ANSWERS", "200"))
DOCUMENTS = 500

# not FROM rag_answer_stream(): its rows would be collected first
ANSWER = """
SELECT (a).event
FROM (SELECT rag_answer_stream(%s, collection => 'docs', model => 'chat') AS a OFFSET 0) s
"""


def first_token(connection, question):
    """Returns the seconds to the context and to the first piece of an answer."""
    started = time.perf_counter()
    arrived = {}
    with connection.cursor() as cursor:
        for (event,) in cursor.stream(ANSWER, [question]):
            arrived.setdefault(event, time.perf_counter() - started)
    return arrived["context"], arrived["text"]


def messages(connection, question):
    """A request of the same size: what the search finds, and the question."""
    found = connection.execute("SELECT content FROM rag_search(%s, 'docs', top_k => 5)",
        [question]).fetchall()
    return [{"role": "system", "content": "\n\n---\n\n".join(text for (text,) in found)},
            {"role": "user", "content": question}]


def main():
    set_allowed_hosts("127.0.0.1")
    connection = fresh_database("bench")
    folder = os.path.join(SCRATCH, "texts")
    scifact.write_markdown(folder, scifact.documents()[:DOCUMENTS])
    add_folder(connection, "docs", folder)
    _, run = sync(connection, "docs")
    assert run["documents_added"] == DOCUMENTS, run
    questions = [query["text"] for query in scifact.queries()[:QUESTIONS + 10]]
    with model_server() as port:
        spec = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m"}
        connection.execute("SELECT rag_create_model('chat', 'chat', 'openai', %s::jsonb)",
            [json.dumps(spec)])
        bare = BareClient(port)
        contexts, rag, peer = [], [], []
        for question in questions:
            # asks the question first with other words, so that no vector of it is kept
            asked = messages(connection, "about: " + question)
            peer.append(bare.first_token(asked) * 1000)
            context, first = first_token(connection, question)
            contexts.append(context * 1000)
            rag.append(first * 1000)
    contexts, rag, peer = contexts[10:], rag[10:], peer[10:]
    above = median(a - b for a, b in zip(rag, peer))
    note(f"the search takes {median(contexts):.2f} ms of it, the call "
         f"{median(a - b for a, b in zip(rag, contexts)):.2f} ms")
    row("rag_answer_stream, p50 ms to the first token", f"{median(rag):.2f}",
        f"{median(peer):.2f} (bare client)")
    row("the same, ms above the bare client", f"{above:.2f}", target="<= 20", met=above <= 20)
    connection.close()


main()
