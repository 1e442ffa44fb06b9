//! One connection: a thread that reads requests and does all work except inference, and a thread
//! that writes replies.

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
    embed::{Answer, MAX_DOCUMENT, ModelRef, Party, Priority, Request, Task, TokenRule},
    frame::{self, FrameError},
};
use serde::Deserialize;

use super::{
    Engine,
    counter::ChunkCounter,
    inference::EmbedTask,
    model::Model,
    prepare,
    replies::{self, Replies, internal},
    scheduler::{ClientId, Turn},
    tokens::Tokens,
};
use crate::process;

/// Maximum size of a message in bytes: a document with its description, or the longest text as
/// JSON.
const MAX_MESSAGE: usize = MAX_DOCUMENT + (1 << 20);

/// Serves a connection in its own threads.
pub fn start(engine: Arc<Engine>, id: ClientId, stream: UnixStream) -> std::io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let mut writing = stream.try_clone()?;
    thread::Builder::new()
        .name(format!("write {}", id.0))
        .spawn(move || {
            replies::write_all(&receiver, &mut writing);
            // Replies can no longer be written: the reader learns it this way.
            let _ = writing.shutdown(Shutdown::Both);
        })?;
    thread::Builder::new()
        .name(format!("read {}", id.0))
        .spawn(move || {
            // Until the client names its party, it is a party of its own.
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
    /// The party that its requests are for.
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
                        "the engine could not parse a message",
                    )
                    .detail(error.to_string())
                    .hint("The library and the engine may be of different versions."),
                };
                self.replies.refuse(0, error);
            }
        }
        // The writer ends when its queue is empty and the last possible sender is dropped: this
        // one, and those of the tasks.
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
                    // Replies to the request if it has an id, then ends the connection.
                    #[derive(Deserialize)]
                    struct RequestId {
                        id: u64,
                    }
                    let Ok(RequestId { id }) = message.header() else {
                        return Err(error);
                    };
                    let refusal = EngineError::new(
                        ErrorKind::InvalidRequest,
                        "the engine could not parse a request",
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
        let ticket = match self.replies.admit(request.id, texts_of(&request.task)) {
            Ok(ticket) => ticket,
            Err(error) => return self.replies.refuse(request.id, error),
        };
        // The ticket is kept outside, so that a panic can be answered with it.
        let Request { model, task, .. } = request;
        let done = catch_unwind(AssertUnwindSafe(|| self.perform(&model, task, payload)));
        match done.unwrap_or_else(|panic| Err(internal(&panic))) {
            Ok(TaskResult::Answer(answer, payload)) => ticket.answer(*answer, &payload),
            Ok(TaskResult::Tokenized {
                priority,
                model,
                query,
                texts,
            }) => {
                let task = EmbedTask::new(model, query, texts, ticket);
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
            Ok(TaskResult::Nobody) => {}
            Err(error) => ticket.fail(error),
        }
    }

    fn perform(
        &self,
        reference: &ModelRef,
        task: Task,
        payload: &[u8],
    ) -> Result<TaskResult, EngineError> {
        if let Some(refusal) = &self.engine.refusal {
            return Err(refusal.clone());
        }
        if task == Task::Leave {
            tracing::info!(model = %reference.dir.display(), "exiting, so that a new process can \
                read another folder");
            self.engine.is_leaving.store(true, Ordering::SeqCst);
            process::leave(&self.engine.listener);
        }
        if let Some(rule) = rule_of(&task) {
            let counter = self.engine.counters.get(rule)?;
            return self.count(task, &counter, payload);
        }
        let models = &self.engine.models;
        let model = if texts_of(&task) > 1 {
            models.get_for_many(reference)?
        } else {
            models.get(reference)?
        };
        match task {
            Task::Leave | Task::Introduce { .. } => Ok(TaskResult::Nobody),
            Task::Describe => Ok(TaskResult::answer(
                Answer::Model {
                    model: model.info.clone(),
                },
                vec![],
            )),
            Task::Prepare { .. } | Task::Split { .. } | Task::Count { .. } => {
                let counter = ChunkCounter::of(Arc::clone(&model.tokenizer));
                let counter = counter.beside(&model.info.prompts.passage)?;
                self.count(task, &counter, payload)
            }
            Task::Score {
                priority,
                query,
                documents,
            } => {
                model.require(true)?;
                let abandoned = || self.is_abandoned();
                let tokenizer = &model.tokenizer;
                if !model.compares_tokens() {
                    let pairs = tokenizer.tokenize_pairs(&query, &documents, &abandoned)?;
                    return Ok(TaskResult::tokenized(priority, model, None, pairs));
                }
                let Some(query) = tokenizer.tokenize(&query, &abandoned)? else {
                    return Ok(TaskResult::Nobody);
                };
                let texts = self.tokenize(&model, &documents)?;
                Ok(TaskResult::tokenized(priority, model, Some(query), texts))
            }
            Task::Embed {
                priority,
                purpose,
                mut texts,
            } => {
                model.require(false)?;
                let prompt = purpose.map_or("", |purpose| model.info.prompts.of(purpose));
                if !prompt.is_empty() {
                    texts.iter_mut().for_each(|text| text.insert_str(0, prompt));
                }
                let texts = self.tokenize(&model, &texts)?;
                Ok(TaskResult::tokenized(priority, model, None, texts))
            }
        }
    }

    /// Returns `None` if the client has hung up.
    fn tokenize(
        &self,
        model: &Model,
        texts: &[String],
    ) -> Result<Option<Vec<Tokens>>, EngineError> {
        let abandoned = || self.is_abandoned();
        let tokenize = |text: &String| model.tokenizer.tokenize(text, &abandoned);
        texts.iter().map(tokenize).collect()
    }

    /// Performs a task that needs no more of a model than its tokens.
    fn count(
        &self,
        task: Task,
        counter: &ChunkCounter,
        payload: &[u8],
    ) -> Result<TaskResult, EngineError> {
        match task {
            Task::Prepare {
                document_type,
                name,
                splitting,
                title,
                ..
            } => {
                let abandoned = || self.is_abandoned();
                let (content, text) = prepare::prepare(
                    payload,
                    document_type.as_deref(),
                    name.as_deref(),
                    title.as_deref(),
                    &splitting,
                    counter,
                    &abandoned,
                )?;
                let text = text.into_bytes();
                Ok(TaskResult::answer(Answer::Content { content }, text))
            }
            Task::Split {
                text, splitting, ..
            } => {
                let abandoned = || self.is_abandoned();
                let payload = String::from_utf8(payload.to_vec()).map_err(|_| {
                    EngineError::new(ErrorKind::InvalidRequest, "the text is not in UTF-8")
                })?;
                let content =
                    prepare::split_stored(payload, text, &splitting, counter, &abandoned)?;
                Ok(TaskResult::answer(Answer::Content { content }, vec![]))
            }
            Task::Count { texts, .. } => {
                let mut tokens = Vec::with_capacity(texts.len());
                for text in &texts {
                    if self.is_abandoned() {
                        return Ok(TaskResult::Nobody);
                    }
                    tokens.push(counter.count_alone(text));
                }
                Ok(TaskResult::answer(Answer::Tokens { tokens }, vec![]))
            }
            _ => Ok(TaskResult::Nobody),
        }
    }
}

