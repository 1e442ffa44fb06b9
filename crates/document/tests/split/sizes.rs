//! The size of chunks: tokens, overlap, limits and time.

use super::*;

#[test]
fn chunks_can_be_measured_in_tokens() {
    let text = "word ".repeat(2_000);
    let splitting = Splitting {
        chunk_size: 100,
        chunk_overlap: 20,
        unit: Unit::Tokens,
    };
    let chunks = split(&text, &nameless(), &splitting, &Thirds { limit: 256 }).unwrap();
    let longest = chunks.iter().map(|c| c.byte_len).max().unwrap();
    assert!((270..=300).contains(&longest), "{longest}");
    let overlap = chunks[0].byte_len - chunks[1].byte_start;
    assert!((40..=60).contains(&overlap), "{overlap}");
    // The model's limit still applies.
    let splitting = Splitting {
        chunk_size: 1000,
        ..splitting
    };
    let chunks = split(&text, &nameless(), &splitting, &Thirds { limit: 52 }).unwrap();
    assert!(chunks.iter().all(|c| c.byte_len <= 150) && chunks[0].byte_len > 120);
    let problem = split(
        "word",
        &nameless(),
        &Splitting {
            chunk_size: 1,
            chunk_overlap: 0,
            ..splitting
        },
        &Twos,
    )
    .unwrap_err();
    assert_eq!(
        problem.message,
        "a single character takes 2 tokens, and chunk_size is 1"
    );
}

/// Two tokens a byte.
struct Twos;

impl TokenCounter for Twos {
    fn count(&self, text: &str) -> usize {
        text.len() * 2
    }

    fn limit(&self) -> usize {
        256
    }
}

#[test]
fn paragraphs_come_before_lines_sentences_and_words() {
    let text = "One one one.\n\nTwo two two.\nThree. Four four";
    assert_eq!(
        slices(text, 20, 0),
        ["One one one.", "Two two two.", "Three. Four four"]
    );
    assert_eq!(slices("Ab cd. Ef gh ij", 12, 0), ["Ab cd.", "Ef gh ij"]);
    assert_eq!(slices("ab cd ef gh", 6, 0), ["ab cd", "ef gh"]);
}

#[test]
fn a_short_heading_stays_with_its_paragraph() {
    let paragraph = "word ".repeat(30);
    let text = format!("{paragraph}\n\n## Next\n\n{paragraph}");
    assert_eq!(
        slices(&text, 200, 0),
        [
            paragraph.trim(),
            &format!("## Next\n\n{}", paragraph.trim())
        ]
    );
}

#[test]
fn the_overlap_begins_at_a_sentence() {
    let text = "First sentence is here. Second one is here. Third one is here. Fourth one is here.";
    assert_eq!(
        slices(text, 50, 25),
        [
            "First sentence is here. Second one is here.",
            "Second one is here. Third one is here.",
            "Third one is here. Fourth one is here.",
        ]
    );
}

#[test]
fn text_without_spaces_is_cut_between_graphemes() {
    let family = "👨‍👩‍👧‍👦";
    let text = family.repeat(40);
    for piece in slices(&text, 50, 10) {
        assert_eq!(piece.len() % family.len(), 0, "{piece}");
    }
    let flags = "🇩🇪🇫🇷".repeat(100);
    for piece in slices(&flags, 33, 5) {
        assert_eq!(piece.chars().count() % 2, 0, "{piece}");
    }
    // A grapheme longer than a chunk has to be cut.
    assert_eq!(slices(family, 3, 0).concat(), family);
    let marks = format!("a{}", "\u{301}".repeat(500));
    assert_eq!(slices(&marks, 100, 0).concat(), marks);
}

#[test]
fn chinese_text_is_cut_at_its_sentences() {
    let text = "今日は晴れです。明日は雨でしょう。明後日はわかりません。";
    assert_eq!(
        slices(text, 18, 0),
        [
            "今日は晴れです。明日は雨でしょう。",
            "明後日はわかりません。"
        ]
    );
}

#[test]
fn whitespace_of_any_length_is_dropped() {
    let text = format!("  \u{feff}a{}b\n", " ".repeat(100_000));
    assert_eq!(slices(&text, 10, 5), ["\u{feff}a", "b"]);
    assert_eq!(slices(" \n\t ", 10, 5), [""; 0]);
    assert_eq!(slices("", 10, 5), [""; 0]);
}

#[test]
fn tokens_bound_a_chunk_together_with_its_title() {
    let text = "word ".repeat(2_000);
    let title = Title {
        text: "t".repeat(200),
        own: true,
    };
    let splitting = Splitting {
        chunk_size: 1000,
        chunk_overlap: 200,
        unit: Unit::Characters,
    };
    let tokens = Thirds { limit: 256 };
    let chunks = split(&text, &title, &splitting, &tokens).unwrap();
    let extracted = ExtractedDocument::new(text, title, Structure::Prose);
    check(&extracted, &splitting, &tokens, &chunks);
    let longest = chunks.iter().map(|c| c.byte_len).max().unwrap();
    assert!(
        (400..=560).contains(&longest),
        "the room that the title leaves is used: {longest}"
    );
}

