//! Round trips: documents of the same blocks, written in each format, have the same words in the
//! same order. What was made of them is split, and split again as stored, into the same chunks.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod packages;
mod texts;

use proptest::prelude::*;
use rag_definition::DocumentType;
use rag_document::{ExtractedDocument, Structure, TokenCounter, content, extract};
use rag_protocol::ingest::{Content, Splitting, Unit};

/// A part of a document. No word is blank or occurs twice.
#[derive(Debug, Clone)]
pub enum Block {
    /// Level 1 to 3.
    Heading(usize, Vec<String>),
    Paragraph(Vec<String>),
    List(Vec<Vec<String>>),
    /// Rows of the same number of cells; the first one names the columns.
    Table(Vec<Vec<String>>),
    Code(Vec<String>),
}

impl Block {
    fn words(&self) -> Vec<&String> {
        match self {
            Self::Heading(_, words) | Self::Paragraph(words) | Self::Code(words) => {
                words.iter().collect()
            }
            Self::List(rows) | Self::Table(rows) => rows.iter().flatten().collect(),
        }
    }
}

/// Replaces the signs that mean something in XML.
pub fn xml(words: &[String]) -> String {
    words
        .join(" ")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-z]{1,9}",
        2 => "[A-ZÄÖÜ][a-zäöüßéñ]{2,8}",
        1 => "[а-я]{3,8}",
        1 => "[ァ-ヴ]{2,5}",
        1 => "[a-z]{2,5}_[a-z]{2,5}",
        1 => "[a-z]{2,5}[.][a-z]{2,5}",
        1 => "[a-z]{2,5}&[a-z]{2,5}",
        1 => "<[a-z]{2,5}>",
        1 => "[A-Z][+]",
        1 => "[0-9]{1,3}%",
    ]
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let words = |most| prop::collection::vec(word(), 1..most);
    let rows = (2usize..4, 2usize..5).prop_flat_map(|(columns, rows)| {
        prop::collection::vec(prop::collection::vec(word(), columns), rows)
    });
    let block = prop_oneof![
        (1usize..4, prop::collection::vec("[A-Z][a-z]{2,8}", 1..4))
            .prop_map(|(level, words)| Block::Heading(level, words)),
        words(40).prop_map(Block::Paragraph),
        prop::collection::vec(words(6), 1..5).prop_map(Block::List),
        rows.prop_map(Block::Table),
        words(9).prop_map(Block::Code),
    ];
    prop::collection::vec(block, 1..9).prop_map(numbered)
}

/// Makes each word differ from all others.
fn numbered(mut blocks: Vec<Block>) -> Vec<Block> {
    let mut number = 0;
    let mut next = |word: &mut String| {
        number += 1;
        *word = format!("{word}z{number}q");
    };
    for block in &mut blocks {
        match block {
            Block::Heading(_, words) | Block::Paragraph(words) | Block::Code(words) => {
                words.iter_mut().for_each(&mut next);
            }
            Block::List(rows) | Block::Table(rows) => rows.iter_mut().flatten().for_each(&mut next),
        }
    }
    // a document that is a heading alone says nothing
    blocks.push(Block::Paragraph(vec![
        "The".into(),
        "last".into(),
        "wordz0q.".into(),
    ]));
    blocks
}

/// Checks that a text has all words in their order.
fn has_words(text: &str, blocks: &[Block], format: &str) -> Result<(), TestCaseError> {
    let plain = text.replace('\\', "");
    let mut rest = plain.as_str();
    for word in blocks.iter().flat_map(Block::words) {
        let Some(at) = rest.find(word.as_str()) else {
            return Err(TestCaseError::fail(format!(
                "{format}: \"{word}\" is missing or at another place\n{text}"
            )));
        };
        rest = &rest[at + word.len()..];
    }
    Ok(())
}

struct Letters;

impl TokenCounter for Letters {
    fn count(&self, text: &str) -> usize {
        text.chars().count() / 4 + 2
    }

    fn limit(&self) -> usize {
        400
    }
}

