//! A query with the statistics of its index: what scores depend on.
//!
//! A statement reads the statistics once for each query. So the scan and the operator compute the
//! same scores, although other sessions write meanwhile. A query of a partitioned index has the
//! statistics of all partitions.
//!
//! Scores tell how often words occur in all rows. So a query requires the privilege SELECT on the
//! indexed column, also of a role that reads it through a view. Where row-level security hides rows
//! from the role, or where it may read only some collections of a partition, the operators compute
//! with statistics that are the same for all words ([`NEUTRAL_LENGTH`]). Searches of collections
//! use the statistics of all rows, because they do not return such scores.

use std::rc::Rc;

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_bm25::{Condition, NumberedPhrase, Parameters, Query, QueryRef, Scorer, Statistics, Terms};

use super::{
    Bm25, asked, cache, given, index_error, languages,
    options::Bm25Options,
    partitions,
    remembered::{remember, remembered},
    rules::TextRules,
    tokens::{self, ManyTexts},
};
use crate::{
    catalog::access,
    error::Error,
    index::am::{
        AccessMethod,
        relation::{Index, LockedIndex, relation_name, table_of},
    },
    pg::{extension, lookup, roles, wait::check_for_interrupts, words::Analyzer},
};

/// Average number of words of a row where the statistics must not tell of hidden rows.
const NEUTRAL_LENGTH: u64 = 100;

/// What a ranking is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An operator, whose scores the caller sees.
    Operator,
    /// A search that does not return scores, or whose caller may see all rows.
    Search,
    /// A condition on titles, by a text search configuration instead of an index.
    Title,
}

/// A query with the statistics of its index.
pub struct Ranking {
    pub query: Query,
    pub statistics: Statistics,
    pub rules: ScoreRules,
    pub analyzer: Analyzer,
    /// The statistics are not those of the index, because the role must not see all of its rows.
    pub is_neutral: bool,
    /// The configurations of the texts, if each has its own.
    pub used: Option<Vec<pg_sys::Oid>>,
    scorer: Scorer,
}

/// How an index makes terms of texts, and scores of terms.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRules {
    text: TextRules,
    parameters: Parameters,
}

impl ScoreRules {
    pub fn new(text: TextRules, parameters: Parameters) -> Self {
        Self { text, parameters }
    }

    pub fn of_options(options: Bm25Options) -> Self {
        Self {
            text: options.rules,
            parameters: options.parameters,
        }
    }

    pub fn of(opened: &cache::OpenedIndex) -> Result<Self, Error> {
        Ok(Self {
            text: opened.rules()?,
            parameters: opened.description.parameters,
        })
    }
}

impl Ranking {
    pub fn new(
        rules: ScoreRules,
        analyzer: Analyzer,
        query: Query,
        statistics: Statistics,
    ) -> Self {
        Self {
            scorer: Scorer::new(rules.parameters, &statistics, &query),
            query,
            statistics,
            rules,
            analyzer,
            is_neutral: false,
            used: None,
        }
    }

    pub fn with_used(self, used: Option<&[pg_sys::Oid]>) -> Self {
        Self {
            used: used.map(<[_]>::to_vec),
            ..self
        }
    }

