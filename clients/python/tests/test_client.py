"""The client itself, and what users of other stores have reported."""

import asyncio
import multiprocessing
import os
import threading
import uuid
from collections.abc import Iterator
from datetime import date, datetime, timezone
from typing import Any

import psycopg
import pytest
from conftest import run_sql
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from rag_postgresql import (
    AsyncRag,
    Chunk,
    ExtensionMissing,
    ModelMissing,
    NoConnection,
    NotAllowed,
    Rag,
    RagError,
    connect,
    connect_async,
)


def chunk(id: str, text: str = "a text", vector: Any = (1.0, 0.0, 0.0), **metadata: Any) -> Chunk:
    return Chunk(id, text, metadata, vector)


# documents, searches, syncs
# ----------------------------------------


def test_documents(rag: Rag, collection: str) -> None:
    rag.create_collection(collection, chunk_size=200, description="notes; with 'quotes'")
    added = rag.add("Keys are rotated every 90 days.", uri="note:keys", collection=collection)
    assert [(a.uri, a.action, a.success) for a in added] == [("note:keys", "added", True)]
    added = rag.add(
        [{"uri": "note:lunch", "content": "Lunch is at noon."}, {"uri": "note:no", "content": " "}],
        collection=collection,
    )
    assert [(a.action, a.error) for a in added] == [
        ("added", None),
        ("failed", "no content to index"),
    ]
    hits = rag.search("how often are keys replaced?", collection, top_k=1)
    assert [hit.uri for hit in hits] == ["note:keys"]
    assert 0 < hits[0].score <= 1
    assert hits[0].content[slice(*hits[0].matches[0])] == "Keys"
    assert rag.search("lunch", [collection, "default"], filter={"uri": "note:lunch"})[0].rank == 1


def test_table_of_a_notebook(rag: Rag, collection: str) -> None:
    rag.create_collection(collection)
    rag.add("Keys <b>& locks</b>.", uri="a<b", title="<script>", collection=collection)
    table = rag.search("keys", collection)._repr_html_()
    assert "<mark>Keys</mark>" in table
    assert "<script>" not in table and "<b>" not in table and "a&lt;b" in table


def test_wrong_arguments(rag: Rag) -> None:
    with pytest.raises(TypeError, match="needs a uri"):
        rag.add("a text")
    with pytest.raises(TypeError, match="belong to one text"):
        rag.add([{"uri": "a", "content": "b"}], title="c")
    with pytest.raises(TypeError, match="has no option 'size'"):
        rag.create_collection("x", size=1)
    with pytest.raises(TypeError, match="ids or a filter"):
        rag.delete()
    with pytest.raises(pg.UndefinedObject):
        rag.search("x", "there is none")


def test_sync(rag: Rag, collection: str, tmp_path: Any, capsys: Any) -> None:
    if not run_sql("SELECT pg_has_role(current_user, 'pg_read_server_files', 'usage')"):
        pytest.skip("the role may not read files of the server")
    os.chmod(tmp_path.parent.parent, 0o755)
    for folder in (tmp_path, tmp_path.parent):
        os.chmod(folder, 0o755)
    for n in range(3):
        (tmp_path / f"{n}.md").write_text(f"# Note {n}\n\nText of note {n}.")
    rag.create_collection(collection)
    source = f"s{collection}"
    run_sql(
        "SELECT rag_create_source(%s, 'folder', jsonb_build_object('path', %s::text), %s)",
        source, str(tmp_path), collection,
    )  # fmt: skip
    try:
        run = rag.sync(source, progress=True)
        assert (run.phase, rag.count(collection)) == ("Completed", 3)
        assert "3 " in capsys.readouterr().err
        states: list[Any] = []
        assert rag.sync(source, progress=states.append).unchanged == 3
        run_sql('SELECT rag_alter_source(%s, spec => \'{"path": "/there/is/none"}\')', source)
        with pytest.raises(RagError, match="failed"):
            rag.sync(source, progress=False)
    finally:
        run_sql("SELECT rag_drop_source(%s)", source)


# ids, metadata, filters
# ----------------------------------------


@pytest.mark.parametrize(
    "id",
    [
        "1",
        str(uuid.uuid4()),
        str(uuid.uuid4()).upper(),
        uuid.uuid4().hex,
        "https://example.org/a?b=c&d=%20#e",
        "a'b\"c\\d; DROP TABLE x --",
        "Ünïcødé 日本 🎉",
        "x" * 255,
    ],
)
def test_ids(rag: Rag, vectors: str, id: str) -> None:
    assert rag.upsert([chunk(id), chunk("other")], vectors) == 2
    assert [c.id for c in rag.get(vectors, ids=[id])] == [id]
    assert {hit.id for hit in rag.search(None, vectors, embedding=[1, 0, 0])} <= {id, "other"}
    assert rag.delete(vectors, ids=[id, "missing"]) == 1
    assert rag.delete(vectors, ids=[id]) == 0
    assert rag.count(vectors) == 1


