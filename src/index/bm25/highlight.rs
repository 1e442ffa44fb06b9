//! The words of a query in texts: what is marked there.
//!
//! A word of a text is marked if a search takes it for a word of the query. The words of a phrase
//! are marked where the phrase is, and what is excluded is never marked. The text as a whole need
//! not match the query.

use std::{collections::HashMap, ffi::CStr};

use pgrx::pg_sys;
use rag_bm25::{MAX_PLACES, Pattern, Sought, TextTerm, WantedWords, WordFinder};
use rag_language::detect;
use rag_pages::memory::OutOfMemory;
use rag_retrieval::highlight::MarkedWord;
use rag_words::{
    Analysis, Weight,
    query::{Node, Occur, ParsedQuery},
};

use super::{
    asked::{Reader, needed_words},
    config::ConfigName,
    languages,
    ranking::Ranking,
    rules::TextRules,
    tokens::{self, Counted},
};
use crate::{
    error::Error,
    pg::{
        wait::check_for_interrupts,
        words::{Analyzer, Words},
    },
};

/// What a word that was found takes until it is marked, about.
const WORD_BYTES: usize = 200;
const NO_MEMORY: &str = "Memory ran out while words were being marked.";
/// Configurations whose words are remembered from one text to the next.
const REMEMBERED: usize = 4;

/// The words of a query, to be marked in texts.
pub struct QueryMarks {
    wanted: WantedWords,
    /// How much the words of the query count, by their numbers.
    weights: Vec<f32>,
    analyzer: Analyzer,
    words: HashMap<pg_sys::Oid, Words>,
}

impl QueryMarks {
    /// Returns the words of a ranked query. Rare ones count more.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn of_ranking(ranking: &Ranking, query: &str) -> Result<Self, Error> {
        let mut marks = Self::new(ranking.analyzer, query, ranking.used.as_deref())?;
        if !ranking.is_neutral {
            let (terms, statistics) = (&ranking.query.terms, &ranking.statistics);
            let documents = statistics.documents as f32;
            let rarity = |with: u64| (1.0 + documents / (with as f32 + 1.0)).ln();
            // patterns and phrases say best what is meant
            marks.weights.fill(rarity(0));
            for (term, number) in marks.wanted.sought.terms() {
                let known = terms
                    .number(term)
                    .map(|known| statistics.frequencies[known]);
                marks.weights[number as usize] = rarity(known.unwrap_or(0));
            }
        }
        Ok(marks)
    }

    /// Returns the words of a query that is read by the rules of a configuration, which is named
    /// with its schema, and the default analysis.
    ///
    /// # Errors
    /// The configuration does not exist.
    pub fn of_config(config: &CStr, query: &str) -> Result<Self, Error> {
        let rules = TextRules {
            config: ConfigName::parse(config)?,
            analysis: Analysis::default(),
            folds_accents: false,
        };
        let analyzer = rules.analyzer()?;
        let used = match languages::is_auto(analyzer) {
            true => Some(languages::all()?),
            false => None,
        };
        Self::new(analyzer, query, used.as_deref())
    }

    /// Returns the words of a query that is read by the rules of an analyzer. `used` are the
    /// configurations of texts if each text has one of its own.
    ///
    /// # Errors
    /// Memory runs out.
    fn new(analyzer: Analyzer, query: &str, used: Option<&[pg_sys::Oid]>) -> Result<Self, Error> {
        let analyzer = analyzer.with_positions(false);
        let parsed = ParsedQuery::parse(query);
        let mut builder = Builder {
            reader: Reader::new(analyzer, &parsed, used)?,
            analyzer,
            wanted: WantedWords::default(),
            count: 0,
        };
        builder.read(&parsed)?;
        Ok(Self {
            weights: vec![1.0; builder.count as usize],
            wanted: builder.wanted,
            analyzer,
            words: HashMap::new(),
        })
    }

    /// Does what [`find`](Self::find) does, for a text whose language is not known. Where each text
    /// has a configuration of its own, it is that of its mark, or else that of its language.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn find_in(&mut self, text: &str) -> Result<Vec<MarkedWord>, Error> {
        let is_detected = languages::is_auto(self.analyzer) && !languages::has_mark(text);
        self.find(text, is_detected.then(|| detect(text)))
    }

    /// Returns the words of the query in a text, in its order. Where each text has a configuration
    /// of its own, it is that of `language`, or else of the mark that the text begins with.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn find(&mut self, text: &str, language: Option<&str>) -> Result<Vec<MarkedWord>, Error> {
        if self.wanted.sought.is_empty() {
            return Ok(vec![]);
        }
        let (analyzer, rest) = match language.filter(|_| languages::is_auto(self.analyzer)) {
            Some(language) => (
                languages::in_language(self.analyzer, language)?,
                text.as_bytes(),
            ),
            None => languages::analyzer_of(self.analyzer, text.as_bytes())?,
        };
        let before = text.len() - rest.len();
        if self.words.len() >= REMEMBERED {
            self.words.retain(|config, _| *config == analyzer.config);
        }
        let words = self.words.entry(analyzer.config);
        let words = words.or_insert_with(|| Words::new(analyzer));
        let mut finder = WordFinder::new(&self.wanted);
        let mut of_pieces = WordFinder::new(&self.wanted);
        let mut is_wanted = |term: &[u8]| of_pieces.is_wanted(term);
        let read = words.each_place(rest, &mut is_wanted, |found| {
            finder.add(&TextTerm {
                term: found.term,
                position: found.position,
                place: before + found.start..before + found.end,
                is_part: found.weight == Weight::Part,
            })
        });
        read.map_err(out_of_memory)?;
        let found = finder
            .finish(&check_for_interrupts)
            .map_err(|_| out_of_memory(OutOfMemory))?;
        Error::check_memory(found.len() * WORD_BYTES + text.len(), NO_MEMORY)?;
        Ok(found
            .into_iter()
            .map(|word| {
                let weight = self.weights[word.number as usize];
                MarkedWord {
                    place: word.place,
                    number: word.number,
                    weight: if word.is_part { weight / 2.0 } else { weight },
                }
            })
            .collect())
    }
}

