use super::*;
use crate::package::tests::packed;

/// A workbook with these sheets: name, state, rows as XML.
fn workbook(sheets: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut names = String::new();
    let mut links = String::new();
    let mut files: Vec<(String, String)> = vec![];
    for (i, (name, state, rows)) in sheets.iter().enumerate() {
        names += &format!(
            "<sheet name=\"{name}\" sheetId=\"{0}\" state=\"{state}\" r:id=\"r{0}\"/>",
            i + 1
        );
        links += &format!(
            "<Relationship Id=\"r{0}\" \
                Type=\"http://schemas.openxmlformats.org/officeDocument/2006/\
             relationships/worksheet\" Target=\"worksheets/sheet{0}.xml\"/>",
            i + 1
        );
        files.push((
            format!("xl/worksheets/sheet{}.xml", i + 1),
            format!("<worksheet><sheetData>{rows}</sheetData></worksheet>"),
        ));
    }
    let of = |inner: &str| format!("<Relationships>{inner}</Relationships>");
    files.push(("xl/_rels/workbook.xml.rels".into(), of(&links)));
    files.push((
        "_rels/.rels".into(),
        of(
            "<Relationship Id=\"a\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/\
         relationships/officeDocument\" Target=\"xl/workbook.xml\"/>",
        ),
    ));
    files.push((
        "xl/workbook.xml".into(),
        format!(
            "<workbook \
            xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\">\
                 <sheets>{names}</sheets></workbook>"
        ),
    ));
    files.push((
        "xl/styles.xml".into(),
        "<styleSheet><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"46\"/>\
         <xf numFmtId=\"21\"/><xf numFmtId=\"22\"/></cellXfs></styleSheet>"
            .into(),
    ));
    files.push((
        "xl/sharedStrings.xml".into(),
        "<sst><si><t>Name</t></si><si><r><t>Te</t></r><r><t>a</t></r></si></sst>".into(),
    ));
    files.push((
        "docProps/core.xml".into(),
        "<cp:coreProperties><dc:title>Prices</dc:title></cp:coreProperties>".into(),
    ));
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(n, c)| (n.as_str(), c.as_bytes()))
        .collect();
    packed(&files)
}

fn cell(place: &str, kind: &str, value: &str) -> String {
    match kind {
        "inline" => format!("<c r=\"{place}\" t=\"inlineStr\"><is><t>{value}</t></is></c>"),
        kind => format!("<c r=\"{place}\" {kind}><v>{value}</v></c>"),
    }
}

fn row(cells: &[String]) -> String {
    format!("<row>{}</row>", cells.concat())
}

fn text(rows: &str) -> String {
    extract(&workbook(&[("Sheet1", "visible", rows)]), "a.xlsx")
        .unwrap()
        .text
}

#[test]
fn rows_are_records_and_values_are_as_they_are_shown() {
    let head = row(&[cell("A1", "t=\"s\"", "0"), cell("B1", "inline", "Value")]);
    for (value, expected) in [
        (cell("B2", "", "2.5"), "2.5"),
        (cell("B2", "", "3"), "3"),
        (cell("B2", "", "0.30000000000000004"), "0.3"),
        (cell("B2", "t=\"b\"", "1"), "TRUE"),
        (cell("B2", "t=\"e\"", "#N/A"), "#N/A"),
        (cell("B2", "t=\"str\"", "a &amp; b"), "a & b"),
        (cell("B2", "s=\"1\"", "45413"), "2024-05-01"),
        (cell("B2", "s=\"4\"", "45413.5"), "2024-05-01 12:00:00"),
        (cell("B2", "s=\"3\"", "0.25"), "06:00:00"),
        (cell("B2", "s=\"2\"", "1.5"), "36:00:00"),
    ] {
        let rows = head.clone() + &row(&[cell("A2", "t=\"s\"", "1"), value]);
        assert_eq!(text(&rows), format!("Name: Tea\nValue: {expected}"));
    }
}

#[test]
fn sheets_have_their_names_and_hidden_ones_are_told() {
    let rows = row(&[cell("B3", "inline", "Item"), cell("D3", "inline", "Sum")])
        + &row(&[cell("B5", "inline", "Tea"), cell("D5", "", "5")]);
    let titled = row(&[cell("A1", "inline", "All of May")]) + &rows;
    let book = workbook(&[
        ("May", "visible", &titled),
        ("Secret", "hidden", &rows),
        ("June", "visible", &rows),
        ("Empty", "visible", ""),
    ]);
    let extracted = extract(&book, "a.xlsx").unwrap();
    assert_eq!(
        extracted.text,
        "May\nAll of May\n\nItem: Tea\nSum: 5\n\nJune\n\nItem: Tea\nSum: 5"
    );
    assert_eq!(extracted.title.text, "Prices");
    assert_eq!(extracted.warnings[0].message, "1 hidden sheet was left out");
}

#[test]
fn claimed_rows_and_columns_cost_nothing() {
    let far = "<dimension ref=\"A1:XFD1048576\"/>".to_owned();
    let rows = row(&[cell("A1", "inline", "a")]) + &row(&[cell("XFD1048576", "inline", "z")]);
    assert_eq!(text(&rows), "column 1: a\n\ncolumn 16384: z");
    let _ = text(&(far + &rows));
}

#[test]
fn damaged_workbooks_are_errors() {
    let whole = workbook(&[("Sheet1", "visible", &row(&[cell("A1", "inline", "a")]))]);
    for cut in (0..whole.len()).step_by(7) {
        let _ = extract(&whole[..cut], "a.xlsx");
        let mut damaged = whole.clone();
        damaged[cut] ^= 0x15;
        let _ = extract(&damaged, "a.xlsx");
    }
    for bytes in [
        &b"PK\x03\x04nothing"[..],
        b"text",
        &packed(&[("a.txt", b"x")]),
    ] {
        let message = extract(bytes, "a.xlsx").unwrap_err().message;
        assert!(
            message.starts_with("the workbook is malformed: "),
            "{message}"
        );
    }
    let odd = "<row><c/><c r=\"\"/><c r=\"ZZZZZZ99999999999\"><v>1</v></c><c r=\"B1\" \
        t=\"s\"><v>99</v></c></row>";
    let _ = extract(&workbook(&[("Sheet1", "visible", odd)]), "a.xlsx");
}

#[test]
fn cells_beyond_the_last_column_are_left_out() {
    let rows = row(&[cell("A1", "", "1"), cell("ZZZZZ1", "", "2")]);
    assert_eq!(text(&rows), "column 1: 1");
}
