"""The suites of langchain-tests, unmodified, and what users of other stores have reported."""

from collections.abc import Iterator

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from rag_postgresql import AsyncRag, Rag, RagError
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


def test_as_a_user(rag: Rag, collection: str) -> None:
    """Scores, filters, equal texts, thresholds and diversity."""
    store = RagVectorStore.from_texts(
        ["Lunch is at noon.", "Lunch is at noon.", "Keys are rotated."],
        metadatas=[{"id": 1, "year": 2024}, {"id": 2}, {"id": 3, "category": "security"}],
        ids=["a", "b", "c"],
        collection=collection,
        mode="vector",
    )
    scored = store.similarity_search_with_score("when do we eat?", k=3)
    assert [d.id for d, _ in scored][2] == "c"
    assert 1 >= scored[0][1] >= scored[1][1] > scored[2][1] >= 0
    relevant = store.similarity_search_with_relevance_scores("when do we eat?", score_threshold=0.2)
    assert {d.id for d, _ in relevant} == {"a", "b"}
    assert [d.id for d in store.similarity_search("x", filter={"category": "security"})] == ["c"]
    assert store.similarity_search("x", filter={"id": {"$in": []}}) == []
    diverse = store.max_marginal_relevance_search("when do we eat?", k=2, lambda_mult=0.3)
    assert {d.metadata["id"] for d in diverse} > {3}
    retriever = store.as_retriever(search_type="mmr", search_kwargs={"k": 1})
    assert len(retriever.invoke("lunch")) == 1
    with pytest.raises(ValueError, match="there are 1 texts, and 2 ids"):
        store.add_texts(["x"], ids=["1", "2"])
    with pytest.raises(TypeError, match="ids or a filter"):
        store.delete()
    assert store.add_texts([]) == []
    store.delete(filter={"year": {"$exists": True}})
    assert [d.id for d in store.get_by_ids(["c", "b", "a"])] == ["c", "b"]


async def test_pool_of_asyncio(rag: Rag, collection: str) -> None:
    rag.create_collection(collection)
    async with AsyncConnectionPool("", min_size=1, open=False) as pool:
        store = RagVectorStore(connection=AsyncRag(pool), collection=collection)
        await store.aadd_texts(["Lunch is at noon."], ids=["a"])
        assert [d.id for d in await store.asimilarity_search("lunch")] == ["a"]
        with pytest.raises(RagError, match="Use the methods that are awaited"):
            store.similarity_search("lunch")


async def test_pool_in_threads(rag: Rag, collection: str) -> None:
    """A client that knows no asyncio runs in threads."""
    with ConnectionPool("", min_size=1, open=True) as pool:
        store = RagVectorStore(connection=Rag(pool), collection=collection)
        await store.aadd_texts(["Lunch is at noon."], ids=["a"])
        assert [d.id for d in await store.asimilarity_search("lunch")] == ["a"]
        retriever = RagRetriever(connection=Rag(pool), collection=collection)
        assert len(await retriever.ainvoke("lunch")) == 1
