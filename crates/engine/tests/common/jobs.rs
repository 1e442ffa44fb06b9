//! Runs of `rag-engine ingest` over real folders.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use rag_definition::source::SourceSpec;
use rag_protocol::{
    embed::TokenRule,
    frame,
    ingest::{
        Clones, Document, Event, Failure, Job, KnownVersion, Limits, Network, Splitting, Unit,
    },
};
use serde_json::json;
use tempfile::TempDir;

use super::{PROGRAM, tiny};

pub struct Folder {
    pub root: TempDir,
}

impl Folder {
    pub fn new(files: &[(&str, &[u8])]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let model = root.path().join("model");
        tiny::write(&model, tiny::Output::Pooled, false, None);
        for dir in ["docs", "work"] {
            fs::create_dir(root.path().join(dir)).unwrap();
        }
        let folder = Self { root };
        for (name, bytes) in files {
            folder.write(name, bytes);
        }
        folder
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.root.path().join("docs").join(name), bytes).unwrap();
    }

    pub fn job(&self, known: HashMap<String, KnownVersion>) -> Job {
        let spec = json!({ "path": self.root.path().join("docs") });
        let source = SourceSpec::parse("folder", &spec).unwrap();
        Job {
            known,
            ..job(self.root.path(), source)
        }
    }
}

/// Returns the job of a run which knows no documents. Its model and its files are below `path`.
pub fn job(path: &Path, source: SourceSpec) -> Job {
    Job {
        source,
        further: vec![],
        known: HashMap::new(),
        splitting: Splitting {
            chunk_size: 100,
            chunk_overlap: 10,
            unit: Unit::Characters,
        },
        tokens: TokenRule {
            tokenizer: Some(path.join("model")),
            ..TokenRule::default()
        },
        work_dir: path.join("work"),
        clones: Clones {
            dir: path.join("clones"),
            max_bytes: 1 << 30,
            max_clone_bytes: 1 << 30,
            user: None,
        },
        credentials: None,
        network: Network::default(),
        limits: Limits {
            max_file_bytes: 10 << 20,
            memory_bytes: Some(2 << 30),
            cpu_seconds: Some(60),
            file_size_bytes: Some(1 << 30),
            wall_seconds: Some(120),
        },
    }
}

pub fn start() -> (Child, ChildStdin) {
    let mut process = Command::new(PROGRAM)
        .arg("ingest")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdin = process.stdin.take().unwrap();
    (process, stdin)
}

/// Runs a job to its end. Returns its events with their payloads, and the exit code.
pub fn run(job: &Job) -> (Vec<(Event, String)>, Option<i32>) {
    let (mut process, mut stdin) = start();
    frame::write(&mut stdin, job, &[]).unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut events = vec![];
    while let Some(frame) = frame::read(&mut stdout).unwrap() {
        events.push((
            frame.header().unwrap(),
            String::from_utf8(frame.payload).unwrap(),
        ));
    }
    let code = process.wait().unwrap().code();
    drop(stdin); // held open until now, as the parent does
    (events, code)
}

pub fn name(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap()
}

pub fn documents(events: &[(Event, String)]) -> Vec<(&Document, &str)> {
    events
        .iter()
        .filter_map(|(event, text)| {
            if let Event::Document(d) = event {
                Some((&**d, text.as_str()))
            } else {
                None
            }
        })
        .collect()
}

pub fn failures(events: &[(Event, String)]) -> Vec<&Failure> {
    events
        .iter()
        .filter_map(|(event, _)| {
            if let Event::Failed(f) = event {
                Some(f)
            } else {
                None
            }
        })
        .collect()
}
