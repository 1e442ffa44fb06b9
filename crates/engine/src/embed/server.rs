//! The socket: its path, its permissions, and its clients.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use rag_protocol::{EngineError, ErrorKind};

use super::{Engine, client, scheduler::ClientId};
use crate::process;

/// Delay after a client that could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Mode bits: only the owner.
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const STICKY: u32 = 0o1000;

/// Opens the socket. A file that a killed engine left is replaced; the new one appears atomically
/// and accepts clients.
///
/// # Errors
/// `Io`, `PermissionDenied` or `WrongFileType`, with the path.
pub fn listen(path: &Path) -> Result<UnixListener, EngineError> {
    let failed = |what: &str, e: &io::Error| {
        let kind = if e.kind() == io::ErrorKind::PermissionDenied {
            ErrorKind::PermissionDenied
        } else {
            ErrorKind::Io
        };
        EngineError::new(kind, format!("could not {what} \"{}\"", path.display()))
            .detail(e.to_string())
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        make_private(folder)?;
    }
    if let Ok(metadata) = fs::symlink_metadata(path)
        && !std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
    {
        return Err(EngineError::new(
            ErrorKind::WrongFileType,
            format!("\"{}\" exists and is not a socket", path.display()),
        ));
    }
    // The socket is bound under another name and renamed, so that a client always finds one that
    // listens, with the right mode.
    let new = PathBuf::from(format!("{}.new", path.display()));
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("replace", &e)),
        _ => {}
    }
    let listener = UnixListener::bind(&new).map_err(|e| {
        failed("listen on", &e)
            .hint("A socket's path has at most 107 bytes; a relative path may be shorter.")
    })?;
    fs::set_permissions(&new, Permissions::from_mode(PRIVATE_FILE))
        .and_then(|()| fs::rename(&new, path))
        .map_err(|e| failed("make", &e))?;
    Ok(listener)
}

/// Creates a folder that only this user can enter.
fn make_private(folder: &Path) -> Result<(), EngineError> {
    let error = |kind, what: &str| {
        EngineError::new(kind, format!("the folder \"{}\" {what}", folder.display()))
    };
    let io =
        |e: io::Error| error(ErrorKind::Io, "cannot be used for the socket").detail(e.to_string());
    match DirBuilder::new()
        .mode(PRIVATE_FOLDER)
        .recursive(true)
        .create(folder)
    {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io(e)),
        _ => {}
    }
    let metadata = fs::metadata(folder).map_err(io)?;
    if !metadata.is_dir() {
        return Err(error(ErrorKind::WrongFileType, "is not a folder"));
    }
    if metadata.uid() != process::user_id() || metadata.mode() & STICKY != 0 {
        // A shared folder such as /tmp must not be closed to others.
        return Err(
            error(ErrorKind::PermissionDenied, "is shared with other users")
                .hint("Put the socket into a folder of its own."),
        );
    }
    if metadata.mode() & 0o777 != PRIVATE_FOLDER {
        fs::set_permissions(folder, Permissions::from_mode(PRIVATE_FOLDER)).map_err(io)?;
    }
    Ok(())
}

/// Accepts clients for the life of the process.
pub fn accept(engine: &Arc<Engine>) -> ! {
    let mut clients = 0;
    loop {
        let started = engine
            .listener
            .accept()
            .and_then(|(stream, _): (UnixStream, _)| {
                clients += 1;
                client::start(Arc::clone(engine), ClientId(clients), stream)
            });
        if let Err(e) = started
            && !engine.is_leaving.load(Ordering::SeqCst)
        {
            // Usually there are no free descriptors or threads. Clients may leave in the meantime.
            tracing::warn!("could not accept a client: {e}");
            thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}
