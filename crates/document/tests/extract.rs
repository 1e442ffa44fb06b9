//! Documents good and bad, from bytes to text and title.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::path::PathBuf;

use proptest::prelude::*;
use rag_document::{Extracted, Problem, TokenCounter, content, document_type, extract};
use rag_protocol::ingest::{DocumentType, Splitting, Stage, Title, Unit};

struct Words;

impl TokenCounter for Words {
    fn count(&self, text: &str) -> usize {
        text.split_whitespace().count() * 13 / 10 + 2
    }

    fn limit(&self) -> usize {
        256
    }
}

const SPLITTING: Splitting = Splitting { chunk_size: 1000, chunk_overlap: 200, unit: Unit::Characters };

/// The shared test data, where they are: in the folder named by RAG_TEST_DATA, else beside the workspace.
fn shared(file: &str) -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("RAG_TEST_DATA").map_or_else(beside, PathBuf::from).join(file);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        eprintln!("skipped: {file} is not here (set RAG_TEST_DATA)");
    }
    bytes
}

fn own_file(name: &str) -> Extracted {
    let bytes = std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap();
    extract(&bytes, document_type(name, &bytes).unwrap(), name).unwrap()
}

fn text(bytes: &[u8]) -> Result<Extracted, Problem> {
    extract(bytes, DocumentType::Text, "notes/today.txt")
}

fn own(text: &str) -> Title {
    Title { text: text.into(), own: true }
}

#[test]
fn a_markdown_file_with_front_matter() {
    let Extracted { text, title, metadata } = own_file("guide.md");
    assert_eq!(title, own("Rotating the signing keys"));
    assert!(text.starts_with("# Key rotation\n") && text.ends_with("daily.\n"), "{text}");
    assert_eq!(metadata["document_id"], "SEC-14");
    assert_eq!(metadata["source_url"], "https://example.org/sec/14");
    assert_eq!(metadata["updated"], "2024-03-01");
    assert_eq!(metadata["tags"], serde_json::json!(["keys", "operations"]));
}

#[test]
fn a_web_page() {
    let Extracted { text, title, metadata } = own_file("page.html");
    assert_eq!(title, own("Opening hours"));
    assert_eq!(
        text,
        "# Welcome\n\nWe are open **every day**.\n\n| Day | Hours |\n| --- | --- |\n| Monday | 9–17 |\n| Sunday | closed |"
    );
    assert!(metadata.is_empty());
}

#[test]
fn plain_text_is_kept_as_it_is_and_called_by_its_file() {
    let extracted = text("\u{feff}  line\r\nline\r\n".as_bytes()).unwrap();
    assert_eq!(extracted.text, "  line\r\nline\r\n");
    assert_eq!(extracted.title, Title { text: "today".into(), own: false });
}

#[test]
fn a_document_without_content_says_so() {
    for (bytes, document_type) in [
        (&b""[..], DocumentType::Text),
        (b" \n\t ", DocumentType::Text),
        (b"\xEF\xBB\xBF", DocumentType::Markdown),
        (b"---\ntitle: Only a title\n---\n", DocumentType::Markdown),
        (b"<html><head><title>Only a title</title></head><body><script>x</script></body></html>", DocumentType::Html),
        (b"", DocumentType::Pdf),
    ] {
        let problem = extract(bytes, document_type, "a").unwrap_err();
        assert_eq!((problem.stage, problem.message.as_str()), (Stage::Extract, "no content to index"));
    }
}

#[test]
fn a_document_is_hashed_and_split() {
    let extracted = text(b"hello world").unwrap();
    let content = content(&extracted, DocumentType::Text, &SPLITTING, &Words).unwrap();
    assert_eq!(content.content_hash, "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9");
    assert_eq!((content.chunks[0].byte_start, content.chunks[0].byte_len), (0, 11));
    assert_eq!(content.chunks.len(), 1);
}

#[test]
fn encodings_other_than_utf8_are_refused_with_a_reason() {
    for (file, offset) in [("enc/invalid-utf8-lone-bytes.txt", None), ("enc/made-utf16le-bom.txt", Some(0))] {
        let Some(bytes) = shared(file) else { continue };
        let problem = text(&bytes).unwrap_err();
        let at = std::str::from_utf8(&bytes).unwrap_err().valid_up_to();
        assert_eq!(offset.unwrap_or(at), at);
        assert_eq!(
            (problem.stage, problem.message),
            (Stage::Decode, format!("the file is not valid UTF-8 at byte offset {at}"))
        );
        assert!(problem.hint.is_some());
    }
    for file in
        ["made-cp1251", "made-euc_jp", "made-koi8-r", "made-shift_jis", "made-utf16be-bom", "invalid-utf8-truncated"]
    {
        let Some(bytes) = shared(&format!("enc/{file}.txt")) else { continue };
        assert_eq!(text(&bytes).unwrap_err().stage, Stage::Decode, "{file}");
    }
    let Some(bytes) = shared("enc/utf8-with-nul.txt") else { return };
    assert!(text(&bytes).unwrap_err().message.contains("NUL"));
}

