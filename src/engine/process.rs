//! `rag-engine` as a child process with pipes. It is killed when its owner is dropped or exits.

use std::{
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use crate::{
    error::Error,
    pg::process::{before_exit, close_descriptors_in_child, kill_child, set_nonblocking},
    settings,
};

/// Exit code of an engine that a client has asked to exit, so that another one can be started.
pub const REPLACED: i32 = 8;

/// The children of this process that have not been waited for. The server's processes may exit
/// without unwinding. Then [`kill_children`] does what dropping [`EngineProcess`] would have done.
static CHILDREN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

pub struct EngineProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: ChildStderr,
    /// Bytes of standard error that are not a whole line yet.
    partial_log: Vec<u8>,
    stderr_open: bool,
}

impl EngineProcess {
    /// Starts `rag-engine` with `args`. All three pipes are non-blocking on this side.
    ///
    /// # Errors
    /// The program does not exist or cannot be executed.
    pub fn spawn(args: &[&std::ffi::OsStr]) -> Result<Self, Error> {
        let path = settings::engine_path();
        check_installed(&path)?;
        let mut command = Command::new(&path);
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| kept_variable(name)));
        // ONNX Runtime reads this while its library is loaded, before any function can be called
        command.env("ORT_DISABLE_TELEMETRY", "1");
        close_descriptors_in_child(&mut command);
        let mut child = command.spawn().map_err(|e| not_executable(&path, &e))?;
        remember(child.id() as i32);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::internal("rag-engine was started without its pipes"));
        };
        let prepared = set_nonblocking(&stdin)
            .and_then(|()| set_nonblocking(&stdout))
            .and_then(|()| set_nonblocking(&stderr));
        let process = Self {
            child,
            stdin: Some(stdin),
            stdout,
            stderr,
            partial_log: vec![],
            stderr_open: true,
        };
        match prepared {
            Ok(()) => Ok(process),
            Err(e) => Err(Error::internal(format!("could not prepare a pipe: {e}"))),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stdin_fd(&self) -> Option<RawFd> {
        self.stdin.as_ref().map(AsRawFd::as_raw_fd)
    }

    pub fn stdout_fd(&self) -> RawFd {
        self.stdout.as_raw_fd()
    }

    /// Returns `None` once the child has closed it.
    pub fn stderr_fd(&self) -> Option<RawFd> {
        self.stderr_open.then(|| self.stderr.as_raw_fd())
    }

    /// Writes what the pipe accepts now. Returns the number of bytes, 0 if the pipe is full.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(bytes.len());
        };
        match stdin.write(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    /// Reads what has arrived. Returns `None` if nothing has, and 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        nonblocking(self.stdout.read(buffer))
    }

    /// Takes the complete lines that the child has logged.
    pub fn log_lines(&mut self) -> Vec<String> {
        let mut buffer = [0; 4096];
        while self.stderr_open {
            match nonblocking(self.stderr.read(&mut buffer)) {
                Ok(Some(n)) if n > 0 => self.partial_log.extend_from_slice(&buffer[..n]),
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => self.stderr_open = false,
            }
        }
        let mut lines = vec![];
        while let Some(end) = self.partial_log.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.partial_log.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(line.trim_ascii()).into_owned());
        }
        if !self.stderr_open && !self.partial_log.is_empty() {
            lines
                .push(String::from_utf8_lossy(&std::mem::take(&mut self.partial_log)).into_owned());
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    /// Kills the child if it still runs. Returns how it ended.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        let _ = self.child.kill();
        let status = self.child.wait().ok();
        replace_child(self.child.id() as i32, 0);
        status
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn remember(child: i32) {
    // before others see that the process has exited
    before_exit(kill_children);
    replace_child(0, child);
}

fn replace_child(old: i32, new: i32) {
    for slot in &CHILDREN {
        if slot.compare_exchange(old, new, Relaxed, Relaxed).is_ok() {
            return;
        }
    }
}

/// Kills all children of this process, which is about to exit.
pub fn kill_children() {
    for child in &CHILDREN {
        kill_child(child.swap(0, Relaxed));
    }
}

/// Returns how a process ended, for a message: `exited with code 3`, `was killed by signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

/// # Errors
/// The program is not at the path of the settings.
pub fn check_installed(path: &std::path::Path) -> Result<(), Error> {
    std::fs::metadata(path)
        .map(|_| ())
        .map_err(|e| not_executable(path, &e))
}

fn not_executable(path: &std::path::Path, error: &std::io::Error) -> Error {
    let code = if error.kind() == ErrorKind::NotFound {
        pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_FILE
    } else {
        pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR
    };
    Error::new(code, "could not start rag-engine")
        .detail(format!("{}: {error}", path.display()))
        .hint("Install the package rag-engine, run \"make install\", or set rag.engine_path.")
}

fn nonblocking(result: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns true if the engine gets a variable of the server's environment. Others may hold
/// passwords (PGPASSWORD) and debugging switches. HOME and TMPDIR are left out because the engine
/// reads and writes nothing there.
fn kept_variable(name: &std::ffi::OsStr) -> bool {
    matches!(
        name.to_str(),
        Some("PATH" | "LANG" | "LC_ALL" | "LC_CTYPE" | "TZ" | "SSL_CERT_FILE" | "SSL_CERT_DIR")
    )
}
