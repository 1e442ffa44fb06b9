//! A connection to `rag-engine embed`, kept by the session between calls.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{ErrorKind, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use pgrx::pg_sys;
use rag_protocol::{
    EngineError, ErrorKind as Kind,
    embed::{
        Answer, MAX_DOCUMENT, MAX_TEXT, ModelInfo, ModelRef, Party, Priority, REQUEST_BYTES,
        REQUEST_TEXTS, Reply, Request, Task, too_large,
    },
    frame::{self, FrameBuffer},
    ingest::{Content, DocumentType, Splitting},
};

use super::{folders, process, socket, starter::Starter};
use crate::{
    error::Error,
    pg::wait::{Until, sleep, wait},
    settings,
    types::vector::OwnedVector,
};

/// How long a starting engine may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What the model says of some texts.
pub struct Embeddings {
    pub model: ModelInfo,
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of each text; of a long one at least so many. Only the first `model.max_tokens` are
    /// embedded.
    pub tokens: Vec<usize>,
}

/// A document that the engine is to extract and split.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unprepared<'a> {
    pub bytes: &'a [u8],
    /// `None`: it is told by the name and the first bytes.
    pub document_type: Option<DocumentType>,
    /// Of a file, its name, path or address. `None`: the bytes are a text in UTF-8.
    pub name: Option<&'a str>,
    /// Takes the place of the one in the document.
    pub title: Option<&'a str>,
}

/// Requests that were sent one after another, as the parts of one, and whose replies were not taken
/// yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    first: u64,
    last: u64,
}

pub struct Client {
    stream: UnixStream,
    received: FrameBuffer,
    /// Replies that overtook the one that is waited for.
    early: HashMap<u64, (Answer, Vec<u8>)>,
    next_id: u64,
    /// The model that was asked for last and that the engine can reach.
    reached: Option<ModelRef>,
    /// For whom the engine was told that requests are.
    party: Option<Party>,
}

