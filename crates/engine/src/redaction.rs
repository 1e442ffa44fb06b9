//! Keeps the secrets of a job out of errors and the log. Servers echo what they receive: in the
//! text of an error, in the address of a redirect, in a header.
//!
//! A process has one job, hence one [`Redaction`]. Every event (`ingest::output`) and every line of
//! the log (`log`) passes through it on its way out. Code that creates errors need not handle
//! secrets.
//!
//! Secrets are not compared with a list of spellings. Instead, each place of a text is decoded in
//! all ways that are possible there: as itself, or as the character that it escapes
//! (percent-encoding, also repeated; JSON, Rust, HTML). Case is ignored, because names of hosts and
//! media types are reported in lower case. Base64 is found wherever the secret was in a longer
//! encoded text, as in `user:secret`. A secret can lie across the groups of three bytes in three
//! ways, and each has an inner part that nothing around it changes. Hexadecimal digits may be in
//! groups.
//!
//! A secret may also be a part of what this program says itself ([`own`]). That stays as it is: it
//! would be the same with another secret, and a gap in it would tell the secret.
//!
//! Documents, their uris and their stored data are not changed.

mod event;
mod own;
mod spelling;

use std::{borrow::Cow, collections::BTreeSet, sync::OnceLock};

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use rag_protocol::ingest::{Credentials, Network, TOKEN_USER};
use serde_json::Value;
use url::Url;

pub use self::event::{redacted_error, redacted_event};

/// Replaces a secret.
const REDACTED: &str = "[redacted]";
/// A shorter secret is part of too many words. It is only searched for together with its user's
/// name.
const MIN_CHARS: usize = 4;
/// A longer user name may be a token: some servers accept one in its place. Shorter ones are not
/// secret.
const MAX_NAME_CHARS: usize = 15;

static OF_THE_JOB: OnceLock<Redaction> = OnceLock::new();

/// Starts to hide the secrets of the job.
pub fn hide(credentials: Option<&Credentials>, network: &Network) {
    let mut redaction = Redaction::default();
    if let Some(credentials) = credentials {
        redaction.add_credentials(credentials);
    }
    if let Some(proxy) = &network.proxy {
        redaction.add_proxy(proxy);
    }
    // There is only one job.
    let _ = OF_THE_JOB.set(redaction);
}

/// Starts to hide some secrets.
pub fn hide_secrets<'a>(secrets: impl Iterator<Item = &'a str>, network: &Network) {
    let mut redaction = Redaction::default();
    for secret in secrets {
        redaction.add_secret(secret);
    }
    if let Some(proxy) = &network.proxy {
        redaction.add_proxy(proxy);
    }
    let _ = OF_THE_JOB.set(redaction);
}

/// Starts to hide the secrets of a job that cannot be parsed: the error may quote it.
pub fn hide_all_of(job: &Value) {
    let mut redaction = Redaction::default();
    let mut pending = vec![&job["credentials"]];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => redaction.add_secret(text),
            Value::Array(values) => pending.extend(values),
            Value::Object(values) => pending.extend(values.values()),
            _ => {}
        }
    }
    if let Value::String(proxy) = &job["network"]["proxy"] {
        redaction.add_proxy(proxy);
    }
    let _ = OF_THE_JOB.set(redaction);
}

/// Returns a text without the secrets of the job.
pub fn redacted(text: &str) -> Cow<'_, str> {
    OF_THE_JOB
        .get()
        .map_or(Cow::Borrowed(text), |redaction| redaction.apply(text))
}

/// A pattern to search for.
#[derive(Default)]
struct Redaction {
    needles: Vec<Needle>,
}

struct Needle {
    bytes: Vec<u8>,
    /// The secret in Base64.
    base64: Option<Neighbours>,
}

/// For Base64: whether the digits before and after contain bits of the secret, too.
#[derive(Clone, Copy)]
struct Neighbours {
    before: bool,
    after: bool,
}

impl Redaction {
    fn add_credentials(&mut self, credentials: &Credentials) {
        let name = credentials.username.as_deref().unwrap_or(TOKEN_USER);
        self.add_secret(&credentials.secret);
        if name.chars().count() > MAX_NAME_CHARS {
            self.add_secret(name);
        }
        // However short the secret is.
        let both = format!("{name}:{}", credentials.secret);
        self.add_base64(&both);
        self.needles.push(Needle {
            bytes: both.into_bytes(),
            base64: None,
        });
    }

