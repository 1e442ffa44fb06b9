//! The queue of documents: a session adds one to it and goes on, and a background worker indexes
//! it.
//!
//! ```text
//! rag_enqueue_document ──▶ a row ──▶ worker: claim some, commit ──▶ index them, commit
//!                                      ▲                              │ cannot be indexed now
//!                                      └────────── delay ◀────────────┘
//! ```
//!
//! Claimed documents are indexed in one transaction, which also records what became of them. If it
//! fails, each is indexed in a transaction of its own. The rights of the role that has queued a
//! document are checked when it is queued, and when it is indexed.

use std::time::Duration;

use pgrx::pg_sys;

use super::{AddAction, AddedDocument, Body, NewDocument, add, document_type};
use crate::{
    catalog::{
        collections::Collection,
        document_queue::{self as queue, Claimed, GivenDocument, Outcome},
    },
    cluster::news,
    collection::rights,
    error::Error,
    pg::{
        roles::{self, Owner},
        spi::{as_owner, owner_transaction},
        transaction::{roll_back_rest, transaction},
    },
    run::retry,
};

/// Number of attempts after the first one, as for sources.
const MAX_RETRIES: u32 = 3;
/// Delay before the next attempt if the process is lost.
const LOST_DELAY: Duration = Duration::from_secs(60);

/// Adds a document to the queue of a collection that the caller may write to. Returns its id there.
///
/// # Errors
/// A statement fails.
pub fn enqueue(document: NewDocument, collection: &Collection) -> Result<i64, Error> {
    let is_file = matches!(document.body, Body::File(_));
    let given = GivenDocument {
        uri: document.uri,
        title: document.title,
        document_type: document.document_type.map(|it| it.name().to_owned()),
        attributes: document.attributes,
        metadata: document.metadata,
        is_file,
        content: match document.body {
            Body::Text(text) => text.into_bytes(),
            Body::File(bytes) => bytes,
        },
    };
    let caller = Owner::current()?;
    let id = as_owner(|owner| queue::add(owner, collection.name.as_str(), &caller, &given))?;
    news::index_queued_at_commit();
    Ok(id)
}

/// Removes a document from the queue. Returns false if it is not there, or is being indexed.
///
/// # Errors
/// The caller has neither queued it nor may write to its collection.
pub fn dequeue(id: i64) -> Result<bool, Error> {
    let Some((collection, role)) = as_owner(|owner| queue::collection_and_owner(owner, id))? else {
        return Ok(false);
    };
    if !roles::may_act_for(roles::current(), role) {
        let collection = Collection::get(&collection)?;
        // documents of collections that the caller cannot read are not disclosed
        if rights::require_read(&collection).is_err() {
            return Ok(false);
        }
        rights::require_write(&collection)?;
    }
    as_owner(|owner| queue::remove(owner, id))
}

/// Returns the role whose documents are due first, after it has ended those that are hopeless.
///
/// # Errors
/// A statement fails.
pub fn next_role() -> Result<Option<pg_sys::Oid>, Error> {
    owner_transaction(|owner| {
        queue::end_hopeless(owner, MAX_RETRIES + 1)?;
        queue::prune(owner)?;
        Ok(queue::next(owner)?.map(|next| next.role))
    })
}

/// Indexes documents of the current role that are due. Returns false if there are none, or another
/// role's are due first.
///
/// # Errors
/// The worker was cancelled, or a statement on the queue fails.
pub fn index_some() -> Result<bool, Error> {
    let role = roles::current();
    let claimed = owner_transaction(|owner| queue::claim(owner, role, LOST_DELAY))?;
    if claimed.is_empty() {
        return Ok(false);
    }
    // one of several may be what fails them all
    let is_done = claimed.len() > 1 && index(&claimed)?.is_ok();
    if !is_done {
        for document in &claimed {
            if let Err(error) = index(std::slice::from_ref(document))? {
                record_failure(document, &error)?;
            }
        }
    }
    owner_transaction(|owner| queue::end_hopeless(owner, MAX_RETRIES + 1))?;
    Ok(true)
}

/// Indexes claimed documents of one collection in a transaction. Returns what it has failed with.
///
/// # Errors
/// The worker was cancelled.
fn index(claimed: &[Claimed]) -> Result<Result<(), Error>, Error> {
    match roll_back_rest(|| transaction(|| index_here(claimed))) {
        Err(error) if error.cause().ends_statement() => Err(error),
        done => Ok(done),
    }
}

fn index_here(claimed: &[Claimed]) -> Result<(), Error> {
    let Some(first) = claimed.first() else {
        return Ok(());
    };
    let ids: Vec<i64> = claimed.iter().map(|claimed| claimed.id).collect();
    let (ids, given): (Vec<i64>, Vec<GivenDocument>) = as_owner(|owner| queue::lock(owner, &ids))?
        .into_iter()
        .unzip();
    let collection = Collection::get(&first.collection)?;
    rights::require_write(&collection)?;
    let documents: Result<Vec<NewDocument>, Error> = given.into_iter().map(new).collect();
    let added = add(documents?, collection)?;
    as_owner(|owner| {
        let mut pairs = ids.iter().zip(&added);
        pairs.try_for_each(|(id, added)| queue::finish(owner, &outcome(*id, added)))
    })
}

fn new(given: GivenDocument) -> Result<NewDocument, Error> {
    let body = if given.is_file {
        Body::File(given.content)
    } else {
        let text = String::from_utf8(given.content);
        Body::Text(text.map_err(|_| Error::internal("the text of a queued document is corrupted"))?)
    };
    Ok(NewDocument {
        body,
        uri: given.uri,
        title: given.title,
        document_type: given
            .document_type
            .as_deref()
            .map(document_type)
            .transpose()?,
        attributes: given.attributes,
        metadata: given.metadata,
    })
}

fn outcome(id: i64, added: &AddedDocument) -> Outcome<'_> {
    let is_failed = added.action == AddAction::Failed;
    Outcome {
        id,
        document: added.id,
        action: added.action.name(),
        chunks: added.chunks,
        error: is_failed.then(|| added.error.as_deref().unwrap_or("unknown error")),
    }
}

fn record_failure(document: &Claimed, error: &Error) -> Result<(), Error> {
    let next = retry::next_retry(error, MAX_RETRIES, document.failed, document.throttled);
    let throttled = next
        .as_ref()
        .map_or(document.throttled, |next| next.throttled);
    let at = next.map(|next| next.at);
    owner_transaction(|owner| queue::record_failure(owner, document.id, error, at, throttled))
}
