"""The vector store of LlamaIndex: all modes, all operators, synchronous and asynchronous."""

import asyncio
from typing import Any

import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from rag_postgresql import Rag
from rag_postgresql.llama_index import RagEmbedding, RagRetriever, RagVectorStore

NODES = {
    "apple": (
        "red apples grow on trees",
        [1.0, 0.0, 0.0],
        "d1",
        {"n": 1, "tags": ["fruit", "red"]},
    ),
    "beet": ("red beets grow below", [0.8, 0.6, 0.0], "d1", {"n": 2, "tags": ["root", "red"]}),
    "corn": (
        "yellow corn grows tall",
        [0.0, 1.0, 0.0],
        "d2",
        {"n": 3, "name": "Maize", "tags": []},
    ),
}


def nodes() -> list[TextNode]:
    made = []
    for id, (text, embedding, document, metadata) in NODES.items():
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
        made.append(
            TextNode(
                id_=id, text=text, embedding=embedding, metadata=metadata, relationships=source
            )
        )
    return made


@pytest.fixture
def store(collection: str) -> RagVectorStore:
    store = RagVectorStore(collection=collection)
    assert store.add(nodes()) == list(NODES)
    return store


def find(store: RagVectorStore, use_async: bool, **query: Any) -> list[str]:
    asked = VectorStoreQuery(**{"query_embedding": [1.0, 0.0, 0.0], "similarity_top_k": 3, **query})
    result = asyncio.run(store.aquery(asked)) if use_async else store.query(asked)
    assert result.similarities == sorted(result.similarities, reverse=True) or "mmr" in str(query)
    assert all(0 <= score <= 1 for score in result.similarities)
    assert [node.node_id for node in result.nodes] == result.ids
    return list(result.ids)


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize(
    ("mode", "found"),
    [
        (VectorStoreQueryMode.DEFAULT, ["apple", "beet", "corn"]),
        (VectorStoreQueryMode.SPARSE, ["corn"]),
        (VectorStoreQueryMode.TEXT_SEARCH, ["corn"]),
        (VectorStoreQueryMode.HYBRID, ["apple", "corn", "beet"]),
        (VectorStoreQueryMode.SEMANTIC_HYBRID, ["apple", "corn", "beet"]),
        (VectorStoreQueryMode.MMR, ["apple", "corn", "beet"]),
    ],
)
def test_modes(
    store: RagVectorStore, mode: VectorStoreQueryMode, found: list[str], use_async: bool
) -> None:
    query: dict[str, Any] = {"mode": mode, "query_str": "yellow corn"}
    if mode == VectorStoreQueryMode.MMR:
        query["mmr_threshold"] = 0.3
    if "hybrid" in mode.value:
        query["alpha"] = 0.51
    assert find(store, use_async, **query) == found


@pytest.mark.parametrize(
    "mode",
    [
        VectorStoreQueryMode.SVM,
        VectorStoreQueryMode.LOGISTIC_REGRESSION,
        VectorStoreQueryMode.LINEAR_REGRESSION,
    ],
)
def test_modes_that_there_are_not(store: RagVectorStore, mode: VectorStoreQueryMode) -> None:
    with pytest.raises(ValueError, match="there is no mode"):
        find(store, False, mode=mode)


OPERATORS = [
    ("n", FilterOperator.EQ, 1, ["apple"]),
    ("n", FilterOperator.NE, 1, ["beet", "corn"]),
    ("n", FilterOperator.GT, 1, ["beet", "corn"]),
    ("n", FilterOperator.GTE, 2, ["beet", "corn"]),
    ("n", FilterOperator.LT, 2, ["apple"]),
    ("n", FilterOperator.LTE, 2, ["apple", "beet"]),
    ("n", FilterOperator.IN, [1, 3], ["apple", "corn"]),
    ("n", FilterOperator.IN, [], []),
    ("n", FilterOperator.NIN, [1, 3], ["beet"]),
    ("n", FilterOperator.NIN, [], ["apple", "beet", "corn"]),
    ("tags", FilterOperator.ANY, ["root", "fruit"], ["apple", "beet"]),
    ("tags", FilterOperator.ANY, [], []),
    ("tags", FilterOperator.ALL, ["root", "red"], ["beet"]),
    ("tags", FilterOperator.ALL, [], ["apple", "beet", "corn"]),
    ("name", FilterOperator.TEXT_MATCH, "aiz", ["corn"]),
    ("name", FilterOperator.TEXT_MATCH, "AIZ", []),
    ("name", FilterOperator.TEXT_MATCH_INSENSITIVE, "AIZ", ["corn"]),
    ("tags", FilterOperator.CONTAINS, "red", ["apple", "beet"]),
    ("tags", FilterOperator.IS_EMPTY, None, ["corn"]),
    ("name", FilterOperator.IS_EMPTY, None, ["apple", "beet"]),
    ("name", FilterOperator.EQ, None, ["apple", "beet"]),
    ("name", FilterOperator.NE, None, ["corn"]),
]