#[test]
fn odd_but_valid_files_are_read() {
    for (file, characters) in [("utf8-crlf", 210), ("utf8-nfd", 32), ("long-line-2MB", 2_000_000)] {
        let Some(bytes) = shared(&format!("enc/{file}.txt")) else { continue };
        let started = std::time::Instant::now();
        let extracted = text(&bytes).unwrap();
        assert_eq!(extracted.text.chars().count(), characters);
        let content = content(&extracted, DocumentType::Text, &SPLITTING, &Words).unwrap();
        eprintln!("{file}: {} chunks in {:?}", content.chunks.len(), started.elapsed());
        assert!(started.elapsed().as_secs() < 3);
    }
}

#[test]
fn pdfs_give_their_text() {
    for (file, words, phrase) in [
        ("trivial-minimal", 101, "Lorem ipsum dolor sit amet"),
        ("latex-4-pages", 2603, "Hello, here is some text without a meaning."),
        ("latex-two-columns", 1041, "filled"),
        ("google-doc", 178, "Namespaces are one honking great idea"),
        ("multilang", 16, ""),
        ("scanned-with-ocr-layer", 2311, ""),
        ("with-attachment", 101, ""),
        ("encrypted-r6-empty-password", 5, ""),
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else { continue };
        let extracted = extract(&bytes, DocumentType::Pdf, file).unwrap();
        let found = extracted.text.split_whitespace().count();
        assert!(found.abs_diff(words) * 20 <= words, "{file}: {found} words, poppler finds {words}");
        assert!(extracted.text.contains(phrase), "{file}: {}", extracted.text);
        assert!(extracted.metadata.is_empty(), "{file}: {:?}", extracted.metadata);
    }
}

#[test]
fn the_title_in_a_pdf_names_it_where_it_is_one() {
    for (file, title) in [
        ("google-doc", own("PDF Example Document")),
        ("latex-4-pages", Title { text: "latex-4-pages".into(), own: false }),
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else { continue };
        assert_eq!(extract(&bytes, DocumentType::Pdf, &format!("papers/{file}.pdf")).unwrap().title, title);
    }
}

#[test]
fn a_form_feed_ends_a_page() {
    let Some(bytes) = shared("pdf/latex-4-pages.pdf") else { return };
    assert_eq!(extract(&bytes, DocumentType::Pdf, "a.pdf").unwrap().text.matches('\u{C}').count(), 3);
}

#[test]
fn pdfs_that_cannot_be_read_say_why() {
    for (file, expected) in [
        ("images-no-text", "the PDF looks like a scan"),
        ("scan-no-text-bad-stream", "the PDF is malformed"),
        ("encrypted-openpassword", "the PDF is encrypted"),
        ("malformed-issue-297", "the PDF is malformed"),
        ("truncated", "the PDF is malformed"),
        ("zero-bytes", "no content to index"),
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else { continue };
        let problem = extract(&bytes, DocumentType::Pdf, file).unwrap_err();
        assert_eq!(problem.stage, Stage::Extract);
        assert!(problem.message.starts_with(expected), "{file}: {}", problem.message);
    }
    let problem = extract(b"Dear reader", DocumentType::Pdf, "a.pdf").unwrap_err();
    assert_eq!(problem.message, "the PDF is malformed: it does not begin as one");
}

#[test]
fn damaged_pdfs_never_panic() {
    for file in ["trivial-minimal", "google-doc", "multilang", "encrypted-r6-empty-password"] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else { continue };
        for cut in 1..8 {
            let _ = extract(&bytes[..bytes.len() * cut / 8], DocumentType::Pdf, file);
        }
        for step in [7, 101, 997] {
            let mut damaged = bytes.clone();
            damaged.iter_mut().skip(step).step_by(step * 3).for_each(|byte| *byte ^= 0x21);
            let _ = extract(&damaged, DocumentType::Pdf, file);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_are_answered_without_panic(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400),
            "(---\n)?[a-z:&*\\[\\]{}\"' \n#<>/!?-]{0,300}(\n---\n)?.{0,40}".prop_map(String::into_bytes),
            "(<[a-z]{1,8}[ a-z=\"]{0,9}>|</[a-z]{1,8}>|[a-z &;#0-9]{0,9}|<t[dhr]>|<table>){0,40}".prop_map(String::into_bytes),
        ],
        document_type in prop::sample::select(DocumentType::ALL.to_vec()),
    ) {
        match extract(&bytes, document_type, "a") {
            Ok(extracted) => {
                prop_assert!(!extracted.text.trim().is_empty() && !extracted.text.contains('\0'));
                content(&extracted, document_type, &SPLITTING, &Words).unwrap();
            }
            Err(problem) => prop_assert!(!problem.message.is_empty()),
        }
    }
}
