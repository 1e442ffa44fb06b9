//! Metrics: what `rag.metrics` (`sql/metrics.sql`) needs of the server, and their text.

use std::fs;

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_metrics::{Format, Sample, Scope, families};
use serde_json::{Map, Value};

use crate::{
    catalog::{access, metrics},
    cluster::{shared, slots},
    collection::status,
    pg::{lookup, process, roles, spi::as_caller},
    settings,
    workers::metric_files,
};

/// Returns content, size and state of the collections that the caller may read or monitor.
#[pg_extern(sql = false, stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn monitored_collection_status() -> Result<
    TableIterator<
        'static,
        (
            name!(name, String),
            name!(document_count, i64),
            name!(error_count, i64),
            name!(chunk_count, i64),
            name!(total_size_bytes, i64),
            name!(text_bytes, i64),
            name!(chunk_bytes, i64),
            name!(embedding_bytes, i64),
            name!(index_bytes, i64),
            name!(state, String),
            name!(detail, Option<String>),
            name!(vector_index_bytes, i64),
            name!(keyword_index_bytes, i64),
        ),
    >,
    ErrorReport,
> {
    let all = status::of_all_monitored()?;
    let names = all.iter().map(|status| status.name.clone()).collect();
    let readable = access::readable_among(roles::current(), names)?;
    let rows = all.into_iter().map(move |status| {
        let detail = status.detail().filter(|_| readable.contains(&status.name));
        let (state, total) = (status.state().to_owned(), status.total_bytes());
        let (chunks, embeddings) = (status.chunk_bytes(), status.embedding_bytes());
        (
            status.name,
            status.counts.documents,
            status.counts.errors,
            status.counts.chunks,
            total,
            status.counts.text_bytes,
            chunks,
            embeddings,
            status.figures.index_bytes,
            state,
            detail,
            status.figures.vector_index_bytes,
            status.figures.keyword_index_bytes,
        )
    });
    Ok(TableIterator::new(rows))
}

/// Returns what is known of slots and engine. There is nothing without the shared memory.
#[pg_extern(sql = false, volatile)]
fn server_metrics() -> TableIterator<'static, (name!(name, String), name!(value, f64))> {
    let may_see = roles::is_admin() || roles::is_monitor(roles::current());
    let mut rows = vec![];
    if let Some(engine) = shared::engine().filter(|_| may_see) {
        let memory = engine.pid.and_then(resident_memory);
        rows.push(("rag_run_slots", f64::from(settings::max_running_syncs())));
        rows.push(("rag_run_slots_used", slots::number_taken() as f64));
        rows.push(("rag_engine_up", f64::from(u8::from(memory.is_some()))));
        rows.push(("rag_engine_starts_total", engine.starts as f64));
        rows.extend(memory.map(|bytes| ("rag_engine_resident_memory_bytes", bytes as f64)));
    }
    TableIterator::new(
        rows.into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    )
}

/// Returns the resident memory of a process in bytes, or None if it has ended.
fn resident_memory(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Members of `pg_monitor` get the metrics of all databases, others those that they can read in the
/// current one.
#[pg_extern(volatile)]
fn rag_metrics_text(openmetrics: pgrx::default!(bool, true)) -> Result<String, ErrorReport> {
    let own = metrics_of(&as_caller(metrics::rows)?);
    let mut samples = labelled(own, process::database().to_u32(), true);
    if roles::is_monitor(roles::current()) {
        for database in shared::want_metrics() {
            if let Some(rows) = metric_files::read(database) {
                samples.extend(labelled(metrics_of(&rows), database, false));
            }
        }
    }
    let format = if openmetrics {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    };
    let text = rag_metrics::text(families::ALL, &samples, format);
    Ok(text + rag_metrics::end(format))
}

/// Returns the rows of `rag.metrics`.
fn metrics_of(rows: &str) -> Vec<(String, Map<String, Value>, f64)> {
    let rows: Vec<Value> = serde_json::from_str(rows).unwrap_or_default();
    let rows = rows.into_iter().filter_map(|mut row| {
        let labels = match row["labels"].take() {
            Value::Object(labels) => labels,
            _ => Map::new(),
        };
        Some((
            row["name"].as_str()?.to_owned(),
            labels,
            row["value"].as_f64()?,
        ))
    });
    rows.collect()
}

/// Names the database of the metrics that are of a database. Those of the server are left out
/// unless `with_server`.
fn labelled(
    rows: Vec<(String, Map<String, Value>, f64)>,
    database: u32,
    with_server: bool,
) -> Vec<Sample> {
    // a database that was dropped meanwhile
    let Some(database) = lookup::database_name(database.into()) else {
        return vec![];
    };
    let sample = |(name, labels, value): (String, Map<String, Value>, f64)| {
        let is_of_database = families::of(&name)?.scope == Scope::Database;
        let text = |(label, value): (String, Value)| match value {
            Value::String(value) => (label, value),
            value => (label, value.to_string()),
        };
        let database = is_of_database.then(|| ("database".to_owned(), database.clone()));
        let (limits, mut labels): (Vec<_>, Vec<_>) = labels
            .into_iter()
            .map(text)
            .partition(|(label, _)| label == "le");
        labels.sort();
        (is_of_database || with_server).then(|| Sample {
            name,
            labels: database.into_iter().chain(labels).chain(limits).collect(),
            value,
        })
    };
    rows.into_iter().filter_map(sample).collect()
}
