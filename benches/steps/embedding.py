"""Texts per second of a sync, against the same texts through ONNX Runtime under Python."""

import os
import time

import numpy

from support import scifact
from support.database import SCRATCH, CpuSampler, add_folder, fresh_database, set_precision, sync
from support.reference import MAX_TOKENS, PRECISIONS, Reference
from support.results import median, note, row

DOCUMENTS = {"int8": 1000, "fp32": 400}
RUNS = 3


def texts_and_vectors(connection):
    """What was embedded, as rag_protocol::ingest::embedded_text puts it together, and what came of it."""
    rows = connection.execute(
        """SELECT CASE WHEN d.own_title THEN d.title || E'\n\n' ELSE '' END || c.content, c.embedding::real[]
           FROM rag.chunks c JOIN rag.documents d USING (document_id) ORDER BY c.chunk_id"""
    ).fetchall()
    return [text for text, _ in rows], numpy.array([vector for _, vector in rows], numpy.float32)


def fastest_reference(precision, texts):
    """What serves it best depends on the machine and the graph: that is what rag is compared with."""
    best = None
    for spinning, batch in [(True, 8), (False, 8), (False, 1)]:
        reference = Reference(precision, spinning=spinning, batch=batch)
        reference.embed(texts[:8])
        started = time.perf_counter()
        reference.embed(texts)
        seconds = time.perf_counter() - started
        threads = "spinning" if spinning else "waiting"
        note(f"{precision}: Python onnxruntime with {threads} threads, batches of {batch}: {len(texts) / seconds:.1f} texts/s")
        if best is None or seconds < best[0]:
            best = seconds, reference
    return best[1]


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


def main():
    counter = Reference("int8")
    documents = scifact.documents()
    counts = counter.count_tokens([f"{d['title']}\n\n{d['text']}" for d in documents])
    fitting = [d for d, count in zip(documents, counts) if count <= MAX_TOKENS]

    for precision in PRECISIONS:
        number = DOCUMENTS[precision]
        chosen = fitting[:number]
        folder = os.path.join(SCRATCH, f"scifact-{number}")
        scifact.write_markdown(folder, chosen)
        set_precision(precision)
        reference = fastest_reference(precision, [f"{d['title']}\n\n{d['text']}" for d in chosen[:64]])
        ours, peer = [], []
        for _ in range(RUNS):
            seconds, cpu, texts, vectors = one_sync(folder)
            ours.append(len(texts) / seconds)
            started, used = time.perf_counter(), time.process_time()
            reference.embed(texts)
            peer.append(len(texts) / (time.perf_counter() - started))
            used = time.process_time() - used
            spent = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in cpu.items())
            note(f"{precision}: {len(chosen)} documents, {len(texts)} chunks; sync {len(texts) / ours[-1]:.1f} s, of CPU: {spent}; peer {len(texts) / peer[-1]:.1f} s, of CPU: {used:.1f} s")
        # 8-bit graphs scale activations by the batch: rag gives each text the vector that it has alone
        alone = Reference(precision, batch=1).embed(texts[:100])
        same = (vectors[:100] * alone).sum(1) / numpy.linalg.norm(vectors[:100], axis=1) / numpy.linalg.norm(alone, axis=1)
        note(f"{precision}: cosine of both sides' vectors, each text by itself, at worst: {same.min():.6f}")
        ratio = median(o / p for o, p in zip(ours, peer))
        row(
            f"sync, {precision}, texts/s", f"{median(ours):.1f}", f"{median(peer):.1f} (Python onnxruntime)", ratio, ">= 1.00", ratio >= 1
        )


main()
