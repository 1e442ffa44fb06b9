//! Which delimiter a file has, and how it writes quotation marks.

use super::rows::{Dialect, Rows};

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Maximum number of bytes by which a delimiter is chosen.
const SAMPLE: usize = 1 << 20;
/// What a comma counts that is followed by a space, or is between digits: most likely it is a part
/// of the text, or of a number.
const WEAK: f64 = 0.1;

/// Returns the delimiter that a line above the table names, as spreadsheets write it, and the rest
/// of the file.
pub fn named_delimiter(file: &str) -> Option<(u8, &str)> {
    let (line, rest) = file.split_once('\n').unwrap_or((file, ""));
    let line = line.trim_end_matches('\r').trim_matches('"');
    let value = line
        .get(..4)
        .filter(|begin| begin.eq_ignore_ascii_case("sep="))
        .map(|_| &line[4..])?;
    match value.as_bytes() {
        [delimiter] if !delimiter.is_ascii_alphanumeric() && *delimiter != b'"' => {
            Some((*delimiter, rest))
        }
        _ => None,
    }
}

/// Returns how a file writes its values, with the delimiter if it is known.
pub fn of(file: &str, delimiter: Option<u8>) -> Dialect {
    let mut end = file.len().min(SAMPLE);
    while !file.is_char_boundary(end) {
        end -= 1;
    }
    // The last line is whole, unless it is the only one.
    let sample = match file[..end].rfind('\n') {
        Some(line_end) if end < file.len() => &file[..line_end],
        _ => &file[..end],
    };
    let is_escaped = has_escaped_marks(sample);
    let measured = |delimiter: u8| {
        let dialect = Dialect {
            delimiter,
            is_escaped,
            width: 0,
        };
        let (score, width) = measure(sample, dialect);
        (score, Dialect { width, ..dialect })
    };
    match delimiter {
        Some(delimiter) => measured(delimiter).1,
        // Of equal ones the first.
        None => {
            let mut best = measured(DELIMITERS[0]);
            for delimiter in &DELIMITERS[1..] {
                let other = measured(*delimiter);
                if other.0 > best.0 {
                    best = other;
                }
            }
            best.1
        }
    }
}

/// Returns true if a file has marks behind a backslash that do not end a value.
fn has_escaped_marks(sample: &str) -> bool {
    sample.match_indices("\\\"").any(|(at, _)| {
        let after = sample[at + 2..].chars().next();
        after.is_some_and(|c| c.is_alphanumeric() || c == ' ')
    })
}

/// Returns how well a delimiter cuts a file, and the number of values that most rows have. More
/// columns are better, and rows of different width are worse.
fn measure(sample: &str, dialect: Dialect) -> (f64, usize) {
    let counts: Vec<usize> = Rows::new(sample, dialect)
        .map(|row| row.len() - 1)
        .collect();
    let mut sorted: Vec<usize> = counts.iter().copied().filter(|count| *count > 0).collect();
    sorted.sort_unstable();
    let most = sorted
        .chunk_by(|a, b| a == b)
        .max_by_key(|equal| (equal.len(), equal[0]))
        .map_or(0, |equal| equal[0]);
    if most == 0 {
        return (0.0, 1);
    }
    let missing: usize = counts.iter().map(|count| count.abs_diff(most)).sum();
    let evenness = 1.0 - missing as f64 / (counts.len() * most) as f64;
    let weight = match dialect.delimiter {
        b',' => 1.0 - (1.0 - WEAK) * weak_commas(sample),
        _ => 1.0,
    };
    (evenness.max(0.001) * weight * most as f64, most + 1)
}

/// Returns the share of commas that are followed by a space or are between two digits.
fn weak_commas(sample: &str) -> f64 {
    let bytes = sample.as_bytes();
    let (mut all, mut weak) = (0usize, 0usize);
    for (at, _) in sample.match_indices(',') {
        all += 1;
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + 1);
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        weak += usize::from(after == Some(&b' ') || is_digit(before) && is_digit(after));
    }
    weak as f64 / all.max(1) as f64
}
