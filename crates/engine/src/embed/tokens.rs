//! A model's tokenizer: token ids for the model, token counts for the splitter.
//!
//! # Counting
//! A run counts the tokens of every chunk, and the tokenizer reads a few megabytes a second. But
//! the tokenizers of BERT and its relatives treat each word between two spaces independently: the
//! normalizer works by character, the pre-tokenizer always cuts at a space, and no added token
//! contains one. So the tokens of a text are those of its words. In an ASCII word each punctuation
//! mark is one token, in the vocabulary or not, and separates the parts around it, unless the word
//! contains an added token like `[MASK]`. A language has few distinct words then: each is tokenized
//! once and its count cached. Other tokenizers get the whole text.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use rag_document::{CountedWord, TokenCounter};
use rag_model::{invalid, settings::Settings, unreadable};
use rag_protocol::{EngineError, ErrorKind, embed::MAX_TEXT};
use tokenizers::{
    Encoding, ModelWrapper, NormalizerWrapper, PostProcessor, PreTokenizerWrapper, Tokenizer,
    TruncationDirection,
};

/// Number of bytes that are tokenized at a time. A tokenizer takes some hundred bytes of memory for
/// each byte of a text, and a model reads only the first few thousand.
const PIECE: usize = 16 << 10;
/// Number of bytes of a word that are tokenized. Longer words have no meaning for any model.
const LONGEST_WORD: usize = 1 << 20;
/// Number of tokens beyond the model's limit after which the rest of a text no longer changes those
/// within it.
const MARGIN: usize = 32;
/// Number of bytes of a text whose tokens are counted beyond the model's limit.
const COUNTED_BYTES: usize = 256 << 10;
/// Pieces that are longer than this are tokenized one at a time, across all clients.
const EXCLUSIVE_BYTES: usize = 64 << 10;
static LARGE_PIECE: Mutex<()> = Mutex::new(());

/// A text as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// At most the model's limit, special tokens included.
    pub ids: Vec<u32>,
    /// For each token the text of a pair that it belongs to, 0 or 1. Empty for a single text.
    pub segments: Vec<u32>,
    /// Tokens of the text, special tokens included, before any truncation. For a long text: at
    /// least as many as its first [`COUNTED_BYTES`] bytes have, and more than the limit.
    pub count: usize,
}

#[derive(Debug)]
pub struct ModelTokenizer {
    /// Neither truncates nor pads, whatever its file says.
    tokenizer: Tokenizer,
    /// Tokens added to every text: `[CLS]` and `[SEP]`.
    special_tokens: usize,
    limit: usize,
    /// The content of `tokenizer.json`.
    json: Arc<[u8]>,
    /// Set if a text's tokens are those of its words.
    words: Option<Words>,
}

/// Cached numbers of tokens of words.
#[derive(Debug)]
struct Words {
    counts: RwLock<HashMap<Box<[u8]>, usize>>,
    /// Tokens that are never split: `[MASK]`.
    added: Vec<String>,
    /// True if each punctuation mark is a token.
    cuts_at_marks: bool,
}

