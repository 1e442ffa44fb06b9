"""The client for asyncio."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg.rows import dict_row, tuple_row

from . import statements as sql
from .client import INTERVAL, documents_of, ended, joined, summary
from .connections import AsyncConnections
from .progress import Bar
from .records import Added, Answer, AsyncStream, Chunk, Hits, Progress, Run
from .statements import Filter, Statement

T = TypeVar("T")
R = TypeVar("R")


class AsyncRag:
    """A database with the extension `rag`.

    `connection` is a connection string, an `AsyncConnectionPool`, or an `AsyncConnection`. By a
    string, connections are opened when needed, and each event loop has its own.
    With a given connection, each write is a part of its transaction if there is one.

    Methods raise a RagError, which ends with the remedy, or else the error of psycopg.
    """

    def __init__(self, connection: Any = "") -> None:
        self._connections = AsyncConnections(connection)

    @property
    def source(self) -> Any:
        """The connection string, pool or connection that was given."""
        return self._connections.source

    async def run(self, statement: Statement[T]) -> T:
        async with self._connections.connection() as (connection, installed):
            async with connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(statement.query(installed.schema), statement.values)
                return statement.read(await cursor.fetchall())

    async def run_all(
        self, statements: Iterable[Statement[T]], combine: Callable[[list[T]], R]
    ) -> R:
        """Runs statements in one transaction, and combines their results within it."""
        results: list[T] = []
        async with self._connections.connection() as (connection, installed):
            async with connection.transaction():
                for statement in statements:
                    async with connection.cursor(row_factory=dict_row) as cursor:
                        await cursor.execute(statement.query(installed.schema), statement.values)
                        results.append(statement.read(await cursor.fetchall()))
                return combine(results)

    async def close(self) -> None:
        await self._connections.close()

    async def __aenter__(self) -> AsyncRag:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def search(
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
        return await self.run(
            sql.search(query, collection, top_k, mode, filter, rerank, settings, embedding)
        )

    async def add(
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
        return await self.run_all(sql.add(items, collection), joined)

    async def upsert(
        self, chunks: Iterable[Chunk], collection: str = "default", *, replace: bool = True
    ) -> int:
        """Writes chunks as they are, in one transaction. Returns the number written. Without
        `replace`, chunks whose ids are stored stay as they are."""
        return await self.run_all(sql.upsert(chunks, collection, replace), sum)

    async def get(
        self,
        collection: str = "default",
        *,
        ids: Sequence[str] | None = None,
        filter: Filter | None = None,
        embeddings: bool = False,
    ) -> list[Chunk]:
        """Returns the chunks with some ids, or that pass a filter; without both, all."""
        return await self.run(sql.get(collection, ids, filter, embeddings))

    async def delete(
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
        return await self.run(sql.delete(collection, ids, filter))

    async def count(self, collection: str = "default", *, filter: Filter | None = None) -> int:
        """Returns the number of chunks, or of those that pass a filter."""
        return await self.run(sql.count(collection, filter))

    async def values(
        self, key: str, collection: str = "default", *, filter: Filter | None = None
    ) -> list[Any]:
        """Returns the distinct values of a key of the metadata."""
        return await self.run(sql.values_of(key, collection, filter))

    async def keys(
        self, collection: str = "default", *, filter: Filter | None = None
    ) -> dict[str, list[str]]:
        """Returns the keys of the metadata with the types of their values."""
        return await self.run(sql.keys(collection, filter))

    async def embed(
        self, texts: Sequence[str], *, purpose: str = "query", model: str | None = None
    ) -> list[list[float]]:
        """Returns the embeddings of texts by a model of the database."""
        return await self.run(sql.embed(texts, purpose, model))

    async def create_collection(self, name: str, **options: Any) -> None:
        """Creates a collection. The options are the arguments of `rag_create_collection`."""
        await self.run(sql.create_collection(name, options))

    async def drop_collection(self, name: str) -> None:
        """Drops a collection and its documents."""
        await self.run(sql.drop_collection(name))

    async def has_collection(self, name: str) -> bool:
        return await self.run(sql.has_collection(name))

    async def answer(
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
        return await self.run(
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
    ) -> AsyncStream:
        """Returns the pieces of an answer as the model writes them."""
        statement = sql.stream(query, collection, top_k, mode, filter, settings, model, history)
        return AsyncStream(self._events(statement))

    async def _events(
        self, statement: Statement[None]
    ) -> AsyncGenerator[tuple[str, str | None, Any], None]:
        async with self._connections.connection() as (connection, installed):
            async with connection.cursor(row_factory=tuple_row) as cursor:
                async for row in cursor.stream(statement.query(installed.schema), statement.values):
                    yield row

    async def sync(
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
        number = await self.run(sql.begin_sync(source))
        while await self.run(sql.wait(number, INTERVAL)) in ("Pending", "Running"):
            state = await self.run(sql.progress(number))
            if tell and state:
                tell(state)
        run = await self.run(sql.ended(number))
        if bar:
            bar.end(summary(run))
        return ended(run, source)


async def connect_async(connection: Any = "") -> AsyncRag:
    """Returns a client for asyncio. See `connect`."""
    rag = AsyncRag(connection)
    async with rag._connections.connection():
        return rag
