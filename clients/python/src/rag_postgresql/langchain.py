"""LangChain: a retriever, a vector store, and embeddings by models of the database."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import missing_package

try:
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import run_in_executor
    from langchain_core.vectorstores import VectorStore
    from pydantic import ConfigDict, PrivateAttr
except ImportError as e:
    raise missing_package("langchain-core", "langchain") from e

from . import filters
from .frameworks import Clients
from .records import Chunk, Hit, Hits

__all__ = ["RagEmbeddings", "RagRetriever", "RagVectorStore"]

#: columns of a hit that a retriever adds to the metadata of a document
_COLUMNS = ("title", "citation", "page", "start_line", "end_line", "anchor", "collection")


def _with_source(hit: Hit) -> Document:
    columns = {name: getattr(hit, name) for name in _COLUMNS}
    known = {name: value for name, value in columns.items() if value is not None}
    metadata = {"source": hit.uri, **known, "score": hit.score, **hit.metadata}
    return Document(id=hit.id, page_content=hit.content, metadata=metadata)


class RagRetriever(BaseRetriever):
    """Searches a collection, by the model of the database.

    `source`, `title`, `citation`, `score` and the place of the chunk are in the metadata of each
    document. A key of its own metadata wins. `filter` is one of `rag_search`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    connection: Any = ""
    collection: str | list[str] = "default"
    k: int = 4
    mode: str | None = None
    filter: dict[str, Any] | None = None
    rerank: str | None = None
    settings: dict[str, Any] | None = None
    _clients: Clients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        self._clients = Clients(self.connection)

    def _search(self, query: str, others: dict[str, Any]) -> dict[str, Any]:
        request = {
            "query": query,
            "collection": self.collection,
            "top_k": others.pop("k", self.k),
            "mode": self.mode,
            "filter": self.filter,
            "rerank": self.rerank,
            "settings": self.settings,
        }
        unknown = others.keys() - request.keys()
        if unknown:
            raise TypeError(f"a search has no argument {', '.join(sorted(unknown))}")
        return request | others

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **others: Any
    ) -> list[Document]:
        return [
            _with_source(hit) for hit in self._clients.sync.search(**self._search(query, others))
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **others: Any
    ) -> list[Document]:
        request = self._search(query, others)
        if not self._clients.is_async:
            hits = await run_in_executor(None, lambda: self._clients.sync.search(**request))
        else:
            hits = await self._clients.asynchronous.search(**request)
        return [_with_source(hit) for hit in hits]


class RagEmbeddings(Embeddings):
    """Embeddings by a model of the database; by the default one if none is named."""

    def __init__(self, connection: Any = "", model: str | None = None) -> None:
        self._clients, self._model = Clients(connection), model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._clients.sync.embed(texts, purpose="passage", model=self._model)

    def embed_query(self, text: str) -> list[float]:
        return self._clients.sync.embed([text], model=self._model)[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        client = self._clients.asynchronous
        return await client.embed(texts, purpose="passage", model=self._model)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self._clients.asynchronous.embed([text], model=self._model))[0]


