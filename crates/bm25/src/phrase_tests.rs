//! Phrases, compared with all ways to choose words.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn matches(places: &[(u32, &[u32])], slop: u32) -> bool {
    matches_with(places, slop, || ())
}

fn matches_with(places: &[(u32, &[u32])], slop: u32, check: impl Fn()) -> bool {
    let words = words_of(places);
    has_places(&with_offsets(places, &words), slop, check).unwrap()
}

/// Returns a word for each place.
fn words_of<'a>(places: &[(u32, &'a [u32])]) -> Vec<WordPositions<'a>> {
    let words = places.iter().map(|&(offset, positions)| WordPositions {
        offset: offset.into(),
        positions: positions.into(),
    });
    words.collect()
}

fn with_offsets<'p, 'a>(
    places: &[(u32, &[u32])],
    words: &'p [WordPositions<'a>],
) -> Vec<PlaceWords<'p, 'a>> {
    let places = places.iter().zip(words.chunks(1));
    places
        .map(|((offset, _), words)| (*offset, words))
        .collect()
}

/// Tries each choice of a position for each place.
fn is_there(places: &[(u32, Vec<u32>)], chosen: &mut Vec<u32>, slop: u32) -> bool {
    let Some((_, positions)) = places.get(chosen.len()) else {
        let moved = chosen.iter().zip(places);
        let moved = moved.map(|(position, (offset, _))| i64::from(*position) - i64::from(*offset));
        let moved: Vec<i64> = moved.collect();
        let range = moved.iter().max().unwrap() - moved.iter().min().unwrap();
        return range <= i64::from(slop);
    };
    positions.iter().any(|position| {
        if chosen.contains(position) {
            return false;
        }
        chosen.push(*position);
        let is_there = is_there(places, chosen, slop);
        chosen.pop();
        is_there
    })
}

#[test]
fn slop_is_the_number_of_moves() {
    // write ahead log
    let (write, ahead, log): (&[u32], &[u32], &[u32]) = (&[3], &[4], &[5]);
    assert!(matches(&[(0, write), (1, ahead), (2, log)], 0));
    assert!(matches(&[(7, log)], 0));
    // one word between two, and two
    assert!(!matches(&[(0, write), (1, log)], 0));
    assert!(matches(&[(0, write), (1, log)], 1));
    assert!(!matches(&[(0, &[3]), (1, &[6])], 1));
    assert!(matches(&[(0, &[3]), (1, &[6])], 2));
    // the other order takes two moves
    assert!(!matches(&[(0, ahead), (1, write)], 1));
    assert!(matches(&[(0, ahead), (1, write)], 2));
    // a stop word of the phrase is a place of its own
    assert!(matches(&[(0, write), (2, log)], 0));
    assert!(!matches(&[], 5));
    assert!(!matches(&[(0, write), (1, &[])], 5));
    assert!(matches(&[(4, &[0]), (5, &[u32::MAX])], u32::MAX));
}

