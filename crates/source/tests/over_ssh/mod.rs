//! A repository with files, and OpenSSH's server for it.

use std::collections::HashMap;

use rag_definition::source::SourceSpec;
use rag_protocol::{EngineError, ingest::Job};
use tempfile::TempDir;

use crate::{
    repository::Made,
    served::{all, noise},
    sshd::Sshd,
    support,
};

/// A repository with files, and its server.
pub struct OverSsh {
    pub made: Made,
    pub sshd: Sshd,
    pub place: TempDir,
}

impl OverSsh {
    pub fn new() -> Option<Self> {
        let made = Made::new();
        made.write("large.md", &noise(100_000));
        for i in 0..100 {
            made.write(&format!("docs/{i}.md"), format!("file {i}").as_bytes());
        }
        made.commit();
        let sshd = Sshd::start(made.path())?;
        let place = tempfile::tempdir().unwrap();
        Some(Self { made, sshd, place })
    }

    /// A job that can read the repository.
    pub fn job(&self) -> Job {
        let mut job = self.sshd.job(&self.path(), self.place.path());
        job.credentials = Some(self.sshd.identity("ed25519", ""));
        job
    }

    pub fn path(&self) -> String {
        self.made
            .path()
            .to_str()
            .unwrap()
            .trim_start_matches('/')
            .to_owned()
    }

    pub fn committed(&self) -> HashMap<String, Vec<u8>> {
        let mut job = support::job(SourceSpec::Git(self.made.spec()), self.place.path());
        job.limits.max_file_bytes = 1 << 20;
        all(&mut *rag_source::open(&job).unwrap())
    }
}

pub fn synced(job: &Job) -> HashMap<String, Vec<u8>> {
    all(&mut *rag_source::open(job).unwrap())
}

pub fn failed(job: &Job) -> EngineError {
    rag_source::open(job).err().unwrap()
}
