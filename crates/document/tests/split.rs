//! What holds for every split of every text.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use proptest::prelude::*;
use rag_document::{Extracted, Problem, Structure, TokenCounter, extract};
use rag_protocol::ingest::{Chunk, DocumentType, Splitting, Stage, Title, Unit, embedded_text};

/// A third of the characters, and two special tokens.
struct Thirds {
    limit: usize,
}

impl TokenCounter for Thirds {
    fn count(&self, text: &str) -> usize {
        text.chars().count().div_ceil(3) + 2
    }

    fn limit(&self) -> usize {
        self.limit
    }
}

/// Counts the calls and the bytes it is shown.
struct Watched {
    inner: Thirds,
    calls: std::cell::Cell<usize>,
    bytes: std::cell::Cell<usize>,
}

impl Watched {
    fn new(limit: usize) -> Self {
        Self {
            inner: Thirds { limit },
            calls: 0.into(),
            bytes: 0.into(),
        }
    }
}

impl TokenCounter for Watched {
    fn count(&self, text: &str) -> usize {
        self.calls.set(self.calls.get() + 1);
        self.bytes.set(self.bytes.get() + text.len());
        self.inner.count(text)
    }

    fn limit(&self) -> usize {
        self.inner.limit
    }
}

const UNBOUNDED: Thirds = Thirds { limit: usize::MAX };

/// Splits a text as prose.
fn split(
    text: &str,
    title: &Title,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, Problem> {
    split_as(text, Structure::Prose, title, splitting, tokens)
}

fn split_as(
    text: &str,
    structure: Structure,
    title: &Title,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, Problem> {
    let extracted = Extracted::new(text.into(), title.clone(), structure);
    rag_document::split(&extracted, splitting, tokens)
}

fn nameless() -> Title {
    Title {
        text: "file".into(),
        own: false,
    }
}

/// Of Markdown, by characters.
fn chunks(text: &str, chunk_size: usize, chunk_overlap: usize) -> Vec<Chunk> {
    split_as(
        text,
        Structure::of_markdown(text),
        &nameless(),
        &Splitting {
            chunk_size,
            chunk_overlap,
            unit: Unit::Characters,
        },
        &UNBOUNDED,
    )
    .unwrap()
}

fn slices(text: &str, chunk_size: usize, chunk_overlap: usize) -> Vec<&str> {
    chunks(text, chunk_size, chunk_overlap)
        .iter()
        .map(|c| slice(text, c))
        .collect()
}

fn slice<'a>(text: &'a str, chunk: &Chunk) -> &'a str {
    &text[chunk.byte_start..chunk.byte_start + chunk.byte_len]
}

/// Everything that is promised of a split.
fn check(
    extracted: &Extracted,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
    chunks: &[Chunk],
) {
    let Extracted {
        text,
        title,
        structure,
        lines_before,
        ..
    } = extracted;
    let Splitting {
        chunk_size,
        chunk_overlap,
        unit,
    } = *splitting;
    let own_tokens = |text: &str| tokens.count(text) - tokens.count("");
    let mut covered = 0;
    let mut previous_start = None;
    for chunk in chunks {
        let piece = slice(text, chunk);
        let end = chunk.byte_start + chunk.byte_len;
        assert_eq!(
            chunk.start_index,
            text[..chunk.byte_start].chars().count(),
            "start_index counts characters"
        );
        assert!(
            !piece.trim().is_empty() && piece.trim() == piece,
            "neither blank nor surrounded by whitespace"
        );
        match unit {
            Unit::Characters => assert!(
                piece.chars().count() <= chunk_size,
                "{} characters",
                piece.chars().count()
            ),
            Unit::Tokens => assert!(
                own_tokens(piece) <= chunk_size,
                "{} tokens",
                own_tokens(piece)
            ),
        }
        assert!(
            tokens.count(&embedded_text(title, &chunk.context, piece)) <= tokens.limit(),
            "too many tokens"
        );
        assert!(
            previous_start.is_none_or(|p| chunk.byte_start > p),
            "starts advance"
        );
        assert!(end > covered, "ends advance");
        if chunk.byte_start > covered {
            assert!(
                text[covered..chunk.byte_start].trim().is_empty(),
                "only whitespace is left out"
            );
        } else {
            let shared = &text[chunk.byte_start..covered];
            let length = if unit == Unit::Characters {
                shared.chars().count()
            } else {
                own_tokens(shared)
            };
            assert!(length <= chunk_overlap, "the overlap is bounded");
        }
        let line = |at: usize| text[..at].matches('\n').count() as u32 + 1 + lines_before;
        assert_eq!(
            (chunk.start_line, chunk.end_line),
            (line(chunk.byte_start), line(end)),
            "lines"
        );
        let page = text[..chunk.byte_start].matches('\u{C}').count() as u32 + 1;
        assert_eq!(chunk.page, (*structure == Structure::Pages).then_some(page));
        assert_eq!(
            chunk.heading_path,
            path(structure, chunk.byte_start),
            "headings"
        );
        previous_start = Some(chunk.byte_start);
        covered = end;
    }
    assert!(text[covered..].trim().is_empty(), "the end is not left out");
}

