//! The pipeline of a run:
//!
//! ```text
//! feed --events--> batch of documents --texts not stored yet--> rag-engine embed
//!      --vectors--> a transaction for some documents
//! ```
//!
//! The feed is `rag-engine ingest` ([`ingest`](super::ingest)) or the rows of a table
//! ([`table`](super::table)). While one batch is embedded, the next batch is read and the previous
//! one is written, so that the model never waits.

mod batches;
mod events;
mod notes;
mod unfetched;

use std::{collections::HashSet, time::Instant};

use rag_definition::source::SourceSpec;
use rag_protocol::{
    identity::DocumentId,
    ingest::{Failure, Stage},
};

use self::{batches::EmbeddingQueue, unfetched::Unfetched};
use super::{
    feed::{self, Feed},
    indexer::{Indexer, PreparedDocument},
    ingest::IngestFeed,
    labels, rebuild,
    report::Report,
    table::TableFeed,
};
use crate::{
    catalog::{
        access::CollectionPrivilege,
        collections::Collection,
        documents::{self, FailedDocument},
        sources::{self, Source},
    },
    collection::{corruption, damage, index, quotas::Meter, rights},
    engine::{client::Client, clones},
    error::{Cause, Error},
    models::embedding::{EmbeddingModel, nodes::EmbeddingNodes},
    pg::{
        lock::WriterLock,
        spi::{as_owner, owner_transaction},
        transaction::transaction,
    },
    storage::remote::replication,
};

/// The number of validators that are stored in one transaction.
const VALIDATOR_BATCH: usize = 1000;
/// The number of documents that are deleted in one transaction.
const DELETE_BATCH: usize = 1000;

struct Pipeline<'a> {
    source: &'a Source,
    indexer: Indexer,
    client: Client,
    report: &'a mut Report,
    /// The documents that were read and are in no batch yet.
    unsent: Vec<PreparedDocument>,
    queue: EmbeddingQueue,
    /// The servers that embed, too.
    nodes: EmbeddingNodes,
    reported: Reported,
    room: Room,
}

/// What the feed has reported besides documents.
#[derive(Default)]
struct Reported {
    /// The documents that the source still has.
    seen: HashSet<DocumentId>,
    /// The new validators of unchanged documents.
    validators: Vec<(DocumentId, String)>,
    /// The documents that the source no longer has.
    removed: Vec<DocumentId>,
    has_removed: bool,
    unfetched: Unfetched,
}

/// The room that quotas leave.
struct Room {
    /// None: there is no quota.
    meter: Option<Meter>,
    /// Why documents are left out.
    full: Option<Error>,
    /// See [`Feed::lists_all`].
    lists_all: bool,
}

impl Room {
    /// Returns false if a document exceeds a quota.
    fn admits(&mut self, count: impl FnOnce(&mut Meter) -> Result<(), Error>) -> bool {
        match self.meter.as_mut().map_or(Ok(()), count) {
            Ok(()) => true,
            Err(full) => {
                self.full = Some(full);
                false
            }
        }
    }
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
        rights::require(
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
    let mut indexer = Indexer::new(collection, embedder, &mut client)?;
    transaction(|| corruption::repair_marked(&indexer.collection))?;
    heal_table(&mut indexer.collection)?;
    labels::follow(source, report)?;

    let mut feed: Box<dyn Feed> = match &source.spec {
        SourceSpec::Table(spec) => Box::new(TableFeed::start(source, spec, &indexer)?),
        _ => Box::new(IngestFeed::start(source, &indexer, report.run_id())?),
    };
    let lists_all = feed.lists_all();
    let meter = transaction(|| Meter::start(source, &indexer.collection, lists_all))?;
    let nodes = transaction(|| EmbeddingNodes::of(&indexer.embedder, &indexer.model.fingerprint))?;
    let mut pipeline = Pipeline {
        source,
        indexer,
        client,
        report,
        unsent: vec![],
        queue: EmbeddingQueue::default(),
        nodes,
        reported: Reported::default(),
        room: Room {
            meter,
            full: None,
            lists_all,
        },
    };
    let complete =
        feed::read(feed.as_mut(), &mut pipeline).inspect_err(|_| pipeline.collect_requested())?;
    if complete {
        pipeline.remove_vanished()?;
        pipeline.report.note = notes::note(&pipeline.source.spec, pipeline.report);
    }
    pipeline.report.complete = complete;
    feed.done()?;
    let collection = &pipeline.indexer.collection;
    transaction(|| index::create_if_large_enough(collection, WriterLock::Wait))?;
    replication::replicate_after_run(collection)
}

/// Rebuilds the table of a collection if it is damaged.
fn heal_table(collection: &mut Collection) -> Result<(), Error> {
    if !transaction(|| damage::is_table_marked(collection))? {
        return Ok(());
    }
    let name = collection.name.as_str();
    pgrx::log!("rag: the table of collection \"{name}\" is damaged: it is rebuilt from its texts");
    while transaction(|| rebuild::advance_rebuild(name))? {}
    *collection = transaction(|| Collection::get(name))?;
    Ok(())
}

impl Pipeline<'_> {
    /// Stores the documents that a quota leaves room for, and ends the run.
    fn stop_full<E>(&mut self) -> Result<E, Error> {
        self.store_rest()?;
        let full = self.room.full.take();
        Err(full.unwrap_or_else(|| Error::internal("no quota is exceeded")))
    }

