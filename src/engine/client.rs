//! A connection to `rag-engine embed`, kept by the session between calls.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rag_protocol::{
    embed::{Answer, ModelInfo, ModelRef, Priority, Reply, Request, Task},
    frame::{self, FrameBuffer},
    ingest::{Content, DocumentType, Splitting},
};

use super::{
    process, socket,
    wait::{Until, sleep, wait},
};
use crate::{error::Error, settings, workers::supervisor};

/// How long a starting engine may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What the model says of some texts.
pub struct Embeddings {
    pub model: ModelInfo,
    pub vectors: Vec<Vec<f32>>,
}

/// A request that was sent and whose reply was not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

pub struct Client {
    stream: UnixStream,
    received: FrameBuffer,
    /// Replies that overtook the one that is waited for.
    early: HashMap<u64, (Answer, Vec<u8>)>,
    next_id: u64,
}

thread_local! {
    /// Taken out while in use: an error on the way drops it, which closes the socket and so cancels what was asked.
    static KEPT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// Runs `ask` on the session's connection, which it opens, or replaces where the engine was restarted meanwhile.
///
/// # Errors
/// The engine cannot be started or reached, goes away in the middle, or answers with an error.
pub fn with_client<T>(ask: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
    let kept = KEPT.with(|kept| kept.borrow_mut().take()).filter(Client::is_alive);
    let mut client = match kept {
        Some(client) => client,
        None => Client::connect()?,
    };
    let answer = ask(&mut client)?;
    KEPT.with(|kept| *kept.borrow_mut() = Some(client));
    Ok(answer)
}

impl Client {
    /// Connects to the engine, starting it where it does not run.
    ///
    /// # Errors
    /// It is not installed, or does not come up.
    pub fn connect() -> Result<Self, Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut starter = supervisor::Starter::default();
        loop {
            match UnixStream::connect(socket()) {
                Ok(stream) => {
                    stream.set_nonblocking(true).map_err(|e| lost(&e))?;
                    return Ok(Self { stream, received: FrameBuffer::default(), early: HashMap::new(), next_id: 1 });
                }
                Err(e) if Instant::now() > deadline => {
                    return Err(Error::engine_unavailable("rag-engine did not start in time")
                        .detail(format!("{}: {e}", socket().display()))
                        .hint("The server's log says why."));
                }
                Err(_) => process::check_installed(&settings::engine_path())?,
            }
            starter.see_to_it()?;
            sleep(Duration::from_millis(20));
        }
    }

    /// Whether the engine still holds the other end. An idle connection has nothing to read but its end.
    fn is_alive(&self) -> bool {
        let mut byte = [0];
        matches!((&self.stream).read(&mut byte), Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// # Errors
    /// As [`with_client`].
    pub fn describe(&mut self, model: &ModelRef) -> Result<ModelInfo, Error> {
        let ticket = self.send(model, Task::Describe, &[])?;
        match self.receive(ticket)? {
            (Answer::Model { model }, _) => Ok(model),
            _ => Err(unexpected()),
        }
    }

    /// # Errors
    /// As [`with_client`].
    pub fn embed(&mut self, model: &ModelRef, priority: Priority, texts: Vec<String>) -> Result<Embeddings, Error> {
        let ticket = self.start_embedding(model, priority, texts)?;
        self.finish_embedding(ticket)
    }

    /// Sends texts to be embedded; other requests may follow before [`Client::finish_embedding`].
    ///
    /// # Errors
    /// As [`with_client`].
    pub fn start_embedding(
        &mut self,
        model: &ModelRef,
        priority: Priority,
        texts: Vec<String>,
    ) -> Result<Ticket, Error> {
        self.send(model, Task::Embed { priority, texts }, &[])
    }

    /// Waits for the vectors of an embedding request.
    ///
    /// # Errors
    /// As [`with_client`].
    pub fn finish_embedding(&mut self, ticket: Ticket) -> Result<Embeddings, Error> {
        let (Answer::Embeddings { model, tokens }, payload) = self.receive(ticket)? else { return Err(unexpected()) };
        let floats: Vec<f32> = payload.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        if model.dimensions == 0 || floats.len() != tokens.len() * model.dimensions {
            return Err(unexpected());
        }
        let vectors = floats.chunks_exact(model.dimensions).map(<[f32]>::to_vec).collect();
        Ok(Embeddings { model, vectors })
    }

    /// Extracts and splits one document; its content and text. `title` takes the place of the one in the document.
    ///
    /// # Errors
    /// As [`with_client`]; a document that cannot be read is an error of the engine's.
    pub fn prepare(
        &mut self,
        model: &ModelRef,
        document_type: DocumentType,
        splitting: Splitting,
        title: Option<&str>,
        bytes: &[u8],
    ) -> Result<(ModelInfo, Content, String), Error> {
        let ticket = self.start_preparing(model, document_type, splitting, title, bytes)?;
        self.finish_preparing(ticket)
    }

    /// Sends one document to be extracted and split; others may follow before [`Client::finish_preparing`].
    ///
    /// # Errors
    /// As [`with_client`].
    pub fn start_preparing(
        &mut self,
        model: &ModelRef,
        document_type: DocumentType,
        splitting: Splitting,
        title: Option<&str>,
        bytes: &[u8],
    ) -> Result<Ticket, Error> {
        let (document_type, title) = (document_type.name().to_string(), title.map(String::from));
        self.send(model, Task::Prepare { document_type, splitting, title }, bytes)
    }

    /// # Errors
    /// As [`Client::prepare`].
    pub fn finish_preparing(&mut self, ticket: Ticket) -> Result<(ModelInfo, Content, String), Error> {
        match self.receive(ticket)? {
            (Answer::Content { model, content }, text) => {
                Ok((model, content, String::from_utf8(text).map_err(|_| unexpected())?))
            }
            _ => Err(unexpected()),
        }
    }

    fn send(&mut self, model: &ModelRef, task: Task, payload: &[u8]) -> Result<Ticket, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let message = frame::encode(&Request { id, model: model.clone(), task }, payload)?;
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // replies are taken in meanwhile, so that neither side waits for the other
                    self.take_in()?;
                    wait(&[(self.stream.as_raw_fd(), Until::Writable)], None);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(lost(&e)),
            }
        }
        Ok(Ticket(id))
    }

    fn receive(&mut self, ticket: Ticket) -> Result<(Answer, Vec<u8>), Error> {
        loop {
            if let Some((answer, payload)) = self.early.remove(&ticket.0) {
                return match answer {
                    Answer::Error { error } => Err(error.into()),
                    answer => Ok((answer, payload)),
                };
            }
            if let Some(frame) = self.received.next()? {
                let reply: Reply = frame.header()?;
                self.early.insert(reply.id, (reply.answer, frame.payload));
                continue;
            }
            if !self.take_in()? {
                wait(&[(self.stream.as_raw_fd(), Until::Readable)], None);
            }
        }
    }

    /// Reads what has arrived; whether anything had.
    fn take_in(&mut self) -> Result<bool, Error> {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(Error::engine_unavailable("rag-engine ended while it was working on this request")
                .hint("It is started again by itself: repeat the command. The server's log says why it ended.")),
            Ok(n) => {
                self.received.push(&buffer[..n]);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
            Err(e) => Err(lost(&e)),
        }
    }
}

fn lost(error: &std::io::Error) -> Error {
    Error::engine_unavailable("lost the connection to rag-engine")
        .detail(error.to_string())
        .hint("It is started again by itself: repeat the command. The server's log says why it ended.")
}

fn unexpected() -> Error {
    Error::internal("rag-engine answered something else than it was asked")
}
