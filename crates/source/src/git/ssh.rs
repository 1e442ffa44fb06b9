//! Git's smart protocol over ssh.
//!
//! ```text
//!  libgit2 ── UploadPackLs ─▶ git-upload-pack '<path>'   branches, commits
//!          ── UploadPack ───▶ the same command           wants, haves; pack
//! ```
//!
//! The client is the crate `russh`, which is in Rust and opens no connection itself. libssh2, which
//! libgit2 can use, needs OpenSSL and connects past the network guard. Nothing of the server's user
//! is read: no agent, no `~/.ssh`, no configuration. The source names the keys of the server, and
//! its secret has the private key.

mod connection;
mod host_key;
mod identity;

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use git2::{
    Remote,
    transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport},
};
use rag_definition::source::SshRepository;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};

pub use self::connection::SshAccount;
use self::connection::SshCommand;
use super::transport::{GitSession, KeptError, LIST_BYTES, no_connection};
use crate::http::HttpError;

/// The connections of one fetch over ssh.
pub struct SshSession {
    account: SshAccount,
    error: KeptError,
}

impl SshSession {
    pub fn new(
        repository: &SshRepository,
        credentials: Option<&Credentials>,
        network: &Network,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            account: SshAccount::new(repository, credentials, network)?,
            error: KeptError::default(),
        })
    }

    fn start(&self) -> Result<SshCommand, EngineError> {
        let path = quoted(self.account.path());
        self.account.run(&format!("git-upload-pack {path}"))
    }

    /// Returns the error of a command that ended too early.
    fn ended(&self, command: &SshCommand) -> EngineError {
        let named = self.account.named();
        let messages = command.messages();
        let status = command.status();
        let detail = match (messages.is_empty(), status) {
            (false, _) => format!("The server says: {messages}"),
            (true, Some(status)) => format!("git-upload-pack has ended with status {status}."),
            (true, None) => "The server has closed the connection.".into(),
        };
        let message = format!("repository {named} does not exist or cannot be read");
        EngineError::new(ErrorKind::SourceUnavailable, message)
            .detail(detail)
            .hint(
                "Check the URL. Servers also answer this if the private key gives no access to \
                 the repository.",
            )
    }

    fn keep(&self, error: io::Error) -> io::Error {
        let http = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<HttpError>());
        match http.map(|http| no_connection(self.account.named(), http)) {
            Some(failed) => self.error.keep(failed),
            None => error,
        }
    }
}

impl GitSession for SshSession {
    fn error(&self) -> &KeptError {
        &self.error
    }

    fn transport(self: Arc<Self>, remote: &Remote<'_>) -> Result<Transport, git2::Error> {
        Transport::smart(remote, false, Subtransport(self))
    }
}

/// Quotes a word for the shells that git's own clients expect.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''").replace('!', r"'\!'"))
}

struct Subtransport(Arc<SshSession>);

impl SmartSubtransport for Subtransport {
    fn action(
        &self,
        _url: &str,
        action: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        // the second action has the stream of the first
        if !matches!(action, Service::UploadPackLs) {
            return Err(git2::Error::from_str("pushing is not supported"));
        }
        let command = self.0.start();
        let command = command
            .map_err(|error| git2::Error::from_str(&self.0.error.keep(error).to_string()))?;
        Ok(Box::new(Exchange {
            session: Arc::clone(&self.0),
            command,
            received: 0,
            is_listed: false,
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A command, its input and its output.
struct Exchange {
    session: Arc<SshSession>,
    command: SshCommand,
    received: u64,
    /// True if libgit2 has read the list of branches and tags.
    is_listed: bool,
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_listed = true;
        self.command
            .write(bytes)
            .map_err(|error| self.session.keep(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self
            .command
            .read(buffer)
            .map_err(|error| self.session.keep(error))?;
        self.received += read as u64;
        if !self.is_listed && self.received > LIST_BYTES {
            let named = self.session.account.named();
            let message = format!("{named} has too many branches and tags");
            let error = EngineError::new(ErrorKind::LimitExceeded, message)
                .detail(format!("The limit of their list is {LIST_BYTES} bytes."));
            return Err(self.session.error.keep(error));
        }
        let has_failed = self.command.status().is_some_and(|status| status != 0);
        if read == 0 && (self.received == 0 || has_failed) {
            return Err(self.session.error.keep(self.session.ended(&self.command)));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        for (path, word) in [
            ("a b.git", "'a b.git'"),
            ("'; rm -rf /; '", r"''\''; rm -rf /; '\'''"),
            ("$(id)`id`!1", r"'$(id)`id`'\!'1'"),
        ] {
            assert_eq!(quoted(path), word);
        }
    }
}
