//! Phrases that an index finds, compared with the texts.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{CREATION, Random, row, rows_with_phrase};
use rag_bm25::{
    Builder, Collected, Creation, Phrase, SegmentCache, Terms, create, info, insert, merge_all,
    remove,
};
use rag_pages::{MemoryPages, Tid};

const WITH_POSITIONS: Creation<'static> = Creation {
    has_positions: true,
    ..CREATION
};

/// A text: numbers of words. Those of stop words are a place without a term.
type Text = Vec<usize>;

const STOP_WORD: usize = usize::MAX;

fn random_text(random: &mut Random, length: usize, words: usize) -> Text {
    let word = |random: &mut Random| match random.below(6) {
        0 => STOP_WORD,
        _ => random.word(words),
    };
    (0..length).map(|_| word(random)).collect()
}

fn name(word: usize) -> String {
    match word {
        STOP_WORD => String::new(),
        _ => format!("w{word}"),
    }
}

/// Returns the terms of a text: its words, a mark without a position, and each third pair of words
/// as a compound, whose words are parts.
fn terms(text: &Text) -> Terms {
    let mut terms = Terms::with_positions();
    terms.add_halves_at(b"mark", 2, None).unwrap();
    for (at, word) in (0..).zip(text) {
        let next = text.get(at as usize + 1).copied().unwrap_or(STOP_WORD);
        let is_compound = at % 3 == 0 && *word != STOP_WORD && next != STOP_WORD;
        if is_compound {
            let whole = name(*word) + &name(next);
            terms.add_halves_at(whole.as_bytes(), 2, Some(at)).unwrap();
        }
        let halves = if at % 3 < 2 { 1 } else { 2 };
        terms
            .add_halves_at(name(*word).as_bytes(), halves, Some(at))
            .unwrap();
    }
    terms.finish_halves();
    terms
}

#[derive(Default)]
struct Model(BTreeMap<Tid, Text>);

impl Model {
    /// Checks that the index finds the texts with some words at their distances, and no others.
    fn verify(&self, pages: &MemoryPages, cache: &SegmentCache, words: &[usize], slop: u32) {
        let mut phrase = Phrase::new(slop);
        for (offset, word) in (0..).zip(words) {
            phrase.add(name(*word).as_bytes(), offset, 1).unwrap();
        }
        phrase.finish().unwrap();
        let found = rows_with_phrase(pages, cache, &phrase).unwrap();
        let rows: BTreeSet<Tid> = found.iter().copied().collect();
        assert_eq!(rows.len(), found.len());
        let has = |text: &&Text| match slop {
            0 => has_words(text, words),
            _ => phrase.matches(&terms(text), || ()).unwrap(),
        };
        let expected = self.0.iter().filter(|(_, text)| has(text));
        assert_eq!(
            rows,
            expected.map(|(row, _)| *row).collect(),
            "{words:?}~{slop}"
        );
    }

    fn verify_some(&self, pages: &MemoryPages, random: &mut Random, words: usize) {
        let cache = SegmentCache::default();
        let texts: Vec<&Text> = self.0.values().collect();
        for _ in 0..15 {
            let mut phrase = match texts.is_empty() || random.below(3) == 0 {
                true => random_text(random, 3, words),
                false => {
                    let text = texts[random.below(texts.len())];
                    let start = random.below(text.len());
                    text[start..]
                        .iter()
                        .take(1 + random.below(4))
                        .copied()
                        .collect()
                }
            };
            if random.below(4) == 0 {
                phrase.reverse();
            }
            self.verify(pages, &cache, &phrase, random.below(4) as u32);
            self.verify(pages, &cache, &phrase, 0);
        }
        let mut problems = vec![];
        rag_bm25::check(pages, &mut |_| {}, &mut |block, problem| {
            problems.push((block, problem));
        })
        .unwrap();
        assert_eq!(problems, []);
    }
}

fn has_words(text: &Text, words: &[usize]) -> bool {
    // stop words are places for anything, and for nothing at the beginning and at the end
    let before = words.iter().take_while(|word| **word == STOP_WORD).count();
    let words = &words[before..];
    let begins = |rest: &[usize]| {
        let mut places = words.iter().enumerate();
        places.all(|(place, word)| *word == STOP_WORD || rest.get(place) == Some(word))
    };
    !words.is_empty() && (0..text.len()).any(|start| begins(&text[start..]))
}

