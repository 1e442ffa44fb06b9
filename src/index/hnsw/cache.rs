//! What a backend keeps of indexes from one statement to the next: opened indexes with hints where
//! their pages are, and the buffers of searches and inserts.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use rag_ann::hnsw::{Index as Graph, Inserter, Scan};
use rag_pages::IndexError;

use super::index_error;
use crate::{
    error::Error,
    index::{
        am::{
            callbacks::Vacuum,
            collected,
            relation::{FileId, Index},
        },
        pages::{BufferHints, RelationPages},
    },
};

/// Maximum number of indexes that a backend remembers: as many as a query over partitions may read
/// in turn. An opened index takes a few kilobytes, and up to 300 with the copy of its upper levels.
const MAX_INDEXES: usize = 64;
/// Maximum size of all their hints, which take 4 bytes a page.
const MAX_HINT_BYTES: usize = 32 << 20;

/// An opened index. It is of use as long as the index has the same file.
pub struct OpenedGraph {
    pub graph: Graph,
    hints: BufferHints,
}

impl OpenedGraph {
    fn new(graph: Graph) -> Self {
        Self {
            graph,
            hints: BufferHints::default(),
        }
    }

    pub fn pages<'a>(&'a self, index: Index<'a>) -> RelationPages<'a> {
        RelationPages::new(*index, &self.hints)
    }

    /// Returns the pages for a vacuum that reads them in any order, and for one that reads them in
    /// the order of the file.
    pub fn vacuum_pages<'a>(
        &'a self,
        vacuum: &Vacuum<'a>,
    ) -> (RelationPages<'a>, RelationPages<'a>) {
        let index = *vacuum.index();
        (
            RelationPages::for_vacuum(index, &self.hints),
            RelationPages::for_vacuum_in_order(index, vacuum.strategy()),
        )
    }
}

thread_local! {
    /// The most recently used index is the last.
    static OPENED: RefCell<Vec<(FileId, Rc<OpenedGraph>)>> = const { RefCell::new(vec![]) };
    static SCAN: Cell<Option<Box<Scan>>> = const { Cell::new(None) };
    static INSERTER: Cell<Option<Box<Inserter>>> = const { Cell::new(None) };
}

/// Opens an index, or returns it if it is open. What this transaction has inserted is in it.
///
/// # Errors
/// The index is corrupted. What was inserted cannot be written.
pub fn open(index: Index<'_>) -> Result<Rc<OpenedGraph>, Error> {
    collected::write(index.id())?;
    open_to_insert(index)
}

/// [`open`] without what this transaction has inserted and not written yet.
///
/// # Errors
/// The index is corrupted.
pub fn open_to_insert(index: Index<'_>) -> Result<Rc<OpenedGraph>, Error> {
    try_open(index).map_err(|e| index_error(*index, e))
}

/// [`open_to_insert`] for callers that handle corruption.
pub fn try_open(index: Index<'_>) -> Result<Rc<OpenedGraph>, IndexError> {
    let file = index.file_id();
    let known = OPENED.with_borrow_mut(|opened| {
        let at = opened.iter().position(|(known, _)| *known == file)?;
        opened[at..].rotate_left(1);
        opened.last().map(|(_, known)| Rc::clone(known))
    });
    if let Some(known) = known {
        // The file may have been filled again, and another backend may have set the dimensions of
        // an index that had no vectors.
        if known.graph.is_of(&known.pages(index))? && known.graph.dimensions().is_some() {
            return Ok(known);
        }
    }
    let hints = BufferHints::default();
    let graph = Graph::open(&RelationPages::new(*index, &hints))?;
    Ok(remember(file, OpenedGraph { graph, hints }))
}

/// Replaces the opened index after its first vector has set the dimensions.
pub fn replace(index: Index<'_>, graph: Graph) -> Rc<OpenedGraph> {
    remember(index.file_id(), OpenedGraph::new(graph))
}

fn remember(file: FileId, graph: OpenedGraph) -> Rc<OpenedGraph> {
    let graph = Rc::new(graph);
    OPENED.with_borrow_mut(|opened| {
        opened.retain(|(known, _)| *known != file);
        let mut bytes: usize = opened.iter().map(|(_, known)| known.hints.bytes()).sum();
        while !opened.is_empty() && (opened.len() >= MAX_INDEXES || bytes > MAX_HINT_BYTES) {
            bytes -= opened.remove(0).1.hints.bytes();
        }
        opened.push((file, Rc::clone(&graph)));
    });
    graph
}

/// Takes the buffers of an earlier scan, or new ones.
pub fn take_scan() -> Box<Scan> {
    SCAN.take().unwrap_or_default()
}

/// Leaves the buffers of a scan to the next one.
pub fn give_scan(mut scan: Box<Scan>) {
    scan.shrink();
    SCAN.set(Some(scan));
}

/// Takes the buffers of an earlier insert, or new ones.
pub fn take_inserter() -> Box<Inserter> {
    INSERTER.take().unwrap_or_default()
}

/// Leaves the buffers of an insert to the next one.
pub fn give_inserter(inserter: Box<Inserter>) {
    INSERTER.set(Some(inserter));
}
