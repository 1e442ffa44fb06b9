//! Statistics that come with a query: those of all shards of a partition that is distributed over
//! servers. A shard's index has only its own.
//!
//! They are written before the words, as JSON between two marks that no text has. So everything
//! that reads a query of such an index ranks by them: the operators, scans, and the functions
//! below, which Citus calls where the shard is.

use std::rc::Rc;

use pgrx::{pg_extern, pg_sys, pg_sys::panic::ErrorReport};
use rag_bm25::{RowScores, Statistics};
use rag_pages::Tid;
use serde_json::{Value, json};

use super::{
    Bm25, asked,
    cache::{self, OpenedIndex},
    index_error, languages,
    options::Bm25Options,
    ranking::{
        Purpose, Ranking, ScoreRules, open_index, ranking, read_statistics, require_privilege,
    },
    search,
};
use crate::{
    error::Error,
    index::am::{
        AccessMethod,
        heap::index_places,
        relation::{LockedIndex, table_of},
        tid::from_pointer,
    },
    pg::{
        calls::CallInfo,
        lookup,
        transaction::{StatementStamp, statement_stamp},
    },
};

/// Encloses the statistics at the beginning of a query.
const MARK: char = '\u{2}';

/// The statistics of a query in all shards, and the names of the text search configurations that
/// texts have, if each has its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenStatistics {
    pub statistics: Statistics,
    pub used: Option<Vec<String>>,
}

impl GivenStatistics {
    /// Returns a query of some words that is ranked by these statistics.
    pub fn query(&self, words: &str) -> String {
        let given = json!([
            self.statistics.documents,
            self.statistics.length,
            self.statistics.frequencies,
            self.used,
        ]);
        format!("{MARK}{given}{MARK}{words}")
    }

    /// Adds what another shard has.
    pub fn add(&mut self, other: &Self) {
        self.statistics.add(&other.statistics);
        if let Some(used) = &other.used {
            let all = self.used.get_or_insert_with(Vec::new);
            all.extend(used.iter().cloned());
            all.sort_unstable();
            all.dedup();
        }
    }

    fn read(given: &Value) -> Option<Self> {
        let numbers = given.get(2)?.as_array()?.iter();
        Some(Self {
            statistics: Statistics {
                documents: given.get(0)?.as_u64()?,
                length: given.get(1)?.as_u64()?,
                frequencies: numbers.map(Value::as_u64).collect::<Option<_>>()?,
            },
            used: match given.get(3)? {
                Value::Array(names) => Some(
                    names
                        .iter()
                        .map(|name| name.as_str().map(str::to_owned))
                        .collect::<Option<_>>()?,
                ),
                _ => None,
            },
        })
    }

    /// Returns the statistics that a query begins with, and its words.
    pub fn split(query: &[u8]) -> Option<(Self, &[u8])> {
        let query = std::str::from_utf8(query).ok()?.strip_prefix(MARK)?;
        let (given, words) = query.split_once(MARK)?;
        let given = Self::read(&serde_json::from_str(given).ok()?)?;
        Some((given, words.as_bytes()))
    }

    /// Reads what [`keyword_statistics`] returns.
    pub fn of_shard(text: &str) -> Option<Self> {
        Self::read(&serde_json::from_str(text).ok()?)
    }
}

/// Returns true if a query comes with statistics.
pub fn has_statistics(query: &[u8]) -> bool {
    query.first() == Some(&(MARK as u8))
}

/// Returns the ranking of a query by the statistics that come with it, if there are any.
///
/// # Errors
/// There is no such index, or the current role may not query it.
pub fn given_ranking(index: pg_sys::Oid, text: &[u8]) -> Result<Option<Ranking>, Error> {
    let Some((given, words)) = GivenStatistics::split(text) else {
        return Ok(None);
    };
    require_privilege(index)?;
    let open = open_index(index)?;
    let (rules, analyzer) = if open.index().is_partitioned() {
        let options = Bm25Options::of(open.index())?;
        let analyzer = options.rules.analyzer()?;
        (ScoreRules::of_options(options), analyzer)
    } else {
        let opened = cache::open(open.index())?;
        (ScoreRules::of(&opened)?, opened.analyzer()?)
    };
    let used = given.used.as_deref().map(languages::configs).transpose()?;
    let query = asked::read(analyzer, words, used.as_deref())?;
    let mut statistics = given.statistics;
    // a text search configuration may differ between servers
    statistics.frequencies.resize(query.as_ref().count(), 0);
    Ok(Some(
        Ranking::new(rules, analyzer, query, statistics).with_used(used.as_deref()),
    ))
}

/// Returns what the indexes on all shards have of some words, and the words as a query that is
/// ranked by it. `index` is the empty one of the coordinator. `ask` returns what
/// [`keyword_statistics`] returns on each shard for its last argument.
///
/// # Errors
/// `ask` fails.
pub fn rank_by_shards(
    index: pg_sys::Oid,
    words: &str,
    ask: impl Fn(Option<Vec<String>>) -> Result<Vec<GivenStatistics>, Error>,
) -> Result<GivenStatistics, Error> {
    let open = open_index(index)?;
    let analyzer = cache::open(open.index())?.analyzer()?;
    let mut used = None;
    if languages::is_auto(analyzer) {
        let mut all = GivenStatistics::default();
        ask(None)?.iter().for_each(|shard| all.add(shard));
        used = Some(all.used.unwrap_or_default());
    }
    let mut sum = GivenStatistics::default();
    for shard in ask(used.clone())? {
        sum.add(&shard);
    }
    let configs = used.as_deref().map(languages::configs).transpose()?;
    let query = asked::read(analyzer, words.as_bytes(), configs.as_deref())?;
    let count = query.as_ref().count();
    sum.statistics.frequencies.resize(count, 0);
    sum.used = used;
    Ok(sum)
}

