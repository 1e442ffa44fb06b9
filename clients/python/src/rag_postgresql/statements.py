"""The statements. SQL does the work: this file has its text, the parameters, and how rows are
read. Values are always parameters, and the schema is quoted by psycopg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from psycopg import sql

from .records import Added, Answer, Chunk, Hit, Hits, Progress, Run
from .values import from_vector, to_floats, to_json, to_vector

if TYPE_CHECKING:
    from typing import LiteralString

T = TypeVar("T")
Row = dict[str, Any]
Filter = Mapping[str, Any]

#: the most chunks of one call, and about the most characters of their JSON
BATCH = 1000
BATCH_CHARACTERS = 8_000_000


@dataclass(frozen=True)
class Statement(Generic[T]):
    """A statement, its parameters, and the function that reads its rows."""

    text: LiteralString
    values: dict[str, Any]
    read: Callable[[list[Row]], T]

    def query(self, schema: str) -> sql.Composed:
        return sql.SQL(self.text).format(rag=sql.Identifier(schema))


def _one(column: str) -> Callable[[list[Row]], Any]:
    return lambda rows: rows[0][column]


def _column(column: str) -> Callable[[list[Row]], list[Any]]:
    return lambda rows: [row[column] for row in rows]


def _nothing(_: list[Row]) -> None:
    return None


def _json(value: Any, what: str) -> str | None:
    return None if value is None else to_json(value, what)


# The ids of an application are those of its chunks. They are looked up for documents that an
# application may have split: these are texts, and belong to no source.
SEARCH: LiteralString = """
    WITH found AS MATERIALIZED (
        SELECT * FROM {rag}.rag_search(
            query => %(query)s::text, collection => %(collection)s::text[],
            top_k => %(top_k)s::integer, mode => %(mode)s::text, filter => %(filter)s::jsonb,
            rerank => %(rerank)s::text, settings => %(settings)s::jsonb,
            query_embedding => %(embedding)s::rag_types.vector)
    ), split AS MATERIALIZED (
        SELECT f.collection, array_agg(f.chunk_id::text) AS ids
        FROM found f WHERE f.source IS NULL AND f.document_type = 'text' GROUP BY f.collection
    ), named AS MATERIALIZED (
        SELECT s.collection, c.chunk_id, c.given_id
        FROM split s, LATERAL {rag}.rag_get_chunks(s.collection, s.ids) AS c
        WHERE c.given_id IS NOT NULL
    )
    SELECT coalesce(n.given_id, f.chunk_id::text) AS id, f.*
    FROM found f LEFT JOIN named n USING (collection, chunk_id) ORDER BY f.rank
