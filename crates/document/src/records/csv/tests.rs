//! Delimiters, names, marks.

use crate::Structure;

fn text(file: &str) -> String {
    let extracted = super::extract(file, "a.csv", None);
    assert_eq!(
        extracted.structure,
        Structure::Records,
        "{:?}",
        extracted.metadata
    );
    extracted.text
}

#[test]
fn rows_become_records_with_the_names_of_the_header() {
    assert_eq!(
        text(
            "name,price,note\r\nTea, 2.5 ,\r\n\"Coffee, \
                black\",3,\"two\r\n\r\nlines \"\"x\"\"\"\r\n"
        ),
        "name: Tea\nprice: 2.5\n\nname: Coffee, black\nprice: 3\nnote: two\nlines \"x\""
    );
}

#[test]
fn the_delimiter_is_found() {
    for delimiter in [",", ";", "\t", "|"] {
        let file = "a,b\n1.5,x y\n2,z\n".replace(',', delimiter);
        assert_eq!(text(&file), "a: 1.5\nb: x y\n\na: 2\nb: z");
    }
    assert_eq!(
        text("Preis;Name\n1,50;Tee\n2,75;Kaffee\n"),
        "Preis: 1,50\nName: Tee\n\nPreis: 2,75\nName: Kaffee"
    );
    assert_eq!(
        text("title\nOne\nTwo, three\n"),
        "title: One\n\ntitle: Two, three".replace("Two, three", "Two\ncolumn 2: three")
    );
}

#[test]
fn a_first_row_of_data_is_not_a_header() {
    assert_eq!(
        text("1,Tea\n2,Coffee\n"),
        "column 1: 1\ncolumn 2: Tea\n\ncolumn 1: 2\ncolumn 2: Coffee"
    );
    assert_eq!(
        text("a,a\nb,c\n"),
        "column 1: a\ncolumn 2: a\n\ncolumn 1: b\ncolumn 2: c"
    );
    assert_eq!(text(",a\n0,b\n"), "column 1: 0\na: b");
}

#[test]
fn rows_of_any_width_are_kept() {
    assert_eq!(
        text("a,b\n1\n1,2,3\n,,\n\n4,5\n"),
        "a: 1\n\na: 1\nb: 2\ncolumn 3: 3\n\na: 4\nb: 5"
    );
}

#[test]
fn a_file_whose_text_would_grow_too_long_is_kept_as_written() {
    let file = format!(
        "{}\n{}",
        vec!["n".repeat(300); 1].join(","),
        "x\n".repeat(100_000)
    );
    let extracted = super::extract(&file, "a.csv", None);
    assert_eq!(extracted.text, file);
    assert!(extracted.warnings[0].message.contains("too long"));
    let extracted = super::extract("only,a,header\n", "a.csv", None);
    assert_eq!(extracted.text, "only,a,header\n");
}

#[test]
fn the_delimiter_cuts_into_more_columns_more_evenly() {
    for (file, expected) in [
        // A line of a spreadsheet names it.
        ("sep=;\nName;Price\nTea;2,50\n", "Name: Tea\nPrice: 2,50"),
        ("\"SEP=|\"\r\na|b\r\n1,2,3|x\r\n", "a: 1,2,3\nb: x"),
        ("sep=\t\na\tb\n1\t2\n", "a: 1\nb: 2"),
        // Commas of numbers, dates, lists and places.
        (
            "1,50;Tea\n2,75;Coffee\n",
            "column 1: 1,50\ncolumn 2: Tea\n\ncolumn 1: 2,75\ncolumn 2: Coffee",
        ),
        (
            "Place;Lat, Lon\nOslo;59.9, 10.7\n",
            "Place: Oslo\nLat, Lon: 59.9, 10.7",
        ),
        (
            "Day;Who\nApr 15, 2023;Ray;\nApr 9, 2023;Lou\n",
            "Day: Apr 15, 2023\nWho: Ray\n\nDay: Apr 9, 2023\nWho: Lou",
        ),
        (
            "id;tags;more\n4;['345', '1'];UNKNOWN\n5;['468'];x\n",
            "id: 4\ntags: ['345', '1']\nmore: UNKNOWN\n\nid: 5\ntags: ['468']\nmore: x",
        ),
        (
            "a|b\n1, 2, 3|x\n4, 5, 6|y\n",
            "a: 1, 2, 3\nb: x\n\na: 4, 5, 6\nb: y",
        ),
        // Other delimiters in marks, and commas with spaces that are the delimiter.
        (
            "a,b\n\"x; y; z\",1\n\"u; v\",2\n",
            "a: x; y; z\nb: 1\n\na: u; v\nb: 2",
        ),
        (
            "name, city\nAnn, \"Oslo, N\"\nBob, Rome\n",
            "name: Ann\ncity: Oslo, N\n\nname: Bob\ncity: Rome",
        ),
        (
            "id,comment\n1,\"line one\nline two\"\n2,\"has \"\"marks\"\"\"\n",
            "id: 1\ncomment: line one\nline two\n\nid: 2\ncomment: has \"marks\"",
        ),
        ("only\nOne\nTwo\n", "only: One\n\nonly: Two"),
    ] {
        assert_eq!(text(file), expected, "{file}");
    }
}

