"""Texts per second of a sync, against the same texts through ONNX Runtime under Python."""

import os
import time

import numpy

from support import scifact
from support.database import (
    SCRATCH,
    CpuSampler,
    add_folder,
    configure,
    fresh_database,
    set_precision,
    sync,
)
from support.exported import write_graphs
from support.reference import MAX_TOKENS, Reference, providers
from support.results import median, note, row

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "1000"))
RUNS = 3
# By precision and provider of a sync: the least ratio to Python in a precision.
TARGETS = {
    ("int8", "cpu"): {"int8": 1.2},
    ("fp32", "cpu"): {"fp32": 1.0},
    ("fp32", "openvino"): {"int8": 1.5, "fp32": 1.0},
}
BATCHES = {"batches of 8": 8, "one by one": 1}


def texts_and_vectors(connection):
    """The embedded texts, as rag_protocol::ingest::embedded_text builds them, and their vectors."""
    rows = connection.execute(
        """SELECT CASE WHEN d.own_title THEN d.title || E'\n\n' ELSE '' END || c.content, c.embedding::real[]
           FROM rag.chunks c JOIN rag.documents d USING (document_id) ORDER BY c.chunk_id"""
    ).fetchall()
    return [text for text, _ in rows], numpy.array([vector for _, vector in rows], numpy.float32)


def one_sync(folder):
    connection = fresh_database("bench")
    add_folder(connection, "scifact", folder, chunk_size=1_000_000, chunk_overlap=0)
    connection.execute("SELECT rag_embed('the model is loaded before the clock starts')")
    with CpuSampler() as cpu:
        seconds, run = sync(connection, "scifact")
    assert run["documents_failed"] == 0 and run["chunks_reused"] == 0, run
    texts, vectors = texts_and_vectors(connection)
    assert len(texts) == run["chunks_embedded"], run
    connection.close()
    return seconds, cpu.seconds, texts, vectors


def rates_of(peers, texts, rates):
    """Adds the texts per second of each peer."""
    for name, peer in peers.items():
        peer.embed(["warm"] * 8)
        started, used = time.perf_counter(), time.process_time()
        peer.embed(texts)
        seconds, used = time.perf_counter() - started, time.process_time() - used
        rates[name].append(len(texts) / seconds)
        note(f"Python, {name}: {seconds:.1f} s, of CPU {used:.1f} s")


def measure(precision, provider, targets, folder, graphs):
    """Compares syncs with one provider to Python's in the precisions that have a target, and with
    the server's own graph."""
    label = precision if provider == "cpu" else f"{precision} by OpenVINO"
    set_precision(precision)
    configure("rag.execution_provider", provider)
    peers = {
        f"{name}, {how}": Reference(name, batch=batch, graph=graphs[name])
        for name in targets
        for how, batch in BATCHES.items()
    }
    peers["the server's graph, one by one"] = Reference(precision, batch=1)
    ours, theirs = [], {name: [] for name in peers}
    for _ in range(RUNS):
        seconds, cpu, texts, vectors = one_sync(folder)
        ours.append(len(texts) / seconds)
        spent = ", ".join(f"{kind} {used:.1f} s" for kind, used in cpu.items())
        note(f"{label}: {len(texts)} chunks; sync {seconds:.1f} s, of CPU: {spent}")
        rates_of(peers, texts, theirs)
    # 8-bit graphs scale activations by the batch: rag embeds each text alone
    alone = Reference(precision, batch=1).embed(texts[:100])
    lengths = numpy.linalg.norm(vectors[:100], axis=1) * numpy.linalg.norm(alone, axis=1)
    same = (vectors[:100] * alone).sum(1) / lengths
    note(f"{label}: cosine of both sides' vectors, each text by itself, at worst: {same.min():.6f}")
    for name, rates in theirs.items():
        ratio = median(o / p for o, p in zip(ours, rates))
        target = targets.get(name.split(",")[0])
        row(
            f"sync, {label}, texts/s",
            f"{median(ours):.1f}",
            f"{median(rates):.1f} (Python onnxruntime, {name})",
            ratio,
            f">= {target:.2f}" if target else "",
            ratio >= target if target else None,
        )


def main():
    counter = Reference("int8")
    documents = scifact.documents()
    counts = counter.count_tokens([f"{d['title']}\n\n{d['text']}" for d in documents])
    fitting = [d for d, count in zip(documents, counts) if count <= MAX_TOKENS]
    folder = os.path.join(SCRATCH, "scifact")
    scifact.write_markdown(folder, fitting[:DOCUMENTS])
    graphs = write_graphs(SCRATCH)
    for precision, provider in providers():
        measure(precision, provider, TARGETS[precision, provider], folder, graphs)


main()
