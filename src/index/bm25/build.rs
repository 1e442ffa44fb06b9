//! Building an index: the terms of all rows go into an inverted index in memory. Whenever that has
//! used up `maintenance_work_mem`, it is written as a segment. No other backend has seen the pages,
//! so they are logged all at once.

use std::ffi::CStr;

use pgrx::pg_sys;
use rag_bm25::{Builder, Creation};
use rag_pages::ReadPages;

use super::{index_error, options::Bm25Options, tokens::ManyTexts};
use crate::{
    error::Error,
    index::{
        am::{
            BuildCounts,
            callbacks::{BuildInput, BuildProgress, random_seed, report_progress},
            relation::Index,
        },
        pages::{BufferHints, RelationPages},
    },
    pg::{memory::maintenance_work_mem, text_search::make_index_depend_on_config},
};

/// Phases, as `pg_stat_progress_create_index` numbers them.
const INITIALIZING: i64 = pg_sys::PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE as i64;
const READING: i64 = INITIALIZING + 1;
const WRITING: i64 = INITIALIZING + 2;
const LOGGING: i64 = INITIALIZING + 3;

/// Returns the name of a phase in `pg_stat_progress_create_index`.
pub fn phase_name(phase: i64) -> Option<&'static CStr> {
    match phase {
        INITIALIZING => Some(c"initializing"),
        READING => Some(c"reading texts"),
        WRITING => Some(c"writing pages"),
        LOGGING => Some(c"writing the write-ahead log"),
        _ => None,
    }
}

pub fn build(input: &BuildInput<'_>) -> Result<BuildCounts, Error> {
    let index = input.index();
    let options = Bm25Options::of(index)?;
    let analyzer = options.rules.analyzer()?;
    let analyzer = analyzer.with_positions(options.has_positions);
    make_index_depend_on_config(index.id(), analyzer.config);
    let hints = BufferHints::default();
    let pages = RelationPages::for_build(*index, &hints);
    if pages.block_count() != 0 {
        return Err(Error::internal(format!(
            "index \"{}\" already contains data",
            index.name()
        )));
    }
    let label = options.rules.config.label()?;
    let mut builder = Builder::new(&pages, &creation(&options, &label), maintenance_work_mem());
    report_phase(READING);
    let mut texts = ManyTexts::new(analyzer);
    let mut rows = 0_i64;
    let table_rows = input.each_row(|value, tid| {
        let terms = value.with_text(|text| texts.terms(text))?;
        rows += 1;
        report_progress(BuildProgress::RowsDone, rows);
        builder.add(tid, &terms).map_err(|e| index_error(*index, e))
    });
    report_phase(WRITING);
    builder.finish().map_err(|e| index_error(*index, e))?;
    report_phase(LOGGING);
    pages.log_all();
    Ok(BuildCounts {
        table_rows,
        index_rows: rows as f64,
    })
}

/// Builds the initial fork of an unlogged index, which has no rows.
pub fn build_empty(index: Index<'_>) -> Result<(), Error> {
    let options = Bm25Options::of(index)?;
    let label = options.rules.config.label()?;
    let pages = RelationPages::for_initial_fork(*index);
    rag_bm25::create(&pages, &creation(&options, &label));
    pages.log_all();
    Ok(())
}

fn creation<'a>(options: &Bm25Options, label: &'a [u8]) -> Creation<'a> {
    Creation {
        parameters: options.parameters,
        identity: random_seed(),
        label,
        variant: options.rules.variant(),
        has_positions: options.has_positions,
    }
}

fn report_phase(phase: i64) {
    report_progress(BuildProgress::Phase, phase);
}
