//! Routes of KAITO's RAG engine. `/v1/chat/completions` is in [`super::openai`].

use super::{Body::OpenJson, DELETE, Field, GET, Output, POST, Route, Type::*, body, path, query};
use crate::problem::Contract::Detail;

const INDEX: Field = path("index_name", "the index: a collection");
const DOCUMENTS: Field = body("documents", Objects, "`{doc_id, text, metadata}`").required();
const PAGE: &[Field] = &[
    INDEX,
    query("limit", Integer, "documents of a page; default 10"),
    query("offset", Integer, "documents before the page; default 0"),
    query(
        "max_text_length",
        Integer,
        "characters of a text; default 1000",
    ),
    query(
        "metadata_filter",
        Text,
        "a JSON object that the metadata contain",
    ),
];
const RETRIEVE: &[Field] = &[
    body("index_name", Text, "the index").required(),
    body("query", Text, "a question or text").required(),
    body(
        "max_node_count",
        Integer,
        "maximum number of results; default 5",
    ),
    body("metadata_filter", Object, "a [filter](filters.md)"),
];

macro_rules! route {
    ($verb:ident $path:literal, $function:literal, $fields:expr, $summary:literal,
     $result:literal) => {
        Route::new($verb, &[$path], $function, $fields, $summary, $result).of("KAITO", Detail)
    };
}

pub const ROUTES: &[Route] = &[
    route!(POST "/index", "kaito_index",
           &[body("index_name", Text, "the index, which is created if it does not exist")
                 .required(), DOCUMENTS],
           "Indexes documents", "an array of `{doc_id, text, metadata, hash_value, is_truncated}`")
    .body(OpenJson)
    .output(Output::Items),
    route!(GET "/indexes", "kaito_indexes", &[], "Lists indexes", "an array of names")
        .output(Output::Items),
    route!(DELETE "/indexes/{index_name}", "kaito_delete_index", &[INDEX], "Drops an index",
           "`message`"),
    route!(GET "/indexes/{index_name}/documents", "kaito_list", PAGE, "Lists documents",
           "`documents`, `count`, `total_items`"),
    route!(POST "/indexes/{index_name}/documents", "kaito_update", &[INDEX, DOCUMENTS],
           "Updates documents",
           "`updated_documents`, `unchanged_documents`, `not_found_documents`")
    .body(OpenJson),
    route!(POST "/indexes/{index_name}/documents/delete", "kaito_delete_documents",
           &[INDEX, body("doc_ids", Texts, "ids of documents").required()],
           "Deletes documents", "`deleted_doc_ids`, `not_found_doc_ids`")
    .body(OpenJson),
    route!(POST "/persist/{index_name}", "kaito_persist", &[INDEX],
           "Does nothing: an index is stored as it is filled", "`message`")
    .reads(),
    route!(POST "/load/{index_name}", "kaito_load", &[INDEX],
           "Does nothing: an index need not be loaded", "`message`")
    .reads(),
    route!(POST "/retrieve", "kaito_retrieve", RETRIEVE, "Searches an index",
           "`query`, `results`, `count`")
    .body(OpenJson)
    .reads(),
];
