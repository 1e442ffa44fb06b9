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
    sync::indexer::{self, Embeddings, KeyedText, PreparedDocument, StoreResult},
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
            Some(embedder.start(&mut self.client, texts, places, &self.nodes)?)
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

    /// Waits for the embeddings of the oldest batch, and writes its documents.
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
        let documents = self.without_refused(batch.documents)?;
        for group in indexer::groups(&documents) {
            self.store(group, &embeddings, &mut embedded)?;
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
        let answer = embedder.finish(&mut self.client, pending, &mut self.nodes, &mut tick);
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

    /// Records that documents cannot be indexed whose texts the model's server refuses. Returns the
    /// others.
    fn without_refused(
        &mut self,
        documents: Vec<PreparedDocument>,
    ) -> Result<Vec<PreparedDocument>, Error> {
        let mut others = Vec::with_capacity(documents.len());
        for document in documents {
            let mut keys = document.keys.iter();
            match keys.find_map(|key| self.queue.refused.get(key)) {
                None => others.push(document),
                Some(refusal) => {
                    let (message, hint) = (refusal.message.clone(), refusal.hint.clone());
                    let uri = document.origin.uri;
                    self.fail(&Failure::new(uri, Stage::Embed, message, hint))?;
                }
            }
        }
        Ok(others)
    }

    /// Writes a [group](indexer::groups) of documents in one transaction. If that fails, writes
    /// each in its own. An error that concerns only one document is recorded and does not end the
    /// run. Chunks whose key is not yet in `embedded` count as newly embedded, and their keys are
    /// added to it.
    fn store(
        &mut self,
        group: &[PreparedDocument],
        embeddings: &Embeddings,
        embedded: &mut HashSet<EmbeddingKey>,
    ) -> Result<(), Error> {
        let Some(PreparedDocument { origin, .. }) = group.first() else {
            return Ok(());
        };
        self.report.current_uri = Some(origin.uri.clone());
        match self.write(group, embeddings) {
            Ok(stored) => {
                for (document, stored) in group.iter().zip(stored) {
                    self.count(document, stored, embedded);
                }
                if self.indexer.collection.model.is_none() {
                    // the partition exists now
                    self.indexer.collection =
                        transaction(|| Collection::get(&self.source.collection))?;
                }
                Ok(())
            }
            Err(error) if error.cause().ends_run() => Err(error),
            Err(_) if group.len() > 1 => group
                .iter()
                .try_for_each(|one| self.store(std::slice::from_ref(one), embeddings, embedded)),
            Err(error) => self.fail(&Failure::new(
                &*origin.uri,
                Stage::Store,
                error.message,
                error.hint,
            )),
        }
    }

    /// Writes documents and their warnings in one transaction.
    fn write(
        &mut self,
        documents: &[PreparedDocument],
        embeddings: &Embeddings,
    ) -> Result<Vec<StoreResult>, Error> {
        let began = Instant::now();
        let written = self.healing(|| {
            if !as_owner(|owner| sources::exists(owner, self.source))? {
                return Err(crate::run::process::source_dropped(&self.source.name));
            }
            let stored = self.indexer.store(documents, embeddings)?;
            for document in documents {
                let warnings = &document.content.warnings;
                self.report.warn(&document.origin.uri, warnings)?;
            }
            Ok(stored)
        });
        self.report.times.store += began.elapsed().as_secs_f64();
        written
    }

    /// Counts a stored document.
    fn count(
        &mut self,
        document: &PreparedDocument,
        stored: StoreResult,
        embedded: &mut HashSet<EmbeddingKey>,
    ) {
        let counts = &mut self.report.counts;
        *(if stored.added {
            &mut counts.added
        } else {
            &mut counts.updated
        }) += 1;
        counts.with_warnings += i64::from(!document.content.warnings.is_empty());
        let keys = document.keys.iter();
        let old = keys.filter(|key| !embedded.insert(**key)).count();
        counts.chunks_written += stored.chunks as i64;
        counts.chunks_reused += old as i64;
        counts.chunks_embedded += (document.keys.len() - old) as i64;
    }
}
