"""Connections: opened when they are needed, kept for the next call, never shared between threads,
event loops or processes."""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from .errors import MINIMUM_SERVER, ExtensionMissing, NoConnection, ServerTooOld, explained

C = TypeVar("C")

#: poolers such as PgBouncer may give each transaction another session, without prepared statements
_OPTIONS: Any = {"autocommit": True, "prepare_threshold": None}
#: connections that are kept for the next call
MAX_IDLE = 4
#: after CREATE EXTENSION, for messages that name the database
_EXTENSION = sql.SQL(
    "SELECT n.nspname, e.extversion,"
    " to_regproc(quote_ident(n.nspname) || '.rag_get_chunks') IS NOT NULL,"
    " current_database(), current_user"
    " FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'rag'"
    " LEFT JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
)


@dataclass(frozen=True)
class Installed:
    """Where the extension is, and as whom the session speaks to it."""

    schema: str
    role: str


def _installed(row: Any, server: int) -> Installed:
    schema, version, is_new, database, role = row
    if server < MINIMUM_SERVER:
        raise ServerTooOld(
            f"the server is PostgreSQL {server // 10000}, and rag needs 15 or newer. Upgrade it."
        )
    if schema is None:
        raise ExtensionMissing(
            f'the database "{database}" does not have the extension rag. As a superuser, run:'
            " CREATE EXTENSION rag"
        )
    if not is_new:
        raise ExtensionMissing(
            f'the extension rag {version} of the database "{database}" is too old for this client.'
            " Install a newer one, and run: ALTER EXTENSION rag UPDATE"
        )
    return Installed(schema, role)


def _refused(error: psycopg.OperationalError) -> NoConnection:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no answer"
    return NoConnection(f"{reason}. Check host, port, user and password of the connection string.")


def _is_open(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """False if the server has closed the connection meanwhile, or has something to say."""
    if connection.closed:
        return False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            return not selector.select(0)
    except (psycopg.Error, OSError, ValueError):
        return False


class _Kept(Generic[C]):
    """Idle connections of this process. Those that a fork has copied belong to the parent: they
    are neither used nor closed here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._idle: list[C] = []
        self._of_parent: list[C] = []

    def take(self) -> C | None:
        with self._lock:
            if self._pid != os.getpid():
                self._of_parent, self._idle, self._pid = self._idle, [], os.getpid()
            return self._idle.pop() if self._idle else None

    def keep(self, connection: C) -> bool:
        with self._lock:
            if len(self._idle) >= MAX_IDLE or self._pid != os.getpid():
                return False
            self._idle.append(connection)
            return True

    def all(self) -> list[C]:
        with self._lock:
            taken, self._idle = self._idle, []
            return taken if self._pid == os.getpid() else []


class Connections:
    """Connections by a connection string, from a pool of psycopg_pool, or one that is given."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._kept: _Kept[psycopg.Connection[Any]] = _Kept()
        self._installed: Installed | None = None

    @contextmanager
    def connection(self) -> Iterator[tuple[psycopg.Connection[Any], Installed]]:
        with self._raw() as connection:
            if self._installed is None:
                with connection.cursor(row_factory=tuple_row) as cursor:
                    row = cursor.execute(_EXTENSION).fetchone()
                self._installed = _installed(row, connection.info.server_version)
            try:
                yield connection, self._installed
            except psycopg.Error as e:
                raised = explained(e, self._installed.role)
                if raised is e:
                    raise
                raise raised from e

    @contextmanager
    def _raw(self) -> Iterator[psycopg.Connection[Any]]:
        if not isinstance(self.source, (str, psycopg.Connection)):
            with self.source.connection() as connection:
                yield connection
            return
        if not isinstance(self.source, str):
            yield self.source
            return
        connection = self._kept.take()
        while connection is not None and not _is_open(connection):
            connection.close()
            connection = self._kept.take()
        if connection is None:
            try:
                connection = psycopg.connect(self.source, **_OPTIONS)
            except psycopg.OperationalError as e:
                raise _refused(e) from e
        try:
            yield connection
        finally:
            idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if connection.closed or not idle or not self._kept.keep(connection):
                connection.close()

    def close(self) -> None:
        for connection in self._kept.all():
            connection.close()


class AsyncConnections:
    """The same for asyncio. Each event loop has connections of its own."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._kept: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, _Kept[psycopg.AsyncConnection[Any]]
        ] = weakref.WeakKeyDictionary()
        self._installed: Installed | None = None

    @asynccontextmanager
    async def connection(
        self,
    ) -> AsyncIterator[tuple[psycopg.AsyncConnection[Any], Installed]]:
        async with self._raw() as connection:
            if self._installed is None:
                async with connection.cursor(row_factory=tuple_row) as cursor:
                    row = await (await cursor.execute(_EXTENSION)).fetchone()
                self._installed = _installed(row, connection.info.server_version)
            try:
                yield connection, self._installed
            except psycopg.Error as e:
                raised = explained(e, self._installed.role)
                if raised is e:
                    raise
                raise raised from e

    @asynccontextmanager
    async def _raw(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        if not isinstance(self.source, (str, psycopg.AsyncConnection)):
            async with self.source.connection() as connection:
                yield connection
            return
        if not isinstance(self.source, str):
            yield self.source
            return
        kept = self._kept.setdefault(asyncio.get_running_loop(), _Kept())
        connection = kept.take()
        while connection is not None and not _is_open(connection):
            await connection.close()
            connection = kept.take()
        if connection is None:
            try:
                connection = await psycopg.AsyncConnection.connect(self.source, **_OPTIONS)
            except psycopg.OperationalError as e:
                raise _refused(e) from e
        try:
            yield connection
        finally:
            idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if connection.closed or not idle or not kept.keep(connection):
                await connection.close()

    async def close(self) -> None:
        kept = self._kept.get(asyncio.get_running_loop())
        for connection in kept.all() if kept else []:
            await connection.close()
