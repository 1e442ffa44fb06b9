//! Commands on an ssh server.
//!
//! A command has a connection and a runtime of its own. The runtime runs only while something is
//! read or written: what the server sends meanwhile waits in the kernel, and memory is bounded.

use std::{
    borrow::Cow,
    io::{self, Read, Write},
    sync::{Arc, PoisonError},
    time::Duration,
};

use rag_definition::source::SshRepository;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
use russh::{
    AlgorithmKind, Channel, ChannelMsg, Error, Preferred, SshId,
    client::{self, AuthResult, Handle, Msg},
    keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKey, ssh_key::HashAlg},
};
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, timeout, timeout_at},
};
use url::Url;

use super::{
    super::transport::{RETRY_DELAYS, no_connection},
    host_key::{self, HostCheck, Presented},
    identity,
};
use crate::{
    guard::Guard,
    http::{HttpError, READ_TIMEOUT},
    tcp,
};

/// Limits the time from the first byte to the start of the command.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);
const CLIENT: &str = concat!("SSH-2.0-rag_", env!("CARGO_PKG_VERSION"));
/// Maximum size of a command's messages that is kept.
const MESSAGES_BYTES: usize = 4 << 10;

/// An account on a server, and what it is opened with.
pub struct SshAccount {
    repository: SshRepository,
    /// The repository in messages.
    named: String,
    url: Url,
    guard: Arc<Guard>,
    proxy: Option<Url>,
    host_keys: Vec<PublicKey>,
    identity: Option<Arc<PrivateKey>>,
    silence: Duration,
}

impl SshAccount {
    pub fn new(
        repository: &SshRepository,
        credentials: Option<&Credentials>,
        network: &Network,
    ) -> Result<Self, EngineError> {
        let url = repository.server.url();
        let url = url.ok_or_else(|| {
            let message = format!("\"{repository}\" is not a URL");
            EngineError::new(ErrorKind::InvalidRequest, message)
        })?;
        let identity = credentials.map(identity::private_key).transpose()?;
        let proxy = network.proxy.as_deref().map(Url::parse);
        Ok(Self {
            repository: repository.clone(),
            named: repository.to_string(),
            url,
            guard: Arc::new(Guard::new(network)?),
            proxy: proxy.and_then(Result::ok),
            host_keys: host_key::accepted(&repository.host_keys)?,
            identity: identity.map(Arc::new),
            silence: network
                .silence_seconds
                .map_or(READ_TIMEOUT, Duration::from_secs),
        })
    }

    pub fn path(&self) -> &str {
        &self.repository.path
    }

    pub fn named(&self) -> &str {
        &self.named
    }

    /// Starts a command. Tries again after temporary errors of the network.
    pub fn run(&self, command: &str) -> Result<SshCommand, EngineError> {
        let mut delays = RETRY_DELAYS.iter();
        loop {
            match self.try_run(command) {
                Err(SshError::Network(error)) => match delays.next() {
                    Some(delay) if error.is_transient() => std::thread::sleep(*delay),
                    _ => return Err(no_connection(&self.named, &error)),
                },
                Err(SshError::Other(error)) => return Err(*error),
                Ok(started) => return Ok(started),
            }
        }
    }

