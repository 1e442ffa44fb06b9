//! PDFs, read with `pdf-extract`.

use super::*;

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
fn a_sensible_title_in_a_pdf_is_used() {
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

/// A page with a table of words at fixed places, as a spreadsheet prints it.
#[test]
fn a_table_in_a_pdf_keeps_its_rows() {
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
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 \
            R>>>>>>"
            .into(),
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
fn pdfs_that_cannot_be_read_are_errors_with_a_reason() {
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
        "the PDF is malformed: it has no PDF header"
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
            "(<[a-z]{1,8}[ a-z=\"]{0,9}>|</[a-z]{1,8}>|[a-z \
                &;#0-9]{0,9}|<t[dhr]>|<table>){0,40}".prop_map(String::into_bytes),
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
