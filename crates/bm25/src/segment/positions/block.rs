//! The positions of a block of postings.

use rag_pages::memory::{OutOfMemory, Reserve, append};

use super::bits::{BitReader, BitWriter, RAW_BITS, rice_bits, unzigzag, zigzag};
use crate::segment::{layout::BLOCK, postings::PostingsBlock};

const PARAMETER_BITS: u32 = 5;
const MODE_BITS: u32 = 2;
/// How many positions a document has: as many as the frequency says,
const LIKE_FREQUENCY: u32 = 0;
/// as many as the frequency says where parts are told from words,
const LIKE_WORDS: u32 = 1;
/// a number that is stored as the difference from this,
const COUNTED: u32 = 2;
/// or none.
const NONE: u32 = 3;

/// Returns the number of positions that most terms with a frequency have, if the index tells parts
/// from words: see [`crate::terms::PART`].
fn like_words(frequency: u32) -> u32 {
    match frequency {
        0..=2 => 1,
        more => more - 1,
    }
}

/// The positions of a block of postings, or of a shorter list.
#[derive(Debug, Clone)]
pub struct PositionsBlock {
    /// Where the positions of each document end in `positions`.
    ends: [u32; BLOCK],
    len: usize,
    positions: Vec<u32>,
}

impl Default for PositionsBlock {
    fn default() -> Self {
        Self {
            ends: [0; BLOCK],
            len: 0,
            positions: vec![],
        }
    }
}

impl PositionsBlock {
    pub fn clear(&mut self) {
        self.len = 0;
        self.positions.clear();
    }

    /// Adds the positions of the next document, in ascending order. There must be room for it.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn push(&mut self, positions: &[u32]) -> Result<(), OutOfMemory> {
        append(&mut self.positions, positions)?;
        self.ends[self.len] = u32::try_from(self.positions.len()).map_err(|_| OutOfMemory)?;
        self.len += 1;
        Ok(())
    }

    /// Returns the number of positions of all documents.
    pub fn count(&self) -> u64 {
        self.positions.len() as u64
    }

    /// Returns the positions of a document, by its place in the block.
    pub fn of(&self, place: usize) -> &[u32] {
        let start = match place.checked_sub(1) {
            Some(before) if before < self.len => self.ends[before],
            _ => 0,
        };
        let end = if place < self.len {
            self.ends[place]
        } else {
            start
        };
        let range = start as usize..end as usize;
        self.positions.get(range).unwrap_or_default()
    }

    fn counts(&self) -> impl Iterator<Item = u32> {
        let starts = std::iter::once(0).chain(self.ends);
        let ends = self.ends[..self.len].iter();
        ends.zip(starts).map(|(end, start)| end - start)
    }

    /// Returns the numbers that are stored: the first position of each document, and the
    /// differences less 1.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        let mut document = 0;
        let mut next = 0;
        self.positions.iter().enumerate().map(move |(i, position)| {
            while self.ends[document] as usize <= i {
                document += 1;
                next = 0;
            }
            let number = position.wrapping_sub(next);
            next = position.wrapping_add(1);
            number
        })
    }

    /// Appends the bits of the positions of these postings to `bytes`.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn write(&self, postings: &PostingsBlock, bytes: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        let frequencies = &postings.frequencies[..self.len];
        let are = |f: fn(u32) -> u32| self.counts().eq(frequencies.iter().map(|known| f(*known)));
        let mode = match () {
            () if self.positions.is_empty() => NONE,
            () if are(|frequency| frequency) => LIKE_FREQUENCY,
            () if are(like_words) => LIKE_WORDS,
            () => COUNTED,
        };
        let (parameter, bits) = self.best_parameter();
        let count_bits = if mode == COUNTED {
            self.len * RAW_BITS as usize
        } else {
            0
        };
        bytes.make_room((bits as usize + count_bits) / 8 + 8)?;
        let mut writer = BitWriter::new(bytes);
        writer.put(
            u64::from(parameter | mode << PARAMETER_BITS),
            PARAMETER_BITS + MODE_BITS,
        );
        if mode == COUNTED {
            for (count, frequency) in self.counts().zip(frequencies) {
                writer.rice(zigzag(count.wrapping_sub(like_words(*frequency))), 0);
            }
        }
        self.numbers()
            .for_each(|number| writer.rice(number, parameter));
        writer.finish();
        Ok(())
    }

    /// Returns the parameter that takes least room, and the bits of all numbers then.
    fn best_parameter(&self) -> (u32, u64) {
        let sum: u64 = self.numbers().map(u64::from).sum();
        let mean = sum / self.count().max(1);
        let near = 64 - mean.leading_zeros(); // 0 for 0, and log2 + 1 of others
        let parameters = near.saturating_sub(3)..=near.min(30);
        let bits = |parameter: u32| {
            let bits = self.numbers().map(|number| rice_bits(number, parameter));
            bits.map(u64::from).sum::<u64>()
        };
        let best = parameters
            .map(|parameter| (bits(parameter), parameter))
            .min();
        best.map_or((0, 0), |(bits, parameter)| (parameter, bits))
    }

    /// Reads the positions of these postings. Returns `None` if the bytes do not hold them.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn read(
        &mut self,
        postings: &PostingsBlock,
        bytes: &[u8],
    ) -> Result<Option<()>, OutOfMemory> {
        self.clear();
        let mut reader = BitReader::new(bytes);
        let Some(total) = self.read_counts(postings, &mut reader) else {
            return Ok(None);
        };
        // each takes a bit at least
        if total > 8 * bytes.len() as u64 {
            return Ok(None);
        }
        self.positions.make_room(total as usize)?;
        let parameter = u32::from(bytes[0]) & ((1 << PARAMETER_BITS) - 1);
        Ok(self.read_numbers(&mut reader, parameter))
    }

    /// Reads how many positions each document has. Returns the sum.
    fn read_counts(&mut self, postings: &PostingsBlock, reader: &mut BitReader<'_>) -> Option<u64> {
        let mode = reader.take(PARAMETER_BITS + MODE_BITS)? >> PARAMETER_BITS;
        let mut total = 0_u64;
        for frequency in &postings.frequencies[..postings.len] {
            let count = match mode {
                NONE => 0,
                LIKE_FREQUENCY => *frequency,
                LIKE_WORDS => like_words(*frequency),
                _ => like_words(*frequency).wrapping_add(unzigzag(reader.rice(0)?)),
            };
            total += u64::from(count);
            self.ends[self.len] = u32::try_from(total).ok()?;
            self.len += 1;
        }
        Some(total)
    }

    fn read_numbers(&mut self, reader: &mut BitReader<'_>, parameter: u32) -> Option<()> {
        for document in 0..self.len {
            let mut next = Some(0_u32);
            while self.positions.len() < self.ends[document] as usize {
                let position = next?.checked_add(reader.rice(parameter)?)?;
                next = position.checked_add(1);
                // there is room
                self.positions.push(position);
            }
        }
        reader.is_at_end().then_some(())
    }
}
