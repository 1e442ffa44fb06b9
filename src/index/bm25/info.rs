//! `rag_check_index`, `rag_bm25_info` and `rag_bm25_merge`.

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_bm25::Info;
use rag_pages::{Block, PAGE_BYTES, ReadPages, Tid};
use rag_words::Analysis;

use super::{Bm25, cache, index_error, options::Bm25Options};
use crate::{
    error::Error,
    index::{
        IndexProblem,
        am::{
            AccessMethod, collected,
            corruption::corrupted_block,
            open::{OpenIndex, query_value},
            relation::{LockedIndex, relation_name, table_of},
        },
    },
    pg::{process, roles, words::Analyzer},
};

/// Maximum number of problems that are reported. There may be more.
const MAX_PROBLEMS: usize = 1000;

/// A smaller index is not worth a hint that much of it is free.
const SMALL_BLOCKS: i64 = 64;

/// Verifies an index.
pub fn check(open: &OpenIndex) -> Result<Vec<IndexProblem>, Error> {
    let index = open.index();
    let of_block = |block: Option<Block>, problem: String| IndexProblem {
        level: None,
        block: block.map(i64::from),
        slot: None,
        problem,
    };
    collected::write(index.id())?;
    let opened = match cache::try_open(index) {
        Ok(opened) => opened,
        Err(e) => {
            let block = corrupted_block(&e);
            return Ok(vec![of_block(block, index_error(*index, e).message)]);
        }
    };
    // Counted first, because the rows that it sees are in the index already.
    let visible = visible_rows(open, opened.analyzer()?)?;
    let mut problems = vec![];
    let table_blocks = open.table().block_count();
    let mut rows = 0_i64;
    let mut outside: Vec<Tid> = vec![];
    let mut count_row = |tid: Tid| {
        rows += 1;
        // the table may have grown since its blocks were counted
        let is_outside = || tid.block >= table_blocks && tid.block >= open.table().block_count();
        if outside.len() < MAX_PROBLEMS && (tid.offset == 0 || is_outside()) {
            outside.push(tid);
        }
    };
    let mut report = |block: Block, problem: String| {
        if problems.len() < MAX_PROBLEMS {
            problems.push(of_block(Some(block), problem));
        }
    };
    rag_bm25::check(&opened.pages(index), &mut count_row, &mut report)
        .map_err(|e| index_error(*index, e))?;
    for Tid { block, offset } in outside {
        let problem = format!("row ({block},{offset}) is beyond the end of the table");
        problems.push(of_block(None, problem));
    }
    if rows < visible {
        let problem = format!("{visible} rows of the table should be indexed, but only {rows} are");
        problems.push(of_block(None, problem));
    }
    Ok(problems)
}

/// Returns the number of rows with a word, of those that the current snapshot sees.
fn visible_rows(open: &OpenIndex, analyzer: Analyzer) -> Result<i64, Error> {
    open.as_owner(|rights| {
        let sql = open.expressions(rights)?;
        let (table, value, condition) = (sql.table, sql.value, sql.condition);
        let statement = format!(
            "SELECT count(*) AS value FROM ONLY {table} \
             WHERE {condition} AND rag_internal.bm25_has_words($1, $2, {value})"
        );
        let args = [analyzer.config.into(), analyzer.analysis.name().into()];
        Ok(query_value(rights, &statement, &args)?.unwrap_or(0))
    })
}

/// A description of an index, the row of `rag_bm25_info`.
pub struct Bm25Info {
    pub text_config: String,
    pub analysis: Analysis,
    pub folds_accents: bool,
    pub info: Info,
    /// Blocks of the file.
    pub pages: i64,
    pub bytes: i64,
    /// What would improve the index.
    pub hint: Option<String>,
}

/// Describes an index.
///
/// # Errors
/// It is no index of `rag_bm25`.
pub fn info(open: &OpenIndex) -> Result<Bm25Info, Error> {
    let index = open.index();
    require_method(open)?;
    let opened = cache::open(index)?;
    let pages = opened.pages(index);
    let info = rag_bm25::info(&pages).map_err(|e| index_error(*index, e))?;
    let blocks = i64::from(pages.block_count());
    let rules = opened.rules()?;
    let has_other_options = !Bm25Options::of(index).is_ok_and(|options| {
        options.rules == rules
            && options.parameters == opened.description.parameters
            && options.has_positions == opened.description.has_positions
    });
    let has_other_words = rules.config.has_changed_since(&opened.description.label)?;
    Ok(Bm25Info {
        text_config: rules.config.to_string(),
        analysis: rules.analysis,
        folds_accents: rules.folds_accents,
        hint: hint(&info, blocks, has_other_options, has_other_words),
        info,
        pages: blocks,
        bytes: blocks * PAGE_BYTES as i64,
    })
}

/// Returns what would improve an index whose file has so many blocks.
fn hint(
    info: &Info,
    blocks: i64,
    has_other_options: bool,
    has_other_words: bool,
) -> Option<String> {
    let mut hints = vec![];
    if has_other_options {
        hints.push("The options were changed: REINDEX applies them.");
    }
    if has_other_words {
        hints.push(
            "The text search configuration was altered after the index was filled: REINDEX makes \
             the words of its texts again.",
        );
    }
    if info.dead * 5 > info.documents + info.dead {
        hints.push("Many documents belong to deleted rows: VACUUM the table.");
    }
    if blocks >= SMALL_BLOCKS && info.free_blocks * 2 > blocks as u64 {
        hints.push(
            "More than half of the index is free: inserts use it, and REINDEX INDEX CONCURRENTLY \
             gives it back.",
        );
    }
    (!hints.is_empty()).then(|| hints.join(" "))
}

/// # Errors
/// The index is one of another access method.
pub fn require_method(open: &OpenIndex) -> Result<(), Error> {
    if open.method.name == Bm25::NAME {
        return Ok(());
    }
    Err(wrong_kind(&open.index().name()))
}

/// Merges all segments and pending documents of an index into one segment.
///
/// # Errors
/// The caller does not own the table.
pub fn merge(id: pg_sys::Oid) -> Result<(), Error> {
    process::prevent_in_recovery(c"rag_bm25_merge()");
    let name = relation_name(id);
    let wrong = || wrong_kind(&name);
    let table = table_of(id).ok_or_else(wrong)?;
    let lock = pg_sys::RowExclusiveLock;
    let open = LockedIndex::open_for(id, table, lock).ok_or_else(wrong)?;
    let index = open.index();
    if !roles::may_act_for(roles::current(), open.table().owner()) {
        return Err(Error::permission_denied(format!(
            "must be owner of the table of index \"{name}\""
        ))
        .hint("VACUUM of the table merges segments as well, though not all into one."));
    }
    if index.is_partitioned() || !index.is_of(Bm25::NAME) {
        return Err(wrong());
    }
    let opened = cache::open(index)?;
    rag_bm25::merge_all(&opened.pages(index)).map_err(|e| index_error(*index, e))
}

fn wrong_kind(name: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!("\"{name}\" is not a rag_bm25 index"),
    )
    .hint("Name the index of one partition if it is partitioned.")
}
