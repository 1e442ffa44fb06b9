//! Pieces of TeX.

/// Maximum number of bytes of an argument.
const MAX_ARGUMENT: usize = 1 << 16;

/// Returns a file without its comments. Code is kept as it is.
pub fn without_comments(file: &str) -> String {
    let mut text = String::with_capacity(file.len());
    let mut code: Option<&str> = None;
    for line in file.split_inclusive('\n') {
        match code {
            Some(end) => {
                text.push_str(line);
                if line.contains(end) {
                    code = None;
                }
                continue;
            }
            None => {
                const CODE: [(&str, &str); 5] = [
                    ("\\begin{verbatim", "\\end{verbatim"),
                    ("\\begin{lstlisting", "\\end{lstlisting"),
                    ("\\begin{minted", "\\end{minted"),
                    ("\\begin{Verbatim", "\\end{Verbatim"),
                    ("\\begin{alltt", "\\end{alltt"),
                ];
                code = CODE
                    .iter()
                    .find(|(begin, _)| line.contains(begin))
                    .map(|(_, end)| *end);
            }
        }
        let mut is_escaped = false;
        let comment = line.char_indices().find(|(_, c)| {
            let is_comment = *c == '%' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            is_comment
        });
        match comment {
            // The end of the line is a part of the comment.
            Some((at, _)) if line[..at].trim().is_empty() => {}
            Some((at, _)) => text.push_str(line[..at].trim_end_matches([' ', '\t'])),
            None => text.push_str(line),
        }
    }
    text
}

/// Returns the length of the command that a text begins with: a name, or one sign.
pub fn command_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\\') else {
        return 0;
    };
    let letters = rest.len()
        - rest
            .trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .len();
    match letters {
        0 => 1 + rest.chars().next().map_or(0, char::len_utf8),
        letters => 1 + letters,
    }
}

/// Returns what is in the braces that a text begins with, and what follows.
pub fn group(text: &str) -> Option<(&str, &str)> {
    between(text, '{', '}')
}

/// Returns what is in the brackets that a text begins with, and what follows.
pub fn option(text: &str) -> Option<(&str, &str)> {
    between(text, '[', ']')
}

fn between(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let inner = text.strip_prefix(open)?;
    let mut depth = 0usize;
    let mut is_escaped = false;
    for (at, c) in inner.char_indices().take(MAX_ARGUMENT) {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match c {
            '\\' => is_escaped = true,
            c if c == close && depth == 0 => return Some((&inner[..at], &inner[at + 1..])),
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Returns what follows after the arguments that a text begins with.
pub fn without_arguments(mut rest: &str) -> &str {
    loop {
        let after = match rest.chars().next() {
            Some('{') => group(rest),
            Some('[') => option(rest),
            _ => None,
        };
        match after {
            Some((_, after)) => rest = after,
            None => return rest,
        }
    }
}