    /// Stores all that was read.
    fn store_rest(&mut self) -> Result<(), Error> {
        self.submit()?;
        self.store_all()?;
        self.note_validators(1)?;
        self.remove(1)
    }

    /// Runs `f` in a transaction. If it meets a corrupted index of the collection, rebuilds the
    /// index and runs `f` again.
    fn healing<R>(&self, mut f: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        match transaction(&mut f) {
            Err(error) if error.is(Cause::Corrupt) => {
                let collection = &self.indexer.collection;
                if transaction(|| corruption::repair(collection, &error, WriterLock::Wait))? {
                    transaction(f)
                } else {
                    Err(error)
                }
            }
            result => result,
        }
    }

    fn see(&mut self, uri: &str) -> DocumentId {
        let id = self.id(uri);
        self.reported.seen.insert(id);
        id
    }

    fn id(&self, uri: &str) -> DocumentId {
        self.indexer
            .collection
            .document_id(Some(&self.source.ids_from), uri)
    }

    /// # Errors
    /// The source has documents, and none of them could be fetched.
    fn check_fetched(&self) -> Result<(), Error> {
        if self.reported.has_removed || self.report.counts.done() > self.reported.unfetched.count()
        {
            return Ok(());
        }
        self.reported.unfetched.check()
    }

    /// Stores the collected validators once there are at least `enough`.
    fn note_validators(&mut self, enough: usize) -> Result<(), Error> {
        if self.reported.validators.len() < enough {
            return Ok(());
        }
        owner_transaction(|owner| {
            documents::set_validators(
                owner,
                self.indexer.collection.name.as_str(),
                &self.reported.validators,
            )
        })?;
        self.reported.validators.clear();
        Ok(())
    }

    fn fail(&mut self, failure: &Failure) -> Result<(), Error> {
        let id = self.id(&failure.uri);
        transaction(|| {
            let failed = FailedDocument {
                id,
                collection: self.indexer.collection.name.as_str(),
                source: Some(self.source.name.as_str()),
                uri: &failure.uri,
                document_type: None,
                error: &failure.message,
                fetched: failure.stage != Stage::Fetch,
            };
            as_owner(|owner| documents::record_failure(owner, &failed))?;
            self.report.fail(failure)
        })
    }

    /// Deletes the documents that the source no longer has, and those in a collection that it
    /// filled before.
    fn remove_vanished(&mut self) -> Result<(), Error> {
        self.report.stage = "store";
        let (collection, name) = (
            self.indexer.collection.name.as_str(),
            self.source.name.as_str(),
        );
        let gone: Vec<DocumentId> =
            owner_transaction(|owner| documents::ids_of_source(owner, collection, name))?
                .into_iter()
                .filter(|id| !self.reported.seen.contains(id))
                .collect();
        for ids in gone.chunks(DELETE_BATCH) {
            self.delete(ids)?;
        }
        let (collection, name) = (
            self.indexer.collection.name.as_str(),
            self.source.name.as_str(),
        );
        for (collection, ids) in
            owner_transaction(|owner| documents::ids_by_collection(owner, name, Some(collection)))?
        {
            for ids in ids.chunks(DELETE_BATCH) {
                owner_transaction(|owner| documents::delete_and_forget(owner, &collection, ids))?;
            }
        }
        Ok(())
    }

    /// Deletes the documents that the feed reported as removed, once there are at least `enough`.
    fn remove(&mut self, enough: usize) -> Result<(), Error> {
        if self.reported.removed.len() < enough {
            return Ok(());
        }
        let removed = std::mem::take(&mut self.reported.removed);
        // a document of the same uri may remain from a dropped source
        let (collection, name) = (
            self.indexer.collection.name.as_str(),
            self.source.name.as_str(),
        );
        let own =
            owner_transaction(|owner| documents::ids_owned_by(owner, collection, &removed, name))?;
        self.delete(&own)
    }

    fn delete(&mut self, ids: &[DocumentId]) -> Result<(), Error> {
        let began = Instant::now();
        let deleted = self.healing(|| {
            if !as_owner(|owner| sources::exists(owner, self.source))? {
                return Err(crate::run::process::source_dropped(&self.source.name));
            }
            as_owner(|owner| {
                documents::delete_and_forget(owner, self.indexer.collection.name.as_str(), ids)
            })
        })?;
        self.report.times.store += began.elapsed().as_secs_f64();
        self.report.counts.deleted += deleted as i64;
        Ok(())
    }
}