/// Returns the number of texts that a model computes for a request.
fn texts_of(task: &Task) -> usize {
    match task {
        Task::Embed { texts, .. } => texts.len(),
        Task::Score { documents, .. } => documents.len(),
        _ => 0,
    }
}

/// Returns the rule of a request that needs no model.
fn rule_of(task: &Task) -> Option<&TokenRule> {
    match task {
        Task::Prepare { tokens, .. } | Task::Split { tokens, .. } | Task::Count { tokens, .. } => {
            tokens.as_ref()
        }
        _ => None,
    }
}

/// The result of a request in the reader's thread.
enum TaskResult {
    Answer(Box<Answer>, Vec<u8>),
    /// The inference thread does the rest.
    Tokenized {
        priority: Priority,
        model: Arc<Model>,
        /// What the texts are compared with.
        query: Option<Tokens>,
        texts: Vec<Tokens>,
    },
    /// The client has hung up.
    Nobody,
}

impl TaskResult {
    fn answer(answer: Answer, payload: Vec<u8>) -> Self {
        Self::Answer(Box::new(answer), payload)
    }

    /// `texts`: `None` if the client has hung up meanwhile.
    fn tokenized(
        priority: Priority,
        model: Arc<Model>,
        query: Option<Tokens>,
        texts: Option<Vec<Tokens>>,
    ) -> Self {
        texts.map_or(Self::Nobody, |texts| Self::Tokenized {
            priority,
            model,
            query,
            texts,
        })
    }
}
