//! The tools of MCP: names, schemas, and the functions of `rag_api` that they call.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::{openapi, routes::Type};

/// A tool.
pub struct ToolRow {
    pub name: &'static str,
    title: &'static str,
    pub function: &'static str,
    /// The transaction is READ ONLY.
    pub reads: bool,
    about: &'static str,
    /// Name, type, required, description.
    arguments: &'static [(&'static str, Type, bool, &'static str)],
    /// Name, type and description of what the structured answer has.
    answer: &'static [(&'static str, Type, &'static str)],
}

const COLLECTION: (&str, Type, bool, &str) = (
    "collection",
    Type::Text,
    false,
    "name of the collection; default if left out",
);

const TOOLS: &[ToolRow] = &[
    ToolRow {
        name: "search",
        title: "Search documents",
        function: "mcp_search",
        reads: true,
        about: "Finds the passages of documents that match a question or text best, by meaning and \
                by words. Each has a title, a url to cite, and an id for fetch.",
        arguments: &[
            ("query", Type::Text, true, "a question or text"),
            (
                "collection",
                Type::TextOrTexts,
                false,
                "name of a collection, or several; default if left out",
            ),
            (
                "top_k",
                Type::Integer,
                false,
                "maximum number of results; default 5",
            ),
            ("mode", Type::Text, false, "vector, keyword or hybrid"),
            (
                "filter",
                Type::Object,
                false,
                "restricts results by metadata: {\"category\": \"x\"}, or {\"key\", \"operator\", \
                 \"value\"}",
            ),
        ],
        answer: &[
            ("query", Type::Text, "the query"),
            (
                "results",
                Type::Objects,
                "id, title, url, text, score, citation, collection",
            ),
        ],
    },
    ToolRow {
        name: "fetch",
        title: "Read a document",
        function: "mcp_fetch",
        reads: true,
        about: "Returns the whole text of a document that search has found.",
        arguments: &[
            ("id", Type::Text, true, "id of a result of search"),
            COLLECTION,
        ],
        answer: &[
            ("id", Type::Text, "the id"),
            ("title", Type::Text, "title of the document"),
            ("url", Type::Text, "address of the document"),
            ("text", Type::Text, "text of the document"),
            ("metadata", Type::Object, "metadata of the document"),
        ],
    },
    ToolRow {
        name: "list_collections",
        title: "List collections",
        function: "mcp_collections",
        reads: true,
        about: "Lists the collections that can be searched.",
        arguments: &[],
        answer: &[(
            "collections",
            Type::Objects,
            "name, description, document_count, state",
        )],
    },
    ToolRow {
        name: "list_sources",
        title: "List sources",
        function: "mcp_sources",
        reads: true,
        about: "Lists the sources from which collections are filled, with their state.",
        arguments: &[],
        answer: &[(
            "sources",
            Type::Objects,
            "name, kind, collection, phase, last_indexed",
        )],
    },
    ToolRow {
        name: "answer",
        title: "Answer a question",
        function: "mcp_answer",
        reads: false,
        about: "Has a chat model of the server answer a question from the documents of a \
                collection, with citations.",
        arguments: &[
            ("query", Type::Text, true, "the question"),
            COLLECTION,
            ("model", Type::Text, false, "a chat model of the server"),
        ],
        answer: &[
            ("answer", Type::Text, "the answer"),
            ("sources", Type::Objects, "title, url, citation, score"),
        ],
    },
    ToolRow {
        name: "sync_source",
        title: "Sync a source",
        function: "sync_source",
        reads: false,
        about: "Queues a run that indexes what a source contains now.",
        arguments: &[("name", Type::Text, true, "name of the source")],
        answer: &[
            ("source", Type::Text, "name of the source"),
            ("run_id", Type::Integer, "id of the run"),
        ],
    },
    ToolRow {
        name: "add_document",
        title: "Add a document",
        function: "mcp_add_document",
        reads: false,
        about: "Indexes a document in Markdown. A document with the same uri is replaced.",
        arguments: &[
            ("content", Type::Text, true, "text of the document"),
            ("uri", Type::Text, true, "address of the document"),
            ("title", Type::Text, false, "title of the document"),
            ("metadata", Type::Object, false, "metadata of the document"),
            COLLECTION,
        ],
        answer: &[
            ("id", Type::Text, "id of the document"),
            ("action", Type::Text, "added, updated or unchanged"),
            ("chunks_indexed", Type::Integer, "number of passages"),
        ],
    },
];

/// Returns all tools.
pub fn all() -> impl Iterator<Item = &'static ToolRow> {
    TOOLS.iter()
}

fn object(value: Value) -> Arc<Map<String, Value>> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

fn described(kind: Type, about: &str) -> Value {
    let mut schema = openapi::schema(kind);
    schema["description"] = json!(about);
    schema
}

/// Returns the description of a tool for clients.
pub fn describe(tool: &'static ToolRow) -> Tool {
    let arguments: Map<String, Value> = tool
        .arguments
        .iter()
        .map(|(name, kind, _, about)| (name.to_string(), described(*kind, about)))
        .collect();
    let required: Vec<_> = tool.arguments.iter().filter(|a| a.2).map(|a| a.0).collect();
    let mut input = json!({
        "type": "object", "properties": arguments, "additionalProperties": false,
    });
    if !required.is_empty() {
        input["required"] = json!(required);
    }
    let answer: Map<String, Value> = tool
        .answer
        .iter()
        .map(|(name, kind, about)| (name.to_string(), described(*kind, about)))
        .collect();
    let names: Vec<_> = tool.answer.iter().map(|(name, _, _)| name).collect();
    let output = json!({"type": "object", "properties": answer, "required": names});
    // what a document replaces is lost
    let destructive = tool.name == "add_document";
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.reads || tool.name == "answer")
        .destructive(destructive)
        .idempotent(tool.name != "sync_source")
        .open_world(tool.name == "sync_source" || tool.name == "answer");
    Tool::new(tool.name, tool.about, object(input))
        .with_title(tool.title)
        .with_raw_output_schema(object(output))
        .with_annotations(annotations)
}

/// # Errors
/// An argument is unknown, missing, or of another type, in words for the model.
pub fn check(tool: &ToolRow, arguments: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in arguments {
        let Some((_, kind, _, _)) = tool.arguments.iter().find(|a| a.0 == name) else {
            let known: Vec<_> = tool.arguments.iter().map(|a| a.0).collect();
            return Err(format!(
                "{name}: is not a known argument. Arguments: {}.",
                known.join(", ")
            ));
        };
        if let Some(wanted) = crate::input::mismatch(*kind, value) {
            return Err(format!("{name}: must be {wanted}."));
        }
    }
    let missing = tool
        .arguments
        .iter()
        .find(|a| a.2 && !arguments.contains_key(a.0));
    match missing {
        Some((name, ..)) => Err(format!("{name}: is required.")),
        None => Ok(()),
    }
}
