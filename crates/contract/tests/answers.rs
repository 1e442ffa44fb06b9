//! Answers: the fields that the contracts promise.

#![allow(clippy::unwrap_used)]

use rag_contract::{
    DifyError, DifyRequest, FoundChunk, KnowledgeRequest, RetrieveRequest, SearchOutcome, dify,
};
use rag_definition::retriever::RetrievalMode;
use serde_json::{Value, json};

fn chunk() -> FoundChunk {
    FoundChunk {
        collection: "manual".into(),
        document_id: "doc_123".into(),
        chunk_id: "chunk_1".into(),
        knowledge_id: Some(3),
        uri: "https://example.org/guide.git#docs/example.md".into(),
        title: Some("Example".into()),
        source: Some("guide".into()),
        document_type: "markdown".into(),
        category: Some("tech".into()),
        tags: vec!["a".into()],
        metadata: json!({"year": 2021, "document_id": "own", "title": "Own"})
            .as_object()
            .unwrap()
            .clone(),
        content: "...".into(),
        chunk_index: 0,
        start_index: 12,
        lines: (3, 9),
        page: None,
        heading_path: vec!["Example".into(), "Use".into()],
        anchor: Some("use".into()),
        indexed_at: "2026-01-02T03:04:05+00:00".into(),
        fetched_at: "2026-01-02T03:04:00+00:00".into(),
        score: 0.85,
        vector_score: Some(0.75),
        also_at: vec![],
    }
}

/// A document without anything that may be left out.
fn bare_chunk() -> FoundChunk {
    FoundChunk {
        knowledge_id: None,
        uri: "notes/plain.txt".into(),
        title: None,
        source: None,
        category: None,
        tags: vec![],
        metadata: Default::default(),
        heading_path: vec![],
        anchor: None,
        ..chunk()
    }
}

