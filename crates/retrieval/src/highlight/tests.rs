//! What holds for all texts, and examples.

use proptest::prelude::*;

use super::*;

fn one(_: char) -> usize {
    1
}

fn style(escapes_html: bool) -> MarkStyle {
    MarkStyle {
        start: "<mark>".into(),
        stop: "</mark>".into(),
        ellipsis: "…".into(),
        escapes_html,
    }
}

/// Returns the words of a text that are some, by their numbers.
fn words(text: &str, wanted: &[&str]) -> Vec<MarkedWord> {
    let wanted = (0..).zip(wanted);
    let words = wanted.flat_map(|(number, word)| {
        text.match_indices(word).map(move |(at, word)| MarkedWord {
            place: at..at + word.len(),
            number,
            weight: 1.0,
        })
    });
    words.collect()
}

fn shown(text: &str, wanted: &[&str], limit: usize) -> String {
    let words = words(text, wanted);
    let part = fragment(text, &words, limit, one);
    let places = places(&words, &part);
    marked(text, part, &places, &style(false))
        .replace("<mark>", "[")
        .replace("</mark>", "]")
}

const TEXT: &str = "# Keys\n\nThe canteen opens at noon. Tokens are signed with a key that is \
    replaced every 90 days, whatever happens. The key is rotated by the security team, e.g. on \
    Monday.";

#[test]
fn a_fragment_has_most_words_and_begins_with_a_sentence() {
    assert_eq!(
        shown(TEXT, &["key", "rotate"], 50),
        "…The [key] is [rotate]d by the security team, e.g. on…"
    );
    assert_eq!(
        shown(TEXT, &["Tokens"], 40),
        "…[Tokens] are signed with a key that is…"
    );
    assert_eq!(
        shown(TEXT, &["whatever"], 40),
        "…every 90 days, [whatever] happens.…"
    );
    assert_eq!(shown(TEXT, &[], 26), "# Keys\n\nThe canteen opens…");
    assert_eq!(
        shown(TEXT, &["Monday"], 30),
        "…security team, e.g. on [Monday]."
    );
    assert_eq!(shown("  short text \n", &["text"], 40), "short [text]");
    assert_eq!(shown("", &["text"], 40), "");
    assert_eq!(shown(&"あ".repeat(50), &["ああ"], 8), "[ああああああああ]…");
}

#[test]
fn rare_words_count_more() {
    let text = "one two one two. ".repeat(5) + &"filler ".repeat(20) + "rare word";
    let mut words = words(&text, &["one", "two", "rare"]);
    words
        .iter_mut()
        .filter(|word| word.number == 2)
        .for_each(|word| word.weight = 3.0);
    let part = fragment(&text, &words, 40, one);
    assert!(text[part].contains("rare"));
}

