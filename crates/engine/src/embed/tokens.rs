//! A model's tokenizer: token ids for the model, token counts for the splitter.
//!
//! # Counting
//! A run counts the tokens of every chunk, and the tokenizer reads a few megabytes a second. But the tokenizers of BERT and
//! its kin look at each word between two spaces by itself: the normalizer goes character by character, the
//! pre-tokenizer always cuts at a space, and no added token holds one. So the tokens of a text are those of its words. In
//! a word in ASCII each punctuation mark is one token, in the vocabulary or not, and what is between them is cut off too,
//! unless there is an added token like `[MASK]` in it. What is left of the words of a language is little: each is
//! tokenized once and its count remembered. Other tokenizers are asked for the whole text.

use std::{
    collections::HashMap,
    path::Path,
    sync::{PoisonError, RwLock},
};

use rag_document::{CountedWord, TokenCounter};
use rag_model::{invalid, settings::Settings, unreadable};
use rag_protocol::{EngineError, ErrorKind};
use tokenizers::{ModelWrapper, NormalizerWrapper, PostProcessor, PreTokenizerWrapper, Tokenizer, TruncationDirection};

/// The longest text that is tokenized, in bytes: hundreds of times what any supported model sees, and little enough
/// that a text of one user cannot take the memory of all.
pub const MAX_TEXT: usize = 4 << 20;

/// A text as the model is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// At most the model's limit, special tokens included.
    pub ids: Vec<u32>,
    /// Tokens of the whole text, special tokens included, before any truncation.
    pub count: usize,
}

