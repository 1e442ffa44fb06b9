//! The flow of a run:
//!
//! ```text
//! feed --events--> batch of documents --texts not stored yet--> rag-engine embed --vectors--> a transaction each
//! ```
//!
//! The feed is `rag-engine ingest` ([`ingest`](super::ingest)), or the rows of a table
//! ([`table`](super::table)). While one batch is being embedded the next one is read, and the one
//! before is written: the model never waits.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
    time::{Duration, Instant},
};

use rag_protocol::{
    EngineError, ErrorKind,
    embed::{ModelInfo, ModelRef, Priority},
    identity::{DocumentId, EmbeddingKey},
    ingest::{Event, Failure, Stage},
    spec::SourceSpec,
};

use super::{ingest::Ingest, labels, report::Report, store::PreparedDocument, table::Table};
use crate::{
    catalog::{
        access::{self, Privilege},
        chunks,
        collections::Collection,
        damage,
        documents::{self, Attributes},
        embedding_index::{self, Writers},
        sources::{self, Source},
    },
    engine::{
        client::{Client, Ticket},
        clones,
    },
    error::Error,
    pg::transaction::transaction,
    settings,
};

/// Chunks of a batch: enough for the engine to sort them by length into good slices.
const BATCH_CHUNKS: usize = 128;
/// Batches that may be with the engine while the next one is read.
const BATCHES_IN_FLIGHT: usize = 2;
/// Documents that were read together, waiting for the engine.
struct Batch {
    documents: Vec<PreparedDocument>,
    /// What was asked of the engine, in order; the rest is stored already or in an earlier batch.
    keys: Vec<EmbeddingKey>,
    ticket: Option<Ticket>,
    reused: HashMap<EmbeddingKey, Rc<Vec<f32>>>,
}

/// What a run reads: documents of a source, split and without embeddings.
pub trait Feed {
    /// The next event with its payload; `None` where none came within about a second. After
    /// `Started` come the documents, the last is `Finished` or `Fatal`.
    ///
    /// # Errors
    /// The feed cannot go on.
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error>;

