//! Terms of an index that are spelled almost like a word that it does not have.

use std::collections::BTreeMap;

use rag_pages::{IndexError, ReadPages, Tid};

use super::{opened::SegmentCache, union::walk};
use crate::{
    meta::Meta,
    pending,
    query::{Pattern, Typo, TypoMatcher},
    segment::{SegmentReader, dictionary::TermPostings, reader::ListBlocks},
};

/// A term that is spelled almost like a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearTerm {
    pub term: Vec<u8>,
    pub edits: u8,
    /// Number of documents with the term.
    pub documents: u64,
    /// A row that has it, or had it before it was deleted.
    pub row: Tid,
}

/// Returns the terms that begin with some bytes and are spelled almost like a word, the nearest and
/// the most frequent first.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn near_terms(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    typo: &Typo,
    prefix: &[u8],
) -> Result<Vec<NearTerm>, IndexError> {
    let meta = Meta::read(pages)?;
    let mut found: BTreeMap<Vec<u8>, NearTerm> = BTreeMap::new();
    let mut matcher = TypoMatcher::new(typo);
    let mut add = |term: &[u8], documents: u64, row: Tid| {
        if let Some(known) = found.get_mut(term) {
            known.documents += documents;
        } else if let Some(edits) = matcher.edits(term, 0) {
            let new = NearTerm {
                term: term.to_vec(),
                edits,
                documents,
                row,
            };
            found.insert(term.to_vec(), new);
        }
    };
    for list in meta.lists() {
        pending::each_record(pages, list, &mut |record| {
            let terms = record.terms().filter(|(term, _)| term.starts_with(prefix));
            for (term, _) in terms.filter(|_| !record.is_dead()) {
                add(term, 1, record.tid());
            }
            Ok(())
        })?;
    }
    let pattern = Pattern::Typo(typo.clone());
    for segment in cache.open(pages, &meta)? {
        pages.check_interrupts();
        walk(pages, &segment, &pattern, prefix, &mut |term, postings| {
            let row = first_row(pages, &segment, &postings)?;
            add(term, u64::from(postings.documents), row);
            Ok(())
        })?;
    }
    let mut found: Vec<NearTerm> = found.into_values().collect();
    found.sort_by_key(|near| (near.edits, std::cmp::Reverse(near.documents)));
    Ok(found)
}

/// Returns the row of a term's first document.
fn first_row(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    postings: &TermPostings,
) -> Result<Tid, IndexError> {
    let list = segment.list(pages, postings)?;
    let document = match &list.blocks {
        ListBlocks::Short(block, ..) => block.documents[0],
        ListBlocks::Long(skips) => skips[0].last,
        ListBlocks::Union(union) => union.documents[0],
    };
    segment.row(pages, document)
}
