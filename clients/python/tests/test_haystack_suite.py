"""The suites of haystack.testing, unmodified.

They say to override `assert_documents_are_equal` for a store that returns documents in another
order, or embeddings in another precision: rag returns them by id, and as 32-bit numbers.
"""

import pytest
from haystack import Document, Pipeline
from haystack.testing import document_store as sync
from haystack.testing import document_store_async as asynchronous
from haystack.utils import Secret

from rag_postgresql import Rag
from rag_postgresql.haystack import RagDocumentStore, RagEmbeddingRetriever, RagRetriever


class Equal:
    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert len(received) == len(expected)
        by_id = sorted(expected, key=lambda d: d.id)
        for one, other in zip(sorted(received, key=lambda d: d.id), by_id, strict=True):
            if other.embedding is None:
                assert one.embedding is None
            else:
                assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
            assert one.to_dict() | {"embedding": None} == other.to_dict() | {"embedding": None}


class TestStore(
    Equal,
    sync.DocumentStoreBaseExtendedTests,
    sync.CountDocumentsByFilterTest,
    sync.CountUniqueMetadataByFilterTest,
    sync.GetMetadataFieldsInfoTest,
    sync.GetMetadataFieldMinMaxTest,
    sync.GetMetadataFieldUniqueValuesTest,
):
    @pytest.fixture
    def document_store(self, collection: str) -> RagDocumentStore:
        return RagDocumentStore("", collection=collection, embedding_dimension=768)

    def test_write_documents(self, document_store: RagDocumentStore) -> None:
        """The suite leaves this one to the store: without a policy, duplicates fail."""
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(sync.DuplicateDocumentError):
            document_store.write_documents([document])
        self.assert_documents_are_equal(document_store.filter_documents(), [document])


class TestAsyncStore(
    Equal,
    asynchronous.DeleteAllAsyncTest,
    asynchronous.CountDocumentsAsyncTest,
    asynchronous.CountDocumentsByFilterAsyncTest,
    asynchronous.CountUniqueMetadataByFilterAsyncTest,
    asynchronous.DeleteByFilterAsyncTest,
    asynchronous.UpdateByFilterAsyncTest,
    asynchronous.WriteDocumentsAsyncTest,
    asynchronous.DeleteDocumentsAsyncTest,
    asynchronous.GetMetadataFieldsInfoAsyncTest,
    asynchronous.GetMetadataFieldMinMaxAsyncTest,
    asynchronous.GetMetadataFieldUniqueValuesAsyncTest,
    asynchronous.FilterDocumentsAsyncTest,
):
    @pytest.fixture
    def document_store(self, collection: str) -> RagDocumentStore:
        return RagDocumentStore("", collection=collection, embedding_dimension=768)

    async def test_write_documents_async(self, document_store: RagDocumentStore) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(sync.DuplicateDocumentError):
            await document_store.write_documents_async([document])


def test_pipeline(rag: Rag, collection: str) -> None:
    """With texts that the database embeds, through YAML, and with filters of both policies."""
    store = RagDocumentStore("", collection=collection)
    store.write_documents(
        [
            Document(content="Keys are rotated every 90 days.", meta={"team": "a"}),
            Document(content="Lunch is at noon.", meta={"team": "b"}),
        ]
    )
    pipeline = Pipeline()
    pipeline.add_component("search", RagRetriever(store, top_k=2, filter_policy="merge"))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["rag_postgresql.*"])
    found = again.run({"search": {"query": "when do we eat?", "top_k": 1}})["search"]["documents"]
    assert [d.content for d in found] == ["Lunch is at noon."]
    assert 0 < found[0].score <= 1
    only = {"field": "meta.team", "operator": "==", "value": "a"}
    found = again.run({"search": {"query": "lunch", "filters": only}})["search"]["documents"]
    assert [d.content for d in found] == ["Keys are rotated every 90 days."]


async def test_embeddings(rag: Rag, vectors: str) -> None:
    """A document without an embedding is stored, and never found by one."""
    store = RagDocumentStore("", collection=vectors, embedding_dimension=3)
    near = Document(content="near", embedding=[0.9, 0.1, 0.0])
    store.write_documents(
        [near, Document(content="none"), Document(content="far", embedding=[0, 1, 0])]
    )
    retriever = RagEmbeddingRetriever(store)
    for result in (
        retriever.run([1.0, 0.0, 0.0]),
        await retriever.run_async([1.0, 0.0, 0.0], top_k=5),
    ):
        assert [d.content for d in result["documents"]] == ["near", "far"]
    words = RagRetriever(store, mode="keyword").run("none")["documents"]
    assert [d.content for d in words] == ["none"]
    with pytest.raises(ValueError, match="has no text"):
        store.write_documents([Document(id="x", meta={"a": 1})])


def test_secrets() -> None:
    """A password is not serialized, and a Secret is by its name."""
    with pytest.raises(ValueError, match="Give the store a Secret"):
        RagDocumentStore("postgresql://u:p@h/d").to_dict()
    data = RagDocumentStore(Secret.from_env_var("X", strict=False)).to_dict()
    assert RagDocumentStore.from_dict(data).to_dict() == data
