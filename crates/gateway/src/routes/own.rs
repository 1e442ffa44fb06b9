//! The gateway's own routes.

use super::{
    Body::Json, DELETE, Field, GET, Output, PATCH, POST, Route, Type::*, body, path, path_integer,
    query,
};
use crate::problem::Contract::Problem;

const COLLECTION: Field = body(
    "collection",
    Text,
    "name or external id; `default` if left out",
);
const QUERY: Field = body("query", Text, "a question or text").required();
const TOP_K: Field = body("top_k", Integer, "maximum number of results, 1 to 10000");
const MODE: Field = body("mode", Text, "`vector`, `keyword` or `hybrid`");
const FILTER: Field = body("filter", Object, "a [filter](filters.md)");
const SETTINGS: Field = body(
    "settings",
    Object,
    "[settings](search.md#settings-of-a-search) of the search",
);
const IN_COLLECTION: Field = query("collection", Text, "name or external id; default `default`");
const SOURCE: Field = path(
    "name",
    "name of the source, with `%2F` for the `/` of a namespace",
);
const SPEC: Field = body("spec", Object, "[spec](sources.md) of the kind");
const SCHEDULE: Field = body("schedule", Text, "a [schedule](schedules.md)");
const CREDENTIALS: Field = body("credentials", Text, "a secret");
const KIND: Field = body("kind", Text, "kind of source, such as `folder`");
const RETRIES: Field = body(
    "max_retries",
    Integer,
    "maximum number of retries of a failed run",
);
const TIMEOUT: Field = body(
    "timeout",
    Text,
    "maximum duration of a run, such as `1 hour`",
);
const SUSPEND: Field = body("suspend", Boolean, "true: no scheduled runs");
const DRIFT: Field = body("drift_policy", Text, "[drift policy](drift.md)");
const NAME: Field = path("name", "name or external id of the collection");
const DESCRIPTION: Field = body("description", Text, "description of the collection");
const EXTERNAL_ID: Field = body("external_id", Text, "name that an application uses for it");
const RETRIEVER: Field = body("retriever", Text, "a [retriever](retrievers.md)");
const CHUNK_SIZE: Field = body("chunk_size", Integer, "maximum size of a chunk");
const CHUNK_OVERLAP: Field = body("chunk_overlap", Integer, "maximum overlap of chunks");
const CHUNK_UNIT: Field = body("chunk_unit", Text, "`characters` or `tokens`");
const TEXT_CONFIG: Field = body("text_config", Text, "text search configuration, or `auto`");
const MODEL: Field = body("model", Text, "an embedding model");
const DOCUMENT: Field = path("document_id", "id of the document");
const TITLE: Field = body("title", Text, "title of the document");
const CATEGORY: Field = body("category", Text, "category of the document");
const TAGS: Field = body("tags", Texts, "tags of the document");
const METADATA: Field = body("metadata", Object, "metadata of the document");
const RUN: Field = path_integer("run_id", "id of the run");