    /// Returns the terms of a word of the query.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn terms_of(&self, word: &str) -> Result<Terms, Error> {
        tokens::query_terms(self.analyzer, word.as_bytes(), self.used.as_deref())
    }

    /// Returns true if a term with this frequency in a query is a word, and no part of one.
    pub fn is_whole(&self, frequency: u32) -> bool {
        frequency >= if self.analyzer.has_parts() { 2 } else { 1 }
    }

    /// Returns which terms of the query a text has.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn terms_in(&self, text: &[u8]) -> Result<Vec<bool>, Error> {
        let document = tokens::terms(self.analyzer, text)?;
        let found = self
            .query
            .as_ref()
            .frequencies_in(&document, self.analyzer.has_parts());
        Ok(found.into_iter().map(|frequency| frequency > 0).collect())
    }

    /// Returns a ranking that tells nothing of the rows in the index.
    pub fn neutral(rules: ScoreRules, analyzer: Analyzer, query: Query) -> Self {
        let statistics = Statistics {
            documents: 1,
            length: NEUTRAL_LENGTH,
            frequencies: vec![0; query.as_ref().count()],
        };
        Self {
            is_neutral: true,
            ..Self::new(rules, analyzer, query, statistics)
        }
    }

    /// Returns true if only the texts tell which of the rows match that an index finds: if it does
    /// not know where the words of a phrase are.
    pub fn needs_recheck(&self, opened: &cache::OpenedIndex) -> bool {
        !opened.description.has_positions && self.has_phrase()
    }

    fn has_phrase(&self) -> bool {
        self.query
            .condition
            .as_ref()
            .is_some_and(Condition::has_phrase)
    }

    /// Returns the score of a text, 0 if it does not match the query.
    pub fn score(&self, text: &[u8]) -> Result<f64, Error> {
        let document = self.document_of(text)?;
        Ok(self
            .scorer
            .score_with(&document, &|numbered| has_phrase(numbered, &document)))
    }

    /// Returns the terms of a text, and where they are if the query needs that.
    fn document_of(&self, text: &[u8]) -> Result<Terms, Error> {
        tokens::terms(self.analyzer.with_positions(self.has_phrase()), text)
    }

    /// Returns true if a text matches the query.
    pub fn matches(&self, text: &[u8]) -> Result<bool, Error> {
        Ok(self.score(text)? > 0.0)
    }

    /// Returns true if a text has what the query requires, and nothing that it excludes. It need
    /// not have words of it.
    pub fn allows(&self, text: &[u8]) -> Result<bool, Error> {
        let Some(condition) = &self.query.condition else {
            return Ok(true);
        };
        let document = self.document_of(text)?;
        let has_parts = self.analyzer.has_parts();
        let found = self.query.as_ref().frequencies_in(&document, has_parts);
        let has = |number: u32| found.get(number as usize).is_some_and(|found| *found > 0);
        Ok(condition.holds(&has, &|numbered| has_phrase(numbered, &document)))
    }

    /// Estimates the fraction of the documents that match, as if each term was in a document
    /// independently of the others.
    ///
    /// Returns `None` if the statistics must not be told.
    pub fn matching_fraction(&self) -> Option<f64> {
        if self.is_neutral {
            return None;
        }
        let documents = self.statistics.documents.max(1) as f64;
        let frequencies = self.statistics.frequencies.iter();
        let with: Vec<f64> = frequencies
            .map(|with| (*with as f64 / documents).min(1.0))
            .collect();
        let query = self.query.as_ref();
        let counted = with.iter().enumerate();
        let counted = counted.filter(|(number, _)| query.counts(*number));
        let without: f64 = counted.map(|(_, with)| 1.0 - with).product();
        let fraction = 1.0 - without;
        Some(match query.condition {
            None => fraction,
            Some(condition) => {
                condition.estimate(&with).min(1.0)
                    * match condition.required[..] {
                        [] => fraction,
                        _ => 1.0, // what is required counts
                    }
            }
        })
    }
}

/// Returns true if a document has a phrase. Its terms have positions.
fn has_phrase(numbered: &NumberedPhrase, document: &Terms) -> bool {
    let found = numbered.phrase.matches(document, check_for_interrupts);
    found.unwrap_or_else(|_| {
        Error::out_of_memory("Memory ran out while a phrase was being looked for.").raise()
    })
}

/// Returns the ranking of a query by an index, which may be partitioned.
///
/// # Errors
/// There is no such index, it cannot be read, the current role may not query it, or its partitions
/// have different options.
pub fn ranking(purpose: Purpose, index: pg_sys::Oid, text: &[u8]) -> Result<Rc<Ranking>, Error> {
    if let Some(known) = remembered(purpose, index, text) {
        return Ok(known);
    }
    if let Some(given) = given::given_ranking(index, text)? {
        return Ok(remember(purpose, index, text, given));
    }
    // before the relations are locked
    require_privilege(index)?;
    let root = open_index(index)?;
    if purpose == Purpose::Operator && hides_rows(index)? {
        return Ok(remember(purpose, index, text, neutral(root.index(), text)?));
    }
    if !root.index().is_partitioned() {
        let opened = cache::open(root.index())?;
        let used = if languages::is_auto(opened.analyzer()?) {
            partitions::used_configs(&[index])?
        } else {
            None
        };
        let ranking = of_index(root.index(), &opened, text, used.as_deref())?;
        return Ok(remember(purpose, index, text, ranking));
    }
    let ranking = partitions::ranking_of(root.index(), text)?;
    Ok(remember(purpose, index, text, ranking))
}

/// Returns a ranking with statistics that are the same for all words. Indexes of partitions must
/// agree in their rules, as those of [`ranking`].
fn neutral(root: Index<'_>, text: &[u8]) -> Result<Ranking, Error> {
    let options = Bm25Options::of(root)?;
    let analyzer = options.rules.analyzer()?;
    let used = if languages::is_auto(analyzer) {
        Some(languages::all()?)
    } else {
        None
    };
    let query = asked::read(analyzer, text, used.as_deref())?;
    let rules = if root.is_partitioned() {
        ScoreRules::of_options(options)
    } else {
        ScoreRules::of(&*cache::open(root)?)?
    };
    Ok(Ranking::neutral(rules, analyzer, query).with_used(used.as_deref()))
}

