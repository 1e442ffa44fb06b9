//! Documents for tests, and what an index of them must answer.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use rag_bm25::{
    Builder, Condition, CountedPattern, Creation, GivenRows, Listing, Match, NumberedPhrase,
    Parameters, Pattern, Phrase, Query, QueryRef, RowCount, RowScores, Scan, Scorer, SegmentCache,
    TableRows, Terms, Typo, count_rows, insert, remove, rows_that_may_hold, score_rows, statistics,
    terms_in_row, top,
};
use rag_pages::{IndexError, MemoryPages, ReadPages, Tid};

/// A sequence of numbers that only depends on the seed (SplitMix64, Steele et al. 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Returns the number of a word: low ones are frequent, as in texts.
    pub fn word(&mut self, words: usize) -> usize {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        ((words as f64).powf(uniform) - 1.0) as usize
    }
}

/// Returns terms of a document or query: `length` of `words` words.
pub fn random_terms(random: &mut Random, length: usize, words: usize) -> Terms {
    fill(Terms::new(), random, length, words)
}

/// Adds words to terms, which may have positions.
pub fn fill(mut terms: Terms, random: &mut Random, length: usize, words: usize) -> Terms {
    for at in 0..length as u32 {
        let word = format!("w{}", random.word(words));
        terms.add_at(word.as_bytes(), Some(at)).unwrap();
    }
    terms.finish();
    terms
}

pub fn terms_of(text: &str) -> Terms {
    let mut terms = Terms::new();
    for term in text.split_whitespace() {
        terms.add(term.as_bytes()).unwrap();
    }
    terms.finish();
    terms
}

/// Returns the place of row `number`, of a table with 50 rows a block.
pub fn row(number: u32) -> Tid {
    Tid {
        block: number / 50,
        offset: (number % 50) as u16 + 1,
    }
}

/// A table, whose answers are functions.
pub struct Table<V, C> {
    pub is_all_visible: V,
    pub is_counted: C,
}

impl<V: FnMut(u32) -> bool, C: FnMut(Tid) -> bool> TableRows for Table<V, C> {
    fn are_all_visible(&mut self, block: u32) -> bool {
        (self.is_all_visible)(block)
    }

    fn is_counted(&mut self, row: Tid) -> bool {
        (self.is_counted)(row)
    }
}

/// What an index must contain.
#[derive(Clone, Default)]
pub struct Model {
    pub documents: BTreeMap<Tid, Terms>,
}

impl Model {
    pub fn insert(&mut self, pages: &MemoryPages, tid: Tid, terms: Terms) {
        insert(pages, tid, &terms).unwrap();
        self.documents.insert(tid, terms);
    }