const SEARCH: &[Field] = &[
    QUERY,
    body(
        "collection",
        TextOrTexts,
        "name or external id, or an array of them; `default` if left out",
    ),
    TOP_K,
    MODE,
    FILTER,
    body("rerank", Text, "a reranker"),
    SETTINGS,
];
const EXPLAIN: &[Field] = &[QUERY, COLLECTION, TOP_K, MODE, FILTER, SETTINGS];
const CONTEXT: &[Field] = &[
    QUERY,
    COLLECTION,
    body(
        "max_tokens",
        Integer,
        "maximum length of the context; default 2000",
    ),
    TOP_K,
    MODE,
    FILTER,
    SETTINGS,
];
const ANSWER: &[Field] = &[
    QUERY,
    COLLECTION,
    TOP_K,
    MODE,
    FILTER,
    SETTINGS,
    body(
        "model",
        Text,
        "a chat model; that of `rag.chat_model` if left out",
    ),
    body(
        "conversation_history",
        Objects,
        "earlier messages, `{role, content}`",
    ),
    body("context", Object, "what an agent knows"),
    body(
        "stream",
        Boolean,
        "true: server-sent events `context`, `text` and `end`",
    ),
];
const FACETS: &[Field] = &[
    QUERY,
    COLLECTION,
    body("keys", Texts, "keys whose values are counted"),
    FILTER,
    body(
        "top",
        Integer,
        "maximum number of values of a key; default 10",
    ),
];
const CREATE_COLLECTION: &[Field] = &[
    body("name", Text, "name of the collection").required(),
    DESCRIPTION,
    EXTERNAL_ID,
    RETRIEVER,
    CHUNK_SIZE,
    CHUNK_OVERLAP,
    CHUNK_UNIT,
    TEXT_CONFIG,
    MODEL,
    body(
        "dimensions",
        Integer,
        "dimensions of vectors that requests bring",
    ),
];
const UPDATE_COLLECTION: &[Field] = &[
    NAME,
    DESCRIPTION,
    EXTERNAL_ID,
    RETRIEVER,
    CHUNK_SIZE,
    CHUNK_OVERLAP,
    CHUNK_UNIT,
    TEXT_CONFIG,
    MODEL,
];
const CREATE_SOURCE: &[Field] = &[
    body("name", Text, "name of the source").required(),
    KIND.required(),
    SPEC.required(),
    COLLECTION,
    SCHEDULE,
    CREDENTIALS,
    RETRIES,
    TIMEOUT,
    SUSPEND,
    DRIFT,
];
const UPDATE_SOURCE: &[Field] = &[
    SOURCE,
    KIND,
    SPEC,
    body("collection", Text, "collection that the source fills"),
    SCHEDULE,
    CREDENTIALS,
    RETRIES,
    TIMEOUT,
    SUSPEND,
    DRIFT,
];
const VALIDATE_SOURCE: &[Field] = &[
    KIND.required(),
    SPEC.required(),
    body("name", Text, "name of the source"),
    COLLECTION,
    SCHEDULE,
    CREDENTIALS,
];
const ADD_DOCUMENT: &[Field] = &[
    body("file", File, "the document, in a form"),
    body("content", Text, "the document as a text"),
    body("content_base64", Text, "the document as bytes, in base64"),
    body(
        "uri",
        Text,
        "address of the document; the name of the file if left out",
    ),
    TITLE,
    body(
        "document_type",
        Text,
        "[type](../guide/document-types.md) of the document",
    ),
    CATEGORY,
    TAGS,
    body("knowledge_id", Integer, "number of a knowledge item"),
    METADATA,
    COLLECTION,
];
const LIST_DOCUMENTS: &[Field] = &[
    IN_COLLECTION,
    query("source", Text, "only documents of this source"),
    query(
        "contains",
        Text,
        "only documents with this part in their uri or title",
    ),
    query("limit", Integer, "documents of a page; default 50"),
    query("after", Text, "the uri `next` of the page before"),
];
const GET_DOCUMENT: &[Field] = &[
    DOCUMENT,
    IN_COLLECTION,
    query("chunks", Boolean, "true: with the chunks"),
];
const UPDATE_DOCUMENT: &[Field] = &[DOCUMENT, COLLECTION, TITLE, CATEGORY, TAGS, METADATA];
const LIST_SOURCES: &[Field] = &[
    query("collection", Text, "only sources of this collection"),
    query("phase", Text, "only sources in this phase"),
    query(
        "contains",
        Text,
        "only sources with this part in their name",
    ),
    query("limit", Integer, "sources of a page; all if left out"),
    query("after", Text, "the name `next` of the page before"),
];
const LIST_RUNS: &[Field] = &[
    query("source", Text, "only runs of this source"),
    query("phase", Text, "only runs in this phase"),
    query("before", Integer, "only runs with a smaller id"),
    query("limit", Integer, "maximum number of runs; default 50"),
];

