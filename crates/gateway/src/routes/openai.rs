//! Routes of OpenAI's API.

use super::{
    Body::{Form, OpenJson},
    DELETE, Field, GET, Output, POST, Route,
    Type::*,
    body, path, query,
};
use crate::problem::Contract::OpenAi;

const STORE: Field = path("vector_store_id", "the vector store: a collection");
const FILE: Field = path("file_id", "id of the file");
const METADATA: Field = body("metadata", Object, "at most 16 keys");
const STORE_NAME: Field = body("name", Text, "name of the vector store");
const ATTRIBUTES: Field = body("attributes", Object, "metadata of the document");
const CHUNKING: Field = body(
    "chunking_strategy",
    Object,
    "`{type: auto}`, or `static` for a store",
);
const EXPIRES: Field = body("expires_after", Object, "must be left out");
const PAGE: Field = query("limit", Integer, "number of a page; default 20");
const AFTER: Field = query("after", Text, "the last id of the page before");
const ORDER: Field = query("order", Text, "is ignored: by id, ascending");
const MODEL: Field = body(
    "model",
    Text,
    "`rag`, or `rag/` and a collection; a field `collection` names it, too",
);
const COLLECTION: Field = body("collection", Text, "name or external id of the collection");
const TOP_K: Field = body("top_k", Integer, "maximum number of chunks for the model");
const FILTER: Field = body("filter", Object, "a [filter](filters.md)");
const CHAT_MODEL: Field = body("chat_model", Text, "a chat model; that of `rag.chat_model`");
const STREAM: Field = body("stream", Boolean, "true: server-sent events");

const EMBEDDINGS: &[Field] = &[
    body("input", TextOrTexts, "up to 2048 texts").required(),
    body("model", Text, "an embedding model, or the server's own"),
    body("encoding_format", Text, "`float` or `base64`"),
    body("dimensions", Integer, "must be those of the model"),
    body("purpose", Text, "`query` or `passage`"),
];
const CHAT: &[Field] = &[
    MODEL,
    body(
        "messages",
        Objects,
        "the conversation; the last message of the user is the question",
    )
    .required(),
    STREAM,
    body(
        "stream_options",
        Object,
        "`include_usage`: the last event has the tokens",
    ),
    COLLECTION,
    body(
        "index_name",
        Text,
        "the collection, as KAITO's RAG engine names it",
    ),
    TOP_K,
    FILTER,
    CHAT_MODEL,
];
const RESPONSE: &[Field] = &[
    MODEL,
    body("input", Any, "the question, or an array of messages").required(),
    body("instructions", Text, "an additional message of the system"),
    STREAM,
    COLLECTION,
    TOP_K,
    FILTER,
    CHAT_MODEL,
];
const CREATE_STORE: &[Field] = &[
    STORE_NAME,
    METADATA,
    body("description", Text, "description of the collection"),
    body("file_ids", Texts, "uploaded files"),
    CHUNKING,
    EXPIRES,
];
const SEARCH: &[Field] = &[
    STORE,
    body("query", TextOrTexts, "a question or text, or several").required(),
    body(
        "filters",
        Object,
        "`{type, key, value}`, or `{type: and | or, filters}`",
    ),
    body("max_num_results", Integer, "1 to 50; default 10"),
    body(
        "ranking_options",
        Object,
        "`score_threshold`, `hybrid_search`",
    ),
    body(
        "rewrite_query",
        Boolean,
        "is ignored: queries are not rewritten",
    ),
];

macro_rules! route {
    ($verb:ident $path:literal, $function:literal, $fields:expr, $summary:literal,
     $result:literal) => {
        Route::new($verb, &[$path], $function, $fields, $summary, $result).of("OpenAI", OpenAi)
    };
}

