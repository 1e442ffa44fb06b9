//! A connection to `rag-engine embed`, which the session keeps between calls.

mod counts;
mod embedding;
mod parts;
mod scoring;
mod stored_text;
mod wait;

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rag_definition::DocumentType;
use rag_protocol::{
    EngineError, ErrorKind as Kind,
    embed::{
        Answer, MAX_DOCUMENT, ModelInfo, ModelRef, Party, Reply, Request, Task, TokenRule,
        too_large,
    },
    frame::{self, FrameBuffer},
    ingest::{Content, Splitting},
};

pub use self::embedding::{EmbeddingTicket, Embeddings};
use self::{parts::parts, wait::EngineWait};
use super::{folders, process, socket, starter::SupervisorStarter, unexpected};
use crate::{
    error::Error,
    pg::{
        process::{database, session_user},
        wait::{Until, sleep},
    },
    settings,
};

/// Time limit for an engine to start listening.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between attempts to connect to a starting engine.
const CONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// What counts the tokens of texts: a model, or a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSource {
    pub model: ModelRef,
    pub rule: Option<TokenRule>,
}

/// A document for the engine to extract and split.
#[derive(Debug, Clone, Copy, Default)]
pub struct DocumentInput<'a> {
    pub bytes: &'a [u8],
    /// `None`: the name and the first bytes determine it.
    pub document_type: Option<DocumentType>,
    /// The name, path or address of a file. `None`: the bytes are a text in UTF-8.
    pub name: Option<&'a str>,
    /// Replaces the title in the document.
    pub title: Option<&'a str>,
}

/// The id of a request whose reply was not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

pub struct Client {
    stream: UnixStream,
    received: FrameBuffer,
    /// Replies that arrived before the awaited one.
    early: HashMap<u64, (Answer, Vec<u8>)>,
    next_id: u64,
    /// The engine has answered a request.
    has_answered: bool,
    /// The engine has ended without reading all that was sent.
    was_reset: bool,
    /// The model of the last request that the engine can read.
    reached: Option<ModelRef>,
    /// The rule of the last request whose folder the engine can read.
    reached_rule: Option<TokenRule>,
    /// The party that the engine was told.
    party: Option<Party>,
    /// The time after which an answer is no longer waited for.
    deadline: Option<Instant>,
}