impl Words {
    /// Maximum number of cached words, and maximum length of one.
    const MAX_CACHED_WORDS: usize = 1 << 17;
    const MAX_CACHED_BYTES: usize = 48;

    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let added: Vec<String> = tokenizer
            .get_added_tokens_decoder()
            .into_values()
            .map(|token| token.content)
            .collect();
        let fits = matches!(
            tokenizer.get_normalizer(),
            None | Some(NormalizerWrapper::BertNormalizer(_))
        ) && matches!(
            tokenizer.get_model(),
            ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_)
        ) && !added
            .iter()
            .any(|token| token.contains(char::is_whitespace));
        let cuts_at_marks = match tokenizer.get_pre_tokenizer()? {
            // An added token that does not begin and end with punctuation could be part of a piece
            // between two marks.
            PreTokenizerWrapper::BertPreTokenizer(_) => {
                let is_mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
                added.iter().all(|token| is_mark(token.chars().next()))
            }
            PreTokenizerWrapper::WhitespaceSplit(_) => false,
            _ => return None,
        };
        fits.then(|| Self {
            counts: RwLock::default(),
            added,
            cuts_at_marks,
        })
    }

    /// Returns true if the word's tokens are its marks and those of the parts between them.
    fn falls_apart(&self, word: &[u8]) -> bool {
        self.cuts_at_marks
            && word.iter().all(u8::is_ascii_graphic)
            && !self.added.iter().map(String::as_bytes).any(|token| {
                let begins = |at: &usize| word.get(*at) == token.first();
                (0..word.len())
                    .filter(begins)
                    .any(|at| word[at..].starts_with(token))
            })
    }

    /// Returns `None` if the tokenizer fails on a word.
    fn count(&self, text: &str, tokenizer: &Tokenizer) -> Option<usize> {
        let mut total = 0;
        self.each(text, tokenizer, |_, tokens| total += tokens)?;
        Some(total)
    }

    /// Calls `f` with the start and the number of tokens of each word. Returns `None` if the
    /// tokenizer fails on one.
    fn each<'t>(
        &self,
        text: &'t str,
        tokenizer: &Tokenizer,
        mut tell: impl FnMut(&'t [u8], usize),
    ) -> Option<()> {
        let mut learnt: HashMap<Box<[u8]>, usize> = HashMap::new();
        {
            let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
            let mut look_up = |piece: &[u8]| -> Option<usize> {
                if let Some(count) = counts.get(piece).or_else(|| learnt.get(piece)) {
                    return Some(*count);
                }
                let count = encode(
                    tokenizer,
                    start_of(std::str::from_utf8(piece).ok()?, LONGEST_WORD),
                )
                .ok()?
                .len();
                if piece.len() <= Self::MAX_CACHED_BYTES && learnt.len() < Self::MAX_CACHED_WORDS {
                    learnt.insert(piece.into(), count);
                }
                Some(count)
            };
            // Some normalizers drop other white space.
            for word in text
                .as_bytes()
                .split(is_space)
                .filter(|word| !word.is_empty())
            {
                if word.iter().all(u8::is_ascii_alphanumeric) || !self.falls_apart(word) {
                    tell(word, look_up(word)?);
                    continue;
                }
                let mut total = word
                    .iter()
                    .filter(|byte| byte.is_ascii_punctuation())
                    .count();
                for piece in word
                    .split(u8::is_ascii_punctuation)
                    .filter(|piece| !piece.is_empty())
                {
                    total += look_up(piece)?;
                }
                tell(word, total);
            }
        }
        if !learnt.is_empty() {
            let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
            if counts.len() + learnt.len() > Self::MAX_CACHED_WORDS {
                counts.clear();
            }
            counts.extend(learnt);
        }
        Some(())
    }
}

impl ModelTokenizer {
    /// Reads `tokenizer.json`, for texts of at most `limit` tokens.
    ///
    /// # Errors
    /// `FileNotFound`, `InvalidModel`.
    pub fn read_with_limit(dir: &Path, limit: usize) -> Result<Self, EngineError> {
        let path = dir.join("tokenizer.json");
        let bytes = Self::read_file(&path)?;
        Self::parse_with_limit(&path, &bytes, limit)
    }

    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// `FileNotFound`, or another one of the file.
    pub fn read_file(path: &Path) -> Result<Vec<u8>, EngineError> {
        rag_protocol::file::read(path).map_err(|e| {
            unreadable(path, &e)
                .hint("The folder of a model contains the tokenizer.json of its publisher.")
        })
    }

    pub fn parse(path: &Path, bytes: &[u8], settings: &Settings) -> Result<Self, EngineError> {
        Self::parse_with_limit(path, bytes, settings.max_tokens)
    }

