"""The suites of haystack.testing, unmodified.

They say to override `assert_documents_are_equal` for a store that returns documents in another
order, or embeddings in another precision: rag returns them by id, and as 32-bit numbers.
"""

import pytest
from haystack import Document
from haystack.testing import document_store as sync
from haystack.testing import document_store_async as asynchronous

from rag_postgresql.haystack import RagDocumentStore


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
