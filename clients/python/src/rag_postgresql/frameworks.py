"""What the stores of all frameworks share."""

from __future__ import annotations

from typing import Any

from .async_client import AsyncRag
from .client import Rag
from .errors import RagError


class Clients:
    """A client and its twin for asyncio, from a connection string, or the one that is given."""

    def __init__(self, connection: Any) -> None:
        self._sync: Rag | None = None
        self._async: AsyncRag | None = None
        if isinstance(connection, Rag):
            self._sync, connection = connection, connection.source
        elif isinstance(connection, AsyncRag):
            self._async, connection = connection, connection.source
        if isinstance(connection, str):
            self._sync = self._sync or Rag(connection)
            self._async = self._async or AsyncRag(connection)
        elif self._sync is None and self._async is None:
            raise TypeError("connection must be a connection string, a Rag or an AsyncRag")

    @property
    def sync(self) -> Rag:
        if self._sync is None:
            raise RagError(
                "this AsyncRag has a pool for asyncio. Use the methods that are awaited."
            )
        return self._sync

    @property
    def is_async(self) -> bool:
        return self._async is not None

    @property
    def asynchronous(self) -> AsyncRag:
        if self._async is None:
            raise RagError("this Rag has no connection string. Give the store an AsyncRag.")
        return self._async
