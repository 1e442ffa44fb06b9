//! `rag-engine sandbox-check`: enters the sandbox of another command and prints what is reachable
//! from there.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::Command,
};

use rag_protocol::EngineError;

use super::{Mode, Reach};
use crate::process;

/// Prints a line for each path and each other attempt, with the result: `allowed`, or why not.
///
/// # Errors
/// The sandbox is required and not available.
pub fn check(reach: &Reach, mode: Mode, paths: &[PathBuf]) -> Result<(), EngineError> {
    for missing in reach.enter(mode)? {
        println!("missing: {missing}");
    }
    for path in paths {
        tell(
            &format!("read {}", path.display()),
            File::open(path).and_then(|mut file| file.read(&mut [0; 16])),
        );
        let new = path.with_extension("new");
        tell(
            &format!("write {}", new.display()),
            File::create_new(&new).and_then(|_| std::fs::remove_file(&new)),
        );
    }
    tell("internet socket", UdpSocket::bind("127.0.0.1:0"));
    tell("listening socket", TcpListener::bind("127.0.0.1:0"));
    tell("Unix socket", UnixDatagram::unbound());
    tell("other program", Command::new("/bin/true").status());
    tell(
        "own program",
        Command::new("/proc/self/exe").arg("--version").output(),
    );
    for (what, result) in process::touch_parent() {
        tell(what, result);
    }
    Ok(())
}

fn tell<T>(what: &str, result: io::Result<T>) {
    let outcome: &dyn Display = match &result {
        Ok(_) => &"allowed",
        Err(e) => e,
    };
    println!("{what}: {outcome}");
}
