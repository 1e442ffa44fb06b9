//! `rag.manifest`: what runs have indexed of each document, and whether that is still what is
//! stored.
//!
//! ```text
//!  run ── stores a document ──▶ rag.documents, rag.chunks ── digest, in the same transaction ──▶ rag.manifest
//!                                        │                                                           │
//!                                        └──────────── rag.drifted_documents compares ───────────────┘
//!                                                                  │
//!  next run ◀── forgets what drifted, so that it is fetched anew ──┴── check ──▶ condition AutoIndexerDriftDetected
//! ```
//!
//! A check ([`look`], [`conclude`]) changes nothing but the source's status; by the policy auto it
//! also queues a run. Any run of a source whose drift was found looks again at its beginning
//! ([`forget_drifted`]) and has what drifted fetched, embedded and stored anew, so that what stands
//! in between, be it a failed run or another change, needs no thought. Digests are computed in SQL,
//! by one function for writing and checking (`sql/drift.sql`).

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::{
    catalog::{
        conditions::{Changes, Type},
        due::RESTORED,
        runs::{self, Trigger},
        sources::{DriftPolicy, Source},
    },
    error::Error,
    pg::{
        guc::with_settings,
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
};

/// Documents that a check names of each kind.
const NAMED: i64 = 100;
/// Documents that the condition names.
const NAMED_IN_MESSAGE: usize = 3;

// -- checks
// -----------------------------------------------------------------------------------------------------------

/// What a check found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Documents that there should be; `None`: no run has completed yet.
    pub expected: Option<i64>,
    pub actual: i64,
    pub drifted: bool,
    /// `missing`, `changed`, `lost_chunks`, `unexpected`: what drifted, [`NAMED`] of each at most;
    /// `counts`: how many there are.
    pub detail: Value,
}

/// Runs `f`, which compares, as the extension's owner. Compiling its statement would take longer
/// than running it.
pub fn reading_much<R>(f: impl FnOnce() -> R) -> R {
    as_owner(|| with_settings(&[(c"jit", c"off")], f))
}

const KINDS: [(&str, &str); 4] = [
    ("missing", "missing"),
    ("changed", "changed"),
    ("lost_chunks", "with lost chunks"),
    ("unexpected", "unexpected"),
];