def one(key: str, operator: FilterOperator, value: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])


@pytest.mark.parametrize(("key", "operator", "value", "found"), OPERATORS)
def test_operators(
    store: RagVectorStore, key: str, operator: FilterOperator, value: Any, found: list[str]
) -> None:
    filters = one(key, operator, value)
    assert sorted(node.node_id for node in store.get_nodes(filters=filters)) == found
    assert sorted(find(store, False, filters=filters)) == found


def test_all_operators_are_tested() -> None:
    assert {operator for _, operator, _, _ in OPERATORS} == set(FilterOperator)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (FilterCondition.AND, []),
        (FilterCondition.OR, ["apple", "beet"]),
        (FilterCondition.NOT, ["corn"]),
    ],
)
def test_conditions(store: RagVectorStore, condition: FilterCondition, found: list[str]) -> None:
    parts = [one("n", FilterOperator.EQ, 1), MetadataFilter(key="n", value=2)]
    filters = MetadataFilters(filters=parts, condition=condition)
    assert sorted(find(store, False, filters=filters)) == found


def test_documents_and_nodes(store: RagVectorStore) -> None:
    assert find(store, False, doc_ids=["d2"]) == ["corn"]
    assert find(store, False, node_ids=["beet", "nowhere"]) == ["beet"]
    found = store.get_nodes(node_ids=["beet", "nowhere"])
    assert [node.metadata for node in found] == [NODES["beet"][3]]
    assert found[0].ref_doc_id == "d1"
    store.delete("d1")
    assert [node.node_id for node in store.get_nodes()] == ["corn"]
    store.delete_nodes(["nowhere"])
    store.delete_nodes()
    assert len(store.get_nodes()) == 1
    store.delete_nodes(filters=one("n", FilterOperator.EQ, 3))
    assert store.get_nodes() == []
    store.clear()


async def test_asynchronous(collection: str) -> None:
    store = RagVectorStore(collection=collection)
    assert await store.async_add(nodes()) == list(NODES)
    assert [node.node_id for node in await store.aget_nodes(["corn"])] == ["corn"]
    await store.adelete("d1")
    await store.adelete_nodes(["nowhere"])
    assert len(await store.aget_nodes()) == 1
    await store.aclear()
    assert await store.aget_nodes() == []


def test_index(collection: str) -> None:
    """An index with the model of the database, from documents to a retriever."""
    store = RagVectorStore(collection=collection)
    index = VectorStoreIndex.from_documents(
        [Document(text="Keys are rotated every 90 days."), Document(text="Lunch is at noon.")],
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=RagEmbedding(),
    )
    found = index.as_retriever(similarity_top_k=1).retrieve("when do we eat?")
    assert [node.text for node in found] == ["Lunch is at noon."]
    again = VectorStoreIndex.from_vector_store(store, embed_model=RagEmbedding())
    found = again.as_retriever(similarity_top_k=1, vector_store_query_mode="hybrid").retrieve("key")
    assert [node.text for node in found] == ["Keys are rotated every 90 days."]


def test_other_dimensions(store: RagVectorStore) -> None:
    node = TextNode(text="x", embedding=MockEmbedding(5).get_text_embedding("x"))
    with pytest.raises(Exception, match="3"):
        store.add([node])


async def test_retriever(rag: Rag, collection: str) -> None:
    rag.create_collection(collection)
    rag.add("# Keys\n\nKeys are rotated.", uri="keys.md", collection=collection)
    retriever = RagRetriever(collection=collection, top_k=1)
    for found in (retriever.retrieve("key"), await retriever.aretrieve("key")):
        assert [node.metadata["uri"] for node in found] == ["keys.md"]
        assert "citation" in found[0].metadata
