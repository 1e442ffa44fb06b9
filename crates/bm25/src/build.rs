//! Creates an index of documents that exist already. No other session sees it meanwhile.

use rag_pages::{IndexError, ReusePages, Tid, memory::OutOfMemory};

use crate::{
    allocate::Allocation,
    maintain::merge_unseen,
    meta::{Creation, Writer, create},
    segment::Inverted,
    terms::Terms,
};

/// Collects documents in memory, and writes a segment whenever that is full.
pub struct Builder<'a, P> {
    pages: &'a P,
    /// Bytes that documents may take in memory.
    memory: usize,
    inverted: Inverted,
    documents: u64,
}

impl<'a, P: ReusePages> Builder<'a, P> {
    /// Creates an index without documents. `memory` is in bytes.
    pub fn new(pages: &'a P, creation: &Creation<'_>, memory: usize) -> Self {
        create(pages, creation);
        Self {
            pages,
            memory,
            inverted: Inverted::new(creation.has_positions),
            documents: 0,
        }
    }

    /// Adds a document. A document without terms is not stored.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add(&mut self, tid: Tid, terms: &Terms) -> Result<(), IndexError> {
        if terms.is_empty() {
            return Ok(());
        }
        self.collect(tid, terms).map_err(IndexError::of_memory)?;
        self.documents += 1;
        if self.inverted.bytes() > self.memory || self.inverted.is_full() {
            self.write()?;
            merge_unseen(self.pages)?;
        }
        Ok(())
    }

    /// Completes the index. Returns the number of documents.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn finish(mut self) -> Result<u64, IndexError> {
        if self.inverted.documents() > 0 {
            self.write()?;
        }
        merge_unseen(self.pages)?;
        Ok(self.documents)
    }

    fn collect(&mut self, tid: Tid, terms: &Terms) -> Result<(), OutOfMemory> {
        let norm = crate::norm::encode(terms.length());
        let document = self.inverted.add_document(tid, norm)?;
        for (term, frequency, positions) in terms.iter_with_positions() {
            self.inverted
                .add_term(document, term, frequency, positions)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), IndexError> {
        let mut space = Allocation::begin(self.pages, Writer::Spill)?;
        let next = Inverted::new(self.inverted.has_positions());
        let inverted = std::mem::replace(&mut self.inverted, next);
        let written = inverted.write(self.pages, &mut space)?;
        space.publish(Some(written), &[], false)
    }
}