    /// The proxy's password.
    fn add_proxy(&mut self, proxy: &str) {
        let Ok(url) = Url::parse(proxy) else { return };
        let Some(encoded) = url.password() else {
            return;
        };
        let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8_lossy();
        self.add_credentials(&Credentials {
            username: Some(url.username().into()),
            secret: decoded.into_owned(),
        });
    }

    fn add_secret(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.chars().count() < MIN_CHARS {
            return;
        }
        self.add_base64(secret);
        self.add_hex(secret);
        self.needles.push(Needle {
            bytes: secret.as_bytes().to_vec(),
            base64: None,
        });
    }

    /// In hexadecimal digits, as in dumps of what was received.
    fn add_hex(&mut self, text: &str) {
        for (bytes, separator) in [(1, ""), (1, " "), (1, ":"), (2, " "), (4, " ")] {
            let groups = text.as_bytes().chunks(bytes);
            let groups = groups.map(|group| group.iter().map(|b| format!("{b:02x}")).collect());
            let digits: Vec<String> = groups.collect();
            self.needles.push(Needle {
                bytes: digits.join(separator).into_bytes(),
                base64: None,
            });
        }
    }

    fn add_base64(&mut self, text: &str) {
        for offset in 0..3 {
            let encoded =
                BASE64_STANDARD_NO_PAD.encode([vec![0; offset], text.as_bytes().to_vec()].concat());
            let (start, end) = (8 * offset, 8 * (offset + text.len()));
            // Digits of six bits each that depend on the secret alone.
            let inner = &encoded.as_bytes()[start.div_ceil(6)..end / 6];
            if inner.len() < MIN_CHARS {
                continue;
            }
            let base64 = Some(Neighbours {
                before: start % 6 > 0,
                after: end % 6 > 0,
            });
            let in_urls = |b: &u8| match b {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            };
            self.needles.push(Needle {
                bytes: inner.iter().map(in_urls).collect(),
                base64,
            });
            self.needles.push(Needle {
                bytes: inner.to_vec(),
                base64,
            });
        }
    }

    fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = String::new();
        let mut rest = 0;
        let mut at = 0;
        while at < text.len() {
            let found = self
                .needles
                .iter()
                .filter_map(|needle| needle.find_at(text.as_bytes(), at));
            let found = found.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
            match found {
                // a secret may be a part of words that are always there
                Some((from, to)) if own::covers(text, from, to) => at = to,
                Some((from, to)) => {
                    shown.push_str(&text[rest..from.max(rest)]);
                    shown.push_str(REDACTED);
                    (rest, at) = (to, to);
                }
                None => at += 1,
            }
        }
        if rest == 0 {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(shown + &text[rest..])
        }
    }
}

impl Needle {
    /// Returns the start and the end of the spelling of the secret that begins at a place.
    fn find_at(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        if !self.may_begin_with(text[at]) {
            return None;
        }
        let mut end = None;
        // Places of the text, and the part of the needle that was before them.
        let mut open = BTreeSet::from([(at, 0)]);
        while let Some((at, done)) = open.pop_first() {
            let wanted = &self.bytes[done..];
            if wanted.is_empty() {
                end = Some(at);
                continue;
            }
            spelling::each_reading(&text[at..], |taken, bytes| {
                if wanted
                    .get(..bytes.len())
                    .is_some_and(|wanted| wanted.eq_ignore_ascii_case(bytes))
                {
                    open.insert((at + taken, done + bytes.len()));
                }
            });
        }
        let end = end?;
        let Some(neighbours) = self.base64 else {
            return Some((at, end));
        };
        // After a neighbour, a slash is more often a path separator than a digit.
        let part_of = |is_neighbour: bool, i: usize, b: u8| {
            is_digit(b) || (b == b'/' && is_neighbour && i == 0)
        };
        let before = text[..at]
            .iter()
            .rev()
            .enumerate()
            .take_while(|(i, b)| part_of(neighbours.before, *i, **b));
        let after = text[end..]
            .iter()
            .enumerate()
            .take_while(|(i, b)| part_of(neighbours.after, *i, **b) || **b == b'=');
        Some((at - before.count(), end + after.count()))
    }

    /// A fast check.
    fn may_begin_with(&self, byte: u8) -> bool {
        spelling::is_special(byte)
            || self
                .bytes
                .first()
                .is_some_and(|first| first.eq_ignore_ascii_case(&byte))
    }
}