#[test]
fn only_the_documents_own_title_takes_room() {
    let text = "word ".repeat(500);
    let splitting = Splitting {
        chunk_size: 1000,
        chunk_overlap: 0,
        unit: Unit::Characters,
    };
    let count = |own| {
        split(
            &text,
            &Title {
                text: "t".repeat(200),
                own,
            },
            &splitting,
            &Thirds { limit: 256 },
        )
        .unwrap()
        .len()
    };
    assert!(
        count(false) < count(true),
        "a renamed file keeps its title out of the embedding"
    );
}

#[test]
fn a_limit_without_room_for_a_character_is_an_error() {
    let splitting = Splitting {
        chunk_size: 1000,
        chunk_overlap: 200,
        unit: Unit::Characters,
    };
    let title = Title {
        text: "t".repeat(100),
        own: true,
    };
    let DocumentError {
        stage,
        message,
        hint,
        ..
    } = split("some text", &title, &splitting, &Thirds { limit: 30 }).unwrap_err();
    assert_eq!(stage, Stage::Split);
    assert_eq!(
        message,
        "the title and a single character take 37 tokens, and the model reads at most 30"
    );
    assert!(hint.unwrap().contains("shorter title"));
    assert!(split("some text", &nameless(), &splitting, &Thirds { limit: 3 }).is_ok());
    assert!(split("some text", &nameless(), &splitting, &Thirds { limit: 2 }).is_err());
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    for (chunk_size, chunk_overlap, expected) in [
        (0, 0, "chunk_size must be at least 1"),
        (
            100,
            100,
            "chunk_overlap (100) must be less than chunk_size (100)",
        ),
        (
            100,
            200,
            "chunk_overlap (200) must be less than chunk_size (100)",
        ),
    ] {
        let problem = split(
            "text",
            &nameless(),
            &Splitting {
                chunk_size,
                chunk_overlap,
                unit: Unit::Characters,
            },
            &UNBOUNDED,
        )
        .unwrap_err();
        assert_eq!(
            (problem.stage, problem.message.as_str()),
            (Stage::Split, expected)
        );
    }
    assert_eq!(chunks("text", usize::MAX, 0).len(), 1);
}

#[test]
fn two_megabytes_of_anything_are_split_in_about_linear_time() {
    let prose = "The quick brown fox jumps over the lazy dog. It does so every day.\n";
    for (name, text) in [
        ("prose", prose.repeat(30_000)),
        ("one line of words", "lorem ipsum ".repeat(170_000)),
        ("one word", "x".repeat(2_000_000)),
        ("base64", "aGVsbG8gd29ybGQ+/".repeat(120_000)),
        ("chinese", "今日は晴れです。".repeat(90_000)),
        ("emoji", "👨‍👩‍👧‍👦".repeat(80_000)),
        ("flags", "🇩🇪".repeat(250_000)),
        ("marks", "\u{301}".repeat(1_000_000)),
        ("dots", "1. ".repeat(700_000)),
        ("full stops", ".".repeat(2_000_000)),
        ("blank lines", "a\n\n".repeat(700_000)),
        (
            "mostly spaces",
            format!("a{}", " ".repeat(999)).repeat(2_000),
        ),
        ("headings", "# a\n\n".repeat(400_000)),
    ] {
        let title = Title {
            text: "A title of some length".into(),
            own: true,
        };
        let splitting = Splitting {
            chunk_size: 1000,
            chunk_overlap: 200,
            unit: Unit::Characters,
        };
        let tokens = Watched::new(256);
        let started = std::time::Instant::now();
        let chunks = split_as(
            &text,
            Structure::of_markdown(&text),
            &title,
            &splitting,
            &tokens,
        )
        .unwrap();
        let elapsed = started.elapsed();
        eprintln!(
            "{name}: {} bytes, {} chunks in {elapsed:?}, {} counts over {} bytes",
            text.len(),
            chunks.len(),
            tokens.calls.get(),
            tokens.bytes.get()
        );
        // with the square of the length it would take hours
        assert!(elapsed.as_secs() < 60, "{name} took {elapsed:?}");
        assert!(
            tokens.bytes.get() < 3 * text.len(),
            "{name}: counted {} bytes",
            tokens.bytes.get()
        );
    }
}

#[test]
fn a_split_with_an_overlap_nearly_as_large_as_a_chunk_ends() {
    let text = "word ".repeat(20_000);
    assert!(chunks(&text, 1000, 999).len() < 500);
}

/// Boundaries are part of every chunk's id: if they move, all stored documents are indexed again.
/// To change them, raise the version in `Splitting::fingerprint` and write the new boundaries here.
#[test]
fn golden_boundaries() {
    let text = "# Keys\n\nTokens are signed with a key. It is replaced every quarter, by \
        hand.\n\n## Before\n\nTell the \
                on-call engineer. Then look at the queue: it must be empty.\r\n\r\n## After\n\n1. \
                Restart the signer.\n2. \
                Revoke the old key.\n\n签名密钥每季度更换一次。旧密钥随后吊销。";
    let places: Vec<(usize, usize)> = chunks(text, 80, 20)
        .iter()
        .map(|c| (c.start_index, slice(text, c).chars().count()))
        .collect();
    assert_eq!(places, GOLDEN);
    assert_eq!(
        Splitting {
            chunk_size: 80,
            chunk_overlap: 20,
            unit: Unit::Characters
        }
        .fingerprint("m"),
        "recursive v5 80/20 m"
    );
}

/// First character and length of each chunk, in characters.
const GOLDEN: &[(usize, usize)] = &[(0, 76), (59, 56), (98, 59), (140, 76), (197, 41)];
