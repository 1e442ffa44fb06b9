//! The recursive splitter: texts into chunks that a model sees whole.
//!
//! A chunk is a slice of the text without whitespace around it, at most `chunk_size` characters long, and short enough
//! that the model's limit holds for what is embedded: the document's own title, a blank line, the chunk. All chunks
//! together miss nothing of the text but whitespace, and each begins and ends after the one before it.
//!
//! **Where a chunk ends.** Of all places where it may, in the second half of the room there is, the one of the highest
//! rank: before a heading, at the end of a paragraph, of a line, of a sentence, of a word; the last of equals. If there
//! is none, at the last end of a word in the first half. A word that is longer than a chunk is cut between Unicode's
//! words (Chinese and Japanese are written without spaces), else between graphemes (an emoji family, a letter with its
//! accents), else between characters.
//!
//! **Where the next one begins.** As the place of highest rank among the last `chunk_overlap` characters, the first of
//! equals; but never within the first quarter of the previous chunk, so that an overlap nearly as large as a chunk
//! still gets through the text in a bounded number of steps. If the overlap does not leave room for anything new, it
//! is left out.
//!
//! **Tokens.** A chunk is counted whole, with the title. If it has too many tokens, the room is reduced in proportion,
//! and the chunk cut and counted again. The next chunk is first tried with the room that suited this one, and with more
//! if that leaves an eighth of the tokens unused; so a text with many tokens for its length costs hardly more than one
//! count a chunk. Time is linear in the length of the text.

mod breaks;

use std::cell::OnceCell;

use rag_protocol::ingest::{Chunk, Splitting, Stage, Title, embedded_text};

use self::breaks::{Breaks, Place};
use crate::{Problem, TokenCounter};

/// Cuts a text into chunks, in order; a blank text has none.
///
/// # Errors
/// [`Stage::Split`] where `splitting` contradicts itself, or where the title leaves no room for a single character.
pub fn split(
    text: &str,
    title: &Title,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, Problem> {
    check(splitting)?;
    let breaks = Breaks::of(text);
    let room = Room { breaks: &breaks, title, chunk_size: splitting.chunk_size, tokens, title_tokens: OnceCell::new() };
    let mut chunks = vec![];
    let mut start = breaks.begin();
    let mut covered = start;
    let mut size = splitting.chunk_size;
    while covered.byte < breaks.end().byte {
        let end = room.fill(start, &mut size)?;
        if end.byte <= covered.byte {
            start = breaks.next_start(covered);
            continue;
        }
        chunks.push(Chunk {
            start_index: start.char,
            byte_start: start.byte,
            byte_len: end.byte - start.byte,
            ..Chunk::default()
        });
        covered = end;
        start = overlap(&breaks, start, end, splitting.chunk_overlap).unwrap_or_else(|| breaks.next_start(end));
    }
    Ok(chunks)
}

fn check(splitting: &Splitting) -> Result<(), Problem> {
    let Splitting { chunk_size, chunk_overlap, .. } = *splitting;
    if chunk_size == 0 {
        return Err(Problem::new(Stage::Split, "chunk_size must be at least 1"));
    }
    if chunk_overlap >= chunk_size {
        return Err(Problem::new(
            Stage::Split,
            format!("chunk_overlap ({chunk_overlap}) must be less than chunk_size ({chunk_size})"),
        ));
    }
    Ok(())
}

/// Where the chunk after `start..end` begins to repeat it, if it does.
fn overlap(breaks: &Breaks, start: Place, end: Place, most: usize) -> Option<Place> {
    if most == 0 {
        return None;
    }
    let quarter = (end.char - start.char).div_ceil(4);
    breaks.best_start(start, end, end.char.saturating_sub(most).max(start.char + quarter))
}

/// The room that a chunk has: characters and tokens.
struct Room<'a> {
    breaks: &'a Breaks<'a>,
    title: &'a Title,
    chunk_size: usize,
    tokens: &'a dyn TokenCounter,
    /// What the title takes, with the special tokens.
    title_tokens: OnceCell<usize>,
}

impl Room<'_> {
    /// The end of a chunk that begins at `start` and makes good use of the room. `size` is the number of characters
    /// that is tried first, and becomes the one to try for the next chunk.
    fn fill(&self, start: Place, size: &mut usize) -> Result<Place, Problem> {
        let limit = self.tokens.limit();
        let mut fitting: Option<Place> = None;
        loop {
            let end = self.breaks.best_end(start, *size);
            if let Some(shorter) = fitting
                && end.byte <= shorter.byte
            {
                return Ok(shorter);
            }
            let length = end.char - start.char;
            let used = self.count(self.breaks.slice(start, end));
            let (tried, share) = (*size, self.share(length, used));
            if used <= limit {
                *size = share;
                let is_full = tried >= share || used > limit - limit / 8 || end == self.breaks.end();
                if is_full || fitting.is_some() {
                    return Ok(end);
                }
                fitting = Some(end);
            } else if let Some(shorter) = fitting {
                return Ok(shorter);
            } else if length > 1 {
                *size = share.min(length - length.div_ceil(64)).max(1);
            } else {
                return Err(self.no_room(used));
            }
        }
    }

    /// How many characters are likely to fit, if the text goes on as it is in a chunk of `length` characters that used
    /// `used` tokens: hardly less than those that would just fit, and at most the size of a chunk.
    fn share(&self, length: usize, used: usize) -> usize {
        let title = *self.title_tokens.get_or_init(|| self.count(""));
        let room = self.tokens.limit().saturating_sub(title);
        let share = length.saturating_mul(room) / used.saturating_sub(title).max(1);
        (share - share / 64).clamp(1, self.chunk_size)
    }

    fn count(&self, chunk: &str) -> usize {
        self.tokens.count(&embedded_text(self.title, chunk))
    }

    fn no_room(&self, used: usize) -> Problem {
        let limit = self.tokens.limit();
        let what = if self.title.own { "the title and a single character" } else { "a single character" };
        let problem =
            Problem::new(Stage::Split, format!("{what} take {used} tokens, and the model sees at most {limit}"));
        match self.title.own {
            true => problem.hint("Give the document a shorter title, or use a model with a higher limit."),
            false => problem.hint("Use a model with a higher limit."),
        }
    }
}
