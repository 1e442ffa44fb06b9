//! The table of all types in the guide.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::path::Path;

use rag_definition::DocumentType;
use rag_document::format::{FORMATS, of};

/// The table of the guide.
fn table() -> String {
    let mut table = "| `document_type` | extensions | text | title | split at |\n\
        |---|---|---|---|---|\n"
        .to_owned();
    for format in FORMATS {
        let extensions = match format.document_type {
            DocumentType::Text => "everything else".into(),
            DocumentType::Code => "70 languages".into(),
            _ => {
                let extensions = format.extensions.iter();
                let extensions: Vec<String> = extensions.map(|e| format!("`.{e}`")).collect();
                extensions.join(" ")
            }
        };
        let cells = [
            &format!("`{}`", format.document_type.name()),
            &*extensions,
            format.text,
            format.title,
            format.shape.cut_at(),
        ];
        table += &format!("| {} |\n", cells.join(" | "));
    }
    table
}

#[test]
fn each_type_has_one_format() {
    for document_type in DocumentType::ALL {
        assert!(of(document_type).document_type == document_type);
    }
    assert_eq!(FORMATS.len(), DocumentType::ALL.len());
    for name in FORMATS.iter().flat_map(|format| {
        let names = format.extensions.iter().chain(format.media_types);
        names.copied()
    }) {
        assert_eq!(name, name.to_lowercase());
    }
}

/// `RAG_WRITE_GUIDE=1` writes the table.
#[test]
fn the_guide_has_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = root.join("docs/guide/document-types.md");
    let page = std::fs::read_to_string(&place).unwrap();
    let begin = page.find("| `document_type` |").unwrap();
    let end = begin + page[begin..].find("\n\n").unwrap() + 1;
    if std::env::var_os("RAG_WRITE_GUIDE").is_some() {
        let page = [&page[..begin], &table(), &page[end..]].concat();
        std::fs::write(&place, page).unwrap();
        return;
    }
    assert_eq!(page[begin..end], table(), "write it with RAG_WRITE_GUIDE=1");
}
