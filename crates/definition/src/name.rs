//! Names of collections, sources, retrievers and secrets.
//!
//! | name of | form | maximum length |
//! |---|---|---|
//! | collection | letters of both cases, digits, `.`, `_` and `-`, a letter or digit at both ends | 56 |
//! | source, retriever, secret | a DNS subdomain as Kubernetes has it, in a namespace | 253 |
//! | namespace | a DNS label | 63 |
//! | key of a secret | letters of both cases, digits, `.`, `_` and `-` | 253 |
//!
//! A [`QualifiedName`] is written as `name` in the namespace `default`, and as `namespace/name` in
//! any other. Source: Kubernetes, "Object Names and IDs" (RFC 1123).

use std::fmt;

/// The namespace of names that give none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The form of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
    Collection,
    /// The name of a source, retriever or secret, without its namespace.
    Subdomain,
    Namespace,
    SecretKey,
}

/// Why a text is not a valid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// It does not follow the rule in [`NameForm::hint`].
    Form,
    /// It has more characters than [`NameForm::max_length`].
    TooLong,
}

impl NameForm {
    /// Returns the maximum number of characters. The partition of a collection,
    /// `rag_kb_<collection>`, fits into the 63 bytes of an identifier.
    pub const fn max_length(self) -> usize {
        match self {
            Self::Collection => 56,
            Self::Namespace => 63,
            Self::Subdomain | Self::SecretKey => 253,
        }
    }

    /// Returns the regular expression that a name matches.
    pub const fn pattern(self) -> &'static str {
        match self {
            Self::Collection => "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
            Self::Subdomain => "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
            Self::Namespace => "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            Self::SecretKey => "^[-._a-zA-Z0-9]+$",
        }
    }

    /// Returns the rule for names.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Collection => {
                "Use letters, digits, \".\", \"_\" and \"-\", with a letter or digit at both ends."
            }
            Self::Subdomain => {
                "Use lower-case letters, digits, \"-\" and \".\", with a letter or digit at both \
                 ends and around each \".\". Write a namespace other than \"default\" before a \
                 \"/\"."
            }
            Self::Namespace => {
                "Use lower-case letters, digits and \"-\", with a letter or digit at both ends."
            }
            Self::SecretKey => "Use letters, digits, \".\", \"_\" and \"-\".",
        }
    }

    /// # Errors
    /// `text` is not a name of this form.
    pub fn check(self, text: &str) -> Result<(), NameError> {
        let is_name = match self {
            Self::Collection => {
                let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
                is_enclosed(text, |b| b.is_ascii_alphanumeric(), inner)
            }
            Self::Subdomain => text.split('.').all(is_label),
            Self::Namespace => is_label(text),
            Self::SecretKey => {
                let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
                !text.is_empty() && text.bytes().all(allowed)
            }
        };
        match (is_name, text.len() <= self.max_length()) {
            (false, _) => Err(NameError::Form),
            (true, false) => Err(NameError::TooLong),
            (true, true) => Ok(()),
        }
    }
}

fn is_label(text: &str) -> bool {
    let end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    is_enclosed(text, end, |b| end(b) || b == b'-')
}

/// Returns true if the first and last byte are of `end`, and all others of `inner`.
fn is_enclosed(text: &str, end: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| end(*b))
        && bytes.last().is_some_and(|b| end(*b))
        && bytes.iter().all(|b| inner(*b))
}

/// The name of a source, retriever or secret with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    namespace: String,
    name: String,
}

/// Which part of a [`QualifiedName`] is wrong, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QualifiedNameError {
    pub part: NameForm,
    pub why: NameError,
}

