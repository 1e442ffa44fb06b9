//! The most that sources and collections may store.

use std::collections::HashMap;

use pgrx::PgSqlErrorCode;
use rag_definition::Quota;
use rag_protocol::identity::DocumentId;

use crate::{
    catalog::{
        collections::Collection,
        quotas::{StoredTexts, stored_texts},
        sources::Source,
    },
    error::{Cause, Error},
};

/// What a source or a collection stores.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    documents: i64,
    /// The size of the texts.
    bytes: i64,
}

impl Usage {
    fn add(&mut self, bytes: i64) {
        self.documents += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: i64) {
        self.documents -= 1;
        self.bytes -= bytes;
    }

    /// # Errors
    /// More is stored than the quota allows.
    fn check(self, quota: Quota, what: &str) -> Result<(), Error> {
        let limits = [
            (
                self.documents,
                quota.max_documents,
                "documents",
                "max_documents",
            ),
            (self.bytes, quota.max_bytes, "bytes of text", "max_bytes"),
        ];
        for (used, limit, unit, argument) in limits {
            if let Some(limit) = limit.filter(|limit| used > *limit) {
                return Err(exceeded(what, limit, unit, argument));
            }
        }
        Ok(())
    }
}

fn exceeded(what: &str, limit: i64, unit: &str, argument: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("{what} may have at most {limit} {unit}"),
    )
    .detail(format!("The limit is its {argument}."))
    .hint("Remove documents, or raise the limit.")
    .because(Cause::Quota)
}

/// Checks what a collection stores after a write. A concurrent transaction may write meanwhile.
///
/// # Errors
/// More is stored than the quota allows.
pub fn check(collection: &Collection) -> Result<(), Error> {
    if collection.definition.quota().is_unlimited() {
        return Ok(());
    }
    let (usage, _) = usage(collection.name.as_str(), None)?;
    usage.check(collection.definition.quota(), &named(collection))
}

/// Checks a number of documents that are about to be written into a new collection.
///
/// # Errors
/// They are more than its quota allows.
pub fn check_documents(collection: &Collection, documents: u64) -> Result<(), Error> {
    let usage = Usage {
        documents: i64::try_from(documents).unwrap_or(i64::MAX),
        bytes: 0,
    };
    usage.check(collection.definition.quota(), &named(collection))
}

fn named(collection: &Collection) -> String {
    format!("collection \"{}\"", collection.name)
}

fn usage(
    collection: &str,
    source: Option<&str>,
) -> Result<(Usage, HashMap<DocumentId, i64>), Error> {
    let StoredTexts {
        documents,
        bytes,
        of_source,
    } = stored_texts(collection, source)?;
    Ok((Usage { documents, bytes }, of_source))
}

/// Counts what a run leaves in a collection: the documents that its source still has, and those of
/// others. Documents that the source no longer has do not count, because the run deletes them at
/// its end.
pub struct Meter {
    of_source: Quota,
    of_collection: Quota,
    source: String,
    collection: String,
    /// Documents that were stored before the run, with their sizes.
    stored: HashMap<DocumentId, i64>,
    counted: HashMap<DocumentId, i64>,
    own: Usage,
    others: Usage,
}

impl Meter {
    /// Returns None if there is no quota. A run that `lists_all` reports all documents of the
    /// source. Otherwise the source keeps those that the run does not report.
    pub fn start(
        source: &Source,
        collection: &Collection,
        lists_all: bool,
    ) -> Result<Option<Self>, Error> {
        if source.quota.is_unlimited() && collection.definition.quota().is_unlimited() {
            return Ok(None);
        }
        let (others, stored) = usage(collection.name.as_str(), Some(source.name.as_str()))?;
        let mut meter = Self {
            of_source: source.quota,
            of_collection: collection.definition.quota(),
            source: format!("source \"{}\"", source.name),
            collection: named(collection),
            stored,
            counted: HashMap::new(),
            own: Usage::default(),
            others,
        };
        if !lists_all {
            meter.counted = meter.stored.clone();
            meter
                .counted
                .values()
                .for_each(|bytes| meter.own.add(*bytes));
        }
        Ok(Some(meter))
    }

    /// Counts a document whose text has a size.
    ///
    /// # Errors
    /// It is too much. Then it is not counted.
    pub fn count(&mut self, id: DocumentId, bytes: usize) -> Result<(), Error> {
        let before = self.counted.get(&id).copied();
        self.set(id, Some(i64::try_from(bytes).unwrap_or(i64::MAX)));
        let result = self.check();
        if result.is_err() {
            self.set(id, before);
        }
        result
    }

    /// Counts a document that stays as it is stored.
    ///
    /// # Errors
    /// It is too much.
    pub fn keep(&mut self, id: DocumentId) -> Result<(), Error> {
        self.set(id, self.stored.get(&id).copied());
        self.check()
    }

    /// Counts a document no longer.
    pub fn remove(&mut self, id: DocumentId) {
        self.set(id, None);
    }

    fn set(&mut self, id: DocumentId, bytes: Option<i64>) {
        let before = match bytes {
            Some(bytes) => self.counted.insert(id, bytes),
            None => self.counted.remove(&id),
        };
        if let Some(before) = before {
            self.own.remove(before);
        }
        if let Some(bytes) = bytes {
            self.own.add(bytes);
        }
    }

    fn check(&self) -> Result<(), Error> {
        let all = Usage {
            documents: self.own.documents + self.others.documents,
            bytes: self.own.bytes.saturating_add(self.others.bytes),
        };
        self.own.check(self.of_source, &self.source)?;
        all.check(self.of_collection, &self.collection)
    }
}