    fn parse_with_limit(path: &Path, bytes: &[u8], limit: usize) -> Result<Self, EngineError> {
        let bad = |e: tokenizers::Error| {
            invalid(path, e.to_string())
                .hint("It must be the tokenizer.json of a \"fast\" Hugging Face tokenizer.")
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(bad)?;
        // The file may request padding to 128 and a shorter limit than the model's.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(bad)?;
        let special_tokens = tokenizer
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        if special_tokens >= limit {
            return Err(invalid(
                path,
                format!("it adds {special_tokens} special tokens; the model takes {limit}"),
            ));
        }
        let words = Words::of(&tokenizer);
        Ok(Self {
            tokenizer,
            special_tokens,
            limit,
            json: bytes.into(),
            words,
        })
    }

    /// Returns the content of `tokenizer.json`, and the maximum number of tokens of a text: the
    /// arguments of [`ModelTokenizer::rebuilt`].
    pub fn recipe(&self) -> (Arc<[u8]>, usize) {
        (Arc::clone(&self.json), self.limit)
    }

    /// Checks that the model has a vector for each token.
    ///
    /// # Errors
    /// `InvalidModel` if the tokenizer knows more words than the model.
    pub fn check_words(&self, path: &Path, words: usize) -> Result<(), EngineError> {
        let largest = self.tokenizer.get_vocab(true).into_values().max();
        let largest = largest.unwrap_or_default() as usize;
        if largest < words {
            return Ok(());
        }
        Err(invalid(
            path,
            format!("it has a token of number {largest}; the model has {words} words"),
        )
        .hint("The tokenizer and the model may be of two different models."))
    }

    /// Builds the same tokenizer in another process.
    ///
    /// # Errors
    /// See [`ModelTokenizer::parse`].
    pub fn rebuilt(json: &[u8], max_tokens: usize) -> Result<Self, EngineError> {
        Self::parse_with_limit(Path::new("tokenizer.json"), json, max_tokens)
    }

    /// Returns the number of tokens of a text, without special tokens.
    pub fn count_alone(&self, text: &str) -> usize {
        self.count(text).saturating_sub(self.special_tokens)
    }

    /// Returns the part of the text that the model reads, and the text's length in tokens. Returns
    /// `None` if the result is no longer wanted. No more of the text is tokenized than necessary.
    ///
    /// # Errors
    /// `LimitExceeded` for a text longer than [`MAX_TEXT`].
    pub fn tokenize(
        &self,
        text: &str,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Option<Tokens>, EngineError> {
        let Some((mut encoding, count)) = self.beginning(text, abandoned)? else {
            return Ok(None);
        };
        let count = count + self.special_tokens;
        // Truncated here: a tokenizer that truncates does not report how long the text was.
        encoding.truncate(
            self.limit - self.special_tokens,
            0,
            TruncationDirection::Right,
        );
        encoding.take_overflowing();
        let encoding = self
            .tokenizer
            .post_process(encoding, None, true)
            .map_err(failed)?;
        Ok(Some(Tokens {
            ids: encoding.get_ids().to_vec(),
            segments: vec![],
            count,
        }))
    }

    /// Returns the first tokens of a text, more than the model reads or all, and the number of its
    /// tokens; both without special tokens.
    fn beginning(
        &self,
        text: &str,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Option<(Encoding, usize)>, EngineError> {
        if text.len() > MAX_TEXT {
            return Err(EngineError::new(
                ErrorKind::LimitExceeded,
                "a text is too long to be embedded",
            )
            .detail(format!(
                "It has {} bytes; the limit is {MAX_TEXT}.",
                text.len()
            ))
            .hint(format!("Split it: the model reads {} tokens.", self.limit)));
        }
        let head = match &self.words {
            Some(_) => self.head_by_words(text, PIECE, abandoned),
            None => self.head(text, abandoned),
        };
        let Some((encoding, is_whole)) = head.map_err(failed)? else {
            return Ok(None);
        };
        let mut count = encoding.len();
        if !is_whole && let Some(words) = &self.words {
            let counted = words.count(start_of(text, COUNTED_BYTES), &self.tokenizer);
            count = count.max(counted.unwrap_or(0));
        }
        Ok(Some((encoding, count)))
    }

    /// Returns the first tokens of a text whose tokens are those of its words: more than the model
    /// reads, or all; and whether they are all.
    fn head_by_words(
        &self,
        text: &str,
        piece: usize,
        abandoned: &dyn Fn() -> bool,
    ) -> tokenizers::Result<Option<(Encoding, bool)>> {
        let mut head = Encoding::default();
        let mut rest = text;
        while !rest.is_empty() && head.len() + self.special_tokens <= self.limit {
            if abandoned() {
                return Ok(None);
            }
            let (next, after) = split_between_words(rest, piece);
            head.merge_with(
                encode(&self.tokenizer, start_of(next, LONGEST_WORD.max(piece)))?,
                true,
            );
            rest = after;
        }
        Ok(Some((head, rest.is_empty())))
    }

    /// Returns the tokens of the text's head for any other tokenizer, from a beginning of the text
    /// that has more tokens than the model reads.
    fn head(
        &self,
        text: &str,
        abandoned: &dyn Fn() -> bool,
    ) -> tokenizers::Result<Option<(Encoding, bool)>> {
        let most = LONGEST_WORD.max(self.limit.saturating_mul(64));
        let mut length = PIECE.max(self.limit.saturating_mul(16)).min(most);
        loop {
            if abandoned() {
                return Ok(None);
            }
            let start = if text.len() > length {
                split_before(text, length).0
            } else {
                text
            };
            let head = encode(&self.tokenizer, start)?;
            let is_whole = start.len() == text.len();
            if is_whole || head.len() >= self.limit + MARGIN || length >= most {
                return Ok(Some((head, is_whole)));
            }
            length = length.saturating_mul(4).min(most);
        }
    }
}

fn failed(error: tokenizers::Error) -> EngineError {
    EngineError::new(ErrorKind::Internal, "the tokenizer failed on a text")
        .detail(error.to_string())
}

/// Runs the tokenizer once, without special tokens.
fn encode(tokenizer: &Tokenizer, piece: &str) -> tokenizers::Result<Encoding> {
    let _alone = (piece.len() > EXCLUSIVE_BYTES)
        .then(|| LARGE_PIECE.lock().unwrap_or_else(PoisonError::into_inner));
    tokenizer.encode_fast(piece, false)
}

/// Separators of words in every tokenizer that [`Words`] is for.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// Returns at most this number of bytes of a text.
fn start_of(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the whole words of the first `bytes` of a text, or its first word; and the rest.
fn split_between_words(text: &str, bytes: usize) -> (&str, &str) {
    if text.len() <= bytes {
        return (text, "");
    }
    let within = text.as_bytes()[..bytes]
        .iter()
        .rposition(is_space)
        .map(|at| at + 1);
    let end = within.or_else(|| text.as_bytes().iter().position(is_space));
    text.split_at(end.filter(|end| *end > 0).unwrap_or(text.len()))
}

/// Returns a beginning of at most `bytes`, up to a space if there is one in its second half; and
/// the rest.
fn split_before(text: &str, bytes: usize) -> (&str, &str) {
    let start = start_of(text, bytes);
    let space = start
        .as_bytes()
        .iter()
        .rposition(is_space)
        .filter(|at| *at > bytes / 2);
    text.split_at(space.unwrap_or(start.len()))
}

impl TokenCounter for ModelTokenizer {
    /// A text that cannot be tokenized counts as too long.
    fn count(&self, text: &str) -> usize {
        if text.len() <= LONGEST_WORD
            && let Some(count) = self
                .words
                .as_ref()
                .and_then(|words| words.count(text, &self.tokenizer))
        {
            return count + self.special_tokens;
        }
        let tokens = if text.len() <= LONGEST_WORD {
            encode(&self.tokenizer, text).ok()
        } else {
            None
        };
        tokens.map_or(text.len().max(self.limit + 1), |tokens| {
            tokens.len() + self.special_tokens
        })
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn words(&self, text: &str) -> Option<Vec<CountedWord>> {
        let mut words = vec![];
        let (mut total, mut fits) = (0u32, u32::try_from(text.len()).is_ok());
        self.words
            .as_ref()?
            .each(text, &self.tokenizer, |word, tokens| {
                // A word that no chunk can hold is cut, and its pieces are counted.
                fits &= word.len() <= LONGEST_WORD;
                total = total.saturating_add(u32::try_from(tokens).unwrap_or(u32::MAX));
                let start = (word.as_ptr() as usize - text.as_ptr() as usize) as u32;
                words.push(CountedWord {
                    start,
                    end: start + word.len() as u32,
                    tokens: total,
                });
            })?;
        (fits && total < u32::MAX).then_some(words)
    }
}

#[path = "tokens/pairs.rs"] // for the reason below
mod pairs;

#[cfg(test)]
#[path = "tokens/tests.rs"] // examples/reading.rs includes this file by its path
mod tests;
