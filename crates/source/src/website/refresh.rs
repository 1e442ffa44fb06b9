//! The redirect that a page itself declares: `<meta http-equiv=refresh content="0; url=latest/">`.

/// What the `content` of a refresh says.
#[derive(Debug, PartialEq, Eq)]
pub struct Refresh<'a> {
    /// Whole seconds until the browser leaves the page.
    pub delay: u32,
    /// The address to go to. Empty: the page itself again.
    pub target: &'a str,
}

impl<'a> Refresh<'a> {
    /// Reads it as browsers do (the "shared declarative refresh steps" of HTML). Returns `None` for
    /// a text that browsers ignore.
    pub fn parse(content: &'a str) -> Option<Self> {
        let text = content.trim_ascii_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 && !text.starts_with('.') {
            return None;
        }
        // a number that is too large is a long time
        let delay = match &text[..digits] {
            "" => 0,
            number => number.parse().unwrap_or(u32::MAX),
        };
        let rest = text[digits..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if !rest.is_empty() && !rest.starts_with([';', ',', ' ', '\t', '\n', '\r', '\u{c}']) {
            return None;
        }
        let rest = rest.trim_ascii_start();
        let rest = rest.strip_prefix([';', ',']).unwrap_or(rest);
        let target = unquoted(after_url(rest.trim_ascii_start()));
        Some(Self { delay, target })
    }
}

/// Returns what follows `url=`, or the text itself without it.
fn after_url(text: &str) -> &str {
    let name = text.get(..3);
    if !name.is_some_and(|name| name.eq_ignore_ascii_case("url")) {
        return text;
    }
    match text[3..].trim_ascii_start().strip_prefix('=') {
        Some(rest) => rest.trim_ascii_start(),
        None => text,
    }
}

/// Returns the text up to the quotation mark that it begins with, without both.
fn unquoted(text: &str) -> &str {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => text[1..].split(quote).next().unwrap_or_default(),
        None => text,
    }
    .trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_is_read_as_browsers_read_it() {
        for (content, expected) in [
            ("0; url=latest/", Some((0, "latest/"))),
            ("0;url=latest/", Some((0, "latest/"))),
            (" 0 , URL = 'latest/' ", Some((0, "latest/"))),
            ("0; url=\"a b\" rest", Some((0, "a b"))),
            ("0; 'latest/", Some((0, "latest/"))),
            ("0 latest/", Some((0, "latest/"))),
            ("0; url", Some((0, "url"))),
            ("0; urls/", Some((0, "urls/"))),
            ("1.5; url=x", Some((1, "x"))),
            (".5; url=x", Some((0, "x"))),
            ("300", Some((300, ""))),
            ("5;", Some((5, ""))),
            ("5; url=", Some((5, ""))),
            ("99999999999; url=x", Some((u32::MAX, "x"))),
            ("0; \u{fc}ber/", Some((0, "\u{fc}ber/"))),
            ("", None),
            ("url=latest/", None),
            ("-1; url=x", None),
            ("0x; url=y", None),
            ("0\u{a0}; url=y", None),
        ] {
            let read = Refresh::parse(content).map(|read| (read.delay, read.target));
            assert_eq!(read, expected, "{content:?}");
        }
    }
}
