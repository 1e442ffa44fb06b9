//! The nearest chunks by the candidates of another server.
//!
//! The server knows the documents as they were replicated last, and nothing of rights. So its
//! candidates are looked up here, with the filter and the caller's rights, and their distances are
//! computed. All chunks of documents that have changed since are candidates, too. If too few
//! candidates are left, the server is asked for more.

use std::collections::HashSet;

use uuid::Uuid;

use super::{
    find::Query,
    notice::Notice,
    statements::{FoundRow, Statements},
    trace::Event,
};
use crate::{
    catalog::access::sees_partition,
    error::Error,
    pg::roles,
    settings,
    storage::{
        outbox::changes,
        remote::{CandidateSearch, RemoteStorage},
    },
    types::vector::OwnedVector,
};

/// If more documents have pending changes, this database alone is searched.
const MAX_PENDING: usize = 1000;
/// The server is asked for this many times as many as are wanted: those with equal distances may
/// come in another order.
const SURPLUS: usize = 2;
/// If too few candidates are left, the next request is for this many times as many.
const GROWTH: usize = 5;
/// The maximum number of candidates of a request.
const MAX_CANDIDATES: usize = 10_000;

impl Query<'_> {
    /// Returns the nearest chunks by the candidates of another server. Returns None if this
    /// database alone must be searched.
    pub fn nearest_of_server(
        &self,
        server: RemoteStorage,
        statements: &Statements<'_>,
        embedding: &OwnedVector,
        limit: usize,
    ) -> Result<Option<Vec<FoundRow>>, Error> {
        let collection = &self.request.collection;
        let name = collection.name.as_str();
        let pending = changes::documents(name, MAX_PENDING + 1)?;
        if pending.len() > MAX_PENDING {
            self.trace.note(|| Event::ManyPending(MAX_PENDING));
            return Ok(None);
        }
        let vector = Vec::from(embedding.clone());
        let mut limit_of_server = limit.saturating_mul(SURPLUS).min(MAX_CANDIDATES);
        loop {
            let search = CandidateSearch {
                collection,
                vector: &vector,
                limit: limit_of_server,
                ef_search: settings::ef_search().max(limit_of_server).max(200),
                labels: self.request.filter.required_labels(),
            };
            let candidates = match server.candidates(&search) {
                Ok(candidates) => candidates,
                Err(error) => {
                    self.trace.tell(unavailable(&error));
                    return Ok(None);
                }
            };
            let named = candidates.len();
            let known: HashSet<Uuid> = pending.iter().copied().collect();
            let (documents, chunks): (Vec<Uuid>, Vec<Uuid>) = candidates
                .iter()
                .filter(|point| !known.contains(&point.document))
                .map(|point| (point.document, point.chunk))
                .unzip();
            let mut rows = statements.run(&statements.among(&documents, &chunks))?;
            if !pending.is_empty() {
                rows.extend(statements.run(&statements.of_documents(&pending))?);
            }
            // the numbers would tell of rows that policies hide
            if sees_partition(collection) {
                self.trace.note(|| Event::OfServer {
                    named,
                    pending: pending.len(),
                    found: rows.len(),
                });
            }
            // these are all that the server has
            if rows.len() >= limit || named < limit_of_server {
                return Ok(Some(rows));
            }
            if limit_of_server == MAX_CANDIDATES {
                self.trace.note(|| Event::FewOfServer);
                return Ok(None);
            }
            limit_of_server = limit_of_server.saturating_mul(GROWTH).min(MAX_CANDIDATES);
        }
    }
}

/// Returns that the server could not be asked. Only administrators learn its address.
fn unavailable(error: &Error) -> Notice {
    const MESSAGE: &str = "the search reads this database alone, because its server is unavailable";
    let notice = Notice::of_error(error, MESSAGE);
    if !roles::is_admin() {
        return notice;
    }
    let mut detail = error.message.clone();
    if let Some(more) = &error.detail {
        detail = format!("{detail}: {more}");
    }
    let notice = notice.detail(detail);
    match &error.hint {
        Some(hint) => notice.hint(hint),
        None => notice,
    }
}
