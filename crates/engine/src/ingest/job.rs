//! Reads one job and executes it, from its first listing to its last event.

use std::{io, time::Instant};

use rag_definition::source::SourceSpec;
use rag_protocol::{
    EngineError, ErrorKind,
    frame::{self, FrameError},
    ingest::{Event, Job},
};
use rag_source::Filter;
use serde_json::Value;

use super::{
    document::Reader,
    members::StoredMembers,
    output::{Form, Output},
    pipeline,
};
use crate::{embed::counter::ChunkCounter, extraction::Extractors, pdfs, redaction};

/// Reads the job from standard input.
///
/// # Errors
/// `InvalidRequest`.
pub fn read(form: Form) -> Result<Job, EngineError> {
    let bad = |e: &dyn std::fmt::Display| {
        EngineError::new(
            ErrorKind::InvalidRequest,
            "the engine could not parse the job",
        )
        .detail(e.to_string())
    };
    let job = match form {
        Form::Frames => {
            let message = frame::read(&mut io::stdin().lock()).map_err(|e| bad(&e))?;
            let message = message.ok_or_else(|| bad(&"standard input is empty"))?;
            understand(|| message.header(), || message.header())
        }
        Form::Pretty => {
            let text = io::read_to_string(io::stdin().lock()).map_err(|e| bad(&e))?;
            understand(
                || Ok(serde_json::from_str(&text)?),
                || Ok(serde_json::from_str(&text)?),
            )
        }
    };
    let job = job.map_err(|e| bad(&e))?;
    if job.splitting.chunk_size == 0 || job.splitting.chunk_overlap >= job.splitting.chunk_size {
        return Err(bad(&format!(
            "chunks of {} characters cannot overlap by {}",
            job.splitting.chunk_size, job.splitting.chunk_overlap
        )));
    }
    Ok(job)
}

/// Parses the job. Hides its secrets from here on, even if it cannot be parsed, because the error
/// may quote it.
fn understand(
    job: impl FnOnce() -> Result<Job, FrameError>,
    anything: impl FnOnce() -> Result<Value, FrameError>,
) -> Result<Job, FrameError> {
    let job = job();
    match &job {
        Ok(job) => redaction::hide(job.credentials.as_ref(), &job.network),
        // Invalid JSON is not quoted.
        Err(_) => {
            anything().iter().for_each(redaction::hide_all_of);
        }
    }
    job
}

/// Reads the sources one after the other. The failure of a source that is not the last one is sent.
///
/// # Errors
/// There is no model to count tokens with, or the last source fails.
pub fn perform(job: &Job, output: &Output) -> Result<(), EngineError> {
    let tokens = ChunkCounter::read(&job.tokens)?;
    let mut read = read_source(&job.source, job, &tokens, output);
    for source in &job.further {
        if let Err(error) = read {
            tracing::error!(detail = error.detail.as_deref(), "{error}");
            output.emit(&Event::Fatal { error }, "");
        }
        read = read_source(source, job, &tokens, output);
    }
    read
}

/// Lists a source and reports all its documents.
fn read_source(
    source: &SourceSpec,
    job: &Job,
    tokens: &ChunkCounter,
    output: &Output,
) -> Result<(), EngineError> {
    let began = Instant::now();
    let member_filter = Filter::of_members(source)?;
    let mut source = rag_source::open_one(source, job)?;
    let listing = source.list_with(&mut |progress| {
        let event = Event::Listing {
            found: progress.found,
            waiting: progress.waiting,
            skipped: progress.skipped,
            uri: progress.uri.to_owned(),
        };
        output.emit(&event, "");
    })?;
    let listed = began.elapsed();

    let documents = (listing.items.len() + listing.failures.len()) as u64;
    output.emit(
        &Event::Started {
            documents,
            commit: listing.commit,
        },
        "",
    );
    for failure in listing.failures {
        output.emit(&Event::Failed(failure), "");
    }
    let extractors = Extractors::default();
    let reader = Reader {
        known: &job.known,
        stored_members: StoredMembers::new(&job.known),
        member_filter,
        reads_pictures: pdfs::reads_pictures(),
        max_file_bytes: job.limits.max_file_bytes,
        splitting: job.splitting,
        tokens,
        extractors,
    };
    let done = pipeline::run(source.as_mut(), &listing.items, &reader, output)?;
    let mut skipped = listing.skipped;
    skipped += done.skipped;
    let milliseconds =
        |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (fetch_ms, extract_ms) = (
        milliseconds(listed + done.fetching),
        milliseconds(done.extracting),
    );
    output.emit(
        &Event::Worked {
            fetch_ms,
            extract_ms,
        },
        "",
    );
    output.emit(
        &Event::Finished {
            complete: listing.complete,
            bytes_fetched: done.bytes_fetched,
            skipped,
        },
        "",
    );
    Ok(())
}
