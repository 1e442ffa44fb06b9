//! `rag-engine ingest` as the feed of a run.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use rag_definition::source::SourceSpec;
use rag_protocol::{
    frame,
    ingest::{Clones, Credentials, Event, Job, KnownVersion, Limits, Splitting},
};

use zeroize::{Zeroize, Zeroizing};

use super::{feed::Feed, indexer::Indexer};
use crate::{
    catalog::{documents, sources::Source},
    engine::{
        self, clones, process,
        request::{EngineRequest, EngineTask},
    },
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{process::before_exit, spi::owner_transaction},
    secrets, settings,
};

/// The maximum time to wait for an event. Between events, the run checks its timeout and reports
/// its progress.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process `rag-engine ingest` that runs a job.
pub struct IngestFeed {
    engine: EngineRequest<Event>,
    /// The folder that the engine may write to. It is removed at the end of the run.
    work_dir: PathBuf,
}

/// What a process `rag-engine ingest` reads.
pub struct IngestJob<'a> {
    /// Added to each line of the process's log: `source=docs run=7`.
    pub label: String,
    /// They are read in turn.
    pub specs: Vec<SourceSpec>,
    pub credentials: Option<Credentials>,
    /// What is stored of the first spec, by its URIs.
    pub known: HashMap<String, KnownVersion>,
    pub splitting: Splitting,
    pub embedder: &'a EmbeddingModel,
    /// The name of the folder that the process may write to.
    pub folder: String,
    pub timeout: Duration,
    /// The source that keeps a clone.
    pub user_of_clone: Option<String>,
}

/// Returns the folder that has one for each run.
fn work() -> PathBuf {
    Path::new(engine::RUNTIME_DIR).join("work")
}

/// Returns a folder for the run. Its name has the database's OID, because sources of other
/// databases may have the same name.
fn work_dir(name: &str) -> PathBuf {
    work().join(format!(
        "{}-{name}",
        crate::pg::process::database().to_u32()
    ))
}

/// Removes the folders of runs that a crash has ended, and those that a base backup has of the runs
/// of its server. Called when no process runs yet.
pub fn remove_work_of_dead_runs() {
    let _ = std::fs::remove_dir_all(work());
}

impl Drop for IngestFeed {
    fn drop(&mut self) {
        self.engine.kill();
        // if this fails, the next run of the source fails and reports it
        let _ = std::fs::remove_dir_all(&self.work_dir);
        WORK_DIR.take();
    }
}

thread_local! {
    /// The folder of the present run.
    static WORK_DIR: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Removes the folder also at the end of the process, which does not unwind. There may be no next
/// run, for example in a database that is dropped.
fn remove_at_exit(work_dir: &Path) {
    before_exit(remove_work_dir);
    WORK_DIR.set(Some(work_dir.to_path_buf()));
}

fn remove_work_dir() {
    if let Some(dir) = WORK_DIR.take() {
        // so that it stops writing
        process::kill_children();
        let _ = std::fs::remove_dir_all(dir);
    }
}

impl IngestFeed {
    /// Starts the engine for a source.
    ///
    /// # Errors
    /// The folder cannot be created, or the engine cannot be started.
    pub fn start(source: &Source, indexer: &Indexer, run_id: i64) -> Result<Self, Error> {
        let (collection, chunking) = (&indexer.collection, indexer.chunking());
        let known = owner_transaction(|owner| {
            documents::known_versions(
                owner,
                collection.name.as_str(),
                source.name.as_str(),
                &chunking,
            )
        })?;
        let credentials = secrets::credentials(source)?;
        Self::begin(IngestJob {
            label: format!("source={} run={run_id}", source.name),
            specs: vec![source.spec.clone()],
            credentials,
            known,
            splitting: collection.splitting(),
            embedder: &indexer.embedder,
            folder: source.name.short(),
            timeout: source.timeout,
            user_of_clone: Some(clones::user(source).to_string()),
        })
    }

    /// Starts the engine on a job.
    ///
    /// # Errors
    /// The folder cannot be created, or the engine cannot be started.
    pub fn begin(job: IngestJob<'_>) -> Result<Self, Error> {
        let mut specs = job.specs.into_iter();
        let Some(source) = specs.next() else {
            return Err(Error::internal("there is nothing to read"));
        };
        let work_dir = work_dir(&job.folder);
        remove_at_exit(&work_dir);
        std::fs::create_dir_all(&work_dir).map_err(|e| {
            Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
                "could not create the working folder of the run",
            )
            .detail(format!("{}: {e}", work_dir.display()))
        })?;
        // the runner ends the run at its timeout; these limits hold where it cannot, and the engine
        // has several threads
        let seconds = job.timeout.as_secs() + 10;
        let mut message = Job {
            source,
            further: specs.collect(),
            known: job.known,
            splitting: job.splitting,
            tokens: job.embedder.token_rule(),
            work_dir: work_dir.clone(),
            clones: Clones {
                dir: clones::dir(),
                max_bytes: settings::clone_cache_bytes(),
                max_clone_bytes: settings::max_clone_bytes(),
                user: job.user_of_clone,
            },
            credentials: job.credentials,
            network: settings::network(),
            limits: Limits {
                max_file_bytes: settings::max_file_bytes(),
                memory_bytes: Some(settings::ingest_memory_bytes()),
                cpu_seconds: Some(4 * seconds),
                file_size_bytes: None,
                wall_seconds: Some(seconds),
            },
        };
        let input = frame::encode(&message, &[]).map(Zeroizing::new);
        if let Some(credentials) = &mut message.credentials {
            credentials.secret.zeroize();
        }
        let engine = EngineRequest::begin(EngineTask {
            command: "ingest",
            options: settings::pdf_options(),
            input: input?,
            label: job.label,
            activity: "while reading the source".into(),
            hint: "The stored documents are kept. Sync again for the rest. The server log has the \
                   reason.",
            limit: None,
        })?;
        Ok(Self { engine, work_dir })
    }
}

impl Feed for IngestFeed {
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        self.engine.next_within(EVENT_TIMEOUT)
    }
}
