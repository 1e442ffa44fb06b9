//! Reads PDFs with PDFium, whose library is named by RAG_PDFIUM. Without it these tests do nothing.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod forms;
mod scans;

use std::{collections::HashMap, io::Write, path::PathBuf};

use flate2::{Compression, write::ZlibEncoder};
use rag_definition::DocumentType;
use rag_document::{
    DocumentError, ExtractedDocument, PdfReader, TokenCounter, content, extract_with,
};
use rag_protocol::ingest::{Splitting, Unit};
use serde_json::json;

/// Returns `None` if there is no library.
fn reader() -> Option<PdfReader> {
    let Some(library) = std::env::var_os("RAG_PDFIUM") else {
        eprintln!("skipped: RAG_PDFIUM does not name PDFium's library");
        return None;
    };
    // Tests run in the folder of their crate.
    let library = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(library);
    Some(PdfReader::pdfium(&library).unwrap())
}

fn read(reader: &PdfReader, bytes: &[u8]) -> Result<ExtractedDocument, DocumentError> {
    extract_with(reader, bytes, DocumentType::Pdf, "papers/a.pdf", None)
}

fn text(reader: &PdfReader, bytes: &[u8]) -> String {
    read(reader, bytes).unwrap().text
}

/// Builds a PDF of objects from 1 on, in a file with a cross-reference table. Pages are object 2.
fn file(objects: &[String], with_table: bool) -> Vec<u8> {
    let mut pdf = String::from("%PDF-1.4\n");
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (i, object) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", pdf.len());
        pdf += &format!("{} 0 obj\n{object}\nendobj\n", i + 1);
    }
    let start = if with_table { pdf.len() } else { 7 };
    let end = format!(
        "{table}trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n",
        objects.len() + 1
    );
    (pdf + if with_table {
        &end
    } else {
        "trailer\n<</Root 1 0 R>>\nstartxref\n7\n%%EOF\n"
    })
    .into_bytes()
}

fn stream(dictionary: &str, bytes: &str) -> String {
    format!(
        "<<{dictionary}/Length {}>>stream\n{bytes}\nendstream",
        bytes.len()
    )
}

const FONT: &str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>";

/// Builds a file of pages with these drawings in Helvetica (F1) and another font (F2, the objects
/// after it).
fn pdf_with(drawings: &[&str], page: &str, more: &[String], with_table: bool) -> Vec<u8> {
    let first = 4;
    let after = first + 2 * drawings.len();
    let kids: String = (0..drawings.len())
        .map(|i| format!("{} 0 R ", first + 2 * i))
        .collect();
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        format!("<</Type/Pages/Kids[{kids}]/Count {}>>", drawings.len()),
        FONT.to_owned(),
    ];
    for (i, drawing) in drawings.iter().enumerate() {
        let fonts = format!("<</F1 3 0 R/F2 {after} 0 R>>");
        let resources = format!("<</Font{fonts}/XObject<</Im {after} 0 R>>>>");
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{page}/Contents {} 0 \
                R/Resources{resources}>>",
            first + 2 * i + 1
        ));
        objects.push(stream("", drawing));
    }
    objects.extend(
        more.iter()
            .map(|object| object.replace("NEXT", &format!("{} 0 R", after + 1))),
    );
    file(&objects, with_table)
}

fn pdf(drawings: &[&str]) -> Vec<u8> {
    pdf_with(drawings, "", &[], true)
}

#[test]
fn a_rotated_page_is_read_along_its_lines() {
    let Some(reader) = reader() else { return };
    let drawing = "BT /F1 12 Tf 0 1 -1 0 100 100 Tm (Total for) Tj ET BT /F1 12 Tf 0 1 -1 0 100 \
        300 Tm (2019) Tj ET \
                   BT /F1 12 Tf 0 1 -1 0 130 100 Tm (second line) Tj ET";
    assert_eq!(
        text(&reader, &pdf_with(&[drawing], "/Rotate 90", &[], true)),
        "Total for\t2019\nsecond line"
    );
}

#[test]
fn characters_set_apart_are_not_joined() {
    let Some(reader) = reader() else { return };
    let drawing = "BT /F1 6 Tf 20 Tc 1 0 0 1 100 700 Tm (51) Tj ET BT /F1 6 Tf 1 0 0 1 132 700 Tm \
        (,252) Tj ET";
    let text = text(&reader, &pdf(&[drawing]));
    assert_eq!(
        text.split_whitespace().collect::<Vec<_>>(),
        ["5", "1", ",", "2", "5", "2"],
        "{text}"
    );
}

