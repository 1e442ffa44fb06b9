//! One connection: a thread that reads requests and does all of the work that is not inference, and one that writes
//! replies.

use std::{
    io::BufReader,
    net::Shutdown,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
};

use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, ModelRef, Priority, Request, Task},
    frame::{self, FrameError},
};
use serde::Deserialize;

use super::{
    Engine,
    inference::EmbedTask,
    model::Model,
    prepare,
    replies::{self, Replies, internal},
    scheduler::{ClientId, Turn},
    tokens::Tokens,
};
use crate::process;

/// Serves a connection in threads of its own.
pub fn start(engine: Arc<Engine>, id: ClientId, stream: UnixStream) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let mut writing = stream.try_clone()?;
    thread::Builder::new().name(format!("write {}", id.0)).spawn(move || {
        replies::write_all(&receiver, &mut writing);
        // Nothing can be answered any more; the reader is told.
        let _ = writing.shutdown(Shutdown::Both);
    })?;
    thread::Builder::new()
        .name(format!("read {}", id.0))
        .spawn(move || Client { engine, id, stream, replies: Replies::new(sender) }.serve())
        .map(drop)
}

struct Client {
    engine: Arc<Engine>,
    id: ClientId,
    stream: UnixStream,
    replies: Replies,
}

impl Client {
    fn serve(self) {
        tracing::debug!(client = self.id.0, "connected");
        self.engine.scheduler.join(self.id);
        match self.read_requests() {
            Ok(()) | Err(FrameError::Io(_) | FrameError::Truncated) => {}
            Err(error) => {
                tracing::warn!(client = self.id.0, "closing a connection: {error}");
                let error = EngineError::new(ErrorKind::InvalidRequest, "the engine does not understand a message")
                    .detail(error.to_string())
                    .hint("The library and the engine may be of different versions.");
                self.replies.refuse(0, error);
            }
        }
        // The writer ends, after what is queued, when the last that could answer is dropped: here, and with the tasks.
        let dropped = self.engine.scheduler.leave(self.id);
        tracing::debug!(client = self.id.0, dropped, "disconnected");
    }

    fn read_requests(&self) -> Result<(), FrameError> {
        let mut reader = BufReader::new(&self.stream);
        while let Some(message) = frame::read(&mut reader)? {
            match message.header::<Request>() {
                Ok(request) => self.handle(request, &message.payload),
                Err(error) => {
                    // A reply to the request, if it has a name at all; then the connection ends.
                    #[derive(Deserialize)]
                    struct Named {
                        id: u64,
                    }
                    let Ok(Named { id }) = message.header() else { return Err(error) };
                    let refusal =
                        EngineError::new(ErrorKind::InvalidRequest, "the engine does not understand a request")
                            .detail(error.to_string())
                            .hint("The library and the engine may be of different versions.");
                    self.replies.refuse(id, refusal);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn handle(&self, request: Request, payload: &[u8]) {
        let texts = if let Task::Embed { texts, .. } = &request.task { texts.len() } else { 0 };
        let ticket = match self.replies.admit(request.id, texts) {
            Ok(ticket) => ticket,
            Err(error) => return self.replies.refuse(request.id, error),
        };
        // The ticket stays outside, so that a panic can be answered with it.
        let Request { model, task, .. } = request;
        let done = catch_unwind(AssertUnwindSafe(|| self.perform(&model, task, payload)));
        match done.unwrap_or_else(|panic| Err(internal(&panic))) {
            Ok(Done::Answer(answer, payload)) => ticket.answer(*answer, &payload),
            Ok(Done::Tokenized(priority, model, texts)) => {
                let task = EmbedTask::new(model, texts, ticket);
                if task.is_finished() {
                    task.finish(); // no texts, no vectors
                } else {
                    self.engine.scheduler.submit(Turn { client: self.id, priority, task });
                }
            }
            Ok(Done::Nobody) => {}
            Err(error) => ticket.fail(error),
        }
    }

    fn perform(&self, reference: &ModelRef, task: Task, payload: &[u8]) -> Result<Done, EngineError> {
        let model = self.engine.models.get(reference)?;
        match task {
            Task::Describe => Ok(Done::answer(Answer::Model { model: model.info.clone() }, vec![])),
            Task::Prepare { document_type, splitting, title } => {
                let abandoned = || process::hung_up(&self.stream);
                let (content, text) = prepare::prepare(
                    payload,
                    &document_type,
                    title.as_deref(),
                    &splitting,
                    &model.tokenizer,
                    &abandoned,
                )?;
                Ok(Done::answer(Answer::Content { model: model.info.clone(), content }, text.into_bytes()))
            }
            Task::Embed { priority, texts } => {
                let vectors = texts.len().saturating_mul(model.info.dimensions).saturating_mul(size_of::<f32>());
                if vectors > frame::MAX_FRAME / 2 {
                    return Err(EngineError::new(ErrorKind::LimitExceeded, "too many texts in one request").detail(
                        format!("Their vectors take {vectors} bytes; the limit is {}.", frame::MAX_FRAME / 2),
                    ));
                }
                let mut tokens = Vec::with_capacity(texts.len());
                for (i, text) in texts.iter().enumerate() {
                    // Thousands of texts take a while, and nobody may be waiting any more.
                    if i % 64 == 63 && process::hung_up(&self.stream) {
                        return Ok(Done::Nobody);
                    }
                    tokens.push(model.tokenize(text)?);
                }
                Ok(Done::Tokenized(priority, model, tokens))
            }
        }
    }
}

/// What a request came to in the reader's thread.
enum Done {
    Answer(Box<Answer>, Vec<u8>),
    /// The rest is the inference thread's.
    Tokenized(Priority, Arc<Model>, Vec<Tokens>),
    /// The client has hung up.
    Nobody,
}

impl Done {
    fn answer(answer: Answer, payload: Vec<u8>) -> Self {
        Self::Answer(Box::new(answer), payload)
    }
}
