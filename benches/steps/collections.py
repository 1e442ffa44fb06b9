"""Many collections: the time of rag_collection_status, and of adding a document to one of them."""

import time

from support.database import fresh_database
from support.results import median, row

COLLECTIONS = 1000
DOCUMENTS = 50
STATUS_LIMIT = 0.1
ADD_LIMIT = 0.01


def seconds(connection, statement):
    began = time.perf_counter()
    connection.execute(statement)
    return time.perf_counter() - began


def add(connection, label):
    """The median time of adding documents that no collection has yet."""
    statement = "SELECT rag_add_document('Box {0} of {1}.', '{1}/{0}', collection => 'many-1')"
    return median([seconds(connection, statement.format(i, label)) for i in range(DOCUMENTS)])


def main():
    connection = fresh_database("bench")
    connection.execute("SELECT rag_create_collection('many-1')")
    add(connection, "warm-up")
    alone = add(connection, "alone")
    for i in range(2, COLLECTIONS + 1):
        connection.execute(f"SELECT rag_create_collection('many-{i}')")
        connection.execute(
            f"SELECT rag_add_document('Shelf {i}.', 'shelf', collection => 'many-{i}')")
    among = add(connection, "among")
    row(f"rag_add_document among {COLLECTIONS} collections, ms more than alone",
        f"{(among - alone) * 1000:.1f}",
        target=f"<= {ADD_LIMIT * 1000:g} ms", met=among - alone <= ADD_LIMIT)
    status = median([seconds(connection,
        "SELECT * FROM rag_collection_status()") for _ in range(5)])
    row(f"rag_collection_status of {COLLECTIONS} collections, ms", f"{status * 1000:.0f}",
        target=f"<= {STATUS_LIMIT * 1000:g} ms", met=status <= STATUS_LIMIT)
    statement = "SELECT s.* FROM rag.collections c, rag_collection_status(c.name) s"
    each = median([seconds(connection, statement) for _ in range(3)])
    row("the same, asked of each by its name, ms", f"{each * 1000:.0f}")


main()