#[test]
fn names_may_be_years_empty_or_the_same() {
    for (file, expected) in [
        (
            "Land,2021,2022\nNorway,10,11\n",
            "Land: Norway\n2021: 10\n2022: 11",
        ),
        ("Land,2021\nNorway,10\n", "Land: Norway\n2021: 10"),
        // Years that count on are names above years as well.
        (
            "Land,2021,2022\nNorway,1999,2001\n",
            "Land: Norway\n2021: 1999\n2022: 2001",
        ),
        (
            "Tea,2021\nCoffee,2020\n",
            "column 1: Tea\ncolumn 2: 2021\n\ncolumn 1: Coffee\ncolumn 2: 2020",
        ),
        (
            "2021,2022\n1,2\n",
            "column 1: 2021\ncolumn 2: 2022\n\ncolumn 1: 1\ncolumn 2: 2",
        ),
        (
            "Date,Sum,Date,Date\n1,2,3,4\n",
            "Date: 1\nSum: 2\nDate 2: 3\nDate 3: 4",
        ),
        ("Date,Date 2,Date\n1,2,3\n", "Date: 1\nDate 2: 2\nDate 3: 3"),
        (
            "name,price,\nTea,2.5,\nRum,3,x\n",
            "name: Tea\nprice: 2.5\n\nname: Rum\nprice: 3\ncolumn 3: x",
        ),
        ("name,,price\nTea,y,3\n", "name: Tea\ncolumn 2: y\nprice: 3"),
        (
            "2024-05-01T10:00:00Z,a\n2024-05-02T10:00:00Z,b\n",
            "column 1: 2024-05-01T10:00:00Z\ncolumn 2: a\n\n\
             column 1: 2024-05-02T10:00:00Z\ncolumn 2: b",
        ),
    ] {
        assert_eq!(text(file), expected, "{file}");
    }
}

#[test]
fn titles_and_remarks_above_the_table_are_a_text_of_their_own() {
    for (file, expected) in [
        (
            "Report\nCreated: May\n\nName,Sum\nTea,5\n",
            "Report\nCreated: May\n\nName: Tea\nSum: 5",
        ),
        // A merged title, and a remark with two values.
        (
            "Report,,\nCreated,2024-05-01,\nName,Sum,Of\nTea,5,x\n",
            "Report\nCreated, 2024-05-01\n\nName: Tea\nSum: 5\nOf: x",
        ),
        (
            "# made by tool 4\nname,price\nTea,2\n# the end\n",
            "# made by tool 4\n\nname: Tea\nprice: 2\n\n# the end",
        ),
        (
            "# made, with care\nname,price\nTea,2\n",
            "# made, with care\n\nname: Tea\nprice: 2",
        ),
        (
            "# remark\n1,2\n3,4\n",
            "# remark\n\ncolumn 1: 1\ncolumn 2: 2\n\ncolumn 1: 3\ncolumn 2: 4",
        ),
        // Names that begin with the sign.
        ("#,name\n1,Tea\n", "#: 1\nname: Tea"),
        ("#CHROM\tPOS\nchr1\t5\n", "#CHROM: chr1\nPOS: 5"),
        // Names that are shorter than the rows.
        (
            "name,price\nTea,2,x\nRum,3,y\n",
            "name: Tea\nprice: 2\ncolumn 3: x\n\nname: Rum\nprice: 3\ncolumn 3: y",
        ),
    ] {
        assert_eq!(text(file), expected, "{file}");
    }
}

