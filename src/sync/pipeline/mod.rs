//! The pipeline of a run:
//!
//! ```text
//! feed --events--> batch of documents --texts not stored yet--> rag-engine embed
//!      --vectors--> a transaction for each document
//! ```
//!
//! The feed is `rag-engine ingest` ([`ingest`](super::ingest)) or the rows of a table
//! ([`table`](super::table)). While one batch is embedded, the next batch is read and the previous
//! one is written, so that the model never waits.

mod batches;
mod notes;
mod unfetched;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
    time::{Duration, Instant},
};

use rag_protocol::{
    embed::ModelInfo,
    identity::{DocumentId, EmbeddingKey},
    ingest::{Event, Failure, Stage},
    spec::SourceSpec,
};

use self::{
    batches::{BATCH_CHUNKS, Batch},
    unfetched::Unfetched,
};
use super::{
    ingest::IngestFeed, labels, rebuild, report::Report, store::PreparedDocument, table::TableFeed,
};
use crate::{
    catalog::{
        access::{self, CollectionPrivilege},
        collections::Collection,
        corruption, damage,
        documents::{self, DocumentAttributes},
        quotas::Meter,
        sources::{self, Source},
    },
    engine::{client::Client, clones},
    error::{Cause, Error},
    models::embedding::EmbeddingModel,
    pg::{lock::WriterLock, transaction::transaction},
    storage::{index, remote::changes},
};

/// The input of a run: the documents of a source, split but not embedded.
pub trait Feed {
    /// Returns the next event with its payload, or None if none came within about a second. The
    /// documents come after `Started`; the last event is `Finished` or `Fatal`.
    ///
    /// # Errors
    /// The feed cannot continue.
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error>;

    /// Returns false if documents that are not reported stay as they are.
    fn lists_all(&self) -> bool {
        true
    }

