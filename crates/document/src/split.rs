//! The recursive splitter: texts into chunks that a model sees whole.
//!
//! A chunk is a slice of the text without whitespace around it, at most `chunk_size` characters or
//! tokens long, and short enough that the model's limit holds for what is embedded: the document's
//! own title, for source code where the chunk is from, a blank line, the chunk. All chunks together
//! miss nothing of the text but whitespace, and each begins and ends after the one before it.
//!
//! **Where a chunk ends.** Of all places where it may, in the second half of the room there is, the
//! one of the highest rank; the last of equals. If there is none, at the last end of a word in the
//! first half. The ranks, best first:
//!
//! | structure | ranks |
//! |---|---|
//! | Markdown | before a heading, at the end of a paragraph, of a line, of a sentence, of a word; no paragraph ends in a code block |
//! | prose, pages | the same without headings |
//! | code | before an element of the syntax, outer ones first and those after an empty line before others; a line, a word |
//! | records | before a record; a line, a word |
//!
//! For headings and syntax the last three quarters of the room count, for records all of it: one
//! that fits into a chunk is not cut. Between a heading and its text is a place like that between
//! two words. A word that is longer than a chunk is cut between Unicode's words (Chinese and
//! Japanese are written without spaces), else between graphemes (an emoji family, a letter with its
//! accents), else between characters.
//!
//! **Where the next one begins.** As the place of highest rank among the last `chunk_overlap`
//! characters or tokens, the first of equals; but never within the first quarter of the previous
//! chunk, so that an overlap nearly as large as a chunk still gets through the text in a bounded
//! number of steps. If the overlap does not leave room for anything new, it is left out. After a
//! whole record or element of source code only whole ones are repeated.
//!
//! **Tokens.** A chunk is counted whole, with the title. If it has too many tokens, the room is
//! reduced in proportion, and the chunk cut and counted again. The next chunk is first tried with
//! the room that suited this one, and with more if that leaves an eighth of the tokens unused; so a
//! text with many tokens for its length costs hardly more than one count a chunk. Where a tokenizer
//! takes each word by itself ([`TokenCounter::words`]) each is counted once for all chunks. Time is
//! linear in the length of the text.

mod breaks;
mod outline;
mod sentences;

use std::cell::OnceCell;

use rag_protocol::ingest::{Chunk, Splitting, Stage, Title, Unit, embedded_text};

use self::{
    breaks::{Breaks, Place},
    outline::Outline,
};
use crate::{CountedWord, Extracted, Problem, TokenCounter};

/// Where the room is given in tokens: how many characters each of them is thought to have, and the
/// most it is let.
const CHARACTERS_PER_TOKEN: usize = 4;
const MAX_CHARACTERS_PER_TOKEN: usize = 64;

