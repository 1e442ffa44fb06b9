//! Building an index.
//!
//! 1. **Sample** a few thousand vectors, for the centre of the codes ([`super::sample`]).
//! 2. **Read** the table once. Vectors are coded in batches, on all threads. Only the codes are
//!    kept.
//! 3. **Link** the codes to a graph, on all threads ([`rag_ann::graph`]). Meanwhile this thread
//!    checks for interrupts. The others do not call PostgreSQL, and are joined before any error is
//!    raised.
//! 4. **Write** the pages in the order of the graph. No other backend has seen them yet, so they
//!    are logged all at once.
//!
//! The graph takes some hundred bytes of `maintenance_work_mem` for each vector. When that is used
//! up while the table is being read, the vectors read so far are linked and written. Each of the
//! other rows is inserted as by `INSERT`, though without a log. So the time grows gradually. A
//! NOTICE reports how much memory would have avoided it.

use std::{cell::OnceCell, ffi::CStr};

use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys, pg_sys::panic::ErrorReport};
use rag_ann::{
    code::Quantizer,
    graph::{BuildError, Graph, Parameters},
    hnsw::{self, Index as WrittenGraph, IndexParameters, Inserter},
    pool::ID_LIMIT,
};
use rag_pages::{
    ReadPages, Tid,
    memory::{append, push},
};

use super::{
    check_dimensions, check_limit, index_error, indexed_form, insert::uniform, opclass,
    opclass::Order, options::HnswOptions, sample::VectorSample,
};
use crate::{
    error::Error,
    index::{
        am::{
            BuildCounts,
            callbacks::{
                BuildInput, BuildProgress, max_build_helpers, may_be_interrupted, random_seed,
                report_progress,
            },
            relation::Index,
        },
        pages::{BufferHints, RelationPages},
    },
    pg::memory::{exit_if_thread_ran_out, maintenance_work_mem},
    types::indexed::DetoastMemory,
};

/// Phases, as `pg_stat_progress_create_index` numbers them.
const INITIALIZING: i64 = pg_sys::PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE as i64;
const SAMPLING: i64 = INITIALIZING + 1;
const READING: i64 = INITIALIZING + 2;
const LINKING: i64 = INITIALIZING + 3;
const WRITING: i64 = INITIALIZING + 4;
const INSERTING: i64 = INITIALIZING + 5;
const LOGGING: i64 = INITIALIZING + 6;

/// Returns the name of a phase in `pg_stat_progress_create_index`.
pub fn phase_name(phase: i64) -> Option<&'static CStr> {
    match phase {
        INITIALIZING => Some(c"initializing"),
        SAMPLING => Some(c"sampling vectors"),
        READING => Some(c"reading vectors"),
        LINKING => Some(c"linking vectors"),
        WRITING => Some(c"writing pages"),
        INSERTING => Some(c"inserting what does not fit into maintenance_work_mem"),
        LOGGING => Some(c"writing the write-ahead log"),
        _ => None,
    }
}

/// Maximum memory for vectors that are not coded yet.
const BATCH_BYTES: usize = 4 << 20;
/// Memory of a node beside that of the graph: its heap row while the list of these grows, and the
/// order of its page's slots while they are written.
const PLACE_BYTES: usize = 64;

pub fn build(input: &BuildInput<'_>) -> Result<BuildCounts, Error> {
    let index = input.index();
    let hints = BufferHints::default();
    let pages = RelationPages::for_build(*index, &hints);
    if pages.block_count() != 0 {
        return Err(Error::internal(format!(
            "index \"{}\" already contains data",
            index.name()
        )));
    }
    let quantizer = OnceCell::new();
    let mut builder = Builder::new(input, &pages, &quantizer);
    report_phase(SAMPLING);
    builder.sample = VectorSample::read(input, builder.order, builder.batch_bytes);
    report_phase(READING);
    let mut memory = DetoastMemory::new();
    let table_rows = input
        .each_row(|value, tid| value.with_vector(&mut memory, |vector| builder.add(vector, tid)));
    let index_rows = builder.finish()? as f64;
    report_phase(LOGGING);
    pages.log_all();
    Ok(BuildCounts {
        table_rows,
        index_rows,
    })
}

