//! Building an index.
//!
//! 1. **Sample**: a few thousand vectors, for the centre of the codes ([`super::sample`]).
//! 2. **Read** the table once. Vectors are coded in batches, on all threads, and only the codes are
//!    kept.
//! 3. **Link** the codes to a graph, on all threads ([`rag_ann::graph`]). This thread looks after
//!    interrupts meanwhile: the others know nothing of Postgres and are joined before any error is
//!    raised.
//! 4. **Write** the pages in the graph's order, and then, as nobody has seen them yet, log them all
//!    at once.
//!
//! The graph takes some hundred bytes a vector of `maintenance_work_mem`. When that is used up
//! while the table is being read, what has been read is linked and written, and each of the other
//! rows is inserted as `INSERT` would, though without a log. So the time grows without a jump, and
//! a NOTICE says how much memory would have spared it.

use std::{cell::OnceCell, ffi::c_void};

use pgrx::{PgLogLevel, PgSqlErrorCode, pg_guard, pg_sys, pg_sys::panic::ErrorReport};
use rag_ann::{
    code::Quantizer,
    graph::{Failure, Graph, Parameters},
    hnsw::{self, Description, Index, Inserter, Tid},
    memory::{append, push},
    pool::ID_LIMIT,
};
use rag_pages::ReadPages;

use super::{
    check_dimensions, damaged, insert::uniform, is_indexable, opclass, options::Options, random,
    rows::RowMemory, sample::Sample, tid_of,
};
use crate::{
    error::Error,
    index::pages::{Hints, RelationPages},
    pg::memory::check_threads,
};

/// Phases, as `pg_stat_progress_create_index` numbers them.
pub const INITIALIZING: i64 = pg_sys::PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE as i64;
pub const SAMPLING: i64 = INITIALIZING + 1;
pub const READING: i64 = INITIALIZING + 2;
pub const LINKING: i64 = INITIALIZING + 3;
pub const WRITING: i64 = INITIALIZING + 4;
pub const INSERTING: i64 = INITIALIZING + 5;
pub const LOGGING: i64 = INITIALIZING + 6;

/// Most memory for vectors that wait to be coded.
const BATCH_BYTES: usize = 4 << 20;
/// What a node takes beside what the graph says: its heap row while the list of these grows, and
/// the order of its page's slots while they are written.
const PLACE_BYTES: usize = 64;

/// `ambuild`
#[pg_guard]
pub unsafe extern "C-unwind" fn build(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    // SAFETY: Postgres's promises: table and index are open and locked, and nobody else sees the
    // index.
    unsafe {
        let hints = Hints::default();
        let pages = RelationPages::of_build(index, pg_sys::ForkNumber::MAIN_FORKNUM, Some(&hints));
        if pages.block_count() != 0 {
            Error::internal(format!(
                "index \"{}\" already contains data",
                super::name_of(index)
            ))
            .raise();
        }
        let quantizer = OnceCell::new();
        let mut build = Build::new(
            Target {
                table,
                index,
                info,
                pages: &pages,
            },
            &quantizer,
        );
        report(SAMPLING);
        build.sample = Sample::take(
            table,
            index,
            info,
            build.description.metric,
            build.batch_bytes,
        );
        report(READING);
        let heap_tuples = pg_sys::table_index_build_scan(
            table,
            index,
            info,
            false, // from the start, so that the place in the table tells how far it is
            true,
            Some(add_row),
            (&raw mut build).cast(),
            std::ptr::null_mut(),
        );
        let index_tuples = build.finish().unwrap_or_else(|error| error.raise());
        report(LOGGING);
        pages.log_all();
        let result: *mut pg_sys::IndexBuildResult =
            pg_sys::palloc0(size_of::<pg_sys::IndexBuildResult>()).cast();
        (*result).heap_tuples = heap_tuples;
        (*result).index_tuples = index_tuples as f64;
        result
    }
}

/// `ambuildempty`: what an unlogged index begins with after a crash.
#[pg_guard]
pub unsafe extern "C-unwind" fn build_empty(index: pg_sys::Relation) {
    // SAFETY: Postgres's promise: an open index of this access method.
    unsafe {
        let pages = RelationPages::of_build(index, pg_sys::ForkNumber::INIT_FORKNUM, None);
        create(index, &pages, &describe(index)).unwrap_or_else(|error| error.raise());
        pages.log_all();
    }
}

/// Makes an index without rows. Its dimensions are those that its column was declared with, or else
/// those of the first vector to come.
///
/// # Safety
/// An open index of this access method.
unsafe fn create(
    index: pg_sys::Relation,
    pages: &RelationPages<'_>,
    description: &Description,
) -> Result<(), Error> {
    hnsw::create(pages, description);
    let (mut kind, mut declared, mut collation) = (pg_sys::InvalidOid, -1, pg_sys::InvalidOid);
    // SAFETY: the caller's promise.
    unsafe {
        pg_sys::get_atttypetypmodcoll((*index).rd_id, 1, &mut kind, &mut declared, &mut collation)
    };
    if let Ok(dimensions @ 1..) = usize::try_from(declared) {
        Index::set_dimensions(pages, dimensions).map_err(|damage| damaged(index, damage))?;
    }
    Ok(())
}

