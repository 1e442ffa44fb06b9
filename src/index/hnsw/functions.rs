//! `rag_index_check` and `rag_index_info`.

use std::ffi::CStr;

use pgrx::{
    PgSqlErrorCode, Spi,
    datum::DatumWithOid,
    iter::TableIterator,
    name, pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_ann::{
    code::Metric,
    hnsw::{self, Info, Tid},
};
use rag_pages::{PAGE_BYTES, ReadPages};

use super::{NAME, cache, damaged, name_of, opclass, options::Options, vacuum::MANY_TOMBSTONES};
use crate::{catalog::access, error::Error, pg::security::as_table_owner};

/// Problems that are reported; there are more of the same kind.
const MAX_PROBLEMS: usize = 1000;

/// An index that a function looks at, open with its table until this is dropped.
pub struct OpenIndex {
    pub index: pg_sys::Relation,
    table: pg_sys::Relation,
}

impl OpenIndex {
    /// # Errors
    /// It is no index of this access method, or the caller may not read every row of its table.
    pub fn open(id: pg_sys::Oid) -> Result<Self, Error> {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        // SAFETY: raises an ERROR where there is no such relation; the relations are closed by
        // `drop`. The table comes first, as everywhere.
        unsafe {
            let table_id = pg_sys::IndexGetRelation(id, true);
            if table_id == pg_sys::InvalidOid {
                return Err(wrong_kind(id));
            }
            if !access::sees_every_row_of(table_id)? {
                return Err(Error::permission_denied(format!(
                    "permission denied for index \"{}\"",
                    name(id)
                ))
                .detail("What is told of an index is about all rows of its table.")
                .hint("Only roles that may read every row of the table may ask."));
            }
            let table = pg_sys::relation_open(table_id, lock);
            let index = pg_sys::relation_open(id, lock);
            let open = Self { index, table };
            if (*index).rd_index.is_null() || (*(*index).rd_index).indrelid != table_id {
                return Err(wrong_kind(id)); // another took its number before it was locked
            }
            let relation = &*(*index).rd_rel;
            if relation.relkind as u8 != pg_sys::RELKIND_INDEX {
                return Err(wrong_kind(id).hint("Ask for the index of one partition."));
            }
            let method = pg_sys::get_am_name(relation.relam);
            if method.is_null() || CStr::from_ptr(method) != NAME {
                return Err(wrong_kind(id));
            }
            Ok(open)
        }
    }

    /// The vector in a statement on the table, and the condition that it is there and of the index.
    pub fn expression(&self) -> Result<(String, String), Error> {
        // SAFETY: an open index; the text is copied.
        let expression = unsafe {
            CStr::from_ptr(pg_sys::pg_get_indexdef_columns((*self.index).rd_id, false))
                .to_string_lossy()
                .into_owned()
        };
        let mut condition = format!("({expression}) IS NOT NULL");
        if let Some(predicate) = self.predicate()? {
            condition += &format!(" AND ({predicate})");
        }
        Ok((expression, condition))
    }

    /// Runs `f` with the rights of the table's owner and a search_path in which nobody can put
    /// anything. Statements are made in there, too, so that the names in them are written as they
    /// are read.
    pub fn as_owner<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: an open table.
        as_table_owner(unsafe { (*(*self.table).rd_rel).relowner }, f)
    }

    /// The operator that the index orders by, as it is written in a statement.
    pub fn operator(&self) -> Result<String, Error> {
        let statement = "
            SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname)
            FROM pg_catalog.pg_index i
            JOIN pg_catalog.pg_opclass c ON c.oid = i.indclass[0]
            JOIN pg_catalog.pg_amop a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 1
            JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr
            JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
            WHERE i.indexrelid = $1";
        // SAFETY: an open index.
        let id = unsafe { (*self.index).rd_id };
        read_one::<String>(statement, &[id.into()])?
            .ok_or_else(|| Error::internal("the operator class has no operator"))
    }

    pub fn metric(&self) -> Metric {
        // SAFETY: an open index.
        unsafe { opclass::metric(self.index) }
    }

    /// The condition of a partial index.
    fn predicate(&self) -> Result<Option<String>, Error> {
        // SAFETY: an open index.
        let id = unsafe { (*self.index).rd_id };
        let statement = "SELECT pg_catalog.pg_get_expr(indpred, indrelid) FROM pg_catalog.pg_index WHERE indexrelid = $1";
        read_one(statement, &[id.into()])
    }

    /// The table's name in a statement.
    pub fn table_name(&self) -> String {
        // SAFETY: an open table.
        let (schema, table) = unsafe { (namespace(self.table), name_of(self.table)) };
        pgrx::spi::quote_qualified_identifier(schema, table)
    }

    fn table_blocks(&self) -> u32 {
        // SAFETY: an open table.
        unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(self.table, pg_sys::ForkNumber::MAIN_FORKNUM)
        }
    }
}

