"""LlamaIndex: a retriever, a vector store, and embeddings by models of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import missing_package

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.schema import (
        BaseNode,
        MetadataMode,
        NodeWithScore,
        QueryBundle,
        TextNode,
    )
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as e:
    raise missing_package("llama-index-core", "llama-index") from e

from . import filters
from .frameworks import Clients
from .records import Chunk, Hit, Hits

__all__ = ["RagEmbedding", "RagRetriever", "RagVectorStore"]

_COLUMNS = ("uri", "title", "citation", "page", "start_line", "end_line", "anchor", "collection")
_OPERATORS = {
    FilterOperator.EQ: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.IN: "in",
    FilterOperator.NIN: "nin",
    FilterOperator.TEXT_MATCH: "contains",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "text_match",
    FilterOperator.CONTAINS: "contains",
}
_MODES = {
    VectorStoreQueryMode.DEFAULT: "vector",
    VectorStoreQueryMode.MMR: "vector",
    VectorStoreQueryMode.SPARSE: "keyword",
    VectorStoreQueryMode.TEXT_SEARCH: "keyword",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
}


def to_filter(given: MetadataFilters | None) -> dict[str, Any] | None:
    """Returns the filter of rag_search for one of LlamaIndex."""
    if given is None or not given.filters:
        return None
    parts = [
        (to_filter(part) or filters.group("not", [filters.nothing()]))
        if isinstance(part, MetadataFilters)
        else _condition(part)
        for part in given.filters
    ]
    if given.condition == FilterCondition.OR:
        return filters.group("or", parts)
    if given.condition == FilterCondition.NOT:
        # none of them holds
        return filters.group("not", [filters.group("or", parts)])
    return filters.group("and", parts)


def _condition(one: MetadataFilter) -> dict[str, Any]:
    key, value = one.key, one.value
    if one.operator == FilterOperator.IS_EMPTY:
        return filters.empty(key)
    if one.operator in (FilterOperator.ANY, FilterOperator.ALL):
        if not isinstance(value, list):
            raise ValueError(f"filter: {one.operator.value} of {key!r} needs a list")
        parts = [filters.condition(key, "contains", element) for element in value]
        if one.operator == FilterOperator.ANY:
            return filters.group("or", parts) if parts else filters.nothing()
        return filters.group("and", parts or [filters.group("not", [filters.nothing()])])
    if value is None and one.operator == FilterOperator.EQ:
        return filters.missing(key)
    if value is None and one.operator == FilterOperator.NE:
        return filters.group("not", [filters.missing(key)])
    return filters.condition(key, _OPERATORS[one.operator], value)


class RagEmbedding(BaseEmbedding):
    """Embeddings by a model of the database; by the default one if `model` is not given."""

    connection: Any = ""
    model: str | None = None
    _clients: Clients = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._clients = Clients(self.connection)

    @classmethod
    def class_name(cls) -> str:
        return "RagEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._clients.sync.embed([query], model=self.model)[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._clients.asynchronous.embed([query], model=self.model))[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._clients.sync.embed(texts, purpose="passage", model=self.model)


class RagRetriever(BaseRetriever):
    """Searches a collection, by the model of the database. `filter` is one of `rag_search`."""

    def __init__(
        self,
        connection: Any = "",
        *,
        collection: str | list[str] = "default",
        top_k: int = 5,
        mode: str | None = None,
        filter: Mapping[str, Any] | None = None,
        rerank: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._clients = Clients(connection)
        self._request: dict[str, Any] = {
            "collection": collection,
            "top_k": top_k,
            "mode": mode,
            "filter": filter,
            "rerank": rerank,
            "settings": settings,
        }
        super().__init__()

    @staticmethod
    def _node(hit: Hit) -> NodeWithScore:
        columns = {name: getattr(hit, name) for name in _COLUMNS}
        known = {name: value for name, value in columns.items() if value is not None}
        node = TextNode(id_=hit.id, text=hit.content, metadata={**known, **hit.metadata})
        # a language model needs the title, and not the rest
        hidden = [name for name in node.metadata if name != "title"]
        node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = hidden
        return NodeWithScore(node=node, score=hit.score)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._clients.sync.search(query_bundle.query_str, **self._request)
        return [self._node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if not self._clients.is_async:
            return self._retrieve(query_bundle)
        client = self._clients.asynchronous
        hits = await client.search(query_bundle.query_str, **self._request)
        return [self._node(hit) for hit in hits]


class RagVectorStore(BasePydanticVectorStore):
    """A collection as a vector store.

    Nodes bring their embeddings. A collection that does not exist is created with the first nodes,
    for embeddings of their length. Scores are 0 to 1, and a higher one is better.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False

    connection: Any = ""
    collection: str = "default"
    create: bool = True
    settings: dict[str, Any] = Field(default_factory=dict)
    _clients: Clients = PrivateAttr()
    _exists: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._clients = Clients(self.connection)

    @classmethod
    def class_name(cls) -> str:
        return "RagVectorStore"

    @property
    def client(self) -> Any:
        return self._clients

    def drop(self) -> None:
        """Drops the collection and all its nodes."""
        self._clients.sync.drop_collection(self.collection)
        self._exists = False

    # writing

    @staticmethod
    def _chunk(node: BaseNode) -> Chunk:
        return Chunk(
            id=node.node_id,
            content=node.get_content(metadata_mode=MetadataMode.NONE),
            metadata=node_to_metadata_dict(node, remove_text=True, flat_metadata=False),
            embedding=node.embedding,
        )

    @staticmethod
    def _dimensions(chunks: list[Chunk]) -> int | None:
        embedding = next((c.embedding for c in chunks if c.embedding is not None), None)
        return None if embedding is None else len(embedding)

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        chunks = [self._chunk(node) for node in nodes]
        client = self._clients.sync
        if self.create and chunks and not self._exists:
            if not client.has_collection(self.collection):
                client.create_collection(self.collection, dimensions=self._dimensions(chunks))
            self._exists = True
        client.upsert(chunks, self.collection)
        return [chunk.id for chunk in chunks]

    async def async_add(self, nodes: Sequence[BaseNode], **others: Any) -> list[str]:
        if not self._clients.is_async:
            return self.add(nodes, **others)
        chunks = [self._chunk(node) for node in nodes]
        client = self._clients.asynchronous
        if self.create and chunks and not self._exists:
            if not await client.has_collection(self.collection):
                dimensions = self._dimensions(chunks)
                await client.create_collection(self.collection, dimensions=dimensions)
            self._exists = True
        await client.upsert(chunks, self.collection)
        return [chunk.id for chunk in chunks]

    @staticmethod
    def _of_document(ref_doc_id: str) -> dict[str, Any]:
        return filters.condition("ref_doc_id", "eq", ref_doc_id)

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        self._clients.sync.delete(self.collection, filter=self._of_document(ref_doc_id))

    async def adelete(self, ref_doc_id: str, **others: Any) -> None:
        if not self._clients.is_async:
            return self.delete(ref_doc_id, **others)
        client = self._clients.asynchronous
        await client.delete(self.collection, filter=self._of_document(ref_doc_id))

    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **_: Any,
    ) -> None:
        if node_ids is not None or filters is not None:
            self._clients.sync.delete(self.collection, ids=node_ids, filter=to_filter(filters))

    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | None = None,
        **others: Any,
    ) -> None:
        if not self._clients.is_async:
            return self.delete_nodes(node_ids, filters, **others)
        if node_ids is not None or filters is not None:
            client = self._clients.asynchronous
            await client.delete(self.collection, ids=node_ids, filter=to_filter(filters))

    def clear(self) -> None:
        self._clients.sync.delete(self.collection, filter={})

    async def aclear(self) -> None:
        if not self._clients.is_async:
            return self.clear()
        await self._clients.asynchronous.delete(self.collection, filter={})

    # reading

    @staticmethod
    def _node(id: str, content: str, metadata: Mapping[str, Any]) -> BaseNode:
        if "_node_content" in metadata:
            return metadata_dict_to_node(dict(metadata), content)
        return TextNode(id_=id, text=content, metadata=dict(metadata))

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        chunks = self._clients.sync.get(self.collection, ids=node_ids, filter=to_filter(filters))
        return [self._node(chunk.id, chunk.content, chunk.metadata) for chunk in chunks]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        if not self._clients.is_async:
            return self.get_nodes(node_ids, filters)
        client = self._clients.asynchronous
        chunks = await client.get(self.collection, ids=node_ids, filter=to_filter(filters))
        return [self._node(chunk.id, chunk.content, chunk.metadata) for chunk in chunks]

    def _request(self, query: VectorStoreQuery) -> dict[str, Any]:
        if query.mode not in _MODES:
            known = ", ".join(mode.value for mode in _MODES)
            raise ValueError(f"there is no mode {query.mode.value}; modes: {known}")
        mode, settings = _MODES[query.mode], {"distinct_text": False, **self.settings}
        if query.mode == VectorStoreQueryMode.MMR:
            threshold = query.mmr_threshold
            settings["mmr_lambda"] = 0.5 if threshold is None else threshold
        if mode == "hybrid" and query.alpha is not None:
            settings["vector_weight"] = query.alpha
        conditions = [to_filter(query.filters)]
        # an index passes empty lists for no restriction
        if query.doc_ids:
            conditions.append(filters.condition("ref_doc_id", "in", query.doc_ids))
        if query.node_ids:
            conditions.append({"key": "uri", "operator": "in", "value": query.node_ids})
        given = [condition for condition in conditions if condition]
        top_k = query.similarity_top_k
        if query.mode == VectorStoreQueryMode.HYBRID and query.hybrid_top_k is not None:
            top_k = query.hybrid_top_k
        elif mode == "keyword" and query.sparse_top_k is not None:
            top_k = query.sparse_top_k
        return {
            "query": query.query_str,
            "collection": self.collection,
            "top_k": top_k,
            "mode": mode,
            "filter": filters.group("and", given) if given else None,
            "settings": settings,
            "embedding": None if mode == "keyword" else query.query_embedding,
        }

    def _result(self, hits: Hits) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(
            nodes=[self._node(hit.id, hit.content, hit.metadata) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=[hit.id for hit in hits],
        )

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        return self._result(self._clients.sync.search(**self._request(query)))

    async def aquery(self, query: VectorStoreQuery, **others: Any) -> VectorStoreQueryResult:
        if not self._clients.is_async:
            return self.query(query, **others)
        return self._result(await self._clients.asynchronous.search(**self._request(query)))