/// What a new index is made with.
///
/// # Safety
/// An open index of this access method.
unsafe fn describe(index: pg_sys::Relation) -> Description {
    // SAFETY: the caller's promise.
    let (options, metric) = unsafe { (Options::of(index), opclass::metric(index)) };
    Description {
        metric,
        m: options.m,
        ef_construction: options.ef_construction,
        seed: random(),
    }
}

/// What is built of what.
struct Target<'a> {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    pages: &'a RelationPages<'a>,
}

struct Build<'a> {
    target: Target<'a>,
    description: Description,
    threads: usize,
    /// Of maintenance_work_mem, in bytes.
    memory: usize,
    batch_bytes: usize,
    sample: Sample,
    /// Of the first vector; 0 until then.
    dimensions: usize,
    /// Vectors that are not coded yet.
    batch: Vec<f32>,
    quantizer: &'a OnceCell<Quantizer>,
    /// What is coded; `None` before the first batch, and again once it is written.
    graph: Option<Graph<'a>>,
    /// The heap row of each vector of the graph, and then of the batch.
    tids: Vec<Tid>,
    max_nodes: usize,
    /// Once maintenance_work_mem is used up.
    written: Option<(Index, Inserter)>,
    warned: bool,
    rows: u64,
    row_memory: RowMemory,
}

impl<'a> Build<'a> {
    /// # Safety
    /// As for `ambuild`.
    unsafe fn new(target: Target<'a>, quantizer: &'a OnceCell<Quantizer>) -> Self {
        // SAFETY: the caller's promise, and plain variables.
        let (description, memory, workers) = unsafe {
            (
                describe(target.index),
                pg_sys::maintenance_work_mem,
                pg_sys::max_parallel_maintenance_workers,
            )
        };
        let memory = memory as usize * 1024;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            target,
            description,
            threads: processors.min(1 + workers as usize),
            memory,
            batch_bytes: BATCH_BYTES.min(memory / 8),
            sample: Sample::default(),
            dimensions: 0,
            batch: vec![],
            quantizer,
            graph: None,
            tids: vec![],
            max_nodes: usize::MAX,
            written: None,
            warned: false,
            rows: 0,
            row_memory: RowMemory::new(),
        }
    }

    fn add(&mut self, vector: &[f32], tid: Tid) -> Result<(), Error> {
        if !is_indexable(self.description.metric, vector) {
            return Ok(());
        }
        if self.dimensions == 0 {
            self.begin(vector.len());
        }
        check_dimensions(self.dimensions, vector.len())?;
        self.rows += 1;
        if self.written.is_none() && self.tids.len() == self.max_nodes {
            self.overflow(tid)?;
        }
        if let Some((index, inserter)) = &mut self.written {
            let level = hnsw::random_level(self.description.m, uniform());
            // nobody else changes what its codes mean
            return inserter
                .insert(index, self.target.pages, vector, tid, level)
                .map(|_| ())
                .map_err(|damage| damaged(self.target.index, damage));
        }
        append(&mut self.batch, vector).map_err(|_| out_of_memory())?;
        push(&mut self.tids, tid).map_err(|_| out_of_memory())?;
        if size_of_val(self.batch.as_slice()) + size_of_val(vector) > self.batch_bytes {
            self.encode()?;
        }
        Ok(())
    }

    /// Now that the dimensions are known: how many vectors fit into memory.
    fn begin(&mut self, dimensions: usize) {
        self.dimensions = dimensions;
        let fit = self.memory.saturating_sub(self.batch_bytes) / self.node_bytes();
        self.max_nodes = fit.clamp(1, ID_LIMIT as usize);
        // SAFETY: the open table, and what Postgres says of the index.
        let (rows, is_partial) = unsafe {
            (
                f64::from((*(*self.target.table).rd_rel).reltuples),
                !(*self.target.info).ii_Predicate.is_null(),
            )
        };
        if rows > self.max_nodes as f64 && !is_partial {
            self.warn(rows);
        }
    }

    /// Memory that a vector takes.
    fn node_bytes(&self) -> usize {
        let code_bytes = hnsw::quantizer(&self.description, self.dimensions, vec![]).code_bytes();
        Graph::node_bytes(code_bytes, usize::from(self.description.m)) + PLACE_BYTES
    }

    /// Says, once, how much memory about so many `rows` would take.
    fn warn(&mut self, rows: f64) {
        if std::mem::replace(&mut self.warned, true) {
            return;
        }
        let megabytes =
            (rows * self.node_bytes() as f64 + self.batch_bytes as f64) / f64::from(1 << 20);
        let message = "the graph of all vectors does not fit into maintenance_work_mem";
        let error = Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message)
            .detail(format!(
                "The first {} of about {rows:.0} are linked in memory; the others are inserted one by one, which is slower.",
                self.max_nodes
            ))
            .hint(format!("Set maintenance_work_mem to {:.0} MB.", (megabytes * 1.02).ceil()));
        ErrorReport::from(error).report(PgLogLevel::NOTICE);
    }

    /// Codes the batch.
    fn encode(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (description, dimensions) = (&self.description, self.dimensions);
        let quantizer = self.quantizer.get_or_init(|| {
            let centroid = self.sample.mean(description, dimensions, &self.batch);
            hnsw::quantizer(description, dimensions, centroid)
        });
        self.sample = Sample::default();
        let parameters = Parameters {
            m: usize::from(description.m),
            ef_construction: usize::from(description.ef_construction),
            seed: description.seed,
        };
        let graph = self
            .graph
            .get_or_insert_with(|| Graph::new(quantizer, parameters, self.max_nodes));
        graph
            .encode(&self.batch, self.threads)
            .map_err(|_| out_of_memory())?;
        self.batch.clear();
        Ok(())
    }

    /// Memory is used up by what came before `next`: writes that, to insert the others.
    fn overflow(&mut self, next: Tid) -> Result<(), Error> {
        // SAFETY: an open table.
        let blocks = unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(
                self.target.table,
                pg_sys::ForkNumber::MAIN_FORKNUM,
            )
        };
        let rows = self.rows as f64 * f64::from(blocks) / f64::from(next.block + 1);
        self.warn(rows);
        self.write()?;
        let index =
            Index::open(self.target.pages).map_err(|damage| damaged(self.target.index, damage))?;
        self.written = Some((index, Inserter::default()));
        report(INSERTING);
        Ok(())
    }

    /// Links and writes what is coded.
    fn write(&mut self) -> Result<(), Error> {
        self.batch = {
            self.encode()?;
            vec![]
        };
        let (Some(mut graph), Some(quantizer)) = (self.graph.take(), self.quantizer.get()) else {
            // SAFETY: the open index.
            return unsafe { create(self.target.index, self.target.pages, &self.description) };
        };
        report(LINKING);
        report_count(pg_sys::PROGRESS_CREATEIDX_TUPLES_TOTAL, graph.len());
        graph.build(self.threads, tick).map_err(failed)?;
        report(WRITING);
        let (pages, nodes) = (self.target.pages, graph.len());
        hnsw::place(
            pages,
            &self.description,
            quantizer,
            &graph,
            &self.tids,
            self.threads,
            &mut || tick(nodes),
        )
        .map_err(failed)?;
        self.tids = vec![];
        Ok(())
    }

    /// Writes what is not yet written; returns how many rows are indexed.
    fn finish(&mut self) -> Result<u64, Error> {
        if self.written.is_none() {
            self.write()?;
        }
        report_count(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, self.rows as usize);
        Ok(self.rows)
    }
}