/// Checks that a document is split into chunks that cover its words, and that its stored text gives
/// the same ones.
fn is_split(
    extracted: &ExtractedDocument,
    document_type: DocumentType,
    blocks: &[Block],
) -> Result<(), TestCaseError> {
    let splitting = Splitting {
        chunk_size: 120,
        chunk_overlap: 0,
        unit: Unit::Characters,
    };
    let split = |extracted: &ExtractedDocument| -> Content {
        content(extracted, document_type, &splitting, &Letters).unwrap()
    };
    let first = split(extracted);
    let pieces = first
        .chunks
        .iter()
        .map(|chunk| chunk.piece(&extracted.text).unwrap());
    let joined = pieces.collect::<Vec<_>>().join("\n");
    has_words(&joined, blocks, "chunks")?;
    let mut stored = ExtractedDocument::new(
        extracted.text.clone(),
        extracted.title.clone(),
        Structure::of_extracted(&extracted.text, document_type),
    );
    stored.lines_before = extracted.lines_before;
    stored.restore_anchors(&first.anchors, document_type);
    prop_assert_eq!(&first.chunks, &split(&stored).chunks);
    Ok(())
}

fn check(
    blocks: &[Block],
    document_type: DocumentType,
    name: &str,
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    let extracted = extract(bytes, document_type, name, None)
        .map_err(|error| TestCaseError::fail(format!("{name}: {error:?}")))?;
    has_words(&extracted.text, blocks, name)?;
    is_split(&extracted, document_type, blocks)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn words_of_texts_come_back(blocks in blocks()) {
        for (document_type, name, text) in [
            (DocumentType::Markdown, "a.md", texts::markdown(&blocks)),
            (DocumentType::Html, "a.html", texts::html(&blocks)),
            (DocumentType::Rst, "a.rst", texts::rst(&blocks)),
            (DocumentType::Asciidoc, "a.adoc", texts::asciidoc(&blocks)),
            (DocumentType::Org, "a.org", texts::org(&blocks)),
            (DocumentType::Notebook, "a.ipynb", texts::notebook(&blocks)),
            (DocumentType::Mail, "a.eml", texts::mail(&blocks)),
            (DocumentType::Rtf, "a.rtf", texts::rtf(&blocks)),
            (DocumentType::Feed, "a.rss", texts::feed(&blocks)),
        ] {
            check(&blocks, document_type, name, text.as_bytes())?;
        }
    }

    #[test]
    fn words_of_packages_come_back(blocks in blocks()) {
        for (document_type, name, bytes) in [
            (DocumentType::Docx, "a.docx", packages::docx(&blocks)),
            (DocumentType::Odt, "a.odt", packages::odt(&blocks)),
            (DocumentType::Presentation, "a.pptx", packages::pptx(&blocks)),
            (DocumentType::Epub, "a.epub", packages::epub(&blocks)),
            (DocumentType::Spreadsheet, "a.xlsx", packages::xlsx(&blocks)),
        ] {
            check(&blocks, document_type, name, &bytes)?;
        }
    }

    #[test]
    fn places_of_headings_come_back(blocks in blocks()) {
        let page = extract(texts::html(&blocks).as_bytes(), DocumentType::Html, "a", None).unwrap();
        let headings = blocks.iter().filter_map(|block| match block {
            Block::Heading(_, words) => Some(words),
            _ => None,
        });
        let found: Vec<_> = page.anchors.iter().map(|anchor| {
            let line = page.text[anchor.at..].lines().next().unwrap_or_default();
            (anchor.name.clone(), line.trim_start_matches('#').trim().to_owned())
        }).collect();
        let expected: Vec<_> = headings.map(|words| (texts::id(words), words.join(" "))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn damaged_files_are_errors_or_texts(
        blocks in blocks(),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for (document_type, bytes) in [
            (DocumentType::Html, texts::html(&blocks).into_bytes()),
            (DocumentType::Rst, texts::rst(&blocks).into_bytes()),
            (DocumentType::Asciidoc, texts::asciidoc(&blocks).into_bytes()),
            (DocumentType::Org, texts::org(&blocks).into_bytes()),
            (DocumentType::Tex, texts::asciidoc(&blocks).into_bytes()),
            (DocumentType::Notebook, texts::notebook(&blocks).into_bytes()),
            (DocumentType::Mail, texts::mail(&blocks).into_bytes()),
            (DocumentType::Rtf, texts::rtf(&blocks).into_bytes()),
            (DocumentType::Feed, texts::feed(&blocks).into_bytes()),
            (DocumentType::Subtitles, texts::markdown(&blocks).into_bytes()),
            (DocumentType::Docx, packages::docx(&blocks)),
            (DocumentType::Odt, packages::odt(&blocks)),
        ] {
            let mut damaged = bytes;
            for (place, byte) in &places {
                let place = place.index(damaged.len());
                damaged[place] = *byte;
            }
            let _ = extract(&damaged, document_type, "a", None);
            damaged.truncate(cut.index(damaged.len()));
            let _ = extract(&damaged, document_type, "a", None);
        }
    }
}