#[test]
fn cells_of_a_table_are_separated_and_its_rows_are_lines() {
    let Some(reader) = reader() else { return };
    let cell = |x: u32, y: u32, text: &str| format!("BT /F1 8 Tf {x} {y} Td ({text}) Tj ET ");
    let drawing: String = [("5", "2,236,457"), ("14", "98"), ("total", "2,236,555")]
        .iter()
        .enumerate()
        // The second cell of each row is drawn first.
        .map(|(i, (a, b))| cell(140, 700 - 20 * i as u32, b) + &cell(100, 700 - 20 * i as u32, a))
        .collect();
    assert_eq!(
        text(&reader, &pdf(&[&drawing])),
        "5\t2,236,457\n14\t98\ntotal\t2,236,555"
    );
}

/// A font whose table of characters lacks the one that is drawn.
fn font_without(extra: &str) -> Vec<String> {
    let map = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange \
        <00> <FF> \
               endcodespacerange 1 beginbfchar <62> <0062> endbfchar endcmap";
    let font = format!(
        "<</Type/Font/BaseFont/Unknown/ToUnicode NEXT/FirstChar 97/LastChar 97/Widths[500]{extra}>>"
    );
    vec![font, stream("", map)]
}

const AROUND: &str =
    "BT /F1 12 Tf 100 700 Td (Before.) Tj /F2 12 Tf (a) Tj /F1 12 Tf 0 -20 Td (After.) Tj ET";

#[test]
fn a_font_without_an_encoding_loses_no_other_text() {
    let Some(reader) = reader() else { return };
    let bytes = pdf_with(&[AROUND], "", &font_without("/Subtype/Type1"), true);
    let ExtractedDocument { text, warnings, .. } = read(&reader, &bytes).unwrap();
    assert_eq!(text, "Before.a\nAfter.");
    assert_eq!(warnings, []);
}

#[test]
fn a_page_that_is_lost_in_part_is_reported() {
    let bytes = pdf_with(
        &["BT /F1 12 Tf (whole) Tj ET", AROUND],
        "",
        &font_without("/Subtype/Type1"),
        true,
    );
    let whole = |extracted: &ExtractedDocument| {
        let warning = "page 2 of 2 could not be read completely";
        assert_eq!(
            extracted
                .warnings
                .iter()
                .map(|w| w.message.as_str())
                .collect::<Vec<_>>(),
            [warning]
        );
        assert_eq!(extracted.metadata["unreadable_pages"], json!([2]));
        assert!(extracted.text.contains("Before."), "{}", extracted.text);
    };
    // When pdf-extract panics, the rest of the page is lost.
    whole(&read(&PdfReader::PDF_EXTRACT, &bytes).unwrap());
    let Some(reader) = reader() else { return };
    // Glyphs that no table knows.
    let codes = "<FFF0FFF1FFF2FFF3>";
    let drawing = format!(
        "BT /F1 12 Tf 100 700 Td (Before.) Tj /F2 12 Tf {codes} Tj /F1 12 Tf 0 -20 Td (After.) Tj \
            ET"
    );
    let font = "<</Type/Font/Subtype/Type0/BaseFont/Unknown/Encoding/Identity-H/DescendantFonts[<</Type/Font\
                /Subtype/CIDFontType2/BaseFont/Unknown/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>\
                /DW 1000>>]>>";
    let bytes = pdf_with(
        &["BT /F1 12 Tf 100 700 Td (whole) Tj ET", &drawing],
        "",
        &[font.into()],
        true,
    );
    whole(&read(&reader, &bytes).unwrap());
}