/// Called for each row of the table.
#[pg_guard]
unsafe extern "C-unwind" fn add_row(
    _index: pg_sys::Relation,
    row: pg_sys::ItemPointer,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    _is_alive: bool,
    state: *mut c_void,
) {
    // SAFETY: `build`'s own state, and the only column of the index.
    unsafe {
        if *nulls {
            return;
        }
        let build = &mut *state.cast::<Build<'_>>();
        let memory = build.row_memory;
        if let Err(error) = memory.with_vector(*values, |vector| build.add(vector, tid_of(&*row))) {
            error.raise();
        }
    }
}

/// Why threads have ended.
fn failed(failure: Failure) -> Error {
    match failure {
        Failure::OutOfMemory => out_of_memory(),
        Failure::Cancelled => {
            pgrx::check_for_interrupts!();
            Error::new(
                PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
                "the build was interrupted",
            )
        }
    }
}

pub fn out_of_memory() -> Error {
    Error::out_of_memory("Memory ran out while the index was being built.")
        .hint("Lower maintenance_work_mem to what the server has: what does not fit into it is inserted one by one.")
}

/// Looks after what Postgres wants of this backend while threads link nodes; false: they must stop,
/// for it may exit.
fn tick(linked: usize) -> bool {
    report_count(pg_sys::PROGRESS_CREATEIDX_TUPLES_DONE, linked);
    check_threads();
    // SAFETY: variables that signal handlers set.
    let leaves = unsafe {
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        let timed_out = pg_sys::TransactionTimeoutPending != 0;
        #[cfg(not(any(feature = "pg17", feature = "pg18")))]
        let timed_out = false;
        pg_sys::ProcDiePending != 0
            || pg_sys::QueryCancelPending != 0
            || pg_sys::ClientConnectionLost != 0
            || timed_out
    };
    if leaves {
        return false;
    }
    pgrx::check_for_interrupts!();
    true
}

fn report(phase: i64) {
    // SAFETY: writes into this backend's own slot.
    unsafe {
        pg_sys::pgstat_progress_update_param(pg_sys::PROGRESS_CREATEIDX_SUBPHASE as i32, phase)
    };
}

fn report_count(counter: u32, count: usize) {
    // SAFETY: as above.
    unsafe { pg_sys::pgstat_progress_update_param(counter as i32, count as i64) };
}
