//! Workbooks of Excel and LibreOffice: `.xlsx`, `.xlsb`, `.xls`, `.ods`. Each row of a sheet is a
//! record, as in CSV.
//!
//! Values are those that were computed last. Numbers are as they are stored, and dates as
//! 2024-05-01. Hidden sheets are left out and counted. Empty cells cost nothing, however many a
//! sheet claims to have: cells are read one by one.

use std::{
    borrow::Cow,
    fmt::Display,
    io::Cursor,
    panic::{AssertUnwindSafe, catch_unwind},
};

use calamine::{
    Cell, Data, DataRef, ExcelDateTime, Reader, SheetType, SheetVisible, Xls, Xlsb, Xlsx,
};
use rag_protocol::ingest::Stage;

use super::{TooLong, Writer, csv, records};
use crate::{
    DocumentError, ExtractedDocument, odf,
    package::{Package, is_encrypted, malformed},
    title, xml,
};

mod ods;
mod xls;

/// What the file is, for messages.
const FORMAT: &str = "workbook";
/// Number of rows by which the names are found.
const HEAD: usize = 32;

/// Maximum number of columns: that of Excel.
const MAX_COLUMNS: u32 = 1 << 14;

/// The cells of a row that are not empty, by their column from 0.
type Row = Vec<(usize, String)>;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    if odf::is_open_document(bytes) {
        return read_ods(&odf::Parts::open(bytes, FORMAT)?, name);
    }
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
    let mut extracted = sheets.finish(name);
    if let Some(title) = declared.as_deref().and_then(title::own) {
        extracted.title = title;
    }
    Ok(extracted)
}

fn read_ods(parts: &odf::Parts, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut sheets = Sheets::default();
    ods::read(parts, &mut sheets)?;
    let mut extracted = sheets.finish(name);
    parts.describe(&mut extracted);
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
    /// The name of each sheet is written above its rows.
    are_named: bool,
}

impl Default for Sheets {
    fn default() -> Self {
        Self {
            writer: Writer::unrelated(),
            hidden: 0,
            are_named: false,
        }
    }
}

impl Sheets {
    fn finish(self, name: &str) -> ExtractedDocument {
        let mut extracted = records(self.writer.text, name);
        extracted.lost(self.hidden, "hidden sheet", "hidden sheets", "left out");
        extracted
    }

    /// Returns the names of the sheets to read.
    fn choose(&mut self, all: &[calamine::Sheet]) -> Vec<String> {
        let sheets = all.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet);
        let (shown, hidden): (Vec<_>, Vec<_>) =
            sheets.partition(|sheet| sheet.visible == SheetVisible::Visible);
        self.hidden = hidden.len();
        let names: Vec<String> = shown.iter().map(|sheet| sheet.name.clone()).collect();
        self.are_named = names.len() > 1;
        names
    }

    /// Adds the rows of a sheet.
    fn add(
        &mut self,
        name: &str,
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
        if self.are_named {
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

fn damaged(why: impl Display) -> DocumentError {
    malformed(FORMAT, &why)
}

fn read_xlsx(mut book: Xlsx<Cursor<&[u8]>>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    for name in sheets.choose(book.sheets_metadata()) {
        let mut cells = book.worksheet_cells_reader(&name).map_err(damaged)?;
        sheets.add(&name, rows(|| cells.next_cell()))?;
    }
    Ok(())
}

fn read_xlsb(source: Cursor<&[u8]>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    let mut book = Xlsb::new(source).map_err(damaged)?;
    for name in sheets.choose(book.sheets_metadata()) {
        let mut cells = book.worksheet_cells_reader(&name).map_err(damaged)?;
        sheets.add(&name, rows(|| cells.next_cell()))?;
    }
    Ok(())
}

fn read_xls(source: Cursor<&[u8]>, sheets: &mut Sheets) -> Result<(), DocumentError> {
    xls::check(source.get_ref()).map_err(damaged)?;
    let mut book = Xls::new(source).map_err(damaged)?;
    for name in sheets.choose(book.sheets_metadata()) {
        let range = book.worksheet_range(&name).map_err(damaged)?;
        let mut lines = range.rows();
        let next = || {
            // An empty row is no record.
            let cells = lines.next();
            Ok(cells.map(|cells| {
                let cells = cells.iter().cloned().map(shown).enumerate();
                cells.filter(|(_, value)| !value.is_empty()).collect()
            }))
        };
        sheets.add(&name, next)?;
    }
    Ok(())
}

/// Puts the cells of a sheet together to rows.
fn rows<'a, E: Display>(
    mut next: impl FnMut() -> Result<Option<Cell<DataRef<'a>>>, E>,
) -> impl FnMut() -> Result<Option<Row>, DocumentError> {
    let mut next = move || {
        let cell = next().map_err(damaged)?;
        Ok::<_, DocumentError>(
            cell.map(|cell| (cell.get_position(), shown(cell.get_value().clone().into()))),
        )
    };
    let mut ahead = None;
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
            if value.trim().is_empty() || column >= MAX_COLUMNS {
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

fn shown(value: Data) -> String {
    match value {
        Data::Int(number) => number.to_string(),
        Data::Float(number) => written(number),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text,
        Data::Bool(is_true) => if is_true { "TRUE" } else { "FALSE" }.to_owned(),
        Data::DateTime(time) => time_of(&time),
        Data::Error(error) => error.to_string(),
        _ => String::new(),
    }
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
