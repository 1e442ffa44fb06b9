//! The meta page, the first one of an index. It leads to everything else.
//!
//! A change of what belongs to whom is one record of the write-ahead log: the meta page, with the
//! other pages that the step is about. So a crash leaves the index before the step or after it.

use std::mem::offset_of;

use rag_pages::{Block, IndexError, Page, PageUse, ReadPages, ReusePages};

use crate::{
    entry::{decode_segment, encode_segment},
    format::{
        DroppedBytes, LABEL_BYTES, MAGIC, MAX_DROPPED, MAX_SEGMENTS, MAX_SPARE, META_OWNER,
        MetaBytes, PageKind, SegmentBytes, SegmentEntry, VERSION, VERSION_WITH_POSITIONS, content,
        content_mut, exists, expect, f32_at, init, put, u16_at, u32_at, u64_at,
    },
    list::{decode_block, decode_list, encode_list},
    score::Parameters,
};

pub use crate::list::PageList;

/// Blocks below the high-water mark that the file may lack: those that were reserved for a segment
/// and not written yet, and files that a crash has cut. More is corruption.
const MISSING_BLOCKS: u32 = 1024;

/// The offset of a field in the meta page, after the page header.
macro_rules! at {
    ($field:ident) => {
        offset_of!(MetaBytes, $field)
    };
}

/// Who writes a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The session with the spill lock.
    Spill,
    /// The session with the merge lock, without the spill lock.
    Merge,
}

/// A chain of pages that are used again, with the extents on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedChain {
    /// Readers from before this moment may still read the blocks. 0 if there are none.
    pub stamp: u64,
    pub head: Block,
    /// The last page of the chain. The page after it, if any, belongs to no chain.
    pub tail: Block,
}

/// What an index is created with.
#[derive(Debug, Clone, Copy)]
pub struct Creation<'a> {
    pub parameters: Parameters,
    /// A random number. It tells this index from one that was in the same file before.
    pub identity: u64,
    /// What the caller wants to know later, at most [`LABEL_BYTES`] bytes. More are cut off.
    /// Zeros at its end are lost.
    pub label: &'a [u8],
    /// Another thing that the caller wants to know later, 0 in indexes of older versions.
    pub variant: u8,
    /// The index keeps where in its documents terms occur.
    pub has_positions: bool,
}

/// What an index was created with.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    pub parameters: Parameters,
    pub identity: u64,
    /// Without zeros at the end.
    pub label: Vec<u8>,
    pub variant: u8,
    pub has_positions: bool,
}

/// The contents of the meta page.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub parameters: Parameters,
    pub identity: u64,
    pub label: [u8; LABEL_BYTES],
    pub variant: u8,
    pub has_positions: bool,
    /// The number that the next segment or pending list gets.
    pub next_number: u64,
    /// The first block that was never used.
    pub high_water: Block,
    /// Documents that no segment has.
    pub pending: PageList,
    /// A pending list that gets no more documents, and that is being made a segment.
    pub spilled: PageList,
    /// The owner pages of the segments that are being written, by their [`Writer`].
    pub in_flight: [PageList; 2],
    /// Segments with a lower number are those of the session with the merge lock, as long as a
    /// session has it.
    pub frozen: u64,
    /// Blocks for new pending pages.
    pub spare: Vec<Block>,
    /// Chains that are used again, the oldest first.
    pub dropped: Vec<DroppedChain>,
    pub segments: Vec<SegmentEntry>,
}

/// Creates an index without documents, as the first page of the file.
pub fn create(pages: &impl ReusePages, creation: &Creation<'_>) {
    let mut label = [0; LABEL_BYTES];
    for (byte, given) in label.iter_mut().zip(creation.label) {
        *byte = *given;
    }
    let meta = Meta {
        parameters: creation.parameters,
        identity: creation.identity,
        label,
        variant: creation.variant,
        has_positions: creation.has_positions,
        next_number: 2,
        high_water: 1,
        pending: PageList {
            id: 1,
            ..PageList::default()
        },
        spilled: PageList::default(),
        in_flight: [PageList::default(); 2],
        frozen: 0,
        spare: vec![],
        dropped: vec![],
        segments: vec![],
    };
    pages.overwrite(0, |page| {
        init(page, META_OWNER, PageKind::Meta);
        meta.encode(page);
    });
}