/// The headings that a place is under, found by going back from it; the symbols that it is in.
fn path(structure: &Structure, at: usize) -> Vec<String> {
    if let Structure::Code(syntax) = structure {
        let around = syntax
            .symbols
            .iter()
            .filter(|symbol| symbol.at <= at && at < symbol.end);
        return around.map(|symbol| symbol.name.clone()).collect();
    }
    let Structure::Sections { headings, .. } = structure else {
        return vec![];
    };
    let mut path = vec![];
    let mut level = 7;
    for heading in headings.iter().rev().filter(|heading| heading.at <= at) {
        if heading.level < level {
            path.insert(0, heading.text.clone());
            level = heading.level;
        }
    }
    path
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-zäß]{1,12}",
        2 => "[A-Z][a-z]{1,8}[.!?]",
        2 => Just("\n\n".to_string()),
        2 => prop_oneof![Just("\n"), Just("\r\n"), Just(". "), Just("\n\n# "), Just("\u{C}")].prop_map(String::from),
        1 => "[\u{4e00}-\u{4e40}。]{1,60}",
        1 => prop::collection::vec(prop_oneof![Just("👨‍👩‍👧‍👦"), Just("🇩🇪"), Just("e\u{301}"), Just("ก็")], 1..9).prop_map(|v| v.concat()),
        1 => "[a-z0-9+/]{40,120}",
        1 => "[ \t\n\u{a0}\u{3000}]{1,40}",
        1 => any::<String>(),
    ];
    prop::collection::vec((piece, prop_oneof![3 => Just(" "), 1 => Just("")]), 0..120).prop_map(
        |pieces| {
            pieces
                .into_iter()
                .flat_map(|(piece, gap)| [piece, gap.to_string()])
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_promise_holds_for_any_text_of_any_type(
        text in texts(),
        document_type in prop::sample::select(DocumentType::ALL.to_vec()),
        own in prop::option::of("[a-z ]{1,60}"),
        (chunk_size, chunk_overlap) in (1usize..300).prop_flat_map(|size| (Just(size), 0..size)),
        unit in prop::sample::select(Unit::ALL.to_vec()),
        limit in prop_oneof![Just(usize::MAX), 24usize..90],
    ) {
        let mut extracted = match document_type {
            // Their bytes are not text.
            DocumentType::Pdf => Extracted::new(text.replace('\0', ""), nameless(), Structure::Pages),
            DocumentType::Docx => {
                let structure = Structure::of_markdown(&text);
                Extracted::new(text, nameless(), structure)
            }
            _ => match extract(text.as_bytes(), document_type, "a.py", Some("text/plain; charset=utf-8")) {
                Ok(extracted) => extracted,
                Err(_) => return Ok(()), // blank, or more control characters than text has
            }
        };
        extracted.title = own.map_or_else(nameless, |text| Title { text, own: true });
        let splitting = Splitting { chunk_size, chunk_overlap, unit };
        let tokens = Thirds { limit };
        let chunks = rag_document::split(&extracted, &splitting, &tokens).unwrap();
        check(&extracted, &splitting, &tokens, &chunks);
        prop_assert_eq!(&chunks, &rag_document::split(&extracted, &splitting, &tokens).unwrap(), "equal input, equal chunks");
    }
}

#[test]
fn chunks_know_their_headings_and_lines() {
    let text = "Before.\n\n# A\n\nFirst text of A.\n\n```sh\n# no heading\n```\n\nUnder\n-----\n\nSecond text.\n\n# B\n\nThird text of B.";
    let found: Vec<(String, u32, u32, &str)> = chunks(text, 25, 0)
        .iter()
        .map(|c| {
            (
                c.heading_path.join(" > "),
                c.start_line,
                c.end_line,
                slice(text, c).lines().next().unwrap(),
            )
        })
        .collect();
    let expected: [(&str, u32, u32, &str); 5] = [
        ("", 1, 1, "Before."),
        ("A", 3, 5, "# A"),
        ("A", 7, 9, "```sh"),
        ("A > Under", 11, 14, "Under"),
        ("B", 16, 18, "# B"),
    ];
    let found: Vec<_> = found
        .iter()
        .map(|(path, from, to, line)| (path.as_str(), *from, *to, *line))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn code_is_cut_before_its_functions() {
    let function = |name: &str, lines: usize| {
        format!(
            "/// Says {name}.\nfn {name}() {{\n{}}}\n",
            "    say(\"something of some length\");\n\n".repeat(lines)
        )
    };
    let file = format!(
        "use std::io;\n\n{}\n{}\n{}",
        function("one", 5),
        function("two", 6),
        function("three", 4)
    );
    let extracted = extract(file.as_bytes(), DocumentType::Code, "a.rs", None).unwrap();
    let splitting = Splitting {
        chunk_size: 300,
        chunk_overlap: 40,
        unit: Unit::Characters,
    };
    let chunks = rag_document::split(&extracted, &splitting, &UNBOUNDED).unwrap();
    let firsts: Vec<&str> = chunks
        .iter()
        .map(|c| slice(&file, c).lines().next().unwrap())
        .collect();
    assert_eq!(firsts, ["use std::io;", "/// Says two.", "/// Says three."]);
}

#[test]
fn pieces_of_code_know_where_they_are_from() {
    let statements: String = (0..60)
        .map(|i| format!("        place_vector_{i}(index);\n"))
        .collect();
    let file = format!(
        "class Index:\n    \"\"\"Finds.\"\"\"\n\n    def insert(self,\n               vector):\n{statements}"
    );
    let extracted = extract(
        file.as_bytes(),
        DocumentType::Code,
        "lib/python/index.py",
        None,
    )
    .unwrap();
    for unit in Unit::ALL {
        let splitting = Splitting {
            chunk_size: 150,
            chunk_overlap: 20,
            unit,
        };
        for limit in [40, 120, usize::MAX] {
            let tokens = Thirds { limit };
            let chunks = rag_document::split(&extracted, &splitting, &tokens).unwrap();
            check(&extracted, &splitting, &tokens, &chunks);
            let last = chunks.last().unwrap();
            assert_eq!(last.heading_path, ["Index", "insert"]);
            // it is left out where it would take much of the room
            assert_eq!(
                last.context,
                if limit > 40 {
                    "lib/python/index.py: Index > insert"
                } else {
                    ""
                }
            );
            let head = chunks
                .iter()
                .find(|chunk| slice(&file, chunk).contains("vector):"))
                .unwrap();
            assert!(
                limit == 40 || slice(&file, head).contains("place_vector_1("),
                "{}",
                slice(&file, head)
            );
        }
    }
}

#[test]
fn records_are_kept_whole() {
    let rows: String = (0..60)
        .map(|i| format!("{i}x,{},end\n", "word ".repeat(i * 7 % 30)))
        .collect();
    let csv = format!("id,text,last\n{rows}");
    let extracted = extract(csv.as_bytes(), DocumentType::Csv, "a.csv", None).unwrap();
    for unit in Unit::ALL {
        let splitting = Splitting {
            chunk_size: 200,
            chunk_overlap: 50,
            unit,
        };
        let chunks = rag_document::split(&extracted, &splitting, &UNBOUNDED).unwrap();
        check(&extracted, &splitting, &UNBOUNDED, &chunks);
        assert!(chunks.len() > 3);
        for chunk in &chunks {
            let piece = slice(&extracted.text, chunk);
            assert!(
                piece.starts_with("id: ") && piece.ends_with("last: end"),
                "{piece}"
            );
        }
    }
}

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
    // What the model sees is the limit all the same.
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
    // A grapheme longer than a chunk has to be cut all the same.
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
fn whitespace_of_any_length_is_left_out() {
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
    let extracted = Extracted::new(text, title, Structure::Prose);
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
fn a_limit_without_room_for_a_character_is_a_problem() {
    let splitting = Splitting {
        chunk_size: 1000,
        chunk_overlap: 200,
        unit: Unit::Characters,
    };
    let title = Title {
        text: "t".repeat(100),
        own: true,
    };
    let Problem {
        stage,
        message,
        hint,
        ..
    } = split("some text", &title, &splitting, &Thirds { limit: 30 }).unwrap_err();
    assert_eq!(stage, Stage::Split);
    assert_eq!(
        message,
        "the title and a single character take 37 tokens, and the model sees at most 30"
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
        assert!(elapsed.as_secs() < 5, "{name} took {elapsed:?}");
        assert!(
            tokens.bytes.get() < 3 * text.len(),
            "{name}: counted {} bytes",
            tokens.bytes.get()
        );
    }
}

#[test]
fn an_overlap_nearly_as_large_as_a_chunk_gets_through_the_text() {
    let text = "word ".repeat(20_000);
    assert!(chunks(&text, 1000, 999).len() < 500);
}

/// Boundaries are part of every chunk's id: where they move, all stored documents are indexed anew.
/// Whoever means that raises the version in `Splitting::fingerprint` and writes the new boundaries
/// here.
#[test]
fn golden_boundaries() {
    let text = "# Keys\n\nTokens are signed with a key. It is replaced every quarter, by hand.\n\n## Before\n\nTell the \
                on-call engineer. Then look at the queue: it must be empty.\r\n\r\n## After\n\n1. Restart the signer.\n2. \
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
        "recursive v4 80/20 m"
    );
}

/// First character and length of each chunk, in characters.
const GOLDEN: &[(usize, usize)] = &[(0, 76), (59, 56), (98, 59), (140, 76), (197, 41)];
