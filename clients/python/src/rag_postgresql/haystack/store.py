"""The document store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret
from psycopg.conninfo import conninfo_to_dict

from .. import filters as rag_filters
from .. import statements
from ..frameworks import Clients
from ..records import Chunk, Hits
from .filters import to_filter

#: key of the metadata of documents without an embedding in a collection that has no model: there
#: each chunk has a vector, and theirs says nothing
_WITHOUT = "_without_embedding"
_TYPES = {"string": "keyword", "number": "real", "boolean": "boolean"}


class RagDocumentStore:
    """A collection as a document store.

    With `embedding_dimension`, documents and queries bring their embeddings. Without it, the
    database embeds them by the collection's model, and no embedder is needed. A collection that
    does not exist is created, which needs `rag_admin`.
    """

    def __init__(
        self,
        connection: Secret | str | Any = None,
        *,
        collection: str = "default",
        embedding_dimension: int | None = None,
        create: bool = True,
    ) -> None:
        """`connection`: a connection string, best as a Secret; None: that of the variable
        RAG_CONNECTION, or of the variables of libpq."""
        if connection is None:
            connection = Secret.from_env_var("RAG_CONNECTION", strict=False)
        self.connection = connection
        self.collection = collection
        self.embedding_dimension = embedding_dimension
        self.create = create
        self._made: Clients | None = None

    def _clients(self) -> Clients:
        if self._made is None:
            source = self.connection
            if isinstance(source, Secret):
                source = source.resolve_value() or ""
            self._made = Clients(source)
            if self.create and self._made._sync is not None:
                client = self._made.sync
                if not client.has_collection(self.collection):
                    client.create_collection(self.collection, dimensions=self.embedding_dimension)
        return self._made

    def to_dict(self) -> dict[str, Any]:
        connection = self.connection
        if isinstance(connection, Secret):
            connection = connection.to_dict()
        elif not isinstance(connection, str):
            raise ValueError("a client cannot be serialized. Give the store a Secret.")
        elif "password" in conninfo_to_dict(connection):
            raise ValueError("a password cannot be serialized. Give the store a Secret.")
        return default_to_dict(
            self,
            connection=connection,
            collection=self.collection,
            embedding_dimension=self.embedding_dimension,
            create=self.create,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RagDocumentStore:
        parameters = dict(data["init_parameters"])
        if isinstance(parameters.get("connection"), Mapping):
            parameters["connection"] = Secret.from_dict(parameters["connection"])
        store: RagDocumentStore = default_from_dict(cls, {**data, "init_parameters": parameters})
        return store

    # notation

    def _chunk(self, document: Document) -> Chunk:
        if document.content is None:
            raise ValueError(f"document {document.id} has no text, and rag stores texts only")
        metadata, embedding = dict(document.meta), document.embedding
        if embedding is None and self.embedding_dimension:
            metadata[_WITHOUT] = True
            embedding = [1.0] + [0.0] * (self.embedding_dimension - 1)
        return Chunk(document.id, document.content, metadata, embedding)

    @staticmethod
    def _document(chunk: Chunk) -> Document:
        metadata = dict(chunk.metadata)
        without = metadata.pop(_WITHOUT, False)
        embedding = None if without or chunk.embedding is None else list(chunk.embedding)
        return Document(id=chunk.id, content=chunk.content, meta=metadata, embedding=embedding)

    @staticmethod
    def _found(hits: Hits) -> list[Document]:
        documents = []
        for hit in hits:
            metadata = {k: v for k, v in hit.metadata.items() if k != _WITHOUT}
            documents.append(
                Document(id=hit.id, content=hit.content, meta=metadata, score=hit.score)
            )
        return documents

    def _writes(
        self, documents: list[Document], policy: DuplicatePolicy
    ) -> tuple[list[Chunk], bool]:
        if not isinstance(documents, list) or not all(isinstance(d, Document) for d in documents):
            raise ValueError("documents must be a list of Document")
        chunks = [self._chunk(document) for document in documents]
        if policy in (DuplicatePolicy.FAIL, DuplicatePolicy.NONE):
            ids = {chunk.id for chunk in chunks}
            if len(ids) < len(chunks):
                raise DuplicateDocumentError("two documents have the same id")
        return chunks, policy == DuplicatePolicy.OVERWRITE

    @staticmethod
    def _all_written(written: int, chunks: list[Chunk], policy: DuplicatePolicy) -> int:
        if policy in (DuplicatePolicy.FAIL, DuplicatePolicy.NONE) and written < len(chunks):
            raise DuplicateDocumentError(
                f"{len(chunks) - written} of {len(chunks)} documents are stored already;"
                " nothing was written"
            )
        return written

    @staticmethod
    def _field(name: str) -> str:
        return name.removeprefix("meta.")

    # writing

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Writes documents in one transaction, and returns their number. NONE means FAIL."""
        chunks, replace = self._writes(documents, policy)
        client = self._clients().sync

        def check(written: list[int]) -> int:
            return self._all_written(sum(written), chunks, policy)

        return client.run_all(statements.upsert(chunks, self.collection, replace), check)

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        chunks, replace = self._writes(documents, policy)
        client = self._clients().asynchronous

        def check(written: list[int]) -> int:
            return self._all_written(sum(written), chunks, policy)

        return await client.run_all(statements.upsert(chunks, self.collection, replace), check)

    def delete_documents(self, document_ids: list[str]) -> None:
        self._clients().sync.delete(self.collection, ids=document_ids)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        await self._clients().asynchronous.delete(self.collection, ids=document_ids)

    def delete_all_documents(self, recreate_collection: bool = False) -> None:
        """`recreate_collection`: the collection is dropped and created, which loses its grants and
        settings."""
        client = self._clients().sync
        if recreate_collection:
            client.drop_collection(self.collection)
            client.create_collection(self.collection, dimensions=self.embedding_dimension)
        else:
            client.delete(self.collection, filter={})

    async def delete_all_documents_async(self, recreate_collection: bool = False) -> None:
        client = self._clients().asynchronous
        if recreate_collection:
            await client.drop_collection(self.collection)
            await client.create_collection(self.collection, dimensions=self.embedding_dimension)
        else:
            await client.delete(self.collection, filter={})

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        chosen = to_filter(filters) or {}
        return self._clients().sync.delete(self.collection, filter=chosen)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        chosen = to_filter(filters) or {}
        return await self._clients().asynchronous.delete(self.collection, filter=chosen)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Changes some keys of the metadata. Returns the number of documents."""
        statement = statements.merge_metadata(self.collection, to_filter(filters), meta)
        return self._clients().sync.run(statement)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        statement = statements.merge_metadata(self.collection, to_filter(filters), meta)
        return await self._clients().asynchronous.run(statement)

    # reading

    def count_documents(self) -> int:
        return self._clients().sync.count(self.collection)

    async def count_documents_async(self) -> int:
        return await self._clients().asynchronous.count(self.collection)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        return self._clients().sync.count(self.collection, filter=to_filter(filters))

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        client = self._clients().asynchronous
        return await client.count(self.collection, filter=to_filter(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Returns the documents that pass a filter, by id."""
        statement = statements.get(self.collection, None, to_filter(filters), True)
        try:
            return [self._document(chunk) for chunk in self._clients().sync.run(statement)]
        except psycopg.errors.InvalidParameterValue as e:
            raise FilterError(str(e)) from e

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        statement = statements.get(self.collection, None, to_filter(filters), True)
        try:
            chunks = await self._clients().asynchronous.run(statement)
        except psycopg.errors.InvalidParameterValue as e:
            raise FilterError(str(e)) from e
        return [self._document(chunk) for chunk in chunks]

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: Sequence[str]
    ) -> dict[str, int]:
        client, chosen = self._clients().sync, to_filter(filters)
        return {
            field: len(client.values(self._field(field), self.collection, filter=chosen))
            for field in metadata_fields
        }

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: Sequence[str]
    ) -> dict[str, int]:
        client, chosen = self._clients().asynchronous, to_filter(filters)
        return {
            field: len(await client.values(self._field(field), self.collection, filter=chosen))
            for field in metadata_fields
        }

    @staticmethod
    def _info(keys: dict[str, list[str]]) -> dict[str, dict[str, str]]:
        return {
            key: {"type": _TYPES.get(types[0], types[0]) if len(types) == 1 else "mixed"}
            for key, types in keys.items()
            if key != _WITHOUT
        }

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        return self._info(self._clients().sync.keys(self.collection))

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        return self._info(await self._clients().asynchronous.keys(self.collection))

    @staticmethod
    def _min_max(values: list[Any]) -> dict[str, Any]:
        numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        comparable: list[Any] = numbers or [v for v in values if isinstance(v, str)]
        if not comparable:
            return {"min": None, "max": None}
        return {"min": min(comparable), "max": max(comparable)}

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        values = self._clients().sync.values(self._field(metadata_field), self.collection)
        return self._min_max(values)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        client = self._clients().asynchronous
        return self._min_max(await client.values(self._field(metadata_field), self.collection))

    @staticmethod
    def _page(
        values: list[Any], search_term: str | None, first: int, size: int
    ) -> tuple[list[Any], int]:
        if search_term:
            values = [v for v in values if search_term.lower() in str(v).lower()]
        return values[first : first + size], len(values)

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Returns a page of the distinct values, and the number of all."""
        field, chosen = self._field(metadata_field), to_filter(filters)
        values = self._clients().sync.values(field, self.collection, filter=chosen)
        return self._page(values, search_term, from_, size)

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        client = self._clients().asynchronous
        field, chosen = self._field(metadata_field), to_filter(filters)
        values = await client.values(field, self.collection, filter=chosen)
        return self._page(values, search_term, from_, size)

    # for the retrievers

    def _request(
        self,
        query: str | None,
        embedding: list[float] | None,
        filters: dict[str, Any] | None,
        top_k: int,
        mode: str | None,
        settings: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        chosen = to_filter(filters)
        if self.embedding_dimension and mode != "keyword":
            embedded = rag_filters.empty(_WITHOUT)
            chosen = rag_filters.group("and", [embedded, *([chosen] if chosen else [])])
        return {
            "query": query,
            "collection": self.collection,
            "top_k": top_k,
            "mode": mode,
            "filter": chosen,
            "settings": {"distinct_text": False, **(settings or {})},
            "embedding": embedding,
        }

    def _search(self, *request: Any) -> list[Document]:
        return self._found(self._clients().sync.search(**self._request(*request)))

    async def _search_async(self, *request: Any) -> list[Document]:
        client = self._clients().asynchronous
        return self._found(await client.search(**self._request(*request)))
