"""Shared by the parts: the sides' databases, the text, the queries, and the exact scores."""

import os
from dataclasses import dataclass

import numpy
import psycopg

from keywords.exact import Exact
from keywords.sides import ALL, PLAIN, TANTIVY, Side
from support.client import Client
from support.database import connect
from support.results import note

# A few minutes on a tenth of the text, to try things out: its figures mean little.
QUICK = os.environ.get("BENCH_BM25_QUICK") == "1"
FOLDER = os.environ["BENCH_TEXT"]
SEED = 20261123
QUERIES = 100 if QUICK else 1000
# distinct terms of a query
TERMS = range(2, 13)
INSERTS = 600 if QUICK else 6000
# Buckets are drawn evenly from 0..999: `bucket < 10` selects one row in a hundred at random.
BUCKETS = 1000
MEMORY = "1GB"
# With the backend itself one process a core.
WORKERS = max(0, os.cpu_count() - 1)
# Work of parallel workers would not be seen in the backend's time.
SESSION = """SET client_min_messages = warning;
    SET search_path = public, rag;
    SET work_mem = '64MB';
    SET max_parallel_workers_per_gather = 0;
    SET jit = off"""


@dataclass
class Query:
    text: str
    # with repetitions
    terms: list[str]

    @property
    def tsquery(self):
        """The terms linked with OR, in the notation of the type tsquery."""
        quoted = lambda term: "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
        return " | ".join(map(quoted, dict.fromkeys(self.terms)))

    def parameter(self, side):
        return self.tsquery if side.takes_tsquery else self.text


def wire(side, queries):
    """Returns the parameters of the queries in binary form."""
    return [query.parameter(side).encode() for query in queries]


@dataclass
class Bench:
    sides: list[Side]
    # side name -> a session for everything that is not measured by the query
    connections: dict[str, psycopg.Connection]
    has_tantivy: bool
    # the terms of each document, with repetitions; an id is a position
    documents: list[list[str]]
    buckets: numpy.ndarray
    queries: list[Query]
    # texts of documents that are in no table
    held: list[str]
    exact: Exact

    def of(self, side):
        return self.connections[side.name]

    def has(self, side):
        return side in self.sides

    def close(self):
        for connection in self.connections.values():
            connection.close()


def session(side):
    client = Client(side.database)
    client.execute(SESSION)
    return client


def maintenance(side):
    connection = connect(side.database)
    connection.execute(SESSION)
    connection.execute(f"SET maintenance_work_mem = '{MEMORY}'")
    connection.execute(f"SET max_parallel_maintenance_workers = {WORKERS}")
    return connection


def open_bench():
    names = os.environ.get("BENCH_BM25_SIDES", "rag textsearch paradedb gin tantivy").split()
    sides = [side for side in ALL if side.name in names and is_available(side)]
    connections = {side.name: open_database(side) for side in [PLAIN, *sides]}
    texts, held = read("chunks"), read("held")
    if QUICK:
        texts = texts[::10]
    chance = numpy.random.default_rng(SEED)
    chance.shuffle(held)
    buckets = chance.integers(0, BUCKETS, len(texts))
    for connection in connections.values():
        fill(connection, "chunks", texts, buckets)
    plain = connections[PLAIN.name]
    documents = terms_of(plain, "chunks")
    exact = Exact(documents)
    note(
        f"{len(texts):,} chunks of {numpy.mean([len(text.split()) for text in texts]):.0f} words, "
        f"{len(exact.numbers):,} terms, {exact.postings / 1e6:.1f} million postings; "
        f"{os.cpu_count()} processors, {WORKERS} parallel maintenance workers, "
        f"maintenance_work_mem {MEMORY}"
    )
    queries = choose_queries(plain)
    mean = numpy.mean([len(set(query.terms)) for query in queries])
    note(f"{len(queries):,} queries of {mean:.1f} terms")
    return Bench(
        sides, connections, TANTIVY in names, documents, buckets, queries, held[:INSERTS], exact
    )


def is_available(side):
    with connect() as connection:
        for name in side.extensions:
            found = connection.execute(
                "SELECT default_version FROM pg_available_extensions WHERE name = %s", [name]
            ).fetchone()
            if found is None:
                note(f"{side.label} is left out: this PostgreSQL does not have it")
                return False
            note(f"{name} {found[0]}")
    return True


def open_database(side):
    with connect() as admin:
        admin.execute(f"CREATE DATABASE {side.database}")
    with connect(side.database) as connection:
        connection.execute("SET client_min_messages = error")
        for name in side.extensions:
            connection.execute(f"CREATE EXTENSION {name}")
            connection.execute(
                f"ALTER DATABASE {side.database} SET session_preload_libraries = {name}"
            )
    return maintenance(side)


def read(name):
    """Returns the texts of a file that keywords.corpus wrote."""
    with open(os.path.join(FOLDER, f"{name}.tsv"), encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t")[1] for line in file]


def fill(connection, table, texts, buckets):
    """Creates a table of these texts: an id is a position in the list."""
    connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, bucket integer, body text)")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for id, (bucket, text) in enumerate(zip(buckets.tolist(), texts)):
            copy.write_row((id, bucket, text))
    connection.execute(f"VACUUM ANALYZE {table}")


# The terms of a text with repetitions, each followed by a space, which no term contains.
TERMS_OF_BODY = (
    "(SELECT coalesce(string_agg(repeat(lexeme || ' ', cardinality(positions)), ''), '') "
    "FROM unnest(to_tsvector('english', body)))"
)


def split(terms):
    # a term may contain other white space
    return terms.split(" ")[:-1]


def terms_of(connection, table):
    """Returns the terms of each document of a table, in the order of the ids."""
    statement = f"COPY (SELECT {TERMS_OF_BODY} FROM {table} ORDER BY id) TO STDOUT"
    with connection.cursor().copy(statement) as copy:
        return [split(terms) for (terms,) in copy.rows()]


def analyze(connection, texts):
    """Returns a query for each text."""
    statement = (
        f"SELECT {TERMS_OF_BODY} FROM unnest(%s::text[]) WITH ORDINALITY AS t (body, n) ORDER BY n"
    )
    found = connection.execute(statement, [texts]).fetchall()
    return [Query(text, split(terms)) for text, (terms,) in zip(texts, found)]


def choose_queries(connection):
    with open(os.path.join(FOLDER, "queries.txt"), encoding="utf-8") as file:
        candidates = analyze(connection, file.read().splitlines())
    return [query for query in candidates if len(set(query.terms)) in TERMS][:QUERIES]
