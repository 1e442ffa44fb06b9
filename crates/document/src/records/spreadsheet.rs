//! Workbooks of Excel: `.xlsx`, `.xlsb`, `.xls`. Each row of a sheet is a record, as in CSV.
//!
//! Values are those that were computed last. Numbers are as they are stored, and dates as
//! 2024-05-01. Hidden sheets are left out and counted. Empty cells cost nothing, however many a
//! sheet claims to have: cells are read one by one.

use std::{
    borrow::Cow,
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

use calamine::{Data, DataRef, ExcelDateTime, Reader, SheetType, SheetVisible, Xls, Xlsb, Xlsx};
use rag_protocol::ingest::Stage;

use super::{TooLong, Writer, csv, records};
use crate::{
    DocumentError, ExtractedDocument,
    package::{Package, is_encrypted, malformed},
    title, xml,
};

/// What the file is, for messages.
const FORMAT: &str = "workbook";
/// Number of rows by which the names are found.
const HEAD: usize = 32;

/// The cells of a row that are not empty, by their column from 0.
type Row = Vec<(usize, String)>;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut declared = None;
    if bytes.starts_with(b"PK") || is_encrypted(bytes) {
        let mut package = Package::open(bytes, FORMAT)?;
        package.check(&[".xml", ".bin", ".rels"])?;
        let core = package.text("docProps/core.xml")?;
        declared = core.and_then(|core| xml::text_of(&core, "title"));
    }
    // The library may panic on damaged files.
    let sheets = match catch_unwind(AssertUnwindSafe(|| read(bytes))) {
        Ok(read) => read?,
        Err(_) => return Err(malformed(FORMAT, &"its cells cannot be read")),
    };
    let mut extracted = records(sheets.writer.text, name);
    if let Some(title) = declared.as_deref().and_then(title::own) {
        extracted.title = title;
    }
    extracted.lost(sheets.hidden, "hidden sheet", "hidden sheets", "left out");
    Ok(extracted)
}

fn read(bytes: &[u8]) -> Result<Sheets, DocumentError> {
    let mut sheets = Sheets::default();
    let source = Cursor::new(bytes);
    if !bytes.starts_with(b"PK") {
        read_xls(source, &mut sheets)?;
    } else if let Ok(book) = Xlsx::new(source.clone()) {
        read_xlsx(book, &mut sheets)?;
    } else {
        read_xlsb(source, &mut sheets)?;
    }
    Ok(sheets)
}

/// What has been read of the sheets.
struct Sheets {
    writer: Writer,
    hidden: usize,
}

impl Default for Sheets {
    fn default() -> Self {
        Self {
            writer: Writer::unrelated(),
            hidden: 0,
        }
    }
}

impl Sheets {
    /// Returns the names of the sheets to read, and whether each is written above its rows.
    fn choose(&mut self, all: &[calamine::Sheet]) -> (Vec<String>, bool) {
        let sheets = all.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
        let (shown, hidden): (Vec<_>, Vec<_>) =
            sheets.partition(|sheet| sheet.visible == SheetVisible::Visible);
        self.hidden = hidden.len();
        let names: Vec<String> = shown.iter().map(|sheet| sheet.name.clone()).collect();
        let is_named = names.len() > 1;
        (names, is_named)
    }

    /// Adds the rows of a sheet.
    fn add(
        &mut self,
        name: Option<&str>,
        mut next: impl FnMut() -> Result<Option<Row>, DocumentError>,
    ) -> Result<(), DocumentError> {
        let mut head: Vec<Row> = vec![];
        while head.len() < HEAD
            && let Some(row) = next()?
        {
            head.push(row);
        }
        if head.is_empty() {
            return Ok(());
        }
        let width = |row: &Row| row.last().map_or(0, |(column, _)| column + 1);
        let widest = head.iter().map(width).max().unwrap_or(0);
        let whole: Vec<Vec<Cow<str>>> = head.iter().map(whole).collect();
        let (above, names) = csv::names::find(&whole, widest);
        // A single word in a wide sheet is no row of names.
        let is_filled = |name: &&String| !name.is_empty();
        let names = names.filter(|names| widest == 1 || names.iter().filter(is_filled).count() > 1);
        let first = above + usize::from(names.is_some());
        let names = names.unwrap_or_default();
        self.writer.end_record();
        if let Some(name) = name {
            csv::write_remark(&[name.into()], &mut self.writer).map_err(too_long)?;
        }
        for row in &whole[..above] {
            csv::write_remark(row, &mut self.writer).map_err(too_long)?;
        }
        let mut rest = head.into_iter().skip(first);
        loop {
            let row = match rest.next() {
                Some(row) => row,
                None => match next()? {
                    Some(row) => row,
                    None => return Ok(()),
                },
            };
            self.writer.end_record();
            for (column, value) in row {
                csv::write_cell(column, &value, &names, &mut self.writer).map_err(too_long)?;
            }
        }
    }
}