/// A compressed drawing of twenty lines. `damage` overwrites some bytes in its middle.
fn packed(damage: bool) -> String {
    let lines: String = (1..=20)
        .map(|n| format!("(Line {n} of {}) Tj T* ", n * n * 7919))
        .collect();
    let mut encoder = ZlibEncoder::new(vec![], Compression::default());
    let drawing = format!("BT /F1 12 Tf 14 TL 100 700 Td {lines} ET");
    encoder.write_all(drawing.as_bytes()).unwrap();
    let mut bytes = encoder.finish().unwrap();
    let middle = bytes.len() / 2;
    if damage {
        bytes[middle..middle + 8].fill(0xFF);
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    stream("/Filter[/ASCIIHexDecode/FlateDecode]", &(hex + ">"))
}

#[test]
fn a_page_with_a_damaged_content_stream_is_reported() {
    let text = "BT /F1 12 Tf 100 700 Td (A page of text.) Tj ET";
    let form = |drawing: &str| stream("/Type/XObject/Subtype/Form/BBox[0 0 612 792]", drawing);
    // A page that draws a form, which is the object after the pages.
    let with_form = |form: String| pdf_with(&[text, "/Im Do", text], "", &[form], true);
    let page = |content: &str| {
        let bytes = String::from_utf8(pdf(&[text, "SECOND", text])).unwrap();
        let objects = bytes.replace(&stream("", "SECOND"), content);
        objects.into_bytes() // the places in the table are wrong now
    };
    let readers = [reader(), Some(PdfReader::PDF_EXTRACT)];
    for reader in readers.iter().flatten() {
        for (bytes, is_damaged) in [
            (page(&packed(false)), false),
            (page(&packed(true)), true),
            (with_form(form("BT /F1 12 Tf (form) Tj ET")), false),
            (with_form(form("BT /F1 12 Tf (form Tj ET")), true),
            (page(&stream("", "BT /F1 12 Tf (one) Tj (two Tj ET")), true),
            (page(&stream("", "")), false),
        ] {
            // pdf-extract does not search for objects.
            let Ok(extracted) = read(reader, &bytes) else {
                assert_eq!(reader.name(), "pdf-extract");
                continue;
            };
            let messages: Vec<&str> = extracted
                .warnings
                .iter()
                .map(|warning| warning.message.as_str())
                .collect();
            let expected = ["page 2 of 3 could not be read completely"];
            let expected: &[&str] = if is_damaged { &expected } else { &[] };
            assert_eq!(messages, expected, "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn text_drawn_twice_is_read_once() {
    let Some(reader) = reader() else { return };
    for shift in ["100.3 700", "100 699.8", "100 700"] {
        let drawing = format!(
            "BT /F1 12 Tf 100 700 Td (Bold affairs) Tj ET BT /F1 12 Tf {shift} Td (Bold affairs) \
                Tj ET \
             BT /F1 12 Tf 100 680 Td (and all) Tj ET"
        );
        assert_eq!(
            text(&reader, &pdf(&[&drawing])),
            "Bold affairs\nand all",
            "{shift}"
        );
    }
}

#[test]
fn a_word_hyphenated_at_a_line_end_is_joined() {
    let Some(reader) = reader() else { return };
    let drawing = "BT /F1 12 Tf 100 700 Td (difficult to com-) Tj 0 -12 Td (pile than) Tj ET";
    assert_eq!(text(&reader, &pdf(&[drawing])), "difficult to compile than");
}

#[test]
fn running_heads_are_dropped_wherever_they_are_drawn() {
    let Some(reader) = reader() else { return };
    let page = |n: u32| {
        format!(
            "BT /F1 9 Tf 300 30 Td ({n} / 6) Tj ET BT /F1 12 Tf 100 700 Td (Text {}) Tj 0 -14 Td \
                (more {}) Tj ET \
             BT /F1 9 Tf 100 760 Td (The Handbook) Tj ET",
            n * n,
            n * 10
        )
    };
    let pages: Vec<String> = (1..=6).map(page).collect();
    let bytes = pdf(&pages.iter().map(String::as_str).collect::<Vec<_>>());
    let expected: Vec<String> = (1..=6)
        .map(|n| format!("Text {}\nmore {}", n * n, n * 10))
        .collect();
    let extracted = read(&reader, &bytes).unwrap();
    assert_eq!(
        extracted.text.split("\n\u{C}\n").collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_broken_cross_reference_table_is_rebuilt() {
    let Some(reader) = reader() else { return };
    let bytes = pdf_with(
        &["BT /F1 12 Tf 100 700 Td (found again) Tj ET"],
        "",
        &[],
        false,
    );
    assert_eq!(text(&reader, &bytes), "found again");
}

#[test]
fn files_that_cannot_be_read_are_errors_with_a_reason() {
    let image = stream(
        "/Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8",
        "x",
    );
    let scan = pdf_with(
        &["500 0 0 700 50 50 cm /Im Do"],
        "",
        std::slice::from_ref(&image),
        true,
    );
    let lines = pdf(&["100 100 m 200 200 l S"]);
    let handler = "<</Filter/Vendor/V 4/R 4/O(12345678901234567890123456789012)/U(12345678901234567890123456789012)\
                   /P -4/CF<<>>>>";
    let mut locked = pdf_with(
        &["BT /F1 12 Tf 100 700 Td (secret) Tj ET"],
        "",
        &[handler.into()],
        true,
    );
    let place = locked.windows(7).rposition(|w| w == b"/Root 1").unwrap();
    locked.splice(
        place..place,
        *b"/Encrypt 6 0 R/ID[(1234567890123456)(1234567890123456)]",
    );
    let readers = [Some(PdfReader::PDF_EXTRACT), reader()];
    for reader in readers.iter().flatten() {
        for (bytes, expected) in [
            (
                &scan,
                "the PDF looks like a scan: there is no text on its only page",
            ),
            (
                &lines,
                "the PDF has neither text nor pictures on its only page",
            ),
            (&locked, "the PDF uses an unsupported encryption"),
        ] {
            let problem = read(reader, bytes).unwrap_err();
            assert_eq!(problem.message, expected, "{}", reader.name());
            assert!(problem.hint.is_some());
        }
    }
    let Some(reader) = reader() else { return };
    let mixed = pdf_with(
        &[
            "BT /F1 12 Tf 100 700 Td (a letter) Tj ET",
            "500 0 0 700 50 50 cm /Im Do",
        ],
        "",
        std::slice::from_ref(&image),
        true,
    );
    let warnings = read(&reader, &mixed).unwrap().warnings;
    assert_eq!(
        warnings[0].message,
        "page 2 of 2 looks like a scan: there is a picture and no text"
    );
}

/// Reads a real file, if RAG_TEST_DATA names their folder.
fn shared(file: &str) -> Option<Vec<u8>> {
    let folder = PathBuf::from(std::env::var_os("RAG_TEST_DATA")?);
    std::fs::read(folder.join("pdf").join(file)).ok()
}

#[test]
fn real_files_have_the_same_words_as_with_poppler() {
    let Some(reader) = reader() else { return };
    for (file, words) in [
        ("trivial-minimal", 101),
        // Page numbers are dropped.
        ("latex-4-pages", 2603 - 4),
        ("latex-two-columns", 1041 - 4),
        // Numbers of notes are words. poppler joins "83,190,556" and "2" to "83,190,5562".
        ("google-doc", 178 + 3),
        ("multilang", 16),
        ("scanned-with-ocr-layer", 2312),
        ("with-attachment", 101),
        ("encrypted-r6-empty-password", 5),
        ("malformed-issue-297", 2),
        ("scan-no-text-bad-stream", 1),
    ] {
        let Some(bytes) = shared(&format!("{file}.pdf")) else {
            continue;
        };
        let extracted = read(&reader, &bytes).unwrap();
        assert_eq!(
            extracted.text.split_whitespace().count(),
            words,
            "{file}: {}",
            extracted.text
        );
        assert_eq!(
            extracted.metadata,
            *json!({"pdf_reader": "pdfium"}).as_object().unwrap(),
            "{file}"
        );
    }
    let Some(bytes) = shared("multilang.pdf") else {
        return;
    };
    let arabic = text(&reader, &bytes);
    assert!(arabic.contains("مرحبا بالعالم"), "{arabic}");
    let Some(bytes) = shared("google-doc.pdf") else {
        return;
    };
    let table = text(&reader, &bytes);
    assert!(
        table.contains("Capital\tJakarta\tBerlin\tVienna\tParis\tVatican City\nCurrency"),
        "{table}"
    );
    assert!(table.contains("\u{1F1E9}\u{1F1EA}"), "{table}");
}

struct Words;

impl TokenCounter for Words {
    fn count(&self, text: &str) -> usize {
        text.split_whitespace().count() * 13 / 10 + 2
    }

    fn limit(&self) -> usize {
        256
    }
}

#[test]
fn chunks_know_their_place_and_page() {
    let Some(reader) = reader() else { return };
    let Some(bytes) = shared("latex-4-pages.pdf") else {
        return;
    };
    let extracted = read(&reader, &bytes).unwrap();
    let splitting = Splitting {
        chunk_size: 500,
        chunk_overlap: 100,
        unit: Unit::Characters,
    };
    let mut of_page: HashMap<u32, usize> = HashMap::new();
    for chunk in content(&extracted, DocumentType::Pdf, &splitting, &Words)
        .unwrap()
        .chunks
    {
        let before = &extracted.text[..chunk.byte_start];
        assert_eq!(chunk.start_index, before.chars().count());
        assert_eq!(chunk.page, Some(before.matches('\u{C}').count() as u32 + 1));
        *of_page.entry(chunk.page.unwrap()).or_default() += 1;
    }
    assert_eq!(of_page.len(), 4);
}
