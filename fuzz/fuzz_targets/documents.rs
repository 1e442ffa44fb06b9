//! Documents of arbitrary bytes: each is a text or an error, and its chunks are pieces of its text.
//! Split again as stored, it has the same chunks. Archives and mailboxes end within their limits.
//!
//! The first byte says which type the others are read as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rag_definition::DocumentType;
use rag_document::{
    Container, ExtractedDocument, Structure, TokenCounter, Unpacking, content, extract, unpack,
};
use rag_protocol::ingest::{Splitting, Unit};

/// The types that are read in this process. Grammars and libraries in C have fuzzers of their own.
const TYPES: [DocumentType; 19] = [
    DocumentType::Markdown,
    DocumentType::Html,
    DocumentType::Rst,
    DocumentType::Asciidoc,
    DocumentType::Org,
    DocumentType::Tex,
    DocumentType::Odt,
    DocumentType::Mail,
    DocumentType::Feed,
    DocumentType::Subtitles,
    DocumentType::Xml,
    DocumentType::Rtf,
    DocumentType::Notebook,
    DocumentType::Csv,
    DocumentType::Json,
    DocumentType::Docx,
    DocumentType::Presentation,
    DocumentType::Spreadsheet,
    DocumentType::Epub,
];

const CONTAINERS: [Container; 4] = [
    Container::Zip,
    Container::Tar,
    Container::Gzip,
    Container::Mail,
];

const UNPACKING: Unpacking = Unpacking {
    member: 1 << 20,
    total: 4 << 20,
    pictures: false,
};

struct Letters;

impl TokenCounter for Letters {
    fn count(&self, text: &str) -> usize {
        text.chars().count() / 4 + 2
    }

    fn limit(&self) -> usize {
        256
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else {
        return;
    };
    let kind = usize::from(*first) % (TYPES.len() + CONTAINERS.len());
    let Some(document_type) = TYPES.get(kind).copied() else {
        members(CONTAINERS[kind - TYPES.len()], bytes);
        return;
    };
    let Ok(extracted) = extract(bytes, document_type, "docs/a", None) else {
        return;
    };
    assert!(!extracted.text.trim().is_empty() && !extracted.text.contains('\0'));
    let splitting = Splitting {
        chunk_size: 100,
        chunk_overlap: 20,
        unit: Unit::Characters,
    };
    let Ok(first) = content(&extracted, document_type, &splitting, &Letters) else {
        return;
    };
    for chunk in &first.chunks {
        assert!(chunk.piece(&extracted.text).is_some_and(|piece| !piece.is_empty()));
    }
    let structure = Structure::of_extracted(&extracted.text, document_type);
    let lines_before = extracted.lines_before;
    let mut stored = ExtractedDocument::new(extracted.text, extracted.title, structure);
    stored.lines_before = lines_before;
    stored.restore_anchors(&first.anchors, document_type);
    let again = content(&stored, document_type, &splitting, &Letters).unwrap();
    assert_eq!(first.chunks, again.chunks);
});

fn members(container: Container, bytes: &[u8]) {
    let mut size = 0;
    let _ = unpack(container, bytes, "docs/a", UNPACKING, &mut |member| {
        assert!(!member.path.is_empty());
        size += member.bytes.len() as u64;
        true
    });
    assert!(size <= UNPACKING.total);
}
