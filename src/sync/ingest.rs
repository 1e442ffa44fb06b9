//! `rag-engine ingest` as the feed of a run.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rag_protocol::{
    embed::ModelInfo,
    frame::{self, FrameBuffer},
    ingest::{Clones, Credentials, Event, Job, KnownVersion, Limits, Splitting},
    spec::SourceSpec,
};

use zeroize::{Zeroize, Zeroizing};

use super::pipeline::Feed;
use crate::{
    catalog::{collections::Collection, documents, sources::Source},
    engine::{
        self, clones,
        process::{self, EngineProcess},
    },
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{
        process::before_exit,
        transaction::transaction,
        wait::{Until, wait},
    },
    secrets, settings,
};

/// The maximum time to wait for an event. Between events, the run checks its timeout and reports
/// its progress.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process `rag-engine ingest` that runs a job.
pub struct IngestFeed {
    /// Added to each line of the process's log: `source=docs run=7`.
    label: String,
    process: EngineProcess,
    events: FrameBuffer,
    /// The job. It may hold a secret.
    job: Zeroizing<Vec<u8>>,
    /// The number of bytes of the job that were sent.
    sent: usize,
    /// The folder that the engine may write to. It is removed at the end of the run.
    work_dir: PathBuf,
}

/// Returns a folder for the run. Its name has the database's OID, because sources of other
/// databases may have the same name.
fn work_dir(name: &str) -> PathBuf {
    Path::new(engine::RUNTIME_DIR).join("work").join(format!(
        "{}-{name}",
        crate::pg::process::database().to_u32()
    ))
}

impl Drop for IngestFeed {
    fn drop(&mut self) {
        self.process.kill();
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
    pub fn start(
        source: &Source,
        collection: &Collection,
        embedder: &EmbeddingModel,
        model: &ModelInfo,
        run_id: i64,
    ) -> Result<Self, Error> {
        let chunking = collection.splitting.fingerprint(&model.fingerprint);
        let known = transaction(|| {
            documents::known_versions(collection.name.as_str(), source.name.as_str(), &chunking)
        })?;
        let credentials = secrets::credentials(source)?;
        let (spec, name) = (source.spec.clone(), source.name.short());
        let label = format!("source={} run={run_id}", source.name);
        let user = clones::user(source).to_string();
        Self::begin(
            label,
            vec![spec],
            credentials,
            known,
            collection.splitting,
            embedder,
            &name,
            source.timeout,
            Some(user),
        )
    }

    /// Starts the engine on a job, whose sources it reads in turn. `name` is the name of its
    /// folder, `label` is added to each line of its log, and `user_of_clone` is the source that
    /// keeps a clone.
    ///
    /// # Errors
    /// The folder cannot be created, or the engine cannot be started.
    #[allow(clippy::too_many_arguments)] // a job's
    pub fn begin(
        label: String,
        specs: Vec<SourceSpec>,
        credentials: Option<Credentials>,
        known: HashMap<String, KnownVersion>,
        splitting: Splitting,
        embedder: &EmbeddingModel,
        name: &str,
        timeout: Duration,
        user_of_clone: Option<String>,
    ) -> Result<Self, Error> {
        let mut specs = specs.into_iter();
        let Some(source) = specs.next() else {
            return Err(Error::internal("there is nothing to read"));
        };
        let work_dir = work_dir(name);
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
        let seconds = timeout.as_secs() + 10;
        let mut job = Job {
            source,
            further: specs.collect(),
            known,
            splitting,
            tokens: embedder.token_rule(),
            work_dir: work_dir.clone(),
            clones: Clones {
                dir: clones::dir(),
                max_bytes: settings::clone_cache_bytes(),
                max_clone_bytes: settings::max_clone_bytes(),
                user: user_of_clone,
            },
            credentials,
            network: settings::network(),
            limits: Limits {
                max_file_bytes: settings::max_file_bytes(),
                memory_bytes: Some(settings::ingest_memory_bytes()),
                cpu_seconds: Some(4 * seconds),
                file_size_bytes: None,
                wall_seconds: Some(seconds),
            },
        };
        let encoded = frame::encode(&job, &[]).map(Zeroizing::new);
        if let Some(credentials) = &mut job.credentials {
            credentials.secret.zeroize();
        }
        let job = encoded?;
        let pdfs = settings::pdf_options();
        let mut args: Vec<&OsStr> = vec![
            "ingest".as_ref(),
            "--sandbox".as_ref(),
            settings::sandbox().as_ref(),
        ];
        args.extend(pdfs.iter().map(|option| option.as_os_str()));
        let process = EngineProcess::spawn(&args)?;
        Ok(Self {
            label,
            process,
            events: FrameBuffer::default(),
            job,
            sent: 0,
            work_dir,
        })
    }

    fn wait(&mut self) {
        let mut descriptors = vec![(self.process.stdout_fd(), Until::Readable)];
        descriptors.extend(self.process.stderr_fd().map(|fd| (fd, Until::Readable)));
        if self.sent < self.job.len() {
            descriptors.extend(self.process.stdin_fd().map(|fd| (fd, Until::Writable)));
        }
        wait(&descriptors, Some(EVENT_TIMEOUT));
    }

    fn forward_log(&mut self) {
        for line in self.process.log_lines() {
            pgrx::log!("rag-engine: {line} {}", self.label);
        }
    }

    fn died(&mut self) -> Error {
        let how = self
            .process
            .kill()
            .map_or_else(|| "ended".into(), process::describe);
        self.forward_log();
        Error::engine_unavailable(format!("rag-engine {how} while reading the source")).hint(
            "The stored documents are kept. Sync again for the rest. The server log has the \
             reason.",
        )
    }
}

impl Feed for IngestFeed {
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        let started = Instant::now();
        loop {
            if let Some(frame) = self.events.next()? {
                return Ok(Some((frame.header()?, frame.payload)));
            }
            if started.elapsed() >= EVENT_TIMEOUT {
                return Ok(None);
            }
            let unsent = &self.job[self.sent..];
            if !unsent.is_empty() {
                // if the engine has ended, the read below reports it
                self.sent += self.process.write(unsent).unwrap_or(unsent.len());
                if self.sent == self.job.len() {
                    self.job = Zeroizing::default();
                    self.sent = 0;
                }
            }
            let mut buffer = [0; 65536];
            match self.process.read(&mut buffer) {
                Ok(Some(0)) | Err(_) => return Err(self.died()),
                Ok(Some(n)) => self.events.push(&buffer[..n]),
                Ok(None) => self.wait(),
            }
            self.forward_log();
        }
    }
}
