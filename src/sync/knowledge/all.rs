//! Indexing all items of a collection: the work of a background worker.
//!
//! One process `rag-engine ingest` reads the items in turn. Each item is stored in a transaction of
//! its own, so that nothing is open while a slow server is read, and what is done stays. If the
//! process ends, its item fails and another process reads the rest. Items whose servers limit the
//! rate of requests are tried again at the end.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use pgrx::PgSqlErrorCode;
use rag_protocol::ingest::Event;
use serde_json::{Value, json};

use super::{
    KnowledgeResult, check_rights,
    index::{ITEM_TIMEOUT, KnowledgeIndexer, begin, record},
    spec,
};
use crate::{
    catalog::{
        collections::Collection,
        knowledge::{self, KnowledgeItem, Status},
        knowledge_runs,
    },
    collection::damage,
    engine::client::with_client,
    error::{Cause, Error},
    models::embedding::EmbeddingModel,
    pg::{spi::as_owner, transaction::transaction, wait::sleep},
    sync::{feed::Feed, indexer::Indexer, ingest::IngestFeed},
};

/// Maximum number of items that a process gets.
const BATCH: usize = 1000;
/// Maximum number of bytes of an item that are read before its transaction begins.
const BUFFER: usize = 8 << 20;
/// Number of times that an item is tried whose server limits the rate of requests.
const ATTEMPTS: usize = 3;
/// Longest wait before another attempt.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// The wait if the server does not say how long.
const DEFAULT_DELAY: Duration = Duration::from_secs(5);

/// Indexes the items of a collection that have a status, or all. Returns the summary.
///
/// # Errors
/// The model is unavailable, the collection was dropped, or the worker was cancelled. An error of
/// an item is part of the summary.
pub fn index_all(run_id: i64, name: &str, status: Option<Status>) -> Result<Value, Error> {
    let ids = transaction(|| {
        let ids = as_owner(|owner| knowledge::numbers(owner, name, status))?;
        as_owner(|owner| knowledge_runs::begin(owner, name, run_id, ids.len()))?;
        Ok(ids)
    })?;
    let (collection, embedder) = transaction(|| {
        let collection = Collection::get(name)?;
        let embedder = EmbeddingModel::of_collection(&collection)?;
        Ok((collection, embedder.waiting()))
    })?;
    let mut results = BTreeMap::new();
    if !ids.is_empty() {
        let mut run = KnowledgeRun {
            run_id,
            indexer: with_client(|client| Indexer::new(collection, embedder, client))?,
            results: BTreeMap::new(),
        };
        run.index(&ids)?;
        results = run.results;
    }
    Ok(summary(&results))
}

/// Returns the summary of a run.
fn summary(results: &BTreeMap<i64, KnowledgeResult>) -> Value {
    let successful = results.values().filter(|result| result.success()).count();
    let described: Vec<Value> = results
        .iter()
        .map(|(id, result)| describe(*id, result))
        .collect();
    json!({
        "total_items": results.len(),
        "successful": successful,
        "failed": results.len() - successful,
        "results": described,
    })
}

fn describe(id: i64, result: &KnowledgeResult) -> Value {
    let mut described = json!({
        "success": result.success(),
        "knowledge_id": id,
        "chunks_indexed": result.chunks,
        "content_hash": result.content_hash.as_deref().unwrap_or_default(),
        "error": result.error,
    });
    if let Some(document) = result.document {
        described["document_id"] = document.to_string().into();
    }
    described
}

struct KnowledgeRun {
    run_id: i64,
    indexer: Indexer,
    results: BTreeMap<i64, KnowledgeResult>,
}

impl KnowledgeRun {
    fn index(&mut self, ids: &[i64]) -> Result<(), Error> {
        let mut ids = ids.to_vec();
        for attempt in 1.. {
            self.attempt(&ids)?;
            let delays = ids.iter().filter_map(|id| self.results[id].retry_after);
            let Some(delay) = delays.max().filter(|_| attempt < ATTEMPTS) else {
                break;
            };
            ids.retain(|id| self.results[id].retry_after.is_some());
            wait(match delay {
                Duration::ZERO => DEFAULT_DELAY,
                delay => delay.min(LONGEST_DELAY),
            });
        }
        Ok(())
    }

