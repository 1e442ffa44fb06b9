//! `rag-engine` as a child process with pipes, killed when its owner goes away.
#![allow(unsafe_code)] // what happens between fork and exec, and non-blocking descriptors

use std::{
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, RawFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
};

use pgrx::{pg_guard, pg_sys};

use crate::{error::Error, settings};

/// Exit code of a process that was asked by a client to make room for another one.
pub const LEFT: i32 = 8;

/// The children of this process that are not waited for yet. The server's processes may end without
/// unwinding, through proc_exit; [`kill_children`] then does what [`EngineProcess`]'s drop would
/// have done.
static CHILDREN: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

pub struct EngineProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: ChildStderr,
    /// Bytes of standard error that do not make a whole line yet.
    partial_log: Vec<u8>,
    stderr_open: bool,
}

impl EngineProcess {
    /// Starts `rag-engine` with `args`. All three pipes are non-blocking on this side.
    ///
    /// # Errors
    /// The program is missing or cannot be executed.
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
        // ONNX Runtime reads it while its library is being loaded, before any of its functions can
        // be called
        command.env("ORT_DISABLE_TELEMETRY", "1");
        // SAFETY: only a system call, which is safe between fork and exec.
        unsafe { command.pre_exec(close_inherited_descriptors) };
        let mut child = command.spawn().map_err(|e| not_executable(&path, &e))?;
        remember(child.id() as i32);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::internal("rag-engine was started without its pipes"));
        };
        let process = Self {
            child,
            stdin: Some(stdin),
            stdout,
            stderr,
            partial_log: vec![],
            stderr_open: true,
        };
        for fd in [
            process.stdout.as_raw_fd(),
            process.stderr.as_raw_fd(),
            process.stdin_fd().unwrap_or(-1),
        ] {
            set_nonblocking(fd)
                .map_err(|e| Error::internal(format!("could not prepare a pipe: {e}")))?;
        }
        Ok(process)
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

    /// `None` once the child has closed it.
    pub fn stderr_fd(&self) -> Option<RawFd> {
        self.stderr_open.then(|| self.stderr.as_raw_fd())
    }

    /// Writes what the pipe takes now; the number of bytes, 0 where it is full.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(bytes.len());
        };
        match stdin.write(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    /// Reads what is there; `None` where nothing is yet, 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
        nonblocking(self.stdout.read(buffer))
    }

    /// Takes the whole lines that the child has logged.
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

    /// Kills the child where it still runs; how it ended.
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
    static REGISTER: Once = Once::new();
    // SAFETY: the callback stays valid as long as the library, which is never unloaded.
    REGISTER
        .call_once(|| unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) });
    replace_child(0, child);
}

fn replace_child(old: i32, new: i32) {
    for slot in &CHILDREN {
        if slot.compare_exchange(old, new, Relaxed, Relaxed).is_ok() {
            return;
        }
    }
}

/// Before others see that the process has left.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    kill_children();
}

/// Kills all children of this process, which is about to end.
pub fn kill_children() {
    for child in CHILDREN
        .iter()
        .map(|slot| slot.swap(0, Relaxed))
        .filter(|child| *child > 0)
    {
        // SAFETY: signals and reaps a child of this process that nobody has waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// How a process ended, for a message: `exited with code 3`, `was killed by signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

/// # Errors
/// The program is not where the settings say.
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
        .hint("Run \"make install\" again, or set rag.engine_path.")
}

fn nonblocking(result: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether the engine gets a variable of the server's environment, which may hold passwords
/// (PGPASSWORD) and debugging switches. HOME and TMPDIR are left out: the engine has nothing to
/// read or write there.
fn kept_variable(name: &std::ffi::OsStr) -> bool {
    matches!(
        name.to_str(),
        Some("PATH" | "LANG" | "LC_ALL" | "LC_CTYPE" | "TZ" | "SSL_CERT_FILE" | "SSL_CERT_DIR")
    )
}

/// Marks every descriptor but the three standard ones to be closed by exec: the child must not keep
/// the server's files, sockets and the postmaster's death pipe open.
fn close_inherited_descriptors() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain system call on the process's own descriptors.
    unsafe {
        if libc::syscall(
            libc::SYS_close_range,
            3u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        ) == 0
        {
            return Ok(());
        }
    }
    // SAFETY: fcntl on a number that is no descriptor fails harmlessly.
    unsafe {
        for fd in 3..4096 {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

fn set_nonblocking(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: fcntl on a descriptor that the caller owns.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
