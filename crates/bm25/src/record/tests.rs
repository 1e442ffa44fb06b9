//! Records that are written and read.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    write::{Entry, encode, size},
    *,
};
use crate::{
    format::{PENDING_ROOM, put},
    terms::Terms,
};

const TID: Tid = Tid {
    block: 70_000,
    offset: 3,
};

fn encoded(terms: &[(Vec<u8>, u32)], flags: u8) -> Vec<u8> {
    let entries = terms.iter().map(|(term, frequency)| Entry {
        hash: hash(term),
        term,
        frequency: *frequency,
        positions: None,
    });
    let mut entries: Vec<_> = entries.collect();
    let mut record = vec![];
    encode(TID, flags, 77, &mut entries, &mut record).unwrap();
    record
}

/// Returns the terms of all records, with frequencies and positions.
fn read_all(bytes: &[u8]) -> BTreeMap<Vec<u8>, (u32, Vec<u32>)> {
    let mut found: BTreeMap<Vec<u8>, (u32, Vec<u32>)> = BTreeMap::new();
    let mut rest = bytes;
    while let Some(record) = Record::parse(rest) {
        assert_eq!(record.problem(), None);
        assert!(record.bytes() <= PENDING_ROOM);
        let mut positions = record.positions();
        for (term, frequency) in record.terms() {
            let mut of_term = vec![];
            assert_eq!(positions.next(&mut of_term), Ok(Some(())));
            let mut again = vec![];
            record.find_positions(hash(term), term, &mut again).unwrap();
            assert_eq!(of_term, again);
            assert_eq!(record.find(hash(term), term).unwrap_or(0), frequency);
            let known = found.entry(term.to_vec()).or_default();
            known.0 += frequency;
            known.1.extend(of_term);
        }
        rest = &rest[record.bytes()..];
        assert_eq!(record.continues(), !rest.is_empty());
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn positions_that_no_page_has_room_for_go_on_in_further_records() {
    for (often, step) in [(100, 1), (5000, 1), (9000, 200), (30_000, 70_000)] {
        let mut terms = Terms::with_positions();
        for i in 0..often {
            terms.add_at(b"often", Some(i * step)).unwrap();
        }
        for i in 0..900 {
            terms
                .add_at(format!("word{}", i % 500).as_bytes(), Some(3 * i))
                .unwrap();
        }
        terms.add_at(b"nowhere", None).unwrap();
        terms.finish();
        let mut bytes = vec![];
        encode_document(TID, &terms, &mut bytes).unwrap();
        let expected = terms
            .iter_with_positions()
            .map(|(term, frequency, of_term)| (term.to_vec(), (frequency, of_term.to_vec())));
        assert_eq!(read_all(&bytes), expected.collect());
    }
}

proptest! {
    #[test]
    fn a_record_has_the_terms_that_were_written(
        map in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..300),
            prop_oneof![1..5_u32, 250..260_u32, Just(u32::MAX)],
            1..12,
        ),
        flags in 0..8_u8,
    ) {
        let terms: Vec<_> = map.into_iter().collect();
        let mut bytes = encoded(&terms, flags);
        let size: usize = terms.iter().map(|(term, f)| size(term, *f)).sum();
        prop_assert_eq!(bytes.len(), RECORD_HEAD + size);
        bytes.extend([9; 20]);
        let record = Record::parse(&bytes).unwrap();
        prop_assert_eq!((record.tid(), record.norm()), (TID, 77));
        prop_assert_eq!(record.is_dead(), flags & DEAD != 0);
        prop_assert_eq!(record.continues(), flags & CONTINUES != 0);
        prop_assert_eq!(record.is_continuation(), flags & CONTINUATION != 0);
        prop_assert_eq!(record.problem(), None);
        for (term, frequency) in &terms {
            prop_assert_eq!(record.find(hash(term), term), Some(*frequency));
            prop_assert_eq!(record.find(hash(term) ^ 1, term), None);
        }
        let mut found: Vec<_> = record.terms().map(|(t, f)| (t.to_vec(), f)).collect();
        found.sort();
        prop_assert_eq!(found, terms);
    }

    #[test]
    fn wrong_bytes_are_no_record_or_a_harmless_one(
        bytes in prop::collection::vec(
            prop_oneof![Just(0), Just(1), Just(255), any::<u8>()],
            0..200,
        ),
        size in 0..200_u16,
        terms in 0..12_u16,
    ) {
        let mut bytes = bytes;
        if bytes.len() >= RECORD_HEAD {
            put(&mut bytes, offset_of!(RecordBytes, bytes), size.to_le_bytes());
            put(&mut bytes, offset_of!(RecordBytes, terms), terms.to_le_bytes());
        }
        if let Some(record) = Record::parse(&bytes) {
            prop_assert!(record.bytes() <= bytes.len());
            prop_assert!(record.bytes() >= RECORD_HEAD);
            let all: Vec<_> = record.terms().collect();
            prop_assert_eq!(all.len(), record.len());
            record.problem();
            record.find(0, b"term");
            record.find_positions(0, b"term", &mut vec![]).unwrap();
        }
    }
}
