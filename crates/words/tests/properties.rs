//! What holds for all texts.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rag_words::{Analysis, Kind, MAX_WORD_BYTES, Purpose, Splitter, Weight, normalized};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

type Found = (String, Kind, Weight);

fn split(text: &str, analysis: Analysis, purpose: Purpose) -> Vec<Found> {
    let mut splitter = Splitter::default();
    assert!(splitter.split(text, analysis, purpose).is_ok());
    let found = splitter
        .iter()
        .map(|token| (token.text.to_owned(), token.kind, token.weight));
    found.collect()
}

/// A word, its position, and the number of its places.
type Placed = (String, u32, u32);

/// Returns the words with their positions, and the number of these.
fn placed(text: &str, analysis: Analysis, purpose: Purpose) -> (Vec<Placed>, u32) {
    let mut splitter = Splitter::default();
    assert!(splitter.split(text, analysis, purpose).is_ok());
    let words = splitter
        .iter()
        .map(|token| (token.text.to_owned(), token.position, token.places));
    (words.collect(), splitter.positions())
}

/// Texts with codes, paths, identifiers, scripts, and anything else.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,8}",
        "[A-Z]{1,3}-?[0-9]{1,5}",
        "[a-z]{1,4}([._/:-][a-zA-Z0-9]{1,4}){1,4}",
        "([A-Z][a-z]{1,4}){1,4}",
        "[0-9]{1,3}([.,][0-9]{1,3}){0,3}",
        "[水漏表示がのをエラー東京中文]{1,6}",
        "[가나다물이샙니]{1,5}",
        "[กขคงจรั่วไทย]{1,6}",
        "[äöüßéñøжйёαβ]{1,5}",
        "[ ,.;<>&()\"'\u{AD}\u{301}]{1,3}",
        "\\PC{0,6}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Returns true if a character is normalized to several letters, and the word begins or ends among
/// these, as "II" does in "Ⅲa", which is normalized to "IIIa".
fn is_within_character(written: &str, word: &str) -> bool {
    let whole = normalized(written).unwrap_or_default().to_lowercase();
    let several = |c: char| c.nfkc().filter(|c| c.is_alphanumeric()).count() > 1;
    let is_at_edge = [written.chars().next(), written.chars().next_back()]
        .into_iter()
        .flatten()
        .any(several);
    is_at_edge && whole.len() > word.len() && whole.contains(&word.to_lowercase())
}