thread_local! {
    /// Taken out while in use: an error on the way drops it, which closes the socket and so cancels
    /// what was asked.
    static KEPT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

/// Returns the embeddings of texts, by the present model or that of a name.
///
/// # Errors
/// There is no such model, or the engine cannot embed the texts.
pub fn embed(texts: Vec<String>, model: Option<&str>) -> Result<Vec<OwnedVector>, Error> {
    if texts.is_empty() {
        return Ok(vec![]);
    }
    let model = settings::model(model)?;
    let answer = with_client(|client| client.embed(&model, Priority::Bulk, texts))?;
    answer.vectors.into_iter().map(OwnedVector::new).collect()
}

/// Runs `ask` on the session's connection, which it opens, or replaces where the engine was
/// restarted meanwhile.
///
/// # Errors
/// The engine cannot be started or reached, goes away in the middle, or answers with an error.
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
    /// Connects to the engine, starting it where it does not run.
    ///
    /// # Errors
    /// It is not installed, or does not come up.
    pub fn connect() -> Result<Self, Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut starter = Starter::default();
        loop {
            match UnixStream::connect(socket()) {
                Ok(stream) => {
                    stream.set_nonblocking(true).map_err(|e| lost(&e))?;
                    return Ok(Self {
                        stream,
                        received: FrameBuffer::default(),
                        early: HashMap::new(),
                        next_id: 1,
                        reached: None,
                        party: None,
                    });
                }
                Err(e) if Instant::now() > deadline => {
                    return Err(
                        Error::engine_unavailable("rag-engine did not start in time")
                            .detail(format!("{}: {e}", socket().display()))
                            .hint("The server's log says why."),
                    );
                }
                Err(_) => process::check_installed(&settings::engine_path())?,
            }
            starter.see_to_it()?;
            sleep(Duration::from_millis(20));
        }
    }

    /// Whether the engine still holds the other end. An idle connection has nothing to read but its
    /// end.
    fn is_alive(&self) -> bool {
        let mut byte = [0];
        matches!((&self.stream).read(&mut byte), Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// # Errors
    /// As [`with_client`].
    pub fn describe(&mut self, model: &ModelRef) -> Result<ModelInfo, Error> {
        match self.ask_for(model)? {
            Ok(info) => Ok(info),
            Err(error) if error.kind != Kind::OutOfReach => Err(error.into()),
            Err(error) => {
                // the server may read it, and can let the engine read it
                folders::note(&model.dir)?;
                self.replace_engine(model)?;
                self.ask_for(model)?.map_err(|again| match again.kind {
                    Kind::OutOfReach => Error::from(error),
                    _ => again.into(),
                })
            }
        }
    }

    /// What the engine says of a model.
    fn ask_for(&mut self, model: &ModelRef) -> Result<Result<ModelInfo, EngineError>, Error> {
        let ticket = self.send(model, Task::Describe, &[])?;
        match self.answer(ticket.last)? {
            (Answer::Model { model: info }, _) => {
                self.reached = Some(model.clone());
                Ok(Ok(info))
            }
            (Answer::Error { error }, _) => Ok(Err(error)),
            _ => Err(unexpected()),
        }
    }

    /// Has the engine's process end, for another one that can reach the folder of a model, and
    /// connects to that. What others have asked of the present one is lost to them.
    fn replace_engine(&mut self, model: &ModelRef) -> Result<(), Error> {
        self.send(model, Task::Leave, &[])?;
        while self.take_in().is_ok() {
            wait(&[(self.stream.as_raw_fd(), Until::Readable)], None);
        }
        // until then the one that leaves may be found again
        *self = Self::connect()?;
        Ok(())
    }

    /// Makes sure that the engine can reach a model.
    fn reach(&mut self, model: &ModelRef) -> Result<(), Error> {
        if self.reached.as_ref() == Some(model) {
            Ok(())
        } else {
            self.describe(model).map(drop)
        }
    }

    /// # Errors
    /// As [`with_client`].
    pub fn embed(
        &mut self,
        model: &ModelRef,
        priority: Priority,
        texts: Vec<String>,
    ) -> Result<Embeddings, Error> {
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
        if let Some(text) = texts.iter().find(|text| text.len() > MAX_TEXT) {
            return Err(Error::limit("a text is too long to be embedded")
                .detail(format!(
                    "It has {} bytes; the limit is {MAX_TEXT}.",
                    text.len()
                ))
                .hint("Split it: a model reads no more than its first part."));
        }
        self.reach(model)?;
        let first = self.next_id;
        let mut last = first;
        for texts in parts(texts) {
            last = self.send(model, Task::Embed { priority, texts }, &[])?.last;
        }
        Ok(Ticket { first, last })
    }

    /// Waits for the vectors of an embedding request.
    ///
    /// # Errors
    /// As [`with_client`].
    pub fn finish_embedding(&mut self, ticket: Ticket) -> Result<Embeddings, Error> {
        let mut embeddings: Option<Embeddings> = None;
        for id in ticket.first..=ticket.last {
            let (Answer::Embeddings { model, tokens }, payload) = self.receive(id)? else {
                return Err(unexpected());
            };
            let floats: Vec<f32> = payload
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect();
            if model.dimensions == 0 || floats.len() != tokens.len() * model.dimensions {
                return Err(unexpected());
            }
            let vectors = floats.chunks_exact(model.dimensions).map(<[f32]>::to_vec);
            match &mut embeddings {
                None => {
                    embeddings = Some(Embeddings {
                        vectors: vectors.collect(),
                        model,
                        tokens,
                    })
                }
                Some(all) if all.model == model => {
                    all.vectors.extend(vectors);
                    all.tokens.extend(tokens);
                }
                Some(_) => {
                    return Err(Error::new(
                        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                        "the model was replaced while texts were being embedded",
                    )
                    .hint("Repeat the command."));
                }
            }
        }
        embeddings.ok_or_else(unexpected)
    }

    /// Extracts and splits one document; its content and text.
    ///
    /// # Errors
    /// As [`with_client`]; a document that cannot be read is an error of the engine's.
    pub fn prepare(
        &mut self,
        model: &ModelRef,
        splitting: Splitting,
        document: &Unprepared<'_>,
    ) -> Result<(ModelInfo, Content, String), Error> {
        let ticket = self.start_preparing(model, splitting, document)?;
        self.finish_preparing(ticket)
    }

    /// Sends one document to be extracted and split; others may follow before
    /// [`Client::finish_preparing`].
    ///
    /// # Errors
    /// As [`with_client`].
    pub fn start_preparing(
        &mut self,
        model: &ModelRef,
        splitting: Splitting,
        document: &Unprepared<'_>,
    ) -> Result<Ticket, Error> {
        if document.bytes.len() > MAX_DOCUMENT {
            // as the engine would answer, without sending it
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
            return Ok(Ticket {
                first: id,
                last: id,
            });
        }
        // the message, the answer, and its text
        Error::unless_there_is_memory(
            3 * document.bytes.len(),
            "There is no room for the text of the document.",
        )?;
        let task = Task::Prepare {
            document_type: document.document_type.map(|it| it.name().to_string()),
            name: document.name.map(String::from),
            splitting,
            title: document.title.map(String::from),
        };
        self.reach(model)?;
        self.send(model, task, document.bytes)
    }

    /// # Errors
    /// As [`Client::prepare`].
    pub fn finish_preparing(
        &mut self,
        ticket: Ticket,
    ) -> Result<(ModelInfo, Content, String), Error> {
        match self.receive(ticket.last)? {
            (Answer::Content { model, content }, text) => Ok((
                model,
                content,
                String::from_utf8(text).map_err(|_| unexpected())?,
            )),
            _ => Err(unexpected()),
        }
    }

    fn send(&mut self, model: &ModelRef, task: Task, payload: &[u8]) -> Result<Ticket, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let request = |id, task| Request {
            id,
            model: model.clone(),
            task,
        };
        let party = present_party();
        let mut message = vec![];
        if self.party != Some(party) {
            message = frame::encode(&request(0, Task::Introduce { party }), &[])?;
            self.party = Some(party);
        }
        message.extend(frame::encode(&request(id, task), payload)?);
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
        Ok(Ticket {
            first: id,
            last: id,
        })
    }

    fn receive(&mut self, id: u64) -> Result<(Answer, Vec<u8>), Error> {
        match self.answer(id)? {
            (Answer::Error { error }, _) => Err(error.into()),
            answered => Ok(answered),
        }
    }

    fn answer(&mut self, id: u64) -> Result<(Answer, Vec<u8>), Error> {
        loop {
            if let Some(answered) = self.early.remove(&id) {
                return Ok(answered);
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

/// Texts in requests of a size that the engine can serve in turn with others'.
fn parts(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = vec![];
    let mut bytes = 0;
    for text in texts {
        bytes += text.len();
        match parts.last_mut() {
            Some(part) if part.len() < REQUEST_TEXTS && bytes <= REQUEST_BYTES => part.push(text),
            _ => {
                bytes = text.len();
                parts.push(vec![text]);
            }
        }
    }
    parts
}

/// For whom the session asks: whoever has logged in, whatever role a function runs as.
#[allow(unsafe_code)]
fn present_party() -> Party {
    // SAFETY: reads variables of the session.
    let (database, role) = unsafe { (pg_sys::MyDatabaseId, pg_sys::GetSessionUserId()) };
    Party {
        database: database.to_u32(),
        role: role.to_u32(),
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