def test_metadata(rag: Rag, vectors: str) -> None:
    given = {
        "nested": {"list": [1, 2.5, {"deep": None}], "text": "ä\n\t\"'\\"},
        "none": None,
        "true": True,
        "unicode": "日本語 🎉",
        "id": 7,
        "uri": "mine",
        "document_id": "theirs",
        "category": "c",
        "key with 'quotes' and %s": "%(x)s {y}",
        "": "empty key",
    }
    times = {
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        "day": date(2026, 1, 2),
        "uuid": uuid.UUID(int=1),
        "set": {"b", "a"},
    }
    rag.upsert([Chunk("a", "text", {**given, **times}, [1, 0, 0])], vectors)
    found = rag.get(vectors)[0].metadata
    assert {k: v for k, v in found.items() if k not in times} == given
    assert found["at"] == "2026-01-02T03:04:05+00:00" and found["day"] == "2026-01-02"
    assert found["uuid"] == str(uuid.UUID(int=1)) and found["set"] == ["a", "b"]
    assert rag.values("none", vectors) == [None]
    assert rag.values("key with 'quotes' and %s", vectors) == ["%(x)s {y}"]


def test_what_json_does_not_have(rag: Rag, vectors: str) -> None:
    with pytest.raises(ValueError, match="chunk 'a' has a number that JSON does not have"):
        rag.upsert([chunk("a", price=float("nan"))], vectors)
    with pytest.raises(TypeError, match="a object cannot be stored as JSON"):
        rag.upsert([chunk("a", x=object())], vectors)
    with pytest.raises(ValueError, match="embedding of chunk 'a' has NaN"):
        rag.upsert([chunk("a", vector=[1, float("nan"), 0])], vectors)
    with pytest.raises(ValueError, match="NaN"):
        rag.search(None, vectors, embedding=[float("inf"), 0, 0])
    with pytest.raises(ValueError, match="chunk 'a' has no text"):
        rag.upsert([chunk("b"), chunk("a", " \n")], vectors)
    with pytest.raises(TypeError, match="must be a text, not 5"):
        rag.upsert([chunk(5)], vectors)  # type: ignore[arg-type]
    assert rag.count(vectors) == 0


def test_nul_is_left_out(rag: Rag, vectors: str) -> None:
    rag.upsert([chunk("a", "one\0two", key="x\0y", back="\\u0000")], vectors)
    (found,) = rag.get(vectors)
    assert found.content == "onetwo"
    assert found.metadata == {"key": "xy", "back": "\\u0000"}


def test_dimensions(rag: Rag, vectors: str) -> None:
    with pytest.raises(psycopg.Error, match="dimensions"):
        rag.upsert([chunk("a", vector=[1, 0])], vectors)
    rag.upsert([chunk("a")], vectors)
    with pytest.raises(psycopg.Error, match="dimension"):
        rag.search(None, vectors, embedding=[1, 0])
    with pytest.raises(psycopg.Error):
        rag.upsert([chunk("b", vector=None)], vectors)


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"n": 1}, ["a"]),
        ({"n": {"$ne": 1}}, ["b", "c"]),
        ({"n": {"$gt": 1}}, ["b"]),
        ({"n": {"$gte": 1, "$lt": 2}}, ["a"]),
        ({"n": {"$between": [1, 2]}}, ["a", "b"]),
        ({"n": {"$in": []}}, []),
        ({"n": {"$nin": []}}, ["a", "b", "c"]),
        ({"n": {"$in": [1, "x"]}}, ["a"]),
        ({"n": {"$exists": False}}, ["c"]),
        ({"n": {"$exists": True}}, ["a", "b"]),
        ({"n": None}, ["c"]),
        ({"$or": [{"n": 1}, {"s": "é'"}]}, ["a", "c"]),
        ({"$and": [{"n": 1}, {"s": "x"}]}, []),
        ({"$not": {"n": {"$gt": 1}}}, ["a", "c"]),
        ({"n": 1, "uri": "mine"}, ["a"]),
        ({"list": {"$contains": "y"}}, ["b"]),
        ({"key": "metadata.n", "operator": ">", "value": 1}, ["b"]),
        ({}, ["a", "b", "c"]),
    ],
)
def test_filters_of_langchain(
    rag: Rag, vectors: str, filter: dict[str, Any], found: list[str]
) -> None:
    from rag_postgresql.filters import from_mapping

    rag.upsert(
        [chunk("a", n=1, uri="mine"), chunk("b", n=2, list=["x", "y"]), chunk("c", s="é'")], vectors
    )
    native = from_mapping(filter)
    assert [c.id for c in rag.get(vectors, filter=native)] == found
    assert rag.count(vectors, filter=native) == len(found)
    settings = {"distinct_text": False}
    hits = rag.search(None, vectors, embedding=[1, 0, 0], filter=native, settings=settings)
    assert sorted(hit.id for hit in hits) == found
    assert rag.delete(vectors, filter=native or {}) == len(found)
    assert rag.count(vectors) == 3 - len(found)


