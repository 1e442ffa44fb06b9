//! The postings of all terms of a pattern in a segment, together.

use std::ops::Range;

use rag_pages::{
    IndexError, ReadPages,
    memory::{self, append, push},
};

use crate::{
    query::{Pattern, PatternMatcher, count_of, stored_count},
    segment::{
        SegmentReader,
        dictionary::TermPostings,
        layout::{BLOCK, UNPACKED},
        positions::PositionsPlace,
        postings::{Place, PostingsBlock, Skip},
        reader::{ListBlocks, PostingsList, Union},
    },
};

/// Called with a term and its postings.
pub type VisitTerm<'f> = &'f mut dyn FnMut(&[u8], TermPostings) -> Result<(), IndexError>;

/// Frequencies are added up in an array of all documents, if there is a posting for each so many
/// documents. Otherwise postings are sorted.
const DENSE: u64 = 8;

/// Returns the postings of the terms of a pattern, each document once. `None` if there are none.
pub fn read(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    pattern: &Pattern,
    has_parts: bool,
) -> Result<Option<PostingsList>, IndexError> {
    if let Pattern::Exact(term) = pattern {
        return segment.find(pages, term);
    }
    let terms = terms_of(pages, segment, pattern)?;
    let Some((first, others)) = terms.split_first() else {
        return Ok(None);
    };
    if others.is_empty() {
        return segment.list(pages, first).map(Some);
    }
    let postings = terms.iter().map(|term| u64::from(term.documents)).sum();
    let mut sum = Sum::new(segment.documents(), postings)?;
    let mut block = PostingsBlock::default();
    for term in &terms {
        pages.check_interrupts();
        each_block(pages, segment, term, &mut block, |block| {
            for (document, frequency) in block.iter() {
                sum.add(document, count_of(frequency, has_parts))
                    .ok_or_else(|| segment.without_page(document as usize))?
                    .map_err(IndexError::of_memory)?;
            }
            Ok(())
        })?;
    }
    let (documents, mut frequencies) = sum.finish()?;
    for frequency in &mut frequencies {
        *frequency = stored_count(*frequency, has_parts);
    }
    Ok(Some(list(documents, frequencies)))
}

/// Returns the terms of a pattern that a segment has.
fn terms_of(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    pattern: &Pattern,
) -> Result<Vec<TermPostings>, IndexError> {
    // names tell which terms were found twice
    let (mut names, mut found) = (vec![], vec![]);
    each_term(pages, segment, pattern, &mut |term, postings| {
        let start = names.len();
        append(&mut names, term)
            .and_then(|()| push(&mut found, (start..names.len(), postings)))
            .map_err(IndexError::of_memory)
    })?;
    let name = |(name, _): &(Range<usize>, TermPostings)| &names[name.clone()];
    found.sort_unstable_by(|a, b| name(a).cmp(name(b)));
    found.dedup_by(|a, b| name(a) == name(b));
    memory::collect(found.into_iter().map(|(_, postings)| postings)).map_err(IndexError::of_memory)
}

/// Calls `f` with each term of a pattern that a segment has, with some of them twice.
fn each_term(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    pattern: &Pattern,
    f: VisitTerm<'_>,
) -> Result<(), IndexError> {
    match pattern {
        Pattern::Exact(term) => match segment.dictionary.find(pages, term)? {
            Some(postings) => f(term, postings),
            None => Ok(()),
        },
        Pattern::Prefix(prefix) => walk(pages, segment, pattern, prefix, f),
        Pattern::Typo(_) => walk(pages, segment, pattern, b"", f),
        Pattern::Any(parts) => {
            // all terms are compared, but once
            let is_typo = |part: &&Pattern| matches!(part, Pattern::Typo(_));
            let (typos, others): (Vec<_>, Vec<_>) = parts.iter().partition(is_typo);
            if !typos.is_empty() {
                let typos = Pattern::Any(typos.into_iter().cloned().collect());
                walk(pages, segment, &typos, b"", f)?;
            }
            let mut others = others.into_iter();
            others.try_for_each(|part| each_term(pages, segment, part, f))
        }
    }
}