    fn try_run(&self, command: &str) -> Result<SshCommand, SshError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            let message = "could not start the ssh client";
            EngineError::new(ErrorKind::Internal, message).detail(error.to_string())
        })?;
        let (handle, channel) = runtime.block_on(async {
            let handle = self.log_in(&self.host_keys).await?;
            let starting = async {
                let mut channel = handle.channel_open_session().await?;
                channel.exec(true, command).await?;
                loop {
                    match channel.wait().await {
                        Some(ChannelMsg::Success) => return Ok(Some(channel)),
                        Some(ChannelMsg::WindowAdjusted { .. }) => {}
                        _ => return Ok(None),
                    }
                }
            };
            let started = timeout(self.silence.min(LOGIN_TIMEOUT), starting).await;
            let started: Result<_, Error> = started.map_err(|_| self.silent("command"))?;
            let channel = started.map_err(|error| self.broken(&error))?;
            let channel = channel.ok_or_else(|| {
                let program = command.split(' ').next().unwrap_or_default();
                let message = format!("the server of {} does not run {program}", self.named);
                let hint = "The account may be for other purposes, or the key may be restricted.";
                EngineError::new(ErrorKind::SourceUnavailable, message).hint(hint)
            })?;
            Ok::<_, SshError>((handle, channel))
        })?;
        Ok(SshCommand {
            channel,
            _handle: handle,
            runtime,
            host: self.host(),
            silence: self.silence,
            unread: vec![],
            read: 0,
            messages: vec![],
            status: None,
            is_over: false,
        })
    }

    fn host(&self) -> String {
        self.repository.server.known_name()
    }

    async fn log_in(&self, host_keys: &[PublicKey]) -> Result<Handle<HostCheck>, SshError> {
        let (connected, presented) = self.greet(host_keys).await?;
        let mut handle = match connected {
            Ok(handle) => handle,
            // it has none of the types: the key that it has is presented without being accepted
            Err(Error::NoCommonAlgo {
                kind: AlgorithmKind::Key,
                ..
            }) if !host_keys.is_empty() => {
                let (_, presented) = self.greet(&[]).await?;
                return Err(self.stranger(&presented).into());
            }
            Err(Error::UnknownKey) => return Err(self.stranger(&presented).into()),
            Err(error) => return Err(self.broken(&error)),
        };
        let logging_in = async {
            let user = &self.repository.server.user;
            match &self.identity {
                None => handle.authenticate_none(user).await,
                Some(key) => {
                    let hash = if key.algorithm().is_rsa() {
                        let told = handle.best_supported_rsa_hash().await?.flatten();
                        Some(told.unwrap_or(HashAlg::Sha256))
                    } else {
                        None
                    };
                    let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
                    handle.authenticate_publickey(user, key).await
                }
            }
        };
        let answer = timeout(self.silence.min(LOGIN_TIMEOUT), logging_in).await;
        let answer = answer.map_err(|_| self.silent("login"))?;
        match answer.map_err(|error| self.broken(&error))? {
            AuthResult::Success => Ok(handle),
            AuthResult::Failure {
                partial_success, ..
            } => Err(self.refused(partial_success).into()),
        }
    }

    /// Connects and exchanges keys. An empty list stands for no known key.
    async fn greet(
        &self,
        host_keys: &[PublicKey],
    ) -> Result<(Result<Handle<HostCheck>, Error>, Presented), SshError> {
        let stream = tcp::connect(&self.guard, self.proxy.as_ref(), &self.url).await;
        let stream = stream.map_err(SshError::Network)?;
        let presented = Presented::default();
        let check = HostCheck {
            accepted: host_keys.to_vec(),
            presented: Arc::clone(&presented),
        };
        let config = client::Config {
            client_id: SshId::Standard(CLIENT.into()),
            preferred: Preferred {
                key: Cow::Owned(host_key::algorithms(host_keys)),
                ..Preferred::DEFAULT
            },
            ..client::Config::default()
        };
        let connecting = client::connect_stream(Arc::new(config), stream, check);
        let connected = timeout(self.silence.min(LOGIN_TIMEOUT), connecting).await;
        Ok((connected.map_err(|_| self.silent("greeting"))?, presented))
    }

    fn stranger(&self, presented: &Presented) -> EngineError {
        let presented = presented.lock().unwrap_or_else(PoisonError::into_inner);
        match &*presented {
            Some(key) => host_key::refused(&self.named, key, !self.host_keys.is_empty()),
            None => {
                let named = &self.named;
                let message = format!("the server of {named} has no host key that is supported");
                EngineError::new(ErrorKind::SourceUnavailable, message).hint(
                    "Keys of hosts are ed25519, ecdsa or rsa with SHA-2, without certificates.",
                )
            }
        }
    }

    fn silent(&self, during: &str) -> SshError {
        SshError::Network(HttpError::Timeout {
            host: self.host(),
            during: during.into(),
        })
    }

    fn broken(&self, error: &Error) -> SshError {
        let host = self.host();
        match error {
            Error::IO(error) => SshError::Network(HttpError::Broken {
                host,
                reason: error.to_string(),
            }),
            Error::HUP | Error::Disconnect | Error::SendError | Error::Join(_) => {
                SshError::Network(HttpError::Broken {
                    host,
                    reason: "the server has closed it".into(),
                })
            }
            error => {
                let message = format!("could not fetch from {}", self.named);
                let detail = format!("{host} sent an invalid SSH response: {error}");
                let error = EngineError::new(ErrorKind::SourceUnavailable, message).detail(detail);
                error.into()
            }
        }
    }

    fn refused(&self, is_partial: bool) -> EngineError {
        let (user, named) = (&self.repository.server.user, &self.named);
        let error = |message: String| EngineError::new(ErrorKind::SourceUnavailable, message);
        match &self.identity {
            _ if is_partial => error(format!("the server of {named} asks for more than a key"))
                .hint("Use an account that a private key alone can open, such as a deploy key."),
            None => error(format!("the server of {named} asks for a private key")).hint(
                "Create a secret whose key \"ssh-privatekey\" has it, and name the secret in the \
                 source's credentials.",
            ),
            Some(key) => {
                let public = key.public_key().to_openssh().unwrap_or_default();
                error(format!(
                    "the server of {named} does not accept the private key"
                ))
                .detail(format!(
                    "The user is \"{user}\", and the public key is {public}."
                ))
                .hint("Add the public key at the server, and check the user in the URL.")
            }
        }
    }
}