#[test]
fn a_word_of_the_text_is_one_word_of_the_phrase() {
    // `new new york`~4 is not in `new york`
    assert!(!matches(&[(0, &[0]), (1, &[0]), (2, &[1])], 4));
    assert!(matches(&[(0, &[0, 2]), (1, &[0, 2]), (2, &[1])], 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn all_choices_are_tried(
        places in prop::collection::vec(
            (0..6_u32, prop::collection::btree_set(0..14_u32, 0..5)),
            1..5,
        ),
        slop in 0..7_u32,
    ) {
        let places: Vec<(u32, Vec<u32>)> = places
            .into_iter()
            .map(|(offset, positions)| (offset, positions.into_iter().collect()))
            .collect();
        let given = places.iter().map(|(offset, positions)| (*offset, positions.as_slice()));
        let given: Vec<_> = given.collect();
        // Places with one offset and slop 0 share a position. `Phrase` makes them one place.
        let offsets: BTreeSet<u32> = given.iter().map(|(offset, _)| *offset).collect();
        prop_assume!(slop > 0 || offsets.len() == given.len());
        prop_assert_eq!(matches(&given, slop), is_there(&places, &mut vec![], slop));
    }
}

fn document(words: &[(&str, u32)]) -> Terms {
    let mut terms = Terms::with_positions();
    for (word, at) in words {
        terms.add_at(word.as_bytes(), Some(*at)).unwrap();
    }
    terms.finish();
    terms
}

fn phrase(words: &[(&str, u32, u32)], slop: u32) -> Phrase {
    let mut phrase = Phrase::new(slop);
    for (word, offset, places) in words {
        phrase.add(word.as_bytes(), *offset, *places).unwrap();
    }
    phrase.finish().unwrap();
    phrase
}

#[test]
fn a_compound_is_its_whole_or_its_parts() {
    // `e-117 error`
    let phrase = phrase(
        &[("e117", 0, 2), ("e", 0, 1), ("117", 1, 1), ("error", 2, 1)],
        0,
    );
    let has = |words: &[(&str, u32)]| phrase.matches(&document(words), || ()).unwrap();
    assert!(has(&[("e117", 4), ("117", 5), ("error", 6)]));
    assert!(has(&[("e", 4), ("117", 5), ("error", 6)]));
    assert!(!has(&[("117", 5), ("error", 6)]));
    assert!(!has(&[("e117", 4), ("error", 5)]));
    assert!(!has(&[("e117", 4), ("error", 7)]));
    assert!(!has(&[("f117", 4), ("117", 5), ("error", 6)]));
}

#[test]
fn stop_words_are_places_for_anything() {
    // `state-of-the-art method`
    let words = [
        ("stateoftheart", 0, 4),
        ("state", 0, 1),
        ("", 1, 1),
        ("", 2, 1),
        ("art", 3, 1),
        ("method", 4, 1),
    ];
    let phrase = phrase(&words, 0);
    let has = |words: &[(&str, u32)]| phrase.matches(&document(words), || ()).unwrap();
    assert!(has(&[("state", 0), ("art", 3), ("method", 4)]));
    assert!(has(&[
        ("stateoftheart", 0),
        ("state", 0),
        ("art", 3),
        ("method", 4)
    ]));
    assert!(!has(&[("state", 0), ("art", 2), ("method", 3)]));
    // `AT&T network`: all parts are stop words
    let words = [("att", 0, 2), ("", 0, 1), ("", 1, 1), ("network", 2, 1)];
    let phrase = self::phrase(&words, 0);
    let has = |words: &[(&str, u32)]| phrase.matches(&document(words), || ()).unwrap();
    assert!(has(&[("att", 3), ("network", 5)]));
    assert!(!has(&[("network", 5)]));
}

#[test]
fn words_that_repeat_take_no_time() {
    let text: Vec<u32> = (0..10_000).collect();
    let repeated = |words: u32| (0..words).map(|offset| (offset, text.as_slice()));
    // each word is in the way of the others
    let here: Vec<_> = (0..8).map(|_| (0, text.as_slice())).collect();
    assert!(matches(&here, 7));
    assert!(!matches(&here, 6));
    for words in [8, 9, 32, 33, 1000] {
        assert!(matches(&repeated(words).collect::<Vec<_>>(), 1000));
    }
    let other = [(1000, [7_u32].as_slice())];
    assert!(!matches(
        &repeated(1000).chain(other).collect::<Vec<_>>(),
        1000
    ));
}

#[test]
fn a_long_search_for_a_phrase_may_be_interrupted() {
    // no 20 words are beside each other
    let text: Vec<u32> = (0..10_000).filter(|position| position % 20 > 0).collect();
    let repeated = (0..20).map(|offset| (offset, text.as_slice()));
    let repeated: Vec<_> = repeated.collect();
    let far = (20, [20_000].as_slice());
    let near: Vec<_> = repeated.iter().copied().chain([far]).collect();
    for (places, slop) in [(repeated, 0), (near, 3)] {
        let checks = std::cell::Cell::new(0);
        let check = || checks.set(checks.get() + 1);
        assert!(!matches_with(&places, slop, check));
        assert!(checks.get() >= text.len() / CHECKED);
    }
}

/// Returns the positions of each place at which the phrase is, each in its own way.
fn found(places: &[(u32, Vec<u32>)], slop: u32) -> BTreeSet<(usize, u32)> {
    let places: Vec<_> = places
        .iter()
        .map(|(offset, positions)| (*offset, positions.as_slice()))
        .collect();
    let words = words_of(&places);
    let mut found = BTreeSet::new();
    let add = |place, position| {
        found.insert((place, position));
    };
    found::each_found(&with_offsets(&places, &words), slop, || (), add).unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_position_is_found_if_it_is_part_of_a_choice(
        chosen in prop::collection::vec(prop::collection::btree_set(0_u32..12, 0..5), 1..4),
        slop in 0_u32..6,
    ) {
        let places: Vec<(u32, Vec<u32>)> = (0..)
            .zip(chosen)
            .map(|(offset, positions)| (offset, positions.into_iter().collect()))
            .collect();
        let mut expected = BTreeSet::new();
        for (number, (offset, positions)) in places.iter().enumerate() {
            for position in positions {
                let mut alone = places.clone();
                alone[number] = (*offset, vec![*position]);
                if is_there(&alone, &mut vec![], slop) {
                    expected.insert((number, *position));
                }
            }
        }
        let found = found(&places, slop);
        prop_assert!(found.is_superset(&expected));
        let all: Vec<u32> = places.iter().flat_map(|(_, positions)| positions.clone()).collect();
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        // where words repeat, those that are near enough count
        if slop == 0 || distinct.len() == all.len() || expected.is_empty() {
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn terms_are_found_where_a_phrase_is() {
    let words = [("e117", 0, 2), ("e", 0, 1), ("117", 1, 1), ("error", 2, 1)];
    let phrase = phrase(&words, 0);
    let document = document(&[
        ("error", 0),
        ("e117", 1),
        ("117", 2),
        ("error", 3),
        ("117", 5),
        ("error", 6),
    ]);
    let found = phrase.found(&document, || ()).unwrap();
    let terms: Vec<&[u8]> = phrase.terms().iter().map(|(term, _)| term).collect();
    assert_eq!(terms, [b"117".as_slice(), b"e", b"e117", b"error"]);
    assert_eq!(
        found,
        [
            vec![true, false],
            vec![],
            vec![true],
            vec![false, true, false]
        ]
    );
}
