//! Tables: drawn with lines, with columns under lines of `=`, or as lists.

use super::super::{dedented, indent};

type Rows = Vec<Vec<String>>;

/// Reads a table that is drawn with `+`, `-` and `|`. A cell that spans columns is in the first of
/// them, and one that spans rows in the first row.
pub fn grid(lines: &[&str], at: usize) -> Option<(Rows, usize)> {
    if !lines[at].starts_with("+-") {
        return None;
    }
    let is_inside = |line: &&&str| line.starts_with(['+', '|']);
    let count = lines[at..].iter().take_while(is_inside).count();
    let lines = &lines[at..at + count];
    // Signs may have several bytes, so places are counted in characters.
    let drawn: Vec<Vec<char>> = lines
        .iter()
        .map(|line| line.trim_end().chars().collect())
        .collect();
    let mut columns: Vec<usize> = vec![];
    for line in drawn.iter().filter(|line| line.first() == Some(&'+')) {
        columns.extend((0..line.len()).filter(|at| line[*at] == '+'));
    }
    columns.sort_unstable();
    columns.dedup();
    if columns.len() < 2 {
        return None;
    }
    let mut rows: Rows = vec![];
    let mut row = vec![String::new(); columns.len() - 1];
    for line in &drawn {
        let is_border = |from: usize, to: usize| {
            let part = line.get(from..=to.min(line.len().saturating_sub(1)));
            part.is_some_and(|part| part.iter().all(|c| matches!(c, '+' | '-' | '=')))
        };
        let is_end = (0..columns.len() - 1).any(|i| is_border(columns[i], columns[i + 1]))
            && line.first() == Some(&'+');
        if is_end {
            push(&mut rows, &mut row);
        }
        // Cells go on until the next line between two columns.
        let mut from = 0;
        for i in 1..columns.len() {
            let is_wall = matches!(line.get(columns[i]), Some('|' | '+') | None);
            if !is_wall {
                continue;
            }
            let (begin, end) = (columns[from] + 1, columns[i].min(line.len()));
            if begin < end && !is_border(columns[from], columns[i]) {
                let words: String = line[begin..end].iter().collect();
                append(&mut row[from], words.trim());
            }
            from = i;
        }
    }
    push(&mut rows, &mut row);
    Some((rows, at + count))
}

fn push(rows: &mut Rows, row: &mut [String]) {
    if row.iter().any(|cell| !cell.is_empty()) {
        rows.push(row.iter_mut().map(std::mem::take).collect());
    }
}

fn append(cell: &mut String, words: &str) {
    if !cell.is_empty() && !words.is_empty() {
        cell.push(' ');
    }
    cell.push_str(words);
}

/// Reads a table with lines of `=` above, below and under its head.
pub fn simple(lines: &[&str], at: usize) -> Option<(Rows, usize)> {
    let columns = ruler(lines[at])?;
    let rest = &lines[at + 1..];
    let rulers: Vec<usize> = (0..rest.len())
        .filter(|i| ruler(rest[*i]).is_some_and(|found| found.len() == columns.len()))
        .take(3)
        .collect();
    // A head has an empty line neither before nor after its ruler.
    let is_end = |i: &usize| rest.get(i + 1).is_none_or(|line| line.trim().is_empty());
    let end = *rulers.iter().find(|i| is_end(i)).or(rulers.last())?;
    let mut rows: Rows = vec![];
    for line in &rest[..end] {
        let is_line =
            line.trim().is_empty() || line.chars().all(|c| matches!(c, '=' | '-' | ' ' | '\t'));
        if is_line {
            continue;
        }
        let signs: Vec<char> = line.chars().collect();
        let cells = columns.iter().enumerate().map(|(i, (from, _))| {
            let to = columns.get(i + 1).map_or(signs.len(), |(next, _)| *next);
            let part = signs.get(*from..to.min(signs.len())).unwrap_or_default();
            part.iter().collect::<String>().trim().to_owned()
        });
        let cells: Vec<String> = cells.collect();
        // A row without a first cell continues the one above.
        match rows.last_mut().filter(|_| cells[0].is_empty()) {
            Some(above) => {
                let pairs = above.iter_mut().zip(&cells);
                pairs.for_each(|(cell, words)| append(cell, words));
            }
            None => rows.push(cells),
        }
    }
    (!rows.is_empty()).then_some((rows, at + 1 + end + 1))
}

/// Returns the columns of a line such as `===  ====`.
fn ruler(line: &str) -> Option<Vec<(usize, usize)>> {
    let line = line.trim_end();
    if !line.starts_with('=') || !line.chars().all(|c| matches!(c, '=' | ' ')) {
        return None;
    }
    let mut columns = vec![];
    let mut begin = None;
    for (at, c) in line.chars().chain([' ']).enumerate() {
        match (c, begin) {
            ('=', None) => begin = Some(at),
            (' ', Some(from)) => {
                columns.push((from, at));
                begin = None;
            }
            _ => {}
        }
    }
    (columns.len() > 1).then_some(columns)
}

/// Reads a list of rows, each a list of cells.
pub fn lists(lines: &[&str]) -> Rows {
    let mut rows: Rows = vec![];
    for line in dedented(lines) {
        let words = line.trim();
        if indent(line) == 0
            && let Some(rest) = words.strip_prefix(['*', '-'])
        {
            let cell = rest
                .trim_start()
                .strip_prefix(['-', '*'])
                .unwrap_or_default();
            rows.push(vec![cell.trim().to_owned()]);
        } else if let Some(row) = rows.last_mut() {
            match words
                .strip_prefix(['-', '*'])
                .filter(|rest| (rest.is_empty() || rest.starts_with(' ')) && indent(line) <= 4)
            {
                Some(cell) => row.push(cell.trim().to_owned()),
                None => {
                    if let Some(cell) = row.last_mut() {
                        append(cell, words);
                    }
                }
            }
        }
    }
    rows
}

/// Reads a line of comma-separated values.
pub fn csv(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(c);
                }
            }
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
