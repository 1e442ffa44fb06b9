//! A value as it is stored: encrypted and authenticated with XChaCha20-Poly1305.
//!
//! ```text
//! | 1 byte: version, 1 | 8 bytes: id of the key | 24 bytes: random nonce | ciphertext, as long as the value | 16 bytes: tag |
//! ```
//!
//! The associated data is the version, the id of the key, and the name of the value. So the bytes
//! can be decrypted under that name only: a role that can write the table cannot replace one secret
//! by another.
//!
//! Source: draft-irtf-cfrg-xchacha-03. Random nonces of 192 bits do not collide for any practical
//! number of values.

use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};

use crate::{InvalidValue, Key, KeyId, KeyRing, NoRandomness, Value};

const VERSION: u8 = 1;
const NONCE: usize = 24;
const TAG: usize = 16;
const HEADER: usize = 1 + 8 + NONCE;

/// Names a value: the name of its secret and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    pub name: &'a str,
    pub key: &'a str,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("it is not an encrypted value, or was encrypted by a later version")]
    Malformed,
    #[error("the key file does not contain its key {0}")]
    UnknownKey(KeyId),
    #[error("it was modified, or belongs to another secret")]
    Forged,
    #[error("the decrypted value {0}")]
    Invalid(#[from] InvalidValue),
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("could not encrypt the value")]
    Cipher,
}

/// Encrypts a value with the current key of the ring.
///
/// # Errors
/// There are no random numbers for the nonce.
pub fn seal(keys: &KeyRing, place: Place<'_>, value: &Value) -> Result<Vec<u8>, SealError> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(NoRandomness::from)?;
    seal_with(keys.current(), nonce, place, value)
}

fn seal_with(
    key: &Key,
    nonce: [u8; NONCE],
    place: Place<'_>,
    value: &Value,
) -> Result<Vec<u8>, SealError> {
    let id = key.id();
    let aad = associated_data(id, place);
    let payload = Payload {
        msg: value.expose().as_bytes(),
        aad: &aad,
    };
    let encrypted = cipher(key)
        .encrypt(&XNonce::from(nonce), payload)
        .map_err(|_| SealError::Cipher)?;
    let mut sealed = Vec::with_capacity(HEADER + encrypted.len());
    sealed.push(VERSION);
    sealed.extend(id.0);
    sealed.extend(nonce);
    sealed.extend(encrypted);
    Ok(sealed)
}

/// Decrypts a value that was sealed under the same name.
///
/// # Errors
/// The ring does not have the key, or the bytes were modified.
pub fn open(keys: &KeyRing, place: Place<'_>, sealed: &[u8]) -> Result<Value, OpenError> {
    let id = key_id(sealed).ok_or(OpenError::Malformed)?;
    let key = keys.get(id).ok_or(OpenError::UnknownKey(id))?;
    let (header, encrypted) = sealed.split_at(HEADER);
    let nonce: [u8; NONCE] = header[1 + 8..]
        .try_into()
        .map_err(|_| OpenError::Malformed)?;
    let payload = Payload {
        msg: encrypted,
        aad: &associated_data(id, place),
    };
    let value = cipher(key)
        .decrypt(&XNonce::from(nonce), payload)
        .map_err(|_| OpenError::Forged)?;
    Ok(Value::new(value)?)
}

/// Returns the id of the key of sealed bytes, or `None` for other bytes.
pub fn key_id(sealed: &[u8]) -> Option<KeyId> {
    let (&[version, ref rest @ ..], true) =
        (sealed.first_chunk::<HEADER>()?, sealed.len() > HEADER + TAG)
    else {
        return None;
    };
    let id = rest.first_chunk::<8>()?;
    (version == VERSION).then_some(KeyId(*id))
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}

fn associated_data(id: KeyId, place: Place<'_>) -> Vec<u8> {
    let mut data = b"rag secret".to_vec();
    data.push(VERSION);
    data.extend(id.0);
    for name in [place.name, place.key] {
        data.extend((name.len() as u32).to_le_bytes());
        data.extend(name.as_bytes());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> = Place {
        name: "git-host",
        key: "token",
    };

    fn counting_key() -> Key {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(0..).for_each(|(byte, i)| *byte = i);
        Key::new(bytes)
    }

    /// Computed with libsodium (PyNaCl's crypto_aead_xchacha20poly1305_ietf_encrypt) and the BLAKE3
    /// project's Python package.
    const GOLDEN: &str = "01281eecfbd5dd9f5b404142434445464748494a4b4c4d4e4f5051525354555657\
        bc4c6b04b5924b366d74149e7f23b522433a7d7ac3e2821656ba143475ef2fd7c1e8bbd0cff778ba";

    #[test]
    fn sealed_bytes_equal_those_of_another_implementation() {
        let mut nonce = [0; NONCE];
        nonce.iter_mut().zip(0x40..).for_each(|(byte, i)| *byte = i);
        let value = Value::new("hunter2 – пароль".into()).unwrap();
        assert_eq!(
            hex::encode(seal_with(&counting_key(), nonce, PLACE, &value).unwrap()),
            GOLDEN
        );
        let opened = open(
            &KeyRing::new(counting_key()),
            PLACE,
            &hex::decode(GOLDEN).unwrap(),
        )
        .unwrap();
        assert_eq!(opened, value);
    }
}