/// Cuts a text into chunks, in order; a blank text has none.
///
/// # Errors
/// [`Stage::Split`] where `splitting` contradicts itself, or where the title leaves no room for a
/// single character.
pub fn split(
    extracted: &Extracted,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, Problem> {
    check(splitting)?;
    let Extracted {
        text, structure, ..
    } = extracted;
    let breaks = Breaks::of(text, structure);
    let mut outline = Outline::of(extracted);
    let room = Room::new(&breaks, extracted, splitting, tokens);
    let mut chunks = vec![];
    let mut start = breaks.begin();
    let mut covered = start;
    let mut size = room.first_characters;
    while covered.byte < breaks.end().byte {
        let context = room.context(outline.context(start));
        let end = room.fill(start, &context, &mut size)?;
        if end.byte <= covered.byte {
            start = breaks.next_start(covered);
            continue;
        }
        chunks.push(outline.chunk(start, end, context.text));
        covered = end;
        start = room
            .overlap(start, end, size)
            .unwrap_or_else(|| breaks.next_start(end));
    }
    Ok(chunks)
}

fn check(splitting: &Splitting) -> Result<(), Problem> {
    let Splitting {
        chunk_size,
        chunk_overlap,
        ..
    } = *splitting;
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

/// The room that a chunk has: characters and tokens.
struct Room<'a> {
    breaks: &'a Breaks<'a>,
    title: &'a Title,
    splitting: &'a Splitting,
    /// How many are tried first, and the most that are tried.
    first_characters: usize,
    most_characters: usize,
    tokens: &'a dyn TokenCounter,
    /// What the title alone takes, with the special tokens.
    title_tokens: OnceCell<usize>,
    words: Option<Vec<CountedWord>>,
    special_tokens: OnceCell<usize>,
}

impl<'a> Room<'a> {
    fn new(
        breaks: &'a Breaks,
        Extracted { text, title, .. }: &'a Extracted,
        splitting: &'a Splitting,
        tokens: &'a dyn TokenCounter,
    ) -> Self {
        let (first_characters, most_characters) = match splitting.unit {
            Unit::Characters => (splitting.chunk_size, splitting.chunk_size),
            Unit::Tokens => {
                // The model's limit bounds what is worth trying.
                let most = splitting.chunk_size.min(tokens.limit());
                (
                    most.saturating_mul(CHARACTERS_PER_TOKEN),
                    most.saturating_mul(MAX_CHARACTERS_PER_TOKEN),
                )
            }
        };
        let (title_tokens, special_tokens) = Default::default();
        let words = tokens.words(text);
        Self {
            breaks,
            title,
            splitting,
            first_characters,
            most_characters,
            tokens,
            title_tokens,
            words,
            special_tokens,
        }
    }

    /// What goes before a chunk. A context that would take much of the room is left out.
    fn context(&self, text: String) -> Context {
        /// The part of the model's tokens that title and context may have.
        const PART: usize = 4;
        let tokens = |text: &str| self.tokens.count(&embedded_text(self.title, text, ""));
        if !text.is_empty() {
            let tokens = tokens(&text);
            if tokens <= self.tokens.limit() / PART {
                return Context { text, tokens };
            }
        }
        Context {
            text: String::new(),
            tokens: *self.title_tokens.get_or_init(|| tokens("")),
        }
    }

    /// The end of a chunk that begins at `start` and makes good use of the room. `size` is the
    /// number of characters that is tried first, and becomes the one to try for the next chunk.
    fn fill(&self, start: Place, context: &Context, size: &mut usize) -> Result<Place, Problem> {
        let mut fitting: Option<Place> = None;
        loop {
            let end = self.breaks.best_end(start, *size);
            if let Some(shorter) = fitting
                && end.byte <= shorter.byte
            {
                return Ok(shorter);
            }
            let length = end.char - start.char;
            let use_ = self.use_of(start, end, context);
            let (tried, share) = (*size, self.share(length, &use_));
            if use_.used <= use_.limit {
                *size = share;
                let is_full = tried >= share
                    || use_.used > use_.limit - use_.limit / 8
                    || end == self.breaks.end();
                if is_full || fitting.is_some() {
                    return Ok(end);
                }
                fitting = Some(end);
            } else if let Some(shorter) = fitting {
                return Ok(shorter);
            } else if length > 1 {
                *size = share.min(length - length.div_ceil(64)).max(1);
            } else {
                return Err(self.no_room(&use_));
            }
        }
    }

    /// Where the chunk after `start..end` begins to repeat it, if it does. `size` is the number of
    /// characters that would fill a chunk.
    fn overlap(&self, start: Place, end: Place, size: usize) -> Option<Place> {
        let Splitting {
            chunk_size,
            chunk_overlap,
            unit,
        } = *self.splitting;
        if chunk_overlap == 0 {
            return None;
        }
        let length = end.char - start.char;
        let quarter = length.div_ceil(4);
        let mut most = match unit {
            Unit::Characters => chunk_overlap,
            Unit::Tokens => (chunk_overlap.saturating_mul(size) / chunk_size).min(length),
        };
        loop {
            let earliest = end.char.saturating_sub(most).max(start.char + quarter);
            let place = self.breaks.best_start(start, end, earliest)?;
            if unit == Unit::Characters {
                return Some(place);
            }
            let used = self.own_tokens(place, end);
            if used <= chunk_overlap {
                return Some(place);
            }
            let repeated = end.char - place.char;
            most = (repeated.saturating_mul(chunk_overlap) / used)
                .min(repeated - repeated.div_ceil(16));
            if most == 0 {
                return None;
            }
        }
    }

    /// How many characters are likely to fit, if the text goes on as it is in a chunk of `length`
    /// characters: hardly less than those that would just fit.
    fn share(&self, length: usize, use_: &Use) -> usize {
        let share = length.saturating_mul(use_.room()) / use_.taken().max(1);
        (share - share / 64).clamp(1, self.most_characters)
    }

    /// The tokens of a chunk, by the limit that it comes closest to.
    fn use_of(&self, start: Place, end: Place, context: &Context) -> Use {
        let chunk = self.breaks.slice(start, end);
        let counted = self.counted(start, end);
        let fixed = context.tokens;
        let used = match counted {
            Some(counted) => fixed + counted,
            None => self
                .tokens
                .count(&embedded_text(self.title, &context.text, chunk)),
        };
        let whole = Use {
            used,
            fixed,
            limit: self.tokens.limit(),
            of: Limit::Model,
        };
        if self.splitting.unit == Unit::Characters {
            return whole;
        }
        let special = self.special();
        let is_alone = !self.title.own && context.text.is_empty();
        let used = if !is_alone {
            special + self.own_tokens(start, end)
        } else {
            whole.used
        };
        let limit = self.splitting.chunk_size.saturating_add(special);
        let own = Use {
            used,
            fixed: special,
            limit,
            of: Limit::ChunkSize,
        };
        if own.taken().saturating_mul(whole.room()) >= whole.taken().saturating_mul(own.room()) {
            own
        } else {
            whole
        }
    }

    fn own_tokens(&self, start: Place, end: Place) -> usize {
        let count = || {
            self.tokens
                .count(self.breaks.slice(start, end))
                .saturating_sub(self.special())
        };
        self.counted(start, end).unwrap_or_else(count)
    }

    /// The tokens of a piece that holds whole words which were counted before.
    fn counted(&self, start: Place, end: Place) -> Option<usize> {
        let words = self.words.as_ref()?;
        let (start, end) = (
            u32::try_from(start.byte).ok()?,
            u32::try_from(end.byte).ok()?,
        );
        let first = words.binary_search_by_key(&start, |word| word.start).ok()?;
        let last = words.binary_search_by_key(&end, |word| word.end).ok()?;
        let before = first
            .checked_sub(1)
            .and_then(|i| words.get(i))
            .map_or(0, |word| word.tokens);
        usize::try_from(words.get(last)?.tokens.checked_sub(before)?).ok()
    }

    fn special(&self) -> usize {
        *self.special_tokens.get_or_init(|| self.tokens.count(""))
    }

    fn no_room(&self, use_: &Use) -> Problem {
        let Use {
            used,
            limit,
            fixed,
            of,
        } = *use_;
        let problem = |what: String| Problem::new(Stage::Split, what);
        match of {
            Limit::ChunkSize => problem(format!(
                "a single character takes {} tokens, and chunk_size is {}",
                used - fixed,
                limit - fixed
            ))
            .hint("Raise chunk_size."),
            Limit::Model if self.title.own => problem(format!(
                "the title and a single character take {used} tokens, and the model sees at most {limit}"
            ))
            .hint("Give the document a shorter title, or use a model with a higher limit."),
            Limit::Model => {
                problem(format!("a single character takes {used} tokens, and the model sees at most {limit}"))
                    .hint("Use a model with a higher limit.")
            }
        }
    }
}

/// What the model is told before a chunk, and the tokens of that with the title and the special
/// ones.
struct Context {
    text: String,
    tokens: usize,
}

/// How much of a limit a chunk uses.
struct Use {
    /// Tokens, special ones included, and the title's where it counts.
    used: usize,
    /// What of these is used before the first character.
    fixed: usize,
    limit: usize,
    of: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Model,
    ChunkSize,
}

impl Use {
    fn taken(&self) -> usize {
        self.used.saturating_sub(self.fixed)
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.fixed)
    }
}
