//! Reads front matter that people write and YAML refuses: a title with a colon, or one that begins
//! with a sign. Such values are of keys for prose, or have some words.

/// Keys of prose.
const PROSE: [&str; 10] = [
    "abstract",
    "author",
    "description",
    "excerpt",
    "headline",
    "linktitle",
    "name",
    "subtitle",
    "summary",
    "title",
];
/// Minimum number of words of the value of another key.
const WORDS: usize = 3;

/// Returns a block of YAML with quotes around the values that need them, or `None` if none does.
/// `is_yaml` tells whether a line is YAML.
pub fn quoted(block: &str, is_yaml: impl Fn(&str) -> bool) -> Option<String> {
    let mut lines = block.lines().peekable();
    let mut changed = false;
    let mut text = String::with_capacity(block.len() + 16);
    while let Some(line) = lines.next() {
        let Some((key, value)) = entry(line).filter(|_| !is_yaml(line)) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let mut value = value.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with([' ', '\t'])) {
            value.push(' ');
            value.push_str(more.trim());
        }
        let value = unquoted(&value).replace('\'', "''");
        text.push_str(&format!("{key}: '{value}'\n"));
        changed = true;
    }
    changed.then_some(text)
}

/// Returns true if the first line that is not a comment is a key.
pub fn looks_like_yaml(block: &str) -> bool {
    let first = block
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| key(line).is_some())
}

/// Returns the key and the value of a line that has both. A value that begins a longer text, a
/// list, a mapping or an alias is not meant as it is written.
fn entry(line: &str) -> Option<(&str, &str)> {
    let key = key(line)?;
    let value = line[key.len() + 1..].trim();
    let is_bracketed = value.starts_with('[')
        && value
            .find(']')
            .is_some_and(|end| !value[end + 1..].contains(['[', ']']))
        && !value.ends_with(']');
    let is_special = value.starts_with(['|', '>', '[', '{', '&', '*', '!']) && !is_bracketed;
    let is_prose = value.split_whitespace().count() >= WORDS
        || PROSE.contains(&key.to_lowercase().replace(['_', '-', ' '], "").as_str());
    (!value.is_empty() && !is_special && is_prose).then_some((key, value))
}

/// Returns the key of a line that is not indented.
fn key(line: &str) -> Option<&str> {
    let end = line.find(':')?;
    let (key, after) = (&line[..end], &line[end + 1..]);
    let is_key = key.starts_with(|c: char| c.is_alphanumeric())
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '.'));
    (is_key && (after.is_empty() || after.starts_with([' ', '\t']))).then_some(key)
}

/// Removes the quotes around a value, which may have others inside.
fn unquoted(value: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value)
}
