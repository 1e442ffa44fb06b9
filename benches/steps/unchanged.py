"""A second sync of an unchanged folder."""

import os

from support.database import SCRATCH, CpuSampler, add_folder, fresh_database, sync
from support.results import median, note, row

FILES = 5000
RUNS = 5
LIMIT = 3.0


def main():
    folder = os.path.join(SCRATCH, "notes")
    for i in range(FILES):
        directory = os.path.join(folder, f"{i % 50:02}")
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"{i}.md"), "w") as file:
            file.write(
                f"# Note {i}\n\nShelf {i % 37} holds {i * 7 % 101} boxes of part number {i * i}.\n")
    os.system(f"chmod -R a+rX '{folder}'")
    connection = fresh_database("bench")
    add_folder(connection, "notes", folder)
    connection.execute("SELECT rag_embed('the model is loaded')")
    with CpuSampler() as cpu:
        first, run = sync(connection, "notes")
    assert run["documents_added"] == FILES and run["documents_failed"] == 0, run
    spent = ", ".join(f"{kind} {used:.1f} s" for kind, used in cpu.seconds.items())
    note(f"first sync: {first:.1f} s, {run['chunks_written']} chunks; of CPU: {spent}")
    row(f"first sync of {FILES} small files, s", f"{first:.1f}")
    times = []
    for _ in range(RUNS):
        seconds, run = sync(connection, "notes")
        assert run["documents_unchanged"] == FILES, run
        times.append(seconds)
    row("second sync, nothing changed, s", f"{median(times):.2f}", target=f"<= {LIMIT:g} s",
        met=median(times) <= LIMIT)
    work = run["chunks_embedded"] + run["chunks_written"]
    row("chunks it embedded and wrote", f"{run['chunks_embedded']} and {run['chunks_written']}",
        target="0 and 0", met=work == 0)


main()
