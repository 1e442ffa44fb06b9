//! Words of the query in results: marks, and the part of a text that shows why it was found.
//!
//! The columns `snippet` and `matches` of `rag_search` are calls for each row, so that a search
//! whose caller does not ask for them does not compute them. The rows of a statement share what is
//! known of the query. A text without words of the query shows the sentence that is nearest to it.

use std::{cell::RefCell, ffi::CString, ops::Range, thread::LocalKey};

use pgrx::pg_sys;
use rag_ann::distance::cosine_distance;
use rag_contract::HighlightSettings;
use rag_protocol::{call::Purpose, embed::Priority};
use rag_retrieval::context::{columns, columns_of, fitted, one_line};
use rag_retrieval::highlight::{
    MarkStyle, MarkedWord, character_places, fragment, fragment_at, marked, marked_bytes, places,
    sentences,
};
use rag_words::query::ParsedQuery;

use super::shards;
use crate::{
    catalog::{chunks::as_reader, collections::Collection, shards::is_distributed},
    collection::{
        corruption::{IndexUse, search_with_fallback},
        definition::qualified_text_config,
        keyword_index, model, rights,
    },
    error::Error,
    index::bm25::{
        highlight::QueryMarks,
        ranking::{self, ranking},
    },
    models::embedding::EmbeddingModel,
    pg::{
        guc::setting,
        roles,
        transaction::{StatementStamp, statement_stamp},
    },
};

/// The number of characters of a snippet.
const SNIPPET: usize = 200;
/// The number of characters of a text that a line is chosen from.
const MAX_LINE: usize = 20_000;
/// The number of texts of a search whose sentences are compared with the query by a model of this
/// server. Each takes as long as several queries.
const NEAREST_SENTENCES: usize = 3;
/// Of more sentences than these, the others are not compared with the query.
const MAX_SENTENCES: usize = 32;
/// Maximum number of searches of a statement that are remembered.
const REMEMBERED: usize = 16;
/// The maximum number of bytes of a text with marks: that of PostgreSQL, less what a header needs.
const MAX_BYTES: usize = (1 << 30) - 64;

/// Returns how words are marked. The defaults are those for a page in HTML.
fn style(settings: &HighlightSettings) -> MarkStyle {
    let or = |given: &Option<String>, default: &str| given.as_deref().unwrap_or(default).to_owned();
    MarkStyle {
        start: or(&settings.start, "<mark>"),
        stop: or(&settings.stop, "</mark>"),
        ellipsis: or(&settings.ellipsis, "…"),
        escapes_html: settings.escape_html.unwrap_or(true),
    }
}

/// Returns the words of a query by the rules of a collection.
///
/// # Errors
/// The caller may not read the collection.
fn marks_of_collection(collection: &Collection, query: &str) -> Result<QueryMarks, Error> {
    rights::require_read(collection)?;
    search_with_fallback(collection, |indexes| {
        if let (Some(index), IndexUse::Allowed) = (keyword_index::find(collection), indexes) {
            return as_reader(collection, |_| {
                let asked = match is_distributed()? {
                    true => shards::query(collection, index, query)?,
                    false => query.to_owned(),
                };
                let ranking = ranking(ranking::Purpose::Search, index, asked.as_bytes())?;
                QueryMarks::of_ranking(&ranking, query)
            });
        }
        QueryMarks::of_config(&c_string(&collection.definition.text_config)?, query)
    })
}

fn c_string(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::invalid_parameter("a name contains NUL"))
}

/// Returns a text with marks around words, or a part of it if the settings limit its length.
///
/// # Errors
/// The result is too long, or memory runs out.
pub fn highlighted(
    text: &str,
    words: &[MarkedWord],
    settings: &HighlightSettings,
) -> Result<String, Error> {
    let part = match settings.max_characters {
        Some(limit) => fragment(text, words, limit, |_| 1),
        None => 0..text.len(),
    };
    written(text, part, words, settings)
}

fn written(
    text: &str,
    part: Range<usize>,
    words: &[MarkedWord],
    settings: &HighlightSettings,
) -> Result<String, Error> {
    let (places, style) = (places(words, &part), style(settings));
    let bytes = marked_bytes(text, part.clone(), &places, &style);
    if bytes > MAX_BYTES {
        return Err(Error::limit("the text with its marks is too long")
            .detail(format!("It has {bytes} bytes. The maximum is {MAX_BYTES}.")));
    }
    Error::check_memory(bytes, "Memory ran out while words were being marked.")?;
    Ok(marked(text, part, &places, &style))
}