#[derive(Debug)]
pub struct ModelTokenizer {
    /// Neither truncates nor pads, whatever its file says.
    tokenizer: Tokenizer,
    /// Tokens added to every text: `[CLS]` and `[SEP]`.
    special_tokens: usize,
    limit: usize,
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
        let added: Vec<String> =
            tokenizer.get_added_tokens_decoder().into_values().map(|token| token.content).collect();
        let fits = matches!(tokenizer.get_normalizer(), None | Some(NormalizerWrapper::BertNormalizer(_)))
            && matches!(tokenizer.get_model(), ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_))
            && !added.iter().any(|token| token.contains(char::is_whitespace));
        let cuts_at_marks = match tokenizer.get_pre_tokenizer()? {
            // An added token that is not punctuation at its ends could be a part of what is between two marks.
            PreTokenizerWrapper::BertPreTokenizer(_) => {
                let is_mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
                added.iter().all(|token| is_mark(token.chars().next()))
            }
            PreTokenizerWrapper::WhitespaceSplit(_) => false,
            _ => return None,
        };
        fits.then(|| Self { counts: RwLock::default(), added, cuts_at_marks })
    }

    /// Whether the word's tokens are its marks and those of what is between them.
    fn falls_apart(&self, word: &[u8]) -> bool {
        self.cuts_at_marks
            && word.iter().all(u8::is_ascii_graphic)
            && !self.added.iter().map(String::as_bytes).any(|token| {
                let begins = |at: &usize| word.get(*at) == token.first();
                (0..word.len()).filter(begins).any(|at| word[at..].starts_with(token))
            })
    }

    /// `None` where the tokenizer fails on a word.
    fn count(&self, text: &str, tokenizer: &Tokenizer) -> Option<usize> {
        let mut total = 0;
        self.each(text, tokenizer, |_, tokens| total += tokens)?;
        Some(total)
    }

    /// Tells of each word where it begins and how many tokens it has; `None` where the tokenizer fails on one.
    fn each<'t>(&self, text: &'t str, tokenizer: &Tokenizer, mut tell: impl FnMut(&'t [u8], usize)) -> Option<()> {
        let mut learnt: HashMap<Box<[u8]>, usize> = HashMap::new();
        {
            let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
            let mut look_up = |piece: &[u8]| -> Option<usize> {
                if let Some(count) = counts.get(piece).or_else(|| learnt.get(piece)) {
                    return Some(*count);
                }
                let count = tokenizer.encode_fast(std::str::from_utf8(piece).ok()?, false).ok()?.len();
                if piece.len() <= Self::LONGEST && learnt.len() < Self::MOST {
                    learnt.insert(piece.into(), count);
                }
                Some(count)
            };
            // What separates words in every tokenizer that this is for: of other white space some normalizers make nothing.
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
            for word in text.as_bytes().split(is_space).filter(|word| !word.is_empty()) {
                if word.iter().all(u8::is_ascii_alphanumeric) || !self.falls_apart(word) {
                    tell(word, look_up(word)?);
                    continue;
                }
                let mut total = word.iter().filter(|byte| byte.is_ascii_punctuation()).count();
                for piece in word.split(u8::is_ascii_punctuation).filter(|piece| !piece.is_empty()) {
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
        let bad = |e: tokenizers::Error| {
            invalid(path, e.to_string()).hint("It must be the tokenizer.json of a \"fast\" Hugging Face tokenizer.")
        };
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(bad)?;
        // The file may ask for padding to 128 and for a shorter limit than the model's.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(bad)?;
        let special_tokens = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        let limit = settings.max_tokens;
        if special_tokens >= limit {
            return Err(invalid(path, format!("it adds {special_tokens} special tokens; the model takes {limit}")));
        }
        let words = Words::of(&tokenizer);
        Ok(Self { tokenizer, special_tokens, limit, words })
    }

    /// # Errors
    /// `LimitExceeded` for a text longer than [`MAX_TEXT`].
    pub fn tokenize(&self, text: &str) -> Result<Tokens, EngineError> {
        if text.len() > MAX_TEXT {
            return Err(EngineError::new(ErrorKind::LimitExceeded, "a text is too long to be embedded")
                .detail(format!("It has {} bytes; the limit is {MAX_TEXT}.", text.len()))
                .hint(format!("Split it: the model sees {} tokens.", self.limit)));
        }
        let failed = |e: tokenizers::Error| {
            EngineError::new(ErrorKind::Internal, "the tokenizer failed on a text").detail(e.to_string())
        };
        // Truncated by hand: a tokenizer that truncates stops early, and cannot tell how long the text was.
        let mut encoding = self.tokenizer.encode_fast(text, false).map_err(failed)?;
        let count = encoding.len() + self.special_tokens;
        encoding.truncate(self.limit - self.special_tokens, 0, TruncationDirection::Right);
        encoding.take_overflowing();
        let encoding = self.tokenizer.post_process(encoding, None, true).map_err(failed)?;
        Ok(Tokens { ids: encoding.get_ids().to_vec(), count })
    }
}

impl TokenCounter for ModelTokenizer {
    /// A text that cannot be tokenized counts as too long.
    fn count(&self, text: &str) -> usize {
        if text.len() <= MAX_TEXT
            && let Some(count) = self.words.as_ref().and_then(|words| words.count(text, &self.tokenizer))
        {
            return count + self.special_tokens;
        }
        self.tokenize(text).map_or(text.len().max(self.limit + 1), |tokens| tokens.count)
    }

    fn limit(&self) -> usize {
        self.limit
    }

    fn words(&self, text: &str) -> Option<Vec<CountedWord>> {
        let mut words = vec![];
        let (mut total, mut fits) = (0u32, u32::try_from(text.len()).is_ok());
        self.words.as_ref()?.each(text, &self.tokenizer, |word, tokens| {
            // A word that no chunk may hold is cut, and its pieces are counted.
            fits &= word.len() <= MAX_TEXT;
            total = total.saturating_add(u32::try_from(tokens).unwrap_or(u32::MAX));
            let start = (word.as_ptr() as usize - text.as_ptr() as usize) as u32;
            words.push(CountedWord { start, end: start + word.len() as u32, tokens: total });
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
        let vocabulary =
            ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b", "ab", "##ab", ".", "-", "e", "中", "!"];
        let vocabulary: HashMap<&str, usize> = vocabulary.iter().enumerate().map(|(id, token)| (*token, id)).collect();
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

    /// Counts every text as a whole.
    struct Whole<'a>(&'a ModelTokenizer);

    impl TokenCounter for Whole<'_> {
        fn count(&self, text: &str) -> usize {
            self.0.tokenize(text).unwrap().count
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
            let counter = ModelTokenizer { tokenizer, special_tokens: 0, limit: 24, words };
            let extracted = Extracted {
                text,
                title: Title { text: "a b-a".into(), own },
                metadata: serde_json::Map::new(),
                structure: Structure::Prose,
            };
            let splitting = Splitting { chunk_size, chunk_overlap, unit };
            let chunks = rag_document::split(&extracted, &splitting, &counter).unwrap();
            prop_assert_eq!(chunks, rag_document::split(&extracted, &splitting, &Whole(&counter)).unwrap());
        }
    }
}