@pytest.mark.parametrize("filter", [{"n": {"$like": "x"}}, {"$nor": []}, {"$and": []}])
def test_wrong_filters(filter: dict[str, Any]) -> None:
    from rag_postgresql.filters import from_mapping

    with pytest.raises(ValueError, match="filter: "):
        from_mapping(filter)


# amounts, threads, forks, loops
# ----------------------------------------


def test_ten_thousand(rag: Rag, vectors: str) -> None:
    chunks = [chunk(f"id {n}", f"text {n}", [1, n / 10000, 0], n=n) for n in range(10000)]
    assert rag.upsert(chunks, vectors) == 10000
    assert rag.upsert(chunks[:5], vectors, replace=False) == 0
    assert rag.count(vectors) == 10000
    assert rag.count(vectors, filter={"key": "n", "operator": "<", "value": 10}) == 10
    assert rag.search(None, vectors, embedding=[1, 0, 0], top_k=1)[0].id == "id 0"
    assert rag.delete(vectors, filter={}) == 10000


def test_all_or_nothing(rag: Rag, vectors: str) -> None:
    chunks = [chunk(f"id {n}") for n in range(1500)] + [chunk("bad", vector=[1])]
    with pytest.raises(psycopg.Error):
        rag.upsert(chunks, vectors)
    assert rag.count(vectors) == 0
    assert rag.upsert([chunk("a", "first"), chunk("a", "last")], vectors) == 1
    assert rag.get(vectors)[0].content == "last"


def test_transaction_of_the_application(vectors: str) -> None:
    with psycopg.connect("") as connection:
        with Rag(connection) as rag:
            rag.upsert([chunk("a")], vectors)
            assert rag.count(vectors) == 1
        connection.rollback()
        assert Rag(connection).count(vectors) == 0


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row, scalar_row])
def test_rows_of_the_connection_are_of_any_kind(vectors: str, row_factory: Any) -> None:
    with psycopg.connect("", row_factory=row_factory) as connection:
        rag = Rag(connection)
        rag.upsert([chunk("a")], vectors)
        assert rag.count(vectors) == 1


def test_same_id_at_once(rag: Rag, vectors: str) -> None:
    problems = []

    def write(n: int) -> None:
        try:
            for _ in range(5):
                rag.upsert([chunk("same", f"text {n}"), chunk(f"own {n}")], vectors)
        except Exception as e:
            problems.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert rag.count(vectors) == 7


def _in_child(rag: Rag, collection: str, results: Any) -> None:
    results.put([rag.count(collection) for _ in range(20)])


def test_fork(rag: Rag, vectors: str) -> None:
    rag.upsert([chunk("a")], vectors)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=_in_child, args=(rag, vectors, results)) for _ in range(3)]
    for child in children:
        child.start()
    own = [rag.count(vectors) for _ in range(20)]
    assert own == [1] * 20
    assert [results.get(timeout=60) for _ in children] == [[1] * 20] * 3
    for child in children:
        child.join()
    assert rag.count(vectors) == 1


def test_two_event_loops(vectors: str) -> None:
    rag = AsyncRag("")

    async def use() -> int:
        counts = await asyncio.gather(*[rag.count(vectors) for _ in range(10)])
        return sum(counts)

    assert asyncio.run(use()) == 0
    assert asyncio.run(use()) == 0


async def test_asynchronous(vectors: str) -> None:
    async with await connect_async("") as rag:
        assert await rag.upsert([chunk("a", n=1)], vectors) == 1
        assert [c.id for c in await rag.get(vectors)] == ["a"]
        assert (await rag.search(None, vectors, embedding=[1, 0, 0]))[0].id == "a"
        assert await rag.values("n", vectors) == [1]
        assert await rag.keys(vectors) == {"n": ["number"]}
        assert await rag.delete(vectors, ids=["a"]) == 1


def test_pool(vectors: str) -> None:
    with ConnectionPool("", min_size=1, max_size=2, open=True) as pool:
        rag = Rag(pool)
        rag.upsert([chunk("a")], vectors)
        assert rag.count(vectors) == 1


