//! The recursive splitter: cuts texts into chunks that fit into a model.
//!
//! A chunk is a slice of the text without whitespace around it, of at most `chunk_size` characters
//! or tokens. It is short enough for the model's limit, which applies to all that is embedded: the
//! document's own title, the place of source code, a blank line, the chunk. All chunks together
//! contain the whole text except whitespace, and each begins and ends after the previous one.
//! Before a slice that begins among the rows of a table goes the table's head.
//!
//! **Where a chunk ends.** At the place of the highest rank in the second half of the room, the
//! last of equals. If there is none, at the last end of a word in the first half. The ranks, best
//! first:
//!
//! | structure | ranks |
//! |---|---|
//! | Markdown | before a heading, at the end of a paragraph, of a line, of a sentence, of a word; no paragraph ends in a code block |
//! | prose, pages | like Markdown, without headings |
//! | code | before an element of the syntax, outer ones first and those after an empty line before others; a line, a word |
//! | records | before a record; a line, a word |
//!
//! For headings and syntax the last three quarters of the room count, for records all of it: a
//! record that fits into a chunk is not cut. A place between a heading and its text ranks like one
//! between two words. A word that is longer than a chunk is cut between Unicode words (Chinese and
//! Japanese are written without spaces), else between graphemes (an emoji family, a letter with its
//! accents), else between characters.
//!
//! **What is embedded with a chunk.** Source code: its file, functions and types. Rows of a table:
//! the names of the columns.
//!
//! **Where the next one begins.** At the place of highest rank among the last `chunk_overlap`
//! characters or tokens, the first of equals. It is never within the first quarter of the previous
//! chunk, so that even a large overlap gets through the text in a bounded number of steps. An
//! overlap that leaves no room for anything new is dropped. After a whole record or element of
//! source code only whole ones are repeated, and of tables only whole rows.
//!
//! **Tokens.** A chunk is counted whole, with the title. If it has too many tokens, the room is
//! reduced in proportion, and the chunk is cut and counted again. The next chunk is first tried
//! with the room that suited this one, and with more if that leaves an eighth of the tokens unused.
//! So even a text with many tokens costs hardly more than one count a chunk. If a tokenizer treats
//! words independently ([`TokenCounter::words`]), each word is counted once for all chunks. Time is
//! linear in the length of the text.

mod breaks;
mod outline;
mod sentences;
mod tables;

use std::cell::OnceCell;

use rag_protocol::ingest::{Chunk, Splitting, Stage, Title, Unit, embedded_text};

use self::{
    breaks::{Breaks, Place},
    outline::Outline,
};
use crate::{CountedWord, DocumentError, ExtractedDocument, TokenCounter};

/// If the room is given in tokens: the assumed and the maximum number of characters of a token.
const CHARACTERS_PER_TOKEN: usize = 4;
const MAX_CHARACTERS_PER_TOKEN: usize = 64;

/// What goes before a piece takes at most this part of the model's tokens, and of a chunk.
const LEAD_PART: usize = 4;

/// Cuts a text into chunks, in order. A blank text has none.
///
/// # Errors
/// [`Stage::Split`] if `splitting` contradicts itself, or if the title leaves no room for a single
/// character.
pub fn split(
    extracted: &ExtractedDocument,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Vec<Chunk>, DocumentError> {
    check(splitting)?;
    let ExtractedDocument {
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
        let lead = match outline.table_head(start) {
            Some((names, head)) => room.lead_of_rows(names, head),
            None => room.lead(outline.context(start)),
        };
        let end = room.fill(start, &lead, &mut size)?;
        if end.byte <= covered.byte {
            start = breaks.next_start(covered);
            continue;
        }
        chunks.push(outline.chunk(start, end, lead));
        covered = end;
        start = room
            .overlap(start, end, size)
            .map(|start| outline.row(start))
            .filter(|start| start.byte < end.byte)
            .unwrap_or_else(|| breaks.next_start(end));
    }
    Ok(chunks)
}

fn check(splitting: &Splitting) -> Result<(), DocumentError> {
    let Splitting {
        chunk_size,
        chunk_overlap,
        ..
    } = *splitting;
    if chunk_size == 0 {
        return Err(DocumentError::new(
            Stage::Split,
            "chunk_size must be at least 1",
        ));
    }
    if chunk_overlap >= chunk_size {
        return Err(DocumentError::new(
            Stage::Split,
            format!("chunk_overlap ({chunk_overlap}) must be less than chunk_size ({chunk_size})"),
        ));
    }
    Ok(())
}

/// The room of a chunk, in characters and tokens.
struct Room<'a> {
    breaks: &'a Breaks<'a>,
    title: &'a Title,
    splitting: &'a Splitting,
    /// Number of characters that is tried first, and the maximum.
    first_characters: usize,
    most_characters: usize,
    tokens: &'a dyn TokenCounter,
    /// Tokens of the title alone, with the special tokens.
    title_tokens: OnceCell<usize>,
    words: Option<Vec<CountedWord>>,
    special_tokens: OnceCell<usize>,
}

