//! Rows that a transaction has inserted, and not written to their index yet.
//!
//! A transaction collects the rows of an index in memory, and writes them together: before it
//! commits, before it reads the index itself, or when they have used up half of
//! `maintenance_work_mem`. No other transaction can miss a row meanwhile, because it does not see
//! the rows.
//!
//! Until then vacuum does not find the rows in the index. A row whose subtransaction has been
//! rolled back may have been removed, and its place given to another one. So each row is looked at
//! before it is written: the transaction itself must have inserted it.
//!
//! Serializable transactions that search the index meanwhile do not meet the rows. So they are
//! looked for when the rows are written, as PostgreSQL does when a row is inserted.

use std::{
    any::Any,
    cell::{Cell, RefCell},
};

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_pages::{
    Tid,
    memory::{OutOfMemory, push},
};

use super::{
    NewRow, heap,
    relation::{FileId, Index, LockedIndex, Relation, relation_name, relation_with_file, table_of},
};
use crate::{
    error::Error,
    pg::{
        memory::maintenance_work_mem,
        transaction::{self, TransactionEnd},
    },
};

/// Rows take at most this much memory, whatever the setting.
const MAX_BYTES: usize = 256 << 20;

/// The collected rows of an index.
pub trait CollectedRows: Any {
    /// Returns true if an index has the contents that the rows are for. TRUNCATE and REINDEX begin
    /// others.
    fn are_of(&self, index: Index<'_>) -> Result<bool, Error>;

    fn is_empty(&self) -> bool;

    /// Returns the bytes of memory in use.
    fn bytes(&self) -> usize;

    /// Writes the rows that this transaction has inserted, and forgets all. `has_written` says that
    /// others were written before in this transaction.
    ///
    /// # Errors
    /// The index is corrupted. Memory runs out.
    fn write(&mut self, relations: &LockedIndex, has_written: bool) -> Result<(), Error>;
}

/// The (sub)transactions that have inserted collected rows.
#[derive(Default)]
pub struct Inserters(Vec<(usize, pg_sys::TransactionId)>);

impl Inserters {
    /// Notes that the row at a position is one of the present (sub)transaction. Positions ascend.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn note(&mut self, position: usize) -> Result<(), OutOfMemory> {
        let inserter = transaction::id_if_any();
        match self.0.last() {
            Some((_, last)) if *last == inserter => Ok(()),
            _ => push(&mut self.0, (position, inserter)),
        }
    }

