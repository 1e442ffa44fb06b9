//! Scores of pairs, which have a time limit.

use std::time::{Duration, Instant};

use rag_protocol::embed::{Answer, MAX_TEXT, ModelRef, Priority, Task};

use super::{Client, parts::parts, unexpected};
use crate::error::Error;

impl Client {
    /// Returns what a model says of each document: the larger, the better it matches the query.
    /// Other sessions' bulk work waits meanwhile.
    ///
    /// # Errors
    /// See [`super::with_client`]; 08006 after the deadline, which includes the time to load the
    /// model.
    pub fn score(
        &mut self,
        model: &ModelRef,
        query: &str,
        documents: Vec<String>,
        deadline: Instant,
    ) -> Result<Vec<f64>, Error> {
        if documents.iter().any(|text| text.len() > MAX_TEXT) || query.len() > MAX_TEXT {
            return Err(Error::limit("a text is too long to be scored")
                .detail(format!("The limit is {MAX_TEXT} bytes.")));
        }
        self.deadline = Some(deadline);
        self.ensure_reached(model)?;
        // another engine may have been started
        self.deadline = Some(deadline);
        let mut sent = vec![];
        for documents in parts(documents) {
            let count = documents.len();
            let task = Task::Score {
                priority: Priority::Query,
                query: query.to_owned(),
                documents,
            };
            sent.push((self.send(model, task, &[])?, count));
        }
        let mut scores = vec![];
        for (ticket, count) in sent {
            let (Answer::Scores { .. }, payload) = self.receive(ticket.0)? else {
                return Err(unexpected());
            };
            let (values, rest) = payload.as_chunks::<4>();
            if values.len() != count || !rest.is_empty() {
                return Err(unexpected());
            }
            scores.extend(values.iter().map(|b| f64::from(f32::from_le_bytes(*b))));
        }
        self.deadline = None;
        Ok(scores)
    }
}

/// Returns the time until a deadline.
///
/// # Errors
/// It has passed. The connection must then be dropped, which ends the work on the request.
pub fn left(deadline: Option<Instant>) -> Result<Option<Duration>, Error> {
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(Error::engine_unavailable(
            "rag-engine did not answer in time",
        )),
        left => Ok(Some(left)),
    }
}