    /// Checks that a search to its end returns all rows that match, once, in the order of their
    /// scores, and with the scores that the terms of the documents give.
    pub fn verify<'q>(
        &self,
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: impl Into<QueryRef<'q>>,
    ) {
        let query = query.into();
        let statistics = statistics(pages, cache, query).unwrap();
        let parameters = rag_bm25::describe(pages).unwrap().parameters;
        let scorer = Scorer::new(parameters, &statistics, query);
        let expected: BTreeMap<Tid, f64> = self
            .documents
            .iter()
            .map(|(tid, terms)| (*tid, score_of(&scorer, terms)))
            .filter(|(_, score)| *score > 0.0)
            .collect();
        let matching = expected.len() as u64;
        // all in one batch, and in several
        for memory in [1 << 20, 1 << 14] {
            let mut missing = expected.clone();
            let mut scan = Scan::begin(pages, cache, query, None, memory).unwrap();
            let mut before = f64::INFINITY;
            while let Some((tid, score)) = scan.next(pages).unwrap() {
                assert!(score <= before, "{score} after {before}");
                before = score;
                assert_eq!(missing.remove(&tid), Some(score), "{tid:?}");
            }
            assert!(missing.is_empty(), "not found: {missing:?}");
        }
        let mut missing = expected;
        let mut listing = Listing::begin(pages, cache, query, None).unwrap();
        while let Some((tid, score)) = listing.next(pages).unwrap() {
            assert_eq!(missing.remove(&tid), Some(score), "{tid:?}");
        }
        assert!(missing.is_empty(), "not listed: {missing:?}");
        self.verify_count(pages, cache, query, matching);
        self.verify_terms(pages, cache, query);
        self.verify_rows(pages, cache, query);
    }

    /// Checks the number of rows that match, if all transactions see those of no, some, all blocks.
    fn verify_count(
        &self,
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: QueryRef<'_>,
        matching: u64,
    ) {
        for one_of in [u32::MAX, 3, 1] {
            let mut table = Table {
                is_all_visible: |block| block % one_of == one_of - 1,
                is_counted: |row| self.documents.contains_key(&row),
            };
            let RowCount { rows, visited } = count_rows(pages, cache, query, &mut table).unwrap();
            assert_eq!(rows, matching);
            assert!(visited >= matching || one_of < u32::MAX);
        }
    }

    /// Checks the scores of rows that are asked for one by one, and of one that is not in the
    /// index, against those of all together.
    fn verify_rows(&self, pages: &impl ReadPages, cache: &SegmentCache, query: QueryRef<'_>) {
        let mut rows: Vec<Tid> = self.documents.keys().rev().step_by(31).copied().collect();
        rows.push(Tid {
            block: 9_999_999,
            offset: 1,
        });
        let statistics = statistics(pages, cache, query).unwrap();
        let scores = score_rows(pages, cache, query, None, &rows).unwrap();
        let holds = rows_that_may_hold(pages, cache, query, &rows).unwrap();
        let mut one_by_one = RowScores::open(pages, cache, query, &statistics).unwrap();
        for ((row, score), may_hold) in rows.iter().zip(scores).zip(holds) {
            let found = one_by_one.of_row(pages, *row).unwrap();
            assert_eq!((found.score, found.may_hold), (score, may_hold), "{row:?}");
        }
    }

    /// Checks which terms of a query some rows have, and one that is not in the index.
    fn verify_terms(&self, pages: &impl ReadPages, cache: &SegmentCache, query: QueryRef<'_>) {
        for (tid, terms) in self.documents.iter().step_by(97) {
            let expected = query.frequencies_in(terms, false);
            let expected: Vec<bool> = expected.iter().map(|found| *found > 0).collect();
            let found = terms_in_row(pages, cache, query, *tid).unwrap();
            assert_eq!(found, expected, "{tid:?}");
        }
        let unknown = Tid {
            block: 9_999_999,
            offset: 1,
        };
        let found = terms_in_row(pages, cache, query, unknown).unwrap();
        assert!(found.iter().all(|has| !has));
    }

    /// Checks that a search that is restricted to rows returns those of them that match. The rows
    /// are given one by one, or as whole blocks, at random.
    pub fn verify_given<'q>(
        &self,
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: impl Into<QueryRef<'q>>,
        random: &mut Random,
        share: f64,
    ) {
        let query = query.into();
        let (mut given, mut is_given) = (GivenRows::default(), BTreeSet::new());
        let is_chosen = |random: &mut Random| (random.next() >> 11) as f64 / 2_f64.powi(53) < share;
        let last = self.documents.keys().next_back().map_or(0, |tid| tid.block);
        for block in 0..=last + 1 {
            // also rows that no document has
            let rows = (1..=60).map(|offset| Tid { block, offset });
            if random.below(4) == 0 {
                if is_chosen(random) {
                    given.add_block(block).unwrap();
                    is_given.extend(rows);
                }
                continue;
            }
            let rows: Vec<Tid> = rows.filter(|_| is_chosen(random)).collect();
            let offsets: Vec<u16> = rows.iter().map(|tid| tid.offset).collect();
            given.add_rows(block, &offsets).unwrap();
            is_given.extend(rows);
        }
        let mut all = Scan::begin(pages, cache, query, None, 1 << 20).unwrap();
        let mut expected = vec![];
        while let Some((tid, score)) = all.next(pages).unwrap() {
            assert!(self.documents.contains_key(&tid));
            if is_given.contains(&tid) {
                expected.push((tid, score));
            }
        }
        for memory in [1 << 20, 1 << 14] {
            let mut scan = Scan::begin(pages, cache, query, None, memory).unwrap();
            scan.restrict(pages, &given).unwrap();
            let mut found = vec![];
            while let Some(hit) = scan.next(pages).unwrap() {
                found.push(hit);
            }
            assert_eq!(found, expected);
        }
    }

    /// Checks that all documents, and no others, count.
    pub fn verify_statistics(&self, pages: &impl ReadPages, query: &Terms) {
        let found = statistics(pages, &SegmentCache::default(), query).unwrap();
        let documents = self.documents.values().filter(|terms| !terms.is_empty());
        assert_eq!(found.documents, documents.count() as u64);
        for ((term, _), frequency) in query.iter().zip(found.frequencies) {
            let having = self.documents.values();
            let having = having.filter(|terms| terms.frequency(term) > 0).count();
            assert_eq!(frequency, having as u64, "{term:?}");
        }
    }
}

/// Returns the score of a document, which may know where its words are.
fn score_of(scorer: &Scorer, document: &Terms) -> f64 {
    if document.has_positions() {
        scorer.score_with(document, &|numbered| {
            numbered.phrase.matches(document, || ()).unwrap()
        })
    } else {
        scorer.score(document)
    }
}

/// What the indexes of tests are created with.
pub const CREATION: Creation<'static> = Creation {
    parameters: Parameters {
        k1: 1.2,
        b: 0.75,
        has_parts: true, // a frequency of 2 scores less than one of 1
    },
    identity: 7,
    label: b"english",
    variant: 1,
    has_positions: false,
};

