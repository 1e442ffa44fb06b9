//! The private key that a secret has.

use rag_protocol::{EngineError, ErrorKind, ingest::Credentials};
use russh::keys::{self, PrivateKey, decode_secret_key};

const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";
const HINT: &str = "Keys are ed25519, ecdsa or rsa, in the format of OpenSSH or PKCS#8. \
                    \"ssh-keygen -p -f FILE\" writes other keys in the format of OpenSSH.";

/// Reads a private key.
///
/// # Errors
/// It is none, or its passphrase is missing or wrong. No part of it is in the error.
pub fn private_key(credentials: &Credentials) -> Result<PrivateKey, EngineError> {
    let failed = |message: &str, hint: &str| {
        Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(hint))
    };
    let text = lines(&credentials.secret);
    if !text.contains(BEGIN) && !text.starts_with("PuTTY-User-Key-File-") {
        return if ["ssh-", "ecdsa-", "sk-"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            failed("the secret has a public key instead of a private key", HINT)
        } else {
            failed("the secret has no private key", HINT)
        };
    }
    let is_marked = text.contains("ENCRYPTED") || text.contains("Encryption: aes");
    // some formats refuse a passphrase that they do not need
    let read = match (decode_secret_key(&text, None), &credentials.passphrase) {
        (Err(_), Some(passphrase)) => decode_secret_key(&text, Some(passphrase)),
        (read, _) => read,
    };
    match (read, &credentials.passphrase) {
        (Ok(key), _) if key.algorithm().to_string().starts_with("sk-") => failed(
            "the private key is on a security key, which a server cannot use",
            "Create a key for the database server with ssh-keygen.",
        ),
        (Ok(key), _) => Ok(key),
        (Err(keys::Error::KeyIsEncrypted), None) => no_passphrase(),
        (Err(_), None) if is_marked => no_passphrase(),
        (Err(keys::Error::SshKey(keys::ssh_key::Error::Crypto)), Some(_)) => failed(
            "the passphrase is not that of the private key",
            "rag_create_secret(name, value, key => 'passphrase') replaces it.",
        ),
        (Err(_), Some(_)) if is_marked => failed(
            "could not read the private key: its format is not supported, or the passphrase is \
             wrong",
            HINT,
        ),
        (Err(_), _) => failed("could not read the private key", HINT),
    }
}

fn no_passphrase() -> Result<PrivateKey, EngineError> {
    let message = "the private key has a passphrase, and the secret does not";
    let hint = "rag_create_secret(name, value, key => 'passphrase') adds it.";
    Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(hint))
}

/// Returns a key in the lines that it had in its file: forms, variables and YAML join, indent and
/// escape them.
fn lines(text: &str) -> String {
    let text = text
        .trim()
        .trim_start_matches('\u{feff}')
        .replace("\\n", "\n");
    let text: Vec<&str> = text.lines().map(str::trim).collect();
    let text = text.join("\n");
    let parts = || {
        let (_, rest) = text.split_once(BEGIN)?;
        let (kind, rest) = rest.split_once("-----")?;
        let (body, _) = rest.split_once(END)?;
        Some((kind, body))
    };
    let words = |text: &str, separator| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(separator)
    };
    match parts() {
        // a body with headers is read line by line
        Some((kind, body)) if !body.contains(':') => {
            let (kind, body) = (words(kind, " "), words(body, "\n"));
            format!("{BEGIN} {kind}-----\n{body}\n{END} {kind}-----\n")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // a key of no account
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";

    fn read(secret: &str) -> Result<String, String> {
        let credentials = Credentials {
            username: None,
            secret: secret.into(),
            passphrase: None,
        };
        let key = private_key(&credentials).map_err(|error| error.message)?;
        Ok(key.public_key().to_openssh().unwrap())
    }

    #[test]
    fn keys_that_were_joined_indented_or_escaped_are_read() {
        let expected = read(KEY);
        assert!(
            expected
                .as_deref()
                .is_ok_and(|key| key.starts_with("ssh-ed25519 "))
        );
        for text in [
            KEY.trim().to_owned(),
            KEY.replace('\n', "\r\n"),
            KEY.replace('\n', "\\n"),
            KEY.replace('\n', " "),
            KEY.replace('\n', "\n    "),
            KEY.replace(' ', "\n    "),
            format!("\u{feff}\n\n{KEY}\n\n"),
        ] {
            assert_eq!(read(&text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_named() {
        for (text, message) in [
            ("ghp_0123456789", "the secret has no private key"),
            (
                "ssh-ed25519 AAAA me@h",
                "the secret has a public key instead of a private key",
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n",
                "could not read the private key",
            ),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
                "the private key has a passphrase, and the secret does not",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                 DEK-Info: DES-EDE3-CBC,01\n\nAAAA\n-----END RSA PRIVATE KEY-----",
                "the private key has a passphrase, and the secret does not",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
    }
}
