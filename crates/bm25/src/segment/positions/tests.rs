//! Positions that are written and read.

use proptest::prelude::*;

use super::PositionsBlock;
use crate::segment::postings::PostingsBlock;

fn blocks(documents: &[(u32, Vec<u32>)]) -> (PostingsBlock, PositionsBlock) {
    let (mut postings, mut positions) = (PostingsBlock::default(), PositionsBlock::default());
    for (document, (frequency, of_document)) in (0..).zip(documents) {
        postings.push(document, *frequency);
        positions.push(of_document).unwrap();
    }
    (postings, positions)
}

fn documents() -> impl Strategy<Value = Vec<(u32, Vec<u32>)>> {
    let position = prop_oneof![0..60_u32, 0..100_000_u32, Just(u32::MAX - 1), any::<u32>()];
    let positions = prop_oneof![
        4 => prop::collection::btree_set(0..300_u32, 1..4),
        1 => prop::collection::btree_set(position, 0..40),
    ];
    let document = (0..5_u32, 0..3_u32, positions).prop_map(|(kind, other, positions)| {
        let positions: Vec<u32> = positions.into_iter().collect();
        let count = positions.len() as u32;
        let frequency = match kind {
            0 => other,
            1 => count + 1,
            _ => count,
        };
        (frequency, positions)
    });
    prop::collection::vec(document, 1..=128)
}

proptest! {
    #[test]
    fn positions_are_read_as_they_were_written(documents in documents(), cut in 0..30_usize) {
        let (postings, positions) = blocks(&documents);
        let mut bytes = vec![7];
        positions.write(&postings, &mut bytes).unwrap();
        let mut read = PositionsBlock::default();
        prop_assert_eq!(read.read(&postings, &bytes[1..]), Ok(Some(())));
        for (place, (_, of_document)) in documents.iter().enumerate() {
            prop_assert_eq!(read.of(place), of_document.as_slice());
        }
        prop_assert_eq!(read.of(documents.len()), &[] as &[u32]);
        // one byte more or some fewer are no positions, or others
        bytes.push(0);
        prop_assert_eq!(read.read(&postings, &bytes[1..]), Ok(None));
        bytes.truncate((bytes.len() - 1).saturating_sub(cut + 1));
        let _ = read.read(&postings, bytes.get(1..).unwrap_or_default());
    }

    #[test]
    fn other_bytes_are_harmless(
        documents in documents(),
        bytes in prop::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..90),
    ) {
        let (postings, _) = blocks(&documents);
        let mut read = PositionsBlock::default();
        if let Ok(Some(())) = read.read(&postings, &bytes) {
            for place in 0..documents.len() {
                prop_assert!(read.of(place).is_sorted_by(|a, b| a < b));
            }
        }
    }
}

#[test]
fn one_position_takes_two_bytes_in_most_texts() {
    for position in [0, 5, 60, 100, 200] {
        let (postings, positions) = blocks(&[(1, vec![position])]);
        let mut bytes = vec![];
        positions.write(&postings, &mut bytes).unwrap();
        assert!(bytes.len() <= 2, "{position}: {} bytes", bytes.len());
    }
}
