"""The client for programs without asyncio."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg.rows import dict_row, tuple_row

from . import statements as sql
from .connections import Connections
from .errors import RagError
from .progress import Bar
from .records import Added, Answer, Chunk, Hits, Progress, Run, Stream
from .statements import Filter, Statement

T = TypeVar("T")
R = TypeVar("R")
#: seconds between two looks at a sync
INTERVAL = 0.5


def documents_of(
    documents: str | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    uri: str | None,
    others: Mapping[str, Any],
) -> list[Mapping[str, Any]]:
    """Returns the documents of a call of `add`: one text with its uri, or objects."""
    if isinstance(documents, str):
        if uri is None:
            raise TypeError("a text needs a uri, which names the document: add(text, uri='note:1')")
        return [{"content": documents, "uri": uri, **others}]
    if uri is not None or others:
        raise TypeError("uri and other members belong to one text; write them into the documents")
    return [documents] if isinstance(documents, Mapping) else list(documents)


def joined(parts: list[list[T]]) -> list[T]:
    return [item for part in parts for item in part]


def ended(run: Run, source: str) -> Run:
    """Returns the run. Raises RagError if it has failed."""
    if run.phase == "Failed":
        raise RagError(
            f"the sync of {source!r} failed: {run.message}. See rag.runs and rag_status()."
        )
    return run


def summary(run: Run) -> str:
    return (
        f"{run.added} added, {run.updated} updated, {run.deleted} deleted,"
        f" {run.unchanged} unchanged, {run.failed} failed"
    )


class Rag:
    """A database with the extension `rag`.

    `connection` is a connection string, a pool of psycopg_pool, or a connection of psycopg. By a
    string, connections are opened when needed. Threads may share the object, and a fork is safe.
    With a given connection, each write is a part of its transaction if there is one.

    Methods raise a RagError, which ends with the remedy, or else the error of psycopg.
    """

    def __init__(self, connection: Any = "") -> None:
        self._connections = Connections(connection)

    @property
    def source(self) -> Any:
        """The connection string, pool or connection that was given."""
        return self._connections.source

    def run(self, statement: Statement[T]) -> T:
        with self._connections.connection() as (connection, installed):
            with connection.cursor(row_factory=dict_row) as cursor:
                cursor.execute(statement.query(installed.schema), statement.values)
                return statement.read(cursor.fetchall())

    def run_all(self, statements: Iterable[Statement[T]], combine: Callable[[list[T]], R]) -> R:
        """Runs statements in one transaction, and combines their results within it."""
        results: list[T] = []
        with self._connections.connection() as (connection, installed), connection.transaction():
            for statement in statements:
                with connection.cursor(row_factory=dict_row) as cursor:
                    cursor.execute(statement.query(installed.schema), statement.values)
                    results.append(statement.read(cursor.fetchall()))
            return combine(results)

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> Rag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def search(
        self,
        query: str | None,
        collection: str | Sequence[str] = "default",
        *,
        top_k: int | None = None,
        mode: str | None = None,
        filter: Filter | None = None,
        rerank: str | None = None,
        settings: Mapping[str, Any] | None = None,
        embedding: Sequence[float] | None = None,
    ) -> Hits:
        """Returns the chunks that match best, as `rag_search` does."""
        return self.run(
            sql.search(query, collection, top_k, mode, filter, rerank, settings, embedding)
        )

    def add(
        self,
        documents: str | Mapping[str, Any] | Iterable[Mapping[str, Any]],
        uri: str | None = None,
        *,
        collection: str = "default",
        **others: Any,
    ) -> list[Added]:
        """Adds or replaces documents, which the extension splits and embeds: one text with its
        `uri`, or objects with `content` and `uri`, as `rag_add_documents` takes them."""
        items = documents_of(documents, uri, others)
        return self.run_all(sql.add(items, collection), joined)

    def upsert(
        self, chunks: Iterable[Chunk], collection: str = "default", *, replace: bool = True
    ) -> int:
        """Writes chunks as they are, in one transaction. Returns the number written. Without
        `replace`, chunks whose ids are stored stay as they are."""
        return self.run_all(sql.upsert(chunks, collection, replace), sum)

    def get(
        self,
        collection: str = "default",
        *,
        ids: Sequence[str] | None = None,
        filter: Filter | None = None,
        embeddings: bool = False,
    ) -> list[Chunk]:
        """Returns the chunks with some ids, or that pass a filter; without both, all."""
        return self.run(sql.get(collection, ids, filter, embeddings))

    def delete(
        self,
        collection: str = "default",
        *,
        ids: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> int:
        """Deletes the chunks with some ids, or that pass a filter. Returns their number. Ids that
        are not stored are ignored. A filter `{}` deletes all."""
        if ids is None and filter is None:
            raise TypeError("delete needs ids or a filter; filter={} deletes all chunks")
        return self.run(sql.delete(collection, ids, filter))

    def count(self, collection: str = "default", *, filter: Filter | None = None) -> int:
        """Returns the number of chunks, or of those that pass a filter."""
        return self.run(sql.count(collection, filter))

    def values(
        self, key: str, collection: str = "default", *, filter: Filter | None = None
    ) -> list[Any]:
        """Returns the distinct values of a key of the metadata."""
        return self.run(sql.values_of(key, collection, filter))

    def keys(
        self, collection: str = "default", *, filter: Filter | None = None
    ) -> dict[str, list[str]]:
        """Returns the keys of the metadata with the types of their values."""
        return self.run(sql.keys(collection, filter))

    def embed(
        self, texts: Sequence[str], *, purpose: str = "query", model: str | None = None
    ) -> list[list[float]]:
        """Returns the embeddings of texts by a model of the database."""
        return self.run(sql.embed(texts, purpose, model))

    def create_collection(self, name: str, **options: Any) -> None:
        """Creates a collection. The options are the arguments of `rag_create_collection`."""
        self.run(sql.create_collection(name, options))

    def drop_collection(self, name: str) -> None:
        """Drops a collection and its documents."""
        self.run(sql.drop_collection(name))

    def has_collection(self, name: str) -> bool:
        return self.run(sql.has_collection(name))

    def answer(
        self,
        query: str,
        collection: str = "default",
        *,
        top_k: int | None = None,
        mode: str | None = None,
        filter: Filter | None = None,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
        history: Sequence[Mapping[str, str]] | None = None,
    ) -> Answer:
        """Has a chat model answer from what a search finds, as `rag_answer` does."""
        return self.run(
            sql.answer(query, collection, top_k, mode, filter, settings, model, history)
        )

    def stream(
        self,
        query: str,
        collection: str = "default",
        *,
        top_k: int | None = None,
        mode: str | None = None,
        filter: Filter | None = None,
        settings: Mapping[str, Any] | None = None,
        model: str | None = None,
        history: Sequence[Mapping[str, str]] | None = None,
    ) -> Stream:
        """Returns the pieces of an answer as the model writes them."""
        statement = sql.stream(query, collection, top_k, mode, filter, settings, model, history)
        events = self._events(statement)
        return Stream(events, events.close)

    def _events(self, statement: Statement[None]) -> Any:
        with self._connections.connection() as (connection, installed):
            with connection.cursor(row_factory=tuple_row) as cursor:
                yield from cursor.stream(statement.query(installed.schema), statement.values)

    def sync(
        self,
        source: str,
        *,
        progress: bool | Callable[[Progress], None] | None = None,
    ) -> Run:
        """Syncs a source and waits for the end. `progress` is called with each state; True shows a
        bar, and so does None in a terminal. Raises RagError if the run fails."""
        if progress is None:
            progress = sys.stderr.isatty()
        bar = Bar(source) if progress is True else None
        tell = bar or (progress if callable(progress) else None)
        number = self.run(sql.begin_sync(source))
        while self.run(sql.wait(number, INTERVAL)) in ("Pending", "Running"):
            state = self.run(sql.progress(number))
            if tell and state:
                tell(state)
        run = self.run(sql.ended(number))
        if bar:
            bar.end(summary(run))
        return ended(run, source)


def connect(connection: Any = "") -> Rag:
    """Returns a client for a database: by a connection string, a pool or a connection. Without
    one, the variables of libpq count (PGHOST, PGDATABASE, PGUSER ...). Raises a RagError at once if
    the server cannot be reached, or lacks the extension."""
    rag = Rag(connection)
    with rag._connections.connection():
        return rag
