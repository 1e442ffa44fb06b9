//! Tables: cells that begin with a bar, or comma-separated values.

use super::super::rst;

/// Maximum number of times that a cell is repeated.
const MAX_REPEATED: usize = 64;

/// Reads the lines of a table between its delimiters.
pub fn read(delimiter: &str, lines: &[&str], style: &[String]) -> Vec<Vec<String>> {
    let is_csv = !delimiter.starts_with(['|', '!'])
        || style
            .iter()
            .any(|part| part.contains("format=") && part.contains("csv"));
    if is_csv {
        let filled = lines.iter().filter(|line| !line.trim().is_empty());
        return filled.map(|line| rst::csv(line)).collect();
    }
    let bar = delimiter.chars().next().unwrap_or('|');
    let mut cells: Vec<String> = vec![];
    // Without a declaration, the first line with cells has as many as there are columns.
    let mut columns = declared(style);
    for line in lines {
        let before = cells.len();
        let mut rest = *line;
        let mut is_first = true;
        while let Some(at) = bar_in(rest, bar) {
            let (text, after) = (&rest[..at], &rest[at + bar.len_utf8()..]);
            let (text, repeated) = specifier(text);
            if let Some(cell) = cells
                .last_mut()
                .filter(|_| !(is_first && text.trim().is_empty()))
            {
                append(cell, text);
            }
            is_first = false;
            // A cell over several columns is in the first of them.
            let columns = repeated.clone().count();
            cells.push(String::new());
            cells.extend(std::iter::repeat_n(
                String::new(),
                columns.saturating_sub(1),
            ));
            if columns > 1 {
                let first = cells.len() - columns;
                let (cell, end) = match bar_in(after, bar) {
                    Some(next) => (specifier(&after[..next]).0, next),
                    None => (after, after.len()),
                };
                append(&mut cells[first], cell);
                rest = &after[end..];
                continue;
            }
            rest = after;
        }
        if let Some(cell) = cells.last_mut() {
            append(cell, rest);
        }
        if columns == 0 && cells.len() > before {
            columns = cells.len();
        }
    }
    let columns = columns.max(1);
    cells.chunks(columns).map(<[String]>::to_vec).collect()
}

/// Returns the place of the next bar that is no character.
fn bar_in(text: &str, bar: char) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(bar)?;
        if !text[..at].ends_with('\\') {
            return Some(at);
        }
        from = at + bar.len_utf8();
    }
}

fn append(cell: &mut String, text: &str) {
    let text = text.trim().replace("\\|", "|");
    if !cell.is_empty() && !text.is_empty() {
        cell.push('\n');
    }
    cell.push_str(&text);
}

/// Returns the text of the cell before a bar, and the columns of the cell after it: `2+^.>s|`.
fn specifier(text: &str) -> (&str, std::ops::Range<usize>) {
    let begin = text.rfind([' ', '\t']).map_or(0, |at| at + 1);
    let last = &text[begin..];
    let is_specifier = !last.is_empty()
        && last.len() <= 12
        && last
            .chars()
            .all(|c| c.is_ascii_digit() || ".+*<>^adehlmsv".contains(c))
        && !(last.chars().all(|c| c.is_ascii_digit() || c == '.'))
        && (last.len() == 1 || last.contains(['+', '*', '^', '<', '>', '.']));
    if !is_specifier {
        return (text, 0..1);
    }
    let columns = last.split(['+', '.']).next().and_then(|n| n.parse().ok());
    let columns = columns.filter(|_| last.contains('+')).unwrap_or(1usize);
    (&text[..begin], 0..columns.clamp(1, MAX_REPEATED))
}

/// Returns the number of columns that `cols` declares, or 0.
fn declared(style: &[String]) -> usize {
    let whole = style.join(",");
    let Some((_, value)) = whole.split_once("cols=") else {
        return 0;
    };
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => value.split(',').next().unwrap_or_default(),
    };
    let count = |column: &str| match column.trim().split_once('*') {
        Some((count, _)) => count.parse().unwrap_or(1),
        None => 1usize,
    };
    let columns = value.split([',', ';']).map(count);
    columns
        .map(|count| count.min(MAX_REPEATED))
        .sum::<usize>()
        .min(1000)
}