// -- called on shards

/// Returns the keyword index on a shard.
fn index_of(relation: pg_sys::Oid) -> Result<pg_sys::Oid, Error> {
    lookup::whole_index(relation, Bm25::NAME).ok_or_else(|| {
        let name = lookup::relation_name(relation).map_or_else(String::new, |(name, _)| name);
        Error::undefined(format!("relation \"{name}\" has no valid keyword index"))
    })
}

fn open(index: pg_sys::Oid) -> Result<LockedIndex, Error> {
    table_of(index)
        .and_then(|table| LockedIndex::open(index, table))
        .ok_or_else(|| Error::internal("the keyword index was dropped"))
}

/// Returns the statistics of some words in a shard, with its name. Without `used`, those of an
/// index whose texts have configurations of their own are these configurations.
#[pg_extern(sql = false, stable, parallel_restricted)]
fn keyword_statistics(
    relation: Option<pg_sys::Oid>,
    words: Option<&str>,
    used: Option<Vec<String>>,
) -> Result<Option<String>, ErrorReport> {
    let (Some(relation), Some(words)) = (relation, words) else {
        return Ok(None);
    };
    let index = index_of(relation)?;
    require_privilege(index)?;
    let open = open_index(index)?;
    let opened = cache::open(open.index())?;
    let analyzer = opened.analyzer()?;
    let shard = lookup::relation_name(relation).map(|(name, _)| name);
    if languages::is_auto(analyzer) && used.is_none() {
        let markers = languages::markers()?;
        let found = read_statistics(open.index(), &opened, &markers)?;
        let names = languages::used_names(&markers, &found.frequencies);
        return Ok(Some(json!([0, 0, [], names, shard]).to_string()));
    }
    let configs = used.as_deref().map(languages::configs).transpose()?;
    let query = asked::read(analyzer, words.as_bytes(), configs.as_deref())?;
    let found = read_statistics(open.index(), &opened, &query)?;
    let statistics = json!([
        found.documents,
        found.length,
        found.frequencies,
        null,
        shard
    ]);
    Ok(Some(statistics.to_string()))
}

/// The query that a place in a statement asks for the scores of rows.
#[derive(Default)]
struct KeptScores(Option<ShardScores>);

struct ShardScores {
    relation: pg_sys::Oid,
    query: String,
    stamp: Option<StatementStamp>,
    index: pg_sys::Oid,
    opened: Rc<OpenedIndex>,
    /// `None` if the index does not know where words are, but the query asks.
    scores: Option<RowScores>,
}

impl ShardScores {
    fn open(relation: pg_sys::Oid, query: &str) -> Result<Self, Error> {
        let index = index_of(relation)?;
        let ranking = ranking(Purpose::Search, index, query.as_bytes())?;
        let open = open(index)?;
        let opened = cache::open(open.index())?;
        let scores = (!ranking.needs_recheck(&opened)).then(|| {
            let pages = opened.pages(open.index());
            RowScores::open(
                &pages,
                &opened.segments,
                &ranking.query,
                &ranking.statistics,
            )
        });
        Ok(Self {
            relation,
            query: query.to_owned(),
            stamp: statement_stamp(),
            index,
            scores: scores
                .transpose()
                .map_err(|e| index_error(*open.index(), e))?,
            opened,
        })
    }

    fn is_of(&self, relation: pg_sys::Oid, query: &str) -> bool {
        self.relation == relation
            && self.query == query
            && self.stamp.is_some()
            && self.stamp == statement_stamp()
    }

    fn of_row(&mut self, row: Tid) -> Result<Option<f64>, Error> {
        let open = open(self.index)?;
        let Some(scores) = &mut self.scores else {
            let allowed = search::allowed(&open, &self.query, &[row])?;
            let scores = search::scores_of(&open, &self.query, &[row])?;
            let score = scores.first().copied().unwrap_or(0.0);
            return Ok(allowed.contains(&true).then_some(score));
        };
        let [place] = index_places(open.table(), &[row])[..] else {
            return Err(Error::internal("a row has several places in an index"));
        };
        let found = scores.of_row(&self.opened.pages(open.index()), place);
        let found = found.map_err(|e| index_error(*open.index(), e))?;
        Ok(found.may_hold.then_some(found.score))
    }
}

/// Returns the BM25 score of a row of a shard: 0 if it has no word of the query, and NULL if it
/// lacks what the query requires, or has what it excludes.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn keyword_score(
    relation: pg_sys::Oid,
    row: pg_sys::ItemPointerData,
    query: &str,
    mut call: CallInfo,
) -> Result<Option<f64>, ErrorReport> {
    let KeptScores(kept) = call.kept();
    let scores = match kept {
        Some(scores) if scores.is_of(relation, query) => scores,
        other => other.insert(ShardScores::open(relation, query)?),
    };
    Ok(scores.of_row(from_pointer(row))?)
}

/// Returns which terms of a query a row of a shard has.
#[pg_extern(sql = false, stable, strict, parallel_restricted)]
fn keyword_terms(
    relation: pg_sys::Oid,
    row: pg_sys::ItemPointerData,
    query: &str,
) -> Result<Vec<bool>, ErrorReport> {
    let open = open(index_of(relation)?)?;
    Ok(search::terms_in(&open, query, from_pointer(row))?)
}
