//! A model's tokenizer: token ids for the model, token counts for the splitter.
//!
//! # Counting
//! A run counts the tokens of every chunk, and the tokenizer reads a few megabytes a second. But
//! the tokenizers of BERT and its kin look at each word between two spaces by itself: the
//! normalizer goes character by character, the pre-tokenizer always cuts at a space, and no added
//! token holds one. So the tokens of a text are those of its words. In a word in ASCII each
//! punctuation mark is one token, in the vocabulary or not, and what is between them is cut off
//! too, unless there is an added token like `[MASK]` in it. What is left of the words of a language
//! is little: each is tokenized once and its count remembered. Other tokenizers are asked for the
//! whole text.

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

/// Bytes that are tokenized at a time. A tokenizer takes some hundred bytes of memory for each of a
/// text; what a model reads of it is in the first few thousand.
const PIECE: usize = 16 << 10;
/// Bytes of a word that are tokenized. A word of such a length has no meaning for any model.
const LONGEST_WORD: usize = 1 << 20;
/// Tokens beyond the model's limit that show that what follows does not change those within it.
const MARGIN: usize = 32;
/// Bytes of a text whose tokens are counted beyond the model's limit.
const COUNTED: usize = 256 << 10;
/// Pieces that are longer than this are tokenized one at a time, across all clients.
const LARGE: usize = 64 << 10;
static LARGE_PIECE: Mutex<()> = Mutex::new(());

/// A text as the model is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// At most the model's limit, special tokens included.
    pub ids: Vec<u32>,
    /// Tokens of the text, special tokens included, before any truncation. Of a long text at least
    /// as many as its first [`COUNTED`] bytes have, and more than the limit.
    pub count: usize,
}

#[derive(Debug)]
pub struct ModelTokenizer {
    /// Neither truncates nor pads, whatever its file says.
    tokenizer: Tokenizer,
    /// Tokens added to every text: `[CLS]` and `[SEP]`.
    special_tokens: usize,
    limit: usize,
    /// The file's text.
    json: Arc<[u8]>,
    /// Where a text's tokens are those of its words.
    words: Option<Words>,
}

/// The number of tokens of words that were met.
#[derive(Debug)]
struct Words {
    counts: RwLock<HashMap<Box<[u8]>, usize>>,
    /// What is one token wherever it is: `[MASK]`.
    added: Vec<String>,
    /// Whether punctuation marks are tokens by themselves.
    cuts_at_marks: bool,
}

impl Words {
    /// Words that are remembered, and the longest of them.
    const MOST: usize = 1 << 17;
    const LONGEST: usize = 48;

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
            // An added token that is not punctuation at its ends could be a part of what is between
            // two marks.
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

    /// Whether the word's tokens are its marks and those of what is between them.
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

    /// `None` where the tokenizer fails on a word.
    fn count(&self, text: &str, tokenizer: &Tokenizer) -> Option<usize> {
        let mut total = 0;
        self.each(text, tokenizer, |_, tokens| total += tokens)?;
        Some(total)
    }

    /// Tells of each word where it begins and how many tokens it has; `None` where the tokenizer
    /// fails on one.
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
                if piece.len() <= Self::LONGEST && learnt.len() < Self::MOST {
                    learnt.insert(piece.into(), count);
                }
                Some(count)
            };
            // of other white space some normalizers make nothing
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
            if counts.len() + learnt.len() > Self::MOST {
                counts.clear();
            }
            counts.extend(learnt);
        }
        Some(())
    }
}

