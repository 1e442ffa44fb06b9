"""The time that the triggers of a table source add to an UPDATE of 10,000 rows, as the backend's
processor time."""

from support.database import fresh_database
from support.results import median, note, row

ROWS = 10_000
ROUNDS = 15

# The same table twice; one of them is a source. The old and the new rows of the first width fit
# into work_mem (4 MB each), those of the second do not. The bodies of the third are in the TOAST
# table.
SETUP = """
CREATE TABLE {name} (id bigint PRIMARY KEY, title text NOT NULL, body text NOT NULL, views int NOT NULL DEFAULT 0, changed timestamptz);
INSERT INTO {name} SELECT i, 'Post ' || i, (SELECT string_agg(md5(i::text || j), ' ') FROM generate_series(1, {words}) j)
FROM generate_series(1, {rows}) i
"""
STATEMENTS = {
    "text of every row": "UPDATE {name} SET body = substr(body, 2) || 'x', changed = now()",
    "title of every row": "UPDATE {name} SET title = 'Title ' || id || now()",
    "a column that is not indexed": "UPDATE {name} SET views = views + 1",
    "one row": "UPDATE {name} SET body = substr(body, 2) || 'x' WHERE id = 5000",
}


def cpu(connection):
    """Nanoseconds of processor time of the backend: without other programs and without waiting for
    the disk."""
    with open(f"/proc/{connection.info.backend_pid}/schedstat") as file:
        return int(file.read().split()[0])


def milliseconds(connection, statement):
    before = cpu(connection)
    connection.execute(statement)
    return (cpu(connection) - before) / 1e6


def main():
    connection = fresh_database("bench")
    for width, words in [("250 bytes in the row", 8), ("600 bytes in the row", 18),
        ("6 kB beside it", 180)]:
        for name in ["plain", "noted"]:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(SETUP.format(name=name, rows=ROWS, words=words))
        connection.execute(
            """SELECT rag_create_source('noted', 'table', '{"relation": "noted", "sync": "trigger"}')""")
        connection.execute("VACUUM ANALYZE plain, noted")
        for what, statement in STATEMENTS.items():
            times = {"plain": [], "noted": []}
            rounds = ROUNDS if what != "one row" else 200
            for i in range(rounds):
                # in turns, with alternating order
                for name in ["plain", "noted"] if i % 2 else ["noted", "plain"]:
                    times[name].append(milliseconds(connection, statement.format(name=name)))
                if what != "one row":
                    connection.execute("VACUUM plain, noted")
                    connection.execute("TRUNCATE rag_internal.table_change")
            plain, noted = median(times["plain"]), median(times["noted"])
            note(
                f"{width}, {what}: at best {min(times['plain']):.2f} without, {min(times['noted']):.2f} with")
            target = {} if what == "one row" else {"target": "<= 1.2", "met": noted <= 1.2 * plain}
            row(f"UPDATE of {what}, {width}, CPU ms", f"{noted:.2f}", f"{plain:.2f} (no triggers)",
                noted / plain, **target)
        connection.execute("SELECT rag_drop_source('noted')")


main()
