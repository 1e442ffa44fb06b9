//! A scan: `ORDER BY body <@> $1`, `WHERE body @@@ $1`, or both.
//!
//! The index returns the rows that match at least one term of the query, the best first, as many
//! as the executor requests. Without an order it lists them. With several queries it searches for
//! one of them, and computes the scores of the rows found for the others. Rows may also be required
//! not to match. If the rows are ordered by another query than the condition, all rows that satisfy
//! the condition are found before the first is returned.
//!
//! The index does not know where words are. It finds the rows that have the words of a phrase, and
//! the executor checks the condition again on each.
//!
//! The score of the row that was returned last is kept for the operator, which would otherwise have
//! to make words of the row's text again.

use std::{cell::RefCell, rc::Rc};

use pgrx::pg_sys;
use rag_bm25::{GivenRows, Listing, Query, Scan, Statistics, score_rows};
use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    asked, cache,
    given::has_statistics,
    index_error,
    languages::is_auto,
    opclass::Strategy,
    query::Bm25Query,
    ranking::{Purpose, Ranking, ScoreRules, hides_rows, ranking, require_privilege},
    remembered::{remember, remembered},
};
use crate::{
    error::Error,
    index::{
        am::{
            IndexScan,
            current::index_of_row_with,
            relation::{Index, Value},
            scan::{ScanKeys, ScanRows},
        },
        pages::RelationPages,
    },
    pg::memory::work_mem,
};

/// Number of rows whose scores for other queries are computed at once.
const PORTION: usize = 256;

/// A scan of an index, which searches for one query after another.
#[derive(Default)]
pub struct Bm25Scan {
    search: Option<Search>,
    /// The rows that searches are restricted to.
    given: Option<GivenRows>,
}

impl Bm25Scan {
    /// Restricts the next searches to rows.
    pub fn restrict(&mut self, rows: GivenRows) {
        self.given = Some(rows);
    }
}

/// The search for one query, and conditions on others.
struct Search {
    opened: Rc<cache::OpenedIndex>,
    /// The query whose scores rows have.
    query: Rc<Bm25Query>,
    source: Source,
    /// Queries that rows must match as well, and queries that they must not match.
    others: Vec<Rc<Ranking>>,
    excluded: Vec<Rc<Ranking>>,
    /// Rows that were found and not returned, the next last.
    waiting: Vec<(Tid, f64)>,
    is_complete: bool,
    /// The query that rows are sorted by before the first is returned.
    unsorted: Option<Rc<Ranking>>,
    /// Rows may be returned that do not satisfy the conditions, of which only the text tells.
    needs_recheck: bool,
    /// The score of a row that is returned is that of its text.
    is_certain: bool,
}

/// What finds rows.
enum Source {
    /// The best rows first.
    Ranked(Box<Scan>),
    /// All rows, in the order of the index.
    Listed(Box<Listing>),
}

impl Source {
    fn statistics(&self) -> &Statistics {
        match self {
            Self::Ranked(scan) => scan.statistics(),
            Self::Listed(listing) => listing.statistics(),
        }
    }

    fn next(&mut self, pages: &RelationPages<'_>) -> Result<Option<(Tid, f64)>, IndexError> {
        match self {
            Self::Ranked(scan) => scan.next(pages),
            Self::Listed(listing) => listing.next(pages),
        }
    }
}

impl IndexScan for Bm25Scan {
    fn is_for_all_rows(keys: &ScanKeys<'_>) -> bool {
        let misses = Strategy::Misses as u16;
        keys.orders().len() == 0 && keys.conditions().all(|(strategy, _)| strategy == misses)
    }

    fn start(&mut self, index: Index<'_>, keys: &ScanKeys<'_>) -> Result<bool, Error> {
        self.search = Search::start(index, keys, self.given.as_ref())?;
        Ok(self.search.is_some())
    }

    fn next(&mut self, index: Index<'_>, rows: &mut ScanRows<'_>) -> Result<Option<Tid>, Error> {
        let Some(search) = &mut self.search else {
            return Ok(None);
        };
        if index.column().is_none() && rows.are_fetched() {
            rows.open(); // for `last_score`
        }
        let opened = Rc::clone(&search.opened);
        if let Some(order) = search.unsorted.take() {
            search
                .sort(&opened, &opened.pages(index), &order, rows)
                .map_err(|e| index_error(*index, e))?;
        }
        let is_certain = search.is_certain;
        let next = search.next(&opened, &opened.pages(index));
        let next = next.map_err(|e| index_error(*index, e))?;
        LAST_SCORE.with_borrow_mut(|last| {
            *last = next.map(|(_, score)| LastScore {
                index: index.id(),
                query: Rc::clone(&search.query),
                score,
                is_certain,
            });
        });
        Ok(next.map(|(tid, _)| tid))
    }

    fn needs_recheck(&self) -> bool {
        self.search
            .as_ref()
            .is_some_and(|search| search.needs_recheck)
    }

    fn end(&mut self) {
        self.search = None;
    }
}