const RECALL: &[Field] = &[
    NAME,
    body(
        "queries",
        Integer,
        "number of random rows to search; default 50",
    ),
    body("top_k", Integer, "number of nearest rows; default 10"),
];

macro_rules! route {
    ($verb:ident $path:literal, $function:literal, $fields:expr, $summary:literal,
     $result:literal) => {
        Route::new($verb, &[$path], $function, $fields, $summary, $result).of("own", Problem)
    };
}

pub const ROUTES: &[Route] = &[
    route!(POST "/v1/search", "search", SEARCH, "Searches collections",
           "`query`, and `results` with the columns of [`rag_search`](search.md#rag_search)")
    .body(Json)
    .reads(),
    route!(POST "/v1/context", "context", CONTEXT, "Quotes what a search finds, for a model",
           "the columns of [`rag_context`](search.md#rag_context)")
    .body(Json)
    .reads(),
    route!(POST "/v1/answer", "answer", ANSWER, "Has a chat model answer a question",
           "the columns of [`rag_answer`](answers.md#rag_answer)")
    .body(Json)
    .output(Output::Answer),
    route!(POST "/v1/explain", "explain", EXPLAIN, "Tells what each part of a search did",
           "`query`, and `steps` with the columns of \
            [`rag_explain_search`](search.md#rag_explain_search)")
    .body(Json),
    route!(POST "/v1/facets", "facets", FACETS, "Counts the values of keys",
           "`query`, and `facets` with the columns of [`rag_facets`](search.md#rag_facets)")
    .body(Json)
    .reads(),
    route!(GET "/v1/collections", "list_collections", &[], "Lists collections",
           "`collections` with the columns of [`rag.collections`](views.md#ragcollections) and \
            counts"),
    route!(POST "/v1/collections", "create_collection", CREATE_COLLECTION,
           "Creates a collection", "the collection")
    .body(Json)
    .created(),
    route!(GET "/v1/collections/{name}", "get_collection", &[NAME], "Returns a collection",
           "the columns of [`rag.collections`](views.md#ragcollections), and `status`"),
    route!(PATCH "/v1/collections/{name}", "update_collection", UPDATE_COLLECTION,
           "Changes a collection", "the collection")
    .body(Json),
    route!(DELETE "/v1/collections/{name}", "delete_collection", &[NAME],
           "Drops a collection and its documents", "`name`, `deleted`"),
    route!(GET "/v1/sources", "list_sources", LIST_SOURCES, "Lists sources by name",
           "`sources` with the columns of [`rag.sources`](views.md#ragsources), and `next` if \
            there are further pages"),
    route!(POST "/v1/sources", "create_source", CREATE_SOURCE, "Creates a source", "the source")
        .body(Json)
        .created(),
    route!(POST "/v1/sources/validate", "validate_source", VALIDATE_SOURCE,
           "Checks the definition of a source", "`problems`; empty if there are none")
    .body(Json),
    route!(GET "/v1/sources/{name}", "get_source", &[SOURCE], "Returns a source",
           "the columns of [`rag.sources`](views.md#ragsources)"),
    route!(PATCH "/v1/sources/{name}", "update_source", UPDATE_SOURCE, "Changes a source",
           "the source")
    .body(Json),
    route!(DELETE "/v1/sources/{name}", "delete_source",
           &[SOURCE, query("keep_documents", Boolean, "false: its documents are deleted, too")],
           "Drops a source", "`name`, `deleted`"),
    route!(POST "/v1/sources/{name}/sync", "sync_source", &[SOURCE], "Queues a run of a source",
           "`source`, `run_id`")
    .accepted(),
    route!(POST "/v1/sources/{name}/suspend", "suspend_source", &[SOURCE], "Suspends a source",
           "the source"),
    route!(POST "/v1/sources/{name}/resume", "resume_source", &[SOURCE], "Resumes a source",
           "the source"),
    route!(GET "/v1/documents", "list_documents", LIST_DOCUMENTS, "Lists documents by uri",
           "`documents`, and `next` if there are further pages"),
    route!(POST "/v1/documents", "add_document", ADD_DOCUMENT,
           "Indexes a document; replaces the one with the same uri",
           "`uri`, `collection`, and the columns of \
            [`rag_add_document`](documents.md#rag_add_document)")
    .body(super::Body::JsonOrForm),
    route!(POST "/v1/documents/batch", "add_documents",
           &[body("documents", Objects, "documents, as for \
                  [`rag_add_documents`](documents.md#rag_add_documents)").required(), COLLECTION],
           "Indexes several documents", "`documents`, a result for each")
    .body(Json),
    route!(GET "/v1/documents/{document_id}", "get_document", GET_DOCUMENT,
           "Returns a document with its text",
           "the columns of [`rag.documents`](views.md#ragdocuments), and `chunks`"),
    route!(PATCH "/v1/documents/{document_id}", "update_document", UPDATE_DOCUMENT,
           "Changes title, category, tags or metadata", "the document")
    .body(Json),
    route!(DELETE "/v1/documents/{document_id}", "delete_document", &[DOCUMENT, IN_COLLECTION],
           "Deletes a document", "`document_id`, `deleted`"),
    route!(GET "/v1/runs", "list_runs", LIST_RUNS, "Lists runs, latest first",
           "`runs` with the columns of [`rag.runs`](views.md#ragruns)"),
    route!(GET "/v1/runs/{run_id}", "get_run", &[RUN], "Returns a run",
           "the columns of [`rag.runs`](views.md#ragruns), `document_errors` and `progress`"),
    route!(POST "/v1/runs/{run_id}/cancel", "cancel_run", &[RUN], "Cancels a run",
           "`run_id`, and `cancelled`: false if it has ended"),
    route!(GET "/v1/status", "status", &[], "Returns current problems and progress",
           "`problems` with the columns of [`rag_status`](status.md#rag_status), `progress`, \
            `role`, `is_standby`"),
    route!(GET "/v1/overview", "overview", &[], "Counts sources, documents and calls of models",
           "`sources` by phase, those that are `failing` (20 at most), `sizes` of what is \
            stored, and the `usage` of models in 30 days"),
    route!(GET "/v1/access", "access", &[], "Tells what the role of the key may do",
           "`role`, the `roles` whose rights it has, `is_admin`, `is_standby`, `version`, \
            `collections` with `write`, and the `chat_models` and `rerankers` that it may use"),
    route!(GET "/v1/search-stats", "search_stats", &[], "Returns counts and times of searches",
           "`searches` with the columns of [`rag.search_stats`](views.md#ragsearch_stats), and \
            `minutes`: those of the last hour that this program has answered, as \
            `{minute, count, errors, p50_ms, p95_ms}`")
    .output(Output::SearchStats),
    route!(GET "/v1/model-usage", "model_usage", &[], "Returns models, and their calls by day",
           "`models` with columns of [`rag.models`](views.md#ragmodels), and `days` with those \
            of [`rag.model_usage`](views.md#ragmodel_usage)"),
    route!(GET "/v1/collections/{name}/indexes", "collection_indexes", &[NAME],
           "Describes the indexes of a collection",
           "`name`, and `indexes`: `index`, `method`, `bytes`, `is_valid`, and `details` with \
            the columns of [`rag_hnsw_info`](index.md#rag_hnsw_info) or \
            [`rag_bm25_info`](keyword-index.md#rag_bm25_info), if the role may read every row"),
    route!(POST "/v1/collections/{name}/recall", "collection_recall", RECALL,
           "Measures the index of vectors of a collection",
           "`name`, and `recall` with the columns of \
            [`rag_hnsw_recall`](index.md#rag_hnsw_recall)")
    .body(Json),
];
