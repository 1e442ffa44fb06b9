//! Public keys of ssh servers, as users write them: `ssh-ed25519 AAAA...`, or a line of a
//! `known_hosts` file, as `ssh-keyscan` prints it.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};

use super::ssh::SshServer;
use crate::Fields;

const FIELD: &str = "hostKeys";
const MAX_KEYS: usize = 100;
const HINT: &str = "Write keys as \"ssh-ed25519 AAAA...\", or lines of ssh-keyscan.";
/// Number of fields of a key after its type, and the size of the last one if it is fixed.
const TYPES: [(&str, usize, Option<usize>); 5] = [
    ("ssh-ed25519", 1, Some(32)),
    ("ecdsa-sha2-nistp256", 2, Some(65)),
    ("ecdsa-sha2-nistp384", 2, Some(97)),
    ("ecdsa-sha2-nistp521", 2, Some(133)),
    ("ssh-rsa", 2, None),
];

/// A public key: its type and its bytes in Base64, separated by a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostKey(String);

impl HostKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the key in a line. Returns `None` for an empty line and a comment.
    fn parse(line: &str, server: &SshServer) -> Result<Option<Self>, (String, &'static str)> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let wrong = |problem: &str| Err((problem.to_owned(), HINT));
        if line.starts_with("SHA256:") || line.starts_with("MD5:") {
            return Err((
                "is a fingerprint, not a key".into(),
                "A run that refuses an unknown key shows the key and its fingerprint. \
                 ssh-keyscan prints keys, too.",
            ));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.iter().filter(|word| known(word).is_some()).count() > 1 {
            return wrong("has several keys in a line");
        }
        let (names, kind, key) = match words[..] {
            [marker, ..] if marker.starts_with('@') => {
                return wrong("has a marker, which is not supported");
            }
            [kind, key, ..] if known(kind).is_some() => (None, kind, key),
            [names, kind, key, ..] if known(kind).is_some() => (Some(names), kind, key),
            _ => return wrong("is not the public key of a host"),
        };
        if names.is_some_and(|names| !server.is_among(names)) {
            let name = server.known_name();
            return Err((format!("is a line for another host than {name}"), HINT));
        }
        if !is_whole(kind, key) {
            return wrong("is not a complete key");
        }
        Ok(Some(Self(format!("{kind} {key}"))))
    }
}

fn known(kind: &str) -> Option<(usize, Option<usize>)> {
    let found = TYPES.iter().find(|(name, ..)| *name == kind);
    found.map(|(_, fields, size)| (*fields, *size))
}

/// Returns true if the bytes of a key are its type and the fields that follow it (RFC 4253, 6.6).
fn is_whole(kind: &str, key: &str) -> bool {
    let (Some((fields, size)), Ok(bytes)) = (known(kind), BASE64_STANDARD.decode(key)) else {
        return false;
    };
    let mut rest = bytes.as_slice();
    let mut next = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (field, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = after;
        Some(field)
    };
    let is_its_type = next() == Some(kind.as_bytes());
    let last = (0..fields).map(|_| next()).last().flatten();
    let is_sized =
        last.is_some_and(|last| !last.is_empty() && size.is_none_or(|size| last.len() == size));
    is_its_type && is_sized && rest.is_empty()
}

/// Reads the host keys of a spec. `server` is `None` if the repository is not read over ssh.
pub(super) fn host_keys(fields: &Fields<'_>, server: Option<&SshServer>) -> Vec<HostKey> {
    let Some(texts) = fields.texts(FIELD) else {
        return vec![];
    };
    let Some(server) = server else {
        fields.problem(FIELD, "is only for a repository over ssh");
        return vec![];
    };
    let mut keys: Vec<HostKey> = vec![];
    for (i, text) in texts.iter().enumerate() {
        for line in text.lines() {
            match HostKey::parse(line, server) {
                Ok(key) => keys.extend(key.filter(|key| !keys.contains(key))),
                Err((problem, hint)) => {
                    fields.problem_with(format!("{FIELD}[{i}]"), problem, hint);
                }
            }
        }
    }
    if keys.len() > MAX_KEYS {
        fields.problem(FIELD, format!("has more than {MAX_KEYS} keys"));
    }
    keys
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::source::{Repository, SourceSpec};

    const ED25519: &str = "ssh-ed25519 \
        AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn keys(keys: &Value) -> Result<Vec<String>, String> {
        let spec = json!({"repositoryURL": "git@example.org:docs.git", "hostKeys": keys});
        match SourceSpec::parse("git", &spec) {
            Ok(SourceSpec::Git(git)) => match git.repository {
                Repository::Ssh(ssh) => Ok(ssh.host_keys.iter().map(|k| k.0.clone()).collect()),
                other => panic!("{other:?}"),
            },
            Ok(other) => panic!("{other:?}"),
            Err(problems) => Err(problems[0].message.clone()),
        }
    }

    #[test]
    fn keys_are_written_as_such_or_as_lines_of_known_hosts() {
        let key = ED25519.to_owned();
        for text in [
            key.clone(),
            format!("{key} root@example.org"),
            format!("# example.org:22 SSH-2.0-OpenSSH_9.2\nexample.org {key}\n"),
            format!("other.org,example.org,10.0.0.1 {key}"),
            format!("[example.org]:22 {key}"),
            format!("*.org {key}"),
            format!("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= {key}"),
            format!("{key}\n{key}"),
        ] {
            assert_eq!(keys(&json!([text])), Ok(vec![key.clone()]), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for (text, problem) in [
            (
                "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
                "is a fingerprint",
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----",
                "is not the public key of a host",
            ),
            (
                "ssh-dss AAAAB3NzaC1kc3MAAACB",
                "is not the public key of a host",
            ),
            (&ED25519[..ED25519.len() - 4], "is not a complete key"),
            (
                &ED25519.replace("ssh-ed25519", "ssh-rsa"),
                "is not a complete key",
            ),
            (&format!("@cert-authority *.org {ED25519}"), "has a marker"),
            (
                &format!("example.com {ED25519}"),
                "is a line for another host than example.org",
            ),
            (
                &format!("[example.org]:2222 {ED25519}"),
                "is a line for another host",
            ),
        ] {
            let message = keys(&json!([text])).unwrap_err();
            assert!(message.starts_with(problem), "{text}: {message}");
        }
    }
}
