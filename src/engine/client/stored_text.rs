//! Requests to split a stored text again, without extracting it.

use rag_protocol::{
    embed::{StoredText, Task},
    ingest::Splitting,
};

use super::{Client, Ticket, TokenSource};
use crate::error::Error;

impl Client {
    /// Sends a stored text to be split. [`Client::finish_preparing`] returns its content, and no
    /// text.
    ///
    /// # Errors
    /// See [`with_client`](super::with_client).
    pub fn start_splitting(
        &mut self,
        tokens: &TokenSource,
        splitting: Splitting,
        stored: StoredText,
        text: &str,
    ) -> Result<Ticket, Error> {
        Error::check_memory(
            2 * text.len(),
            "There is no room for the text of the document.",
        )?;
        self.ensure_counts(tokens)?;
        let task = Task::Split {
            text: stored,
            splitting,
            tokens: tokens.rule.clone(),
        };
        self.send(&tokens.model, task, text.as_bytes())
    }
}