    /// Called once, after all that was reported is stored, and all that is gone removed.
    ///
    /// # Errors
    /// What the feed wants to note cannot be written down.
    fn done(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Validators that are collected before they are noted in one transaction.
const VALIDATORS: usize = 1000;
/// Documents that are deleted in one transaction.
const REMOVED: usize = 1000;

struct Pipeline<'a> {
    source: &'a Source,
    collection: Collection,
    model_ref: ModelRef,
    model: ModelInfo,
    client: Client,
    report: &'a mut Report,
    in_flight: VecDeque<Batch>,
    /// Embeddings of the batches that were stored last: one in flight may count on any that was in
    /// flight before it.
    recent: VecDeque<HashMap<EmbeddingKey, Rc<Vec<f32>>>>,
    /// Documents that the source still has.
    seen: HashSet<DocumentId>,
    /// Of unchanged documents, what the source says of them now.
    validators: Vec<(DocumentId, String)>,
    /// Documents that the source said it no longer has.
    removed: Vec<DocumentId>,
    /// How many could not be fetched, and the first of them. Where the server asked to be left
    /// alone, the one for which it asked the longest time.
    unfetched: i64,
    first_unfetched: Option<Failure>,
    /// Something was fetched, or said to be gone.
    has_removed: bool,
}

/// Syncs `source`: everything it has is indexed, and what it no longer has is removed.
///
/// # Errors
/// The source cannot be read, the model cannot be had, the engine died, the time is up, or the run
/// was cancelled. What was stored until then stays.
pub fn execute(source: &Source, report: &mut Report) -> Result<(), Error> {
    transaction(|| {
        let owner = source.owner.role()?;
        crate::source::rights::check(&source.spec, owner)?;
        access::require(
            owner,
            &Collection::get(&source.collection)?,
            Privilege::Write,
        )
    })?;
    clones::tidy(source)?;
    transaction(|| super::repair::forget_drifted(source))?;
    let model_ref = settings::model(None)?;
    let mut client = Client::connect()?;
    let model = client.describe(&model_ref)?;
    let collection = transaction(|| Collection::get(&source.collection))?;
    collection.check_model(&model)?;
    transaction(|| damage::repair_known(&collection))?;
    labels::follow(source, report)?;

    let mut feed: Box<dyn Feed> = match &source.spec {
        SourceSpec::Table(spec) => {
            Box::new(Table::start(source, spec, &collection, &model_ref, &model)?)
        }
        _ => Box::new(Ingest::start(
            source,
            &collection,
            &model_ref,
            &model,
            report.run_id(),
        )?),
    };
    let mut pipeline = Pipeline {
        source,
        collection,
        model_ref,
        model,
        client,
        report,
        in_flight: VecDeque::new(),
        recent: VecDeque::new(),
        seen: HashSet::new(),
        validators: vec![],
        removed: vec![],
        unfetched: 0,
        first_unfetched: None,
        has_removed: false,
    };
    let complete = pipeline.run(feed.as_mut())?;
    if complete {
        pipeline.remove_vanished()?;
        pipeline.report.note = pipeline.nothing_found();
    }
    pipeline.report.complete = complete;
    feed.done()?;
    let collection = &pipeline.collection;
    transaction(|| embedding_index::make_if_it_pays(collection, Writers::WaitFor))
}

impl Pipeline<'_> {
    /// Indexes all that `feed` reports; whether that was the whole source.
    fn run(&mut self, feed: &mut dyn Feed) -> Result<bool, Error> {
        let mut documents = vec![];
        let mut chunks = 0;
        loop {
            self.report.tick()?;
            let began = Instant::now();
            let next = feed.next_event();
            self.report.times.fetch += began.elapsed().as_secs_f64();
            let Some((event, payload)) = next? else {
                // a source may be slow: what has come is not kept from those who search
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
                    chunks += document.content.chunks.len();
                    documents.push(PreparedDocument {
                        id,
                        source: Some(self.source.name.to_string()),
                        uri: document.uri,
                        raw_hash: Some(document.raw_hash),
                        validator: document.validator,
                        text,
                        content: document.content,
                        attributes: Attributes {
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
                    self.report.counts.unchanged += 1;
                    if let Some(validator) = validator {
                        self.validators.push((id, validator));
                        self.note_validators(VALIDATORS)?;
                    }
                }
                Event::Removed { uri } => {
                    self.has_removed = true;
                    self.removed.push(self.id(&uri));
                    self.remove(REMOVED)?;
                }
                Event::Failed(failure) => {
                    self.see(&failure.uri);
                    self.fail(&failure)?;
                    if failure.stage == Stage::Fetch {
                        self.unfetched += 1;
                        self.keep_unfetched(failure);
                    }
                }
                Event::Worked {
                    fetch_ms,
                    extract_ms,
                } => {
                    // in the place of the time that the run has waited for both
                    let seconds = |ms| Duration::from_millis(ms).as_secs_f64();
                    (self.report.times.fetch, self.report.times.extract) =
                        (seconds(fetch_ms), seconds(extract_ms));
                }
                Event::Finished {
                    complete,
                    bytes_fetched,
                    skipped,
                } => {
                    self.submit(documents)?;
                    self.store_all()?;
                    self.note_validators(1)?;
                    self.remove(1)?;
                    self.report.counts.bytes_fetched =
                        i64::try_from(bytes_fetched).unwrap_or(i64::MAX);
                    self.report.counts.skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
                    return self.check_fetched().map(|()| complete);
                }
                Event::Fatal { error } => return Err(Error::of_source(error)),
            }
        }
    }

    /// Runs `f` in a transaction. Where it meets a damaged index of the collection, rebuilds that
    /// and runs it again.
    fn healing<R>(&self, mut f: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        match transaction(&mut f) {
            Err(error) if damage::is_corruption(&error) => {
                match transaction(|| damage::repair(&self.collection, &error, Writers::WaitFor))? {
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
        DocumentId::derive(
            self.collection.name.as_str(),
            Some(self.source.name.as_str()),
            uri,
        )
    }

    /// Asks the engine for the embeddings that are neither stored nor under way, and makes room in
    /// the queue.
    fn submit(&mut self, documents: Vec<PreparedDocument>) -> Result<(), Error> {
        if documents.is_empty() {
            return Ok(());
        }
        let mut texts: HashMap<EmbeddingKey, String> = HashMap::new();
        let mut order = vec![];
        for document in &documents {
            for (key, text) in document.texts(&self.model)? {
                if texts.insert(key, text).is_none() {
                    order.push(key);
                }
            }
        }
        let stored = self.healing(|| chunks::stored_embeddings(&self.collection, &order))?;
        let reused: HashMap<_, _> = stored
            .into_iter()
            .map(|(key, vector)| (key, Rc::new(vector)))
            .collect();
        let under_way: HashSet<EmbeddingKey> = self
            .in_flight
            .iter()
            .flat_map(|b| b.keys.iter().copied())
            .collect();
        let keys: Vec<EmbeddingKey> = order
            .into_iter()
            .filter(|key| !reused.contains_key(key) && !under_way.contains(key))
            .collect();
        let wanted: Vec<String> = keys.iter().filter_map(|key| texts.remove(key)).collect();
        let ticket = if wanted.is_empty() {
            None
        } else {
            Some(
                self.client
                    .start_embedding(&self.model_ref, Priority::Bulk, wanted)?,
            )
        };
        self.in_flight.push_back(Batch {
            documents,
            keys,
            ticket,
            reused,
        });
        while self.in_flight.len() > BATCHES_IN_FLIGHT {
            self.store_oldest()?;
        }
        Ok(())
    }

    fn store_all(&mut self) -> Result<(), Error> {
        while !self.in_flight.is_empty() {
            self.store_oldest()?;
        }
        Ok(())
    }

    /// Waits for the embeddings of the oldest batch and writes its documents, each in a transaction
    /// of its own.
    fn store_oldest(&mut self) -> Result<(), Error> {
        let Some(batch) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let mut embeddings = batch.reused;
        let mut fresh = HashMap::new();
        if let Some(ticket) = batch.ticket {
            let began = Instant::now();
            let answer = self.client.finish_embedding(ticket);
            self.report.times.embed += began.elapsed().as_secs_f64();
            let answer = answer?;
            if answer.model.fingerprint != self.model.fingerprint {
                return Err(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "the model was replaced while the run used it",
                )
                .hint("Sync again."));
            }
            fresh.extend(
                batch
                    .keys
                    .iter()
                    .copied()
                    .zip(answer.vectors.into_iter().map(Rc::new)),
            );
        }
        let recent = self
            .recent
            .iter()
            .flatten()
            .map(|(key, vector)| (*key, Rc::clone(vector)));
        embeddings.extend(recent);
        let mut had: HashSet<EmbeddingKey> = embeddings.keys().copied().collect();
        embeddings.extend(fresh.iter().map(|(key, vector)| (*key, Rc::clone(vector))));
        for document in &batch.documents {
            self.report.current_uri = Some(document.uri.clone());
            self.store(document, &embeddings, &mut had)?;
            self.report.tick()?;
        }
        self.recent.push_back(fresh);
        if self.recent.len() > BATCHES_IN_FLIGHT {
            self.recent.pop_front();
        }
        Ok(())
    }

    /// Writes one document. What goes wrong with it alone is noted and does not end the run. Chunks
    /// count as embedded whose key was not among those that were `had` before; they are added to
    /// it.
    fn store(
        &mut self,
        document: &PreparedDocument,
        embeddings: &HashMap<EmbeddingKey, Rc<Vec<f32>>>,
        had: &mut HashSet<EmbeddingKey>,
    ) -> Result<(), Error> {
        let keys: Vec<EmbeddingKey> = document
            .texts(&self.model)?
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        let vectors: HashMap<EmbeddingKey, Vec<f32>> = keys
            .iter()
            .filter_map(|key| Some((*key, embeddings.get(key)?.to_vec())))
            .collect();
        let began = Instant::now();
        let written = self.healing(|| {
            if !sources::exists(self.source)? {
                return Err(crate::run::process::source_gone(&self.source.name));
            }
            let stored = document.store(&self.collection, &self.model, &vectors)?;
            self.report
                .warn(&document.uri, &document.content.warnings)?;
            Ok(stored)
        });
        self.report.times.store += began.elapsed().as_secs_f64();
        match written {
            Ok(stored) => {
                let counts = &mut self.report.counts;
                *(if stored.added {
                    &mut counts.added
                } else {
                    &mut counts.updated
                }) += 1;
                counts.with_warnings += i64::from(!document.content.warnings.is_empty());
                let old = keys.iter().filter(|key| !had.insert(**key)).count();
                counts.chunks_written += stored.chunks as i64;
                counts.chunks_reused += old as i64;
                counts.chunks_embedded += (keys.len() - old) as i64;
                if self.collection.model.is_none() {
                    // the partition exists now
                    self.collection = transaction(|| Collection::get(&self.source.collection))?;
                }
                Ok(())
            }
            Err(error) if concerns_all(&error) => Err(error),
            Err(error) => self.fail(&Failure::new(
                &*document.uri,
                Stage::Store,
                error.message,
                error.hint,
            )),
        }
    }

    fn keep_unfetched(&mut self, failure: Failure) {
        let rank = |failure: &Failure| (failure.throttled, failure.retry_after_seconds);
        if self
            .first_unfetched
            .as_ref()
            .is_none_or(|kept| rank(&failure) > rank(kept))
        {
            self.first_unfetched = Some(failure);
        }
    }

    /// # Errors
    /// There were documents, and none of them could be fetched.
    fn check_fetched(&self) -> Result<(), Error> {
        let counts = &self.report.counts;
        let Some(first) = &self.first_unfetched else {
            return Ok(());
        };
        if counts.done() > self.unfetched || self.has_removed {
            return Ok(());
        }
        let more = match self.unfetched - 1 {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let detail = format!("{}: {}{more}.", first.uri, first.message);
        if first.throttled {
            return Err(
                EngineError::throttled("the server", first.retry_after_seconds)
                    .detail(detail)
                    .into(),
            );
        }
        let error = EngineError::new(
            ErrorKind::SourceUnavailable,
            "nothing of the source could be fetched",
        )
        .detail(detail);
        Err(Error::of_source(
            first
                .hint
                .iter()
                .fold(error, |error, hint| error.hint(hint)),
        ))
    }

    /// Returns a note if the run found no document at all. A table without rows is nothing
    /// remarkable.
    fn nothing_found(&self) -> Option<String> {
        let counts = &self.report.counts;
        let (filter, names) = match &self.source.spec {
            SourceSpec::Folder(folder) => (&folder.filter, "\"paths\" and \"excludePaths\""),
            SourceSpec::Git(git) => (&git.filter, "\"paths\" and \"excludePaths\""),
            SourceSpec::Website(website) => (&website.filter, "\"include\" and \"exclude\""),
            SourceSpec::Markdown(_) | SourceSpec::Static(_) | SourceSpec::Table(_) => return None,
        };
        if counts.done() > 0 {
            return None;
        }
        Some(match counts.skipped {
            0 if filter.paths.is_empty() && filter.exclude_paths.is_empty() => {
                "the source has no files".into()
            }
            0 => format!("no file matches the patterns of {names}"),
            n => format!("no documents were found; {n} files were skipped"),
        })
    }

    /// Writes down the collected validators once there are so many.
    fn note_validators(&mut self, enough: usize) -> Result<(), Error> {
        if self.validators.len() < enough {
            return Ok(());
        }
        transaction(|| documents::set_validators(&self.validators))?;
        self.validators.clear();
        Ok(())
    }

    fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        let id = self.id(&failure.uri);
        transaction(|| {
            documents::fail(
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

    /// Deletes the documents that the source no longer has, and those of a collection that it was
    /// synced into before.
    fn remove_vanished(&mut self) -> Result<(), Error> {
        self.report.stage = "store";
        let (collection, name) = (self.collection.name.as_str(), self.source.name.as_str());
        let gone: Vec<DocumentId> = transaction(|| documents::of_source(collection, name))?
            .into_iter()
            .filter(|id| !self.seen.contains(id))
            .collect();
        for ids in gone.chunks(REMOVED) {
            self.delete(ids)?;
        }
        let (collection, name) = (self.collection.name.as_str(), self.source.name.as_str());
        for (collection, ids) in transaction(|| documents::by_collection(name, Some(collection)))? {
            for ids in ids.chunks(REMOVED) {
                transaction(|| documents::delete_for_good(&collection, ids))?;
            }
        }
        Ok(())
    }

    /// Deletes the documents that the feed said to be gone, once there are so many.
    fn remove(&mut self, enough: usize) -> Result<(), Error> {
        if self.removed.len() < enough {
            return Ok(());
        }
        let removed = std::mem::take(&mut self.removed);
        // a document of the same uri may be one that a dropped source has left
        let own = transaction(|| documents::owned(&removed, self.source.name.as_str()))?;
        self.delete(&own)
    }

    fn delete(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        let began = Instant::now();
        let deleted = self.healing(|| {
            if !sources::exists(self.source)? {
                return Err(crate::run::process::source_gone(&self.source.name));
            }
            documents::delete_for_good(self.collection.name.as_str(), ids)
        })?;
        self.report.times.store += began.elapsed().as_secs_f64();
        self.report.counts.deleted += deleted as i64;
        Ok(())
    }
}

/// Whether an error would meet the next document just the same: out of space or memory, cancelled,
/// shutting down, or the source is another; or the document is not to blame: it was a deadlock, or
/// another transaction's doing.
fn concerns_all(error: &Error) -> bool {
    let class = &crate::pg::sqlstate::sqlstate(error.code)[..2];
    matches!(class, "25" | "40" | "53" | "55" | "57" | "58")
}