/// Returns an index with a built segment, one that was spilled, deleted documents, dropped blocks
/// and pending documents.
pub fn small_index() -> MemoryPages {
    let mut random = Random(11);
    let pages = MemoryPages::new();
    let mut builder = Builder::new(&pages, &CREATION, 1 << 30);
    for number in 0..400 {
        let terms = random_terms(&mut random, 20, 300);
        builder.add(row(number), &terms).unwrap();
    }
    builder.finish().unwrap();
    // fewer than vacuum makes a segment, so that the index has all kinds of pages
    for number in 400..500 {
        insert(&pages, row(number), &random_terms(&mut random, 60, 300)).unwrap();
    }
    remove(&pages, &mut |tid| tid.block % 9 == 2).unwrap();
    for number in 500..550 {
        insert(&pages, row(number), &random_terms(&mut random, 20, 300)).unwrap();
    }
    pages
}

/// Does everything with an index whose pages may contain anything. Errors are expected.
pub fn use_damaged(pages: &MemoryPages) {
    let mut random = Random(12);
    let cache = SegmentCache::default();
    let query = random_terms(&mut random, 5, 300);
    let _ = rag_bm25::describe(pages);
    let _ = rag_bm25::info(pages);
    let _ = statistics(pages, &cache, &query);
    let _ = top(pages, &cache, &query, None, 10);
    if let Ok(mut scan) = Scan::begin(pages, &cache, &query, None, 1 << 20) {
        // a damaged index may return a row again and again
        for _ in 0..5000 {
            if !matches!(scan.next(pages), Ok(Some(_))) {
                break;
            }
        }
    }
    if let Ok(mut scan) = Scan::begin(pages, &cache, &query, None, 1 << 20) {
        let mut given = GivenRows::default();
        given.add_block(1).unwrap();
        given.add_rows(6, &[1, 5, 50]).unwrap();
        given.add_block(28).unwrap();
        let _ = scan.restrict(pages, &given);
        for _ in 0..500 {
            if !matches!(scan.next(pages), Ok(Some(_))) {
                break;
            }
        }
    }
    let _ = score_rows(pages, &cache, &query, None, &[row(1), row(300), row(1420)]);
    use_damaged_conditions(pages, &cache, query);
    let _ = rag_bm25::check(pages, &mut |_| {}, &mut |_, _| {});
    let _ = insert(pages, row(5000), &random_terms(&mut random, 1000, 3000));
    let _ = remove(pages, &mut |tid| tid.block % 5 == 0);
    let _ = rag_bm25::cleanup(pages);
    let _ = rag_bm25::merge_all(pages);
}

/// Searches with patterns and conditions.
fn use_damaged_conditions(pages: &MemoryPages, cache: &SegmentCache, terms: Terms) {
    let numbers = terms.len() as u32;
    let patterns = [
        Pattern::Prefix(b"w1".to_vec()),
        Pattern::Typo(Typo::new("w22", 1).unwrap()),
        Pattern::Exact(b"w3".to_vec()),
    ];
    let count = |pattern: Pattern| CountedPattern { pattern, weight: 1 };
    let query = Query {
        terms,
        patterns: patterns.map(count).to_vec(),
        condition: Some(Condition {
            required: vec![Match::Any(vec![
                Match::Term(numbers),
                Match::All(vec![Match::Term(0), Match::Term(numbers + 1)]),
            ])],
            excluded: vec![Match::Term(numbers + 2)],
        }),
    };
    if let Ok(mut scan) = Scan::begin(pages, cache, &query, None, 1 << 20) {
        for _ in 0..500 {
            if !matches!(scan.next(pages), Ok(Some(_))) {
                break;
            }
        }
    }
    if let Ok(mut listing) = Listing::begin(pages, cache, &query, None) {
        for _ in 0..500 {
            if !matches!(listing.next(pages), Ok(Some(_))) {
                break;
            }
        }
    }
    for shows_all in [false, true] {
        let mut table = Table {
            is_all_visible: |_| shows_all,
            is_counted: |_| true,
        };
        let _ = count_rows(pages, cache, &query, &mut table);
    }
    let _ = score_rows(pages, cache, &query, None, &[row(1), row(300)]);
    let _ = rows_that_may_hold(pages, cache, &query, &[row(1), row(300)]);
    if let Ok(statistics) = statistics(pages, cache, &query)
        && let Ok(mut scores) = RowScores::open(pages, cache, &query, &statistics)
    {
        for number in [1, 300, 1420] {
            let _ = scores.of_row(pages, row(number));
        }
    }
}

/// Returns the rows whose documents have a phrase, or may have it in an index without positions.
pub fn rows_with_phrase(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    phrase: &Phrase,
) -> Result<Vec<Tid>, IndexError> {
    let terms = phrase.terms().clone();
    let numbered = NumberedPhrase {
        numbers: (0..terms.len() as u32).collect(),
        phrase: phrase.clone(),
    };
    let condition = Condition {
        required: vec![Match::Phrase(numbered)],
        excluded: vec![],
    };
    let query = Query {
        terms,
        condition: Some(condition),
        ..Query::default()
    };
    let found = top(pages, cache, &query, None, 1 << 20)?;
    Ok(found.into_iter().map(|(row, _)| row).collect())
}