enum SshError {
    Network(HttpError),
    Other(Box<EngineError>),
}

impl From<EngineError> for SshError {
    fn from(error: EngineError) -> Self {
        Self::Other(Box::new(error))
    }
}

/// A command that runs. Reads are of its output, and writes are to its input. Errors carry an
/// [`HttpError`].
pub struct SshCommand {
    // dropped before the runtime
    channel: Channel<Msg>,
    _handle: Handle<HostCheck>,
    runtime: Runtime,
    host: String,
    silence: Duration,
    unread: Vec<u8>,
    /// Number of bytes of `unread` that were read.
    read: usize,
    messages: Vec<u8>,
    status: Option<u32>,
    is_over: bool,
}

impl SshCommand {
    /// Returns the status of a command that is over. A status is an error unless it is 0.
    pub fn status(&self) -> Option<u32> {
        self.status
    }

    /// Returns what the command has written beside its output.
    pub fn messages(&self) -> String {
        let text = String::from_utf8_lossy(&self.messages);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.map(|line| line.escape_debug().to_string()).collect();
        lines.join(" ")
    }

    /// Waits for the next output.
    fn receive(&mut self) -> io::Result<()> {
        let until = Instant::now() + self.silence;
        while !self.is_over && self.read == self.unread.len() {
            let channel = &mut self.channel;
            // a timer needs a runtime from its start
            let next = async { timeout_at(until, channel.wait()).await };
            let next = self
                .runtime
                .block_on(next)
                .map_err(|_| silent(&self.host))?;
            match next {
                Some(ChannelMsg::Data { data }) => (self.unread, self.read) = (data.into(), 0),
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    let left = MESSAGES_BYTES.saturating_sub(self.messages.len());
                    self.messages.extend(data.iter().take(left));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
                Some(ChannelMsg::Close) | None => self.is_over = true,
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn silent(host: &str) -> io::Error {
    let error = HttpError::Timeout {
        host: host.into(),
        during: "body".into(),
    };
    io::Error::new(io::ErrorKind::TimedOut, error)
}

impl Read for SshCommand {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive()?;
        let read = (&self.unread[self.read..]).read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for SshCommand {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (channel, silence) = (&self.channel, self.silence);
        let sending = async { timeout(silence, channel.data(bytes)).await };
        let sent = self.runtime.block_on(sending);
        match sent.map_err(|_| silent(&self.host))? {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let error = HttpError::Broken {
                    host: self.host.clone(),
                    reason: error.to_string(),
                };
                Err(io::Error::new(io::ErrorKind::BrokenPipe, error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