    /// Called once, after all reported documents are stored and the vanished ones deleted.
    ///
    /// # Errors
    /// The feed cannot store its state.
    fn done(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The number of validators that are stored in one transaction.
const VALIDATOR_BATCH: usize = 1000;
/// The number of documents that are deleted in one transaction.
const DELETE_BATCH: usize = 1000;

struct Pipeline<'a> {
    source: &'a Source,
    collection: Collection,
    embedder: EmbeddingModel,
    model: ModelInfo,
    client: Client,
    report: &'a mut Report,
    in_flight: VecDeque<Batch>,
    /// The embeddings of the batches that were stored last. A batch in flight relies on the
    /// embeddings of those that were in flight before it.
    recent: VecDeque<HashMap<EmbeddingKey, Rc<Vec<f32>>>>,
    /// The texts that the model's server refuses.
    refused: HashMap<EmbeddingKey, Error>,
    /// The documents that the source still has.
    seen: HashSet<DocumentId>,
    /// The new validators of unchanged documents.
    validators: Vec<(DocumentId, String)>,
    /// The documents that the feed reported as removed.
    removed: Vec<DocumentId>,
    unfetched: Unfetched,
    /// The feed has reported a removed document.
    has_removed: bool,
    /// Counts what is stored, if there is a quota.
    meter: Option<Meter>,
    /// Why documents are left out.
    full: Option<Error>,
    /// See [`Feed::lists_all`].
    lists_all: bool,
}

/// Syncs `source`: indexes everything it has, and deletes the documents that it no longer has.
///
/// # Errors
/// The source cannot be read, the model is unavailable, the engine died, the run timed out or was
/// cancelled. Stored documents are kept.
pub fn execute(source: &Source, report: &mut Report) -> Result<(), Error> {
    run(source, report).map_err(|error| {
        if !error.is(Cause::Corrupt) {
            return error;
        }
        // the rows of a relation may come from code of its owner
        let explain = match source.relation {
            Some(_) => damage::describe,
            None => damage::explain,
        };
        // the transaction that met it is rolled back
        transaction(|| Ok(explain(error.clone()))).unwrap_or(error)
    })
}

fn run(source: &Source, report: &mut Report) -> Result<(), Error> {
    transaction(|| {
        let owner = source.owner.role()?;
        crate::source::rights::check(&source.spec, owner)?;
        access::require(
            owner,
            &Collection::get(&source.collection)?,
            CollectionPrivilege::Write,
        )
    })?;
    clones::remove_unused(source)?;
    transaction(|| super::repair::forget_drifted(source))?;
    let (collection, embedder) = transaction(|| {
        let collection = Collection::get(&source.collection)?;
        let embedder = EmbeddingModel::of_collection(&collection)?;
        Ok::<_, Error>((collection, embedder.waiting()))
    })?;
    let mut client = Client::connect()?;
    let model = embedder.describe(&mut client)?;
    collection.check_model(&model)?;
    transaction(|| corruption::repair_marked(&collection))?;
    let collection = heal_table(collection)?;
    labels::follow(source, report)?;

    let mut feed: Box<dyn Feed> = match &source.spec {
        SourceSpec::Table(spec) => Box::new(TableFeed::start(
            source,
            spec,
            &collection,
            &embedder,
            &model,
        )?),
        _ => Box::new(IngestFeed::start(
            source,
            &collection,
            &embedder,
            &model,
            report.run_id(),
        )?),
    };
    let lists_all = feed.lists_all();
    let meter = transaction(|| Meter::start(source, &collection, lists_all))?;
    let mut pipeline = Pipeline {
        source,
        collection,
        embedder,
        model,
        client,
        report,
        in_flight: VecDeque::new(),
        recent: VecDeque::new(),
        refused: HashMap::new(),
        seen: HashSet::new(),
        validators: vec![],
        removed: vec![],
        unfetched: Unfetched::default(),
        has_removed: false,
        meter,
        full: None,
        lists_all,
    };
    let complete = pipeline
        .run(feed.as_mut())
        .inspect_err(|_| pipeline.collect_requested())?;
    if complete {
        pipeline.remove_vanished()?;
        pipeline.report.note = notes::note(&pipeline.source.spec, pipeline.report);
    }
    pipeline.report.complete = complete;
    feed.done()?;
    let collection = &pipeline.collection;
    transaction(|| index::create_if_large_enough(collection, WriterLock::Wait))?;
    changes::tell_after_run(collection)
}

/// Rebuilds the table of a collection if it is damaged.
fn heal_table(collection: Collection) -> Result<Collection, Error> {
    if !transaction(|| damage::is_table_marked(&collection))? {
        return Ok(collection);
    }
    let name = collection.name.as_str();
    pgrx::log!("rag: the table of collection \"{name}\" is damaged: it is rebuilt from its texts");
    while transaction(|| rebuild::advance_rebuild(name))? {}
    transaction(|| Collection::get(name))
}

impl Pipeline<'_> {
    /// Indexes everything that `feed` reports. Returns true if that was the whole source.
    fn run(&mut self, feed: &mut dyn Feed) -> Result<bool, Error> {
        let mut documents = vec![];
        let mut chunks = 0;
        loop {
            self.report.tick()?;
            let began = Instant::now();
            let next = feed.next_event();
            self.report.times.fetch += began.elapsed().as_secs_f64();
            let Some((event, payload)) = next? else {
                // a source may be slow: documents that have come become visible to searches
                self.submit(std::mem::take(&mut documents))?;
                chunks = 0;
                self.store_all()?;
                continue;
            };
            match event {
                Event::Started { documents, commit } => {
                    self.report.counts.total = i64::try_from(documents).ok();
                    self.report.commit = commit;
                    self.report.stage = "embed";
                }
                Event::Document(document) => {
                    let id = self.see(&document.uri);
                    let text = String::from_utf8(payload)
                        .map_err(|_| Error::internal("rag-engine sent a text that is not UTF-8"))?;
                    self.report.counts.bytes_fetched += i64::try_from(document.bytes).unwrap_or(0);
                    self.report.current_uri = Some(document.uri.clone());
                    if !self.admit(|meter| meter.count(id, text.len())) {
                        match self.lists_all {
                            true => return self.stop_full(documents),
                            // what was removed may make room
                            false => continue,
                        }
                    }
                    chunks += document.content.chunks.len();
                    documents.push(PreparedDocument {
                        id,
                        source: Some(self.source.name.to_string()),
                        uri: document.uri,
                        raw_hash: Some(document.raw_hash),
                        validator: document.validator,
                        text,
                        content: document.content,
                        attributes: DocumentAttributes {
                            knowledge_id: None,
                            labels: self.source.document_labels.clone(),
                        },
                    });
                    if chunks >= BATCH_CHUNKS {
                        self.submit(std::mem::take(&mut documents))?;
                        chunks = 0;
                    }
                }
                Event::Unchanged { uri, validator } => {
                    let id = self.see(&uri);
                    if !self.admit(|meter| meter.keep(id)) && self.lists_all {
                        return self.stop_full(documents);
                    }
                    self.report.counts.unchanged += 1;
                    if let Some(validator) = validator {
                        self.validators.push((id, validator));
                        self.note_validators(VALIDATOR_BATCH)?;
                    }
                }
                Event::Removed { uri, warning } => {
                    if let Some(warning) = warning {
                        transaction(|| self.report.warn(&uri, &[warning]))?;
                    }
                    self.has_removed = true;
                    let id = self.id(&uri);
                    self.removed.push(id);
                    if let Some(meter) = &mut self.meter {
                        meter.remove(id);
                    }
                    self.remove(DELETE_BATCH)?;
                }
                Event::Failed(failure) => {
                    let id = self.see(&failure.uri);
                    self.fail(&failure)?;
                    if !self.admit(|meter| meter.keep(id)) && self.lists_all {
                        return self.stop_full(documents);
                    }
                    if failure.stage == Stage::Fetch {
                        self.unfetched.add(failure);
                    }
                }
                Event::Worked {
                    fetch_ms,
                    extract_ms,
                } => {
                    // replaces the time that the run has waited for both
                    let seconds = |ms| Duration::from_millis(ms).as_secs_f64();
                    (self.report.times.fetch, self.report.times.extract) =
                        (seconds(fetch_ms), seconds(extract_ms));
                }
                Event::Finished {
                    complete,
                    bytes_fetched,
                    skipped,
                } => {
                    if self.full.is_some() {
                        return self.stop_full(documents);
                    }
                    self.submit(documents)?;
                    self.store_all()?;
                    self.note_validators(1)?;
                    self.remove(1)?;
                    self.report.counts.bytes_fetched =
                        i64::try_from(bytes_fetched).unwrap_or(i64::MAX);
                    self.report.count_skipped(skipped);
                    return self.check_fetched().map(|()| complete);
                }
                Event::Fatal { error } => return Err(Error::from_source(error)),
            }
        }
    }

