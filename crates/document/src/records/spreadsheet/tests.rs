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

fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [&kind.to_le_bytes(), &length.to_le_bytes(), data].concat()
}

/// A record of a number in a row and a column.
fn number(row: u16, column: u16, number: f64) -> Vec<u8> {
    let place = [row, column, 0].map(u16::to_le_bytes).concat();
    record(0x0203, &[place, number.to_le_bytes().to_vec()].concat())
}

/// A workbook of Excel 97 with one sheet of these records.
fn old_workbook(records: &[Vec<u8>]) -> Vec<u8> {
    let begin = |kind: u8| record(0x0809, &[0, 6, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let end = record(0x000A, &[]);
    let globals = |sheet: u32| {
        let named = [&sheet.to_le_bytes()[..], &[0, 0, 1, 0, b'S']].concat();
        [begin(5), record(0x0085, &named), end.clone()].concat()
    };
    let sheet = u32::try_from(globals(0).len()).unwrap();
    let mut stream = [globals(sheet), begin(16), records.concat(), end.clone()].concat();
    stream.resize(stream.len().max(4096).next_multiple_of(512), 0);
    let count = u32::try_from(stream.len() / 512).unwrap();

    const LAST: u32 = 0xFFFF_FFFE;
    const FREE: u32 = u32::MAX;
    let mut head = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
    head.resize(512, 0xFF);
    head[26..34].copy_from_slice(&[3, 0, 0xFE, 0xFF, 9, 0, 6, 0]);
    for (at, value) in [
        (44, 1),
        (48, 1),
        (60, LAST),
        (64, 0),
        (68, LAST),
        (72, 0),
        (76, 0),
    ] {
        head[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    let mut table = vec![0xFFFF_FFFD, LAST];
    table.extend((3..2 + count).chain([LAST]));
    table.resize(128, FREE);
    let table: Vec<u8> = table.into_iter().flat_map(u32::to_le_bytes).collect();
    let entry = |name: &str, first: u32, length: u32| {
        let mut entry: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        entry.resize(116, 0);
        entry.extend(first.to_le_bytes());
        entry.extend(length.to_le_bytes());
        entry.resize(128, 0);
        entry
    };
    let mut directory = entry("Root Entry", LAST, 0);
    directory.extend(entry("Workbook", 2, count * 512));
    directory.resize(512, 0);
    [head, table, directory, stream].concat()
}

#[test]
fn old_workbooks_are_records() {
    let book = old_workbook(&[number(1, 0, 1.5), number(1, 2, 3.0), number(9, 0, -2.0)]);
    let extracted = extract(&book, "a.xls").unwrap();
    assert_eq!(extracted.text, "column 1: 1.5\ncolumn 3: 3\n\ncolumn 1: -2");
}

#[test]
fn old_workbooks_that_ask_for_all_memory_are_errors() {
    let whole = old_workbook(&[number(0, 0, 1.0)]);
    let changed = |at: usize, value: u32| {
        let mut changed = whole.clone();
        changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
        changed
    };
    let mut claimed = vec![0; 14];
    claimed[4..8].fill(0xFF);
    claimed[10] = 0xFF;
    for (book, why) in [
        (
            old_workbook(&[number(0, 0, 1.0), number(u16::MAX, u16::MAX, 2.0)]),
            "its cells are too far from each other",
        ),
        (
            old_workbook(&[record(0x0200, &claimed), number(0, 0, 1.0)]),
            "a sheet claims to have more cells than Excel has",
        ),
        // The directory is followed by itself, the list of tables by nothing, and the workbook of
        // 4 GiB by its first sector.
        (changed(512 + 4, 1), "its sectors are damaged"),
        (changed(68, 7_000), "its sectors are damaged"),
        (
            {
                let mut endless = changed(512 + 8, 2);
                endless[1024 + 128 + 120..][..4].fill(0xFF);
                endless
            },
            "its sectors are damaged",
        ),
    ] {
        let message = extract(&book, "a.xls").unwrap_err().message;
        assert_eq!(message, format!("the workbook is malformed: {why}"));
    }
    for at in 0..whole.len().min(1700) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x95;
        let _ = extract(&damaged, "a.xls");
    }
}
