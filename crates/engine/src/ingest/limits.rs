//! The limits of a run: the job's own, and a few that always apply.

use std::{io, time::Duration};

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Event, Limits},
};

use super::output::Output;
use crate::process::{self, Limit};

/// Maximum number of open descriptors; libgit2 maps packs and keeps them open.
const OPEN_FILES: u64 = 1024;

/// Applies the limits. If time runs out, a `Fatal` event is sent.
pub fn apply(limits: &Limits, output: &Output) -> io::Result<()> {
    process::share_heaps();
    process::limit(Limit::OpenFiles(OPEN_FILES))?;
    if let Some(bytes) = limits.memory_bytes {
        process::limit(Limit::AddressSpace(bytes))?;
    }
    if let Some(seconds) = limits.cpu_seconds {
        process::limit(Limit::CpuSeconds(seconds))?;
    }
    if let Some(bytes) = limits.file_size_bytes {
        process::survive_file_size_limit()?;
        process::limit(Limit::FileSize(bytes))?;
    }
    if let Some(seconds) = limits.wall_seconds {
        let output = output.clone();
        process::watch_clock(Duration::from_secs(seconds), move || {
            let error = EngineError::new(ErrorKind::LimitExceeded, "the run took too long")
                .detail(format!("It was stopped after {seconds} seconds."));
            output.emit(&Event::Fatal { error }, "");
        })?;
    }
    Ok(())
}