/// The score of a row that a scan has returned.
struct LastScore {
    index: pg_sys::Oid,
    query: Rc<Bm25Query>,
    score: f64,
    /// Otherwise the row may not match, so that its score is 0.
    is_certain: bool,
}

thread_local! {
    /// That of the row that a scan of this backend has returned last.
    static LAST_SCORE: RefCell<Option<LastScore>> = const { RefCell::new(None) };
}

/// Returns the score of a text for a query if the text is the one in the row that a scan has
/// returned last for this query.
pub fn last_score(text: Value<'_>, query: &Bm25Query) -> Option<f64> {
    LAST_SCORE.with_borrow(|last| {
        let last = last
            .as_ref()
            .filter(|last| last.is_certain && *last.query == *query)?;
        (index_of_row_with(text) == Some(last.index)).then_some(last.score)
    })
}

impl Search {
    /// Starts a search. Returns `None` if no row can match.
    fn start(
        index: Index<'_>,
        keys: &ScanKeys<'_>,
        given: Option<&GivenRows>,
    ) -> Result<Option<Self>, Error> {
        let (mut conditions, mut exclusions) = (vec![], vec![]);
        for (strategy, value) in keys.conditions() {
            let Some(query) = query_of(value)? else {
                return Ok(None);
            };
            let queries = if strategy == Strategy::Misses as u16 {
                &mut exclusions
            } else {
                &mut conditions
            };
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        let mut orders = keys.orders();
        let order = match (orders.next(), orders.next()) {
            (None, _) => None,
            // NULL orders nothing; rows that satisfy a condition come in any order
            (Some(value), None) => query_of(value)?,
            _ => {
                return Err(Error::unsupported(
                    "cannot scan a rag_bm25 index in two orders",
                ));
            }
        };
        if conditions.is_empty() && order.is_none() {
            return match keys.orders().len() {
                0 => Err(Error::unsupported(
                    "cannot scan a rag_bm25 index without a query",
                )),
                _ => Ok(None),
            };
        }
        if let Some(order) = &order
            && let Some(same) = conditions.iter().position(|query| query == order)
        {
            // the rows of this condition come in the right order
            conditions.swap(0, same);
        }
        let is_sorted = conditions.is_empty() || order.as_ref() == conditions.first();
        let query = match &order {
            Some(order) if conditions.is_empty() => order.clone(),
            _ => conditions.remove(0),
        };
        let opened = cache::open(index)?;
        let rules = ScoreRules::of(&opened)?;
        let mut excluded = vec![];
        for exclusion in exclusions {
            excluded.push(ranking_for(index, &rules, &exclusion)?);
        }
        let mut others = vec![];
        for other in conditions {
            let other = ranking_for(index, &rules, &other)?;
            if other.query.is_empty() {
                return Ok(None);
            }
            others.push(other);
        }
        let is_ranked = given.is_some() || order.is_some() && is_sorted;
        let Some((mut source, is_certain)) =
            begin(index, &opened, rules.clone(), &query, is_ranked)?
        else {
            return Ok(None);
        };
        if let (Source::Ranked(scan), Some(given)) = (&mut source, given) {
            scan.restrict(&opened.pages(index), given)
                .map_err(|e| index_error(*index, e))?;
        }
        let mut conditions = others.iter().chain(&excluded);
        let needs_recheck = !is_certain || conditions.any(|other| other.needs_recheck(&opened));
        let mut search = Self {
            opened: Rc::clone(&opened),
            query: Rc::new(query),
            source,
            others,
            excluded,
            waiting: vec![],
            is_complete: false,
            unsorted: None,
            needs_recheck,
            is_certain,
        };
        if let Some(order) = order.filter(|_| !is_sorted) {
            search.unsorted = Some(ranking_for(index, &rules, &order)?);
            search.query = Rc::new(order);
            search.is_certain = true;
        }
        Ok(Some(search))
    }

    /// Returns the next row with its score.
    fn next(
        &mut self,
        opened: &cache::OpenedIndex,
        pages: &RelationPages<'_>,
    ) -> Result<Option<(Tid, f64)>, IndexError> {
        loop {
            pages.check_interrupts();
            if let Some(row) = self.waiting.pop() {
                return Ok(Some(row));
            }
            if self.is_complete {
                return Ok(None);
            }
            if self.others.is_empty() && self.excluded.is_empty() {
                return self.source.next(pages);
            }
            self.waiting = self.portion(opened, pages)?;
            self.waiting.reverse();
        }
    }

    /// Returns the next rows of the search that satisfy the other conditions as well.
    fn portion(
        &mut self,
        opened: &cache::OpenedIndex,
        pages: &RelationPages<'_>,
    ) -> Result<Vec<(Tid, f64)>, IndexError> {
        let mut rows = vec![];
        while rows.len() < PORTION {
            match self.source.next(pages)? {
                Some(row) => push(&mut rows, row).map_err(IndexError::of_memory)?,
                None => {
                    self.is_complete = true;
                    break;
                }
            }
        }
        for other in &self.others {
            let scores = scores_of(opened, pages, other, &rows)?;
            let mut scores = scores.iter();
            rows.retain(|_| scores.next().is_some_and(|score| *score > 0.0));
        }
        // of rows that may match an exclusion, only the text tells
        let certain = self
            .excluded
            .iter()
            .filter(|other| !other.needs_recheck(opened));
        for exclusion in certain {
            let scores = scores_of(opened, pages, exclusion, &rows)?;
            let mut scores = scores.iter();
            rows.retain(|_| scores.next().is_some_and(|score| *score == 0.0));
        }
        Ok(rows)
    }

    /// Finds all rows, and sorts them by their scores for another query.
    fn sort(
        &mut self,
        opened: &cache::OpenedIndex,
        pages: &RelationPages<'_>,
        order: &Ranking,
        heap: &mut ScanRows<'_>,
    ) -> Result<(), IndexError> {
        let mut sorted = vec![];
        while !self.is_complete {
            pages.check_interrupts();
            let rows = self.portion(opened, pages)?;
            let scores = scores_of(opened, pages, order, &rows)?;
            for ((tid, _), mut score) in rows.into_iter().zip(scores) {
                if score > 0.0 && order.needs_recheck(opened) {
                    let matches = |text: &[u8]| order.matches(text).unwrap_or_else(|e| e.raise());
                    let is_match = heap.open().with_text(tid, matches);
                    score = if is_match == Some(true) { score } else { 0.0 };
                }
                push(&mut sorted, (tid, score)).map_err(IndexError::of_memory)?;
            }
        }
        // the best last
        sorted.sort_unstable_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        self.waiting = sorted;
        Ok(())
    }
}

/// Returns the scores of rows for a query.
fn scores_of(
    opened: &cache::OpenedIndex,
    pages: &RelationPages<'_>,
    ranking: &Ranking,
    rows: &[(Tid, f64)],
) -> Result<Vec<f64>, IndexError> {
    let tids: Vec<Tid> = rows.iter().map(|(tid, _)| *tid).collect();
    let statistics = Some(&ranking.statistics);
    score_rows(pages, &opened.segments, &ranking.query, statistics, &tids)
}

/// Begins the search for a query, or a list of its rows, which is certain if all of them match.
/// Returns `None` if the query has no term.
fn begin(
    index: Index<'_>,
    opened: &cache::OpenedIndex,
    rules: ScoreRules,
    query: &Bm25Query,
    is_ranked: bool,
) -> Result<Option<(Source, bool)>, Error> {
    let pages = opened.pages(index);
    let begin = |query: &Query, statistics| {
        let segments = &opened.segments;
        let source = if is_ranked {
            Scan::begin(&pages, segments, query, statistics, work_mem())
                .map(|scan| Source::Ranked(Box::new(scan)))
        } else {
            Listing::begin(&pages, segments, query, statistics)
                .map(|listing| Source::Listed(Box::new(listing)))
        };
        source.map_err(|e| index_error(*index, e))
    };
    let text = query.text.as_deref().unwrap_or_default();
    let analyzer = opened.analyzer()?;
    let is_own = query.index == index.id() && !is_auto(analyzer) && !has_statistics(text);
    if is_own
        && remembered(Purpose::Operator, index.id(), text).is_none()
        && !hides_rows(index.id())?
    {
        // the search reads the statistics itself
        require_privilege(index.id())?;
        let asked = asked::read(analyzer, text, None)?;
        let source = begin(&asked, None)?;
        let statistics = source.statistics().clone();
        let has_terms = !asked.is_empty();
        let ranking = Ranking::new(rules, analyzer, asked, statistics);
        let is_certain = !ranking.needs_recheck(opened);
        remember(Purpose::Operator, query.index, text, ranking);
        return Ok(has_terms.then_some((source, is_certain)));
    }
    let known = ranking_for(index, &rules, query)?;
    if known.query.is_empty() {
        return Ok(None);
    }
    let source = begin(&known.query, Some(&known.statistics))?;
    Ok(Some((source, !known.needs_recheck(opened))))
}

/// Returns the ranking of a query that an index with some rules can answer.
///
/// # Errors
/// The query is one of an index with other rules.
pub fn ranking_for(
    index: Index<'_>,
    rules: &ScoreRules,
    query: &Bm25Query,
) -> Result<Rc<Ranking>, Error> {
    let known = ranking(
        Purpose::Operator,
        query.index,
        query.text.as_deref().unwrap_or_default(),
    )?;
    if query.index != index.id() && known.rules != *rules {
        return Err(Error::unsupported(format!(
            "index \"{}\" cannot answer a query of another index",
            index.name()
        ))
        .detail("The indexes were built with different options.")
        .hint("Name this index in rag_bm25_query, or drop one of the indexes."));
    }
    Ok(known)
}

/// Returns the query that the right argument of an operator is, `None` for NULL.
///
/// # Errors
/// The operator is not one of those that the extension creates.
pub fn query_of(value: Option<Value<'_>>) -> Result<Option<Bm25Query>, Error> {
    let Some(value) = value else {
        return Ok(None);
    };
    let query: Bm25Query = value
        .get()
        .ok_or_else(|| Error::internal("the operator's right argument is not a bm25_query"))?;
    Ok(query.text.is_some().then_some(query))
}