pub const ROUTES: &[Route] = &[
    route!(GET "/v1/models", "list_models", &[], "Lists models",
           "`data`: `rag`, `rag/` and each collection, and embedding models"),
    route!(GET "/v1/models/{model}", "get_model",
           &[path("model", "name of the model, with `%2F` for `/`")], "Returns a model",
           "the model"),
    route!(POST "/v1/embeddings", "embeddings", EMBEDDINGS, "Embeds texts",
           "`data`: embeddings; `usage`: a quarter of the bytes")
    .body(OpenJson)
    .output(Output::Embeddings)
    .reads(),
    route!(POST "/v1/chat/completions", "chat_completion", CHAT,
           "Answers a question from the documents of a collection",
           "a chat completion, and `source_nodes`")
    .body(OpenJson)
    .output(Output::ChatCompletion),
    route!(POST "/v1/responses", "response", RESPONSE,
           "Answers a question from the documents of a collection", "a response")
    .body(OpenJson)
    .output(Output::Response),
    route!(POST "/v1/files", "create_file",
           &[body("file", File, "the file").required(),
             body("purpose", Text, "such as `assistants`")],
           "Uploads a file for vector stores", "the file")
    .body(Form),
    route!(GET "/v1/files", "list_files", &[query("purpose", Text, "only of this purpose")],
           "Lists uploaded files", "`data`"),
    route!(GET "/v1/files/{file_id}", "get_file", &[FILE], "Returns an uploaded file",
           "the file"),
    route!(DELETE "/v1/files/{file_id}", "delete_file", &[FILE],
           "Deletes an uploaded file; documents that were made of it stay", "`id`, `deleted`"),
    route!(POST "/v1/vector_stores", "create_vector_store", CREATE_STORE,
           "Creates a vector store: a collection", "the vector store")
    .body(OpenJson),
    route!(GET "/v1/vector_stores", "list_vector_stores", &[PAGE, AFTER, ORDER],
           "Lists vector stores", "`data`, `has_more`"),
    route!(GET "/v1/vector_stores/{vector_store_id}", "get_vector_store", &[STORE],
           "Returns a vector store", "the vector store"),
    route!(POST "/v1/vector_stores/{vector_store_id}", "update_vector_store",
           &[STORE, STORE_NAME, METADATA, EXPIRES], "Changes a vector store", "the vector store")
    .body(OpenJson),
    route!(DELETE "/v1/vector_stores/{vector_store_id}", "delete_vector_store", &[STORE],
           "Drops a vector store and its documents", "`id`, `deleted`"),
    route!(POST "/v1/vector_stores/{vector_store_id}/search", "search_vector_store", SEARCH,
           "Searches a vector store", "a page of results")
    .body(OpenJson)
    .reads(),
    route!(POST "/v1/vector_stores/{vector_store_id}/files", "create_vector_store_file",
           &[STORE, body("file_id", Text, "an uploaded file").required(), ATTRIBUTES, CHUNKING],
           "Indexes an uploaded file", "the file of the vector store")
    .body(OpenJson),
    route!(GET "/v1/vector_stores/{vector_store_id}/files", "list_vector_store_files",
           &[STORE, PAGE, AFTER, ORDER], "Lists files: documents", "`data`, `has_more`"),
    route!(GET "/v1/vector_stores/{vector_store_id}/files/{file_id}", "get_vector_store_file",
           &[STORE, FILE], "Returns a file of a vector store", "the file of the vector store"),
    route!(POST "/v1/vector_stores/{vector_store_id}/files/{file_id}", "update_vector_store_file",
           &[STORE, FILE, ATTRIBUTES], "Changes the attributes of a file",
           "the file of the vector store")
    .body(OpenJson),
    route!(DELETE "/v1/vector_stores/{vector_store_id}/files/{file_id}",
           "delete_vector_store_file", &[STORE, FILE], "Deletes a document", "`id`, `deleted`"),
    route!(GET "/v1/vector_stores/{vector_store_id}/files/{file_id}/content",
           "vector_store_file_content", &[STORE, FILE], "Returns the text of a file", "`data`"),
    route!(POST "/v1/vector_stores/{vector_store_id}/file_batches", "create_file_batch",
           &[STORE, body("file_ids", Texts, "uploaded files"),
             body("files", Objects, "`{file_id, attributes}`"), ATTRIBUTES, CHUNKING],
           "Indexes several uploaded files", "the batch, which is complete")
    .body(OpenJson),
];