impl Drop for OpenIndex {
    fn drop(&mut self) {
        // SAFETY: opened by `open`; the locks stay until the end of the transaction. In an aborted
        // one, resource owners have closed them.
        unsafe {
            if pg_sys::IsTransactionState() && !std::thread::panicking() {
                pg_sys::relation_close(self.index, pg_sys::NoLock as pg_sys::LOCKMODE);
                pg_sys::relation_close(self.table, pg_sys::NoLock as pg_sys::LOCKMODE);
            }
        }
    }
}

/// # Safety
/// An open relation.
unsafe fn namespace(relation: pg_sys::Relation) -> String {
    // SAFETY: the caller's promise; the name is copied.
    unsafe {
        let name = pg_sys::get_namespace_name((*(*relation).rd_rel).relnamespace);
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

/// The name of a relation, or its number where there is none.
fn name(id: pg_sys::Oid) -> String {
    // SAFETY: null or a C string.
    let name = unsafe { pg_sys::get_rel_name(id) };
    if name.is_null() {
        return id.to_u32().to_string();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned()
}

fn wrong_kind(id: pg_sys::Oid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!("\"{}\" is not a rag_hnsw index", name(id)),
    )
}

#[pg_extern(sql = false, strict, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_index_check(
    index: pg_sys::Oid,
) -> Result<
    TableIterator<
        'static,
        (
            name!(level, Option<i32>),
            name!(block, Option<i64>),
            name!(slot, Option<i32>),
            name!(problem, String),
        ),
    >,
    ErrorReport,
> {
    let open = OpenIndex::open(index)?;
    let problems = check(&open)?;
    Ok(TableIterator::new(problems))
}

type ProblemRow = (Option<i32>, Option<i64>, Option<i32>, String);

fn check(open: &OpenIndex) -> Result<Vec<ProblemRow>, Error> {
    // Counted first: what it sees is in the index already.
    let visible = open.as_owner(|| visible_rows(open))?;
    let mut problems: Vec<ProblemRow> = vec![];
    // SAFETY: an open index.
    let file = match unsafe { cache::open(open.index) } {
        Ok(file) => file,
        Err(error) => {
            let block = error.detail.as_deref().and_then(block_of);
            return Ok(vec![(None, block, None, error.message)]);
        }
    };
    // SAFETY: as above.
    let pages = unsafe { file.pages(open.index) };
    let table_blocks = open.table_blocks();
    let mut rows = 0_i64;
    let mut strangers: Vec<Tid> = vec![];
    let mut row = |tid: Tid| {
        rows += 1;
        // the table may have grown meanwhile
        if strangers.len() < MAX_PROBLEMS
            && (tid.offset == 0 || (tid.block >= table_blocks && tid.block >= open.table_blocks()))
        {
            strangers.push(tid);
        }
    };
    let mut report = |problem: hnsw::Problem| {
        if problems.len() < MAX_PROBLEMS {
            let slot = problem.slot.map(i32::from);
            problems.push((
                Some(problem.level as i32),
                Some(i64::from(problem.block)),
                slot,
                problem.problem,
            ));
        }
    };
    hnsw::check(&file.index, &pages, &mut row, &mut report)
        .map_err(|_| Error::out_of_memory("Memory ran out while the index was being checked."))?;
    for tid in strangers {
        let problem = format!(
            "row ({},{}) is beyond the end of the table",
            tid.block, tid.offset
        );
        problems.push((Some(0), None, None, problem));
    }
    if rows < visible {
        problems.push((
            None,
            None,
            None,
            format!("{visible} rows of the table should be indexed, but only {rows} are"),
        ));
    }
    Ok(problems)
}

/// The number in "Block 7.".
fn block_of(detail: &str) -> Option<i64> {
    detail
        .strip_prefix("Block ")?
        .strip_suffix('.')?
        .parse()
        .ok()
}

/// Rows that should be indexed, of those that the present snapshot sees.
fn visible_rows(open: &OpenIndex) -> Result<i64, Error> {
    let (expression, mut condition) = open.expression()?;
    if open.metric() == Metric::Cosine {
        // the zero vector has no distance, even to itself
        condition += &format!(
            " AND (({expression}) {} ({expression})) OPERATOR(pg_catalog.<>) 'NaN'::pg_catalog.float8",
            open.operator()?
        );
    }
    let statement = format!(
        "SELECT pg_catalog.count(*) FROM ONLY {} WHERE {condition}",
        open.table_name()
    );
    Ok(read_one(&statement, &[])?.unwrap_or(0))
}

/// The value that a statement gives; it only reads, so that it works on a standby, too.
pub fn read_one<T: pgrx::FromDatum + pgrx::IntoDatum>(
    statement: &str,
    arguments: &[DatumWithOid<'_>],
) -> Result<Option<T>, Error> {
    Ok(Spi::connect(|client| {
        client
            .select(statement, Some(1), arguments)?
            .first()
            .get_one()
    })?)
}

#[pg_extern(sql = false, strict, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_index_info(
    index: pg_sys::Oid,
) -> Result<
    TableIterator<
        'static,
        (
            name!(metric, &'static str),
            name!(dimensions, Option<i32>),
            name!(m, i32),
            name!(ef_construction, i32),
            name!(vectors, i64),
            name!(nodes, i64),
            name!(tombstones, i64),
            name!(free_slots, i64),
            name!(levels, i32),
            name!(average_degree, f64),
            name!(pages, i64),
            name!(bytes, i64),
            name!(slots_per_page, i32),
            name!(code_dimensions, i32),
            name!(hint, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let open = OpenIndex::open(index)?;
    // SAFETY: an open index.
    let (file, options) = unsafe { (cache::open(open.index)?, Options::of(open.index)) };
    // SAFETY: as above.
    let pages = unsafe { file.pages(open.index) };
    let info = hnsw::info(&file.index, &pages).map_err(|damage| damaged(open.index, damage))?;
    let description = file.index.description();
    let blocks = i64::from(pages.block_count());
    let metric = match description.metric {
        Metric::L2 => "l2",
        Metric::InnerProduct => "inner_product",
        Metric::L1 => "l1",
        Metric::Cosine => "cosine",
    };
    let made_with = Options {
        m: description.m,
        ef_construction: description.ef_construction,
    };
    Ok(TableIterator::once((
        metric,
        file.index.dimensions().map(|dimensions| dimensions as i32),
        i32::from(description.m),
        i32::from(description.ef_construction),
        info.vectors as i64,
        info.nodes as i64,
        info.tombstones as i64,
        info.free_slots as i64,
        info.levels as i32,
        info.average_degree,
        blocks,
        blocks * PAGE_BYTES as i64,
        info.slots_per_page as i32,
        info.code_dimensions as i32,
        hint(&info, file.index.dimensions(), made_with, options),
    )))
}

/// What would make answers better, if something would.
fn hint(
    info: &Info,
    dimensions: Option<usize>,
    made_with: Options,
    options: Options,
) -> Option<String> {
    let dimensions = dimensions?;
    let mut hints = vec![];
    if info.tombstones as f64 > MANY_TOMBSTONES * (info.nodes + info.tombstones) as f64 {
        hints.push("Many vectors are of deleted rows: VACUUM the table.".to_string());
    }
    if !info.centred && info.nodes > 1000 {
        hints.push(
            "The index was made before there were vectors: REINDEX makes its codes more exact."
                .to_string(),
        );
    }
    if info.code_dimensions as usize <= dimensions.saturating_sub(1) {
        hints.push(format!(
            "Codes are of {} dimensions of {dimensions}, as many as fit a page: raise rag.ef_search, or use a smaller m.",
            info.code_dimensions
        ));
    }
    if made_with != options {
        hints.push("The options were changed: REINDEX applies them.".to_string());
    }
    (!hints.is_empty()).then(|| hints.join(" "))
}
