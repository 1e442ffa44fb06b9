//! The batches of a run: the engine embeds their texts, then their documents are stored.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    time::Instant,
};

use rag_protocol::{
    identity::EmbeddingKey,
    ingest::{Failure, Stage},
};

use super::Pipeline;
use crate::{
    catalog::{collections::Collection, sources},
    error::Error,
    models::embedding::{PendingEmbeddings, cache::CachePlaces},
    pg::transaction::transaction,
    sync::store::{PreparedDocument, known_embeddings},
};

/// The number of chunks of a batch, enough for the engine to sort them by length into good slices.
pub(super) const BATCH_CHUNKS: usize = 128;
/// The number of batches that the engine may have while the next one is read.
const BATCHES_IN_FLIGHT: usize = 2;

/// Documents that were read together and wait for their embeddings.
pub(super) struct Batch {
    documents: Vec<PreparedDocument>,
    /// The embeddings that were requested, in order. The others are known already or belong to an
    /// earlier batch.
    keys: Vec<EmbeddingKey>,
    pending: Option<PendingEmbeddings>,
    reused: HashMap<EmbeddingKey, Rc<Vec<f32>>>,
}

impl Pipeline<'_> {
    /// Requests the embeddings that are neither known nor requested already, and makes room in the
    /// queue.
    pub(super) fn submit(&mut self, documents: Vec<PreparedDocument>) -> Result<(), Error> {
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
        let known = self.healing(|| known_embeddings(&self.collection, &self.model, &order))?;
        let reused: HashMap<_, _> = known
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
            .filter(|key| {
                !reused.contains_key(key)
                    && !under_way.contains(key)
                    && !self.refused.contains_key(key)
            })
            .collect();
        let wanted: Vec<String> = keys.iter().filter_map(|key| texts.remove(key)).collect();
        let pending = match wanted.is_empty() {
            true => None,
            false => {
                let places = CachePlaces::new(&self.collection, &self.model, &keys);
                Some(self.embedder.start(&mut self.client, wanted, places)?)
            }
        };
        self.in_flight.push_back(Batch {
            documents,
            keys,
            pending,
            reused,
        });
        while self.in_flight.len() > BATCHES_IN_FLIGHT {
            self.store_oldest()?;
        }
        Ok(())
    }

    pub(super) fn store_all(&mut self) -> Result<(), Error> {
        while !self.in_flight.is_empty() {
            self.store_oldest()?;
        }
        Ok(())
    }

    /// Waits for the embeddings that servers were asked for. A run that has failed needs them no
    /// more, but the next one does not pay for them again.
    pub(super) fn collect_requested(&mut self) {
        for batch in std::mem::take(&mut self.in_flight) {
            if let Some(pending) = batch.pending {
                self.embedder.collect(pending);
            }
        }
    }

    /// Waits for the embeddings of the oldest batch, and writes each of its documents in its own
    /// transaction.
    fn store_oldest(&mut self) -> Result<(), Error> {
        let Some(batch) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let mut embeddings = batch.reused;
        let mut fresh = HashMap::new();
        if let Some(pending) = batch.pending {
            let began = Instant::now();
            let report = &mut self.report;
            let mut tick = || report.tick();
            let answer = self.embedder.finish(&mut self.client, pending, &mut tick);
            self.report.times.embed += began.elapsed().as_secs_f64();
            let vectors = answer?;
            if vectors
                .fingerprint
                .is_some_and(|it| it != self.model.fingerprint)
            {
                return Err(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "the model was replaced during the run",
                )
                .hint("Sync again."));
            }
            for (key, vector) in batch.keys.iter().zip(vectors.vectors) {
                match vector {
                    Ok(vector) => {
                        fresh.insert(*key, Rc::new(vector));
                    }
                    Err(error) => {
                        self.refused.insert(*key, error);
                    }
                }
            }
        }
        let recent = self
            .recent
            .iter()
            .flatten()
            .map(|(key, vector)| (*key, Rc::clone(vector)));
        embeddings.extend(recent);
        let mut embedded: HashSet<EmbeddingKey> = embeddings.keys().copied().collect();
        embeddings.extend(fresh.iter().map(|(key, vector)| (*key, Rc::clone(vector))));
        for document in &batch.documents {
            self.report.current_uri = Some(document.uri.clone());
            self.store(document, &embeddings, &mut embedded)?;
            self.report.tick()?;
        }
        self.recent.push_back(fresh);
        if self.recent.len() > BATCHES_IN_FLIGHT {
            self.recent.pop_front();
        }
        Ok(())
    }

    /// Writes one document. An error that concerns only this document is recorded and does not end
    /// the run. Chunks whose key is not yet in `embedded` count as newly embedded, and their keys
    /// are added to it.
    fn store(
        &mut self,
        document: &PreparedDocument,
        embeddings: &HashMap<EmbeddingKey, Rc<Vec<f32>>>,
        embedded: &mut HashSet<EmbeddingKey>,
    ) -> Result<(), Error> {
        let keys: Vec<EmbeddingKey> = document
            .texts(&self.model)?
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        if let Some(refusal) = keys.iter().find_map(|key| self.refused.get(key)) {
            let (message, hint) = (refusal.message.clone(), refusal.hint.clone());
            return self.fail(&Failure::new(&*document.uri, Stage::Embed, message, hint));
        }
        let vectors: HashMap<EmbeddingKey, Vec<f32>> = keys
            .iter()
            .filter_map(|key| Some((*key, embeddings.get(key)?.to_vec())))
            .collect();
        let began = Instant::now();
        let written = self.healing(|| {
            if !sources::exists(self.source)? {
                return Err(crate::run::process::source_dropped(&self.source.name));
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
                let old = keys.iter().filter(|key| !embedded.insert(**key)).count();
                counts.chunks_written += stored.chunks as i64;
                counts.chunks_reused += old as i64;
                counts.chunks_embedded += (keys.len() - old) as i64;
                if self.collection.model.is_none() {
                    // the partition exists now
                    self.collection = transaction(|| Collection::get(&self.source.collection))?;
                }
                Ok(())
            }
            Err(error) if error.cause().ends_run() => Err(error),
            Err(error) => self.fail(&Failure::new(
                &*document.uri,
                Stage::Store,
                error.message,
                error.hint,
            )),
        }
    }
}
