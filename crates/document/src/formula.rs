//! How formulas are written in a line, from whatever format: `(a+b)/2`, `x^2`, `√(2gh)`.

/// Returns a fraction.
pub fn fraction(above: &str, below: &str) -> String {
    format!("{}/{}", base(above), divisor(below))
}

/// Returns a root. A square root has the degree 2, or none.
pub fn root(of: &str, degree: &str) -> String {
    let of = if is_bracketed(of) {
        of.to_owned()
    } else {
        format!("({of})")
    };
    match degree.trim() {
        "" | "2" => format!("√{of}"),
        "3" => format!("∛{of}"),
        "4" => format!("∜{of}"),
        degree => format!("root_{}{of}", grouped(degree)),
    }
}

/// Returns something with an index and an exponent, either of which may be blank.
pub fn with_scripts(base: &str, sub: &str, sup: &str) -> String {
    let mut line = base.to_owned();
    for (script, sign) in [(sub, '_'), (sup, '^')] {
        if !script.trim().is_empty() {
            line.push(sign);
            line.push_str(&grouped(script));
        }
    }
    line
}

/// Returns what a script or a fraction stroke is attached to.
pub fn base(text: &str) -> String {
    if has_operator(text) && !is_bracketed(text) {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

/// Returns what something is divided by: a product needs brackets too.
fn divisor(text: &str) -> String {
    let is_number = text
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.' || c == ',');
    let is_name = text.chars().all(char::is_alphabetic);
    if text.is_empty() || is_number || is_name || is_bracketed(text) {
        text.to_owned()
    } else {
        format!("({text})")
    }
}

fn has_operator(text: &str) -> bool {
    text.trim()
        .chars()
        .skip(1)
        .any(|c| c.is_whitespace() || "+-−±∓=<>≤≥≠≈·⋅×∗*/,;∑∏∫→".contains(c))
}

/// Returns an exponent or an index, in brackets if it is more than a name or a number.
pub fn grouped(words: &str) -> String {
    let unsigned = words
        .strip_prefix(['-', '+', '−', '±'])
        .filter(|rest| !rest.is_empty())
        .unwrap_or(words);
    let is_one = unsigned
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '.' | ',' | '∞' | '∗' | '*' | '′'))
        && !unsigned.starts_with(',');
    if is_one && !unsigned.is_empty() && !unsigned.contains(',') || is_bracketed(words) {
        words.to_owned()
    } else {
        format!("({words})")
    }
}

/// Returns true if the text is in one pair of brackets.
pub fn is_bracketed(text: &str) -> bool {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text.starts_with(['(', '[', '{']) && at + c.len_utf8() == text.len();
                }
            }
            _ => {}
        }
    }
    false
}