    /// Indexes items, in their order.
    fn attempt(&mut self, ids: &[i64]) -> Result<(), Error> {
        for ids in ids.chunks(BATCH) {
            let mut waiting = VecDeque::new();
            for id in ids {
                if let Some(item) = self.readable(*id)? {
                    waiting.push_back(item);
                }
            }
            while !waiting.is_empty() {
                let specs = waiting.iter().map(spec).collect::<Result<_, _>>()?;
                let label = format!(
                    "knowledge={} run={}",
                    self.indexer.collection.name, self.run_id
                );
                let mut feed = begin(label, specs, &self.indexer)?;
                while let Some(item) = waiting.pop_front() {
                    if !self.index_item(&item, &mut feed)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an item if it exists and may be read. Otherwise records why not.
    fn readable(&mut self, id: i64) -> Result<Option<KnowledgeItem>, Error> {
        let item = transaction(|| {
            let item = knowledge::find(self.indexer.collection.name.as_str(), id)?;
            let item = item.ok_or_else(|| super::missing(id))?;
            check_rights(&item).map(|()| item)
        });
        match item {
            Ok(item) => Ok(Some(item)),
            Err(error) => self.fail(id, error).map(|()| None),
        }
    }

    /// Indexes the next item of a feed. Returns false if the feed has ended.
    fn index_item(&mut self, item: &KnowledgeItem, feed: &mut IngestFeed) -> Result<bool, Error> {
        let collection = &mut self.indexer.collection;
        let (name, serial) = (collection.name.clone(), collection.serial);
        // the first document may have changed it, or another session
        *collection = transaction(|| Collection::get(name.as_str()))?;
        if collection.serial != serial {
            return Err(Collection::missing(name.as_str()));
        }
        let mut events = ItemEvents::new(feed);
        let result = events.read_ahead().and_then(|()| {
            transaction(|| {
                let result = match as_owner(|owner| knowledge::lock(owner, name.as_str(), item.id))?
                {
                    None => return Err(super::missing(item.id)),
                    Some(now) if now != *item => {
                        let message = format!("knowledge item {} was changed meanwhile", item.id);
                        return Err(Error::in_use(message));
                    }
                    Some(_) => {
                        KnowledgeIndexer::new(item, &mut self.indexer).take_item(&mut events)?
                    }
                };
                record(name.as_str(), item.id, &result)?;
                self.report(item.id, &result, Some(&item.uri))?;
                Ok(result)
            })
        });
        if let Err(error) = &result
            && error.is(Cause::Cancelled)
        {
            return Err(error.clone());
        }
        let goes_on = events.skip_rest();
        match result {
            Ok(result) => {
                self.results.insert(item.id, result);
            }
            Err(error) => self.fail(item.id, error)?,
        }
        Ok(goes_on)
    }

    /// Records that an item could not be indexed.
    ///
    /// # Errors
    /// The error is a cancel, or it cannot be recorded.
    fn fail(&mut self, id: i64, error: Error) -> Result<(), Error> {
        if error.is(Cause::Cancelled) {
            return Err(error);
        }
        let result = transaction(|| {
            let error = if error.is(Cause::Corrupt) {
                damage::explain(error)
            } else {
                error
            };
            let result = KnowledgeResult::failed(error.message);
            record(self.indexer.collection.name.as_str(), id, &result)?;
            self.report(id, &result, None)?;
            Ok(result)
        })?;
        self.results.insert(id, result);
        Ok(())
    }

    /// Writes the progress with an item that is done.
    fn report(&self, id: i64, result: &KnowledgeResult, uri: Option<&str>) -> Result<(), Error> {
        // an item that is tried again has been counted
        let items = i64::from(!self.results.contains_key(&id));
        let name = self.indexer.collection.name.as_str();
        as_owner(|owner| {
            knowledge_runs::advance(owner, name, self.run_id, items, result.chunks as i64, uri)
        })
    }
}

fn wait(delay: Duration) {
    let until = Instant::now() + delay;
    while let left = until.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        sleep(left);
    }
}

/// The events of one item.
struct ItemEvents<'a> {
    feed: &'a mut IngestFeed,
    began: Instant,
    ahead: VecDeque<(Event, Vec<u8>)>,
    /// The last event of the item was read.
    is_read: bool,
    /// The feed has ended.
    is_broken: bool,
}

impl<'a> ItemEvents<'a> {
    fn new(feed: &'a mut IngestFeed) -> Self {
        Self {
            feed,
            began: Instant::now(),
            ahead: VecDeque::new(),
            is_read: false,
            is_broken: false,
        }
    }

    fn read(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        let next = match self.began.elapsed() {
            time if time > ITEM_TIMEOUT => Err(Error::new(
                PgSqlErrorCode::ERRCODE_IO_ERROR,
                format!("the item took longer than {} s", ITEM_TIMEOUT.as_secs()),
            )),
            _ => self.feed.next_event(),
        };
        self.is_broken = next.is_err();
        if let Ok(Some((Event::Finished { .. } | Event::Fatal { .. }, _))) = &next {
            self.is_read = true;
        }
        next
    }

    /// Reads all of a small item, so that no transaction is open meanwhile.
    fn read_ahead(&mut self) -> Result<(), Error> {
        let mut bytes = 0;
        while !self.is_read && bytes < BUFFER {
            if let Some((event, payload)) = self.read()? {
                bytes += payload.len();
                self.ahead.push_back((event, payload));
            }
        }
        Ok(())
    }

    /// Reads the events that are left. Returns false if the feed has ended.
    fn skip_rest(mut self) -> bool {
        while !self.is_read && !self.is_broken {
            if let Err(error) = self.read() {
                pgrx::debug1!("rag: the rest of an item was not read: {error}");
            }
        }
        !self.is_broken
    }
}

impl Feed for ItemEvents<'_> {
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        match self.ahead.pop_front() {
            None => self.read(),
            next => Ok(next),
        }
    }
}