fn analyses() -> impl Strategy<Value = Analysis> {
    prop_oneof![Just(Analysis::Words), Just(Analysis::Code)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_text_has_all_words_of_an_equal_query(text in texts(), analysis in analyses()) {
        let known: BTreeSet<String> = split(&text, analysis, Purpose::Text)
            .into_iter()
            .map(|(word, ..)| word)
            .collect();
        for (word, ..) in split(&text, analysis, Purpose::Query) {
            prop_assert!(known.contains(&word), "{word} of {text}");
        }
    }

    #[test]
    fn a_query_has_words_if_an_equal_text_has(text in texts(), analysis in analyses()) {
        let of_text = split(&text, analysis, Purpose::Text);
        let of_query = split(&text, analysis, Purpose::Query);
        prop_assert_eq!(of_text.is_empty(), of_query.is_empty());
    }

    #[test]
    fn words_are_not_empty_and_not_too_long(text in texts(), analysis in analyses()) {
        for (word, ..) in split(&text, analysis, Purpose::Text) {
            prop_assert!((1..=MAX_WORD_BYTES).contains(&word.len()));
        }
    }

    #[test]
    fn parts_come_with_a_whole(text in texts(), analysis in analyses()) {
        let found = split(&text, analysis, Purpose::Text);
        let is_whole = |(.., weight): &Found| *weight == Weight::Whole;
        prop_assert!(found.is_empty() || found.iter().any(is_whole));
    }

    #[test]
    fn a_blank_divides(one in texts(), other in texts(), analysis in analyses()) {
        let mut parts = split(&one, analysis, Purpose::Text);
        parts.extend(split(&other, analysis, Purpose::Text));
        // a mark after a blank belongs to nothing, and a mark at the beginning does not either
        let whole = split(&format!("{one} {other}"), analysis, Purpose::Text);
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn words_are_at_the_same_positions_in_texts_and_queries(
        text in texts(),
        analysis in analyses(),
    ) {
        let (of_text, words) = placed(&text, analysis, Purpose::Text);
        let (of_query, of_all) = placed(&text, analysis, Purpose::Query);
        prop_assert_eq!(words, of_all);
        prop_assert!(of_query.iter().all(|token| of_text.contains(token)));
        for (_, position, places) in &of_text {
            prop_assert!(*places > 0 && position + places <= words);
        }
        // each is one that is written, or belongs to a compound
        for position in 0..words {
            let covers = |token: &&Placed| (token.1..token.1 + token.2).contains(&position);
            prop_assert!(of_text.iter().any(|token| covers(&token)), "{position} of {text}");
        }
    }

    #[test]
    fn positions_go_on_after_a_blank(one in texts(), other in texts(), analysis in analyses()) {
        let (mut parts, first) = placed(&one, analysis, Purpose::Text);
        let (others, second) = placed(&other, analysis, Purpose::Text);
        let others = others.into_iter();
        parts.extend(others.map(|(word, position, places)| (word, first + position, places)));
        let whole = placed(&format!("{one} {other}"), analysis, Purpose::Text);
        prop_assert_eq!(whole, (parts, first + second));
    }

    #[test]
    fn forms_of_unicode_are_the_same(text in texts()) {
        let decomposed: String = text.nfd().collect();
        let composed: String = text.nfc().collect();
        prop_assert_eq!(
            split(&decomposed, Analysis::Words, Purpose::Text),
            split(&composed, Analysis::Words, Purpose::Text)
        );
        let normal = normalized(&composed).unwrap().into_owned();
        prop_assert_eq!(&normalized(&normal).unwrap(), &normal);
    }

    #[test]
    fn identifiers_are_the_same_in_all_styles(
        words in prop::collection::vec("[a-z]{2,6}", 1..5),
    ) {
        let capital = |word: &String| word[..1].to_uppercase() + &word[1..];
        let camel: String = words.iter().map(capital).collect();
        let whole = |text: &str| {
            let mut found = split(text, Analysis::Words, Purpose::Query);
            found.retain(|(.., weight)| *weight == Weight::Whole);
            let (text, ..) = found.remove(0);
            text.to_lowercase()
        };
        for sign in ["_", "-", ".", "/", "::"] {
            prop_assert_eq!(whole(&words.join(sign)), camel.to_lowercase());
        }
        prop_assert_eq!(whole(&camel), camel.to_lowercase());
    }

    #[test]
    fn what_is_at_the_place_of_a_word_is_that_word(text in texts(), analysis in analyses()) {
        let mut splitter = Splitter::default();
        prop_assert!(splitter.split_aligned(&text, analysis, Purpose::Text).is_ok());
        for token in splitter.iter() {
            let place = splitter.place(&text, &token);
            let written = text.get(place.clone());
            prop_assert!(written.is_some_and(|written| !written.is_empty()), "{place:?}");
            let next = text[place.end..].chars().next();
            prop_assert!(!next.is_some_and(is_combining_mark));
            // a model divides words of Thai otherwise in another sentence
            if token.kind != Kind::Letters {
                let found = split(written.unwrap_or_default(), analysis, Purpose::Text);
                let is_same = |(word, ..): &Found| word.to_lowercase() == token.text.to_lowercase();
                let is_whole = found.iter().any(is_same);
                let is_in = is_within_character(written.unwrap_or_default(), token.text);
                prop_assert!(is_whole || is_in, "{} at {place:?}", token.text);
            }
        }
    }
}
