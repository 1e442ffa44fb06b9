//! Groups of similar texts.

use super::{Shingles, Signature, signature::BANDS};

/// Texts whose estimated similarity is this much below the least may be similar.
const MARGIN: f64 = 0.15;
/// A text is compared with at most so many others that have a band like it. Boilerplate may be in
/// thousands of texts.
const MOST_COMPARED: usize = 64;

/// Returns groups of texts, of which some are likely to have at least a similarity of `least`. A
/// group has the numbers of two or more texts in ascending order. `go_on` is called from time to
/// time.
pub fn likely_groups(
    signatures: &[Signature],
    least: f64,
    mut go_on: impl FnMut(),
) -> Vec<Vec<u32>> {
    let mut sets = Sets((0..signatures.len() as u32).collect());
    let mut order: Vec<u32> = (0..signatures.len() as u32).collect();
    for band in 0..BANDS {
        let of = |number: &u32| signatures[*number as usize].band(band);
        order.sort_unstable_by(|a, b| of(a).cmp(of(b)).then(a.cmp(b)));
        for equal in order.chunk_by(|a, b| of(a) == of(b)) {
            go_on();
            let mut firsts: Vec<u32> = vec![];
            for number in equal {
                let signature = &signatures[*number as usize];
                let near = firsts.iter().find(|first| {
                    signature.estimate(&signatures[**first as usize]) >= least - MARGIN
                });
                match near {
                    Some(first) => sets.join(*first, *number),
                    None if firsts.len() < MOST_COMPARED => firsts.push(*number),
                    None => {}
                }
            }
        }
    }
    let mut numbers: Vec<(u32, u32)> = (0..signatures.len() as u32)
        .map(|number| (sets.first(number), number))
        .collect();
    numbers.sort_unstable();
    let groups = numbers.chunk_by(|a, b| a.0 == b.0);
    let groups = groups.filter(|group| group.len() > 1);
    groups
        .map(|group| group.iter().map(|(_, number)| *number).collect())
        .collect()
}

/// Disjoint sets of numbers. Each number leads to a smaller one of its set, or to itself.
struct Sets(Vec<u32>);

impl Sets {
    /// Returns the smallest number of a set.
    fn first(&mut self, number: u32) -> u32 {
        let mut first = number;
        while self.0[first as usize] != first {
            let next = self.0[first as usize];
            self.0[first as usize] = self.0[next as usize];
            first = next;
        }
        first
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.first(one), self.first(other));
        self.0[one.max(other) as usize] = one.min(other);
    }
}

/// Texts that are not similar to each other, and each of which others are similar to.
pub struct Leaders {
    least: f64,
    leaders: Vec<(Shingles, Signature)>,
}

impl Leaders {
    /// Texts are similar from a similarity of `least` on.
    pub fn new(least: f64) -> Self {
        Self {
            least,
            leaders: vec![],
        }
    }

    /// Returns the number of the first leader that a text is similar to, and the similarity. A text
    /// that is similar to none becomes the next leader, with a similarity of 1 to itself.
    pub fn place(&mut self, text: &str) -> (usize, f64) {
        let shingles = Shingles::of(text);
        let signature = Signature::of(&shingles);
        let numbered = self.leaders.iter().enumerate();
        let similar = numbered
            .filter(|(_, (_, other))| signature.estimate(other) >= self.least - 2.0 * MARGIN)
            .map(|(number, (other, _))| (number, shingles.similarity(other)))
            .find(|(_, similarity)| *similarity >= self.least);
        similar.unwrap_or_else(|| {
            self.leaders.push((shingles, signature));
            (self.leaders.len() - 1, 1.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<String> {
        let text = |start: usize| {
            let words = (start..start + 150).map(|i| format!("w{}", i * 7919 % 1_000_003));
            words.collect::<Vec<_>>().join(" ")
        };
        let mut texts: Vec<String> = (0..200).map(|i| text(i * 1000)).collect();
        for copy in 0..50 {
            let changed = texts[copy * 3].replacen(" w", " changed w", 1 + copy % 3);
            texts.push(changed);
        }
        texts
    }

    #[test]
    fn copies_are_found_with_changed_words() {
        let texts = texts();
        let signatures: Vec<Signature> = texts
            .iter()
            .map(|text| Signature::of(&Shingles::of(text)))
            .collect();
        let groups = likely_groups(&signatures, 0.8, || ());
        let pairs: Vec<(u32, u32)> = groups.iter().map(|group| (group[0], group[1])).collect();
        let expected: Vec<(u32, u32)> = (0..50).map(|copy| (copy * 3, 200 + copy)).collect();
        assert_eq!(pairs, expected);
        assert!(groups.iter().all(|group| group.len() == 2));
    }

    #[test]
    fn texts_have_the_first_leader_that_is_similar() {
        let mut leaders = Leaders::new(0.8);
        let texts = texts();
        for text in &texts[..200] {
            leaders.place(text);
        }
        for copy in 0..50 {
            let (leader, similarity) = leaders.place(&texts[200 + copy]);
            assert_eq!(leader, copy * 3);
            assert!((0.8..1.0).contains(&similarity), "{similarity}");
        }
        assert_eq!(leaders.place("something else"), (200, 1.0));
        assert_eq!(leaders.place("Something else."), (200, 1.0));
    }

    #[test]
    fn boilerplate_is_one_group() {
        let same = Signature::of(&Shingles::of(
            "All rights reserved by the authors of this text.",
        ));
        let groups = likely_groups(&vec![same; 5000], 0.9, || ());
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].len(), 5000);
    }
}