impl ModelTokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// `FileNotFound`, `InvalidModel`.
    pub fn read(dir: &Path, settings: &Settings) -> Result<Self, EngineError> {
        let path = dir.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|e| unreadable(&path, &e))?;
        Self::parse(&path, &bytes, settings)
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
        // The file may ask for padding to 128 and for a shorter limit than the model's.
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

    /// The text of `tokenizer.json`, and the most tokens of a text: what [`ModelTokenizer::again`]
    /// needs.
    pub fn recipe(&self) -> (Arc<[u8]>, usize) {
        (Arc::clone(&self.json), self.limit)
    }

    /// The same tokenizer in another process.
    ///
    /// # Errors
    /// As [`ModelTokenizer::parse`].
    pub fn again(json: &[u8], max_tokens: usize) -> Result<Self, EngineError> {
        Self::parse_with_limit(Path::new("tokenizer.json"), json, max_tokens)
    }

    /// What the model reads of a text, and how long the text is; `None` where nobody waits for it
    /// any more. No more of the text is tokenized than that takes.
    ///
    /// # Errors
    /// `LimitExceeded` for a text longer than [`MAX_TEXT`].
    pub fn tokenize(
        &self,
        text: &str,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Option<Tokens>, EngineError> {
        if text.len() > MAX_TEXT {
            return Err(EngineError::new(
                ErrorKind::LimitExceeded,
                "a text is too long to be embedded",
            )
            .detail(format!(
                "It has {} bytes; the limit is {MAX_TEXT}.",
                text.len()
            ))
            .hint(format!("Split it: the model sees {} tokens.", self.limit)));
        }
        let failed = |e: tokenizers::Error| {
            EngineError::new(ErrorKind::Internal, "the tokenizer failed on a text")
                .detail(e.to_string())
        };
        let head = match &self.words {
            Some(_) => self.head_by_words(text, PIECE, abandoned),
            None => self.head(text, abandoned),
        };
        let Some((mut encoding, is_whole)) = head.map_err(failed)? else {
            return Ok(None);
        };
        let mut count = encoding.len() + self.special_tokens;
        if !is_whole && let Some(words) = &self.words {
            let counted = words
                .count(start_of(text, COUNTED), &self.tokenizer)
                .unwrap_or(0);
            count = count.max(counted + self.special_tokens);
        }
        // Truncated by hand: a tokenizer that truncates cannot tell how long the text was.
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
            count,
        }))
    }

    /// The first tokens of a text whose tokens are those of its words: more than the model takes,
    /// or all; and whether they are all.
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

    /// The same for any other tokenizer: of a beginning of the text that is long enough for more
    /// tokens than the model takes.
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

/// One pass of the tokenizer, which does not add special tokens.
fn encode(tokenizer: &Tokenizer, piece: &str) -> tokenizers::Result<Encoding> {
    let _alone =
        (piece.len() > LARGE).then(|| LARGE_PIECE.lock().unwrap_or_else(PoisonError::into_inner));
    tokenizer.encode_fast(piece, false)
}

