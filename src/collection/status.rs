//! The state of a collection: one word, its reasons, and remedies.
//!
//! Documents are counted with the caller's rights, so that row-level security applies. Sizes and
//! corruption concern the whole collection.

use pgrx::spi::quote_literal;
use rag_definition::retriever::StorageType;

use super::{
    damage::explained,
    figures::{self, CollectionCounts, CollectionFigures, Division},
};
use crate::{
    catalog::{access, collections::Collection},
    error::{Cause, Error},
    pg::{
        roles,
        spi::{Rights, as_caller, as_owner},
    },
};

/// The number of bytes of an embedding before its elements.
const EMBEDDING_HEADER: i64 = 8;

pub struct CollectionStatus {
    pub name: String,
    pub counts: CollectionCounts,
    pub figures: CollectionFigures,
    /// Why the documents cannot be counted: a relation that all collections share is damaged.
    problem: Option<String>,
}

impl CollectionStatus {
    pub fn embedding_bytes(&self) -> i64 {
        let dimensions = self.figures.dimensions.map_or(0, i64::from);
        let bytes = self.counts.chunks * (EMBEDDING_HEADER + dimensions * 4);
        bytes.min(self.figures.table_bytes)
    }

    /// Returns the size of the chunks without their embeddings.
    pub fn chunk_bytes(&self) -> i64 {
        self.figures.table_bytes - self.embedding_bytes()
    }

    pub fn total_bytes(&self) -> i64 {
        self.counts.text_bytes + self.figures.table_bytes + self.figures.index_bytes
    }

    /// Returns true if the embeddings are indexed.
    pub fn has_vector_index(&self) -> bool {
        self.figures.vector_index_method.is_some()
    }

    /// Returns by what the vectors are searched.
    pub fn index_type(&self) -> &str {
        let built = self.figures.vector_index_method.as_deref();
        let server = || {
            StorageType::parse(&self.figures.storage_type)
                .filter(|storage| storage.server().is_some())
        };
        let used = built
            .and_then(StorageType::of_access_method)
            .or_else(server);
        used.unwrap_or(StorageType::Flat).name()
    }

    /// Returns the state as one word.
    pub fn state(&self) -> &'static str {
        let (counts, figures) = (&self.counts, &self.figures);
        if self.is_damaged() {
            "damaged"
        } else if figures.is_building {
            "building"
        } else if figures.pending > 0 {
            "syncing"
        } else if self.is_stale() {
            "stale"
        } else if counts.errors > 0 {
            "degraded"
        } else if counts.is_mixed {
            "mixed"
        } else if counts.documents == 0 {
            "empty"
        } else {
            "ready"
        }
    }

    /// Returns the reason for the state, and a remedy.
    pub fn detail(&self) -> Option<String> {
        let mut parts = self.damage();
        parts.extend(self.building());
        parts.extend(self.pending());
        parts.extend(self.staleness());
        parts.extend(self.errors());
        if self.counts.is_mixed {
            parts.push(
                "documents were split or embedded with other settings than the rest; the next sync \
                 indexes those of sources again"
                    .into(),
            );
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn is_damaged(&self) -> bool {
        let figures = &self.figures;
        figures.damaged_indexes.is_some()
            || figures.damaged_table.is_some()
            || self.problem.is_some()
    }

    /// Returns what is damaged, with remedies.
    fn damage(&self) -> Vec<String> {
        let indexes = self.figures.damaged_indexes.as_ref().map(|problem| {
            format!(
                "{problem}; searches read the table until the next sync or REINDEX rebuilds the \
                 index"
            )
        });
        let table = self.figures.damaged_table.as_ref().map(|problem| {
            format!(
                "{problem}; the next sync or {} writes the chunks again from the stored texts",
                self.rebuild_call()
            )
        });
        let parts = [table, indexes, self.problem.clone()];
        parts.into_iter().flatten().collect()
    }

    fn building(&self) -> Option<String> {
        let what = match self.figures.rebuild {
            Some(true) => "the collection is being rebuilt; see rag.progress",
            _ => "an index is being created; see pg_stat_progress_create_index",
        };
        self.figures.is_building.then(|| what.into())
    }

    fn pending(&self) -> Option<String> {
        let (storage, number) = (&self.figures.storage_type, self.figures.pending);
        let documents = documents(number);
        let why = match &self.figures.pending_error {
            Some(error) => format!("; it is tried again, because {error}"),
            None => String::new(),
        };
        (number > 0).then(|| {
            format!(
                "storage \"{storage}\" does not have the last changes of {number} {documents}{why}"
            )
        })
    }

    fn is_stale(&self) -> bool {
        let figures = &self.figures;
        !figures.wanted.is_empty() || figures.has_other_options || figures.rebuild == Some(false)
    }

    /// Returns why a rebuild is needed, and the remedy.
    fn staleness(&self) -> Option<String> {
        let figures = &self.figures;
        let wanted = (!figures.wanted.is_empty())
            .then(|| format!("changes wait for a rebuild: {}", figures.wanted.join(", ")));
        let options = figures.has_other_options.then(|| {
            "the retriever names another strategy, or other options of the index".to_owned()
        });
        let interrupted =
            (figures.rebuild == Some(false)).then(|| "a rebuild was interrupted".to_owned());
        let reasons = [wanted, options, interrupted];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        self.is_stale()
            .then(|| format!("{}; {}", reasons.join(", "), self.rebuild_call()))
    }

    fn errors(&self) -> Option<String> {
        let (number, documents) = (self.counts.errors, documents(self.counts.errors));
        (number > 0).then(|| {
            format!("{number} {documents} could not be indexed; see column error of rag.documents")
        })
    }

    fn rebuild_call(&self) -> String {
        format!("CALL rag_rebuild_collection({})", quote_literal(&self.name))
    }
}

fn documents(number: i64) -> &'static str {
    if number == 1 { "document" } else { "documents" }
}

