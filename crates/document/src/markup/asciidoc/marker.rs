//! What the items of lists begin with.

use super::{super::numbered, delimiter};

pub struct Marker<'a> {
    /// The sign, repeated for deeper lists.
    pub sign: &'a str,
    pub label: &'a str,
    pub term: Option<&'a str>,
    pub rest: &'a str,
}

/// Returns the end of what belongs to an item because of a `+` above it.
pub fn attached(lines: &[&str], begin: usize) -> usize {
    let is_above = |line: &&&str| line.len() > 1 && line.starts_with(['[', '.']);
    let lines_above = lines[begin..].iter().take_while(is_above).count();
    let first = begin + lines_above;
    let Some(line) = lines.get(first) else {
        return lines.len();
    };
    let rest = &lines[first + 1..];
    let length = if delimiter(line).is_some() {
        let close = rest.iter().position(|next| next == line);
        close.map_or(rest.len(), |close| close + 1)
    } else {
        let is_inside = |line: &&&str| !line.is_empty() && **line != "+" && marker(line).is_none();
        rest.iter().take_while(is_inside).count()
    };
    first + 1 + length
}

pub fn marker(line: &str) -> Option<Marker<'_>> {
    let line = line.trim_start();
    let first = line.split(' ').next()?;
    let rest = line.get(first.len() + 1..).unwrap_or_default().trim_start();
    let is_all = |sign: char| !first.is_empty() && first.chars().all(|c| c == sign);
    if (is_all('*') || is_all('.') || first == "-") && first.len() <= 6 && !rest.is_empty() {
        let rest = ["[x] ", "[*] ", "[ ] "]
            .iter()
            .find_map(|check| rest.strip_prefix(check))
            .unwrap_or(rest);
        return Some(Marker {
            sign: first,
            label: if is_all('.') { "." } else { "" },
            term: None,
            rest,
        });
    }
    if let Some((label, rest)) = numbered(line)
        && label.starts_with(|c: char| c.is_ascii_digit())
        && !rest.trim().is_empty()
    {
        return Some(Marker {
            sign: "1",
            label,
            term: None,
            rest: rest.trim_start(),
        });
    }
    if first.starts_with('<') && first.ends_with('>') && first.len() > 2 && !rest.is_empty() {
        let number = &first[1..first.len() - 1];
        let is_number = number == "." || number.bytes().all(|b| b.is_ascii_digit());
        return is_number.then_some(Marker {
            sign: "<",
            label: "",
            term: None,
            rest,
        });
    }
    for sign in ["::::", ":::", "::", ";;"] {
        let split = line.split_once(&format!("{sign} "));
        let Some((term, rest)) = split.or_else(|| Some((line.strip_suffix(sign)?, ""))) else {
            continue;
        };
        let is_term = !term.is_empty() && !term.ends_with(':') && !term.contains("::");
        if is_term {
            return Some(Marker {
                sign,
                label: "",
                term: Some(term),
                rest: rest.trim(),
            });
        }
    }
    None
}