#[test]
fn phrases_of_built_indexes_are_found() {
    let mut random = Random(31);
    for (documents, length, words) in [(1, 4, 2), (127, 9, 3), (300, 60, 40), (3000, 40, 400)] {
        let (pages, mut model) = (MemoryPages::new(), Model::default());
        let memory = [1 << 30, 1 << 18][random.below(2)];
        let mut builder = Builder::new(&pages, &WITH_POSITIONS, memory);
        for number in 0..documents {
            let length = 1 + random.below(length);
            let text = random_text(&mut random, length, words);
            builder.add(row(number), &terms(&text)).unwrap();
            model.0.insert(row(number), text);
        }
        builder.finish().unwrap();
        model.verify_some(&pages, &mut random, words);
        remove(&pages, &mut |tid| tid.offset % 3 == 1).unwrap();
        model.0.retain(|tid, _| tid.offset % 3 != 1);
        model.verify_some(&pages, &mut random, words);
        merge_all(&pages).unwrap();
        model.verify_some(&pages, &mut random, words);
    }
}

#[test]
fn phrases_of_inserted_documents_are_found() {
    let mut random = Random(32);
    let (pages, mut model) = (MemoryPages::new(), Model::default());
    create(&pages, &WITH_POSITIONS);
    let mut number = 0;
    for round in 0..20 {
        let mut collected = Collected::default();
        for _ in 0..1 + random.below(200) {
            // some have positions that no page has room for
            let (length, words) = match random.below(400) {
                0 => (9000, 2),
                1 => (3000, 5000),
                _ => (1 + random.below(80), 200),
            };
            let text = random_text(&mut random, length, words);
            // not in the order of rows
            let row = row(number ^ 5);
            number += 1;
            match round % 2 {
                0 => insert(&pages, row, &terms(&text)).unwrap(),
                _ => collected.add(row, &terms(&text)).unwrap(),
            }
            model.0.insert(row, text);
        }
        collected.write(&pages, round % 4 == 1).unwrap();
        if random.below(4) == 0 {
            let dead = random.below(50) as u16;
            remove(&pages, &mut |tid| tid.offset == dead).unwrap();
            model.0.retain(|tid, _| tid.offset != dead);
        }
        if random.below(9) == 0 {
            merge_all(&pages).unwrap();
        }
        if round % 5 == 0 {
            model.verify_some(&pages, &mut random, 200);
        }
    }
    model.verify_some(&pages, &mut random, 200);
    merge_all(&pages).unwrap();
    model.verify_some(&pages, &mut random, 200);
}

/// Positions of a term go over many pages.
#[test]
fn long_documents_have_all_positions() {
    let mut model = Model::default();
    let (built, filled) = (MemoryPages::new(), MemoryPages::new());
    let mut builder = Builder::new(&built, &WITH_POSITIONS, 1 << 30);
    create(&filled, &WITH_POSITIONS);
    for number in 0..200 {
        let length = if number % 50 == 7 { 20_000 } else { 3 };
        let text: Text = (0..length)
            .map(|i| [0, 1, 0, 2, i][(i * i + number) % 5])
            .collect();
        builder.add(row(number as u32), &terms(&text)).unwrap();
        insert(&filled, row(number as u32), &terms(&text)).unwrap();
        model.0.insert(row(number as u32), text);
    }
    builder.finish().unwrap();
    let mut random = Random(33);
    model.verify_some(&built, &mut random, 4);
    model.verify_some(&filled, &mut random, 4);
    merge_all(&filled).unwrap();
    model.verify_some(&filled, &mut random, 4);
}

#[test]
fn an_index_without_positions_has_candidates() {
    let pages = MemoryPages::new();
    create(&pages, &CREATION);
    let text = vec![1, 2, 3];
    for number in 0..2 {
        insert(&pages, row(number), &terms(&text)).unwrap();
        merge_all(&pages).unwrap();
    }
    insert(&pages, row(2), &terms(&text)).unwrap();
    assert!(!info(&pages).unwrap().has_positions);
    let mut phrase = Phrase::new(0);
    phrase.add(b"w1", 0, 1).unwrap();
    phrase.finish().unwrap();
    let found = rows_with_phrase(&pages, &SegmentCache::default(), &phrase).unwrap();
    assert_eq!(found.len(), 3, "each row may have it");
}
