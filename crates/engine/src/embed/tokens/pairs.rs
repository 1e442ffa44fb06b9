//! Pairs of a query and a document, as a model that scores them reads them.

use rag_protocol::EngineError;
use tokenizers::{
    TruncationDirection, TruncationParams, TruncationStrategy,
    utils::truncation::truncate_encodings,
};

use super::{ModelTokenizer, PostProcessor, Tokens, failed};

impl ModelTokenizer {
    /// Returns the tokens of each pair. If a pair is too long, the longer one of its texts is cut,
    /// until both are equally long. Returns `None` if the result is no longer wanted.
    ///
    /// # Errors
    /// `LimitExceeded` for a text that is too long, `InvalidModel` if the model reads no pairs.
    pub fn tokenize_pairs(
        &self,
        query: &str,
        documents: &[String],
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Tokens>>, EngineError> {
        let special_tokens = self
            .tokenizer
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(true));
        let truncation = TruncationParams {
            direction: TruncationDirection::Right,
            max_length: self.limit.saturating_sub(special_tokens),
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        };
        let Some((query, query_count)) = self.beginning(query, abandoned)? else {
            return Ok(None);
        };
        let mut pairs = Vec::with_capacity(documents.len());
        for document in documents {
            let Some((document, count)) = self.beginning(document, abandoned)? else {
                return Ok(None);
            };
            let cut = truncate_encodings(query.clone(), Some(document), &truncation);
            let (mut first, mut second) = cut.map_err(failed)?;
            first.take_overflowing();
            if let Some(second) = &mut second {
                second.take_overflowing();
            }
            let pair = self.tokenizer.post_process(first, second, true);
            let pair = pair.map_err(failed)?;
            pairs.push(Tokens {
                ids: pair.get_ids().to_vec(),
                segments: pair.get_type_ids().to_vec(),
                count: query_count + count + special_tokens,
            });
        }
        Ok(Some(pairs))
    }
}