/// What is known of the query of a statement.
pub struct Snippets {
    collection: Collection,
    query: Option<String>,
    settings: HighlightSettings,
    /// None without a query.
    marks: Option<QueryMarks>,
    /// The embedding of the query. None: there is none, or it is not known yet.
    embedding: Option<Vec<f32>>,
    /// Number of texts whose sentences were compared with the query.
    compared: usize,
    /// The model cannot be asked.
    has_no_model: bool,
    /// The latest text and its words.
    latest: Option<(String, Vec<MarkedWord>)>,
}

impl Snippets {
    /// # Errors
    /// The caller may not read the collection.
    pub fn new(
        collection: Collection,
        query: Option<&str>,
        settings: HighlightSettings,
        embedding: Option<Vec<f32>>,
    ) -> Result<Self, Error> {
        let query = query.filter(|query| !query.trim().is_empty());
        let marks = query.map(|query| marks_of_collection(&collection, query));
        Ok(Self {
            marks: marks.transpose()?,
            query: query.map(str::to_owned),
            collection,
            settings,
            embedding,
            compared: 0,
            has_no_model: false,
            latest: None,
        })
    }

    /// Returns the words of the query in a text of the collection.
    fn words(&mut self, text: &str, language: Option<&str>) -> Result<Vec<MarkedWord>, Error> {
        if let Some((known, words)) = &self.latest
            && known == text
        {
            return Ok(words.clone());
        }
        let Some(marks) = &mut self.marks else {
            return Ok(vec![]);
        };
        let words = marks.find(text, Some(language.unwrap_or_default()))?;
        self.latest = Some((text.to_owned(), words.clone()));
        Ok(words)
    }

    /// Returns the places of the words of the query in a text, in characters from 0 on.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn matches(
        &mut self,
        text: &str,
        language: Option<&str>,
    ) -> Result<Vec<Range<usize>>, Error> {
        let words = self.words(text, language)?;
        Ok(character_places(text, &places(&words, &(0..text.len()))))
    }

    /// Returns the part of a text that has most words of the query, with marks. If it has none, it
    /// is the part with the sentence that is nearest to the query.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn snippet(&mut self, text: &str, language: Option<&str>) -> Result<String, Error> {
        let words = self.words(text, language)?;
        let limit = self.settings.max_characters.unwrap_or(SNIPPET);
        let part = match self.nearest_sentence(text, &words, limit) {
            Some(sentence) => fragment_at(text, sentence, limit, |_| 1),
            None => fragment(text, &words, limit, |_| 1),
        };
        written(text, part, &words, &self.settings)
    }

    /// Returns a snippet as one line of at most `width` columns of a terminal.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn line(
        &mut self,
        text: &str,
        language: Option<&str>,
        width: usize,
    ) -> Result<String, Error> {
        let text: String = one_line(text).chars().take(MAX_LINE).collect();
        let words = self.words(&text, language)?;
        let sentence = self.nearest_sentence(&text, &words, width);
        let style = MarkStyle {
            start: "«".to_owned(),
            stop: "»".to_owned(),
            ellipsis: "…".to_owned(),
            escapes_html: false,
        };
        let mut limit = width;
        loop {
            let part = match &sentence {
                Some(sentence) => fragment_at(&text, sentence.clone(), limit, columns_of),
                None => fragment(&text, &words, limit, columns_of),
            };
            let line = marked(&text, part.clone(), &places(&words, &part), &style);
            // marks and what stands for the rest of the text have columns, too
            match columns(&line).saturating_sub(width) {
                0 => return Ok(line),
                excess if excess < limit => limit -= excess,
                _ => return Ok(fitted(&line, width)),
            }
        }
    }

    /// Returns the sentence that is nearest to the query of a text that does not fit and has no
    /// words of the query, or `None` if that is not known: a snippet is no reason to fail.
    fn nearest_sentence(
        &mut self,
        text: &str,
        words: &[MarkedWord],
        limit: usize,
    ) -> Option<Range<usize>> {
        if !words.is_empty() || text.chars().nth(limit).is_none() {
            return None;
        }
        let mut sentences = sentences(text);
        sentences.truncate(MAX_SENTENCES);
        if sentences.len() < 2 || self.has_no_model {
            return None;
        }
        let nearest = self.nearest(text, &sentences);
        self.has_no_model = nearest.is_none();
        self.compared += 1;
        nearest.map(|number| sentences.swap_remove(number))
    }

    fn nearest(&mut self, text: &str, sentences: &[Range<usize>]) -> Option<usize> {
        let model = EmbeddingModel::of_collection(&self.collection).ok()?;
        let is_remote = model.known_fingerprint().is_some();
        let few = if is_remote { 0 } else { NEAREST_SENTENCES };
        if self.compared >= self.settings.nearest_sentences.unwrap_or(few) {
            return None;
        }
        let embed = |purpose, texts: Vec<String>| {
            let answer = model.embed_now(Priority::Query, purpose, texts).ok()?;
            model::check(&self.collection, &answer.model).ok()?;
            Some(answer.vectors)
        };
        if self.embedding.is_none() {
            let subject = ParsedQuery::parse(self.query.as_deref()?).subject();
            self.embedding = embed(Purpose::Query, vec![subject.into_owned()])?.pop();
        }
        let query = self.embedding.as_ref()?;
        let texts = sentences.iter().map(|range| text[range.clone()].to_owned());
        let vectors = embed(Purpose::Passage, texts.collect())?;
        if vectors.iter().any(|vector| vector.len() != query.len()) {
            return None;
        }
        let distances = vectors.iter().map(|vector| cosine_distance(query, vector));
        let nearest = (0..).zip(distances).min_by(|(_, a), (_, b)| a.total_cmp(b));
        nearest.map(|(number, _)| number)
    }
}