fn with_warning(file: &str, delimiter: Option<u8>) -> (String, String) {
    let extracted = super::extract(file, "a.csv", delimiter);
    let warnings = extracted
        .warnings
        .iter()
        .map(|warning| warning.message.clone());
    (extracted.text, warnings.collect())
}

#[test]
fn marks_that_are_not_closed_swallow_no_rows() {
    let told = |line: usize| {
        format!("1 quotation mark is not closed and was read as a part of the text; line {line}")
    };
    let long_rows: String = (3..60).map(|i| format!("{i},fine,x\n")).collect();
    for (file, rows, line) in [
        ("id,note,city\n1,\"unfinished,Oslo\n2,fine,Rome\n", 2, 2),
        // Another value in marks, and one with a mark at its end, follow later.
        ("id,note,city\n1,\"unfinished,Oslo\n2,\"fine\",Rome\n", 2, 2),
        (
            &format!("id,note,city\n1,\"unfinished,Oslo\n2,a,b\n{long_rows}99,5\",Rome\n"),
            60,
            2,
        ),
        ("sep=,\nid,note\n1,\"x\n2,y\n", 2, 3),
    ] {
        let (text, warning) = with_warning(file, None);
        assert_eq!(text.split("\n\n").count(), rows, "{text}");
        assert_eq!(warning, told(line));
    }
    // Inches in TSV, which has no marks.
    let (text, _) = with_warning("part\tsize\nA\t\"5 inch\nB\t7\"\nC\t\"all\"\n", Some(b'\t'));
    assert_eq!(
        text,
        "part: A\nsize: \"5 inch\n\npart: B\nsize: 7\"\n\npart: C\nsize: all"
    );
    // But long texts of several lines are values, and spreadsheets write lines in TSV.
    let letter = "Dear all,\nthis is a letter, with commas,\nand lines.\n\nBye,\nAnn";
    let (text, warning) = with_warning(&format!("id,letter\n1,\"{letter}\"\n2,x\n"), None);
    assert_eq!(
        text,
        format!(
            "id: 1\nletter: {}\n\nid: 2\nletter: x",
            letter.replace("\n\n", "\n")
        )
    );
    assert_eq!(warning, "");
    let (text, warning) = with_warning("a\tb\n1\t\"two\nlines\"\n", Some(b'\t'));
    assert_eq!(
        (text.as_str(), warning.as_str()),
        ("a: 1\nb: two\nlines", "")
    );
}

#[test]
fn marks_may_be_escaped_with_a_backslash() {
    assert_eq!(
        text("id,quote,by\n1,\"He said \\\"stop, now\\\" loudly\",Ann\n2,\"a \\\\ b\",Bob\n"),
        "id: 1\nquote: He said \"stop, now\" loudly\nby: Ann\n\nid: 2\nquote: a \\ b\nby: Bob"
    );
    // A path that ends in a backslash is not.
    assert_eq!(
        text("path,who\n\"C:\\dir\\\",Ann\n\"D:\\\",Bob\n"),
        "path: C:\\dir\\\nwho: Ann\n\npath: D:\\\nwho: Bob"
    );
}

#[test]
fn hostile_files_are_read_in_time() {
    let mark = "\"a,".repeat(200_000);
    let lines = "\"a\n".repeat(200_000);
    let open = format!("{}\n{}\"", mark, "x,y\n".repeat(200_000));
    for file in [
        &mark,
        &lines,
        &open,
        &",".repeat(1_000_000),
        &"\"".repeat(1_000_001),
        "\"",
        "sep=",
        "#",
        ",",
        "\u{feff}",
    ] {
        let _ = super::extract(file, "a.csv", None);
        let _ = super::extract(file, "a.tsv", Some(b'\t'));
    }
}

#[test]
fn many_columns_of_the_same_name_take_little_time() {
    let file = format!("{}\n1,2", "a,b,".repeat(200_000));
    assert_eq!(text(&file), "a: 1\nb: 2");
}
