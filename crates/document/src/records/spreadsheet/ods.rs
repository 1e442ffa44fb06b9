//! Sheets of OpenDocument. Rows are read one by one: equal cells and rows are written once in the
//! file with their number, which may be 1,000,000,000.

use quick_xml::{
    Reader,
    errors::Error,
    events::{BytesStart, Event},
};

use super::{MAX_COLUMNS, Row, Sheets, damaged, written};
use crate::{
    DocumentError,
    odf::{Parts, Styles},
    xml::{self, attribute},
};

/// Maximum number of spaces that one element stands for.
const MAX_SPACES: usize = 100;

pub fn read(parts: &Parts, sheets: &mut Sheets) -> Result<(), DocumentError> {
    let styles = parts.styles()?;
    let (mut shown, mut tables) = (0, reader(&parts.content));
    while let Some(table) = next_table(&mut tables).map_err(damaged)? {
        match is_hidden(&table, &styles) {
            true => sheets.hidden += 1,
            false => shown += 1,
        }
        tables.read_to_end(table.name()).map_err(damaged)?;
    }
    sheets.are_named = shown > 1;
    let mut tables = reader(&parts.content);
    while let Some(table) = next_table(&mut tables).map_err(damaged)? {
        if is_hidden(&table, &styles) {
            tables.read_to_end(table.name()).map_err(damaged)?;
            continue;
        }
        let name = attribute(&table, "name").unwrap_or_default();
        let mut rows = Rows {
            reader: &mut tables,
            row: vec![],
            left: 0,
            is_over: false,
        };
        sheets.add(&name, || rows.next().map_err(damaged))?;
    }
    Ok(())
}

fn reader(content: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(content);
    reader.config_mut().expand_empty_elements = true;
    reader
}

/// Returns the element with which the next sheet begins.
fn next_table<'a>(reader: &mut Reader<&'a [u8]>) -> Result<Option<BytesStart<'a>>, Error> {
    loop {
        match reader.read_event()? {
            Event::Start(element) => match element.local_name().into_inner() {
                "table" => return Ok(Some(element)),
                "tracked-changes" | "styles" | "automatic-styles" | "master-styles" => {
                    reader.read_to_end(element.name())?;
                }
                _ => {}
            },
            Event::Eof => return Ok(None),
            _ => {}
        }
    }
}

fn is_hidden(table: &BytesStart, styles: &Styles) -> bool {
    let style = attribute(table, "style-name").unwrap_or_default();
    styles.is_hidden("table", &style) == Some(true)
}

/// The rows of the sheet that is being read.
struct Rows<'a, 'b> {
    reader: &'b mut Reader<&'a [u8]>,
    row: Row,
    /// How many rows equal to the last one follow.
    left: usize,
    is_over: bool,
}

impl Rows<'_, '_> {
    /// Returns the next row that is not empty.
    fn next(&mut self) -> Result<Option<Row>, Error> {
        if self.left > 0 {
            self.left -= 1;
            return Ok(Some(self.row.clone()));
        }
        while !self.is_over {
            match self.reader.read_event()? {
                Event::Start(element) => match element.local_name().into_inner() {
                    "table-row" => {
                        self.row = self.read_row()?;
                        if !self.row.is_empty() {
                            self.left = repeated(&element, "number-rows-repeated") - 1;
                            return Ok(Some(self.row.clone()));
                        }
                    }
                    "table" | "shapes" | "forms" => {
                        self.reader.read_to_end(element.name())?;
                    }
                    _ => {}
                },
                Event::End(element) if element.local_name().into_inner() == "table" => {
                    self.is_over = true;
                }
                Event::Eof => return Err(cut()),
                _ => {}
            }
        }
        Ok(None)
    }

