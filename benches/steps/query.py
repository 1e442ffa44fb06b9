"""Time of rag_embed for a short query, compared with the model's own time."""

import time

from support import scifact
from support.database import configure, fresh_database, set_precision
from support.reference import Reference, providers
from support.results import median, note, row

ROUNDS = 3

# The time inside the server. Every statement takes a round trip of the client as well.
TIMED = """
CREATE FUNCTION timed_embed(query text) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
BEGIN
    PERFORM rag_embed(query);
    RETURN extract(epoch FROM clock_timestamp() - started) * 1000;
END $$
"""


def milliseconds(action):
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


def main():
    texts = [query["text"] for query in scifact.queries()]
    for precision, provider in providers():
        set_precision(precision)
        configure("rag.execution_provider", provider)
        label = precision if provider == "cpu" else f"{precision} by OpenVINO"
        connection = fresh_database("bench")
        connection.execute(TIMED)
        # Without spinning: idle threads would take processors from the other side.
        reference = Reference(precision, spinning=False)

        def in_server(text):
            return connection.execute("SELECT timed_embed(%s)", [text], prepare=True).fetchone()[0]

        def by_client(text):
            connection.execute("SELECT rag_embed(%s)", [text], prepare=True, binary=True).fetchone()

        for text in texts[:20]:
            in_server(text), by_client(text), reference.embed([text])
        server, client, model = [], [], []
        for _ in range(ROUNDS):
            for text in texts:
                model.append(milliseconds(lambda: reference.embed([text])))
                server.append(in_server(text))
                client.append(milliseconds(lambda: by_client(text)))
        above = median(server) - median(model)
        note(
            f"{label}: through a client's connection, p50 {median(client):.2f} ms; SELECT 1 takes it "
             f"{median(milliseconds(lambda: connection.execute('SELECT 1', prepare=True).fetchone()) for _ in range(500)):.2f} ms")
        row(
            f"rag_embed(query), {label}, p50 ms",
            f"{median(server):.2f}",
            f"{median(model):.2f} (Python onnxruntime)",
            median(server) / median(model),
            "<= 1 ms above",
            above <= 1,
        )
        connection.close()


main()