/// Collects what a query looks for.
struct Builder<'a> {
    reader: Reader<'a>,
    analyzer: Analyzer,
    wanted: WantedWords,
    /// Number of words so far.
    count: u32,
}

impl Builder<'_> {
    fn read(&mut self, parsed: &ParsedQuery<'_>) -> Result<(), Error> {
        self.add_words(&parsed.words)?;
        let nodes = parsed.clauses.iter().flat_map(|clause| &clause.nodes);
        let mut patterns = self.reader.patterns(nodes)?.into_iter();
        for clause in &parsed.clauses {
            for node in &clause.nodes {
                let is_excluded = clause.occur == Occur::MustNot;
                match patterns.next().flatten() {
                    Some(pattern) => self.add_pattern(node, pattern, is_excluded)?,
                    None => self.add_node(node, is_excluded)?,
                }
            }
        }
        Ok(())
    }

    /// Adds words as a search counts them, with parts of compounds.
    fn add_words(&mut self, text: &str) -> Result<(), Error> {
        let mut terms = Counted::new(self.analyzer);
        self.reader.add(&mut terms, text)?;
        for (term, _) in terms.query().iter() {
            let number = self.number();
            self.sought(false)
                .add_term(term, number)
                .map_err(out_of_memory)?;
        }
        Ok(())
    }

    fn add_pattern(
        &mut self,
        node: &Node<'_>,
        pattern: Pattern,
        is_excluded: bool,
    ) -> Result<(), Error> {
        if matches!(node, Node::Typo { .. }) && !is_excluded {
            self.add_words(node.text())?;
        }
        let number = self.number();
        self.sought(is_excluded)
            .add_pattern(pattern, number)
            .map_err(out_of_memory)
    }

    fn add_node(&mut self, node: &Node<'_>, is_excluded: bool) -> Result<(), Error> {
        let slop = match *node {
            Node::Phrase { slop, .. } => slop,
            // what is excluded is a phrase of its parts
            _ if is_excluded => 0,
            _ => return self.add_words(node.text()),
        };
        let mut parts = vec![];
        for analyzer in self.reader.analyzers.clone() {
            let words = needed_words(analyzer, node.text())?;
            if !words.is_empty() {
                parts.push((
                    tokens::phrase(analyzer, node.text().as_bytes(), slop)?,
                    words,
                ));
            } else if analyzer.config == self.reader.own {
                return Ok(()); // stop words
            }
        }
        let number = self.number();
        let sought = self.sought(is_excluded);
        for (phrase, words) in parts {
            if (2..=MAX_PLACES).contains(&phrase.places().len()) {
                sought.add_phrase(phrase, number).map_err(out_of_memory)?;
                continue;
            }
            let terms = words.iter().flat_map(|word| &word.terms);
            for term in terms {
                sought.add_term(term, number).map_err(out_of_memory)?;
            }
        }
        Ok(())
    }

    fn sought(&mut self, is_excluded: bool) -> &mut Sought {
        match is_excluded {
            true => &mut self.wanted.excluded,
            false => &mut self.wanted.sought,
        }
    }

    /// Returns the number of the next word.
    fn number(&mut self) -> u32 {
        self.count += 1;
        self.count - 1
    }
}

fn out_of_memory(_: OutOfMemory) -> Error {
    Error::out_of_memory(NO_MEMORY)
}
