"""Quality of mode hybrid with the weights that the query decides, on codes, names and prose.

Codes: generated tickets and a catalogue. Names: the Python standard library and this repository.
Prose: SciFact, and functions of Python by their documentation. The same searches with the weights
0.7 and 0.3 are the mode hybrid of before.
"""

import json
import os

from keywords import identifiers
from support import scifact
from support.database import SCRATCH, add_folder, fresh_database, set_precision, sync
from support.results import note, row

WHOLE = 1_000_000
MODES = {
    "vector": {"mode": "vector"},
    "keyword": {"mode": "keyword"},
    "0.7 and 0.3": {"mode": "hybrid", "vector_weight": 0.7},
    "hybrid": {"mode": "hybrid"},
}
# The least share of the better of both modes.
LEAST = 0.95


def write_texts(folder, texts):
    os.makedirs(folder)
    for number, text in enumerate(texts):
        with open(os.path.join(folder, f"{number}.txt"), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o644)
    os.chmod(folder, 0o755)


def numbered(queries):
    """Returns queries and the files that answer them, as `rag_evaluate` takes them."""
    asked = {str(number): query for number, (query, _) in enumerate(queries)}
    right = {str(number): {f"{text}.txt": 1 for text in texts}
             for number, (_, texts) in enumerate(queries)}
    return asked, right


def measure(connection, collection, asked, right):
    """Returns nDCG@10 of each mode. A document ranks by its best chunk."""
    return {name: connection.execute(
        "SELECT value FROM rag_evaluate(%s::jsonb, %s, %s::jsonb, %s::jsonb, resamples => 1)"
        " WHERE measure = 'ndcg@10'",
        [json.dumps(asked), collection, json.dumps(right), json.dumps(settings)]).fetchone()[0]
        for name, settings in MODES.items()}


def report(what, found, least=None):
    """`least` is a figure that must be reached besides the share of the better mode."""
    better = max(found["vector"], found["keyword"])
    needed = max(LEAST * better, least or 0)
    peer = ", ".join(f"{name} {found[name]:.4f}" for name in MODES if name != "hybrid")
    row(f"nDCG@10, {what}", f"{found['hybrid']:.4f}", peer, found["hybrid"] / better,
        f">= {needed:.3f}", found["hybrid"] >= needed)


def of_texts(connection, name, texts, sets, least=None):
    """Measures sets of queries over texts."""
    folder = os.path.join(SCRATCH, name)
    write_texts(folder, texts)
    add_folder(connection, name, folder)
    seconds, run = sync(connection, name)
    note(f"{name}: {run['chunks_written']} chunks in {seconds:.0f} s")
    for kind, queries in sets.items():
        report(f"{name}, {kind}", measure(connection, name, *numbered(queries)), least)


def of_scifact(connection):
    asked = {query["_id"]: query["text"] for query in scifact.queries()}
    relevant = scifact.judgements()
    right = {query: {f"{document}.md": grade for document, grade in grades.items()}
             for query, grades in relevant.items()}
    asked = {query: text for query, text in asked.items() if query in relevant}
    folder = os.path.join(SCRATCH, "scifact")
    scifact.write_markdown(folder, scifact.documents())
    for name, size, overlap in (("whole", WHOLE, 0), ("chunked", None, None)):
        add_folder(connection, name, folder, size, overlap)
        seconds, run = sync(connection, name)
        note(f"SciFact, {name}: {run['chunks_written']} chunks in {seconds:.0f} s")
        report(f"SciFact, {name}", measure(connection, name, asked, right), 0.735)


def main():
    set_precision("int8")
    connection = fresh_database("bench")
    parts = os.environ.get("BENCH_WEIGHTS_PARTS", "codes names prose").split()
    if "codes" in parts:
        texts, facts = identifiers.tickets()
        of_texts(connection, "tickets", texts, identifiers.ticket_queries(facts), 0.9)
        of_texts(connection, "catalogue", *identifiers.catalogue(), 0.9)
    if "names" in parts:
        texts, queries = identifiers.python_library()
        of_texts(connection, "python", texts, {"files by called method": queries})
        of_texts(connection, "repository", *identifiers.repository())
    if "prose" in parts:
        of_texts(connection, "functions", *identifiers.documented_functions())
        of_scifact(connection)


main()
