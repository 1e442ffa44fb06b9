//! What is a code, and how much the words of a query count.

use proptest::prelude::*;
use rag_retrieval::fusion::{FoundWords, weights, written_words};

fn codes(query: &str) -> Vec<&str> {
    written_words(query, false)
        .filter(|word| word.is_code)
        .map(|word| word.text)
        .collect()
}

#[test]
fn codes_are_told_from_words() {
    for code in [
        "E-117",
        "e117",
        "X200",
        "CVE-2023-4863",
        "20417",
        "2.11.3",
        "v2.11",
        "p53",
        "2023-11-28",
        "ERR_DISK_FULL",
        "auth.token.ttl",
        "lock.py",
        "/etc/pump/main.conf",
        "src/lock.rs",
        "std::mem::take",
        "__init__",
        "_private",
        "sessionMaker",
        "PostgreSQL",
        "close()",
        "ann@example.org",
        r"C:\temp",
        "Größe12",
        "水漏れ-117",
    ] {
        assert_eq!(codes(code), [code]);
    }
    for word in [
        "pump",
        "Pump",
        "NATO",
        "well-known",
        "double-blind",
        "don't",
        "e.g.",
        "U.S.",
        "2023",
        "7%",
        "10,000",
        "$100,000",
        "3.5",
        "10:30:15",
        "C#",
        "Mr.",
        "Größe",
        "水漏れ",
        "?",
        "-",
        "...",
        "()",
    ] {
        assert_eq!(codes(word), [""; 0], "{word}");
    }
}

#[test]
fn punctuation_is_no_part_of_a_code() {
    let query = "What does E-117 mean, (on) the CleanBot: `auth.ttl`? Call close().";
    assert_eq!(codes(query), ["E-117", "CleanBot", "auth.ttl", "close()"]);
    let words: Vec<&str> = written_words("(see) “now”: fine!", false)
        .map(|word| word.text)
        .collect();
    assert_eq!(words, ["see", "now", "fine"]);
}

#[test]
fn quoted_words_are_codes() {
    let words: Vec<_> = written_words("write ahead, log", true).collect();
    assert!(words.iter().all(|word| word.is_code));
    assert_eq!(words.len(), 3);
    assert_eq!(codes(r#"a pipe of 5" or more"#), [""; 0]);
}

#[test]
fn long_queries_are_not_read_to_their_end() {
    assert_eq!(written_words(&"E-117 ".repeat(1000), false).count(), 64);
}

fn keyword(words: usize, found: usize, codes: usize) -> f64 {
    let counts = FoundWords {
        words,
        found,
        codes,
    };
    weights(counts).keyword
}

#[test]
fn codes_that_are_found_give_words_more_weight() {
    assert_eq!(weights(FoundWords::default()).vector, 0.7);
    assert_eq!(keyword(0, 0, 0), 0.3);
    assert_eq!(keyword(4, 4, 0), 0.3);
    assert_eq!(keyword(1, 1, 1), 0.7);
    assert_eq!(keyword(3, 3, 2), 0.7);
    assert_eq!(keyword(2, 2, 1), 0.62);
    assert_eq!(keyword(4, 3, 2), 0.52); // "what does E-117 mean on the pump X200"
    assert_eq!(keyword(9, 6, 1), 0.3); // prose with a code
    assert_eq!(keyword(3, 1, 1), 0.31); // little of the query is found
}

proptest! {
    #[test]
    fn weights_are_parts_of_one(words in 0_usize..70, found in 0_usize..70, codes in 0_usize..70) {
        let (found, codes) = (found.min(words), codes.min(found).min(words));
        let got = weights(FoundWords { words, found, codes });
        prop_assert!((0.3..=0.7).contains(&got.vector) && (0.3..=0.7).contains(&got.keyword));
        prop_assert!((got.vector + got.keyword - 1.0).abs() < 1e-12);
    }

    #[test]
    fn more_found_words_never_count_less(words in 1_usize..70, found in 0_usize..70,
                                         codes in 0_usize..70) {
        let (found, codes) = (found.min(words), codes.min(found).min(words));
        let before = keyword(words, found, codes);
        if found < words {
            prop_assert!(keyword(words, found + 1, codes) >= before);
            prop_assert!(keyword(words, found + 1, codes + 1) >= before);
        }
        if codes < found {
            prop_assert!(keyword(words, found, codes + 1) >= before);
        }
    }

    #[test]
    fn any_text_has_words(query in "\\PC{0,200}") {
        for word in written_words(&query, false) {
            prop_assert!(query.contains(word.text) && !word.text.is_empty());
        }
    }
}
