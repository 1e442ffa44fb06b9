//! Extraction of good and bad documents, from bytes to text and title.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod pages;
mod pdfs;

use std::path::PathBuf;

use proptest::prelude::*;
use rag_definition::DocumentType;
use rag_document::{
    DocumentError, ExtractedDocument, TokenCounter, content, document_type, extract,
};
use rag_protocol::ingest::{Splitting, Stage, Title, Unit};

struct Words;

impl TokenCounter for Words {
    fn count(&self, text: &str) -> usize {
        text.split_whitespace().count() * 13 / 10 + 2
    }

    fn limit(&self) -> usize {
        256
    }
}

const SPLITTING: Splitting = Splitting {
    chunk_size: 1000,
    chunk_overlap: 200,
    unit: Unit::Characters,
};

/// Reads a file of the shared test data, which are in the folder named by RAG_TEST_DATA.
fn shared(file: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("RAG_TEST_DATA").map(PathBuf::from);
    let bytes = folder.and_then(|folder| std::fs::read(folder.join(file)).ok());
    if bytes.is_none() {
        eprintln!("skipped: {file} is not in the folder named by RAG_TEST_DATA");
    }
    bytes
}

fn own_file(name: &str) -> ExtractedDocument {
    let bytes = std::fs::read(
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name),
    )
    .unwrap();
    extract(
        &bytes,
        document_type(name, None, &bytes).unwrap(),
        name,
        None,
    )
    .unwrap()
}

fn text(bytes: &[u8]) -> Result<ExtractedDocument, DocumentError> {
    extract(bytes, DocumentType::Text, "notes/today.txt", None)
}

fn own(text: &str) -> Title {
    Title {
        text: text.into(),
        own: true,
    }
}

#[test]
fn a_markdown_file_with_front_matter() {
    let ExtractedDocument {
        text,
        title,
        metadata,
        ..
    } = own_file("guide.md");
    assert_eq!(title, own("Rotating the signing keys"));
    assert!(
        text.starts_with("# Key rotation\n") && text.ends_with("daily.\n"),
        "{text}"
    );
    assert_eq!(metadata["document_id"], "SEC-14");
    assert_eq!(metadata["source_url"], "https://example.org/sec/14");
    assert_eq!(metadata["updated"], "2024-03-01");
    assert_eq!(metadata["tags"], serde_json::json!(["keys", "operations"]));
}

#[test]
fn a_web_page() {
    let ExtractedDocument {
        text,
        title,
        metadata,
        ..
    } = own_file("page.html");
    assert_eq!(title, own("Opening hours"));
    assert_eq!(
        text,
        "# Welcome\n\nWe are open **every day**.\n\n| Day | Hours |\n| --- | --- |\n| Monday | \
            9–17 |\n| Sunday | closed |"
    );
    assert_eq!(
        serde_json::Value::Object(metadata),
        serde_json::json!({"encoding": "UTF-8"})
    );
}

#[test]
fn plain_text_is_kept_as_written_and_named_after_its_file() {
    let extracted = text("\u{feff}  line\r\nline\r\n".as_bytes()).unwrap();
    assert_eq!(extracted.text, "  line\r\nline\r\n");
    assert_eq!(
        extracted.title,
        Title {
            text: "today".into(),
            own: false
        }
    );
}

#[test]
fn a_document_without_content_is_an_error() {
    for (bytes, document_type) in [
        (&b""[..], DocumentType::Text),
        (b" \n\t ", DocumentType::Text),
        (b"\xEF\xBB\xBF", DocumentType::Markdown),
        (b"---\ntitle: Only a title\n---\n", DocumentType::Markdown),
        (
            b"<html><head><title>Only a title</title></head><body><script>x</script></body></html>",
            DocumentType::Html,
        ),
        (b"", DocumentType::Pdf),
    ] {
        let problem = extract(bytes, document_type, "a", None).unwrap_err();
        assert_eq!(
            (problem.stage, problem.message.as_str()),
            (Stage::Extract, "no content to index")
        );
    }
}

#[test]
fn a_document_is_hashed_and_split() {
    let extracted = text(b"hello world").unwrap();
    let content = content(&extracted, DocumentType::Text, &SPLITTING, &Words).unwrap();
    assert_eq!(
        content.content_hash,
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    );
    assert_eq!(
        (content.chunks[0].byte_start, content.chunks[0].byte_len),
        (0, 11)
    );
    assert_eq!(content.chunks.len(), 1);
}

#[test]
fn files_of_every_encoding_are_read() {
    let Some(expected) = shared("enc/expected.tsv") else {
        return;
    };
    let utf8 = shared("enc/made-utf8-bom.txt").unwrap();
    assert_eq!(utf8[..3], *b"\xEF\xBB\xBF");
    let mut read = 0;
    for line in String::from_utf8(expected).unwrap().lines().skip(1) {
        let (file, codec) = line.split_once('\t').unwrap();
        let extracted = text(&shared(&format!("enc/{file}")).unwrap()).unwrap();
        let encoding = match codec {
            "cp1251" => "windows-1251",
            "cp1252" | "latin1" => "windows-1252",
            "euc_jp" => "EUC-JP",
            "koi8-r" => "KOI8-U", // the same but for four letters and their capitals
            "shift_jis" => "Shift_JIS",
            "utf16be-bom" => "UTF-16BE",
            "utf16le-bom" => "UTF-16LE",
            "utf8-bom" => "UTF-8",
            codec => panic!("{codec}"),
        };
        assert_eq!(extracted.metadata["encoding"], encoding, "{file}");
        assert!(
            !extracted.metadata.contains_key("warnings") && !extracted.text.contains('\u{FFFD}'),
            "{file}"
        );
        assert!(
            extracted.text.chars().all(|c| !c.is_control() || c == '\n'),
            "{file}: {}",
            extracted.text
        );
        read += 1;
    }
    assert_eq!(read, 9);
    let read = |file| {
        text(&shared(&format!("enc/made-{file}.txt")).unwrap())
            .unwrap()
            .text
    };
    for (one, other) in [
        ("cp1251", "koi8-r"),
        ("euc_jp", "shift_jis"),
        ("utf16le-bom", "utf16be-bom"),
    ] {
        assert_eq!(read(one), read(other));
    }
}

