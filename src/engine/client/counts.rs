//! Counts of tokens, by a model or by a rule.

use rag_protocol::{
    EngineError, ErrorKind as Kind,
    embed::{Answer, Task},
};

use super::{Client, TokenSource, parts, unexpected};
use crate::{engine::folders, error::Error};

impl Client {
    /// Ensures that the engine can count tokens.
    pub(super) fn ensure_counts(&mut self, source: &TokenSource) -> Result<(), Error> {
        let Some(rule) = &source.rule else {
            return self.ensure_reached(&source.model);
        };
        let Some(folder) = &rule.tokenizer else {
            return Ok(());
        };
        if self.reached_rule.as_ref() == Some(rule) {
            return Ok(());
        }
        if let Err(error) = self.try_rule(source)? {
            if error.kind != Kind::OutOfReach {
                return Err(error.into());
            }
            folders::add(folder, folders::TOKENIZER_FILE)?;
            self.replace_engine(&source.model)?;
            self.try_rule(source)?.map_err(|second| {
                folders::forget(folder);
                match second.kind {
                    Kind::OutOfReach => Error::from(error),
                    _ => second.into(),
                }
            })?;
        }
        self.reached_rule = Some(rule.clone());
        Ok(())
    }

    fn try_rule(&mut self, source: &TokenSource) -> Result<Result<(), EngineError>, Error> {
        let task = Task::Count {
            texts: vec![],
            tokens: source.rule.clone(),
        };
        let ticket = self.send(&source.model, task, &[])?;
        match self.answer(ticket.0)? {
            (Answer::Tokens { .. }, _) => Ok(Ok(())),
            (Answer::Error { error }, _) => Ok(Err(error)),
            _ => Err(unexpected()),
        }
    }

    /// Returns the number of tokens of each text, without special tokens.
    ///
    /// # Errors
    /// See [`with_client`].
    pub fn count_tokens(
        &mut self,
        source: &TokenSource,
        texts: Vec<String>,
    ) -> Result<Vec<usize>, Error> {
        self.ensure_counts(source)?;
        let mut all = vec![];
        for texts in parts(texts) {
            let expected = texts.len();
            let tokens = source.rule.clone();
            let ticket = self.send(&source.model, Task::Count { texts, tokens }, &[])?;
            match self.receive(ticket.0)? {
                (Answer::Tokens { tokens }, _) if tokens.len() == expected => all.extend(tokens),
                _ => return Err(unexpected()),
            }
        }
        Ok(all)
    }
}
