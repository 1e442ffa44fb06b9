//! CSV and TSV.
//!
//! The delimiter of a `.csv` file is comma, semicolon, tab or bar: the one that cuts it into more
//! columns, and its rows more evenly. A line `sep=;` names it. See the module `dialect`.
//!
//! The first row holds the names of the columns, unless one of its cells is a number. Years are
//! names above other numbers. A column without a name is called `column 3`, and the second one with
//! a name gets a number: `Date 2`. Titles and remarks above the table are a text of their own. See
//! the module `names`.

use std::borrow::Cow;

use rag_protocol::ingest::Stage;

use super::{TooLong, Writer, as_written, records};
use crate::ExtractedDocument;

mod dialect;
pub mod names;
mod rows;

use rows::Rows;

/// Number of rows by which the names are found.
const HEAD: usize = 32;

pub fn extract(file: &str, name: &str, delimiter: Option<u8>) -> ExtractedDocument {
    let (delimiter, table) = match dialect::named_delimiter(file) {
        Some((named, rest)) => (Some(named), rest),
        None => (delimiter, file),
    };
    let mut rows = Rows::new(table, dialect::of(table, delimiter));
    let mut writer = Writer::new(file);
    match convert(&mut rows, &mut writer) {
        Ok(()) if writer.text.is_empty() => {
            // Only a header.
            let why = "the file has no records and was kept as written";
            as_written(file, name, why.into())
        }
        Ok(()) => {
            let mut extracted = records(writer.text, name);
            if let (count @ 1.., first) = rows.unclosed {
                let line = rows.line(first) + usize::from(table.len() < file.len());
                let marks = if count == 1 {
                    "1 quotation mark is not closed and was".to_owned()
                } else {
                    format!("{count} quotation marks are not closed and were")
                };
                let warning = format!("{marks} read as a part of the text; line {line}");
                extracted.warn(Stage::Extract, warning);
            }
            extracted
        }
        Err(TooLong) => {
            let why = "the file would be too long as records and was kept as written";
            as_written(file, name, why.into())
        }
    }
}

fn convert(rows: &mut Rows, writer: &mut Writer) -> Result<(), TooLong> {
    let width = rows.width();
    let head: Vec<Vec<Cow<str>>> = rows.by_ref().take(HEAD).collect();
    let (above, names) = names::find(&head, width);
    let first = above + usize::from(names.is_some());
    let names = names.unwrap_or_default();
    writer.end_record();
    for row in &head[..above] {
        write_remark(row, writer)?;
    }
    for row in head.into_iter().skip(first).chain(rows) {
        writer.end_record();
        if row.len() < width && names::is_comment(&row, width) {
            write_remark(&row, writer)?;
        } else {
            write(&row, &names, writer)?;
        }
    }
    Ok(())
}

/// Adds a row that is no part of the table.
pub(super) fn write_remark(row: &[Cow<str>], writer: &mut Writer) -> Result<(), TooLong> {
    let values: Vec<&str> = row.iter().map(|value| &**value).collect();
    let values: Vec<&str> = values
        .into_iter()
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        return Ok(());
    }
    writer.field("")?;
    writer.value(&values.join(", "))
}

fn write(row: &[Cow<str>], names: &[String], writer: &mut Writer) -> Result<(), TooLong> {
    let cells = row.iter().enumerate();
    cells
        .filter(|(_, value)| !value.is_empty())
        .try_for_each(|(column, value)| write_cell(column, value, names, writer))
}

/// Adds a value under the name of its column.
pub(super) fn write_cell(
    column: usize,
    value: &str,
    names: &[String],
    writer: &mut Writer,
) -> Result<(), TooLong> {
    match names.get(column).filter(|name| !name.is_empty()) {
        Some(name) => writer.field(name)?,
        None => writer.field(&format!("column {}", column + 1))?,
    }
    writer.value(value)
}

#[cfg(test)]
mod tests;
