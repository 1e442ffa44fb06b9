//! Properties of every split of every text.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod sizes;

use proptest::prelude::*;
use rag_definition::DocumentType;
use rag_document::{DocumentError, ExtractedDocument, Structure, TokenCounter, extract};
use rag_protocol::ingest::{Chunk, Splitting, Stage, Title, Unit, embedded_text};

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

/// Counts the calls and the bytes that they pass.
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
) -> Result<Vec<Chunk>, DocumentError> {
    split_as(text, Structure::Prose, title, splitting, tokens)
}

fn split_as(
    text: &str,
    structure: Structure,
    title: &Title,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, DocumentError> {
    let extracted = ExtractedDocument::new(text.into(), title.clone(), structure);
    rag_document::split(&extracted, splitting, tokens)
}

fn nameless() -> Title {
    Title {
        text: "file".into(),
        own: false,
    }
}

/// Splits Markdown by characters.
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
    chunk.piece(text).unwrap()
}

/// Checks everything that is promised of a split.
fn check(
    extracted: &ExtractedDocument,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
    chunks: &[Chunk],
) {
    let ExtractedDocument {
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
        let content = chunk.content(piece);
        let size = match unit {
            Unit::Characters => content.chars().count(),
            Unit::Tokens => own_tokens(&content),
        };
        assert!(size <= chunk_size, "{size} of {chunk_size}: {content}");
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

/// Finds the headings above a place by going back from it, and the symbols around it.
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
        2 => prop_oneof![Just("\n"), Just("\r\n"), Just(". "), Just("\n\n# "),
            Just("\u{C}")].prop_map(String::from),
        1 => "[\u{4e00}-\u{4e40}。]{1,60}",
        1 => prop::collection::vec(prop_oneof![Just("👨‍👩‍👧‍👦"), Just("🇩🇪"), Just("e\u{301}"),
            Just("ก็")], 1..9).prop_map(|v| v.concat()),
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
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None,
        ..Default::default() })]

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
            binary if binary.is_binary() => {
                let text = text.replace('\0', "");
                let structure = Structure::of_extracted(&text, binary);
                ExtractedDocument::new(text, nameless(), structure)
            }
            _ => match extract(text.as_bytes(), document_type, "a.py", Some("text/plain; \
                charset=utf-8")) {
                Ok(extracted) => extracted,
                Err(_) => return Ok(()), // blank, or more control characters than text has
            }
        };
        extracted.title = own.map_or_else(nameless, |text| Title { text, own: true });
        let splitting = Splitting { chunk_size, chunk_overlap, unit };
        let tokens = Thirds { limit };
        let chunks = rag_document::split(&extracted, &splitting, &tokens).unwrap();
        check(&extracted, &splitting, &tokens, &chunks);
        prop_assert_eq!(&chunks, &rag_document::split(&extracted, &splitting, &tokens).unwrap(),
            "equal input, equal chunks");
    }
}

#[test]
fn chunks_know_their_headings_and_lines() {
    let text = "Before.\n\n# A\n\nFirst text of A.\n\n```sh\n# no \
        heading\n```\n\nUnder\n-----\n\nSecond text.\n\n# B\n\nThird text of B.";
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
fn chunks_of_code_know_their_place() {
    let statements: String = (0..60)
        .map(|i| format!("        place_vector_{i}(index);\n"))
        .collect();
    let file = format!(
        "class Index:\n    \"\"\"Finds.\"\"\"\n\n    def insert(self,\n               \
            vector):\n{statements}"
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
            // It is dropped if it would take much of the room.
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
fn chunks_of_a_long_table_begin_with_its_head() {
    let rows: String = (0..60)
        .map(|i| format!("| Pump number {i} | {i}.50 |\n"))
        .collect();
    let text = format!("# Prices\n\n| Pump | Price in euro |\n|-----|--|\n{rows}\nAll with tax.\n");
    let extracted = extract(text.as_bytes(), DocumentType::Markdown, "a.md", None).unwrap();
    let sizes = [(Unit::Characters, 400), (Unit::Tokens, 160)];
    for (unit, chunk_size) in sizes {
        let splitting = Splitting {
            chunk_size,
            chunk_overlap: 20,
            unit,
        };
        let chunks = rag_document::split(&extracted, &splitting, &UNBOUNDED).unwrap();
        assert!(chunks.len() > 3);
        check(&extracted, &splitting, &UNBOUNDED, &chunks);
        for chunk in &chunks[1..] {
            let content = chunk.content(slice(&extracted.text, chunk));
            if content.contains("Pump number") {
                let head = "| Pump | Price in euro |\n|---|--|\n| Pump number ";
                assert!(content.starts_with(head), "{content}");
                assert_eq!(chunk.context, "| Pump | Price in euro |");
                assert_eq!(chunk.head_length(), 34);
            }
        }
    }
    let small = Splitting {
        chunk_size: 120,
        chunk_overlap: 20,
        unit: Unit::Characters,
    };
    let chunks = rag_document::split(&extracted, &small, &UNBOUNDED).unwrap();
    assert!(chunks.iter().all(|chunk| chunk.table_head.is_empty()));
}