impl<'a> Room<'a> {
    fn new(
        breaks: &'a Breaks,
        ExtractedDocument { text, title, .. }: &'a ExtractedDocument,
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

    /// Returns what goes before a piece. A context that would take much of the room is dropped.
    fn lead(&self, context: String) -> Lead {
        let tokens = |text: &str| self.tokens.count(&embedded_text(self.title, text, ""));
        if !context.is_empty() {
            let tokens = tokens(&context);
            if tokens <= self.tokens.limit() / LEAD_PART {
                return Lead {
                    context,
                    tokens,
                    ..Lead::default()
                };
            }
        }
        Lead {
            tokens: *self.title_tokens.get_or_init(|| tokens("")),
            ..Lead::default()
        }
    }

    /// Returns what goes before rows of a table. A head that would take much of a chunk is dropped.
    fn lead_of_rows(&self, names: &str, head: String) -> Lead {
        let lead = self.lead(names.to_owned());
        let (size, characters) = (self.splitting.chunk_size, head.chars().count());
        let tokens = match self.splitting.unit {
            Unit::Characters => 0,
            Unit::Tokens => self.tokens.count(&head).saturating_sub(self.special()),
        };
        let used = match self.splitting.unit {
            Unit::Characters => characters,
            Unit::Tokens => tokens,
        };
        if lead.context.is_empty() || used > size / LEAD_PART {
            return lead;
        }
        Lead {
            table_head: head,
            head_characters: characters,
            head_tokens: tokens,
            ..lead
        }
    }

    /// Returns the end of a chunk that begins at `start` and fills the room well. `size` is the
    /// number of characters to try first, and becomes the number to try for the next chunk.
    fn fill(&self, start: Place, lead: &Lead, size: &mut usize) -> Result<Place, DocumentError> {
        let most = self.most_characters - lead.head_characters.min(self.most_characters - 1);
        *size = (*size).min(most);
        let mut fitting: Option<Place> = None;
        loop {
            let end = self.breaks.best_end(start, *size);
            if let Some(shorter) = fitting
                && end.byte <= shorter.byte
            {
                return Ok(shorter);
            }
            let length = end.char - start.char;
            let usage = self.token_use(start, end, lead);
            let (tried, share) = (*size, self.share(length, &usage).min(most));
            if usage.used <= usage.limit {
                *size = share;
                let is_full = tried >= share
                    || usage.used > usage.limit - usage.limit / 8
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
                return Err(self.no_room(&usage));
            }
        }
    }

    /// Returns where the chunk after `start..end` begins to repeat it, if it does. `size` is the
    /// number of characters that would fill a chunk.
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

    /// Estimates the number of characters that fit, if the text continues as in a chunk of `length`
    /// characters: a little less than would just fit.
    fn share(&self, length: usize, usage: &TokenUse) -> usize {
        let share = length.saturating_mul(usage.room()) / usage.taken().max(1);
        (share - share / 64).clamp(1, self.most_characters)
    }

    /// Returns the tokens of a chunk, by the limit that it comes closest to.
    fn token_use(&self, start: Place, end: Place, lead: &Lead) -> TokenUse {
        let chunk = self.breaks.slice(start, end);
        let counted = self.counted(start, end);
        let fixed = lead.tokens;
        let used = match counted {
            Some(counted) => fixed + counted,
            None => self
                .tokens
                .count(&embedded_text(self.title, &lead.context, chunk)),
        };
        let whole = TokenUse {
            used,
            fixed,
            limit: self.tokens.limit(),
            of: Limit::Model,
        };
        if self.splitting.unit == Unit::Characters {
            return whole;
        }
        let special = self.special();
        let fixed = special + lead.head_tokens;
        let is_alone = !self.title.own && lead.context.is_empty();
        let used = if !is_alone {
            fixed + self.own_tokens(start, end)
        } else {
            whole.used
        };
        let limit = self.splitting.chunk_size.saturating_add(special);
        let own = TokenUse {
            used,
            fixed,
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

    /// Returns the tokens of a piece of whole words that were counted before.
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

    fn no_room(&self, usage: &TokenUse) -> DocumentError {
        let TokenUse {
            used,
            limit,
            fixed,
            of,
        } = *usage;
        let problem = |what: String| DocumentError::new(Stage::Split, what);
        match of {
            Limit::ChunkSize => problem(format!(
                "a single character takes {} tokens, and chunk_size is {}",
                used - fixed,
                limit - fixed
            ))
            .hint("Raise chunk_size."),
            Limit::Model if self.title.own => problem(format!(
                "the title and a single character take {used} tokens, and the model reads at most \
                    {limit}"
            ))
            .hint("Give the document a shorter title, or use a model with a higher limit."),
            Limit::Model => problem(format!(
                "a single character takes {used} tokens, and the model reads at \
                    most {limit}"
            ))
            .hint("Use a model with a higher limit."),
        }
    }
}

/// What goes before a piece of the text.
#[derive(Default)]
struct Lead {
    /// Embedded with the piece.
    context: String,
    /// Stored with the piece.
    table_head: String,
    /// Tokens of title and context, with the special ones.
    tokens: usize,
    head_characters: usize,
    /// Counted if chunks are measured in tokens.
    head_tokens: usize,
}

/// The share of a limit that a chunk uses.
struct TokenUse {
    /// Tokens, special ones included, with the title if it counts.
    used: usize,
    /// Tokens that are used before the first character.
    fixed: usize,
    limit: usize,
    of: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Model,
    ChunkSize,
}

impl TokenUse {
    fn taken(&self) -> usize {
        self.used.saturating_sub(self.fixed)
    }

    fn room(&self) -> usize {
        self.limit.saturating_sub(self.fixed)
    }
}
