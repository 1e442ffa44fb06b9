//! Documents that a transaction has inserted, and not written yet.
//!
//! A transaction collects its documents in memory, and writes those of an index together: before it
//! commits, before it reads the index itself, or when they have used up half of
//! `maintenance_work_mem`. So a bulk load writes large segments at once, and leaves no pages behind
//! that the same transaction could not use again. No other transaction can miss a document
//! meanwhile, because it does not see the rows.
//!
//! Until then vacuum does not find the documents. A row whose subtransaction has been rolled back
//! may have been removed, and its place given to another one. So each row is looked at before its
//! document is written: the transaction itself must have inserted it.
//!
//! Serializable transactions that search the index meanwhile do not meet the rows. So they are
//! looked for when the documents are written, as PostgreSQL does when a row is inserted.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::{
    cache::{self, OpenedIndex},
    index_error,
};
use crate::{
    error::Error,
    index::am::{
        NewRow, heap,
        relation::{
            FileId, Index, LockedIndex, Relation, relation_name, relation_with_file, table_of,
        },
    },
    pg::{
        memory::maintenance_work_mem,
        transaction::{self, TransactionEnd},
    },
};
use pgrx::{PgSqlErrorCode, pg_sys};
use rag_bm25::{Collected, Terms};

/// Documents take at most this much memory, whatever the setting.
const MAX_BYTES: usize = 256 << 20;

/// The documents of an index.
struct Batch {
    index: pg_sys::Oid,
    file: FileId,
    /// Its contents. TRUNCATE and REINDEX begin others.
    opened: Rc<OpenedIndex>,
    documents: Collected,
    /// Others have been written in this transaction.
    has_written: bool,
    /// They are being written, or could not be.
    is_failed: bool,
}

impl Batch {
    fn has_contents(&self, opened: &OpenedIndex) -> bool {
        self.opened.description.identity == opened.description.identity
    }
}

thread_local! {
    static BATCHES: RefCell<Vec<Batch>> = const { RefCell::new(vec![]) };
    /// All documents of the transaction have been written, so that later ones are written at once.
    static IS_COMMITTING: Cell<bool> = const { Cell::new(false) };
}

/// Adds a document to those that this transaction writes later.
pub fn add(
    table: Relation<'_>,
    index: Index<'_>,
    opened: &Rc<OpenedIndex>,
    row: NewRow,
    terms: &Terms,
) -> Result<(), Error> {
    if IS_COMMITTING.get() || row.is_of_others || !table.is_heap() {
        return rag_bm25::insert(&opened.pages(index), row.tid, terms)
            .map_err(|e| index_error(*index, e));
    }
    transaction::before_commit(write_all);
    transaction::on_end(forget);
    let largest = BATCHES.with_borrow_mut(|batches| {
        let place = batches
            .iter()
            .rposition(|batch| batch.index == index.id() && batch.has_contents(opened));
        let place = place.unwrap_or_else(|| {
            batches.push(Batch {
                index: index.id(),
                file: index.file_id(),
                opened: Rc::clone(opened),
                documents: Collected::default(),
                has_written: false,
                is_failed: false,
            });
            batches.len() - 1
        });
        let documents = &mut batches[place].documents;
        let before = documents.bytes();
        documents
            .add(row.tid, terms)
            .map_err(|e| index_error(*index, e))?;
        let has_grown = documents.bytes() > before;
        Ok::<_, Error>(if has_grown { too_large(batches) } else { None })
    })?;
    largest.map_or(Ok(()), write)
}

/// Returns the index with the most documents, if all of them take too much memory.
fn too_large(batches: &[Batch]) -> Option<pg_sys::Oid> {
    let limit = (maintenance_work_mem() / 2).min(MAX_BYTES);
    let bytes: usize = batches.iter().map(|batch| batch.documents.bytes()).sum();
    let largest = batches.iter().max_by_key(|batch| batch.documents.bytes());
    largest.filter(|_| bytes > limit).map(|batch| batch.index)
}

/// Writes the documents of an index. It is called before each read of the index.
///
/// # Errors
/// The index is corrupted. Memory runs out. Writing has failed before in this transaction.
pub fn write(index: pg_sys::Oid) -> Result<(), Error> {
    let find = |batches: &Vec<Batch>| {
        let mut all = batches.iter();
        all.position(|batch| {
            batch.index == index && (batch.is_failed || !batch.documents.is_empty())
        })
    };
    while let Some(place) = BATCHES.with_borrow(find) {
        write_batch(place)?;
    }
    Ok(())
}

/// Writes all documents, before the transaction commits.
fn write_all() -> Result<(), Error> {
    for place in 0..BATCHES.with_borrow(Vec::len) {
        write_batch(place)?;
    }
    IS_COMMITTING.set(true);
    Ok(())
}

fn forget(_end: TransactionEnd) {
    BATCHES.with_borrow_mut(Vec::clear);
    IS_COMMITTING.set(false);
}

fn write_batch(place: usize) -> Result<(), Error> {
    let mut batch = BATCHES.with_borrow_mut(|batches| {
        let batch = &mut batches[place];
        let taken = Batch {
            documents: std::mem::take(&mut batch.documents),
            opened: Rc::clone(&batch.opened),
            ..*batch
        };
        batch.is_failed = true;
        taken
    });
    if batch.is_failed {
        return Err(failed_before(batch.index));
    }
    let has_written = batch.has_written | write_documents(&mut batch)?;
    BATCHES.with_borrow_mut(|batches| {
        batches[place].is_failed = false;
        batches[place].has_written = has_written;
    });
    Ok(())
}

/// Writes the documents of rows that this transaction has inserted. Returns false if there is
/// nothing to write.
fn write_documents(batch: &mut Batch) -> Result<bool, Error> {
    if batch.documents.is_empty() {
        return Ok(false);
    }
    // An extension that rewrites a table may have given the file to another index.
    let by_file = std::iter::once_with(|| relation_with_file(batch.file));
    for index in std::iter::once(Some(batch.index)).chain(by_file) {
        let index = index.and_then(|index| Some((index, table_of(index)?)));
        let Some((index, table)) = index else {
            continue; // dropped
        };
        let lock = pg_sys::RowExclusiveLock;
        let Some(relations) = LockedIndex::open_for(index, table, lock) else {
            continue;
        };
        let index = relations.index();
        let is_same = index.file_id() == batch.file && !index.has_new_file();
        if is_same || batch.has_contents(&*cache::open_to_insert(index)?) {
            write_to(&relations, batch)?;
            return Ok(true);
        }
    }
    Ok(false) // it has been filled again, with the rows that there were
}

fn write_to(relations: &LockedIndex, batch: &mut Batch) -> Result<(), Error> {
    let index = relations.index();
    index.check_readers();
    batch
        .documents
        .retain(heap::inserted_rows(relations.table()))
        .map_err(|e| index_error(*index, e))?;
    std::mem::take(&mut batch.documents)
        .write(&batch.opened.pages(index), batch.has_written)
        .map_err(|e| index_error(*index, e))
}

/// An error in a subtransaction that has been rolled back. The rows before it would be missing in
/// the index.
fn failed_before(index: pg_sys::Oid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        format!(
            "could not write to index \"{}\" earlier in this transaction",
            relation_name(index)
        ),
    )
    .hint("Repeat the transaction.")
}
