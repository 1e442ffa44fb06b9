//! What a backend keeps of indexes from one statement to the next: opened indexes with the hints
//! where their pages are, and the buffers of searches and inserts.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use pgrx::pg_sys;
use rag_ann::hnsw::{Index, Inserter, Scan};

use super::damaged;
use crate::{
    error::Error,
    index::pages::{Hints, RelationPages, file_of},
};

/// Most indexes that a backend remembers, as many as a query over partitions may read in turns. An
/// opened index takes a few kilobytes, and up to 300 with the copy of its upper levels.
const MAX_FILES: usize = 64;
/// Most bytes of all their hints, which take 4 bytes a page.
const MAX_HINT_BYTES: usize = 32 << 20;

/// An index as long as it has the same file.
pub struct File {
    pub index: Index,
    hints: Hints,
}

impl File {
    /// The pages of `relation`, of which this is the file.
    ///
    /// # Safety
    /// As [`RelationPages::new`].
    pub unsafe fn pages(&self, relation: pg_sys::Relation) -> RelationPages<'_> {
        // SAFETY: the caller's promise.
        unsafe { RelationPages::new(relation, &self.hints) }
    }

    /// The same for vacuum: in any order, and in the order of the file by `strategy`.
    ///
    /// # Safety
    /// As [`RelationPages::new`].
    pub unsafe fn pages_of_vacuum(
        &self,
        relation: pg_sys::Relation,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> (RelationPages<'_>, RelationPages<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            let ordered = RelationPages::of_vacuum_in_order(relation, strategy);
            (RelationPages::of_vacuum(relation, &self.hints), ordered)
        }
    }
}

thread_local! {
    /// The most recently used last.
    static FILES: RefCell<Vec<([u32; 3], Rc<File>)>> = const { RefCell::new(vec![]) };
    static SCAN: Cell<Option<Box<Scan>>> = const { Cell::new(None) };
    static INSERTER: Cell<Option<Box<Inserter>>> = const { Cell::new(None) };
}

/// Opens the index of a relation, or finds it opened.
///
/// # Errors
/// The index is damaged.
///
/// # Safety
/// The relation is an open index of this access method.
pub unsafe fn open(relation: pg_sys::Relation) -> Result<Rc<File>, Error> {
    // SAFETY: the caller's promise.
    let name = unsafe { file_of(relation) };
    let known = FILES.with_borrow_mut(|files| {
        let at = files.iter().position(|(known, _)| *known == name)?;
        files[at..].rotate_left(1);
        files.last().map(|(_, file)| Rc::clone(file))
    });
    if let Some(file) = known {
        // SAFETY: the caller's promise. The file may have been filled anew, and an index without
        // vectors may have got its dimensions from another backend.
        let same = unsafe { file.index.is_of(&file.pages(relation)) }
            .map_err(|damage| damaged(relation, damage))?;
        if same && file.index.dimensions().is_some() {
            return Ok(file);
        }
    }
    let hints = Hints::default();
    // SAFETY: the caller's promise.
    let index = unsafe { Index::open(&RelationPages::new(relation, &hints)) }
        .map_err(|d| damaged(relation, d))?;
    Ok(remember(name, File { index, hints }))
}

/// The opened index of a relation after its first vector has set the dimensions.
///
/// # Safety
/// As [`open`].
pub unsafe fn replace(relation: pg_sys::Relation, index: Index) -> Rc<File> {
    // SAFETY: the caller's promise.
    let name = unsafe { file_of(relation) };
    remember(
        name,
        File {
            index,
            hints: Hints::default(),
        },
    )
}

fn remember(name: [u32; 3], file: File) -> Rc<File> {
    let file = Rc::new(file);
    FILES.with_borrow_mut(|files| {
        files.retain(|(known, _)| *known != name);
        let mut bytes: usize = files.iter().map(|(_, file)| file.hints.bytes()).sum();
        while !files.is_empty() && (files.len() >= MAX_FILES || bytes > MAX_HINT_BYTES) {
            bytes -= files.remove(0).1.hints.bytes();
        }
        files.push((name, Rc::clone(&file)));
    });
    file
}

/// Takes the buffers of the scan before, or new ones.
pub fn take_scan() -> Box<Scan> {
    SCAN.take().unwrap_or_default()
}

/// Leaves them to the next scan.
pub fn give_scan(mut scan: Box<Scan>) {
    scan.shrink();
    SCAN.set(Some(scan));
}

/// Takes the buffers of the insert before, or new ones.
pub fn take_inserter() -> Box<Inserter> {
    INSERTER.take().unwrap_or_default()
}

/// Leaves them to the next insert.
pub fn give_inserter(inserter: Box<Inserter>) {
    INSERTER.set(Some(inserter));
}