fn outcome(degraded: Option<&str>) -> SearchOutcome {
    SearchOutcome {
        mode: RetrievalMode::Vector,
        degraded: degraded.map(str::to_owned),
        warnings: vec![],
        chunks: vec![chunk(), bare_chunk()],
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_retrieval_has_the_fields_of_the_seed() {
    let request = json!({"knowledge_id": "AAA-BBB-CCC", "query": "What is Dify?"});
    let request = RetrieveRequest::parse(&request).unwrap();
    let answer = request.answer(&outcome(None));
    assert_eq!(
        keys(&answer),
        [
            "records",
            "query",
            "total",
            "retrieval_mode",
            "knowledge_id"
        ]
    );
    assert_eq!(answer["query"], "What is Dify?");
    assert_eq!(answer["knowledge_id"], "AAA-BBB-CCC");
    assert_eq!(answer["total"], 2);
    assert_eq!(answer["retrieval_mode"], "vector");
    let record = &answer["records"][0];
    assert_eq!(
        keys(record),
        [
            "doc_ref",
            "chunk_index",
            "source_file",
            "content",
            "score",
            "metadata"
        ]
    );
    assert_eq!(record["doc_ref"], "doc_123");
    assert_eq!(record["source_file"], "example.md");
    assert_eq!(record["score"], 0.85);
    assert_eq!(answer["records"][1]["source_file"], "plain.txt");

    let degraded = request.answer(&outcome(Some("why")));
    assert_eq!(degraded["degraded"], "why");
}

#[test]
fn metadata_has_every_key_and_nothing_of_the_document_is_lost() {
    assert_eq!(
        chunk().all_metadata(),
        json!({
            "year": 2021,
            "document_id": "doc_123",
            "title": "Example",
            "chunk_id": "chunk_1",
            "uri": "https://example.org/guide.git#docs/example.md",
            "source": "guide",
            "category": "tech",
            "tags": ["a"],
            "knowledge_id": 3,
            "document_type": "markdown",
            "start_index": 12,
            "lines": [3, 9],
            "page": null,
            "heading_path": ["Example", "Use"],
            "anchor": "use",
            "indexed_at": "2026-01-02T03:04:05+00:00",
            "fetched_at": "2026-01-02T03:04:00+00:00",
            "document": {"document_id": "own", "title": "Own"},
        })
    );
    let bare = bare_chunk().all_metadata();
    assert_eq!(keys(&bare).len(), 15);
    assert_eq!(bare["category"], Value::Null);
    assert_eq!(bare["tags"], json!([]));
}

#[test]
fn what_is_not_known_of_the_chunk_is_the_documents_own() {
    let own = json!({"source": "https://a.example/x", "page": 7, "title": "own title",
        "lines": "x", "document_id": "mine", "category": "tech", "document": "whole"});
    let chunk = FoundChunk {
        metadata: own.as_object().unwrap().clone(),
        category: Some("tech".into()),
        ..bare_chunk()
    };
    let metadata = chunk.all_metadata();
    assert_eq!(metadata["source"], "https://a.example/x");
    assert_eq!(metadata["page"], 7);
    assert_eq!(metadata["title"], "own title");
    assert_eq!(metadata["category"], "tech");
    assert_eq!(metadata["lines"], json!([3, 9]));
    assert_eq!(metadata["document_id"], "doc_123");
    assert_eq!(
        metadata["document"],
        json!({"lines": "x", "document_id": "mine", "document": "whole"})
    );
}

#[test]
fn warnings_are_part_of_each_answer() {
    let warned = SearchOutcome {
        warnings: vec!["no document has the key".into()],
        ..outcome(None)
    };
    let retrieve = json!({"knowledge_id": "a", "query": "q"});
    let knowledge = json!({"query": "q"});
    for answer in [
        RetrieveRequest::parse(&retrieve).unwrap().answer(&warned),
        KnowledgeRequest::parse(&knowledge).unwrap().answer(&warned),
        dify::answer(&warned),
    ] {
        assert_eq!(answer["warnings"], json!(["no document has the key"]));
    }
}

#[test]
fn several_knowledge_bases_are_one_list() {
    let of = |name: &str, scores: &[f64]| SearchOutcome {
        chunks: scores
            .iter()
            .map(|score| FoundChunk {
                collection: name.into(),
                content: format!("{name} {score}"),
                score: *score,
                ..chunk()
            })
            .collect(),
        ..outcome(None)
    };
    let merged =
        SearchOutcome::merged(vec![of("a", &[0.9, 0.2]), of("b", &[0.5, 0.4])], 3).unwrap();
    let names: Vec<_> = merged
        .chunks
        .iter()
        .map(|c| c.collection.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "b"]);
    let request = json!({"knowledge_ids": ["a", "b", "a"], "query": "q"});
    let answer = RetrieveRequest::parse(&request).unwrap().answer(&merged);
    assert_eq!(answer["knowledge_ids"], json!(["a", "b"]));
    assert_eq!(answer["records"][1]["collection"], "b");
    assert_eq!(answer.get("knowledge_id"), None);

    let mut copy = of("b", &[0.5]);
    copy.chunks[0].content = "a 0.9".into();
    let merged = SearchOutcome::merged(vec![of("a", &[0.9]), copy], 5).unwrap();
    assert_eq!(merged.chunks.len(), 1);
    assert_eq!(merged.chunks[0].also_at, [chunk().uri]);
}

#[test]
fn a_document_without_title_is_named_after_its_file() {
    let titled = |title: Option<&str>, uri: &str| {
        let chunk = FoundChunk {
            title: title.map(str::to_owned),
            uri: uri.to_owned(),
            ..chunk()
        };
        chunk.title().into_owned()
    };
    assert_eq!(titled(Some("A title"), "a/b"), "A title");
    assert_eq!(titled(None, "file:///srv/docs/plain.txt"), "plain.txt");
    assert_eq!(titled(Some(" "), "a/b"), "b");
    assert_eq!(titled(None, "https://example.org/"), "https://example.org/");
}

#[test]
fn records_of_dify_have_a_title_and_metadata() {
    let answer = dify::answer(&outcome(None));
    assert_eq!(keys(&answer), ["records"]);
    for record in answer["records"].as_array().unwrap() {
        assert_eq!(keys(record), ["content", "score", "title", "metadata"]);
        assert!(record["title"].is_string());
        assert_eq!(record["metadata"]["document_id"], "doc_123");
    }
    assert_eq!(answer["records"][1]["title"], "plain.txt");
}

#[test]
fn errors_of_dify_have_a_code_and_a_status() {
    let unknown = DifyError::UnknownKnowledge("AAA".into());
    assert_eq!(unknown.http_status(), 404);
    assert_eq!(
        unknown.answer(),
        json!({"error_code": 2001, "error_msg": "knowledge base \"AAA\" does not exist"})
    );
    let invalid = DifyError::InvalidRequest(DifyRequest::parse(&json!({})).unwrap_err());
    assert_eq!(invalid.http_status(), 400);
    assert_eq!(
        invalid.answer(),
        json!({"error_code": 400, "error_msg": "invalid request: knowledge_id: is missing"})
    );
}

#[test]
fn a_knowledge_search_has_the_fields_of_the_seed() {
    let request = KnowledgeRequest::parse(&json!({"query": "q"})).unwrap();
    let answer = request.answer(&outcome(None));
    assert_eq!(keys(&answer), ["query", "results", "total_results"]);
    assert_eq!(answer["total_results"], 2);
    assert_eq!(
        answer["results"][0],
        json!({
            "content": "...",
            "knowledge_id": 3,
            "title": "Example",
            "uri": "https://example.org/guide.git#docs/example.md",
            "score": 0.75,
            "chunk_index": 0,
        })
    );
    assert_eq!(answer["results"][1]["knowledge_id"], Value::Null);
}

#[test]
fn a_query_that_is_a_request_is_noticed() {
    assert!(KnowledgeRequest::looks_like_one(r#" {"query": "q"}"#));
    for query in ["q", "{", r#"{"query": {"match": "q"}}"#, "{}"] {
        assert!(!KnowledgeRequest::looks_like_one(query), "{query}");
    }
}
