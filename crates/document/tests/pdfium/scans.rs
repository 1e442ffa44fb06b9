//! Pages that show more than they have as text. Tesseract reads them if it is installed. `scan.pdf`
//! has
//!
//! 1. a scan of 150 dots per inch,
//! 2. one that lies on its side,
//! 3. a page with a text layer,
//! 4. an empty picture,
//! 5. a scan with a line of text that the program has added that made it,
//! 6. letters that are drawn as areas,
//! 7. a font whose glyphs say nothing of their characters.

use std::time::Duration;

use rag_document::{DocumentErrorKind, PdfReader, Recognizer, wants_recognition};
use serde_json::json;

use super::{file, read, reader};

const SCAN: &[u8] = include_bytes!("../../../../tests/data/scan.pdf");

/// Returns `None` if PDFium or Tesseract is missing.
fn recognizing(time: Duration) -> Option<PdfReader> {
    let reader = reader()?;
    match Recognizer::load("eng", time) {
        Ok(recognizer) => Some(reader.with_recognizer(recognizer)),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

fn messages(read: &rag_document::ExtractedDocument) -> Vec<&str> {
    let warnings = read.warnings.iter();
    warnings.map(|warning| warning.message.as_str()).collect()
}

#[test]
fn pages_that_are_pictures_are_told() {
    let Some(reader) = reader() else {
        return;
    };
    let plain = read(&reader, SCAN);
    assert!(wants_recognition(&plain));
    let plain = plain.unwrap();
    assert_eq!(plain.metadata["picture_pages"], json!([1, 2, 4]));
    assert_eq!(
        messages(&plain),
        [
            "page 7 of 7 could not be read completely",
            "pages 1, 2, 4 of 7 look like a scan: there is a picture and no text",
        ]
    );
}

#[test]
fn pages_that_are_pictures_are_recognized() {
    let Some(reader) = recognizing(Duration::from_secs(60)) else {
        return;
    };
    let scan = read(&reader, SCAN).unwrap();
    let pages: Vec<&str> = scan.text.split('\u{C}').map(str::trim).collect();
    let words: Vec<&str> = pages[0].split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "Lease of the greenhouse The greenhouse behind the mill is let to Anna Berg from the first \
         of March. The rent is 410 euro a month. It is due on the third working day. The tenant \
         waters the lemon trees twice a week."
    );
    for words in [
        "Twelve lemon trees",
        "below the window",
        "replaced by the landlord",
    ] {
        assert!(pages[1].contains(words), "{}", pages[1]);
    }
    assert_eq!(pages[2..4], ["This page has a text layer.", ""]);
    assert!(
        pages[4].contains("under warranty until the end of June"),
        "{}",
        pages[4]
    );
    assert_eq!(
        pages[5..],
        ["Meter readings of the mill", "Repair of the turbine"]
    );
    assert_eq!(scan.metadata["recognized_pages"], json!([1, 2, 5, 6, 7]));
    assert!(scan.metadata["recognition_confidence"].as_u64().unwrap() > 80);
    assert_eq!(scan.metadata["picture_pages"], json!([4]));
    assert_eq!(
        messages(&scan),
        ["page 4 of 7 looks like a scan: there is a picture and no text"]
    );
}

#[test]
fn recognition_has_a_limit_of_time() {
    let Some(reader) = recognizing(Duration::from_millis(1)) else {
        return;
    };
    let scan = read(&reader, SCAN).unwrap();
    let words: Vec<&str> = scan.text.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "This page has a text layer. Scanned with PocketScan"
    );
    assert_eq!(scan.metadata["picture_pages"], json!([1, 2, 4]));
    assert_eq!(
        messages(&scan)[1],
        "no time was left to recognize the text of pages 1, 2, 4, 5, 6, 7 of 7"
    );
}

#[test]
fn a_scan_without_text_is_an_error() {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R \
                /Resources << /XObject << /I 5 0 R >> >> >>";
    let draw = "q 200 0 0 200 0 0 cm /I Do Q";
    let picture = "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray \
                   /BitsPerComponent 8 /Length 1 >>\nstream\nx\nendstream";
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_owned(),
        page.to_owned(),
        format!("<< /Length {} >>\nstream\n{draw}\nendstream", draw.len()),
        picture.to_owned(),
    ];
    let bytes = file(&objects, true);
    let readers = [
        (
            reader(),
            "the PDF looks like a scan: there is no text on its only page",
        ),
        (
            recognizing(Duration::from_secs(60)),
            "text recognition has found no text in the PDF on its only page",
        ),
    ];
    for (reader, message) in readers {
        let Some(reader) = reader else { continue };
        let error = read(&reader, &bytes).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (DocumentErrorKind::Scan, message)
        );
    }
}

#[test]
fn languages_without_data_are_told() {
    for languages in ["xyz", "eng+xyz"] {
        match Recognizer::load(languages, Duration::from_secs(1)) {
            Err(reason) if reason == "Tesseract is not installed" => {
                eprintln!("skipped: {reason}");
            }
            loaded => assert_eq!(
                loaded.map(|_| ()),
                Err("Tesseract lacks the data of xyz".into())
            ),
        }
    }
}