/// Compares what is stored of a source with what its runs have indexed. The caller holds the
/// source's lock.
pub fn look(source: &Source) -> Result<Findings, Error> {
    // the collection is a parameter, so that its partition alone is planned for; where a run has
    // failed, or was of another definition, since documents were last counted, only the manifest
    // knows their number
    let found = reading_much(|| {
        execute_returning(
            "SELECT CASE WHEN s.last_indexed IS NULL THEN NULL
                         WHEN r.phase = 'Completed' AND r.collection = s.collection AND r.started_at <= s.last_indexed THEN s.documents
                         ELSE (SELECT pg_catalog.count(*) FROM rag.manifest m WHERE m.collection = s.collection AND m.source = s.name)
                    END,
                    (SELECT pg_catalog.count(*) FROM rag.documents d WHERE d.collection = s.collection AND d.source = s.name),
                    (SELECT pg_catalog.jsonb_object_agg(k.kind, pg_catalog.jsonb_build_object('count', k.count, 'named', k.named))
                     FROM (SELECT n.kind, pg_catalog.count(*), pg_catalog.jsonb_agg(n.entry ORDER BY n.place) FILTER (WHERE n.place <= $2) AS named
                           FROM (SELECT d.kind, d.entry, pg_catalog.row_number() OVER (PARTITION BY d.kind ORDER BY d.uri COLLATE \"C\") AS place
                                 FROM rag.drifted_documents($3, s.name) d) n
                           GROUP BY n.kind) k
                     WHERE s.last_indexed IS NOT NULL)
             FROM rag.source s LEFT JOIN rag.run r ON r.run_id = s.last_run_id
             WHERE s.name = $1",
            &[source.name.as_str().into(), NAMED.into(), source.collection.as_str().into()],
            |row| Ok((row.get::<i64>(1)?, row.required::<i64>(2)?, row.get::<pgrx::JsonB>(3)?)),
        )
    })?;
    let (expected, actual, found) = found
        .into_iter()
        .next()
        .ok_or_else(|| Source::missing(source.name.as_str()))?;
    let Some(expected) = expected else {
        let detail = json!({"note": "no run of the source has completed yet"});
        return Ok(Findings {
            expected: None,
            actual,
            drifted: false,
            detail,
        });
    };
    let found = found.map_or(Value::Null, |json| json.0);
    let (mut detail, mut counts) = (Map::new(), Map::new());
    for (kind, _) in KINDS {
        let of_kind = &found[kind];
        detail.insert(
            kind.into(),
            if of_kind.is_null() {
                json!([])
            } else {
                of_kind["named"].clone()
            },
        );
        counts.insert(kind.into(), json!(of_kind["count"].as_i64().unwrap_or(0)));
    }
    let drifted = expected != actual || !found.is_null();
    detail.insert("counts".into(), Value::Object(counts));
    Ok(Findings {
        expected: Some(expected),
        actual,
        drifted,
        detail: Value::Object(detail),
    })
}

impl Findings {
    /// Whether documents are stored otherwise than they were indexed, whatever their number.
    fn has_documents(&self) -> bool {
        KINDS
            .iter()
            .any(|(kind, _)| self.detail["counts"][*kind].as_i64().unwrap_or(0) > 0)
    }

    /// In one sentence, with the first documents.
    fn message(&self) -> String {
        let counts = &self.detail["counts"];
        let mut parts: Vec<String> = KINDS
            .iter()
            .filter_map(|(kind, words)| {
                let count = counts[*kind].as_i64().filter(|count| *count > 0)?;
                Some(format!(
                    "{count} {} {words}",
                    if count == 1 { "document" } else { "documents" }
                ))
            })
            .collect();
        if parts.is_empty() {
            parts.push(format!(
                "{} documents are stored and {} were indexed",
                self.actual,
                self.expected.unwrap_or(0)
            ));
        }
        let uris: Vec<&str> = KINDS
            .iter()
            .flat_map(|(kind, _)| self.detail[*kind].as_array().into_iter().flatten())
            .filter_map(|entry| entry.as_str().or_else(|| entry["uri"].as_str()))
            .take(NAMED_IN_MESSAGE)
            .collect();
        let total: i64 = KINDS
            .iter()
            .filter_map(|(kind, _)| counts[*kind].as_i64())
            .sum();
        let more = total - uris.len() as i64;
        match (uris.is_empty(), more) {
            (true, _) => parts.join(", "),
            (false, 0) => format!("{}: {}", parts.join(", "), uris.join(", ")),
            (false, more) => format!("{}: {} and {more} more", parts.join(", "), uris.join(", ")),
        }
    }
}

/// What follows a check that found drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// This run was queued.
    Run(i64),
    /// A run is queued already, or a failed one will be tried again.
    RunToCome,
    /// Nothing: no drift, or the policy says so, or the source is suspended, or nobody starts runs.
    Nothing,
}

/// Writes down what [`look`] found, and queues a run where the policy says so and somebody would
/// start it.
pub fn conclude(
    source: &Source,
    findings: &Findings,
    is_scheduled: bool,
) -> Result<Consequence, Error> {
    if findings.expected.is_none() {
        return Ok(Consequence::Nothing);
    }
    let changes = Changes::at(source.generation);
    let changes = match findings.drifted {
        true => changes.set(
            Type::DriftDetected,
            Some(true),
            "DriftDetected",
            findings.message(),
        ),
        false => changes.set(
            Type::DriftDetected,
            Some(false),
            "NoDrift",
            "what is stored is what was indexed",
        ),
    };
    as_owner(|| {
        execute(
            "UPDATE rag.source SET drift_checked_at = pg_catalog.clock_timestamp(), conditions = rag.merge_conditions(conditions, $3)
             WHERE name = $1 AND uid = $2",
            &[source.name.as_str().into(), source.uid.into(), changes.to_json().into()],
        )
    })?;
    let is_repaired = is_scheduled && source.drift_policy == DriftPolicy::Auto && !source.suspend;
    if findings.drifted && is_repaired {
        queue_repair(source)
    } else {
        Ok(Consequence::Nothing)
    }
}