/// Builds the initial fork of an unlogged index, which has no rows.
pub fn build_empty(index: Index<'_>) -> Result<(), Error> {
    let pages = RelationPages::for_initial_fork(*index);
    create(index, &pages, &describe(index))?;
    pages.log_all();
    Ok(())
}

/// Creates an index without rows. Its dimensions are those that its column was declared with, or
/// else those of the first vector.
fn create(
    index: Index<'_>,
    pages: &RelationPages<'_>,
    description: &IndexParameters,
) -> Result<(), Error> {
    hnsw::create(pages, description);
    if let Ok(dimensions @ 1..) = usize::try_from(index.type_modifier()) {
        check_limit(dimensions)?;
        WrittenGraph::set_dimensions(pages, dimensions).map_err(|e| index_error(*index, e))?;
    }
    Ok(())
}

/// Returns what a new index is created with.
fn describe(index: Index<'_>) -> IndexParameters {
    let options = HnswOptions::of(index);
    IndexParameters {
        metric: opclass::order(index).metric(),
        m: options.m,
        ef_construction: options.ef_construction,
        seed: random_seed(),
    }
}

struct Builder<'a> {
    input: &'a BuildInput<'a>,
    pages: &'a RelationPages<'a>,
    description: IndexParameters,
    order: Order,
    /// Memory for [`indexed_form`].
    other: Vec<f32>,
    threads: usize,
    /// `maintenance_work_mem` in bytes.
    memory: usize,
    batch_bytes: usize,
    sample: VectorSample,
    /// Dimensions of the first vector, 0 until then.
    dimensions: usize,
    /// Vectors that are not coded yet.
    batch: Vec<f32>,
    quantizer: &'a OnceCell<Quantizer>,
    /// The coded vectors. `None` before the first batch, and again once they are written.
    graph: Option<Graph<'a>>,
    /// The heap row of each vector of the graph, and then of the batch.
    tids: Vec<Tid>,
    max_nodes: usize,
    /// Set once maintenance_work_mem is used up.
    written: Option<(WrittenGraph, Inserter)>,
    has_warned: bool,
    rows: u64,
}

