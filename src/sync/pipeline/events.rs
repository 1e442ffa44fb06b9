//! What the events of a feed lead to in a run.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rag_protocol::{
    EngineError,
    ingest::{Document, Event, Failure, Stage, Warning},
};

use super::{DELETE_BATCH, Pipeline, VALIDATOR_BATCH, batches::BATCH_CHUNKS};
use crate::{
    catalog::documents::{self, DocumentAttributes},
    error::Error,
    pg::{spi::owner_transaction, transaction::transaction},
    sync::{
        feed::{Feed, Flow, Listing, ListingProgress, Reader},
        indexer::{DocumentOrigin, ExtractedDocument},
    },
};

impl Reader for Pipeline<'_> {
    /// True if the whole source was indexed.
    type End = bool;

    fn wait_for(&mut self, feed: &mut dyn Feed) -> Result<Option<(Event, Vec<u8>)>, Error> {
        self.report.tick()?;
        let began = Instant::now();
        let next = feed.next_event();
        self.report.times.fetch += began.elapsed().as_secs_f64();
        next
    }

    /// A source may be slow: documents that have come become visible to searches.
    fn idle(&mut self) -> Result<(), Error> {
        self.submit()?;
        self.store_all()
    }

    fn listing(&mut self, progress: &ListingProgress) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let counts = &mut self.report.counts;
        counts.listed = Some(number(progress.found));
        counts.waiting = Some(number(progress.waiting));
        counts.skipped = number(progress.skipped);
        self.report.current_uri = Some(progress.uri.clone());
    }

    fn started(&mut self, documents: u64, commit: Option<String>) {
        self.report.counts.total = i64::try_from(documents).ok();
        let counts = &mut self.report.counts;
        if counts.listed.is_some() {
            (counts.listed, counts.waiting) = (counts.total, Some(0));
        }
        self.report.commit = commit;
        self.report.stage = "embed";
    }

    fn document(&mut self, document: Document, text: String) -> Flow<bool> {
        let id = self.see(&document.uri);
        self.report.counts.bytes_fetched += i64::try_from(document.bytes).unwrap_or(0);
        self.report.current_uri = Some(document.uri.clone());
        if !self.room.admits(|meter| meter.count(id, text.len())) {
            if self.room.lists_all {
                return self.stop_full();
            }
            // what was removed may make room
            return Ok(ControlFlow::Continue(()));
        }
        let origin = DocumentOrigin {
            source: Some(self.source.name.to_string()),
            uri: document.uri,
            raw_hash: Some(document.raw_hash),
            validator: document.validator,
            attributes: DocumentAttributes {
                knowledge_id: None,
                labels: self.source.document_labels.clone(),
            },
        };
        self.unsent.push(self.indexer.prepare(ExtractedDocument {
            id,
            origin,
            text,
            content: document.content,
        })?);
        let chunks = self.unsent.iter().map(|document| document.keys.len());
        if chunks.sum::<usize>() >= BATCH_CHUNKS * self.nodes.engines() {
            self.submit()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn unchanged(&mut self, uri: &str, validator: Option<String>) -> Flow<bool> {
        let id = self.see(uri);
        if !self.room.admits(|meter| meter.keep(id)) && self.room.lists_all {
            return self.stop_full();
        }
        self.report.counts.unchanged += 1;
        if let Some(validator) = validator {
            self.reported.validators.push((id, validator));
            self.note_validators(VALIDATOR_BATCH)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn removed(&mut self, uri: &str, warning: Option<Warning>) -> Result<(), Error> {
        if let Some(warning) = warning {
            transaction(|| self.report.warn(uri, &[warning]))?;
        }
        self.reported.has_removed = true;
        let id = self.id(uri);
        self.reported.removed.push(id);
        if let Some(meter) = &mut self.room.meter {
            meter.remove(id);
        }
        self.remove(DELETE_BATCH)
    }

    fn failed(&mut self, failure: Failure) -> Flow<bool> {
        let id = self.see(&failure.uri);
        self.fail(&failure)?;
        if !self.room.admits(|meter| meter.keep(id)) && self.room.lists_all {
            return self.stop_full();
        }
        if failure.stage == Stage::Fetch {
            self.reported.unfetched.add(failure);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn kept(&mut self, container: &str) -> Result<(), Error> {
        let (collection, name) = (
            self.indexer.collection.name.as_str(),
            self.source.name.as_str(),
        );
        let held = owner_transaction(|owner| {
            documents::ids_in_container(owner, collection, name, container)
        })?;
        for id in held {
            self.reported.seen.insert(id);
            self.room.admits(|meter| meter.keep(id));
        }
        Ok(())
    }

    /// Replaces the time that the run has waited for both.
    fn worked(&mut self, fetch: Duration, extract: Duration) {
        self.report.times.fetch = fetch.as_secs_f64();
        self.report.times.extract = extract.as_secs_f64();
    }

    fn finished(&mut self, listing: Listing) -> Result<bool, Error> {
        if self.room.full.is_some() {
            return self.stop_full();
        }
        self.store_rest()?;
        self.report.counts.bytes_fetched = i64::try_from(listing.bytes_fetched).unwrap_or(i64::MAX);
        self.report.count_skipped(listing.skipped);
        self.check_fetched().map(|()| listing.is_complete)
    }

    fn fatal(&mut self, error: EngineError) -> Result<bool, Error> {
        Err(Error::from_source(error))
    }
}
