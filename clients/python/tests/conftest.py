"""Each test has a collection of its own in a real database: PGHOST, PGPORT, PGUSER, PGDATABASE."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rag_postgresql import Rag


def run_sql(statement: str, *values: Any) -> Any:
    """Runs a statement, and returns the first value of the first row."""
    with psycopg.connect("", autocommit=True) as connection:
        cursor = connection.execute(statement, values or None)
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


@pytest.fixture
def rag() -> Iterator[Rag]:
    with Rag("") as client:
        yield client


@pytest.fixture
def collection(rag: Rag) -> Iterator[str]:
    """The name of a collection that does not exist. It is dropped after the test."""
    name = f"t{uuid.uuid4().hex[:20]}"
    yield name
    if rag.has_collection(name):
        rag.drop_collection(name)


@pytest.fixture
def vectors(rag: Rag, collection: str) -> str:
    """A collection without a model, of 3 dimensions."""
    rag.create_collection(collection, dimensions=3)
    return collection
