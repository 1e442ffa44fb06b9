"""Facts about an index and the write-ahead log."""

from support.results import note, row


def log_position(connection):
    return connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()[0]


def check(connection, index, when):
    """Checks every invariant of rag's index, if this version has rag_check_index."""
    if connection.execute("SELECT to_regproc('rag_check_index') IS NOT NULL").fetchone()[0]:
        problems = connection.execute("SELECT * FROM rag_check_index(%s)", [index]).fetchall()
        for problem in problems[:10]:
            note(f"{index}: {problem}")
        row(
            f"problems rag_check_index finds {when}",
            str(len(problems)),
            target="0",
            met=not problems,
        )