/// Returns what an index was created with.
///
/// # Errors
/// The meta page is corrupted or has another version.
pub fn describe(pages: &impl ReadPages) -> Result<Description, IndexError> {
    read_meta_page(pages, |page| {
        let b = content(page);
        let label = decode_label(b);
        let length = label
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        Ok(Description {
            parameters: decode_parameters(b)?,
            identity: u64_at(b, at!(identity)),
            label: label[..length].to_vec(),
            variant: b[at!(variant)],
            has_positions: b[at!(has_positions)] != 0,
        })
    })
}

/// Returns the pending list. Reads nothing else, as this is the first step of each insert.
///
/// # Errors
/// The meta page is corrupted or has another version.
pub fn pending_list(pages: &impl ReadPages) -> Result<PageList, IndexError> {
    read_meta_page(pages, |page| {
        let b = content(page);
        decode_list(b, at!(pending), u32_at(b, at!(high_water)))
    })
}

fn read_meta_page<P: ReadPages, R>(
    pages: &P,
    f: impl FnOnce(&Page) -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    if pages.block_count() == 0 {
        return Err(corrupted("the index has no pages"));
    }
    pages.read(0, |page| {
        check_version(pages, page)?;
        f(page)
    })
}

/// Checks that a page is a meta page of this version.
fn check_version(pages: &impl ReadPages, page: &Page) -> Result<(), IndexError> {
    let b = content(page);
    expect(pages, page, 0, META_OWNER, PageKind::Meta)?;
    if !b.starts_with(&MAGIC) {
        return Err(corrupted("the meta page has another magic number"));
    }
    match u32_at(b, at!(version)) {
        VERSION | VERSION_WITH_POSITIONS => Ok(()),
        found => Err(IndexError::OtherVersion {
            found,
            known: VERSION_WITH_POSITIONS,
        }),
    }
}

impl Meta {
    /// Returns a copy of the meta page.
    ///
    /// # Errors
    /// It is corrupted or has another version.
    pub fn read(pages: &impl ReadPages) -> Result<Self, IndexError> {
        let meta = read_meta_page(pages, Self::decode)?;
        // The file only grows, so its length is read second.
        let limit = pages.block_count().saturating_add(MISSING_BLOCKS);
        if meta.high_water > limit {
            return Err(corrupted(
                "the high-water mark is beyond the end of the file",
            ));
        }
        Ok(meta)
    }

    /// Changes the meta page and up to 3 others, as a whole. `f` gets the meta page and the others.
    /// Nothing is changed if it fails or returns `None`.
    ///
    /// # Errors
    /// The meta page is corrupted. One of the others does not exist. `f` fails.
    pub fn change<P: ReusePages, R>(
        pages: &P,
        others: &[(Block, PageUse)],
        f: impl FnOnce(&mut Self, &mut [&mut Page]) -> Result<Option<R>, IndexError>,
    ) -> Result<Option<R>, IndexError> {
        for (i, &(block, _)) in others.iter().enumerate() {
            exists(pages, block)?;
            if block == 0 || others[..i].iter().any(|(other, _)| *other == block) {
                return Err(IndexError::corrupted(block, "page has two uses"));
            }
        }
        let mut failure = None;
        let change = |page: &mut Page, others: &mut [&mut Page]| {
            let changed = check_version(pages, page)
                .and_then(|()| Self::decode(page))
                .and_then(|mut meta| {
                    let result = f(&mut meta, others)?;
                    if result.is_some() {
                        meta.encode(page);
                    }
                    Ok(result)
                });
            changed.unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        };
        let meta = (0, PageUse::Change);
        let result = match *others {
            [] => pages.write(0, |page| change(page, &mut [])),
            [a] => pages.write_group([meta, a], |[page, a]| change(page, &mut [a])),
            [a, b] => pages.write_group([meta, a, b], |[page, a, b]| change(page, &mut [a, b])),
            [a, b, c] => pages.write_group([meta, a, b, c], |[page, a, b, c]| {
                change(page, &mut [a, b, c])
            }),
            _ => return Err(corrupted("too many pages for one change")),
        };
        failure.map_or(Ok(result), Err)
    }

