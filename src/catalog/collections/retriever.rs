//! What a collection has from its retriever.

use rag_definition::{
    collection::Layout,
    retriever::{IndexStrategy, Methods, StorageDefinition},
};

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
        self.definition.model(&self.settings)
    }

    /// Returns what the indexes of the chunks are made of.
    pub fn layout(&self) -> Layout {
        self.definition.layout(&self.settings)
    }
}
