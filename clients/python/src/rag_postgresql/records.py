"""What searches and other calls return."""

from __future__ import annotations

import html
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Metadata = dict[str, Any]


@dataclass(frozen=True)
class Hit:
    """A chunk that a search has found. A higher score is better, and 1 is the best."""

    id: str
    rank: int
    score: float
    content: str
    uri: str
    title: str | None
    metadata: Metadata
    citation: str
    collection: str
    chunk_id: str
    document_id: str
    chunk_index: int
    start_index: int
    vector_score: float | None
    keyword_score: float | None
    vector_rank: int | None
    keyword_rank: int | None
    source: str | None
    knowledge_id: int | None
    document_type: str | None
    category: str | None
    tags: list[str] | None
    page: int | None
    start_line: int | None
    end_line: int | None
    heading_path: list[str] | None
    anchor: str | None
    indexed_at: datetime | None
    fetched_at: datetime | None
    also_at: list[str] | None
    #: HTML, in which words of the query are between <mark> and </mark>
    snippet: str | None
    #: where words of the query are in `content`: from and to, in characters from 0
    matches: list[tuple[int, int]]


class Hits(list[Hit]):
    """The hits of a search, best first. A notebook shows them as a table with marked words."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{hit.rank}</td><td>{hit.score:.2f}</td>"
            f"<td>{html.escape(hit.title or hit.uri)}</td>"
            f"<td style='text-align:left'>{hit.snippet or html.escape(hit.content)}</td>"
            f"<td>{html.escape(hit.uri)}</td></tr>"
            for hit in self
        )
        head = "".join(f"<th>{name}</th>" for name in ("", "score", "title", "text", "uri"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


@dataclass(frozen=True)
class Chunk:
    """A stored chunk, or one to store.

    `embedding` is None if the collection's model is to embed it, or if it was not asked for.
    """

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    title: str | None = None
    category: str | None = None
    tags: Sequence[str] | None = None
    page: int | None = None
    uri: str | None = None


@dataclass(frozen=True)
class Added:
    """What became of one document: `added`, `updated`, `unchanged`, or `failed` with an error."""

    uri: str
    action: str
    document_id: str | None
    chunks: int
    error: str | None

    @property
    def success(self) -> bool:
        return self.action != "failed"


@dataclass(frozen=True)
class Answer:
    """The answer of a chat model, with the chunks that it was given."""

    message: str
    context: list[dict[str, Any]]
    model: str | None
    provider: str | None
    metadata: dict[str, Any]

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Progress:
    """How far a sync is. `total` is None until the documents are listed."""

    stage: str
    done: int
    total: int | None
    chunks: int
    uri: str | None


@dataclass(frozen=True)
class Run:
    """A sync that has ended."""

    run_id: int
    phase: str
    added: int
    updated: int
    deleted: int
    unchanged: int
    failed: int
    message: str | None


class Pieces:
    """The pieces of an answer as they arrive. `context` is there from the first piece on,
    `message` and `metadata` after the last one."""

    def __init__(self) -> None:
        self.context: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {}
        self.message = ""

    def _take(self, event: str, text: str | None, data: Any) -> str | None:
        if event == "context":
            self.context = data or []
        elif event == "end":
            self.metadata = (data or {}).get("metadata") or {}
        elif text is not None:
            self.message += text
            return text
        return None


class Stream(Pieces, Iterator[str]):
    """The pieces of an answer. Closing it, or leaving a `with` block, ends the call."""

    def __init__(self, events: Iterator[tuple[str, str | None, Any]], close: Callable[[], None]):
        super().__init__()
        self._events, self._close = events, close

    def __next__(self) -> str:
        for event in self._events:
            piece = self._take(*event)
            if piece is not None:
                return piece
        self._close()
        raise StopIteration

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


class AsyncStream(Pieces, AsyncIterator[str]):
    """The pieces of an answer, with `async for`. Closing it ends the call."""

    def __init__(self, events: AsyncGenerator[tuple[str, str | None, Any], None]) -> None:
        super().__init__()
        self._events = events

    async def __anext__(self) -> str:
        async for event in self._events:
            piece = self._take(*event)
            if piece is not None:
                return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._events.aclose()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
