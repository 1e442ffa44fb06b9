//! Finds the tables of a Markdown text. A chunk that begins among the rows of one gets its head:
//! otherwise nothing says what the columns are.

use std::ops::Range;

use crate::Structure;

/// Maximum length of a head, in bytes. Longer ones would take the room of the rows.
const MAX_HEAD: usize = 1_000;

/// A table with rows below its head.
pub struct Table {
    /// The names of the columns.
    pub names: Range<usize>,
    /// The line below them: `|---|:-:|`.
    delimiter: Range<usize>,
    /// The rows.
    pub body: Range<usize>,
}

impl Table {
    /// Returns what goes before rows to make a table of them. Dashes that only fill the line up are
    /// left out.
    pub fn head(&self, text: &str) -> String {
        const DASHES: usize = 3;
        let mut head = format!("{}\n", text[self.names.clone()].trim());
        let mut dashes = 0;
        for c in text[self.delimiter.clone()].trim().chars() {
            dashes = if c == '-' { dashes + 1 } else { 0 };
            if dashes <= DASHES {
                head.push(c);
            }
        }
        head.push('\n');
        head
    }
}

/// Returns the tables of a text, in order.
pub fn of(text: &str, structure: &Structure) -> Vec<Table> {
    let Structure::Sections { code, .. } = structure else {
        return vec![];
    };
    if !text.contains("-|") && !text.contains("- |") && !text.contains(":|") && !text.contains("|-")
    {
        return vec![];
    }
    let mut tables: Vec<Table> = vec![];
    let mut codes = code.iter().peekable();
    let mut at = 0;
    let mut before: Option<Range<usize>> = None;
    let mut is_table = false;
    for line in text.split_inclusive('\n') {
        let place = at..at + line.len();
        at = place.end;
        while codes.next_if(|(_, end)| *end <= place.start).is_some() {}
        let in_code = codes.peek().is_some_and(|(start, _)| *start <= place.start);
        let is_row = !in_code && line.contains('|');
        if is_table && is_row {
            if let Some(table) = tables.last_mut() {
                table.body.end = place.end;
            }
        } else {
            let head = before.take().filter(|_| is_row && is_delimiter(line));
            is_table = head.is_some();
            tables.extend(
                head.filter(|head| head.len() <= MAX_HEAD)
                    .map(|names| Table {
                        names,
                        delimiter: place.clone(),
                        body: place.end..place.end,
                    }),
            );
        }
        before = is_row.then_some(place);
    }
    tables
}

/// Returns true for the line between a head and its rows: `|---|:-:|`.
fn is_delimiter(line: &str) -> bool {
    let line = line.trim().trim_start_matches('>').trim();
    line.contains('-')
        && line
            .chars()
            .all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> Vec<(&str, &str)> {
        of(text, &Structure::of_markdown(text))
            .into_iter()
            .map(|table| (text[table.names].trim(), text[table.body].trim()))
            .collect()
    }

    #[test]
    fn tables_have_a_head_and_rows() {
        assert_eq!(
            tables("a | b\n\n| k | v |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\ntext\n\nk|v\n-|-\n5|6"),
            [("| k | v |", "| 1 | 2 |\n| 3 | 4 |"), ("k|v", "5|6")]
        );
        for text in [
            "| a |\n| b |",
            "---|---\n1|2",
            "```\n| k |\n|---|\n| 1 |\n```",
            "| k |\n\n|---|\n| 1 |",
        ] {
            assert_eq!(tables(text), [], "{text}");
        }
    }

    #[test]
    fn heads_are_short() {
        let head = |text: &str| of(text, &Structure::of_markdown(text))[0].head(text);
        assert_eq!(
            head("| Name   | Price |\n| ------ | ----: |\n| a      |     1 |\n"),
            "| Name   | Price |\n| --- | ---: |\n"
        );
        assert_eq!(head("k|v\r\n-|-\r\n5|6"), "k|v\n-|-\n");
    }
}