/// What separates words in every tokenizer that [`Words`] is for.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// At most so many bytes of a text.
fn start_of(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The whole words of the first `bytes` of a text, or its first word; and the rest.
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

/// A beginning of at most `bytes`, up to a space where there is one in its second half; and the
/// rest.
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
                // A word that no chunk may hold is cut, and its pieces are counted.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rag_document::{Extracted, Structure};
    use rag_protocol::ingest::{Splitting, Title, Unit};
    use serde_json::json;

    use super::*;

    /// A small tokenizer of BERT's kind.
    fn bert() -> Tokenizer {
        let vocabulary = [
            "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "ab", "##ab", ".", "-",
            "e", "中", "!",
        ];
        let vocabulary: HashMap<&str, usize> = vocabulary
            .iter()
            .enumerate()
            .map(|(id, token)| (*token, id))
            .collect();
        let added = |id: usize, content: &str| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": content == "[MASK]", "rstrip": false,
                   "normalized": false, "special": true})
        };
        let json = json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [added(0, "[UNK]"), added(1, "[CLS]"), added(2, "[SEP]"), added(3, "[MASK]")],
            "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                           "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocabulary}
        });
        Tokenizer::from_bytes(json.to_string()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn the_tokens_of_a_text_are_those_of_its_words(
            texts in prop::collection::vec(prop_oneof![
                "[abAB.é中 \n\t\r\u{85}\u{A0}\u{200B}\u{2028}\u{B}\u{C}\u{301}-]{0,40}",
                "([ab]{1,5}|\\[MASK\\]|\\[SEP\\]| |\n|[.!]){0,20}",
                any::<String>(),
            ], 1..4)
        ) {
            let tokenizer = bert();
            let words = Words::of(&tokenizer).unwrap();
            prop_assert!(words.cuts_at_marks);
            for text in texts {
                let whole = tokenizer.encode_fast(text.as_str(), false).unwrap().len();
                prop_assert_eq!(words.count(&text, &tokenizer), Some(whole), "{:?}", text);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

        /// What the model reads is the same, however little of the text is tokenized.
        #[test]
        fn a_text_that_is_read_in_pieces_has_the_same_first_tokens(
            text in prop_oneof![
                "([abAB.é中-]{1,12}|\\[MASK\\]|\u{85}|\u{A0}|\n\n| |\t|[.!] ){0,80}",
                any::<String>(),
            ],
            (limit, piece) in (1usize..40, 1usize..60),
        ) {
            let tokenizer = bert();
            let words = Words::of(&tokenizer);
            let counter = ModelTokenizer { tokenizer, special_tokens: 0, limit, json: Arc::default(), words };
            let (head, is_whole) = counter.head_by_words(&text, piece, &|| false).unwrap().unwrap();
            let whole = encode(&counter.tokenizer, &text).unwrap();
            prop_assert!(!is_whole || head.len() == whole.len());
            let read = whole.len().min(limit);
            prop_assert_eq!(&head.get_ids()[..read], &whole.get_ids()[..read], "{:?}", text);
        }
    }

    #[test]
    fn a_long_text_costs_no_more_than_what_is_read_of_it() {
        let tokenizer = bert();
        let words = Words::of(&tokenizer);
        let counter = ModelTokenizer {
            tokenizer,
            special_tokens: 0,
            limit: 8,
            json: Arc::default(),
            words,
        };
        for text in [
            "a.".repeat(MAX_TEXT / 2),
            "a ".repeat(MAX_TEXT / 2),
            "a".repeat(MAX_TEXT),
        ] {
            let tokens = counter.tokenize(&text, &|| false).unwrap().unwrap();
            assert!(tokens.ids.len() <= 8);
            let whole = encode(&counter.tokenizer, start_of(&text, 4096)).unwrap();
            assert_eq!(tokens.ids, whole.get_ids()[..whole.len().min(8)]);
        }
        assert_eq!(counter.tokenize("a b", &|| true).unwrap(), None);
    }

    /// Counts every text as a whole.
    struct Whole<'a>(&'a ModelTokenizer);

    impl TokenCounter for Whole<'_> {
        fn count(&self, text: &str) -> usize {
            encode(&self.0.tokenizer, text).unwrap().len() + self.0.special_tokens
        }

        fn limit(&self) -> usize {
            self.0.limit
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

        #[test]
        fn words_counted_once_give_the_same_chunks(
            text in "([abAB.é中-]{1,12}|[ab]{1,5}|\\[MASK\\]|\u{85}|\u{A0}|\n\n| |\n|[.!] ){0,200}",
            own in any::<bool>(),
            (chunk_size, chunk_overlap) in (4usize..60).prop_flat_map(|size| (Just(size), 0..size)),
            unit in prop::sample::select(Unit::ALL.to_vec()),
        ) {
            let tokenizer = bert();
            let words = Words::of(&tokenizer);
            let counter = ModelTokenizer { tokenizer, special_tokens: 0, limit: 24, json: Arc::default(), words };
            let extracted = Extracted::new(text, Title { text: "a b-a".into(), own }, Structure::Prose);
            let splitting = Splitting { chunk_size, chunk_overlap, unit };
            let chunks = rag_document::split(&extracted, &splitting, &counter).unwrap();
            prop_assert_eq!(chunks, rag_document::split(&extracted, &splitting, &Whole(&counter)).unwrap());
        }
    }
}