/// Calls `f` with the terms of a pattern that begin with some bytes.
pub fn walk(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    pattern: &Pattern,
    prefix: &[u8],
    f: VisitTerm<'_>,
) -> Result<(), IndexError> {
    let mut matcher = PatternMatcher::new(pattern);
    let is_of_all = prefix.is_empty();
    let is_prefix = matches!(pattern, Pattern::Prefix(known) if known == prefix);
    let mut terms = segment.dictionary.terms_near(pages, prefix)?;
    loop {
        let Some((_, postings)) = terms.next(pages)? else {
            return Ok(());
        };
        let term = terms.term();
        // where all terms are read, two comparisons of nothing would take most of the time
        let is_within = is_of_all || term.starts_with(prefix);
        if !is_within {
            match term > prefix {
                true => return Ok(()),
                false => continue, // the leaf begins before
            }
        }
        if is_prefix || matcher.matches(term, terms.shared()) {
            f(term, postings)?;
        }
    }
}

/// Calls `f` with each block of a term's postings.
fn each_block(
    pages: &impl ReadPages,
    segment: &SegmentReader,
    term: &TermPostings,
    block: &mut PostingsBlock,
    mut f: impl FnMut(&PostingsBlock) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    let list = segment.list(pages, term)?;
    match &list.blocks {
        ListBlocks::Short(block, ..) => f(block),
        ListBlocks::Long(skips) => (0..skips.len()).try_for_each(|number| {
            segment.read_block(pages, skips, list.documents, number, block)?;
            f(block)
        }),
        ListBlocks::Union(_) => Ok(()), // a segment has none
    }
}

/// Frequencies of documents that are added up.
enum Sum {
    Dense(Vec<u32>),
    Sparse(u32, Vec<(u32, u32)>),
}

impl Sum {
    fn new(documents: u32, postings: u64) -> Result<Self, IndexError> {
        if postings.saturating_mul(DENSE) < u64::from(documents) {
            return Ok(Self::Sparse(documents, vec![]));
        }
        let sums = memory::filled(documents as usize, 0).map_err(IndexError::of_memory)?;
        Ok(Self::Dense(sums))
    }

    /// Adds a posting. Returns `None` for a document that the segment does not have.
    fn add(&mut self, document: u32, count: u32) -> Option<Result<(), memory::OutOfMemory>> {
        match self {
            Self::Dense(sums) => {
                let sum = sums.get_mut(document as usize)?;
                *sum = sum.saturating_add(count);
                Some(Ok(()))
            }
            Self::Sparse(documents, all) => {
                (document < *documents).then(|| push(all, (document, count)))
            }
        }
    }

    /// Returns the documents in ascending order, and their sums.
    fn finish(self) -> Result<(Vec<u32>, Vec<u32>), IndexError> {
        let (mut documents, mut sums) = (vec![], vec![]);
        let mut add = |document, sum| {
            push(&mut documents, document)?;
            push(&mut sums, sum)
        };
        let added = match self {
            Self::Dense(all) => {
                let mut found = (0..).zip(all).filter(|(_, sum)| *sum > 0);
                found.try_for_each(|(document, sum)| add(document, sum))
            }
            Self::Sparse(_, mut all) => {
                all.sort_unstable();
                let mut of_documents = all.chunk_by(|a, b| a.0 == b.0);
                of_documents.try_for_each(|of| {
                    let sum = of
                        .iter()
                        .fold(0_u32, |sum, (_, count)| sum.saturating_add(*count));
                    add(of[0].0, sum)
                })
            }
        };
        added.map_err(IndexError::of_memory)?;
        Ok((documents, sums))
    }
}

/// Returns a list of documents in ascending order, with their frequencies.
fn list(documents: Vec<u32>, frequencies: Vec<u32>) -> PostingsList {
    let count = documents.len() as u32;
    if documents.len() < BLOCK {
        let mut block = Box::<PostingsBlock>::default();
        for (document, frequency) in documents.iter().zip(&frequencies) {
            block.push(*document, *frequency);
        }
        let most = frequencies.iter().copied().max().unwrap_or(1);
        return PostingsList {
            documents: count,
            positions: PositionsPlace::Nowhere,
            blocks: ListBlocks::Short(block, most, 0),
        };
    }
    let blocks = documents.chunks(BLOCK).zip(frequencies.chunks(BLOCK));
    let skip = |(documents, frequencies): (&[u32], &[u32])| Skip {
        last: documents.last().copied().unwrap_or(0),
        place: Place {
            block: 0,
            offset: 0,
        },
        document_bits: UNPACKED,
        frequency_bits: UNPACKED,
        max_frequency: u8::try_from(frequencies.iter().copied().max().unwrap_or(1))
            .unwrap_or(u8::MAX),
        min_norm: 0,
    };
    let skips = blocks.map(skip).collect();
    PostingsList {
        documents: count,
        positions: PositionsPlace::Nowhere,
        blocks: ListBlocks::Union(Box::new(Union {
            documents,
            frequencies,
            skips,
        })),
    }
}
