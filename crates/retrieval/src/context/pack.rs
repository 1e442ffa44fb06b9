use std::collections::{BTreeSet, HashMap};

/// A result of a search, with the chunks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChunks<D> {
    pub document: D,
    /// The positions of the chunks in the document, with their numbers of tokens.
    pub chunks: Vec<(i32, usize)>,
    /// The number of tokens of the lines around the document.
    pub frame: usize,
}

/// Which results have room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// Their places among the results, in the same order.
    pub taken: Vec<usize>,
    /// The estimated number of tokens.
    pub tokens: usize,
}

/// Chooses results, the best first. One that has no room is left out, and a smaller one may follow.
/// `used` is the number of tokens of what is always there, and `gap` that of the mark between
/// chunks that do not follow each other.
pub fn pack<D: std::hash::Hash + Eq>(
    found: &[FoundChunks<D>],
    max_tokens: usize,
    used: usize,
    gap: usize,
) -> Packing {
    let mut packing = Packing {
        taken: vec![],
        tokens: used,
    };
    let mut quoted: HashMap<&D, BTreeSet<i32>> = HashMap::new();
    for (place, result) in found.iter().enumerate() {
        let known = quoted.get(&result.document);
        let is_new = |index: &i32| known.is_none_or(|known| !known.contains(index));
        let new = result.chunks.iter().filter(|(index, _)| is_new(index));
        let text: usize = new.map(|(_, tokens)| tokens).sum();
        let frame = match known {
            None => result.frame,
            Some(_) if text > 0 => gap,
            Some(_) => 0,
        };
        if packing.tokens + text + frame > max_tokens {
            continue;
        }
        packing.tokens += text + frame;
        packing.taken.push(place);
        let indexes = result.chunks.iter().map(|(index, _)| *index);
        quoted.entry(&result.document).or_default().extend(indexes);
    }
    packing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: u8, chunks: &[(i32, usize)]) -> FoundChunks<u8> {
        FoundChunks {
            document,
            chunks: chunks.to_vec(),
            frame: 10,
        }
    }

    #[test]
    fn the_best_are_taken_until_there_is_no_room() {
        let results = [
            found(1, &[(0, 50)]),
            found(2, &[(0, 100)]),
            found(3, &[(0, 30)]),
        ];
        let packing = pack(&results, 110, 5, 3);
        assert_eq!(packing.taken, [0, 2]);
        assert_eq!(packing.tokens, 5 + 60 + 40);
    }

    #[test]
    fn a_chunk_counts_once() {
        let results = [
            found(1, &[(3, 50), (4, 50)]),
            found(1, &[(4, 50), (5, 20)]),
            found(1, &[(4, 50)]),
        ];
        let packing = pack(&results, 200, 0, 3);
        assert_eq!(packing.taken, [0, 1, 2]);
        assert_eq!(packing.tokens, 10 + 100 + 3 + 20);
    }

    proptest::proptest! {
        #[test]
        fn the_limit_holds(
            sizes in proptest::collection::vec((0u8..4, 0i32..6, 0usize..60), 0..20),
            max_tokens in 0usize..300,
        ) {
            let results: Vec<_> =
                sizes.iter().map(|(d, index, tokens)| found(*d, &[(*index, *tokens)])).collect();
            let packing = pack(&results, max_tokens, 0, 1);
            proptest::prop_assert!(packing.tokens <= max_tokens);
            proptest::prop_assert!(packing.taken.is_sorted());
        }
    }
}