thread_local! {
    /// Taken out while in use. An error on the way drops it, which closes the socket and cancels
    /// the requests.
    static KEPT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// Runs `ask` on the session's connection, which is opened, or replaced if the engine was
/// restarted.
///
/// # Errors
/// The engine cannot be started or reached, ends meanwhile, or answers with an error.
pub fn with_client<T>(ask: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
    let kept = KEPT
        .with(|kept| kept.borrow_mut().take())
        .filter(Client::is_alive);
    let mut client = match kept {
        Some(client) => client,
        None => Client::connect()?,
    };
    let answer = ask(&mut client)?;
    KEPT.with(|kept| *kept.borrow_mut() = Some(client));
    Ok(answer)
}

impl Client {
    /// Connects to the engine, and starts it if it does not run.
    ///
    /// # Errors
    /// The engine is not installed, or does not start.
    pub fn connect() -> Result<Self, Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut starter = SupervisorStarter::default();
        loop {
            match UnixStream::connect(socket()) {
                Ok(stream) => {
                    stream.set_nonblocking(true).map_err(|e| lost(&e))?;
                    return Ok(Self {
                        stream,
                        received: FrameBuffer::default(),
                        early: HashMap::new(),
                        next_id: 1,
                        has_answered: false,
                        was_reset: false,
                        reached: None,
                        reached_rule: None,
                        party: None,
                        deadline: None,
                    });
                }
                Err(e) if Instant::now() > deadline => {
                    return Err(
                        Error::engine_unavailable("rag-engine did not start in time")
                            .detail(format!("{}: {e}", socket().display()))
                            .hint("See the server log for the reason."),
                    );
                }
                Err(_) => process::check_installed(&settings::engine_path())?,
            }
            starter.start_if_needed()?;
            sleep(CONNECT_INTERVAL);
        }
    }

    /// Returns true if the engine still holds the other end. An idle connection has nothing to read
    /// but its end.
    fn is_alive(&self) -> bool {
        let mut byte = [0];
        matches!((&self.stream).read(&mut byte), Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// # Errors
    /// See [`with_client`].
    pub fn describe(&mut self, model: &ModelRef) -> Result<ModelInfo, Error> {
        match self.request_info(model)? {
            Ok(info) => Ok(info),
            Err(error) if error.kind != Kind::OutOfReach => Err(error.into()),
            Err(error) => {
                // the server can read the folder, and can allow the engine to read it
                folders::add(&model.dir, folders::MODEL_FILE)?;
                self.replace_engine(model)?;
                self.request_info(model)?.map_err(|second| {
                    folders::forget(&model.dir);
                    match second.kind {
                        Kind::OutOfReach => Error::from(error),
                        _ => second.into(),
                    }
                })
            }
        }
    }

    /// Returns the engine's description of a model. An engine that exits, because a setting was
    /// changed, may still have been connected to: then the next one is asked, if this one has not
    /// read the request.
    fn request_info(&mut self, model: &ModelRef) -> Result<Result<ModelInfo, EngineError>, Error> {
        let has_answered = self.has_answered;
        match self.request_info_once(model) {
            Err(_) if !has_answered && self.was_reset => {
                *self = Self::connect()?;
                self.request_info_once(model)
            }
            result => result,
        }
    }

    fn request_info_once(
        &mut self,
        model: &ModelRef,
    ) -> Result<Result<ModelInfo, EngineError>, Error> {
        let ticket = self.send(model, Task::Describe, &[])?;
        match self.answer(ticket.0)? {
            (Answer::Model { model: info }, _) => {
                self.reached = Some(model.clone());
                Ok(Ok(info))
            }
            (Answer::Error { error }, _) => Ok(Err(error)),
            _ => Err(unexpected()),
        }
    }

    /// Asks the engine to exit and connects to another one, which can read the folder of a model.
    /// Requests of other sessions to the old one are lost.
    fn replace_engine(&mut self, model: &ModelRef) -> Result<(), Error> {
        self.send(model, Task::Leave, &[])?;
        let mut waited = EngineWait::begin();
        while self.receive_some().is_ok() {
            waited.wait(self.stream.as_raw_fd(), Until::Readable, None);
        }
        // before that, the old engine might answer again
        *self = Self::connect()?;
        Ok(())
    }

    /// Ensures that the engine can read a model.
    fn ensure_reached(&mut self, model: &ModelRef) -> Result<(), Error> {
        if self.reached.as_ref() == Some(model) {
            Ok(())
        } else {
            self.describe(model).map(drop)
        }
    }

    /// Extracts and splits one document. Returns its content and text.
    ///
    /// # Errors
    /// See [`with_client`]. A document that cannot be read is an error of the engine.
    pub fn prepare(
        &mut self,
        tokens: &TokenSource,
        splitting: Splitting,
        document: &DocumentInput<'_>,
    ) -> Result<(Content, String), Error> {
        let ticket = self.start_preparing(tokens, splitting, document)?;
        self.finish_preparing(ticket)
    }

    /// Sends one document to be extracted and split; others may follow before
    /// [`Client::finish_preparing`].
    ///
    /// # Errors
    /// See [`with_client`].
    pub fn start_preparing(
        &mut self,
        tokens: &TokenSource,
        splitting: Splitting,
        document: &DocumentInput<'_>,
    ) -> Result<Ticket, Error> {
        if document.bytes.len() > MAX_DOCUMENT {
            // the engine's answer, without sending the document
            let id = self.next_id;
            self.next_id += 1;
            self.early.insert(
                id,
                (
                    Answer::Error {
                        error: too_large(document.bytes.len()),
                    },
                    vec![],
                ),
            );
            return Ok(Ticket(id));
        }
        // the message, the answer, and its text
        Error::check_memory(
            3 * document.bytes.len(),
            "There is no room for the text of the document.",
        )?;
        let task = Task::Prepare {
            document_type: document.document_type.map(|it| it.name().to_string()),
            name: document.name.map(String::from),
            splitting,
            title: document.title.map(String::from),
            tokens: tokens.rule.clone(),
        };
        self.ensure_counts(tokens)?;
        self.send(&tokens.model, task, document.bytes)
    }

    /// # Errors
    /// See [`Client::prepare`].
    pub fn finish_preparing(&mut self, ticket: Ticket) -> Result<(Content, String), Error> {
        match self.receive(ticket.0)? {
            (Answer::Content { content }, text) => {
                Ok((content, String::from_utf8(text).map_err(|_| unexpected())?))
            }
            _ => Err(unexpected()),
        }
    }

    pub(super) fn send(
        &mut self,
        model: &ModelRef,
        task: Task,
        payload: &[u8],
    ) -> Result<Ticket, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let request = |id, task| Request {
            id,
            model: model.clone(),
            task,
        };
        let party = current_party();
        let mut message = vec![];
        if self.party != Some(party) {
            message = frame::encode(&request(0, Task::Introduce { party }), &[])?;
            self.party = Some(party);
        }
        message.extend(frame::encode(&request(id, task), payload)?);
        let mut rest = message.as_slice();
        let mut waited = EngineWait::begin();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => {
                    rest = &rest[n..];
                    waited = EngineWait::begin();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // replies are received meanwhile, so that neither side waits for the other
                    if self.receive_some()? {
                        waited = EngineWait::begin();
                    } else {
                        let left = scoring::left(self.deadline)?;
                        waited.wait(self.stream.as_raw_fd(), Until::ReadableOrWritable, left);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.lost(&e)),
            }
        }
        Ok(Ticket(id))
    }

    fn receive(&mut self, id: u64) -> Result<(Answer, Vec<u8>), Error> {
        match self.answer(id)? {
            (Answer::Error { error }, _) => Err(error.into()),
            answered => Ok(answered),
        }
    }

    fn answer(&mut self, id: u64) -> Result<(Answer, Vec<u8>), Error> {
        let mut waited = EngineWait::begin();
        loop {
            if let Some(answered) = self.early.remove(&id) {
                return Ok(answered);
            }
            if let Some(frame) = self.received.next()? {
                let reply: Reply = frame.header()?;
                self.has_answered = true;
                self.early.insert(reply.id, (reply.answer, frame.payload));
                continue;
            }
            if self.receive_some()? {
                waited = EngineWait::begin();
            } else {
                let left = scoring::left(self.deadline)?;
                waited.wait(self.stream.as_raw_fd(), Until::Readable, left);
            }
        }
    }

    /// Reads what has arrived. Returns true if anything had.
    fn receive_some(&mut self) -> Result<bool, Error> {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(Error::engine_unavailable(
                "rag-engine ended while it worked on this request",
            )
            .hint(RESTARTED)),
            Ok(n) => {
                self.received.push(&buffer[..n]);
                Ok(true)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(e) => Err(self.lost(&e)),
        }
    }

    fn lost(&mut self, error: &std::io::Error) -> Error {
        self.was_reset = matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        );
        lost(error)
    }
}

/// Returns the party of the session's requests: the role that has logged in, whatever role a
/// function runs as.
fn current_party() -> Party {
    Party {
        database: database().to_u32(),
        role: session_user().to_u32(),
    }
}

const RESTARTED: &str = "The engine is restarted automatically. Repeat the command. \
                         See the server log for the reason.";

fn lost(error: &std::io::Error) -> Error {
    Error::engine_unavailable("lost the connection to rag-engine")
        .detail(error.to_string())
        .hint(RESTARTED)
}