/// Returns the ranking of a query over texts, by the rules of an index that cannot be read. `each`
/// calls its argument with every text.
///
/// # Errors
/// There is no such index, or `each` fails.
pub fn over_texts(
    index: pg_sys::Oid,
    text: &[u8],
    each: impl Fn(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error>,
) -> Result<Ranking, Error> {
    let open = open_index(index)?;
    let options = Bm25Options::of(open.index())?;
    let analyzer = options.rules.analyzer()?;
    let count = |query: &Query| -> Result<Statistics, Error> {
        let mut statistics = Statistics::default();
        let mut texts = ManyTexts::new(analyzer);
        each(&mut |text| {
            statistics.count(query, &texts.terms(text)?);
            Ok(())
        })?;
        statistics.frequencies.resize(query.as_ref().count(), 0);
        Ok(statistics)
    };
    let used = if languages::is_auto(analyzer) {
        let markers = languages::markers()?;
        let found = count(&markers.clone().into())?.frequencies;
        Some(languages::used(&markers, &found)?)
    } else {
        None
    };
    let query = asked::read(analyzer, text, used.as_deref())?;
    let statistics = if query.is_empty() {
        Statistics::default()
    } else {
        count(&query)?
    };
    let rules = ScoreRules::of_options(options);
    Ok(Ranking::new(rules, analyzer, query, statistics).with_used(used.as_deref()))
}

/// Returns the ranking of a query by an index with a file.
pub fn of_index(
    index: Index<'_>,
    opened: &cache::OpenedIndex,
    text: &[u8],
    used: Option<&[pg_sys::Oid]>,
) -> Result<Ranking, Error> {
    let analyzer = opened.analyzer()?;
    let query = asked::read(analyzer, text, used)?;
    let statistics = read_statistics(index, opened, &query)?;
    Ok(Ranking::new(ScoreRules::of(opened)?, analyzer, query, statistics).with_used(used))
}

pub fn read_statistics<'q>(
    index: Index<'_>,
    opened: &cache::OpenedIndex,
    query: impl Into<QueryRef<'q>>,
) -> Result<Statistics, Error> {
    rag_bm25::statistics(&opened.pages(index), &opened.segments, query)
        .map_err(|e| index_error(*index, e))
}

/// Opens an index that a query names.
///
/// # Errors
/// It is no index of `rag_bm25`, or it is not valid.
pub fn open_index(id: pg_sys::Oid) -> Result<LockedIndex, Error> {
    let wrong = || {
        let name = relation_name(id);
        let error = Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is not a rag_bm25 index"),
        );
        // the name of a relation that does not exist is its OID
        if name == id.to_u32().to_string() {
            error.hint(
                "REINDEX CONCURRENTLY gives an index another OID. Write column <@> 'query' \
                 without an index where the query is stored.",
            )
        } else {
            error
        }
    };
    let open = table_of(id)
        .and_then(|table| LockedIndex::open(id, table))
        .filter(|open| open.index().is_of(Bm25::NAME))
        .ok_or_else(wrong)?;
    if !open.index().is_valid() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{}\" is not valid", open.index().name()),
        )
        .hint("It is being built, or its build has failed. Use REINDEX to build it again."));
    }
    Ok(open)
}

/// # Errors
/// The current role has SELECT neither on the indexed column nor on a table that the index's table
/// is a partition of.
pub fn require_privilege(index: pg_sys::Oid) -> Result<(), Error> {
    let role = roles::current();
    let Some(table) = table_of(index) else {
        return Ok(()); // it is no index, which is reported later
    };
    let may_select = lookup::may_select_column(table, lookup::indexed_column(index), role)
        || lookup::partition_ancestors(table)
            .into_iter()
            .any(|ancestor| lookup::may_select(ancestor, role));
    if may_select {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied for index \"{}\"",
        relation_name(index)
    ))
    .detail("Scores depend on how often words occur in all rows of the table.")
    .hint("Grant SELECT on the indexed column to roles that search, also through views."))
}

/// Returns true if the current role, which has the privilege to query an index, must not see all
/// of its rows.
pub fn hides_rows(index: pg_sys::Oid) -> Result<bool, Error> {
    let role = roles::current();
    let Some(table) = table_of(index) else {
        return Ok(false);
    };
    let is_of_rag =
        lookup::relation_name(table).is_some_and(|(_, schema)| extension::has_tables(schema));
    if is_of_rag {
        return Ok(!access::sees_every_row_of(table)?);
    }
    let column = lookup::indexed_column(index);
    let sees_own =
        lookup::may_select_column(table, column, role) && !lookup::has_row_security(table);
    let sees_all = sees_own
        || lookup::partition_ancestors(table)
            .into_iter()
            .any(|ancestor| {
                lookup::may_select(ancestor, role) && !lookup::has_row_security(ancestor)
            });
    Ok(!sees_all)
}
