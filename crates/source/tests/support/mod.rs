//! What the tests of all sources share.

use std::{path::Path, process::Output};

use rag_definition::source::SourceSpec;
use rag_protocol::{
    EngineError,
    embed::TokenRule,
    ingest::{Clones, Failure, Job, Limits, Network, Splitting, Unit},
};
use rag_source::{FetchOutcome, SourceItem, SourceReader};

/// Checks that this program, which a test has started with `--exact`, has run one test, and that it
/// passed. With a wrong name it runs none, which is no failure.
pub fn assert_one_test_passed(output: &Output) {
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && shown.contains("1 passed"),
        "{shown}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A job whose files may have 1000 bytes.
pub fn job(source: SourceSpec, work_dir: &Path) -> Job {
    Job {
        source,
        further: vec![],
        known: [].into(),
        splitting: Splitting {
            chunk_size: 1000,
            chunk_overlap: 200,
            unit: Unit::Characters,
        },
        tokens: TokenRule::default(),
        work_dir: work_dir.into(),
        clones: Clones {
            dir: work_dir.join("clones"),
            max_bytes: 1 << 30,
            max_clone_bytes: 1 << 30,
            user: None,
        },
        credentials: None,
        network: Network::default(),
        limits: Limits {
            max_file_bytes: 1000,
            memory_bytes: None,
            cpu_seconds: None,
            file_size_bytes: None,
            wall_seconds: None,
        },
    }
}

/// A job that may connect to the test's servers.
pub fn web_job(kind: &str, spec: &serde_json::Value, work_dir: &Path) -> Job {
    let mut job = job(SourceSpec::parse(kind, spec).unwrap(), work_dir);
    job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
    job
}

pub fn try_open(spec: &SourceSpec) -> Result<Box<dyn SourceReader>, EngineError> {
    rag_source::open(&job(spec.clone(), Path::new("unused")))
}

/// The bytes of an item that no version is known of.
pub fn bytes(source: &mut dyn SourceReader, item: &SourceItem) -> Result<Vec<u8>, Failure> {
    match source.fetch(item, None)? {
        FetchOutcome::Content(content) => Ok(content.bytes),
        other => panic!("nothing was known of it, and yet it was {other:?}"),
    }
}
