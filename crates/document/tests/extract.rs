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

const SPLITTING: Splitting = Splitting {
    chunk_size: 1000,
    chunk_overlap: 200,
    unit: Unit::Characters,
};

/// The shared test data, where they are: in the folder named by RAG_TEST_DATA, else beside the
/// workspace.
fn shared(file: &str) -> Option<Vec<u8>> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("RAG_TEST_DATA")
        .map_or_else(beside, PathBuf::from)
        .join(file);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        eprintln!("skipped: {file} is not here (set RAG_TEST_DATA)");
    }
    bytes
}

fn own_file(name: &str) -> Extracted {
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

fn text(bytes: &[u8]) -> Result<Extracted, Problem> {
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
    let Extracted {
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
    let Extracted {
        text,
        title,
        metadata,
        ..
    } = own_file("page.html");
    assert_eq!(title, own("Opening hours"));
    assert_eq!(
        text,
        "# Welcome\n\nWe are open **every day**.\n\n| Day | Hours |\n| --- | --- |\n| Monday | 9–17 |\n| Sunday | closed |"
    );
    assert_eq!(
        serde_json::Value::Object(metadata),
        serde_json::json!({"encoding": "UTF-8"})
    );
}

#[test]
fn plain_text_is_kept_as_it_is_and_called_by_its_file() {
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
fn a_document_without_content_says_so() {
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
        ("invalid-utf8-lone-bytes", "not UTF-8 became U+FFFD"),
        ("invalid-utf8-truncated", "not UTF-8 became U+FFFD"),
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
fn code_is_told_its_language() {
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
    let file = b"+++\ntitle = \"Keys\"\ndocument_id = \"SEC-14\"\nsource_url = \"https://example.org\"\n+++\n# Other";
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
fn pdfs_give_their_text() {
    for (file, words, phrase) in [
        ("trivial-minimal", 101, "Lorem ipsum dolor sit amet"),
        (
            "latex-4-pages",
            2603,
            "Hello, here is some text without a meaning.",
        ),
        ("latex-two-columns", 1041, "filled"),
        ("google-doc", 178, "Namespaces are one honking great idea"),
        ("multilang", 16, ""),
        ("scanned-with-ocr-layer", 2311, ""),
        ("with-attachment", 101, ""),
        ("encrypted-r6-empty-password", 5, ""),
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else {
            continue;
        };
        let extracted = extract(&bytes, DocumentType::Pdf, file, None).unwrap();
        let found = extracted.text.split_whitespace().count();
        assert!(
            found.abs_diff(words) * 20 <= words,
            "{file}: {found} words, poppler finds {words}"
        );
        assert!(
            extracted.text.contains(phrase),
            "{file}: {}",
            extracted.text
        );
        let read_with = serde_json::json!({"pdf_reader": "pdf-extract"});
        assert_eq!(
            serde_json::Value::Object(extracted.metadata),
            read_with,
            "{file}"
        );
    }
}

#[test]
fn the_title_in_a_pdf_names_it_where_it_is_one() {
    for (file, title) in [
        ("google-doc", own("PDF Example Document")),
        (
            "latex-4-pages",
            Title {
                text: "latex-4-pages".into(),
                own: false,
            },
        ),
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else {
            continue;
        };
        assert_eq!(
            extract(
                &bytes,
                DocumentType::Pdf,
                &format!("papers/{file}.pdf"),
                None
            )
            .unwrap()
            .title,
            title
        );
    }
}

#[test]
fn chunks_of_a_pdf_know_their_page() {
    let Some(bytes) = shared("pdf/latex-4-pages.pdf") else {
        return;
    };
    let extracted = extract(&bytes, DocumentType::Pdf, "a.pdf", None).unwrap();
    assert_eq!(extracted.text.matches('\u{C}').count(), 3);
    let content = content(&extracted, DocumentType::Pdf, &SPLITTING, &Words).unwrap();
    for chunk in &content.chunks {
        let before = extracted.text[..chunk.byte_start].matches('\u{C}').count() as u32;
        assert_eq!(chunk.page, Some(before + 1));
    }
    assert!(content.chunks.is_sorted_by_key(|chunk| chunk.page));
    assert_eq!(content.chunks.last().unwrap().page, Some(4));
}

/// A page with a table of words set at fixed places, as a spreadsheet prints it.
#[test]
fn a_table_in_a_pdf_is_rows() {
    let rows = [("Item", "Price"), ("Tea", "2.50"), ("Coffee", "3.00")];
    let mut drawing = String::new();
    for (i, (item, price)) in rows.iter().enumerate() {
        let y = 700 - 20 * i;
        drawing += &format!(
            "BT /F1 12 Tf 72 {y} Td ({item}) Tj ET BT /F1 12 Tf 300 {y} Td ({price}) Tj ET\n"
        );
    }
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".into(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>".into(),
        format!("<</Length {}>>stream\n{drawing}endstream", drawing.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".into(),
    ];
    let mut pdf = String::from("%PDF-1.4\n");
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (i, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", pdf.len());
        pdf += &format!("{} 0 obj\n{object}\nendobj\n", i + 1);
    }
    let end = format!(
        "{table}trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{}\n%%EOF\n",
        objects.len() + 1,
        pdf.len()
    );
    let text = extract((pdf + &end).as_bytes(), DocumentType::Pdf, "a.pdf", None)
        .unwrap()
        .text;
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines,
        [["Item", "Price"], ["Tea", "2.50"], ["Coffee", "3.00"]],
        "{text}"
    );
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
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else {
            continue;
        };
        let problem = extract(&bytes, DocumentType::Pdf, file, None).unwrap_err();
        assert_eq!(problem.stage, Stage::Extract);
        assert!(
            problem.message.starts_with(expected),
            "{file}: {}",
            problem.message
        );
    }
    let problem = extract(b"Dear reader", DocumentType::Pdf, "a.pdf", None).unwrap_err();
    assert_eq!(
        problem.message,
        "the PDF is malformed: it does not begin as one"
    );
}

#[test]
fn damaged_pdfs_never_panic() {
    for file in [
        "trivial-minimal",
        "google-doc",
        "multilang",
        "encrypted-r6-empty-password",
    ] {
        let Some(bytes) = shared(&format!("pdf/{file}.pdf")) else {
            continue;
        };
        for cut in 1..8 {
            let _ = extract(
                &bytes[..bytes.len() * cut / 8],
                DocumentType::Pdf,
                file,
                None,
            );
        }
        for step in [7, 101, 997] {
            let mut damaged = bytes.clone();
            damaged
                .iter_mut()
                .skip(step)
                .step_by(step * 3)
                .for_each(|byte| *byte ^= 0x21);
            let _ = extract(&damaged, DocumentType::Pdf, file, None);
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
        match extract(&bytes, document_type, "a", None) {
            Ok(extracted) => {
                prop_assert!(!extracted.text.trim().is_empty() && !extracted.text.contains('\0'));
                content(&extracted, document_type, &SPLITTING, &Words).unwrap();
            }
            Err(problem) => prop_assert!(!problem.message.is_empty()),
        }
    }
}