/// A retry that is to come does as well: queueing would begin its delays anew.
fn queue_repair(source: &Source) -> Result<Consequence, Error> {
    let retrying = as_owner(|| {
        query(
            "SELECT retry_at IS NOT NULL FROM rag.source WHERE name = $1",
            &[source.name.as_str().into()],
            |row| row.required::<bool>(1),
        )
    })?;
    if retrying.first() == Some(&true) {
        return Ok(Consequence::RunToCome);
    }
    let queued = runs::queue(source.name.as_str(), Trigger::Drift)?;
    Ok(queued.map_or(Consequence::RunToCome, Consequence::Run))
}

/// Notes that a check could not be carried out, so that the next one is not due before the usual
/// time. Drift that was found before stays found.
pub fn fail(source: &Source, error: &Error) -> Result<(), Error> {
    let changes = Changes::at(source.generation).set(
        Type::DriftDetected,
        None,
        "CheckFailed",
        error.message.clone(),
    );
    as_owner(|| {
        execute(
            "UPDATE rag.source SET drift_checked_at = pg_catalog.clock_timestamp(),
                 conditions = CASE WHEN rag.has_condition(conditions, 'AutoIndexerDriftDetected') THEN conditions
                                   ELSE rag.merge_conditions(conditions, $3) END
             WHERE name = $1 AND uid = $2",
            &[source.name.as_str().into(), source.uid.into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

/// Whether drift was found that has not been repaired, as far as the source's status says.
pub fn was_found(source: &Source) -> Result<bool, Error> {
    let found = as_owner(|| {
        query(
            "SELECT rag.has_condition(conditions, 'AutoIndexerDriftDetected') FROM rag.source WHERE name = $1 AND uid = $2",
            &[source.name.as_str().into(), source.uid.into()],
            |row| row.required::<bool>(1),
        )
    })?;
    Ok(found.first() == Some(&true))
}

/// Writes down what the run that ends has left of the drift which was found before it: what counts
/// are the documents that had drifted, not others that could not be indexed. A run that has
/// completed counts its documents itself; after one that has not, their number must be right, too.
pub fn looked_again(
    source: &Source,
    run_id: i64,
    completed: bool,
    findings: &Findings,
) -> Result<(), Error> {
    let changes = Changes::at(source.generation);
    let has_drifted = if completed {
        findings.has_documents()
    } else {
        findings.drifted
    };
    let changes = match has_drifted {
        false => {
            let message = format!("run {run_id} indexed again what had drifted");
            changes.set(Type::DriftDetected, Some(false), "Reindexed", message)
        }
        true => changes.set(
            Type::DriftDetected,
            Some(true),
            "DriftDetected",
            findings.message(),
        ),
    };
    as_owner(|| {
        execute(
            "UPDATE rag.source SET conditions = rag.merge_conditions(conditions, $2)
             WHERE name = $1 AND rag.has_condition(conditions, 'AutoIndexerDriftDetected')",
            &[source.name.as_str().into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

// -- when
// -------------------------------------------------------------------------------------------------------------

/// Sources `s` that are checked from time to time, and now may be.
fn checkable() -> String {
    format!(
        "NOT s.suspend AND s.drift_policy <> 'ignore' AND s.last_indexed IS NOT NULL
         AND NOT EXISTS (SELECT FROM rag.run r WHERE r.source = s.name AND r.phase IN ('Pending', 'Running')) AND {RESTORED}"
    )
}

const DUE_AT: &str =
    "(coalesce(s.drift_checked_at, s.last_indexed) + pg_catalog.make_interval(secs => $1))";

/// The sources whose check is due, those first that have waited longest.
pub fn due(interval: Duration) -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            &format!(
                "SELECT s.name FROM rag.source s WHERE {DUE_AT} <= pg_catalog.now() AND {} ORDER BY {DUE_AT}, s.name",
                checkable()
            ),
            &[interval.as_secs_f64().into()],
            |row| row.required(1),
        )
    })
}

/// Time until the next check that is not due yet; `None`: there is none.
pub fn until_next(interval: Duration) -> Result<Option<Duration>, Error> {
    let found = as_owner(|| {
        query(
            &format!(
                "SELECT pg_catalog.date_part('epoch', pg_catalog.min({DUE_AT}) - pg_catalog.clock_timestamp())
                 FROM rag.source s WHERE {DUE_AT} > pg_catalog.now() AND {}",
                checkable()
            ),
            &[interval.as_secs_f64().into()],
            |row| row.get::<f64>(1),
        )
    })?;
    let seconds = found.into_iter().next().flatten();
    Ok(seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}