    /// Returns a function that tells if the row at a place that indexes have of it is still the one
    /// at a position.
    pub fn present_rows(self, table: Relation<'_>) -> impl Fn(Tid, usize) -> bool {
        let is_inserted = heap::inserted_rows(table);
        move |tid, position| {
            let later = self.0.partition_point(|(first, _)| *first <= position);
            let inserter = later.checked_sub(1).and_then(|last| self.0.get(last));
            inserter.is_some_and(|(_, inserter)| is_inserted(tid, *inserter))
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
}

struct Batch {
    index: pg_sys::Oid,
    file: FileId,
    /// `None` while they are being written.
    rows: Option<Box<dyn CollectedRows>>,
    /// They could not be written.
    has_failed: bool,
    /// Others have been written in this transaction.
    has_written: bool,
}

thread_local! {
    static BATCHES: RefCell<Vec<Batch>> = const { RefCell::new(vec![]) };
    /// All rows of the transaction have been written, so that later ones are written at once.
    static IS_COMMITTING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if a row is to be collected, not written at once.
pub fn is_collected(table: Relation<'_>, row: NewRow) -> bool {
    !IS_COMMITTING.get() && !row.is_of_others && table.is_heap()
}

/// Calls `f` with the rows of an index of which `is_present` says that they are for its present
/// contents, if there are some. `f` must neither raise an ERROR nor call this file.
pub fn with<R: CollectedRows, T>(
    index: Index<'_>,
    is_present: impl Fn(&R) -> bool,
    f: impl FnOnce(&mut R) -> T,
) -> Option<T> {
    BATCHES.with_borrow_mut(|batches| {
        let place = place_of(batches, index, is_present)?;
        rows_at(batches, place).map(f)
    })
}

/// [`with`] for an `f` that adds rows to those that there are, or to `new` ones. Writes the most
/// numerous rows if all of them take too much memory afterwards.
///
/// # Errors
/// Those of `f`, and those of [`write`].
pub fn add<R: CollectedRows>(
    index: Index<'_>,
    is_present: impl Fn(&R) -> bool,
    new: impl FnOnce() -> R,
    f: impl FnOnce(&mut R) -> Result<(), Error>,
) -> Result<(), Error> {
    transaction::before_commit(write_all);
    transaction::on_end(forget);
    let largest = BATCHES.with_borrow_mut(|batches| {
        let place = place_of(batches, index, is_present).unwrap_or_else(|| {
            batches.push(Batch {
                index: index.id(),
                file: index.file_id(),
                rows: Some(Box::new(new())),
                has_failed: false,
                has_written: false,
            });
            batches.len() - 1
        });
        let Some(rows) = rows_at::<R>(batches, place) else {
            return Err(failed_before(index.id()));
        };
        let before = rows.bytes();
        f(rows)?;
        let has_grown = rows.bytes() > before;
        Ok(if has_grown { too_large(batches) } else { None })
    })?;
    largest.map_or(Ok(()), write)
}

fn place_of<R: CollectedRows>(
    batches: &[Batch],
    index: Index<'_>,
    is_present: impl Fn(&R) -> bool,
) -> Option<usize> {
    batches.iter().rposition(|batch| {
        let is_of = batch.index == index.id() && !batch.has_failed;
        let rows = batch.rows.as_deref().filter(|_| is_of);
        let rows = rows.and_then(|rows| (rows as &dyn Any).downcast_ref::<R>());
        rows.is_some_and(&is_present)
    })
}

fn rows_at<R: CollectedRows>(batches: &mut [Batch], place: usize) -> Option<&mut R> {
    let rows: &mut dyn Any = batches.get_mut(place)?.rows.as_deref_mut()?;
    rows.downcast_mut()
}

/// Returns the index with the most rows, if all of them take too much memory.
fn too_large(batches: &[Batch]) -> Option<pg_sys::Oid> {
    let limit = (maintenance_work_mem() / 2).min(MAX_BYTES);
    let bytes = |batch: &Batch| match &batch.rows {
        Some(rows) if !batch.has_failed => rows.bytes(),
        _ => 0,
    };
    let all: usize = batches.iter().map(bytes).sum();
    let largest = batches.iter().max_by_key(|batch| bytes(batch));
    largest.filter(|_| all > limit).map(|batch| batch.index)
}

/// Writes the rows of an index. It is called before each read of the index.
///
/// # Errors
/// The index is corrupted. Memory runs out. Writing has failed before in this transaction.
pub fn write(index: pg_sys::Oid) -> Result<(), Error> {
    let is_due = |batch: &Batch| {
        let has_rows = batch.rows.as_ref().is_none_or(|rows| !rows.is_empty());
        batch.index == index && (has_rows || batch.has_failed)
    };
    for place in 0..BATCHES.with_borrow(Vec::len) {
        if BATCHES.with_borrow(|batches| is_due(&batches[place])) {
            write_batch(place)?;
        }
    }
    Ok(())
}

/// Writes all rows. Called before parallel workers start, which cannot read them here.
///
/// # Errors
/// See [`write`].
pub fn write_collected() -> Result<(), Error> {
    for place in 0..BATCHES.with_borrow(Vec::len) {
        write_batch(place)?;
    }
    Ok(())
}

/// Writes all rows, before the transaction commits.
fn write_all() -> Result<(), Error> {
    write_collected()?;
    IS_COMMITTING.set(true);
    Ok(())
}

fn forget(_end: TransactionEnd) {
    BATCHES.with_borrow_mut(Vec::clear);
    IS_COMMITTING.set(false);
}

fn write_batch(place: usize) -> Result<(), Error> {
    let (index, file, rows, has_written, has_failed) = BATCHES.with_borrow_mut(|batches| {
        let batch = &mut batches[place];
        (
            batch.index,
            batch.file,
            batch.rows.take(),
            batch.has_written,
            batch.has_failed,
        )
    });
    let rows = rows.ok_or_else(|| failed_before(index))?;
    let mut taken = TakenRows {
        place,
        rows: None,
        written: None,
    };
    let rows = taken.rows.insert(rows).as_mut();
    let is_written = if has_failed {
        require_replaced(index, file, rows)
    } else {
        write_rows(index, file, rows, has_written)
    }?;
    taken.written = Some(is_written);
    Ok(())
}

/// The rows of a batch while they are being written. It puts them back, also if the server raises
/// an ERROR, as for a page with a wrong checksum: whether the index was filled again in the
/// meantime, only they can tell.
struct TakenRows {
    place: usize,
    rows: Option<Box<dyn CollectedRows>>,
    /// True if there was something to write. `None` until that has succeeded.
    written: Option<bool>,
}

impl Drop for TakenRows {
    fn drop(&mut self) {
        BATCHES.with_borrow_mut(|batches| {
            let batch = &mut batches[self.place];
            batch.rows = self.rows.take();
            match self.written {
                Some(is_written) => batch.has_written |= is_written,
                None => batch.has_failed = true,
            }
        });
    }
}

/// Writes rows to their index. Returns false if there is nothing to write.
fn write_rows(
    index: pg_sys::Oid,
    file: FileId,
    rows: &mut dyn CollectedRows,
    has_written: bool,
) -> Result<bool, Error> {
    if rows.is_empty() {
        return Ok(false);
    }
    let Some(relations) = index_of(index, file, rows)? else {
        return Ok(false);
    };
    relations.index().check_readers();
    rows.write(&relations, has_written)?;
    Ok(true)
}

/// Checks that rows which could not be written are in their index, because it was filled again.
/// Returns false.
fn require_replaced(
    index: pg_sys::Oid,
    file: FileId,
    rows: &dyn CollectedRows,
) -> Result<bool, Error> {
    match index_of(index, file, rows)? {
        Some(_) => Err(failed_before(index)),
        None => Ok(false),
    }
}

/// Returns the index that has the contents that rows are for. If there is none, it was dropped, or
/// filled again with the rows that there were.
fn index_of(
    index: pg_sys::Oid,
    file: FileId,
    rows: &dyn CollectedRows,
) -> Result<Option<LockedIndex>, Error> {
    // An extension that rewrites a table may have given the file to another index.
    let by_file = std::iter::once_with(|| relation_with_file(file));
    for index in std::iter::once(Some(index)).chain(by_file) {
        let index = index.and_then(|index| Some((index, table_of(index)?)));
        let Some((index, table)) = index else {
            continue; // dropped
        };
        let lock = pg_sys::RowExclusiveLock;
        let Some(relations) = LockedIndex::open_for(index, table, lock) else {
            continue;
        };
        let index = relations.index();
        let is_same = index.file_id() == file && !index.has_new_file();
        if is_same || rows.are_of(index)? {
            return Ok(Some(relations));
        }
    }
    Ok(None)
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