#[test]
fn sentences_are_divided_by_signs_and_lines() {
    for (text, expected) in [
        (
            "One. Two! \"Three?\" four",
            &["One.", "Two!", "\"Three?\" four"][..],
        ),
        (
            "See J. Smith, e.g. in v2.1.",
            &["See J. Smith, e.g. in v2.1."],
        ),
        (
            "# Title\n\nA line\nof prose\n- item\n2. item",
            &["# Title", "A line\nof prose", "- item", "2. item"],
        ),
        ("水漏れ。「交換。」はい", &["水漏れ。", "「交換。」はい"]),
        (" \n ", &[]),
    ] {
        let found: Vec<&str> = sentences(text)
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_word_behind_the_text_is_no_part() {
    let text = "the filter of the pump  \n";
    let word = MarkedWord {
        place: 24..25,
        number: 0,
        weight: 1.0,
    };
    assert!(!text[fragment(text, &[word], 5, |_| 1)].is_empty());
}

#[test]
fn the_text_is_escaped_and_the_marks_are_not() {
    let text = "a <b> & \"leak\" 'x'";
    let words = words(text, &["leak", "b"]);
    let places = places(&words, &(0..text.len()));
    assert_eq!(
        marked(text, 0..text.len(), &places, &style(true)),
        "a &lt;<mark>b</mark>&gt; &amp; &quot;<mark>leak</mark>&quot; &#39;x&#39;"
    );
    assert_eq!(character_places("äb <b>", &[2..3, 5..6]), [1..2, 4..5]);
}

/// A text, and places of characters in it.
fn texts() -> impl Strategy<Value = (String, Vec<MarkedWord>)> {
    let piece = prop_oneof![
        "[a-z]{1,9}[.,]? ",
        "[<>&\"']{1,2}",
        "[水漏れ。]{1,4}",
        "\\PC{0,4}",
        "[\n \u{301}]{1,2}",
    ];
    let text = prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat());
    let word = (
        any::<prop::sample::Index>(),
        1_usize..12,
        0_u32..4,
        any::<bool>(),
    );
    (text, prop::collection::vec(word, 0..12)).prop_map(|(text, chosen)| {
        let places: Vec<usize> = text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .collect();
        let word = |(start, length, number, is_part): (prop::sample::Index, usize, u32, bool)| {
            let start = start.index(places.len());
            let end = (start + length).min(places.len() - 1);
            (start < end).then(|| MarkedWord {
                place: places[start]..places[end],
                number,
                weight: if is_part { 0.5 } else { 1.0 },
            })
        };
        let words = chosen.into_iter().filter_map(word).collect();
        (text, words)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn places_ascend_and_do_not_touch((text, words) in texts()) {
        let all = places(&words, &(0..text.len()));
        prop_assert!(all.iter().all(|place| !place.is_empty()));
        prop_assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start));
        for word in &words {
            prop_assert!(all.iter().any(|place| place.start <= word.place.start
                && word.place.end <= place.end));
        }
        let characters = character_places(&text, &all);
        let letters: Vec<char> = text.chars().collect();
        for (bytes, characters) in all.iter().zip(&characters) {
            let taken: String = letters[characters.clone()].iter().collect();
            prop_assert_eq!(&taken, &text[bytes.clone()]);
        }
    }

    #[test]
    fn removing_marks_gives_back_the_text((text, words) in texts(), limit in 5_usize..60) {
        let part = fragment(&text, &words, limit, one);
        let places = places(&words, &part);
        let marks = MarkStyle { start: "\u{E000}".into(), stop: "\u{E001}".into(), ..style(false) };
        let shown = marked(&text, part.clone(), &places, &marks);
        prop_assert_eq!(shown.len(), marked_bytes(&text, part.clone(), &places, &marks));
        let plain = shown.replace(['\u{E000}', '\u{E001}'], "");
        let plain = if part.start > 0 { plain.trim_start_matches('…') } else { &plain };
        let own = text[part].trim_start_matches('…').trim_end_matches('…');
        prop_assert!(plain.trim_end_matches('…') == own);
    }

    #[test]
    fn a_fragment_is_short_and_has_a_word_if_one_fits(
        (text, words) in texts(),
        limit in 5_usize..60,
    ) {
        let part = fragment(&text, &words, limit, one);
        let shown = &text[part.clone()];
        prop_assert!(shown.chars().count() <= limit);
        prop_assert_eq!(shown.trim(), shown);
        let trimmed = text.trim();
        prop_assert!(trimmed.chars().count() > limit || shown == trimmed);
        let fits = |word: &MarkedWord| {
            let word = text[word.place.clone()].trim();
            !word.is_empty() && word.len() == word.trim().len() && word.chars().count() <= limit
        };
        let is_blank = |word: &MarkedWord| {
            let word = &text[word.place.clone()];
            word.starts_with(char::is_whitespace) || word.ends_with(char::is_whitespace)
        };
        let words: Vec<MarkedWord> = words.into_iter().filter(|word| !is_blank(word)).collect();
        let part = fragment(&text, &words, limit, one);
        prop_assert!(!words.iter().any(fits) || !places(&words, &part).is_empty());
    }

    #[test]
    fn no_markup_of_the_text_is_left((text, words) in texts()) {
        let places = places(&words, &(0..text.len()));
        let marks = MarkStyle { start: "\u{E000}".into(), stop: "\u{E001}".into(), ..style(true) };
        let shown = marked(&text, 0..text.len(), &places, &marks);
        prop_assert!(!shown.contains(['<', '>', '"', '\'']));
        let plain = shown.replace(['\u{E000}', '\u{E001}'], "");
        let back = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        prop_assert_eq!(back.replace("&#39;", "'").replace("&amp;", "&"), text);
    }

    #[test]
    fn sentences_are_in_order_and_have_all_words((text, _) in texts()) {
        let found = sentences(&text);
        prop_assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let kept: String = found.iter().map(|range| &text[range.clone()]).collect();
        let without = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(without(&kept), without(&text));
    }
}
