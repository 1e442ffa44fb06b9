//! A model's tokenizer: token ids for the model, token counts for the splitter.

use std::path::Path;

use rag_document::TokenCounter;
use rag_model::{invalid, settings::Settings, unreadable};
use rag_protocol::{EngineError, ErrorKind};
use tokenizers::{PostProcessor, Tokenizer, TruncationDirection};

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
        Ok(Self { tokenizer, special_tokens, limit })
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
        self.tokenize(text).map_or(text.len().max(self.limit + 1), |tokens| tokens.count)
    }

    fn limit(&self) -> usize {
        self.limit
    }
}
