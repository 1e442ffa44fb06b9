//! Starts the real program and talks to it.
//!
//! Tests of the engine need ONNX Runtime (`RAG_ONNXRUNTIME`, the shared library) and some need the
//! default model (`RAG_MODEL_DIR`, its converted folder); `models/fetch.sh` and `rag-model convert`
//! create both. Without the variables the tests fail with a message; `RAG_SKIP_MODEL_TESTS=1` skips
//! them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod jobs;
pub mod references;
pub mod tiny;

use std::{
    env, fs,
    io::{self, ErrorKind},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rag_definition::model::Precision;
use rag_protocol::{
    EngineError,
    embed::{Answer, ModelInfo, ModelOptions, ModelRef, Priority, Reply, Request, Task},
    frame,
};
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_rag-engine");

/// Timeout of every test. Never part of what is tested.
pub const PATIENCE: Duration = Duration::from_secs(120);

fn variable(name: &str) -> Option<PathBuf> {
    if env::var_os("RAG_SKIP_MODEL_TESTS").is_some_and(|v| v == "1") {
        eprintln!("skipped: RAG_SKIP_MODEL_TESTS is 1");
        return None;
    }
    let value = env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set; see crates/engine/tests/common/mod.rs"));
    let path = fs::canonicalize(&value).unwrap_or_else(|e| panic!("{name} = {value:?}: {e}"));
    Some(path)
}

/// Returns ONNX Runtime's library, or `None` if such tests are to be skipped.
pub fn onnxruntime() -> Option<PathBuf> {
    variable("RAG_ONNXRUNTIME")
}

/// Returns the default model's folder, or `None` if such tests are to be skipped.
pub fn default_model() -> Option<PathBuf> {
    variable("RAG_MODEL_DIR")
}

thread_local! {
    /// A test runs in a thread of its own, which removes the folder when it ends.
    static MODELS: TempDir = tempfile::tempdir().unwrap();
}

/// Returns a new folder among those that the engines of this test can read.
pub fn model_folder() -> TempDir {
    MODELS.with(|models| tempfile::tempdir_in(models.path()).unwrap())
}

pub fn model(dir: &Path, precision: Precision) -> ModelRef {
    ModelRef {
        dir: dir.into(),
        precision,
        options: ModelOptions::default(),
    }
}

/// A running `rag-engine embed`, killed when dropped.
pub struct Engine {
    pub process: Child,
    pub socket: PathBuf,
    log: PathBuf,
    dir: TempDir,
}

impl Engine {
    pub fn start(library: &Path) -> Self {
        Self::start_with(library, &[])
    }

    pub fn start_with(library: &Path, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::start_in(dir, library, options)
    }

    fn start_in(dir: TempDir, library: &Path, options: &[&str]) -> Self {
        let socket = dir.path().join("run/engine.sock");
        let log = dir.path().join("log");
        let process = Command::new(PROGRAM)
            .args(["embed", "--threads", "2", "--log", "debug", "--onnxruntime"])
            .arg(library)
            .arg("--socket")
            .arg(&socket)
            // Models of the tests, and the default one.
            .arg("--model-dir")
            .arg(MODELS.with(|models| models.path().to_owned()))
            .args(
                env::var_os("RAG_MODEL_DIR")
                    .into_iter()
                    .flat_map(|dir| ["--model-dir".into(), dir]),
            )
            .args(options)
            .stdin(Stdio::piped())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(&log)
                    .unwrap(),
            )
            .spawn()
            .unwrap();
        let engine = Self {
            process,
            socket,
            log,
            dir,
        };
        engine.wait_for_log("ready", 1);
        engine
    }

    /// Kills the engine as the kernel does when memory is short, and starts another in its place.
    pub fn kill_and_restart(mut self, library: &Path) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let times = self.log().matches("ready").count();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        let socket = self.socket.clone();
        assert!(socket.exists(), "a killed engine leaves its socket");
        let next = Self::start_in(dir, library, &[]);
        next.wait_for_log("ready", times + 1);
        next
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log contains a text this number of times.
    pub fn wait_for_log(&self, text: &str, times: usize) {
        eventually(&format!("the log to say {text:?}"), || {
            self.log().matches(text).count() >= times
        });
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket)
    }

    /// One request on a connection of its own.
    pub fn ask(&self, model: &ModelRef, task: Task) -> Result<(Answer, Vec<u8>), EngineError> {
        self.connect().ask(model, task)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            eprintln!("--- the engine's log:\n{}", self.log());
        }
    }
}

pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A connection to the engine.
pub struct Client {
    pub stream: UnixStream,
    next_id: u64,
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, next_id: 0 }
    }

    /// Sends a request. Returns its id.
    pub fn send(&mut self, model: &ModelRef, task: Task) -> u64 {
        self.send_with(model, task, &[])
    }

    pub fn send_with(&mut self, model: &ModelRef, task: Task, payload: &[u8]) -> u64 {
        self.next_id += 1;
        let request = Request {
            id: self.next_id,
            model: model.clone(),
            task,
        };
        frame::write(&mut self.stream, &request, payload).unwrap();
        self.next_id
    }

    /// Returns the next reply, or `None` if the engine has closed the connection.
    pub fn receive(&mut self) -> Option<(Reply, Vec<u8>)> {
        let frame = match frame::read(&mut self.stream) {
            Ok(frame) => frame?,
            Err(frame::FrameError::Io(e)) if e.kind() == ErrorKind::ConnectionReset => return None,
            Err(e) => panic!("no reply: {e}"),
        };
        Some((frame.header().unwrap(), frame.payload))
    }

    pub fn ask(&mut self, model: &ModelRef, task: Task) -> Result<(Answer, Vec<u8>), EngineError> {
        self.ask_with(model, task, &[])
    }

    pub fn ask_with(
        &mut self,
        model: &ModelRef,
        task: Task,
        payload: &[u8],
    ) -> Result<(Answer, Vec<u8>), EngineError> {
        let id = self.send_with(model, task, payload);
        let (reply, payload) = self.receive().expect("a reply, not a closed connection");
        assert_eq!(reply.id, id);
        match reply.answer {
            Answer::Error { error } => Err(error),
            answer => Ok((answer, payload)),
        }
    }

    /// Returns true if a reply, or the end of the connection, can be read at once.
    pub fn has_reply(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let mut byte = [0];
        // Reading would consume the byte, and an empty write shows nothing. So: peek through a
        // duplicate.
        let peeked = peek(&self.stream, &mut byte);
        self.stream.set_nonblocking(false).unwrap();
        match peeked {
            Ok(_) => true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => false,
            Err(e) => panic!("{e}"),
        }
    }
}

#[allow(unsafe_code)]
fn peek(stream: &UnixStream, byte: &mut [u8; 1]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: a valid descriptor and one writable byte.
    let n = unsafe {
        libc::recv(
            stream.as_raw_fd(),
            byte.as_mut_ptr().cast(),
            1,
            libc::MSG_PEEK,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

pub fn embed(priority: Priority, texts: &[impl AsRef<str>]) -> Task {
    Task::Embed {
        priority,
        purpose: None,
        texts: texts.iter().map(|t| t.as_ref().to_owned()).collect(),
    }
}

/// The result of an embedding request.
pub struct Embeddings {
    pub model: ModelInfo,
    pub tokens: Vec<usize>,
    pub vectors: Vec<Vec<f32>>,
}

impl Embeddings {
    pub fn from(answer: Answer, payload: &[u8]) -> Self {
        let Answer::Embeddings { model, tokens } = answer else {
            panic!("not embeddings: {answer:?}")
        };
        let values: Vec<f32> = payload
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        let vectors: Vec<_> = values
            .chunks_exact(model.dimensions)
            .map(<[f32]>::to_vec)
            .collect();
        assert_eq!(vectors.len(), tokens.len());
        Self {
            model,
            tokens,
            vectors,
        }
    }

    pub fn of(engine: &Engine, model: &ModelRef, texts: &[impl AsRef<str>]) -> Self {
        let (answer, payload) = engine.ask(model, embed(Priority::Query, texts)).unwrap();
        Self::from(answer, &payload)
    }
}

pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum()
}

/// A long text, different for each number.
pub fn long_text(number: usize) -> String {
    let words = [
        "key", "server", "rotation", "index", "vacuum", "chunk", "document", "replica", "search",
        "token",
    ];
    (0..400)
        .map(|i| {
            format!(
                "{}{} ",
                words[(i * 7 + number) % words.len()],
                (i + number) % 13
            )
        })
        .collect()
}
