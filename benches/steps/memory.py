"""Memory of a backend that has searched, compared with one that has not; and the processes that
run the model."""

import os
import re

from support.database import SCRATCH, add_folder, connect, fresh_database, processes, sync
from support.results import row

DOCUMENTS = 1000
SEARCHES = 50
SESSIONS = 20


def private_mib(pid):
    """Resident memory without Postgres's shared memory segments: heap, stacks, and used pages of
    libraries."""
    total = shared = 0
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                fields = line.split(maxsplit=5)
                path = fields[5].strip() if len(fields) == 6 else ""
                shared = fields[1].endswith("s") or path.startswith(("/dev/zero", "/dev/shm",
                    "/SYSV"))
            elif line.startswith("Rss:") and not shared:
                total += int(line.split()[1])
    return total / 1024


def backend(connection):
    return connection.info.backend_pid


def main():
    folder = os.path.join(SCRATCH, "notes")
    os.makedirs(folder)
    for i in range(DOCUMENTS):
        with open(os.path.join(folder, f"{i}.txt"), "w") as file:
            file.write(
                f"Note {i}: shelf {i % 37} holds {i * 7 % 101} boxes of part number {i * i}.\n" * 5)
    os.chmod(folder, 0o755)
    setup = fresh_database("bench")
    add_folder(setup, "notes", folder)
    sync(setup, "notes")
    vector = setup.execute("SELECT rag_embed('boxes')::text").fetchone()[0]

    idle, twin, searcher = connect("bench"), connect("bench"), connect("bench")
    for connection in [idle, twin, searcher]:
        connection.execute("SELECT 1")
    for i in range(SEARCHES):
        twin.execute(
            "SELECT content, title, metadata FROM rag.chunks WHERE collection = 'notes' ORDER BY embedding <=> %s::rag_types.vector LIMIT 5", [vector]
        ).fetchall()
        found = searcher.execute("SELECT * FROM rag_search(%s, 'notes')",
            [f"where are boxes of part {i}"]).fetchall()
        assert len(found) == 5
    searched, same_sql, nothing = (private_mib(backend(c)) for c in [searcher, twin, idle])
    row("backend after rag_search, MiB", f"{searched:.1f}", f"{same_sql:.1f} (same SQL without)",
        target="<= 10 above", met=searched - same_sql <= 10)
    row("", f"{searched:.1f}", f"{nothing:.1f} (only SELECT 1)", target="<= 10 above",
        met=searched - nothing <= 10)

    sessions = [connect("bench") for _ in range(SESSIONS)]
    for i, connection in enumerate(sessions):
        connection.execute("SELECT rag_embed(%s)", [f"session {i}"])
    engines = [pid for pid, (command, _) in processes().items() if "rag-engine embed" in command]
    row(f"engine processes of {SESSIONS} sessions", str(len(engines)), target="1",
        met=len(engines) == 1)


main()