impl<'a> Builder<'a> {
    fn new(
        input: &'a BuildInput<'a>,
        pages: &'a RelationPages<'a>,
        quantizer: &'a OnceCell<Quantizer>,
    ) -> Self {
        let memory = maintenance_work_mem();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            input,
            pages,
            description: describe(input.index()),
            order: opclass::order(input.index()),
            other: vec![],
            threads: processors.min(1 + max_build_helpers()),
            memory,
            batch_bytes: BATCH_BYTES.min(memory / 8),
            sample: VectorSample::default(),
            dimensions: 0,
            batch: vec![],
            quantizer,
            graph: None,
            tids: vec![],
            max_nodes: usize::MAX,
            written: None,
            has_warned: false,
            rows: 0,
        }
    }

    fn add(&mut self, value: &[f32], tid: Tid) -> Result<(), Error> {
        let mut other = std::mem::take(&mut self.other);
        let added = match indexed_form(self.order, value, &mut other)? {
            Some(vector) => self.add_vector(vector, tid),
            None => Ok(()),
        };
        self.other = other;
        added
    }

    fn add_vector(&mut self, vector: &[f32], tid: Tid) -> Result<(), Error> {
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
            // no other backend changes the centre of its codes, so the insert is not refused
            return inserter
                .insert(index, self.pages, vector, tid, level)
                .map(|_| ())
                .map_err(|e| index_error(*self.input.index(), e));
        }
        append(&mut self.batch, vector).map_err(|_| out_of_memory())?;
        push(&mut self.tids, tid).map_err(|_| out_of_memory())?;
        if size_of_val(self.batch.as_slice()) + size_of_val(vector) > self.batch_bytes {
            self.encode()?;
        }
        Ok(())
    }

    /// Computes how many vectors fit into memory, once their dimensions are known.
    fn begin(&mut self, dimensions: usize) {
        self.dimensions = dimensions;
        let fit = self.memory.saturating_sub(self.batch_bytes) / self.node_bytes();
        self.max_nodes = fit.clamp(1, ID_LIMIT as usize);
        let rows = self.input.table().estimated_rows();
        if rows > self.max_nodes as f64 && !self.input.is_partial() {
            self.warn(rows);
        }
    }

    /// Returns the memory that a vector takes.
    fn node_bytes(&self) -> usize {
        let code_bytes = hnsw::quantizer(&self.description, self.dimensions, vec![]).code_bytes();
        Graph::node_bytes(code_bytes, usize::from(self.description.m)) + PLACE_BYTES
    }

    /// Reports once how much memory about this number of rows would take.
    fn warn(&mut self, rows: f64) {
        if std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        let megabytes =
            (rows * self.node_bytes() as f64 + self.batch_bytes as f64) / f64::from(1 << 20);
        let message = "the graph of all vectors does not fit into maintenance_work_mem";
        let error = Error::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message)
            .detail(format!(
                "The first {} of about {rows:.0} vectors are linked in memory. The others are \
                 inserted one by one, which is slower.",
                self.max_nodes
            ))
            .hint(format!(
                "Set maintenance_work_mem to {:.0} MB.",
                (megabytes * 1.02).ceil()
            ));
        ErrorReport::from(error).report(PgLogLevel::NOTICE);
    }

    /// Codes the vectors of the batch.
    fn encode(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (description, dimensions) = (&self.description, self.dimensions);
        let quantizer = self.quantizer.get_or_init(|| {
            let centroid = self.sample.mean(description, dimensions, &self.batch);
            hnsw::quantizer(description, dimensions, centroid)
        });
        self.sample = VectorSample::default();
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

    /// Writes the rows before `next`, which have used up the memory. The others will be inserted.
    fn overflow(&mut self, next: Tid) -> Result<(), Error> {
        let blocks = self.input.table().block_count();
        let rows = self.rows as f64 * f64::from(blocks) / f64::from(next.block + 1);
        self.warn(rows);
        self.write()?;
        let index = self.input.index();
        let written = WrittenGraph::open(self.pages).map_err(|e| index_error(*index, e))?;
        self.written = Some((written, Inserter::default()));
        report_phase(INSERTING);
        Ok(())
    }

    /// Links and writes the coded vectors.
    fn write(&mut self) -> Result<(), Error> {
        self.batch = {
            self.encode()?;
            vec![]
        };
        let (Some(mut graph), Some(quantizer)) = (self.graph.take(), self.quantizer.get()) else {
            return create(self.input.index(), self.pages, &self.description);
        };
        report_phase(LINKING);
        report_progress(BuildProgress::TotalRows, graph.len() as i64);
        graph.build(self.threads, tick).map_err(failed)?;
        report_phase(WRITING);
        let (pages, nodes) = (self.pages, graph.len());
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

    /// Writes what is not yet written. Returns the number of indexed rows.
    fn finish(&mut self) -> Result<u64, Error> {
        if self.written.is_none() {
            self.write()?;
        }
        report_progress(BuildProgress::RowsDone, self.rows as i64);
        Ok(self.rows)
    }
}

/// Returns the error for threads that have stopped early.
fn failed(failure: BuildError) -> Error {
    match failure {
        BuildError::OutOfMemory => out_of_memory(),
        BuildError::Cancelled => {
            pgrx::check_for_interrupts!();
            Error::new(
                PgSqlErrorCode::ERRCODE_QUERY_CANCELED,
                "index build was interrupted",
            )
        }
    }
}

pub fn out_of_memory() -> Error {
    Error::out_of_memory("Memory ran out while the index was being built.").hint(
        "Lower maintenance_work_mem to what the server has. Rows that do not fit into it are \
         inserted one by one.",
    )
}

/// Called regularly while threads link `linked` nodes. Returns false if they must stop, because an
/// interrupt may exit.
fn tick(linked: usize) -> bool {
    report_progress(BuildProgress::RowsDone, linked as i64);
    exit_if_thread_ran_out();
    if may_be_interrupted() {
        return false;
    }
    pgrx::check_for_interrupts!();
    true
}

fn report_phase(phase: i64) {
    report_progress(BuildProgress::Phase, phase);
}
