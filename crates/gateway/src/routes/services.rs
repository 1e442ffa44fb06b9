//! Routes of services that `rag` can stand for: Dify's external knowledge bases, Wegent's
//! retrievers, agent_core's RAG service, and instances of RAG-benchmark.

use super::{
    Body::{Json, JsonOrForm, Member, Raw},
    DELETE, Field, GET, Output, POST, PUT, Route,
    Type::*,
    body, path, path_integer, query,
};
use crate::problem::Contract::{Detail, Dify};

const NAMESPACE: Field = path("namespace", "namespace of the retriever");
const NAME: Field = path("name", "name of the retriever");
const ITEM: Field = path_integer("knowledge_id", "number of the knowledge item");
const COLLECTION: Field = query("collection", Text, "name or external id; default `default`");
const INSTANCE: Field = path("rag_name", "the instance: a collection");
const UPLOAD: &[Field] = &[
    body(
        "knowledge_id",
        Text,
        "the knowledge base: name or external id",
    )
    .required(),
    body(
        "retriever_ref",
        Any,
        "`{name, namespace}` that the knowledge base must have",
    ),
    body("file", File, "the document, in a form"),
    body("content", Text, "the document as a text"),
    body("content_base64", Text, "the document as bytes, in base64"),
    body("filename", Text, "name of the file"),
    body(
        "uri",
        Text,
        "address of the document; the name of the file if left out",
    ),
    body("title", Text, "title of the document"),
    body("metadata", Object, "metadata of the document"),
    body(
        "embedding_config",
        Any,
        "must be left out: the knowledge base has its model",
    ),
];
const KNOWLEDGE: &[Field] = &[
    body("id", Integer, "number of the item; drawn if left out"),
    body("title", Text, "title of the item").required(),
    body("document_type", Text, "`markdown`, `website` or `folder`"),
    body("uri", Text, "address that the item is fetched from").required(),
    body("category", Text, "category of its documents"),
    body("tags", TextOrTexts, "tags of its documents"),
    body(
        "collection",
        Text,
        "name or external id; `default` if left out",
    ),
];
const QUERY: &[Field] = &[
    query("q", Text, "the query").required(),
    query(
        "n",
        Integer,
        "maximum number of results, 1 to 20; default 5",
    ),
    query("category", Text, "only documents of this category"),
    COLLECTION,
];

macro_rules! route {
    ($tag:literal, $verb:ident $paths:expr, $function:literal, $fields:expr, $summary:literal,
     $result:literal) => {
        Route::new($verb, &$paths, $function, $fields, $summary, $result).of($tag, Detail)
    };
}

