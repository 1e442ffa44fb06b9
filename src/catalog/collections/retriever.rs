//! What a collection has from its retriever.

use rag_definition::retriever::{IndexStrategy, Methods, StorageDefinition};

use super::Collection;

impl Collection {
    /// Returns how the retriever searches.
    pub fn methods(&self) -> Methods {
        self.settings.methods()
    }

    /// Returns where the retriever has the vectors searched.
    pub fn storage(&self) -> &StorageDefinition {
        self.settings.storage()
    }

    /// Returns how the retriever distributes collections over partitions.
    pub fn strategy(&self) -> IndexStrategy {
        self.storage().strategy()
    }

    /// Returns the name of the model that embeds documents and queries. None: the default one.
    pub fn wanted_model(&self) -> Option<&str> {
        let own = self.embedding_model.as_deref();
        own.or_else(|| self.settings.model())
    }
}
