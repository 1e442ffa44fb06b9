use rag_protocol::ingest::{Stage, Title};

use super::*;
use crate::package::{MAX_PART, tests::packed};

mod lists;
mod parts;
mod words;

fn document(body: &str) -> Vec<u8> {
    let document = format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>"
    );
    let styles = "<w:styles><w:style w:styleId=\"berschrift1\"><w:name w:val=\"heading \
        1\"/></w:style>\
                  <w:style w:styleId=\"Own\"><w:name w:val=\"Own\"/><w:pPr><w:outlineLvl \
                  w:val=\"1\"/></w:pPr></w:style></w:styles>";
    let core = "<cp:coreProperties><dc:title>Keys &amp; locks</dc:title></cp:coreProperties>";
    packed(&[
        ("word/document.xml", document.as_bytes()),
        ("word/styles.xml", styles.as_bytes()),
        ("docProps/core.xml", core.as_bytes()),
    ])
}

/// Returns the text of a document with this body and these parts, each with its root element.
fn text_with(body: &str, parts: &[(&str, &str)]) -> String {
    let document = format!("<w:document><w:body>{body}</w:body></w:document>");
    let mut files = vec![("word/document.xml", document.as_bytes())];
    files.extend(parts.iter().map(|(name, xml)| (*name, xml.as_bytes())));
    extract(&packed(&files), "a.docx").unwrap().text
}

fn text(body: &str) -> String {
    text_with(body, &[])
}

/// A paragraph of one run.
fn p(text: &str) -> String {
    format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")
}

/// A run.
fn r(text: &str) -> String {
    format!("<w:r><w:t>{text}</w:t></w:r>")
}

#[test]
fn text_that_is_formatted_as_hidden_is_dropped_and_counted() {
    let run = |properties: &str, text: &str| {
        format!("<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>")
    };
    let body = format!(
        "<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>{}{}{}</w:p>",
        run("", "Shown."),
        run("<w:vanish/>", "Secret orders."),
        run("<w:vanish w:val=\"0\"/>", " The end."),
    );
    let extracted = extract(&document(&body), "a.docx").unwrap();
    assert_eq!(extracted.text, "Shown. The end.");
    assert_eq!(extracted.warnings[0].message, "1 hidden text was removed");
}

#[test]
fn headings_lists_and_tables_become_markdown() {
    let p = |properties: &str, text: &str| {
        format!("<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>")
    };
    let item = "<w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"1\"/></w:numPr>";
    let cell = |text: &str| format!("<w:tc>{}</w:tc>", p("", text));
    let body = [
        p("<w:pStyle w:val=\"berschrift1\"/>", "Rotation"),
        "<w:p><w:r><w:t xml:space=\"preserve\">Keys are \
            </w:t></w:r><w:del><w:r><w:delText>never </w:delText></w:r></w:del>\
         <w:r><w:t>rotated &lt;daily&gt; &#228;.</w:t></w:r></w:p>"
            .into(),
        p("<w:pStyle w:val=\"Own\"/>", "Steps"),
        p(item, "one"),
        p(item, "two"),
        format!(
            "<w:tbl><w:tr>{}{}</w:tr><w:tr>{}{}</w:tr></w:tbl>",
            cell("Day"),
            cell("Hour"),
            cell("Mon | Tue"),
            cell("9")
        ),
        p("", "end"),
    ]
    .concat();
    let extracted = extract(&document(&body), "a.docx").unwrap();
    assert_eq!(
        extracted.text,
        "# Rotation\n\nKeys are rotated <daily> ä.\n\n## Steps\n\n- one\n- two\n\n| Day | \
            Hour |\n| --- | --- |\n| Mon \\| Tue | 9 |\n\nend"
    );
    assert_eq!(
        extracted.title,
        Title {
            text: "Keys & locks".into(),
            own: true
        }
    );
}

#[test]
fn damaged_archives_are_errors() {
    for bytes in [
        &b"PK\x03\x04nothing"[..],
        b"text",
        &packed(&[("a.txt", b"x")]),
        &packed(&[("word/document.xml", b"<w:p></w:q>")]),
    ] {
        let problem = extract(bytes, "a.docx").unwrap_err();
        assert_eq!(problem.stage, Stage::Extract);
        assert!(
            problem
                .message
                .starts_with("the Word document is malformed: "),
            "{}",
            problem.message
        );
    }
    let whole = document("<w:p><w:r><w:t>text</w:t></w:r></w:p>");
    for cut in 0..whole.len() {
        let _ = extract(&whole[..cut], "a.docx");
        let mut damaged = whole.clone();
        damaged[cut] ^= 0x15;
        let _ = extract(&damaged, "a.docx");
    }
}

#[test]
fn a_bomb_is_refused() {
    let bomb = packed(&[("word/document.xml", &vec![b' '; MAX_PART as usize + 1])]);
    assert!(bomb.len() < 1 << 20);
    assert!(
        extract(&bomb, "a.docx")
            .unwrap_err()
            .message
            .contains("unpacks to more than")
    );
}
