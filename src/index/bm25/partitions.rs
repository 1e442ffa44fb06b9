//! The ranking of a query of several indexes: their statistics together. They are those of the
//! partitions of a table, or of tables that are searched together.

use std::rc::Rc;

use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys, pg_sys::panic::ErrorReport};
use rag_bm25::Statistics;

use super::{
    asked, cache, languages,
    options::Bm25Options,
    ranking::{
        Purpose, Ranking, ScoreRules, of_index, open_index, read_statistics, require_privilege,
    },
    remembered::remember_for,
};
use crate::{
    error::Error,
    index::am::relation::{Index, leaf_indexes, relation_name},
};

/// Returns the ranking of a query by the index of a partitioned table, with the statistics of all
/// partitions whose indexes have the same rules.
///
/// If they differ, the rules are those of the options, or of the first index if none has these. A
/// WARNING tells which indexes are left out. Their rows are found without an index.
pub fn ranking_of(root: Index<'_>, text: &[u8]) -> Result<Ranking, Error> {
    let leaves = leaf_indexes(root.id());
    let mut rules = vec![];
    for leaf in &leaves {
        let leaf = open_index(*leaf)?;
        rules.push(ScoreRules::of(&*cache::open(leaf.index())?)?);
    }
    let Some(first) = rules.first() else {
        return without_partitions(root, text);
    };
    let mut chosen = first.clone();
    if rules.iter().any(|rules| *rules != chosen) {
        let options = Bm25Options::of(root)?;
        let wanted = ScoreRules::of_options(options);
        if rules.contains(&wanted) {
            chosen = wanted;
        }
    }
    let is_used = |(leaf, rules): (&pg_sys::Oid, &ScoreRules)| {
        if *rules != chosen {
            warn_of_partition(root, *leaf);
        }
        (*rules == chosen).then_some(*leaf)
    };
    let leaves: Vec<_> = leaves.iter().zip(&rules).filter_map(is_used).collect();
    sum_of(&leaves, text)?.map_or_else(|| without_partitions(root, text), Ok)
}

/// Gives a query the same statistics in several indexes, those of all that have the same rules. It
/// has them until the statement ends.
///
/// # Errors
/// An index cannot be read, or the current role may not query it.
pub fn rank_together(indexes: &[pg_sys::Oid], text: &[u8]) -> Result<(), Error> {
    for group in groups(indexes)?.iter().filter(|group| group.len() > 1) {
        if let Some(ranking) = sum_of(group, text)? {
            remember_for(Purpose::Search, group, text, Rc::new(ranking));
        }
    }
    Ok(())
}

/// Returns indexes in groups that have the same rules.
///
/// # Errors
/// An index cannot be read, or the current role may not query it.
pub fn groups(indexes: &[pg_sys::Oid]) -> Result<Vec<Vec<pg_sys::Oid>>, Error> {
    let mut groups: Vec<(ScoreRules, Vec<pg_sys::Oid>)> = vec![];
    for index in indexes {
        require_privilege(*index)?;
        let open = open_index(*index)?;
        let rules = ScoreRules::of(&*cache::open(open.index())?)?;
        match groups.iter_mut().find(|(known, _)| *known == rules) {
            Some((_, group)) => group.push(*index),
            None => groups.push((rules, vec![*index])),
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Returns the ranking of a query by the statistics of indexes that have the same rules, or `None`
/// without an index.
fn sum_of(indexes: &[pg_sys::Oid], text: &[u8]) -> Result<Option<Ranking>, Error> {
    let used = used_configs(indexes)?;
    let mut sum: Option<Ranking> = None;
    for index in indexes {
        let leaf = open_index(*index)?;
        let opened = cache::open(leaf.index())?;
        sum = Some(match sum {
            None => of_index(leaf.index(), &opened, text, used.as_deref())?,
            Some(sum) => {
                let mut statistics = sum.statistics;
                statistics.add(&read_statistics(leaf.index(), &opened, &sum.query)?);
                Ranking::new(sum.rules, sum.analyzer, sum.query, statistics)
                    .with_used(used.as_deref())
            }
        });
    }
    Ok(sum)
}

/// Returns the configurations that the texts of indexes have, or None if all texts have that of
/// the index.
pub fn used_configs(indexes: &[pg_sys::Oid]) -> Result<Option<Vec<pg_sys::Oid>>, Error> {
    let mut sum = Statistics::default();
    let mut markers = None;
    for index in indexes {
        let open = open_index(*index)?;
        let opened = cache::open(open.index())?;
        if !languages::is_auto(opened.analyzer()?) {
            return Ok(None);
        }
        let terms = match &markers {
            Some(terms) => terms,
            None => markers.insert(languages::markers()?),
        };
        let statistics = read_statistics(open.index(), &opened, terms)?;
        if sum.frequencies.is_empty() {
            sum = statistics
        } else {
            sum.add(&statistics)
        }
    }
    markers
        .map(|markers| languages::used(&markers, &sum.frequencies))
        .transpose()
}

/// Returns the ranking of a query by the index of a table without partitions.
fn without_partitions(index: Index<'_>, text: &[u8]) -> Result<Ranking, Error> {
    let options = Bm25Options::of(index)?;
    let analyzer = options.rules.analyzer()?;
    let query = asked::read(analyzer, text, None)?;
    let statistics = Statistics {
        frequencies: vec![0; query.as_ref().count()],
        ..Statistics::default()
    };
    let rules = ScoreRules::of_options(options);
    Ok(Ranking::new(rules, analyzer, query, statistics))
}

fn warn_of_partition(root: Index<'_>, leaf: pg_sys::Oid) {
    let code = PgSqlErrorCode::ERRCODE_WARNING;
    let warning = Error::new(
        code,
        format!(
            "index \"{}\" is not used, because it has other options than \"{}\"",
            relation_name(leaf),
            root.name()
        ),
    )
    .detail(
        "It was built with another text_config, analysis, accents, k1 or b. Its partition is \
         searched without it, and does not count in the statistics of words.",
    )
    .hint("Set the same options with ALTER INDEX, and REINDEX the indexes that differ.");
    ErrorReport::from(warning).report(PgLogLevel::WARNING);
}
