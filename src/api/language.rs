//! `rag_detect_language`, and the language of documents in statements.

use pgrx::pg_extern;

#[pg_extern(immutable, strict, parallel_safe, cost = 1000)]
fn rag_detect_language(content: &str) -> &'static str {
    rag_language::detect(content)
}

#[pg_extern(sql = false, immutable, parallel_safe)]
fn document_language(title: Option<&str>, content: Option<&str>) -> String {
    let (title, content) = (title.unwrap_or_default(), content.unwrap_or_default());
    rag_language::of_document(title, content, None)
}
