//! Files whose names come from users. Only regular files are opened: a process that opens a pipe or
//! a device may wait for ever.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The flags `O_NONBLOCK` and `O_NOCTTY` of Linux. The first one has no effect on regular files.
const FLAGS: i32 = 0o4000 | 0o400;

/// Opens a regular file for reading. Never waits for another process.
///
/// # Errors
/// Those of the system, or the file is not regular.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(FLAGS)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "It is not a regular file.",
        ))
    }
}

/// Reads a regular file.
///
/// # Errors
/// See [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, process::Command};

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = std::env::temp_dir().join(format!("rag-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [file, pipe, socket] = ["file", "pipe", "socket"].map(|name| folder.join(name));
        std::fs::write(&file, "text").unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(read(&file).unwrap(), b"text");
        let kind = |path: &Path| read(path).unwrap_err().kind();
        assert_eq!(kind(&pipe), io::ErrorKind::InvalidInput);
        assert_eq!(kind(&folder), io::ErrorKind::IsADirectory);
        assert_eq!(kind(Path::new("/dev/zero")), io::ErrorKind::InvalidInput);
        assert!(read(&socket).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
