"""Chunks that a sync stores per second, when the cache has their embeddings."""

import os

from support import scifact
from support.database import SCRATCH, CpuSampler, add_folder, fresh_database, sync
from support.results import median, note, row

RUNS = 3
TARGET = 2500


def first_sync(connection):
    """Syncs the folder into an empty collection. Returns the seconds, those of the server's
    processes, and the run's row."""
    with CpuSampler() as cpu:
        seconds, run = sync(connection, "scifact")
    assert run["documents_failed"] == 0, run
    return seconds, cpu.seconds, run


def main():
    folder = os.path.join(SCRATCH, "scifact")
    scifact.write_markdown(folder, scifact.documents())
    connection = fresh_database("bench")
    add_folder(connection, "scifact", folder)
    connection.execute("SELECT rag_embed('the model is loaded')")
    seconds, _, run = first_sync(connection)
    note(f"with the model: {seconds:.1f} s, {run['chunks_written']} chunks")
    rates, stored = [], []
    for _ in range(RUNS):
        connection.execute("SELECT rag_drop_collection('scifact', with_sources => true)")
        add_folder(connection, "scifact", folder)
        seconds, spent, run = first_sync(connection)
        rates.append(run["chunks_written"] / seconds)
        stored.append(run["chunks_written"] / run["store_seconds"])
        used = ", ".join(f"{kind} {cpu:.1f} s" for kind, cpu in spent.items())
        note(
            f"from the cache: {seconds:.2f} s, {run['chunks_written']} chunks of"
            f" {run['documents_added']} documents; storing {run['store_seconds']:.2f} s; of CPU: {used}"
        )
    row("chunks stored a second, of the time that a sync stores", f"{median(stored):.0f}",
        target=f">= {TARGET}", met=median(stored) >= TARGET)
    row("chunks a second, whole sync with the index built", f"{median(rates):.0f}")


main()
