//! Values, key rings, and modified bytes of both.

#![allow(clippy::unwrap_used)] // a panic is how a test fails

use proptest::prelude::*;
use rag_secret::{
    InvalidKeyRing, InvalidValue, Key, KeyId, KeyRing, MAX_VALUE_BYTES, Value,
    sealed::{OpenError, Place, key_id, open, seal},
};

const PLACE: Place<'_> = Place {
    name: "git-host",
    key: "token",
};

fn ring(bytes: &[u8]) -> KeyRing {
    let mut keys = bytes.iter().map(|byte| Key::new([*byte; 32]));
    let first = KeyRing::new(keys.next().unwrap());
    keys.fold(first, KeyRing::with)
}

fn value(text: &str) -> Value {
    Value::new(text.into()).unwrap()
}

#[test]
fn the_same_value_is_never_sealed_to_the_same_bytes() {
    let keys = ring(&[1]);
    let a = seal(&keys, PLACE, &value("hunter2")).unwrap();
    let b = seal(&keys, PLACE, &value("hunter2")).unwrap();
    assert_ne!(a[9..33], b[9..33], "nonces");
    assert_ne!(a[33..], b[33..]);
}

#[test]
fn a_value_is_decrypted_only_under_its_name() {
    let keys = ring(&[1]);
    let sealed = seal(&keys, PLACE, &value("hunter2")).unwrap();
    for place in [
        Place {
            name: "git-hosts",
            key: "token",
        },
        Place {
            name: "git-host",
            key: "password",
        },
        Place {
            name: "git-hostt",
            key: "oken",
        },
        Place {
            name: "token",
            key: "git-host",
        },
        Place { name: "", key: "" },
    ] {
        assert_eq!(
            open(&keys, place, &sealed),
            Err(OpenError::Forged),
            "{place:?}"
        );
    }
    assert_eq!(open(&keys, PLACE, &sealed).unwrap(), value("hunter2"));
}

#[test]
fn the_error_for_a_value_of_another_ring_names_its_key() {
    let sealed = seal(&ring(&[1]), PLACE, &value("hunter2")).unwrap();
    let id = Key::new([1; 32]).id();
    assert_eq!(
        open(&ring(&[2, 3]), PLACE, &sealed),
        Err(OpenError::UnknownKey(id))
    );
}

#[test]
fn all_keys_of_a_ring_decrypt_and_the_last_one_encrypts() {
    let old = seal(&ring(&[1]), PLACE, &value("old")).unwrap();
    let both = ring(&[1, 2]);
    assert_eq!(open(&both, PLACE, &old).unwrap(), value("old"));
    let new = seal(&both, PLACE, &value("new")).unwrap();
    assert_eq!(key_id(&new), Some(Key::new([2; 32]).id()));
    assert_eq!(open(&ring(&[2]), PLACE, &new).unwrap(), value("new"));
}

#[test]
fn only_older_keys_are_removed_from_a_ring() {
    let keys = ring(&[1, 2, 3]);
    let [first, second, third] = [1, 2, 3].map(|byte| Key::new([byte; 32]).id());
    assert_eq!(
        keys.clone()
            .without(second)
            .keys()
            .map(Key::id)
            .collect::<Vec<_>>(),
        [first, third]
    );
    assert_eq!(keys.clone().without(third), keys);
    assert_eq!(
        keys.with(Key::new([1; 32]))
            .keys()
            .map(Key::id)
            .collect::<Vec<_>>(),
        [second, third, first]
    );
}

#[test]
fn concatenated_files_are_a_ring_of_all_their_keys() {
    let text = format!("{}\n{}", *ring(&[1, 2]).to_text(), *ring(&[1, 3]).to_text());
    assert_eq!(KeyRing::parse(&text).unwrap(), ring(&[2, 1, 3]));
}

/// A golden form: files outlive versions.
#[test]
fn the_text_of_a_key_ring_stays_readable() {
    let key = "rag-secret-key-1 281eecfbd5dd9f5b \
        000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let keys = KeyRing::parse(&format!("\n# a comment\r\n  {key}\r\n")).unwrap();
    assert_eq!(
        keys.current().id(),
        KeyId::parse("281eecfbd5dd9f5b").unwrap()
    );
    assert_eq!(keys.to_text().lines().last(), Some(key));
}