/// Returns true for a digit of Base64 other than a slash, or a part of a percent-encoded one.
fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'_' | b'%')
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
    use proptest::prelude::*;

    use super::*;

    fn of(username: Option<&str>, secret: &str) -> Redaction {
        let mut redaction = Redaction::default();
        redaction.add_credentials(&Credentials {
            username: username.map(Into::into),
            secret: secret.into(),
        });
        redaction
    }

    fn check(redaction: &Redaction, text: &str, expected: &str) {
        assert_eq!(redaction.apply(text), expected, "{text}");
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let redaction = of(None, "a/b \"ü😀\\&'%");
        for spelling in [
            "a/b \"ü😀\\&'%",
            "A/B \"ü😀\\&'%",
            "a%2Fb%20%22%C3%BC%F0%9F%98%80%5C%26%27%25",
            "a%2fb+%22%c3%bc%f0%9f%98%80%5c%26'%25",
            "a%252Fb%2520%2522%25C3%25BC%25F0%259F%2598%2580%255C%2526%2527%2525",
            "a/b \\\"\\u00fc\\ud83d\\ude00\\\\&'%",
            "a\\/b \\\"ü😀\\\\&\\'%",
            "a/b \\\\\\\"\\\\u00FC\\\\ud83d\\\\ude00\\\\\\\\&'%",
            "a/b \\\"\\u{fc}\\u{1f600}\\\\&\\'%",
            "a/b &quot;&#252;&#x1F600;\\&amp;&#39;%",
        ] {
            check(&redaction, &format!("was {spelling}!"), "was [redacted]!");
            check(&redaction, spelling, "[redacted]");
        }
        for other in [
            "a/b",
            "a%2Fb%20%22%C3%BC%F0%9F%98%80%5C%26%27",
            "",
            "\\",
            "%",
            "%2",
            "&#;",
            "\\u",
            "\\u{}",
            "\\ud83d",
        ] {
            check(&redaction, other, other);
        }
    }

    #[test]
    fn a_secret_in_hex_is_found() {
        let redaction = of(None, "s3cret");
        for dump in [
            "733363726574",
            "733363726574".to_uppercase().as_str(),
            "73 33 63 72 65 74",
            "73:33:63:72:65:74",
            "7333 6372 6574",
            "73336372 6574",
        ] {
            check(&redaction, &format!("00 {dump} ff"), "00 [redacted] ff");
        }
    }

    #[test]
    fn the_programs_own_words_are_not_redacted() {
        let redaction = of(Some("someone"), "elastic");
        let message = "could not reach Elasticsearch at http://db:9200";
        check(&redaction, message, message);
        check(&redaction, "your key is elastic", "your key is [redacted]");
        check(
            &redaction,
            "Elasticsearch says: elastic, search for elastics",
            "Elasticsearch says: [redacted], search for [redacted]s",
        );
        let redaction = of(None, "refuses the credentials");
        let all = "Qdrant refuses the credentials";
        check(&redaction, all, "Qdrant [redacted]");
    }

    #[test]
    fn base64_is_found_wherever_the_secret_is_in_it() {
        let secret = "s3cret>>>???~~~";
        let redaction = of(Some("reader"), secret);
        for before in ["", ":", "u:", "reader:", "Authorization: Bearer ", "ü:"] {
            for after in ["", "\n", "\r\n\r\n"] {
                let plain = format!("{before}{secret}{after}");
                for encoded in [
                    BASE64_STANDARD.encode(&plain),
                    BASE64_URL_SAFE.encode(&plain),
                    BASE64_URL_SAFE_NO_PAD.encode(&plain),
                ] {
                    check(
                        &redaction,
                        &format!("sent Basic {encoded}."),
                        "sent Basic [redacted].",
                    );
                }
                let encoded = BASE64_STANDARD
                    .encode(&plain)
                    .replace('+', "%2B")
                    .replace('/', "%2F")
                    .replace('=', "%3D");
                check(
                    &redaction,
                    &format!("/login?auth={encoded}&x=1"),
                    "/login?auth=[redacted]&x=1",
                );
            }
        }
    }

    #[test]
    fn urls_keep_everything_but_the_secret() {
        let redaction = of(Some("reader"), "hunter-two");
        check(
            &redaction,
            "https://reader:hunter-two@git.example/a.git",
            "https://[redacted]@git.example/a.git",
        );
        check(
            &redaction,
            "https://hunter-two@git.example/hunter-two/x",
            "https://[redacted]@git.example/[redacted]/x",
        );
        let encoded = BASE64_STANDARD.encode("reader:hunter-two");
        check(
            &redaction,
            &format!("https://git.example/{encoded}/a"),
            "https://git.example/[redacted]/a",
        );
        check(&redaction, "reader hunter two", "reader hunter two");
    }

    #[test]
    fn short_secrets_are_found_beside_their_user_alone() {
        let redaction = of(Some("reader"), "abc");
        check(&redaction, "the abc of git", "the abc of git");
        check(
            &redaction,
            "http://reader:abc@h/ reader%3Aabc",
            "http://[redacted]@h/ [redacted]",
        );
        check(
            &redaction,
            &format!("Basic {}", BASE64_STANDARD.encode("reader:abc")),
            "Basic [redacted]",
        );
        let redaction = of(None, "ab");
        check(
            &redaction,
            &format!("about {}", BASE64_STANDARD.encode("x-access-token:ab")),
            "about [redacted]",
        );
    }

    #[test]
    fn a_user_name_that_may_be_a_token_is_hidden() {
        check(&of(Some("reader"), "pass"), "reader", "reader");
        check(
            &of(Some("ghp_0123456789abcdef"), "x-oauth-basic"),
            "ghp_0123456789abcdef",
            "[redacted]",
        );
        check(&of(None, "pass"), "x-access-token", "x-access-token");
    }

    #[test]
    fn the_password_of_a_proxy_is_hidden() {
        let mut redaction = Redaction::default();
        redaction.add_proxy("http://out:p%40ss%20word@proxy.example:3128");
        check(
            &redaction,
            "p@ss word p%40ss%20word",
            "[redacted] [redacted]",
        );
        redaction.add_proxy("http://proxy.example:3128");
        check(
            &redaction,
            "http://proxy.example:3128",
            "http://proxy.example:3128",
        );
    }

    #[test]
    fn a_long_text_of_escapes_takes_no_more_time_than_another() {
        let redaction = of(None, "\\%abc");
        for part in ["\\", "%25", "%", "&", "\\u", "2525"] {
            let text = part.repeat((1 << 20) / part.len());
            check(&redaction, &text, &text);
        }
    }

    /// A character in one of its spellings.
    fn spelled(character: char, spelling: usize) -> String {
        let units = |character: char| -> String {
            character
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect()
        };
        let percent =
            |text: &str| -> String { text.bytes().map(|b| format!("%{b:02X}")).collect() };
        match spelling {
            0 => percent(&character.to_string()),
            1 => percent(&character.to_string()).replace('%', "%25"),
            2 => units(character),
            3 => character.escape_default().to_string(),
            4 => format!("&#{};", u32::from(character)),
            _ => character.to_string(),
        }
    }

    proptest! {
        #[test]
        fn every_spelling_is_redacted(
            characters in prop::collection::vec((any::<char>(), 0..8usize), 4..40),
                before in "\\PC{0,9}", after in "\\PC{0,9}",
        ) {
            let secret: String = characters.iter().map(|(character, _)| *character).collect();
            prop_assume!(secret.trim() == secret);
            let text: String = characters.iter().map(|(character, spelling)| spelled(*character,
                *spelling)).collect();
            let redaction = of(None, &secret);
            let shown = redaction.apply(&format!("{before}{text}{after}")).into_owned();
            prop_assert!(!shown.contains(&text) && shown.contains(REDACTED), "{text} in {shown}");
        }

        #[test]
        fn base64_is_redacted(secret in "[!-~]{4,40}", before in "[ -~]{0,20}",
            after in "[ -~]{0,5}") {
            let encoded = BASE64_STANDARD.encode(format!("{before}{secret}{after}"));
            let shown = of(None, &secret).apply(&format!("<{encoded}>")).into_owned();
            let left: Vec<&str> = shown.trim_matches(['<', '>']).split(REDACTED).collect();
            prop_assert!(left.len() > 1, "{encoded} in {shown}");
            // Only the text before and after the secret remains.
            let most = [before.len() * 8 / 6 + 1, after.len() * 8 / 6 + 4];
            prop_assert!(left[0].len() <= most[0] && left[left.len() - 1].len() <= most[1],
                "{encoded} in {shown}");
        }

        #[test]
        fn other_texts_are_unchanged(text in "[a-z %&\\\\+]{0,60}") {
            prop_assert!(matches!(of(None, "Z0Z0Z0Z0").apply(&text), Cow::Borrowed(_)));
        }
    }
}