/// Returns the status of a collection that the caller may read. There is none if it was dropped.
///
/// # Errors
/// A statement fails.
pub fn of(collection: &Collection) -> Result<Option<CollectionStatus>, Error> {
    // a check for each document would take longer with each collection
    of_one(collection, access::sees_every_document(collection))
}

/// `as_owner`: all documents are counted, not only those that the caller sees.
fn of_one(collection: &Collection, as_owner: bool) -> Result<Option<CollectionStatus>, Error> {
    let name = collection.name.as_str();
    let count = || with_rights(as_owner, |rights| figures::counts(rights, Some(name)));
    let (counted, problem) = match explained(count) {
        Err(error) if error.is(Cause::Corrupt) => {
            let problem = match &error.hint {
                Some(hint) => format!("{error}: {hint}"),
                None => error.to_string(),
            };
            let unknown = (name.to_owned(), CollectionCounts::default());
            (vec![unknown], Some(problem))
        }
        counted => (counted?, None),
    };
    let found = with_figures(counted, Some(name))?.into_iter().next();
    Ok(found.map(|status| CollectionStatus { problem, ..status }))
}

/// Returns the status of all collections that the caller may read, by name. If `rag.documents` is
/// damaged, that of each collection whose documents can be read, and the error for the others.
///
/// # Errors
/// A statement fails.
pub fn of_all() -> Result<Vec<CollectionStatus>, Error> {
    of_each(false)
}

/// Returns the status of all collections that the caller may read or monitor, as [`of_all`] does.
///
/// # Errors
/// A statement fails.
pub fn of_all_monitored() -> Result<Vec<CollectionStatus>, Error> {
    of_each(roles::is_monitor(roles::current()))
}

fn with_rights<R>(of_owner: bool, f: impl FnOnce(&Rights) -> R) -> R {
    if of_owner {
        as_owner(|owner| f(owner))
    } else {
        as_caller(f)
    }
}

fn of_each(as_owner: bool) -> Result<Vec<CollectionStatus>, Error> {
    match explained(|| with_rights(as_owner, |rights| figures::counts(rights, None))) {
        Err(error) if error.is(Cause::Corrupt) => {
            let mut all = vec![];
            for name in with_rights(as_owner, figures::names)? {
                // it may have been dropped
                if let Some(collection) = Collection::find(&name)? {
                    let as_owner = as_owner || access::sees_every_document(&collection);
                    all.extend(of_one(&collection, as_owner)?);
                }
            }
            Ok(all)
        }
        counted => with_figures(counted?, None),
    }
}

/// Adds what does not depend on the caller. That documents cannot be read is no error.
fn with_figures(
    counted: Vec<(String, CollectionCounts)>,
    only: Option<&str>,
) -> Result<Vec<CollectionStatus>, Error> {
    let read = |division| figures::figures(only, division);
    let mut figures = match explained(|| read(Division::ByChunks)) {
        Err(error) if error.is(Cause::Corrupt) => read(Division::None)?,
        figures => figures?,
    };
    let status = |(name, counts): (String, CollectionCounts)| {
        Some(CollectionStatus {
            figures: figures.remove(&name)?,
            name,
            counts,
            problem: None,
        })
    };
    Ok(counted.into_iter().filter_map(status).collect())
}
