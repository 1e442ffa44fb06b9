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
#[cfg(test)]
mod tests;

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
        if let Some(passphrase) = &credentials.passphrase {
            self.add_secret(passphrase);
        }
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
            ..Credentials::default()
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
