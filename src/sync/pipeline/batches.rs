//! The batches of a run: the engine embeds their texts, then their documents are stored.

use std::{
    collections::{HashMap, HashSet, VecDeque},
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
    models::embedding::PendingEmbeddings,
    pg::{spi::as_owner, transaction::transaction},
    sync::indexer::{Embeddings, KeyedText, PreparedDocument},
    types::vector::OwnedVector,
};

/// The number of chunks of a batch, enough for the engine to sort them by length into good slices.
pub(super) const BATCH_CHUNKS: usize = 128;
/// The number of batches that the engine may have while the next one is read.
const BATCHES_IN_FLIGHT: usize = 2;

/// Documents that were read together and wait for their embeddings.
struct Batch {
    documents: Vec<PreparedDocument>,
    /// The embeddings that were requested, in order. The others are known already or belong to an
    /// earlier batch.
    keys: Vec<EmbeddingKey>,
    pending: Option<PendingEmbeddings>,
    known: Embeddings,
}

/// The batches that wait for the engine.
#[derive(Default)]
pub(super) struct EmbeddingQueue {
    in_flight: VecDeque<Batch>,
    /// The embeddings of the batches that were stored last. A batch in flight relies on the
    /// embeddings of those that were in flight before it.
    recent: VecDeque<Embeddings>,
    /// The texts that the model's server refuses.
    refused: HashMap<EmbeddingKey, Error>,
}

impl EmbeddingQueue {
    /// Returns the texts that are neither known, nor requested already, nor refused.
    fn wanted(&self, texts: Vec<KeyedText>, known: &Embeddings) -> Vec<KeyedText> {
        let in_flight = self.in_flight.iter().flat_map(|batch| &batch.keys);
        let requested: HashSet<&EmbeddingKey> = in_flight.chain(self.refused.keys()).collect();
        let mut texts = texts;
        texts.retain(|text| !known.has(text.key) && !requested.contains(&text.key));
        texts
    }
}

impl Pipeline<'_> {
    /// Requests the embeddings of the documents that were read, unless they are known or requested
    /// already, and makes room in the queue.
    pub(super) fn submit(&mut self) -> Result<(), Error> {
        let mut documents = std::mem::take(&mut self.unsent);
        if documents.is_empty() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        let texts = documents.iter_mut().flat_map(PreparedDocument::take_texts);
        let texts: Vec<KeyedText> = texts.filter(|text| seen.insert(text.key)).collect();
        let keys: Vec<EmbeddingKey> = texts.iter().map(|text| text.key).collect();
        let known = self.healing(|| self.indexer.known(&keys))?;
        let wanted = self.queue.wanted(texts, &known).into_iter();
        let (keys, texts): (Vec<_>, Vec<_>) = wanted.map(|text| (text.key, text.text)).unzip();
        let pending = if texts.is_empty() {
            None
        } else {
            let places = self.indexer.places(&keys);
            let embedder = &self.indexer.embedder;
            Some(embedder.start(&mut self.client, texts, places)?)
        };
        self.queue.in_flight.push_back(Batch {
            documents,
            keys,
            pending,
            known,
        });
        while self.queue.in_flight.len() > BATCHES_IN_FLIGHT {
            self.store_oldest()?;
        }
        Ok(())
    }

    pub(super) fn store_all(&mut self) -> Result<(), Error> {
        while !self.queue.in_flight.is_empty() {
            self.store_oldest()?;
        }
        Ok(())
    }

    /// Waits for the embeddings that servers were asked for. A run that has failed needs them no
    /// more, but the next one does not pay for them again.
    pub(super) fn collect_requested(&mut self) {
        for batch in std::mem::take(&mut self.queue.in_flight) {
            if let Some(pending) = batch.pending {
                self.indexer.embedder.collect(pending);
            }
        }
    }

    /// Waits for the embeddings of the oldest batch, and writes each of its documents in its own
    /// transaction.
    fn store_oldest(&mut self) -> Result<(), Error> {
        let Some(batch) = self.queue.in_flight.pop_front() else {
            return Ok(());
        };
        let computed = match batch.pending {
            Some(pending) => self.computed(&batch.keys, pending)?,
            None => Embeddings::default(),
        };
        let mut embeddings = batch.known;
        for recent in &self.queue.recent {
            embeddings.share(recent);
        }
        let mut embedded: HashSet<EmbeddingKey> = embeddings.keys().collect();
        embeddings.share(&computed);
        for document in &batch.documents {
            self.report.current_uri = Some(document.origin.uri.clone());
            self.store(document, &embeddings, &mut embedded)?;
            self.report.tick()?;
        }
        self.queue.recent.push_back(computed);
        if self.queue.recent.len() > BATCHES_IN_FLIGHT {
            self.queue.recent.pop_front();
        }
        Ok(())
    }

    /// Waits for embeddings. Remembers which texts are refused.
    fn computed(
        &mut self,
        keys: &[EmbeddingKey],
        pending: PendingEmbeddings,
    ) -> Result<Embeddings, Error> {
        let began = Instant::now();
        let report = &mut self.report;
        let mut tick = || report.tick();
        let embedder = &self.indexer.embedder;
        let answer = embedder.finish(&mut self.client, pending, &mut tick);
        self.report.times.embed += began.elapsed().as_secs_f64();
        let answer = answer?;
        let model = &self.indexer.model;
        if answer.fingerprint.is_some_and(|it| it != model.fingerprint) {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the model was replaced during the run",
            )
            .hint("Sync again."));
        }
        let mut computed = Embeddings::default();
        for (key, vector) in keys.iter().zip(answer.vectors) {
            match vector.and_then(OwnedVector::new) {
                Ok(vector) => computed.insert(*key, vector),
                Err(error) => {
                    self.queue.refused.insert(*key, error);
                }
            }
        }
        Ok(computed)
    }

    /// Writes one document. An error that concerns only this document is recorded and does not end
    /// the run. Chunks whose key is not yet in `embedded` count as newly embedded, and their keys
    /// are added to it.
    fn store(
        &mut self,
        document: &PreparedDocument,
        embeddings: &Embeddings,
        embedded: &mut HashSet<EmbeddingKey>,
    ) -> Result<(), Error> {
        let (uri, keys) = (&document.origin.uri, &document.keys);
        if let Some(refusal) = keys.iter().find_map(|key| self.queue.refused.get(key)) {
            let (message, hint) = (refusal.message.clone(), refusal.hint.clone());
            return self.fail(&Failure::new(&**uri, Stage::Embed, message, hint));
        }
        let began = Instant::now();
        let written = self.healing(|| {
            if !as_owner(|owner| sources::exists(owner, self.source))? {
                return Err(crate::run::process::source_dropped(&self.source.name));
            }
            let stored = self.indexer.store(document, embeddings)?;
            self.report.warn(uri, &document.content.warnings)?;
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
                if self.indexer.collection.model.is_none() {
                    // the partition exists now
                    self.indexer.collection =
                        transaction(|| Collection::get(&self.source.collection))?;
                }
                Ok(())
            }
            Err(error) if error.cause().ends_run() => Err(error),
            Err(error) => self.fail(&Failure::new(
                &**uri,
                Stage::Store,
                error.message,
                error.hint,
            )),
        }
    }
}