    fn read_row(&mut self) -> Result<Row, Error> {
        let mut row: Row = vec![];
        let mut column = 0usize;
        loop {
            match self.reader.read_event()? {
                Event::Start(element) => {
                    if !element.local_name().into_inner().ends_with("table-cell") {
                        continue;
                    }
                    let count = repeated(&element, "number-columns-repeated");
                    let value = self.read_cell(&element)?;
                    let most = MAX_COLUMNS as usize;
                    let end = column.saturating_add(count).min(most);
                    if !value.trim().is_empty() {
                        row.extend((column..end).map(|at| (at, value.clone())));
                    }
                    column = end;
                }
                Event::End(element) if element.local_name().into_inner() == "table-row" => {
                    return Ok(row);
                }
                Event::Eof => return Err(cut()),
                _ => {}
            }
        }
    }

    /// Reads a cell up to its end.
    fn read_cell(&mut self, cell: &BytesStart) -> Result<String, Error> {
        let mut text = String::new();
        let (mut in_paragraph, mut depth) = (false, 0usize);
        loop {
            match &self.reader.read_event()? {
                Event::Start(element) => {
                    depth += 1;
                    match element.local_name().into_inner() {
                        // Comments and drawings.
                        "annotation" | "frame" | "custom-shape" | "g" | "detective" | "table" => {
                            self.reader.read_to_end(element.name())?;
                            depth -= 1;
                        }
                        "p" => {
                            if in_paragraph || !text.is_empty() {
                                text.push('\n');
                            }
                            in_paragraph = true;
                        }
                        "s" => {
                            let count = attribute(element, "c").and_then(|n| n.parse().ok());
                            text.push_str(&" ".repeat(count.unwrap_or(1).min(MAX_SPACES)));
                        }
                        "tab" => text.push('\t'),
                        "line-break" => text.push('\n'),
                        _ => {}
                    }
                }
                Event::End(_) if depth == 0 => break,
                Event::End(element) => {
                    depth -= 1;
                    in_paragraph &= element.local_name().into_inner() != "p";
                }
                Event::Eof => return Err(cut()),
                event => {
                    if let (true, Some(piece)) = (in_paragraph, xml::text(event)) {
                        text.push_str(&piece.replace(['\n', '\r', '\t'], " "));
                    }
                }
            }
        }
        Ok(value(cell, text))
    }
}

fn repeated(element: &BytesStart, name: &str) -> usize {
    let count = attribute(element, name).and_then(|n| n.parse().ok());
    count.unwrap_or(1).max(1)
}

fn cut() -> Error {
    quick_xml::errors::IllFormedError::MissingEndTag("table:table".into()).into()
}

/// Returns the value of a cell as the reader of Excel writes it.
fn value(cell: &BytesStart, text: String) -> String {
    let of = |name| attribute(cell, name).filter(|value| !value.is_empty());
    let value = match of("value-type").unwrap_or_default().as_str() {
        "float" | "percentage" | "currency" => of("value").map(|value| match value.parse() {
            Ok(number) => written(number),
            Err(_) => value,
        }),
        "date" => of("date-value").map(|date| {
            let date = date.split('.').next().unwrap_or_default();
            date.trim_end_matches("T00:00:00").replace('T', " ")
        }),
        "time" => of("time-value").map(|time| duration(&time).unwrap_or(time)),
        "boolean" => of("boolean-value").map(|value| value.to_uppercase()),
        _ if text.is_empty() => of("string-value"),
        _ => None,
    };
    value.unwrap_or(text)
}

/// Reads a time such as `PT08H30M00S`.
fn duration(time: &str) -> Option<String> {
    let (hours, rest) = time.strip_prefix("PT")?.split_once('H')?;
    let (minutes, rest) = rest.split_once('M')?;
    let seconds = rest.strip_suffix('S')?.split(['.', ',']).next()?;
    let number = |digits: &str| digits.parse::<u32>().ok();
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    Some(format!("{hours:02}:{minutes:02}:{seconds:02}"))
}

#[cfg(test)]
mod tests {
    use crate::{ExtractedDocument, package::tests::packed, records::spreadsheet::extract};

