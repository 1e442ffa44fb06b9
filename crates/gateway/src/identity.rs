//! Who calls: an API key, a token, or nobody.

use std::fmt;

use axum::http::{HeaderMap, StatusCode, header};

use crate::{problem::Problem, token::TokenKeys};

/// The role of a request.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// An API key, which the database checks.
    Key { id: String, secret: String },
    /// A role that a token or the configuration names.
    Role(String),
    /// The role that the connection logged in as: only over standard input and output.
    Session,
}

// The secret is in no log.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Identity {
    /// Returns the name for logs and limits: the public part of a key, or the role.
    pub fn name(&self) -> String {
        match self {
            Self::Key { id, .. } => format!("rag_{id}"),
            Self::Role(role) => format!("role {role}"),
            Self::Session => "session".into(),
        }
    }
}

/// Reads the key `rag_<id>_<secret>`.
fn key(text: &str) -> Option<Identity> {
    let (id, secret) = text.strip_prefix("rag_")?.split_once('_')?;
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    (is_hex(id, 16) && is_hex(secret, 64)).then(|| Identity::Key {
        id: id.into(),
        secret: secret.into(),
    })
}

/// How requests are recognized.
pub struct Authentication {
    pub anonymous: Option<Identity>,
    pub tokens: Option<TokenKeys>,
    /// Where the metadata of RFC 9728 are.
    pub metadata_url: String,
}

impl Authentication {
    /// Returns the identity of a request.
    ///
    /// # Errors
    /// There is no key, and no anonymous role; or it is malformed or expired.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Identity, Problem> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return self.anonymous.clone().ok_or_else(|| {
                self.refuse(
                    "a key is required: Authorization: Bearer rag_...",
                    None,
                    1001,
                )
            });
        };
        let malformed = || {
            let detail = "the header Authorization must be: Bearer KEY";
            self.refuse(detail, Some("invalid_request"), 1001)
        };
        let (scheme, given) = value
            .to_str()
            .ok()
            .and_then(|text| text.trim().split_once(' '))
            .ok_or_else(malformed)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(malformed());
        }
        let given = given.trim();
        if let Some(key) = key(given) {
            return Ok(key);
        }
        let token = self.tokens.as_ref().map(|tokens| tokens.role(given));
        match token {
            Some(Ok(role)) => Ok(Identity::Role(role)),
            Some(Err(reason)) => Err(self.refuse(reason, Some("invalid_token"), 1002)),
            None => Err(self.refuse("the key is invalid", Some("invalid_token"), 1002)),
        }
    }

    /// Returns the refusal of a key, with the header that says where a key is to be had.
    pub fn refuse(&self, detail: &str, error: Option<&str>, dify: u32) -> Problem {
        let error = error.map_or_else(String::new, |error| format!(", error=\"{error}\""));
        Problem {
            challenge: Some(format!(
                "Bearer realm=\"rag\", resource_metadata=\"{}\"{error}",
                self.metadata_url
            )),
            dify: Some(dify),
            ..Problem::new(StatusCode::UNAUTHORIZED, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identify(value: Option<&str>) -> Result<Identity, Problem> {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
        }
        let authentication = Authentication {
            anonymous: None,
            tokens: None,
            metadata_url: "http://localhost/m".into(),
        };
        authentication.identify(&headers)
    }

    #[test]
    fn a_key_has_an_id_and_a_secret() {
        let (id, secret) = ("0123456789abcdef", "0f".repeat(32));
        let found = identify(Some(&format!("Bearer rag_{id}_{secret}"))).expect("a key");
        assert_eq!(found.name(), "rag_0123456789abcdef");
        assert!(!format!("{found:?}").contains(&secret));
    }

    #[test]
    fn malformed_keys_are_refused_without_the_database() {
        for value in [
            "Bearer x",
            "Bearer rag_1_2",
            "Basic eDp5",
            "Bearer",
            "",
            "rag_1",
        ] {
            let problem = identify(Some(value)).expect_err("no key");
            assert_eq!(problem.status, StatusCode::UNAUTHORIZED, "{value}");
            assert!(problem.challenge.is_some(), "{value}");
        }
        assert_eq!(identify(None).expect_err("no key").dify, Some(1001));
    }
}