/// How texts become words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rules {
    /// By `default_text_search_config`.
    Default,
    Config(String),
    Collection(String),
    Index(pg_sys::Oid),
}

impl Rules {
    fn marks(&self, query: &str) -> Result<QueryMarks, Error> {
        let name = match self {
            Self::Index(index) => {
                let ranking = ranking(ranking::Purpose::Operator, *index, query.as_bytes())?;
                return QueryMarks::of_ranking(&ranking, query);
            }
            Self::Collection(name) => {
                let collection = Collection::by_name_or_external_id(name)?;
                return marks_of_collection(&collection, query);
            }
            Self::Config(name) => qualified_text_config(name)?,
            Self::Default => qualified_text_config(&setting(c"default_text_search_config"))?,
        };
        QueryMarks::of_config(&c_string(&name)?, query)
    }
}

/// What tells the searches of a statement apart.
#[derive(Debug, PartialEq)]
pub struct SnippetKey {
    pub collection: Option<String>,
    pub query: Option<String>,
    pub settings: Option<Vec<u8>>,
    pub embedding: Option<Vec<f32>>,
}

/// What the rows of a statement share, the latest at the end.
struct OfStatement<K, V> {
    of: Option<(StatementStamp, pg_sys::Oid)>,
    known: Vec<(K, V)>,
}

type Latest<K, V> = RefCell<OfStatement<K, V>>;

impl<K, V> OfStatement<K, V> {
    const NOTHING: Self = Self {
        of: None,
        known: vec![],
    };
}

thread_local! {
    static SNIPPETS: Latest<SnippetKey, Snippets> = const { RefCell::new(OfStatement::NOTHING) };
    static MARKS: Latest<(Rules, String), QueryMarks> =
        const { RefCell::new(OfStatement::NOTHING) };
}

/// Calls `f` with what the current statement knows of a search.
///
/// # Errors
/// Those of `new` or of `f`.
pub fn with_snippets<T>(
    key: SnippetKey,
    new: impl FnOnce() -> Result<Snippets, Error>,
    f: impl FnOnce(&mut Snippets) -> Result<T, Error>,
) -> Result<T, Error> {
    with_latest(&SNIPPETS, key, |_| new(), f)
}

/// Calls `f` with the words of a query.
///
/// # Errors
/// The rules do not exist, the caller may not read what has them, or `f` fails.
pub fn with_marks<T>(
    rules: Rules,
    query: &str,
    f: impl FnOnce(&mut QueryMarks) -> Result<T, Error>,
) -> Result<T, Error> {
    let new = |(rules, query): &(Rules, String)| rules.marks(query);
    with_latest(&MARKS, (rules, query.to_owned()), new, f)
}

fn with_latest<K: PartialEq, V, T>(
    latest: &'static LocalKey<Latest<K, V>>,
    key: K,
    new: impl FnOnce(&K) -> Result<V, Error>,
    f: impl FnOnce(&mut V) -> Result<T, Error>,
) -> Result<T, Error> {
    let now = statement_stamp().map(|stamp| (stamp, roles::current()));
    let known = latest.with_borrow_mut(|latest| {
        if now.is_none() || latest.of != now {
            (latest.of, latest.known) = (now, vec![]);
        }
        let place = latest.known.iter().position(|(known, _)| *known == key);
        place.map(|place| latest.known.remove(place).1)
    });
    // it is not kept if there is an ERROR
    let mut value = match known {
        Some(value) => value,
        None => new(&key)?,
    };
    let result = f(&mut value)?;
    latest.with_borrow_mut(|latest| {
        if latest.known.len() == REMEMBERED {
            latest.known.remove(0);
        }
        latest.known.push((key, value));
    });
    Ok(result)
}
