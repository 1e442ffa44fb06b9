//! One connection: a thread that reads requests and does all of the work that is not inference, and
//! one that writes replies.

use std::{
    cell::Cell,
    io::BufReader,
    mem,
    net::Shutdown,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
};

use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, MAX_DOCUMENT, ModelRef, Party, Priority, Request, Task},
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

/// The largest message, in bytes: a document with what is said of it, or the longest text as JSON
/// may write it.
const MAX_MESSAGE: usize = MAX_DOCUMENT + (1 << 20);

/// Serves a connection in threads of its own.
pub fn start(engine: Arc<Engine>, id: ClientId, stream: UnixStream) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let mut writing = stream.try_clone()?;
    thread::Builder::new()
        .name(format!("write {}", id.0))
        .spawn(move || {
            replies::write_all(&receiver, &mut writing);
            // Nothing can be answered any more; the reader is told.
            let _ = writing.shutdown(Shutdown::Both);
        })?;
    thread::Builder::new()
        .name(format!("read {}", id.0))
        .spawn(move || {
            // until it says who it is, it is a party of its own
            let party = Cell::new(Party {
                database: 0,
                role: id.0 as u32,
            });
            Client {
                engine,
                id,
                stream,
                replies: Replies::new(sender),
                party,
            }
            .serve();
        })
        .map(drop)
}

struct Client {
    engine: Arc<Engine>,
    id: ClientId,
    stream: UnixStream,
    replies: Replies,
    /// For whom its requests are.
    party: Cell<Party>,
}

impl Client {
    fn serve(self) {
        tracing::debug!(client = self.id.0, "connected");
        self.engine.scheduler.join(self.id);
        match self.read_requests() {
            Ok(()) | Err(FrameError::Io(_) | FrameError::Truncated) => {}
            Err(error) => {
                tracing::warn!(client = self.id.0, "closing a connection: {error}");
                let error = match error {
                    FrameError::TooLarge(_) => {
                        EngineError::new(ErrorKind::LimitExceeded, error.to_string())
                    }
                    _ => EngineError::new(
                        ErrorKind::InvalidRequest,
                        "the engine does not understand a message",
                    )
                    .detail(error.to_string())
                    .hint("The library and the engine may be of different versions."),
                };
                self.replies.refuse(0, error);
            }
        }
        // The writer ends, after what is queued, when the last that could answer is dropped: here,
        // and with the tasks.
        let dropped = self.engine.scheduler.leave(self.id);
        tracing::debug!(client = self.id.0, dropped, "disconnected");
    }

    fn read_requests(&self) -> Result<(), FrameError> {
        let mut reader = BufReader::new(&self.stream);
        while self.replies.wait(&|| self.is_abandoned())
            && let Some(length) = frame::read_length(&mut reader)?
        {
            if length > MAX_MESSAGE {
                return Err(FrameError::TooLarge(length));
            }
            let admission = &self.engine.admission;
            let Some(_room) = admission.admit(self.party.get(), length, &|| self.is_abandoned())
            else {
                return Ok(());
            };
            let mut message = frame::read_rest(&mut reader, length)?;
            match message.header::<Request>() {
                Ok(request) => {
                    let payload = mem::take(&mut message.payload);
                    drop(message);
                    self.handle(request, &payload);
                }
                Err(error) => {
                    // A reply to the request, if it has a name at all; then the connection ends.
                    #[derive(Deserialize)]
                    struct Named {
                        id: u64,
                    }
                    let Ok(Named { id }) = message.header() else {
                        return Err(error);
                    };
                    let refusal = EngineError::new(
                        ErrorKind::InvalidRequest,
                        "the engine does not understand a request",
                    )
                    .detail(error.to_string())
                    .hint("The library and the engine may be of different versions.");
                    self.replies.refuse(id, refusal);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        process::hung_up(&self.stream)
    }

    fn handle(&self, request: Request, payload: &[u8]) {
        if let Task::Introduce { party } = request.task {
            return self.party.set(party);
        }
        let texts = if let Task::Embed { texts, .. } = &request.task {
            texts.len()
        } else {
            0
        };
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
                    let turn = Turn {
                        party: self.party.get(),
                        client: self.id,
                        priority,
                        task,
                    };
                    self.engine.scheduler.submit(turn);
                }
            }
            Ok(Done::Nobody) => {}
            Err(error) => ticket.fail(error),
        }
    }

    fn perform(
        &self,
        reference: &ModelRef,
        task: Task,
        payload: &[u8],
    ) -> Result<Done, EngineError> {
        if let Some(refusal) = &self.engine.refusal {
            return Err(refusal.clone());
        }
        if task == Task::Leave {
            tracing::info!(model = %reference.dir.display(), "leaving for a process that may read another folder");
            self.engine.is_leaving.store(true, Ordering::SeqCst);
            process::leave(&self.engine.listener);
        }
        let model = self.engine.models.get(reference)?;
        match task {
            Task::Leave | Task::Introduce { .. } => Ok(Done::Nobody),
            Task::Describe => Ok(Done::answer(
                Answer::Model {
                    model: model.info.clone(),
                },
                vec![],
            )),
            Task::Prepare {
                document_type,
                name,
                splitting,
                title,
            } => {
                let abandoned = || self.is_abandoned();
                let (content, text) = prepare::prepare(
                    payload,
                    document_type.as_deref(),
                    name.as_deref(),
                    title.as_deref(),
                    &splitting,
                    &model.tokenizer,
                    &abandoned,
                )?;
                Ok(Done::answer(
                    Answer::Content {
                        model: model.info.clone(),
                        content,
                    },
                    text.into_bytes(),
                ))
            }
            Task::Embed { priority, texts } => {
                let mut tokens = Vec::with_capacity(texts.len());
                for text in &texts {
                    match model.tokenizer.tokenize(text, &|| self.is_abandoned())? {
                        Some(text) => tokens.push(text),
                        None => return Ok(Done::Nobody),
                    }
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
