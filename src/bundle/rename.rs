//! Ids of documents of a bundle that is imported under another name.

use std::collections::BTreeMap;

use rag_bundle::Document;
use rag_protocol::identity::DocumentId;
use uuid::Uuid;

use crate::sync::knowledge;

/// What ids of documents in the bundle are made from, and what they are made from here.
#[derive(Clone, Copy)]
pub struct Renaming<'a> {
    pub from: &'a str,
    pub to: &'a str,
    /// The first names of sources that were renamed.
    pub sources: &'a BTreeMap<String, String>,
}

impl Renaming<'_> {
    pub fn is_needed(self) -> bool {
        self.from != self.to
    }

    /// Checks that an id in the bundle is that of a document of a source. A sync deletes what its
    /// source no longer has by such ids, and with others it would delete documents of other
    /// collections.
    ///
    /// # Errors
    /// It is another id.
    pub fn check_id(self, id: Uuid, source: &str, uri: &str) -> Result<(), String> {
        if DocumentId::derive(self.from, Some(self.origin(source)), uri).0 == id {
            Ok(())
        } else {
            Err("has a document_id that is not made from its source and uri".into())
        }
    }

    fn origin<'b>(&'b self, source: &'b str) -> &'b str {
        self.sources.get(source).map_or(source, String::as_str)
    }

    /// Returns the id of a document here. An id that was made from collection, source and uri is
    /// made again with the new name, so that the next sync finds the document. Other ids stay: an
    /// application chose them.
    pub fn id_of(self, document: &Document) -> Uuid {
        if !self.is_needed() {
            return document.document_id;
        }
        let origins = [
            document.source.as_deref().map(|name| self.origin(name)),
            document.former_source.as_deref(),
            None,
        ];
        let by_source = origins.into_iter().find_map(|origin| {
            let made = |collection| DocumentId::derive(collection, origin, &document.uri).0;
            (made(self.from) == document.document_id).then(|| made(self.to))
        });
        let by_item = || {
            let item = document.knowledge_id?;
            let made = |collection| knowledge::document_id(collection, item, &document.uri).0;
            (made(self.from) == document.document_id).then(|| made(self.to))
        };
        let by_given_id = || {
            let given = document.given_id.as_deref()?;
            let made = |collection| DocumentId::derive(collection, None, given).0;
            (made(self.from) == document.document_id).then(|| made(self.to))
        };
        by_source
            .or_else(by_item)
            .or_else(by_given_id)
            .unwrap_or(document.document_id)
    }
}
