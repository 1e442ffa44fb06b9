//! TLS: of clients, whose connections a listener takes, and to the database.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Time that a client has for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval between looks at the files of the certificate.
const RELOAD: Duration = Duration::from_secs(10);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// # Errors
/// A file cannot be read, or key and certificate do not belong together.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Vec<CertificateDer> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, private)
        })
        .map_err(|error| failed(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// # Errors
/// The file cannot be read, or has no certificate.
pub fn client_config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            roots.add_parsable_certificates(certificates);
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    if ca.is_some() && roots.is_empty() {
        return Err("has no certificate".into());
    }
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots).with_no_client_auth())
        .map_err(|error| error.to_string())
}

/// Takes connections, whose handshakes run side by side.
pub struct TlsListener {
    address: SocketAddr,
    connections: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// # Errors
    /// The certificate cannot be read, or the address of the listener is unknown.
    pub fn new(listener: TcpListener, certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let config = server_config(&certificate, &key).map_err(io::Error::other)?;
        let (sender, connections) = mpsc::channel(64);
        tokio::spawn(accept(listener, config, certificate, key, sender));
        Ok(Self {
            address,
            connections,
        })
    }
}

async fn accept(
    listener: TcpListener,
    mut config: Arc<ServerConfig>,
    certificate: PathBuf,
    key: PathBuf,
    sender: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let mut known = changed(&certificate, &key);
    let mut looks = tokio::time::interval(RELOAD);
    loop {
        tokio::select! {
            () = sender.closed() => return,
            _ = looks.tick() => {
                let now = changed(&certificate, &key);
                if now != known {
                    match server_config(&certificate, &key) {
                        Ok(new) => {
                            (config, known) = (new, now);
                            tracing::info!("the certificate was read again");
                        }
                        Err(error) => tracing::warn!("the certificate stays: {error}"),
                    }
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let acceptor = TlsAcceptor::from(config.clone());
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
                        if let Ok(Ok(stream)) = handshake.await {
                            // an error says that the server has stopped
                            let _ = sender.send((stream, peer)).await;
                        }
                    });
                }
                // too many open files: they become fewer
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

fn changed(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.connections.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