async def test_asynchronous_pool(vectors: str) -> None:
    async with AsyncConnectionPool("", min_size=1, max_size=2, open=False) as pool:
        rag = AsyncRag(pool)
        await rag.upsert([chunk("a")], vectors)
        assert await rag.count(vectors) == 1


def test_connection_that_the_server_has_closed(rag: Rag, vectors: str) -> None:
    with rag._connections.connection() as (connection, _):
        pid = connection.info.backend_pid
    with psycopg.connect("", autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert rag.count(vectors) == 0


# what is missing, and how to get it
# ----------------------------------------


@pytest.fixture
def database(rag: Rag) -> Iterator[str]:
    name = f"d{uuid.uuid4().hex[:20]}"
    run_sql(f"CREATE DATABASE {name} TEMPLATE template0")
    yield name
    run_sql(f"DROP DATABASE {name} WITH (FORCE)")


def test_without_the_extension(database: str) -> None:
    with pytest.raises(ExtensionMissing, match="run: CREATE EXTENSION rag"):
        connect(make_conninfo("", dbname=database))


def test_in_another_schema(database: str) -> None:
    conninfo = make_conninfo("", dbname=database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Other Schema"')
        connection.execute('CREATE EXTENSION rag SCHEMA "Other Schema"')
        connection.execute(f"ALTER DATABASE {database} SET search_path = pg_catalog")
    with connect(conninfo) as rag:
        rag.create_collection("c", dimensions=3)
        rag.upsert([chunk("a", n=1)], "c")
        assert rag.search(None, "c", embedding=[1, 0, 0])[0].id == "a"
        assert (rag.count("c"), rag.values("n", "c"), rag.delete("c", filter={})) == (1, [1], 1)


def test_without_rights(rag: Rag, vectors: str) -> None:
    role = f"r{uuid.uuid4().hex[:20]}"
    run_sql(f"CREATE ROLE {role} LOGIN")
    try:
        with connect(make_conninfo("", user=role)) as other:
            with pytest.raises(NotAllowed, match=f"GRANT rag_reader TO {role}"):
                other.search("x")
            run_sql(f"GRANT rag_reader TO {role}")
            with pytest.raises(NotAllowed, match="rag_grant_collection"):
                other.search(None, vectors, embedding=[1, 0, 0])
    finally:
        run_sql(f"DROP ROLE {role}")


def test_without_a_server() -> None:
    with pytest.raises(NoConnection, match="Check host, port"):
        connect("host=127.0.0.1 port=1 connect_timeout=2")


def test_without_a_model(rag: Rag, collection: str) -> None:
    rag.create_collection(collection)
    rag.add("Keys are rotated.", uri="keys", collection=collection)
    with pytest.raises(ModelMissing, match="model"):
        rag.answer("keys?", collection)
    with pytest.raises(ModelMissing, match="model"):
        list(rag.stream("keys?", collection))


# answers
# ----------------------------------------

CHAT_MODEL = os.environ.get("RAG_TEST_CHAT_MODEL")
with_chat_model = pytest.mark.skipif(not CHAT_MODEL, reason="RAG_TEST_CHAT_MODEL is not set")


@pytest.fixture
def notes(rag: Rag, collection: str) -> str:
    rag.create_collection(collection)
    rag.add("Keys are rotated every 90 days.", uri="note:keys", collection=collection)
    return collection


@with_chat_model
def test_answer(rag: Rag, notes: str) -> None:
    answer = rag.answer("how often?", notes, model=CHAT_MODEL, history=[{"content": "Hello."}])
    assert str(answer) and answer.context[0]["uri"] == "note:keys"
    stream = rag.stream("how often?", notes, model=CHAT_MODEL)
    pieces = list(stream)
    assert "".join(pieces) == stream.message == answer.message
    assert stream.context == answer.context and stream.metadata["model_name"] == CHAT_MODEL
    with rag.stream("how often?", notes, model=CHAT_MODEL) as stream:
        next(stream)
    assert rag.count(notes) == 1


@with_chat_model
def test_pieces_over_a_connection_with_rows_of_another_kind(notes: str) -> None:
    with psycopg.connect("", row_factory=dict_row) as connection:
        assert "".join(Rag(connection).stream("how often?", notes, model=CHAT_MODEL))


@with_chat_model
async def test_asynchronous_answer(rag: Rag, notes: str) -> None:
    async with AsyncRag("") as client:
        answer = await client.answer("how often?", notes, model=CHAT_MODEL)
        async with client.stream("how often?", notes, model=CHAT_MODEL) as stream:
            pieces = [piece async for piece in stream]
        assert "".join(pieces) == stream.message == answer.message
        async with client.stream("how often?", notes, model=CHAT_MODEL) as stream:
            async for _ in stream:
                break
        assert await client.count(notes) == 1