    /// Changes only the meta page.
    ///
    /// # Errors
    /// It is corrupted, or `f` fails.
    pub fn update<P: ReusePages, R>(
        pages: &P,
        f: impl FnOnce(&mut Self) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        Self::change(pages, &[], |meta, _| f(meta).map(Some))?
            .ok_or_else(|| corrupted("the meta page cannot be changed"))
    }

    /// Returns the lists of pending documents that are not empty.
    pub fn lists(&self) -> impl Iterator<Item = &PageList> {
        [&self.spilled, &self.pending]
            .into_iter()
            .filter(|list| !list.is_empty())
    }

    /// Returns the owner pages of the segment that a session is writing.
    pub fn in_flight(&self, writer: Writer) -> &PageList {
        &self.in_flight[writer as usize]
    }

    pub fn in_flight_mut(&mut self, writer: Writer) -> &mut PageList {
        &mut self.in_flight[writer as usize]
    }

    /// Returns the numbers of all owners of pages. A list without pages may have number 0.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        let lists = [&self.pending, &self.spilled].into_iter();
        let lists = lists.chain(&self.in_flight).map(|list| list.id);
        lists.chain(self.segments.iter().map(|entry| entry.id))
    }

    /// Returns the place of a segment in `segments`.
    ///
    /// # Errors
    /// There is no segment of this number.
    pub fn segment(&self, id: u64) -> Result<usize, IndexError> {
        let place = self.segments.iter().position(|entry| entry.id == id);
        place.ok_or_else(|| corrupted("a segment has disappeared"))
    }

    /// Adds a dropped chain.
    ///
    /// # Errors
    /// There is no room.
    pub fn drop_chain(&mut self, chain: DroppedChain) -> Result<(), IndexError> {
        if self.dropped.len() >= MAX_DROPPED {
            return Err(corrupted("the meta page has no room for a dropped chain"));
        }
        // Chains that may be used at once come first.
        let place = if chain.stamp == 0 {
            0
        } else {
            self.dropped.len()
        };
        self.dropped.insert(place, chain);
        Ok(())
    }

    fn decode(page: &Page) -> Result<Self, IndexError> {
        let b = content(page);
        let high_water = u32_at(b, at!(high_water));
        if high_water == 0 {
            return Err(corrupted("the high-water mark is 0"));
        }
        let count = |at: usize, most: usize| {
            let count = usize::from(u16_at(b, at));
            if count <= most {
                Ok(count)
            } else {
                Err(corrupted("the meta page has too many entries"))
            }
        };
        let block = |at: usize| decode_block(b, at, high_water);
        let spare = (0..count(at!(spare_count), MAX_SPARE)?)
            .map(|i| block(at!(spare) + i * size_of::<Block>()));
        let dropped = (0..count(at!(dropped_count), MAX_DROPPED)?).map(|i| {
            let at = at!(dropped) + i * size_of::<DroppedBytes>();
            Ok(DroppedChain {
                stamp: u64_at(b, at + offset_of!(DroppedBytes, stamp)),
                head: block(at + offset_of!(DroppedBytes, head))?,
                tail: block(at + offset_of!(DroppedBytes, tail))?,
            })
        });
        let segments = (0..count(at!(segment_count), MAX_SEGMENTS)?).map(|i| {
            let at = at!(segments) + i * size_of::<SegmentBytes>();
            decode_segment(&b[at..], high_water)
        });
        let meta = Self {
            parameters: decode_parameters(b)?,
            identity: u64_at(b, at!(identity)),
            label: decode_label(b),
            variant: b[at!(variant)],
            has_positions: b[at!(has_positions)] != 0,
            next_number: u64_at(b, at!(next_number)),
            high_water,
            pending: decode_list(b, at!(pending), high_water)?,
            spilled: decode_list(b, at!(spilled), high_water)?,
            in_flight: [
                decode_list(b, at!(in_flight), high_water)?,
                decode_list(b, at!(merging), high_water)?,
            ],
            frozen: u64_at(b, at!(frozen)),
            spare: spare.collect::<Result<_, _>>()?,
            dropped: dropped.collect::<Result<_, _>>()?,
            segments: segments.collect::<Result<_, _>>()?,
        };
        let is_known = |id: u64| id < meta.next_number;
        if meta.pending.id == META_OWNER || !meta.ids().all(is_known) {
            return Err(corrupted("a number in the meta page is out of range"));
        }
        Ok(meta)
    }

    fn encode(&self, page: &mut Page) {
        let b = content_mut(page);
        put(b, at!(magic), MAGIC);
        let version = match self.has_positions {
            true => VERSION_WITH_POSITIONS,
            false => VERSION,
        };
        put(b, at!(version), version.to_le_bytes());
        put(b, at!(k1), self.parameters.k1.to_le_bytes());
        put(b, at!(b), self.parameters.b.to_le_bytes());
        put(b, at!(has_parts), [u8::from(self.parameters.has_parts)]);
        put(b, at!(variant), [self.variant]);
        put(b, at!(has_positions), [u8::from(self.has_positions)]);
        put(b, at!(identity), self.identity.to_le_bytes());
        put(b, at!(label), self.label);
        put(b, at!(next_number), self.next_number.to_le_bytes());
        put(b, at!(high_water), self.high_water.to_le_bytes());
        put(b, at!(spare_count), (self.spare.len() as u16).to_le_bytes());
        put(
            b,
            at!(dropped_count),
            (self.dropped.len() as u16).to_le_bytes(),
        );
        put(
            b,
            at!(segment_count),
            (self.segments.len() as u16).to_le_bytes(),
        );
        encode_list(b, at!(pending), &self.pending);
        encode_list(b, at!(spilled), &self.spilled);
        encode_list(b, at!(in_flight), self.in_flight(Writer::Spill));
        encode_list(b, at!(merging), self.in_flight(Writer::Merge));
        put(b, at!(frozen), self.frozen.to_le_bytes());
        for (i, block) in self.spare.iter().enumerate() {
            put(b, at!(spare) + i * size_of::<Block>(), block.to_le_bytes());
        }
        for (i, chain) in self.dropped.iter().enumerate() {
            let b = &mut b[at!(dropped) + i * size_of::<DroppedBytes>()..];
            put(
                b,
                offset_of!(DroppedBytes, stamp),
                chain.stamp.to_le_bytes(),
            );
            put(b, offset_of!(DroppedBytes, head), chain.head.to_le_bytes());
            put(b, offset_of!(DroppedBytes, tail), chain.tail.to_le_bytes());
        }
        for (i, entry) in self.segments.iter().enumerate() {
            encode_segment(
                &mut b[at!(segments) + i * size_of::<SegmentBytes>()..],
                entry,
            );
        }
    }
}

fn corrupted(problem: &str) -> IndexError {
    IndexError::corrupted(0, problem)
}

fn decode_parameters(b: &[u8]) -> Result<Parameters, IndexError> {
    let (k1, length) = (f32_at(b, at!(k1)), f32_at(b, at!(b)));
    if (0.0..=10.0).contains(&k1) && (0.0..=1.0).contains(&length) {
        Ok(Parameters {
            k1,
            b: length,
            has_parts: b[at!(has_parts)] != 0,
        })
    } else {
        Err(corrupted("a parameter in the meta page is out of range"))
    }
}

fn decode_label(b: &[u8]) -> [u8; LABEL_BYTES] {
    std::array::from_fn(|i| b[at!(label) + i])
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