/// Returns a row with its empty cells.
fn whole(row: &Row) -> Vec<Cow<'_, str>> {
    let mut cells = vec![];
    for (column, value) in row {
        cells.resize(*column, "".into());
        cells.push(value.as_str().into());
    }
    cells
}

fn too_long(_: TooLong) -> DocumentError {
    DocumentError::new(Stage::Extract, "the text of the workbook would be too long")
        .hint("Split the workbook, or export its sheets as CSV.")
}

fn read_xlsx(mut book: Xlsx<Cursor<&[u8]>>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    let (names, is_named) = sheets.choose(book.sheets_metadata());
    for name in names {
        let reader = book.worksheet_cells_reader(&name);
        let mut cells = reader.map_err(|e| malformed(FORMAT, &e))?;
        let next = rows(|| {
            let cell = cells.next_cell().map_err(|e| malformed(FORMAT, &e))?;
            Ok(cell.map(|cell| (cell.get_position(), of_ref(cell.get_value()))))
        });
        sheets.add(Some(&*name).filter(|_| is_named), next)?;
    }
    Ok(())
}

fn read_xlsb(source: Cursor<&[u8]>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    let mut book = Xlsb::new(source).map_err(|e| malformed(FORMAT, &e))?;
    let (names, is_named) = sheets.choose(book.sheets_metadata());
    for name in names {
        let reader = book.worksheet_cells_reader(&name);
        let mut cells = reader.map_err(|e| malformed(FORMAT, &e))?;
        let next = rows(|| {
            let cell = cells.next_cell().map_err(|e| malformed(FORMAT, &e))?;
            Ok(cell.map(|cell| (cell.get_position(), of_ref(cell.get_value()))))
        });
        sheets.add(Some(&*name).filter(|_| is_named), next)?;
    }
    Ok(())
}

fn read_xls(source: Cursor<&[u8]>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    let mut book = Xls::new(source).map_err(|e| malformed(FORMAT, &e))?;
    let (names, is_named) = sheets.choose(book.sheets_metadata());
    for name in names {
        let range = book.worksheet_range(&name);
        let range = range.map_err(|e| malformed(FORMAT, &e))?;
        let mut lines = range.rows();
        let next = || {
            // An empty row is no record.
            let cells = lines.next();
            Ok(cells.map(|cells| {
                let cells = cells.iter().map(of_data).enumerate();
                cells.filter(|(_, value)| !value.is_empty()).collect()
            }))
        };
        sheets.add(Some(&*name).filter(|_| is_named), next)?;
    }
    Ok(())
}

/// A cell by its row and column.
type Place = (u32, u32);

/// Puts the cells of a sheet together to rows.
fn rows(
    mut next: impl FnMut() -> Result<Option<(Place, String)>, DocumentError>,
) -> impl FnMut() -> Result<Option<Row>, DocumentError> {
    let mut ahead: Option<(Place, String)> = None;
    let mut is_over = false;
    move || {
        let mut row: Row = vec![];
        let mut at = None;
        while !is_over {
            let cell = match ahead.take() {
                Some(cell) => Some(cell),
                None => next()?,
            };
            let Some(((line, column), value)) = cell else {
                is_over = true;
                break;
            };
            if value.trim().is_empty() {
                continue;
            }
            if at.is_some_and(|at| at != line) {
                ahead = Some(((line, column), value));
                return Ok(Some(row));
            }
            at = Some(line);
            // Cells of a damaged file may be out of order.
            let column = column as usize;
            if row.last().is_none_or(|(last, _)| *last < column) {
                row.push((column, value));
            }
        }
        Ok(Some(row).filter(|row| !row.is_empty()))
    }
}

fn of_ref(value: &DataRef) -> String {
    match value {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => written(*number),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => {
            text.clone()
        }
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(is_true) => truth(*is_true),
        DataRef::DateTime(time) => time_of(time),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

fn of_data(value: &Data) -> String {
    match value {
        Data::Int(number) => number.to_string(),
        Data::Float(number) => written(*number),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        Data::Bool(is_true) => truth(*is_true),
        Data::DateTime(time) => time_of(time),
        Data::Error(error) => error.to_string(),
        _ => String::new(),
    }
}

fn truth(is_true: bool) -> String {
    if is_true { "TRUE" } else { "FALSE" }.to_owned()
}

/// Writes a number with the 15 digits that Excel shows.
fn written(number: f64) -> String {
    let rounded = format!("{number:.14e}").parse().unwrap_or(number);
    rounded.to_string()
}

fn time_of(time: &ExcelDateTime) -> String {
    let days = time.as_f64();
    if !days.is_finite() || !(0.0..3_000_000.0).contains(&days) {
        return written(days);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    if time.is_duration() {
        let seconds = (days * 86_400.0).round() as u64;
        return format!(
            "{}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
    }
    match (days < 1.0, clock.as_str()) {
        (true, _) => clock,
        (false, "00:00:00") => format!("{year:04}-{month:02}-{day:02}"),
        (false, _) => format!("{year:04}-{month:02}-{day:02} {clock}"),
    }
}

#[cfg(test)]
mod tests;
