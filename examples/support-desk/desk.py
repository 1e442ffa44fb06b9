#!/usr/bin/env python3
"""A support desk: new tickets, solved tickets, and what solved those that are alike."""

import argparse

import psycopg
from psycopg.rows import dict_row
from rag_postgresql import Rag


def new(db: psycopg.Connection, tenant: str, subject: str, question: str) -> str:
    statement = "INSERT INTO ticket (tenant, subject, question) VALUES (%s, %s, %s) RETURNING id"
    number = db.execute(statement, (tenant, subject, question)).fetchone()["id"]
    return f"ticket {number}"


def solve(db: psycopg.Connection, tenant: str, number: int, solution: str) -> str:
    statement = "UPDATE ticket SET status = 'solved', solution = %s WHERE id = %s"
    if db.execute(statement, (solution, number)).rowcount == 0:
        raise SystemExit(f"{tenant} has no ticket {number}")
    return f"ticket {number} is solved"


def suggest(db: psycopg.Connection, tenant: str, text: str) -> str:
    hits = Rag(db).search(text, "tickets", top_k=3)
    if not hits:
        return "nothing alike"
    numbers = [hit.metadata["row_key"]["id"] for hit in hits]
    # those that are still there and solved: the index is about a second behind the table
    statement = """
        SELECT id, subject, solution FROM ticket WHERE id = ANY (%s) AND status = 'solved'
        ORDER BY array_position(%s, id)"""
    rows = db.execute(statement, (numbers, numbers)).fetchall()
    return "\n".join(f"{row['id']}  {row['subject']}: {row['solution']}" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenant", required=True)
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("new", help="write a ticket")
    add.add_argument("subject")
    add.add_argument("question")
    add = commands.add_parser("solve", help="tell what solved a ticket")
    add.add_argument("number", type=int)
    add.add_argument("solution")
    add = commands.add_parser("suggest", help="what solved tickets that are alike")
    add.add_argument("text")
    arguments = vars(parser.parse_args())
    command = {"new": new, "solve": solve, "suggest": suggest}[arguments.pop("command")]
    with psycopg.connect(row_factory=dict_row) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (arguments["tenant"],))
        print(command(db, **arguments))


if __name__ == "__main__":
    main()
