//! A repository on a git server on loopback.

use std::{collections::HashMap, fs, path::PathBuf};

use rag_definition::source::{GitSpec, Repository as Named, SourceSpec};
use rag_protocol::{EngineError, ingest::Job};
use rag_source::SourceReader;
use tempfile::TempDir;

use crate::{
    repository::Made,
    server::Server,
    support::{bytes, job},
};

/// A repository served over HTTP, and the folder that its clones and works are in.
pub struct Served {
    pub made: Made,
    pub server: Server,
    pub place: TempDir,
}

impl Served {
    pub fn new() -> Self {
        let made = Made::new();
        let server = Server::start(made.path());
        Self {
            made,
            server,
            place: tempfile::tempdir().unwrap(),
        }
    }

    /// With one file that no compression makes smaller, and a hundred small ones.
    pub fn with_files() -> Self {
        let served = Self::new();
        served.made.write("large.md", &noise(100_000));
        for i in 0..100 {
            served
                .made
                .write(&format!("docs/{i}.md"), format!("file {i}").as_bytes());
        }
        served.made.commit();
        served
    }

    pub fn spec(&self) -> GitSpec {
        GitSpec {
            repository: Named::Https(format!("{}/.git", self.server.url)),
            ..self.made.spec()
        }
    }

    pub fn at(&self, path: &str) -> GitSpec {
        GitSpec {
            repository: Named::Https(format!("{}{path}", self.server.url)),
            ..self.made.spec()
        }
    }

    pub fn job(&self, spec: GitSpec) -> Job {
        let mut job = job(SourceSpec::Git(spec), self.place.path());
        job.limits.max_file_bytes = 1 << 20;
        job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
        job
    }

    pub fn open(&self) -> Box<dyn SourceReader> {
        rag_source::open(&self.job(self.spec())).unwrap()
    }

    pub fn failed(&self, spec: GitSpec) -> EngineError {
        rag_source::open(&self.job(spec)).err().unwrap()
    }

    /// All files, as one run finds them.
    pub fn synced(&self) -> HashMap<String, Vec<u8>> {
        all(&mut *self.open())
    }

    /// All files of the folder that is checked out.
    pub fn committed(&self) -> HashMap<String, Vec<u8>> {
        all(&mut *rag_source::open(&self.job(self.made.spec())).unwrap())
    }

    pub fn kept(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.place.path().join("clones")) else {
            return vec![];
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The packs of the only clone.
    pub fn packs(&self) -> Vec<PathBuf> {
        let kept = self.kept();
        assert_eq!(kept.len(), 1);
        let entries = fs::read_dir(kept[0].join("repository.git/objects/pack")).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "pack"))
            .collect()
    }
}

pub fn all(source: &mut dyn SourceReader) -> HashMap<String, Vec<u8>> {
    let listing = source.list().unwrap();
    assert!(listing.complete && listing.failures.is_empty());
    listing
        .items
        .iter()
        .map(|item| (item.name.clone(), bytes(source, item).unwrap()))
        .collect()
}

/// Bytes without a pattern, the same each time.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let step = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(length).collect()
}
