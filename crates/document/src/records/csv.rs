//! CSV and TSV.
//!
//! The delimiter of a `.csv` file is comma, semicolon, tab or bar, whichever cuts its first lines
//! most evenly. The first row holds the names of the fields, unless one of its cells is empty
//! (except the first), a number, or repeated. Then the fields are named `column 1`, `column 2` and
//! so on, like cells beyond the last name.

use csv::{ReaderBuilder, StringRecord, Terminator, Trim};

use super::{TooLong, Writer, as_written, field_name, records};
use crate::ExtractedDocument;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Number of rows by which a delimiter is chosen.
const SAMPLE: usize = 20;

pub fn extract(file: &str, name: &str, delimiter: Option<u8>) -> ExtractedDocument {
    let delimiter = delimiter.unwrap_or_else(|| likely_delimiter(file));
    match convert(file, delimiter) {
        Ok(text) => records(text, name),
        Err(why) => as_written(file, name, why),
    }
}

fn rows(file: &str, delimiter: u8) -> csv::Reader<&[u8]> {
    ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .terminator(Terminator::CRLF)
        .from_reader(file.as_bytes())
}

fn convert(file: &str, delimiter: u8) -> Result<String, String> {
    let too_long =
        |_: TooLong| "the file would be too long as records and was kept as written".to_owned();
    let mut rows = rows(file, delimiter);
    let mut row = StringRecord::new();
    let mut writer = Writer::new(file);
    let mut names: Option<Vec<String>> = None;
    let mut read = |row: &mut StringRecord| {
        rows.read_record(row)
            .map_err(|e| format!("the file is not valid CSV and was kept as written: {e}"))
    };
    while read(&mut row)? {
        let Some(names) = &names else {
            let first = names_in(&row);
            let is_header = first.is_some();
            names = Some(first.unwrap_or_default());
            if !is_header {
                write(&row, &[], &mut writer).map_err(too_long)?;
            }
            continue;
        };
        write(&row, names, &mut writer).map_err(too_long)?;
    }
    if writer.text.is_empty() {
        // Only a header.
        return Err("the file has no records and was kept as written".into());
    }
    Ok(writer.text)
}

fn write(row: &StringRecord, names: &[String], writer: &mut Writer) -> Result<(), TooLong> {
    writer.end_record();
    for (i, value) in row.iter().enumerate() {
        if value.trim().is_empty() {
            continue;
        }
        match names.get(i).filter(|name| !name.is_empty()) {
            Some(name) => writer.field(name)?,
            None => writer.field(&format!("column {}", i + 1))?,
        }
        writer.value(value)?;
    }
    Ok(())
}

/// Returns the names of the fields, if the row looks like names.
fn names_in(row: &StringRecord) -> Option<Vec<String>> {
    let names: Vec<String> = row.iter().map(field_name).collect();
    let is_name = |(i, name): (usize, &String)| {
        (i == 0 && names.len() > 1 && name.is_empty())
            || (name.chars().any(char::is_alphabetic) && name.parse::<f64>().is_err())
    };
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == names.len() && names.iter().enumerate().all(is_name)).then_some(names)
}

fn likely_delimiter(file: &str) -> u8 {
    let evenness = |delimiter: &u8| {
        let mut widths = vec![];
        let mut rows = rows(file, *delimiter);
        let mut row = StringRecord::new();
        while widths.len() < SAMPLE && rows.read_record(&mut row).unwrap_or(false) {
            widths.push(row.len());
        }
        let width = widths.first().copied().unwrap_or(1);
        let even = widths.iter().filter(|w| **w == width).count();
        // Many equal rows first, then many columns.
        if width < 2 {
            (0, 0)
        } else {
            (even * 100 / widths.len().max(1), width)
        }
    };
    // Of equal candidates the first.
    DELIMITERS
        .into_iter()
        .rev()
        .max_by_key(evenness)
        .unwrap_or(b',')
}

#[cfg(test)]
mod tests {
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
}