    /// Returns false if a document exceeds a quota.
    fn admit(&mut self, count: impl FnOnce(&mut Meter) -> Result<(), Error>) -> bool {
        match self.meter.as_mut().map_or(Ok(()), count) {
            Ok(()) => true,
            Err(full) => {
                self.full = Some(full);
                false
            }
        }
    }

    /// Stores the documents that a quota leaves room for, and ends the run.
    fn stop_full(&mut self, documents: Vec<PreparedDocument>) -> Result<bool, Error> {
        self.submit(documents)?;
        self.store_all()?;
        self.note_validators(1)?;
        self.remove(1)?;
        let full = self.full.take();
        Err(full.unwrap_or_else(|| Error::internal("no quota is exceeded")))
    }

    /// Runs `f` in a transaction. If it meets a corrupted index of the collection, rebuilds the
    /// index and runs `f` again.
    fn healing<R>(&self, mut f: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        match transaction(&mut f) {
            Err(error) if error.is(Cause::Corrupt) => {
                match transaction(|| {
                    corruption::repair(&self.collection, &error, WriterLock::Wait)
                })? {
                    true => transaction(f),
                    false => Err(error),
                }
            }
            result => result,
        }
    }

    fn see(&mut self, uri: &str) -> DocumentId {
        let id = self.id(uri);
        self.seen.insert(id);
        id
    }

    fn id(&self, uri: &str) -> DocumentId {
        self.collection
            .document_id(Some(&self.source.ids_from), uri)
    }

    /// # Errors
    /// The source has documents, and none of them could be fetched.
    fn check_fetched(&self) -> Result<(), Error> {
        if self.has_removed || self.report.counts.done() > self.unfetched.count() {
            return Ok(());
        }
        self.unfetched.check()
    }

    /// Stores the collected validators once there are at least `enough`.
    fn note_validators(&mut self, enough: usize) -> Result<(), Error> {
        if self.validators.len() < enough {
            return Ok(());
        }
        transaction(|| documents::set_validators(self.collection.name.as_str(), &self.validators))?;
        self.validators.clear();
        Ok(())
    }

    fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        let id = self.id(&failure.uri);
        transaction(|| {
            documents::record_failure(
                id,
                self.collection.name.as_str(),
                Some(self.source.name.as_str()),
                &failure.uri,
                None,
                &failure.message,
                failure.stage != Stage::Fetch,
            )?;
            self.report.fail(failure)
        })
    }

    /// Deletes the documents that the source no longer has, and those in a collection that it
    /// filled before.
    fn remove_vanished(&mut self) -> Result<(), Error> {
        self.report.stage = "store";
        let (collection, name) = (self.collection.name.as_str(), self.source.name.as_str());
        let gone: Vec<DocumentId> = transaction(|| documents::ids_of_source(collection, name))?
            .into_iter()
            .filter(|id| !self.seen.contains(id))
            .collect();
        for ids in gone.chunks(DELETE_BATCH) {
            self.delete(ids)?;
        }
        let (collection, name) = (self.collection.name.as_str(), self.source.name.as_str());
        for (collection, ids) in
            transaction(|| documents::ids_by_collection(name, Some(collection)))?
        {
            for ids in ids.chunks(DELETE_BATCH) {
                transaction(|| documents::delete_and_forget(&collection, ids))?;
            }
        }
        Ok(())
    }

    /// Deletes the documents that the feed reported as removed, once there are at least `enough`.
    fn remove(&mut self, enough: usize) -> Result<(), Error> {
        if self.removed.len() < enough {
            return Ok(());
        }
        let removed = std::mem::take(&mut self.removed);
        // a document of the same uri may remain from a dropped source
        let (collection, name) = (self.collection.name.as_str(), self.source.name.as_str());
        let own = transaction(|| documents::ids_owned_by(collection, &removed, name))?;
        self.delete(&own)
    }

    fn delete(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        let began = Instant::now();
        let deleted = self.healing(|| {
            if !sources::exists(self.source)? {
                return Err(crate::run::process::source_dropped(&self.source.name));
            }
            documents::delete_and_forget(self.collection.name.as_str(), ids)
        })?;
        self.report.times.store += began.elapsed().as_secs_f64();
        self.report.counts.deleted += deleted as i64;
        Ok(())
    }
}