impl QualifiedName {
    /// # Errors
    /// `namespace` or `name` is not a name.
    pub fn new(namespace: &str, name: &str) -> Result<Self, QualifiedNameError> {
        for (part, text) in [
            (NameForm::Namespace, namespace),
            (NameForm::Subdomain, name),
        ] {
            part.check(text)
                .map_err(|why| QualifiedNameError { part, why })?;
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Parses `name` or `namespace/name`.
    ///
    /// # Errors
    /// `text` is neither.
    pub fn parse(text: &str) -> Result<Self, QualifiedNameError> {
        let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
        Self::new(namespace, name)
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns another name, which is not checked, in the same namespace.
    pub fn sibling(&self, name: &str) -> String {
        qualify(&self.namespace, name)
    }
}

/// Writes `name` in the namespace `default`, and `namespace/name` in any other.
pub fn qualify(namespace: &str, name: &str) -> String {
    match namespace {
        DEFAULT_NAMESPACE => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    }
}

/// Splits the text of a valid [`QualifiedName`] into namespace and name.
pub fn split(qualified: &str) -> (&str, &str) {
    qualified
        .split_once('/')
        .unwrap_or((DEFAULT_NAMESPACE, qualified))
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&qualify(&self.namespace, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(form: NameForm, names: &[&str]) {
        for name in names {
            assert_eq!(form.check(name), Ok(()), "{form:?} {name}");
        }
    }

    fn refuses(form: NameForm, texts: &[&str]) {
        for text in texts {
            assert_eq!(form.check(text), Err(NameError::Form), "{form:?} {text:?}");
        }
        assert_eq!(form.check(&"a".repeat(form.max_length())), Ok(()));
        assert_eq!(
            form.check(&"a".repeat(form.max_length() + 1)),
            Err(NameError::TooLong)
        );
    }

    #[test]
    fn collections_take_both_cases_digits_dots_underscores_and_hyphens() {
        accepts(
            NameForm::Collection,
            &[
                "a",
                "0",
                "a--b",
                "AAA-BBB-CCC",
                "kb_123",
                "knowledge_base",
                "v1.2",
            ],
        );
        refuses(
            NameForm::Collection,
            &[
                "", "-", "-a", "a-", "_a", "a.", "a b", "a\n", "\u{e4}", "a\0", "a/b",
            ],
        );
    }

    #[test]
    fn names_of_kubernetes_are_dns_subdomains() {
        accepts(
            NameForm::Subdomain,
            &["a", "0", "a-b", "docs.example.com", "2024-q1"],
        );
        refuses(
            NameForm::Subdomain,
            &[
                "", ".", "a.", ".a", "a..b", "a.-b", "A", "a_b", "a b", "a\n", "a/b", "\u{e4}",
            ],
        );
        accepts(NameForm::Namespace, &["default", "team-a", "7"]);
        refuses(NameForm::Namespace, &["", "a.b", "-a", "Team", "a/b"]);
    }

    #[test]
    fn keys_of_secrets_are_those_of_kubernetes() {
        accepts(
            NameForm::SecretKey,
            &[
                "token",
                "GITHUB_TOKEN",
                "tls.crt",
                ".dockerconfigjson",
                "_",
                "-",
            ],
        );
        refuses(NameForm::SecretKey, &["", "a b", "a/b", "\u{e4}", "a\n"]);
    }

    #[test]
    fn qualified_names_are_parsed_and_displayed() {
        let docs = QualifiedName::parse("docs").unwrap();
        assert_eq!(
            (docs.namespace(), docs.name(), docs.to_string()),
            ("default", "docs", "docs".into())
        );
        assert_eq!(QualifiedName::parse("default/docs"), Ok(docs));
        let of_team = QualifiedName::parse("team-a/docs.v2").unwrap();
        assert_eq!((of_team.namespace(), of_team.name()), ("team-a", "docs.v2"));
        assert_eq!(of_team.to_string(), "team-a/docs.v2");
        assert_eq!(of_team.sibling("token"), "team-a/token");
        assert_eq!(split("team-a/docs.v2"), ("team-a", "docs.v2"));
        for (text, part) in [
            ("/a", NameForm::Namespace),
            ("a/", NameForm::Subdomain),
            ("A/b", NameForm::Namespace),
            ("a/b/c", NameForm::Subdomain),
        ] {
            assert_eq!(
                QualifiedName::parse(text),
                Err(QualifiedNameError {
                    part,
                    why: NameError::Form
                }),
                "{text}"
            );
        }
    }
}
