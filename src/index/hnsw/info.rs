//! `rag_check_index` and `rag_hnsw_info` for an index of `rag_hnsw`.

use rag_ann::hnsw::{self, IndexProblem as Problem, Info, RowPlaces};
use rag_pages::{PAGE_BYTES, ReadPages, Tid, memory::OutOfMemory};

use super::{
    cache, index_error,
    opclass::{self, Order},
    options::HnswOptions,
    vacuum::MAX_TOMBSTONES,
};
use crate::{
    error::Error,
    index::{
        IndexInfo, IndexProblem,
        am::{
            collected,
            corruption::corrupted_block,
            open::{OpenIndex, query_value},
            relation::Index,
        },
    },
    pg::memory::maintenance_work_mem,
};

/// Maximum number of problems that are reported. There may be more.
const MAX_PROBLEMS: usize = 1000;

/// Number of nodes from which on it matters that an index was created without vectors.
const MANY_NODES: u64 = 1000;

/// Verifies an index.
pub fn check(open: &OpenIndex) -> Result<Vec<IndexProblem>, Error> {
    let index = open.index();
    collected::write(index.id())?;
    // Counted first, because the rows that it sees are in the index already.
    let visible = visible_rows(open)?;
    let opened = match cache::try_open(index) {
        Ok(opened) => opened,
        Err(e) => {
            return Ok(vec![IndexProblem {
                level: None,
                block: corrupted_block(&e).map(i64::from),
                slot: None,
                problem: index_error(*index, e).message,
            }]);
        }
    };
    let mut problems: Vec<IndexProblem> = vec![];
    let table_blocks = open.table().block_count();
    let mut rows = 0_i64;
    let mut outside: Vec<Tid> = vec![];
    let (mut places, mut is_refused) = (RowPlaces::new(maintenance_work_mem()), false);
    let mut count_row = |tid: Tid| {
        rows += 1;
        is_refused |= places.add(tid).is_err();
        // the table may have grown since its blocks were counted
        let is_outside = || tid.block >= table_blocks && tid.block >= open.table().block_count();
        if outside.len() < MAX_PROBLEMS && (tid.offset == 0 || is_outside()) {
            outside.push(tid);
        }
    };
    let mut report = |problem: Problem| {
        if problems.len() < MAX_PROBLEMS {
            problems.push(IndexProblem {
                level: Some(problem.level as i32),
                block: Some(i64::from(problem.block)),
                slot: problem.slot.map(i32::from),
                problem: problem.problem,
            });
        }
    };
    hnsw::check(
        &opened.graph,
        &opened.pages(index),
        &mut count_row,
        &mut report,
    )
    .map_err(out_of_memory)?;
    if is_refused {
        return Err(out_of_memory(OutOfMemory));
    }
    let mut doubled = places.doubled(MAX_PROBLEMS);
    if !doubled.is_empty() {
        doubled = confirmed(&opened, index, &doubled)?;
    }
    let of_rows = |level: Option<i32>, problem: String| IndexProblem {
        level,
        block: None,
        slot: None,
        problem,
    };
    for Tid { block, offset } in outside {
        let problem = format!("row ({block},{offset}) is beyond the end of the table");
        problems.push(of_rows(Some(0), problem));
    }
    for Tid { block, offset } in doubled {
        let problem = format!("row ({block},{offset}) is indexed twice");
        problems.push(of_rows(Some(0), problem));
    }
    if rows < visible {
        let problem = format!("{visible} rows of the table should be indexed, but only {rows} are");
        problems.push(of_rows(None, problem));
    }
    Ok(problems)
}

/// Returns the first rows that are indexed more than once, in order, of those that are suspected.
fn confirmed(
    opened: &cache::OpenedGraph,
    index: Index<'_>,
    suspected: &[Tid],
) -> Result<Vec<Tid>, Error> {
    // a place that was given to another row meanwhile is not read twice again
    let (mut again, mut is_refused) = (RowPlaces::new(maintenance_work_mem()), false);
    let mut add_suspected = |tid: Tid| {
        if suspected.binary_search(&tid).is_ok() {
            is_refused |= again.add(tid).is_err();
        }
    };
    let pages = opened.pages(index);
    hnsw::check(&opened.graph, &pages, &mut add_suspected, &mut |_| {}).map_err(out_of_memory)?;
    if is_refused {
        return Err(out_of_memory(OutOfMemory));
    }
    Ok(again.doubled(MAX_PROBLEMS))
}

fn out_of_memory(_: OutOfMemory) -> Error {
    Error::out_of_memory("Memory ran out while the index was being checked.")
}

/// Returns the number of rows that should be indexed, of those that the current snapshot sees.
fn visible_rows(open: &OpenIndex) -> Result<i64, Error> {
    open.as_owner(|rights| {
        let sql = open.expressions(rights)?;
        let mut condition = sql.condition;
        if opclass::order(open.index()) == Order::Cosine {
            // the zero vector has no distance, even to itself
            condition += &format!(
                " AND (({value}) {operator} ({value})) <> 'NaN'::float8",
                value = sql.value,
                operator = sql.operator,
            );
        }
        let table = sql.table;
        let statement = format!("SELECT count(*) AS value FROM ONLY {table} WHERE {condition}");
        Ok(query_value(rights, &statement, &[])?.unwrap_or(0))
    })
}

/// Describes an index.
pub fn info(open: &OpenIndex) -> Result<IndexInfo, Error> {
    let index = open.index();
    let opened = cache::open(index)?;
    let pages = opened.pages(index);
    let info = hnsw::info(&opened.graph, &pages).map_err(|e| index_error(*index, e))?;
    let description = opened.graph.description();
    let dimensions = opened.graph.dimensions();
    let blocks = i64::from(pages.block_count());
    let created_with = HnswOptions {
        m: description.m,
        ef_construction: description.ef_construction,
    };
    let has_other_options = created_with != HnswOptions::of(index);
    Ok(IndexInfo {
        metric: opclass::order(index).name(),
        dimensions: dimensions.map(|dimensions| dimensions as i32),
        m: i32::from(description.m),
        ef_construction: i32::from(description.ef_construction),
        vectors: info.vectors as i64,
        nodes: info.nodes as i64,
        tombstones: info.tombstones as i64,
        free_slots: info.free_slots as i64,
        levels: info.levels as i32,
        average_degree: info.average_degree,
        pages: blocks,
        bytes: blocks * PAGE_BYTES as i64,
        slots_per_page: info.slots_per_page as i32,
        code_dimensions: info.code_dimensions as i32,
        hint: dimensions.and_then(|dimensions| hint(&info, dimensions, has_other_options)),
    })
}

/// Returns what would improve the answers of an index.
fn hint(info: &Info, dimensions: usize, has_other_options: bool) -> Option<String> {
    let mut hints = vec![];
    if info.tombstones as f64 > MAX_TOMBSTONES * (info.nodes + info.tombstones) as f64 {
        hints.push("Many vectors belong to deleted rows: VACUUM the table.".to_string());
    }
    if !info.centred && info.nodes > MANY_NODES {
        hints.push(
            "The index was created before there were vectors: REINDEX makes its codes more exact."
                .to_string(),
        );
    }
    if info.code_dimensions as usize <= dimensions.saturating_sub(1) {
        hints.push(format!(
            "Codes have {} of {dimensions} dimensions, the maximum that fits a page: raise \
             rag.ef_search, or use a smaller m.",
            info.code_dimensions
        ));
    }
    if has_other_options {
        hints.push("The options were changed: REINDEX applies them.".to_string());
    }
    (!hints.is_empty()).then(|| hints.join(" "))
}