pub const ROUTES: &[Route] = &[
    Route::new(
        POST,
        &["/retrieval"],
        "dify_retrieval",
        &[],
        "Answers Dify's client for external knowledge bases, as \
         [`rag_dify_retrieval`](retrieval.md#rag_dify_retrieval)",
        "`records`",
    )
    .of("Dify", Dify)
    .body(Raw)
    .reads(),
    route!(
        "Wegent",
        GET["/api/v1/namespaces/{namespace}/retrievers"],
        "list_retrievers",
        &[NAMESPACE],
        "Lists retrievers",
        "an array of Retrievers"
    )
    .output(Output::Items),
    route!(
        "Wegent",
        POST["/api/v1/namespaces/{namespace}/retrievers"],
        "create_retriever",
        &[NAMESPACE],
        "Creates the Retriever of the body",
        "the Retriever"
    )
    .body(Member)
    .created(),
    route!(
        "Wegent",
        GET["/api/v1/namespaces/{namespace}/retrievers/{name}"],
        "get_retriever",
        &[NAMESPACE, NAME],
        "Returns a Retriever",
        "the Retriever"
    ),
    route!(
        "Wegent",
        PUT["/api/v1/namespaces/{namespace}/retrievers/{name}"],
        "update_retriever",
        &[NAMESPACE, NAME],
        "Replaces a Retriever by that of the body",
        "the Retriever"
    )
    .body(Member),
    route!(
        "Wegent",
        DELETE["/api/v1/namespaces/{namespace}/retrievers/{name}"],
        "delete_retriever",
        &[NAMESPACE, NAME],
        "Drops a Retriever",
        "`name`, `namespace`, `deleted`"
    ),
    route!(
        "Wegent",
        POST["/api/v1/namespaces/{namespace}/retrievers/{name}/test"],
        "test_retriever",
        &[NAMESPACE, NAME],
        "Tests a Retriever",
        "`success`, `message`, `storage_type`, `latency_ms`"
    ),
    route!(
        "Wegent",
        POST["/api/rag/documents/upload"],
        "upload_document",
        UPLOAD,
        "Indexes a document in a knowledge base",
        "`success`, `knowledge_id`, `doc_ref`, `source_file`, and the columns of \
            [`rag_add_document`](documents.md#rag_add_document)"
    )
    .body(JsonOrForm),
    route!(
        "Wegent",
        POST["/api/rag/retrieve"],
        "retrieve",
        &[],
        "Answers a retrieval request, as [`rag_retrieve`](retrieval.md#rag_retrieve)",
        "`records`, `query`, `knowledge_id`, `total`, `retrieval_mode`"
    )
    .body(Raw)
    .reads(),
    route!("agent_core", POST ["/api/v1/knowledge/", "/api/v1/knowledge", "/api/knowledge/",
                               "/api/knowledge"],
           "create_knowledge", KNOWLEDGE, "Creates a knowledge item", "the item, with `id`")
    .body(Json)
    .created(),
    route!("agent_core", POST ["/api/v1/rag/index/{knowledge_id}", "/api/rag/index/{knowledge_id}"],
           "index_knowledge", &[ITEM, COLLECTION], "Fetches and indexes a knowledge item",
           "`success`, `knowledge_id`, `chunks_indexed`, `content_hash`, `error`"),
    route!("agent_core", POST ["/api/v1/rag/index-all", "/api/rag/index-all"],
           "index_all_knowledge",
           &[query("status", Text, "only items with this status"), COLLECTION],
           "Indexes all knowledge items", "the summary of \
            [`rag_index_all_knowledge`](knowledge.md#rag_index_all_knowledge)"),
    route!("agent_core", DELETE ["/api/v1/rag/index/{knowledge_id}",
                                 "/api/rag/index/{knowledge_id}"],
           "unindex_knowledge", &[ITEM, COLLECTION], "Removes the documents of a knowledge item",
           "`success`, `knowledge_id`, `removed`"),
    route!("agent_core", POST ["/api/v1/rag/search", "/api/rag/search"], "knowledge_search", &[],
           "Searches, as [`rag_knowledge_search`](retrieval.md#rag_knowledge_search)",
           "`query`, `results`, `total_results`")
    .body(Raw)
    .reads(),
    route!("agent_core", GET ["/api/v1/rag/search", "/api/rag/search"], "knowledge_query", QUERY,
           "Searches, as [`rag_knowledge_search`](retrieval.md#rag_knowledge_search)",
           "`query`, `results`, `total_results`"),
    route!("agent_core", GET ["/api/v1/rag/stats", "/api/rag/stats"], "stats", &[COLLECTION],
           "Returns counts of a collection, as [`rag_stats`](collections.md#rag_stats)",
           "`total_chunks`, `unique_knowledge_items`, `collection_name`, `embedding_model`"),
    route!(
        "RAG-benchmark",
        POST["/rag/index"],
        "index_instance",
        &[
            body(
                "rag_name",
                Text,
                "the instance: a collection, which is created if it does not \
                                     exist"
            )
            .required(),
            body(
                "documents",
                Any,
                "array of texts, or of documents as for \
                  [`rag_add_documents`](documents.md#rag_add_documents)"
            )
            .required()
        ],
        "Replaces the documents of an instance",
        "`success`, `rag_name`, `document_count`, `error`, `index_status`"
    )
    .body(Json),
    route!(
        "RAG-benchmark",
        GET["/rag/list"],
        "list_instances",
        &[],
        "Lists instances",
        "`rags`: `{name, rag_type, model_info, rag_config, index_status}`"
    ),
    route!(
        "RAG-benchmark",
        DELETE["/rag/{rag_name}"],
        "delete_instance",
        &[INSTANCE],
        "Drops an instance and its documents",
        "`success`, `rag_name`"
    ),
    route!(
        "RAG-benchmark",
        GET["/rag/{rag_name}/index/status"],
        "instance_status",
        &[INSTANCE],
        "Returns the state of an instance",
        "`has_index`, `document_count`, `embedding_dimension`, `created_at`, `updated_at`, \
            `total_size_bytes`"
    ),
    route!(
        "RAG-benchmark",
        POST["/rag/{rag_name}/index/reload"],
        "reload_instance",
        &[INSTANCE],
        "Does nothing: an index need not be loaded",
        "`success`, `rag_name`, `index_status`"
    )
    .reads(),
];
