//! The names of the columns: where they are, and what is above them.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use crate::records::field_name;

/// Maximum number of rows above the names.
const MAX_PREAMBLE: usize = 30;

type Row<'a> = Vec<Cow<'a, str>>;

/// Returns the number of rows above the table, and the names if the first row of it has names. A
/// column without a name has an empty one.
///
/// A row is above the table if it is a comment or has a single value, or is shorter and not of
/// names, and names of the whole width follow.
pub fn find(rows: &[Row], width: usize) -> (usize, Option<Vec<String>>) {
    let mut above = 0;
    while above < MAX_PREAMBLE.min(rows.len()) && is_above(&rows[above..], width) {
        above += 1;
    }
    if above > 0 {
        // A single row below is not a table.
        let table = rows.get(above..).filter(|table| table.len() > 1);
        match table.and_then(names_in) {
            Some(names) => return (above, Some(names)),
            // Comments are never names.
            None => above = rows.iter().take_while(|row| is_comment(row, width)).count(),
        }
    }
    let table = rows.get(above..).unwrap_or_default();
    (above, names_in(table))
}

fn is_above(rows: &[Row], width: usize) -> bool {
    let Some(row) = rows.first() else {
        return false;
    };
    let filled = row.iter().filter(|value| !value.is_empty()).count();
    let used = row
        .iter()
        .rposition(|value| !value.is_empty())
        .map_or(0, |last| last + 1);
    let below = rows.get(1).map_or(0, Vec::len);
    width > 1
        && (filled <= 1
            || is_comment(row, width)
            || used * 2 <= width
            || used < width && names_in(rows).is_none())
        && (below > 0 || filled == 0)
        || width == 1 && is_comment(row, width) && below > 0
}

/// Returns true for a row that is a remark. One as wide as the table may be of names: `#,name`.
pub fn is_comment(row: &[Cow<str>], width: usize) -> bool {
    let begins = row.first().is_some_and(|value| value.starts_with('#'));
    let has_space = row.first().is_some_and(|value| value.starts_with("# "));
    begins && width > 1 && row.len() < width || has_space
}

/// Returns the names in the first of these rows, if it looks like names.
fn names_in(rows: &[Row]) -> Option<Vec<String>> {
    let row = rows.first()?;
    let names: Vec<String> = row.iter().map(|name| field_name(name)).collect();
    let filled: HashSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // One value over and over is no row of names.
    if filled.len() == 1 && names.iter().filter(|name| !name.is_empty()).count() > 1 {
        return None;
    }
    let mut has_name = false;
    for (column, name) in names.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        if is_name(name) {
            has_name = true;
        } else if !is_year_above_numbers(rows, column) {
            return None;
        }
    }
    (has_name && !filled.is_empty()).then(|| numbered(names))
}

fn is_name(text: &str) -> bool {
    let has_letter = text.chars().any(char::is_alphabetic) || matches!(text, "#" | "№");
    has_letter && text.parse::<f64>().is_err() && !is_date(text)
}

/// Returns true for a point in time, such as 2024-05-01T10:00:00Z, which has letters.
fn is_date(text: &str) -> bool {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    digits == 4
        && text[4..].starts_with('-')
        && text.chars().nth(5).is_some_and(|c| c.is_ascii_digit())
}

fn year(text: &str) -> Option<u32> {
    let is_year = text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|year| is_year && (1500..2200).contains(year))
}

/// Returns true if a value of the first row is a year and names the column: the row below has the
/// same width, and no year there unless the years count on from column to column.
fn is_year_above_numbers(rows: &[Row], column: usize) -> bool {
    let [row, below, ..] = rows else { return false };
    let year_of = |row: &Row, column: usize| row.get(column).and_then(|value| year(value));
    let Some(own) = year_of(row, column) else {
        return false;
    };
    let before = column
        .checked_sub(1)
        .and_then(|column| year_of(row, column));
    let counts_on = before.is_some_and(|before| before.abs_diff(own) == 1)
        || year_of(row, column + 1).is_some_and(|after| after.abs_diff(own) == 1);
    row.len() == below.len() && (counts_on || year_of(below, column).is_none())
}

/// Returns the names with a number behind the second and further ones that are the same.
fn numbered(names: Vec<String>) -> Vec<String> {
    let mut taken: HashSet<String> = HashSet::new();
    // The last number behind a name, so that the numbers before it are not tried again.
    let mut last: HashMap<&str, usize> = HashMap::new();
    let mut numbered = vec![];
    for name in &names {
        let mut own = name.clone();
        let number = last.entry(name).or_insert(1);
        while !own.is_empty() && taken.contains(&own) {
            *number += 1;
            own = format!("{name} {number}");
        }
        taken.insert(own.clone());
        numbered.push(own);
    }
    numbered
}
