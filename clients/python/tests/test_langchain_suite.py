"""The suites of langchain-tests, unmodified."""

from collections.abc import Iterator

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

from rag_postgresql import Rag
from rag_postgresql.langchain import RagRetriever, RagVectorStore


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, collection: str) -> VectorStore:  # type: ignore[override]
        return RagVectorStore(self.get_embeddings(), collection=collection)


class TestVectorStoreOfDatabaseModel(VectorStoreIntegrationTests):
    """The same with texts that the database embeds."""

    @pytest.fixture
    def vectorstore(self, collection: str) -> VectorStore:  # type: ignore[override]
        return RagVectorStore(collection=collection)


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def documents(self, rag: Rag, collection: str) -> Iterator[None]:
        rag.create_collection(collection)
        texts = ["Keys are rotated.", "Backups run at night.", "Lunch is at noon.", "Tea is hot."]
        rag.add([{"content": t, "uri": f"note:{t}"} for t in texts], collection=collection)
        TestRetriever.collection = collection
        yield

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return RagRetriever

    @property
    def retriever_constructor_params(self) -> dict:
        return {"collection": TestRetriever.collection}

    @property
    def retriever_query_example(self) -> str:
        return "when are keys rotated?"