"""
_HIT = [field.name for field in fields(Hit)]


def _hits(rows: list[Row]) -> Hits:
    for row in rows:
        row["chunk_id"], row["document_id"] = str(row["chunk_id"]), str(row["document_id"])
        row["matches"] = [(r.lower, r.upper) for r in row["matches"] or []]
    return Hits(Hit(**{name: row[name] for name in _HIT}) for row in rows)


def _collections(collection: str | Sequence[str]) -> list[str]:
    return [collection] if isinstance(collection, str) else list(collection)


def search(
    query: str | None,
    collection: str | Sequence[str],
    top_k: int | None,
    mode: str | None,
    filter: Filter | None,
    rerank: str | None,
    settings: Mapping[str, Any] | None,
    embedding: Sequence[float] | None,
) -> Statement[Hits]:
    values = {
        "query": query,
        "collection": _collections(collection),
        "top_k": top_k,
        "mode": mode,
        "filter": _json(filter, "filter"),
        "rerank": rerank,
        "settings": _json(settings, "settings"),
        "embedding": to_vector(embedding),
    }
    return Statement(SEARCH, values, _hits)


def embed(texts: Sequence[str], purpose: str, model: str | None) -> Statement[list[list[float]]]:
    text: LiteralString = """
        SELECT e::text AS embedding FROM unnest({rag}.rag_embed(
            %(texts)s::text[], model => %(model)s::text, purpose => %(purpose)s::text))
            WITH ORDINALITY AS v (e, place) ORDER BY place"""
    values = {"texts": list(texts), "model": model, "purpose": purpose}
    return Statement(text, values, lambda rows: [from_vector(r["embedding"]) or [] for r in rows])


# documents and chunks
# ----------------------------------------


def _batches(items: Iterable[str]) -> Iterator[str]:
    """Joins objects of JSON to arrays of limited size."""
    batch: list[str] = []
    size = 0
    for item in items:
        if batch and (len(batch) == BATCH or size + len(item) > BATCH_CHARACTERS):
            yield f"[{','.join(batch)}]"
            batch, size = [], 0
        batch.append(item)
        size += len(item)
    if batch:
        yield f"[{','.join(batch)}]"


def _added(rows: list[Row]) -> list[Added]:
    return [
        Added(
            row["uri"],
            row["action"],
            None if row["document_id"] is None else str(row["document_id"]),
            row["chunks_indexed"] or 0,
            row["error"],
        )
        for row in rows
    ]


def add(
    documents: Iterable[Mapping[str, Any]], collection: str
) -> Iterator[Statement[list[Added]]]:
    text: LiteralString = (
        "SELECT * FROM {rag}.rag_add_documents(%(documents)s::jsonb, %(collection)s::text)"
    )
    items = (to_json(document, f"documents[{i}]") for i, document in enumerate(documents))
    for batch in _batches(items):
        yield Statement(text, {"documents": batch, "collection": collection}, _added)


def _chunk(chunk: Chunk) -> str:
    what = f"chunk {chunk.id!r}"
    if not isinstance(chunk.id, str):
        raise TypeError(f"the id of a chunk must be a text, not {chunk.id!r}")
    if not chunk.content.strip():
        raise ValueError(f"{what} has no text, and rag stores texts only; leave it out")
    members: dict[str, Any] = {"chunk_id": chunk.id, "text": chunk.content}
    members["document_id"] = chunk.id
    if chunk.uri is not None:
        members["uri"] = chunk.uri
    if chunk.metadata:
        members["metadata"] = chunk.metadata
    if chunk.embedding is not None:
        members["embedding"] = to_floats(chunk.embedding, f"the embedding of {what}")
    for name in ("title", "category", "tags", "page"):
        value = getattr(chunk, name)
        if value is not None:
            members[name] = value
    return to_json(members, what)


def upsert(chunks: Iterable[Chunk], collection: str, replace: bool) -> Iterator[Statement[int]]:
    """Each chunk is a document of its own. Of several with one id the last one counts."""
    text: LiteralString = (
        "SELECT {rag}.rag_upsert_chunks(%(chunks)s::jsonb, %(collection)s::text,"
        " skip_existing => %(skip)s::boolean) AS written"
    )
    last = {chunk.id: chunk for chunk in chunks}
    for batch in _batches(map(_chunk, last.values())):
        values = {"chunks": batch, "collection": collection, "skip": not replace}
        yield Statement(text, values, _one("written"))


def _chunks(rows: list[Row]) -> list[Chunk]:
    return [
        Chunk(
            row["id"],
            row["content"],
            row["metadata"],
            from_vector(row["embedding"]),
            row["title"],
            row["category"],
            row["tags"],
            row["page"],
            row["uri"],
        )
        for row in rows
    ]


def get(
    collection: str, ids: Sequence[str] | None, filter: Filter | None, embeddings: bool
) -> Statement[list[Chunk]]:
    text: LiteralString = """
        SELECT coalesce(given_id, chunk_id::text) AS id, content, metadata,
               embedding::text AS embedding, title, category, tags, page, uri
        FROM {rag}.rag_get_chunks(%(collection)s::text, %(ids)s::text[], %(filter)s::jsonb,
                                  %(embeddings)s::boolean)"""
    values = _selection(collection, ids, filter) | {"embeddings": embeddings}
    return Statement(text, values, _chunks)


def _selection(collection: str, ids: Sequence[str] | None, filter: Filter | None) -> Row:
    return {
        "collection": collection,
        "ids": None if ids is None else list(ids),
        "filter": _json(filter, "filter"),
    }


def delete(collection: str, ids: Sequence[str] | None, filter: Filter | None) -> Statement[int]:
    if filter is None and ids is not None:
        text: LiteralString = (
            "SELECT {rag}.rag_delete_chunks(%(ids)s::text[], %(collection)s::text) AS deleted"
        )
    else:
        text = """
            SELECT {rag}.rag_delete_chunks(ARRAY(
                SELECT chunk_id::text FROM {rag}.rag_get_chunks(
                    %(collection)s::text, %(ids)s::text[], %(filter)s::jsonb)),
                %(collection)s::text) AS deleted"""
    return Statement(text, _selection(collection, ids, filter), _one("deleted"))


def count(collection: str, filter: Filter | None) -> Statement[int]:
    text: LiteralString = """
        SELECT coalesce(sum(chunks), 0)::bigint AS chunks FROM {rag}.rag_facets(
            NULL, %(collection)s::text, '{{document_type}}', %(filter)s::jsonb, 1000)"""
    return Statement(text, _selection(collection, None, filter), _one("chunks"))


def merge_metadata(collection: str, filter: Filter | None, metadata: Filter) -> Statement[int]:
    """For chunks of an application: changes some keys of their metadata, and nothing else."""
    text: LiteralString = """
        SELECT coalesce(sum({rag}.rag_upsert_chunks(batch, %(collection)s::text, false)), 0)::bigint
                   AS updated
        FROM (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                         'chunk_id', coalesce(given_id, chunk_id::text),
                         'document_id', document_id::text, 'text', content, 'page', page,
                         'chunk_index', chunk_index, 'embedding', embedding::real[]))
                     || jsonb_build_object('metadata', metadata || %(metadata)s::jsonb)) AS batch
              FROM (SELECT *, (row_number() OVER () - 1) / 1000 AS number
                    FROM {rag}.rag_get_chunks(%(collection)s::text, filter => %(filter)s::jsonb,
                                              with_embeddings => true)) AS c
              GROUP BY number) AS b"""
    values = _selection(collection, None, filter) | {"metadata": to_json(metadata, "metadata")}
    return Statement(text, values, _one("updated"))


def values_of(key: str, collection: str, filter: Filter | None) -> Statement[list[Any]]:
    """The distinct values of a key of the metadata. 1 and 1.0 are two values."""
    text: LiteralString = """
        SELECT value::jsonb AS value FROM (
            SELECT DISTINCT (metadata -> %(key)s::text)::text AS value
            FROM {rag}.rag_get_chunks(%(collection)s::text, filter => %(filter)s::jsonb)
            WHERE metadata ? %(key)s::text) AS v
        ORDER BY value::jsonb, value"""
    return Statement(text, _selection(collection, None, filter) | {"key": key}, _column("value"))


def keys(collection: str, filter: Filter | None) -> Statement[dict[str, list[str]]]:
    """The keys of the metadata with the types of their values."""
    text: LiteralString = """
        SELECT key, array_agg(DISTINCT jsonb_typeof(value) ORDER BY jsonb_typeof(value)) AS types
        FROM {rag}.rag_get_chunks(%(collection)s::text, filter => %(filter)s::jsonb) AS c,
             jsonb_each(c.metadata) GROUP BY key ORDER BY key"""
    return Statement(
        text,
        _selection(collection, None, filter),
        lambda rows: {row["key"]: row["types"] for row in rows},
    )


# collections and sources
# ----------------------------------------

#: arguments of rag_create_collection, with their types
OPTIONS: dict[LiteralString, LiteralString] = {
    "retriever": "text",
    "chunk_size": "integer",
    "chunk_overlap": "integer",
    "metadata_whitelist": "text[]",
    "description": "text",
    "chunk_unit": "text",
    "external_id": "text",
    "owner": "text",
    "text_config": "text",
    "title_weight": "integer",
    "max_documents": "bigint",
    "max_bytes": "bigint",
    "model": "text",
    "dimensions": "integer",
}


def create_collection(name: str, options: Mapping[str, Any]) -> Statement[None]:
    text: LiteralString = "SELECT {rag}.rag_create_collection(%(name)s::text"
    for option in options:
        if option not in OPTIONS:
            raise TypeError(f"a collection has no option {option!r}; options: {', '.join(OPTIONS)}")
    for option, of_type in OPTIONS.items():
        if option in options:
            text += ", " + option + " => %(" + option + ")s::" + of_type
    return Statement(text + ")", {"name": name, **options}, _nothing)


def drop_collection(name: str) -> Statement[None]:
    text: LiteralString = "SELECT {rag}.rag_drop_collection(%(name)s::text)"
    return Statement(text, {"name": name}, _nothing)


def has_collection(name: str) -> Statement[bool]:
    text: LiteralString = (
        "SELECT EXISTS (SELECT FROM rag.collections"
        " WHERE name = %(name)s OR external_id = %(name)s) AS found"
    )
    return Statement(text, {"name": name}, _one("found"))


def begin_sync(source: str) -> Statement[int]:
    text: LiteralString = "SELECT {rag}.rag_sync(%(source)s::text, wait => false) AS run"
    return Statement(text, {"source": source}, _one("run"))


def wait(run: int, seconds: float) -> Statement[str]:
    text: LiteralString = (
        "SELECT {rag}.rag_wait(%(run)s::bigint, make_interval(secs => %(seconds)s)) AS phase"
    )
    return Statement(text, {"run": run, "seconds": seconds}, _one("phase"))


def _progress(rows: list[Row]) -> Progress | None:
    for row in rows:
        return Progress(*row.values())
    return None


def progress(run: int) -> Statement[Progress | None]:
    text: LiteralString = """
        SELECT stage, documents_done, documents_total, chunks_done, current_uri
        FROM rag.progress WHERE run_id = %(run)s"""
    return Statement(text, {"run": run}, _progress)


def ended(run: int) -> Statement[Run]:
    text: LiteralString = """
        SELECT run_id, phase, documents_added, documents_updated, documents_deleted,
               documents_unchanged, documents_failed, coalesce(errors ->> 'message', note)
        FROM rag.runs WHERE run_id = %(run)s"""
    return Statement(text, {"run": run}, lambda rows: Run(*rows[0].values()))


# answers
# ----------------------------------------

_ANSWER: LiteralString = """(
    %(query)s::text, %(collection)s::text, top_k => %(top_k)s::integer, mode => %(mode)s::text,
    filter => %(filter)s::jsonb, settings => %(settings)s::jsonb, model => %(model)s::text,
    conversation_history => %(history)s::jsonb)"""


def _question(
    query: str,
    collection: str,
    top_k: int | None,
    mode: str | None,
    filter: Filter | None,
    settings: Mapping[str, Any] | None,
    model: str | None,
    history: Sequence[Mapping[str, str]] | None,
) -> Row:
    return {
        "query": query,
        "collection": collection,
        "top_k": top_k,
        "mode": mode,
        "filter": _json(filter, "filter"),
        "settings": _json(settings, "settings"),
        "model": model,
        "history": _json(history, "history"),
    }


def _answer(rows: list[Row]) -> Answer:
    row = rows[0]
    return Answer(
        row["message"], row["context_used"] or [], row["model"], row["provider"], row["metadata"]
    )


def answer(*question: Any) -> Statement[Answer]:
    text: LiteralString = "SELECT * FROM {rag}.rag_answer" + _ANSWER
    return Statement(text, _question(*question), _answer)


def stream(*question: Any) -> Statement[None]:
    text: LiteralString = (
        "SELECT (a).event, (a).text, (a).data FROM (SELECT {rag}.rag_answer_stream"
        + _ANSWER
        + " AS a) AS s"
    )
    return Statement(text, _question(*question), _nothing)
