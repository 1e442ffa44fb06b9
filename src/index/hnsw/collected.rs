//! Vectors that a transaction has inserted, and not written yet. They are written in an order in
//! which near ones follow each other, so that groups of them share pages and neighbours.

use std::{collections::HashMap, rc::Rc};

use rag_ann::near::near_order;
use rag_pages::{
    IndexError, Tid,
    memory::{OutOfMemory, Reserve, append, collect, push},
};

use super::{
    cache::{self, OpenedGraph},
    index_error, insert,
};
use crate::{
    error::Error,
    index::am::{
        NewRow,
        collected::{self, CollectedRows, Inserters},
        relation::{Index, LockedIndex},
    },
};

/// The vectors of an index.
struct Vectors {
    opened: Rc<OpenedGraph>,
    dimensions: usize,
    /// The elements of the vectors, one vector after another.
    elements: Vec<f32>,
    tids: Vec<Tid>,
    inserters: Inserters,
}

/// Adds the vector of a row to those that this transaction writes later.
pub fn add(
    index: Index<'_>,
    opened: &Rc<OpenedGraph>,
    vector: &[f32],
    row: NewRow,
) -> Result<(), Error> {
    let new = || Vectors {
        opened: Rc::clone(opened),
        dimensions: vector.len(),
        elements: vec![],
        tids: vec![],
        inserters: Inserters::default(),
    };
    let is_present = |vectors: &Vectors| vectors.are_for(opened);
    collected::add(index, is_present, new, |vectors| {
        let noted = vectors.inserters.note(vectors.tids.len());
        noted
            .and_then(|()| append(&mut vectors.elements, vector))
            .and_then(|()| push(&mut vectors.tids, row.tid))
            .map_err(|e| out_of_memory(index, e))
    })
}

fn out_of_memory(index: Index<'_>, error: OutOfMemory) -> Error {
    index_error(*index, IndexError::of_memory(error))
}

impl Vectors {
    /// The codes of the index may have another meaning.
    fn are_for(&self, opened: &OpenedGraph) -> bool {
        self.opened.graph.description() == opened.graph.description()
            && opened.graph.dimensions() == Some(self.dimensions)
    }

    /// Returns the vectors of rows that this transaction has inserted, near ones after each other.
    /// If a row has several, only the last of them: the place was given to a new row.
    fn present(
        &self,
        is_row: impl Fn(Tid, usize) -> bool,
    ) -> Result<Vec<(&[f32], Tid)>, OutOfMemory> {
        let mut last: HashMap<Tid, usize> = HashMap::new();
        if !self.tids.is_sorted_by(|a, b| a < b) {
            last.make_room(self.tids.len())?;
            last.extend(self.tids.iter().copied().zip(0..));
        }
        let is_present = |(place, tid): &(usize, &Tid)| {
            last.get(tid).is_none_or(|last| last == place) && is_row(**tid, *place)
        };
        let places = self.tids.iter().enumerate().filter(is_present);
        let mut vectors: Vec<&[f32]> = vec![];
        let mut tids = vec![];
        for (place, tid) in places {
            push(
                &mut vectors,
                &self.elements[place * self.dimensions..][..self.dimensions],
            )?;
            push(&mut tids, *tid)?;
        }
        let order = near_order(&vectors)?;
        collect(order.into_iter().map(|place| (vectors[place], tids[place])))
    }
}

impl CollectedRows for Vectors {
    fn are_of(&self, index: Index<'_>) -> Result<bool, Error> {
        Ok(self.are_for(&*cache::open_to_insert(index)?))
    }

    fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }

    fn bytes(&self) -> usize {
        self.elements.capacity() * size_of::<f32>()
            + self.tids.capacity() * size_of::<Tid>()
            + self.inserters.bytes()
    }

    fn write(&mut self, relations: &LockedIndex, _has_written: bool) -> Result<(), Error> {
        let (table, index) = (relations.table(), relations.index());
        let inserters = std::mem::take(&mut self.inserters);
        let rows = self
            .present(inserters.present_rows(table))
            .map_err(|e| out_of_memory(index, e))?;
        let opened = insert::open(index, self.dimensions)?;
        insert::insert_all(table, index, opened, &rows)?;
        self.elements.clear();
        self.tids.clear();
        Ok(())
    }
}