#[test]
fn damaged_files_are_read_with_a_warning() {
    for (file, warning) in [
        ("invalid-utf8-lone-bytes", "replaced with U+FFFD"),
        ("invalid-utf8-truncated", "replaced with U+FFFD"),
        ("utf8-with-nul", "NUL character"),
    ] {
        let Some(bytes) = shared(&format!("enc/{file}.txt")) else {
            continue;
        };
        let extracted = text(&bytes).unwrap();
        assert_eq!(extracted.metadata["encoding"], "UTF-8", "{file}");
        let warnings = extracted.metadata["warnings"].as_array().unwrap();
        assert!(
            warnings.len() == 1 && warnings[0].as_str().unwrap().contains(warning),
            "{file}: {warnings:?}"
        );
    }
    for file in ["empty", "whitespace-only"] {
        let Some(bytes) = shared(&format!("enc/{file}.txt")) else {
            continue;
        };
        assert_eq!(text(&bytes).unwrap_err().message, "no content to index");
    }
}

#[test]
fn a_charset_is_taken_from_the_header_else_from_the_page() {
    let page = b"<meta charset=koi8-r><p>\xED\xE9\xF2</p>";
    let read = |media_type| extract(page, DocumentType::Html, "a.html", media_type).unwrap();
    assert_eq!(read(None).text, "МИР");
    assert_eq!(read(Some("text/html")).metadata["encoding"], "KOI8-R");
    assert_eq!(read(Some("text/html; charset=windows-1251")).text, "нйт");
}

#[test]
fn a_nul_that_is_written_as_an_escape_is_removed_too() {
    let extracted = extract(br#"{"a": "b\u0000c"}"#, DocumentType::Json, "a.json", None).unwrap();
    assert_eq!(extracted.text, "a: bc");
    assert_eq!(
        extracted.metadata["warnings"],
        serde_json::json!(["1 NUL character was removed"])
    );
}

#[test]
fn code_has_its_language_in_the_metadata() {
    let extracted = extract(b"fn main() {}\n", DocumentType::Code, "src/main.rs", None).unwrap();
    assert_eq!(extracted.metadata["language"], "rust");
    assert_eq!(extracted.text, "fn main() {}\n");
    assert_eq!(
        (extracted.title.text.as_str(), extracted.title.own),
        ("main.rs", false)
    );
    assert!(
        !extract(b"x", DocumentType::Code, "untitled", None)
            .unwrap()
            .metadata
            .contains_key("language")
    );
}

#[test]
fn front_matter_in_toml_names_the_document() {
    let file = b"+++\ntitle = \"Keys\"\ndocument_id = \"SEC-14\"\nsource_url \
        = \"https://example.org\"\n+++\n# Other";
    let extracted = extract(file, DocumentType::Markdown, "a.md", None).unwrap();
    assert_eq!(
        (extracted.title, extracted.text.as_str()),
        (own("Keys"), "# Other")
    );
    assert_eq!(extracted.metadata["document_id"], "SEC-14");
    assert_eq!(extracted.metadata["source_url"], "https://example.org");
}

#[test]
fn odd_but_valid_files_are_read() {
    for (file, characters) in [
        ("utf8-crlf", 210),
        ("utf8-nfd", 32),
        ("long-line-2MB", 2_000_000),
    ] {
        let Some(bytes) = shared(&format!("enc/{file}.txt")) else {
            continue;
        };
        let extracted = text(&bytes).unwrap();
        assert_eq!(extracted.text.chars().count(), characters);
        let content = content(&extracted, DocumentType::Text, &SPLITTING, &Words).unwrap();
        assert!(
            content.chunks.len() * SPLITTING.chunk_size >= characters,
            "{file}"
        );
    }
}

#[test]
fn files_in_values_are_only_named() {
    let data = format!("data:image/png;base64,{}", "iVBORw0KGgo/".repeat(20));
    let text = |file: String, name: &str| {
        let document_type = document_type(name, None, file.as_bytes()).unwrap();
        extract(file.as_bytes(), document_type, name, None)
            .unwrap()
            .text
    };
    let expected = "name: Tea\nicon: data:image/png";
    assert_eq!(
        text(format!("name,icon\nTea,\"{data}\"\n"), "a.csv"),
        expected
    );
    assert_eq!(
        text(
            format!("{{\"name\": \"Tea\", \"icon\": \"{data}\"}}"),
            "a.json"
        ),
        expected
    );
    let cell = format!("{{\"cell_type\": \"markdown\", \"source\": \"![icon]({data})\"}}");
    let notebook = format!("{{\"cells\": [{cell}]}}");
    assert_eq!(text(notebook, "a.ipynb"), "![icon](data:image/png)");
}
