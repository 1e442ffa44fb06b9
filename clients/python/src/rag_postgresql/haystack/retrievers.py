"""Retrievers by a text and by an embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy
from haystack.document_stores.types.filter_policy import apply_filter_policy

from .store import RagDocumentStore


class _Retriever:
    """What both retrievers share."""

    def __init__(
        self,
        document_store: RagDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        mode: str | None = None,
        settings: dict[str, Any] | None = None,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, RagDocumentStore):
            raise ValueError("document_store must be a RagDocumentStore")
        self.document_store = document_store
        self.filters = filters or {}
        self.top_k = top_k
        self.mode = mode
        self.settings = settings
        self.filter_policy = (
            filter_policy
            if isinstance(filter_policy, FilterPolicy)
            else FilterPolicy.from_str(filter_policy)
        )

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            mode=self.mode,
            settings=self.settings,
            filter_policy=self.filter_policy.value,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        parameters = dict(data["init_parameters"])
        if isinstance(parameters["document_store"], Mapping):
            parameters["document_store"] = RagDocumentStore.from_dict(
                dict(parameters["document_store"])
            )
        return default_from_dict(cls, {**data, "init_parameters": parameters})

    def _arguments(
        self,
        query: str | None,
        embedding: list[float] | None,
        filters: dict[str, Any] | None,
        top_k: int | None,
    ) -> tuple[Any, ...]:
        chosen = apply_filter_policy(self.filter_policy, self.filters, filters)
        return query, embedding, chosen, top_k or self.top_k, self.mode, self.settings


@component
class RagRetriever(_Retriever):
    """Searches by a text: by meaning and by words, or as `mode` says. A collection without a model
    is searched by words alone, unless the text comes with its embedding."""

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        request = self._arguments(query, query_embedding, filters, top_k)
        return {"documents": self.document_store._search(*request)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        request = self._arguments(query, query_embedding, filters, top_k)
        return {"documents": await self.document_store._search_async(*request)}


@component
class RagEmbeddingRetriever(_Retriever):
    """Searches by an embedding."""

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        request = self._arguments(None, query_embedding, filters, top_k)
        return {"documents": self.document_store._search(*request)}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        request = self._arguments(None, query_embedding, filters, top_k)
        return {"documents": await self.document_store._search_async(*request)}