#[test]
fn errors_of_a_key_ring_do_not_contain_keys() {
    let key = "rag-secret-key-1 281eecfbd5dd9f5b \
        000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    for (text, expected) in [
        (String::new(), InvalidKeyRing::Empty),
        ("# nothing\n".into(), InvalidKeyRing::Empty),
        (format!("{key}\nhunter2\n"), InvalidKeyRing::Line(2)),
        (format!("{key} more"), InvalidKeyRing::Line(1)),
        (key.replace("key-1", "key-2"), InvalidKeyRing::Line(1)),
        (key[..key.len() - 2].into(), InvalidKeyRing::Corrupted(1)),
        (key.replace("1e1f", "1f1f"), InvalidKeyRing::Corrupted(1)),
        (key.replace("281e", "281f"), InvalidKeyRing::Corrupted(1)),
        (key.replace("1e1f", "zzzz"), InvalidKeyRing::Corrupted(1)),
    ] {
        assert_eq!(KeyRing::parse(&text), Err(expected), "{text}");
        assert!(!expected.to_string().contains("hunter2"));
    }
}

#[test]
fn values_have_limits() {
    assert_eq!(Value::new(vec![]), Err(InvalidValue::Empty));
    assert_eq!(Value::new(b"a\0b".to_vec()), Err(InvalidValue::Nul));
    assert_eq!(Value::new(vec![0xff]), Err(InvalidValue::NotUtf8));
    assert_eq!(
        Value::new(vec![b'a'; MAX_VALUE_BYTES + 1]),
        Err(InvalidValue::TooLong)
    );
    assert!(Value::new(vec![b'a'; MAX_VALUE_BYTES]).is_ok());
}

#[test]
fn debug_output_reveals_no_value_or_key() {
    let printed = format!(
        "{:?} {:?} {:?}",
        value("hunter2"),
        ring(&[0xab]),
        Key::new([0xab; 32])
    );
    assert!(
        !printed.contains("hunter2") && !printed.contains("abab") && !printed.contains("171"),
        "{printed}"
    );
}

proptest! {
    #[test]
    fn every_value_is_decrypted_unchanged(text in "[^\0]{1,300}", name in ".{0,60}", key in ".{0,60}", byte in any::<u8>()) {
        let keys = ring(&[byte]);
        let place = Place { name: &name, key: &key };
        let sealed = seal(&keys, place, &value(&text)).unwrap();
        prop_assert_eq!(sealed.len(), 1 + 8 + 24 + text.len() + 16);
        let opened = open(&keys, place, &sealed).unwrap();
        prop_assert_eq!(opened.expose(), text);
    }

    #[test]
    fn every_modified_byte_is_detected(text in "[^\0]{1,40}", at in any::<prop::sample::Index>(), change in 1..=u8::MAX) {
        let keys = ring(&[1, 2]);
        let mut sealed = seal(&keys, PLACE, &value(&text)).unwrap();
        let at = at.index(sealed.len());
        sealed[at] ^= change;
        prop_assert!(open(&keys, PLACE, &sealed).is_err());
    }

    #[test]
    fn every_truncation_is_detected(text in "[^\0]{1,40}", at in any::<prop::sample::Index>()) {
        let keys = ring(&[1]);
        let sealed = seal(&keys, PLACE, &value(&text)).unwrap();
        prop_assert!(open(&keys, PLACE, &sealed[..at.index(sealed.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_opened_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(open(&ring(&[1]), PLACE, &bytes).is_err());
    }

    #[test]
    fn any_text_is_parsed_or_refused_without_panic(text in "(rag-secret-key-1|#|[0-9a-f]{16}|[0-9a-f]{64}| |\n|.){0,20}") {
        if let Ok(keys) = KeyRing::parse(&text) {
            prop_assert_eq!(KeyRing::parse(&keys.to_text()), Ok(keys));
        }
    }

    #[test]
    fn a_ring_survives_its_text_form(bytes in prop::collection::vec(any::<u8>(), 1..9)) {
        let keys = ring(&bytes);
        prop_assert_eq!(KeyRing::parse(&keys.to_text()), Ok(keys));
    }
}
