//! What a rebuild builds: the wanted settings, and the model.

use serde_json::{Value, json};

use crate::{
    catalog::{
        collections::{Collection, StoredModel},
        partitions::{self, Partition},
        rebuilds::Rebuild,
        retrievers,
    },
    collection::{damage, placement},
    error::Error,
    models::embedding::EmbeddingModel,
    pg::spi::OwnerRights,
    sync::indexer::Indexer,
};

pub struct Target {
    /// The collection as its chunks are now.
    pub present: Collection,
    /// Indexes by the wanted settings.
    pub indexer: Indexer,
    /// See `rag.documents.chunking`.
    pub chunking: String,
    /// The present chunks cannot all be read.
    pub is_damaged: bool,
    /// Everything that the new storage depends on.
    pub description: Value,
}

impl Target {
    /// Returns what a rebuild builds, or None if the collection has no chunks.
    ///
    /// # Errors
    /// The collection was dropped, or the engine cannot load the model.
    pub fn of(present: Collection) -> Result<Option<Self>, Error> {
        if present.partition.is_none() {
            return Ok(None);
        }
        let mut wanted = Collection::wanted(present.name.as_str())?;
        let retriever = &wanted.definition.retriever;
        if retrievers::find(retriever)?.is_none() {
            return Err(retrievers::missing(retriever));
        }
        let embedder = EmbeddingModel::of_collection(&wanted)?;
        let model = embedder.info_now()?;
        wanted.model = Some(StoredModel::of(&model));
        let indexer = Indexer {
            collection: wanted,
            embedder,
            model,
            usual_language: Default::default(),
        };
        let (wanted, chunking) = (&indexer.collection, indexer.chunking());
        let description = json!({
            "chunking": chunking,
            "metadata_whitelist": wanted.definition.metadata_whitelist,
            "layout": wanted.layout(),
        });
        Ok(Some(Self {
            is_damaged: damage::is_table_marked(&present)?,
            present,
            chunking,
            description,
            indexer,
        }))
    }

    /// Returns the collection with the wanted settings.
    pub fn wanted(&self) -> &Collection {
        &self.indexer.collection
    }

    /// Returns true if a rebuild that has begun builds the same.
    pub fn is_of(&self, rebuild: &Rebuild) -> bool {
        rebuild.target == self.description
    }

    /// Returns true if embeddings of the present model can be copied.
    pub fn keeps_model(&self) -> bool {
        let present = self.present.model.as_ref();
        present.is_some_and(|model| model.fingerprint == self.indexer.model.fingerprint)
    }

    /// Returns true if chunks carry other metadata than before.
    pub fn changes_metadata(&self) -> bool {
        self.present.definition.metadata_whitelist != self.wanted().definition.metadata_whitelist
            || self.gains_languages()
    }

    /// Returns true if languages of documents are to be detected.
    pub fn gains_languages(&self) -> bool {
        self.wanted().detects_language() && !self.present.detects_language()
    }

    /// Returns true if texts are split otherwise than before.
    pub fn changes_texts(&self) -> bool {
        self.present.splitting() != self.wanted().splitting()
    }

    /// Returns true if new chunks of the same texts would be others than before.
    pub fn changes_chunks(&self) -> bool {
        !self.keeps_model() || self.changes_metadata() || self.changes_texts()
    }

    /// Returns true if chunks were copied with changes.
    pub fn has_new_chunks(&self, owner: &OwnerRights) -> Result<bool, Error> {
        let found = owner.query(
            "SELECT FROM rag_internal.rebuilt_document WHERE collection = $1 AND digest IS NOT NULL
             LIMIT 1",
            &[self.wanted().name.as_str().into()],
            |_| Ok(()),
        )?;
        Ok(!found.is_empty())
    }

    /// Returns true if the rows end in a partition that may have those of other collections, too.
    pub fn joins_shared(&self) -> bool {
        self.wanted().strategy().is_shared()
    }

    /// Returns true if the rows do not end in the partition of other collections: the relation that
    /// is filled becomes their partition, with its indexes.
    pub fn has_own_relation(&self, owner: &OwnerRights) -> Result<bool, Error> {
        Ok(!self.joins_shared() || placement::is_wanted_alone(owner, self.wanted())?)
    }

    /// Returns the partition that the rows in a relation are for.
    pub fn partition_of(&self, relation: &Partition) -> Partition {
        match self.joins_shared() {
            true => placement::wanted(self.wanted()),
            false => relation.clone(),
        }
    }

    /// Returns the name of a relation that does not exist yet, for the new rows.
    pub fn new_relation(&self, owner: &OwnerRights) -> Result<Partition, Error> {
        match self.joins_shared() {
            true => partitions::free_name(owner, &format!("rag_rebuild_{}", self.wanted().name)),
            false => partitions::free_name(owner, placement::wanted(self.wanted()).name()),
        }
    }

    /// Returns the part of the partition's rows that are those of the collection, 0 to 1.
    pub fn share_of_partition(&self, owner: &OwnerRights) -> Result<f64, Error> {
        let found = owner.query(
            "SELECT (SELECT sum(d.chunk_count) FROM rag.documents d
                     WHERE d.collection = $1)::float8
                    / nullif((SELECT sum(d.chunk_count)
                              FROM rag.documents d JOIN rag_internal.collection c
                                  ON c.name = d.collection
                              WHERE c.partition = $2), 0) AS share",
            &[
                self.wanted().name.as_str().into(),
                self.present.partition.as_ref().map(Partition::name).into(),
            ],
            |row| row.get::<f64>("share"),
        )?;
        Ok(found.into_iter().flatten().next().unwrap_or(1.0))
    }

    /// Returns true if an application has split documents of the collection itself.
    pub fn has_given_chunks(&self, owner: &OwnerRights) -> Result<bool, Error> {
        let found = owner.query(
            "SELECT FROM rag.documents WHERE collection = $1 AND chunking = 'given' LIMIT 1",
            &[self.wanted().name.as_str().into()],
            |_| Ok(()),
        )?;
        Ok(!found.is_empty())
    }
}