class RagVectorStore(VectorStore):
    """A collection as a vector store.

    With `embedding`, texts and queries are embedded by it, and the collection has as many
    dimensions. Without it, the database embeds them by the collection's model. Searches find by
    meaning and by words, unless `mode` is `vector` or `keyword`. Scores are 0 to 1, and a higher
    one is better.

    A filter is `{"year": {"$gte": 2020}, "owner": "ann"}`, or one of `rag_search`.
    """

    def __init__(
        self,
        embedding: Embeddings | None = None,
        *,
        connection: Any = "",
        collection: str = "default",
        mode: str | None = None,
        settings: Mapping[str, Any] | None = None,
        create: bool = True,
    ) -> None:
        """`create`: a collection that does not exist is created, which needs `rag_admin`. With an
        AsyncRag over a pool it must exist."""
        self._clients = Clients(connection)
        self._embedding = embedding
        self.collection = collection
        self._mode = mode
        # equal texts with different metadata are different documents
        self._settings = {"distinct_text": False, **(settings or {})}
        if create and self._clients._sync is not None:
            client = self._clients.sync
            if not client.has_collection(collection):
                dimensions = len(embedding.embed_query("x")) if embedding else None
                client.create_collection(collection, dimensions=dimensions)

    @property
    def embeddings(self) -> Embeddings | None:
        return self._embedding

    def drop(self) -> None:
        """Drops the collection and all its documents."""
        self._clients.sync.drop_collection(self.collection)

    # writing

    @staticmethod
    def _chunks(
        texts: list[str],
        metadatas: Sequence[Mapping[str, Any]] | None,
        ids: Sequence[str | None] | None,
        vectors: Sequence[Sequence[float]] | None,
    ) -> list[Chunk]:
        for name, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(texts):
                raise ValueError(f"there are {len(texts)} texts, and {len(given)} {name}")
        return [
            Chunk(
                id=(ids[i] if ids else None) or str(uuid.uuid4()),
                content=text,
                metadata=metadatas[i] if metadatas else {},
                embedding=vectors[i] if vectors is not None else None,
            )
            for i, text in enumerate(texts)
        ]

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **_: Any,
    ) -> list[str]:
        """Adds texts, and replaces those whose ids are stored, in one transaction."""
        texts = list(texts)
        vectors = self._embedding.embed_documents(texts) if self._embedding and texts else None
        chunks = self._chunks(texts, metadatas, ids, vectors)
        self._clients.sync.upsert(chunks, self.collection)
        return [chunk.id for chunk in chunks]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **others: Any,
    ) -> list[str]:
        if not self._clients.is_async:
            return await super().aadd_texts(texts, metadatas, ids=ids, **others)
        texts = list(texts)
        vectors = (
            await self._embedding.aembed_documents(texts) if self._embedding and texts else None
        )
        chunks = self._chunks(texts, metadatas, ids, vectors)
        await self._clients.asynchronous.upsert(chunks, self.collection)
        return [chunk.id for chunk in chunks]

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> bool:
        """Deletes by ids, or by a filter. Ids that are not stored are ignored."""
        chosen = filters.from_mapping(filter)
        self._clients.sync.delete(self.collection, ids=ids, filter=chosen)
        return True

    async def adelete(
        self,
        ids: list[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> bool | None:
        if not self._clients.is_async:
            return await super().adelete(ids, filter=filter, **others)
        chosen = filters.from_mapping(filter)
        await self._clients.asynchronous.delete(self.collection, ids=ids, filter=chosen)
        return True

    # reading

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return self._documents(ids, self._clients.sync.get(self.collection, ids=ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        if not self._clients.is_async:
            return await super().aget_by_ids(ids)
        return self._documents(ids, await self._clients.asynchronous.get(self.collection, ids=ids))

    @staticmethod
    def _documents(ids: Sequence[str], chunks: list[Chunk]) -> list[Document]:
        found = {
            chunk.id: Document(
                id=chunk.id, page_content=chunk.content, metadata=dict(chunk.metadata)
            )
            for chunk in chunks
        }
        return [found[id] for id in ids if id in found]

    def _request(
        self,
        query: str | None,
        vector: Sequence[float] | None,
        k: int,
        filter: Mapping[str, Any] | None,
        others: Mapping[str, Any],
        mode: str | None = None,
    ) -> dict[str, Any]:
        settings = {**self._settings, **(others.get("settings") or {})}
        if others.get("score_threshold") is not None:
            settings["score_threshold"] = others["score_threshold"]
        return {
            "query": query,
            "collection": self.collection,
            "top_k": k,
            "mode": others.get("mode") or mode or self._mode,
            "filter": filters.from_mapping(filter),
            "rerank": others.get("rerank"),
            "settings": settings,
            "embedding": vector,
        }

    @staticmethod
    def _scored(hits: Hits) -> list[tuple[Document, float]]:
        return [
            (Document(id=hit.id, page_content=hit.content, metadata=hit.metadata), hit.score)
            for hit in hits
        ]

    def _vector(self, query: str) -> list[float] | None:
        return self._embedding.embed_query(query) if self._embedding else None

    async def _avector(self, query: str) -> list[float] | None:
        return await self._embedding.aembed_query(query) if self._embedding else None

    def _search(self, request: dict[str, Any]) -> list[tuple[Document, float]]:
        return self._scored(self._clients.sync.search(**request))

    async def _asearch(self, request: dict[str, Any]) -> list[tuple[Document, float]]:
        if not self._clients.is_async:
            return await run_in_executor(None, self._search, request)
        return self._scored(await self._clients.asynchronous.search(**request))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **others: Any
    ) -> list[tuple[Document, float]]:
        """Returns documents with their scores. A higher score is better."""
        return self._search(self._request(query, self._vector(query), k, filter, others))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **others: Any
    ) -> list[tuple[Document, float]]:
        vector = await self._avector(query)
        return await self._asearch(self._request(query, vector, k, filter, others))

    def similarity_search(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **others: Any
    ) -> list[Document]:
        return [d for d, _ in self.similarity_search_with_score(query, k, filter, **others)]

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **others: Any
    ) -> list[Document]:
        return [d for d, _ in await self.asimilarity_search_with_score(query, k, filter, **others)]

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        request = self._request(None, embedding, k, filter, others, "vector")
        return [d for d, _ in self._search(request)]

    async def asimilarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        request = self._request(None, embedding, k, filter, others, "vector")
        return [d for d, _ in await self._asearch(request)]

    @staticmethod
    def _diverse(lambda_mult: float, others: dict[str, Any]) -> dict[str, Any]:
        settings = {**(others.pop("settings", None) or {}), "mmr_lambda": lambda_mult}
        return {**others, "settings": settings}

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        """The database chooses among its own candidates: `fetch_k` has no effect."""
        return self.similarity_search(query, k, filter, **self._diverse(lambda_mult, others))

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        diverse = self._diverse(lambda_mult, others)
        return await self.asimilarity_search(query, k, filter, **diverse)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        diverse = self._diverse(lambda_mult, others)
        return self.similarity_search_by_vector(embedding, k, filter, **diverse)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> list[Document]:
        diverse = self._diverse(lambda_mult, others)
        return await self.asimilarity_search_by_vector(embedding, k, filter, **diverse)

    def _select_relevance_score_fn(self) -> Any:
        return lambda score: score

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **others: Any,
    ) -> RagVectorStore:
        store = cls(embedding, **others)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **others: Any,
    ) -> RagVectorStore:
        store = await run_in_executor(None, lambda: cls(embedding, **others))
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store