    fn read(tables: &str) -> Result<ExtractedDocument, crate::DocumentError> {
        let xml = format!(
            "<office:document-content xmlns:office=\
             \"urn:oasis:names:tc:opendocument:xmlns:office:1.0\"><office:automatic-styles>\
             <style:style style:name=\"ta2\" style:family=\"table\"><style:table-properties \
             table:display=\"false\"/></style:style></office:automatic-styles><office:body>\
             <office:spreadsheet>{tables}</office:spreadsheet></office:body>\
             </office:document-content>"
        );
        extract(&packed(&[("content.xml", xml.as_bytes())]), "a.ods")
    }

    fn cell(more: &str, words: &str) -> String {
        format!("<table:table-cell {more}><text:p>{words}</text:p></table:table-cell>")
    }

    fn row(cells: &str) -> String {
        format!("<table:table-row>{cells}</table:table-row>")
    }

    fn number(value: &str, shown: &str) -> String {
        let more = format!("office:value-type=\"float\" office:value=\"{value}\"");
        cell(&more, shown)
    }

    #[test]
    fn rows_are_records_with_the_values_that_are_stored() {
        let names = row(&["name", "price", "day", "at", "new"]
            .map(|name| cell("", name))
            .concat());
        let tea = row(&[
            cell(
                "",
                "Green <text:span>tea<text:s text:c=\"2\"/></text:span>x",
            ),
            number("2.5", "2,50 €"),
            cell(
                "office:value-type=\"date\" office:date-value=\"2024-05-01\"",
                "1. Mai",
            ),
            cell(
                "office:value-type=\"time\" office:time-value=\"PT08H30M00S\"",
                "8:30",
            ),
            cell(
                "office:value-type=\"boolean\" office:boolean-value=\"true\"",
                "WAHR",
            ),
        ]
        .concat());
        let notes = "<office:annotation><text:p>no</text:p></office:annotation><text:p>two</text:p>\
            <text:p>lines</text:p>";
        let coffee = row(&format!(
            "<table:table-cell>{notes}</table:table-cell>{}",
            number("3", "3")
        ));
        let empty = "<table:table-row table:number-rows-repeated=\"1048000\"><table:table-cell \
            table:number-columns-repeated=\"16384\"/></table:table-row>";
        let twice = "<table:table-row table:number-rows-repeated=\"2\"><table:table-cell \
            table:number-columns-repeated=\"2\" office:value-type=\"float\" office:value=\"1\">\
            <text:p>1</text:p></table:table-cell></table:table-row>";
        let body = format!(
            "<table:table table:name=\"A\"><table:table-header-rows>{names}\
             </table:table-header-rows>{tea}{empty}{coffee}{twice}{empty}</table:table>\
             <table:table table:name=\"B\" table:style-name=\"ta2\">{tea}</table:table>"
        );
        let read = read(&body).unwrap();
        assert_eq!(
            read.text,
            "name: Green tea  x\nprice: 2.5\nday: 2024-05-01\nat: 08:30:00\nnew: TRUE\n\n\
             name: two\nlines\nprice: 3\n\nname: 1\nprice: 1\n\nname: 1\nprice: 1"
        );
        assert_eq!(read.warnings[0].message, "1 hidden sheet was left out");
    }

    #[test]
    fn claimed_cells_cut_files_and_damage_are_refused() {
        let claimed = "<table:table><table:table-row table:number-rows-repeated=\"1000000000\">\
            <table:table-cell table:number-columns-repeated=\"1000000000\"><text:p>x</text:p>\
            </table:table-cell></table:table-row></table:table>";
        assert_eq!(
            read(claimed).unwrap_err().message,
            "the text of the workbook would be too long"
        );
        let cut = "<table:table><table:table-row><table:table-cell>";
        let message = read(cut).unwrap_err().message;
        assert!(
            message.starts_with("the workbook is malformed"),
            "{message}"
        );
        for tag in [
            "table:table",
            "table:table-row",
            "table:table-cell",
            "text:p",
        ] {
            let _ =
                read(&(format!("<{tag}>").repeat(50_000) + &format!("</{tag}>").repeat(50_000)));
        }
    }
}
