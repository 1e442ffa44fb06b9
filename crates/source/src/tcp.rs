//! TCP connections for protocols other than HTTP, through the network guard and the proxy.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use reqwest::dns::Resolve;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use url::{Host, Url};

use crate::{
    guard::{Guard, GuardedResolver, ResolveError},
    http::{CONNECT_TIMEOUT, HttpError},
};

/// Maximum size of a proxy's answer.
const ANSWER_BYTES: usize = 8 << 10;

/// Connects to the host and port of a URL, within [`CONNECT_TIMEOUT`] in all.
///
/// # Errors
/// The guard refuses the host or all its addresses, or nothing answers there.
pub async fn connect(
    guard: &Arc<Guard>,
    proxy: Option<&Url>,
    url: &Url,
) -> Result<TcpStream, HttpError> {
    guard.check(url)?;
    let connecting = async {
        let mut stream = reach(guard, proxy.unwrap_or(url)).await?;
        if let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) {
            guard.check_connection(url, local.ip(), peer.ip())?;
        }
        if let Some(proxy) = proxy {
            tunnel(&mut stream, proxy, url).await?;
        }
        Ok(stream)
    };
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(HttpError::Timeout {
            host: host_of(url),
            during: "connection".into(),
        }),
    }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().into()
}

async fn reach(guard: &Arc<Guard>, url: &Url) -> Result<TcpStream, HttpError> {
    let port = url.port_or_known_default().unwrap_or_default();
    let failed = |reason: String| HttpError::Connect {
        host: host_of(url),
        reason,
    };
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(address)) => vec![(address, port).into()],
        Some(Host::Ipv6(address)) => vec![(address, port).into()],
        Some(Host::Domain(name)) => {
            let resolver = GuardedResolver::new(Arc::clone(guard), guard.scope(port));
            let name = name.parse().map_err(|_| failed("not a host name".into()))?;
            let found = resolver.resolve(name).await;
            let found = found.map_err(|error| match error.downcast_ref::<ResolveError>() {
                Some(ResolveError::Refused(refusal)) => HttpError::Refused(refusal.clone()),
                _ => HttpError::UnknownHost {
                    host: host_of(url),
                    reason: error.to_string(),
                },
            })?;
            found.map(|address| (address.ip(), port).into()).collect()
        }
        None => vec![],
    };
    // as much time for each
    let share = CONNECT_TIMEOUT / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut reason = "it has no address".to_owned();
    for address in addresses {
        match timeout(
            share.max(Duration::from_secs(1)),
            TcpStream::connect(address),
        )
        .await
        {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => reason = "no answer".into(),
        }
    }
    Err(failed(reason))
}

/// Asks a proxy for a connection to the host and port of a URL (RFC 9110, 9.3.6).
async fn tunnel(stream: &mut TcpStream, proxy: &Url, url: &Url) -> Result<(), HttpError> {
    let host = host_of(proxy);
    let broken = |error: std::io::Error| HttpError::Broken {
        host: host_of(proxy),
        reason: error.to_string(),
    };
    let odd = |reason: String| HttpError::Connect {
        host: host_of(url),
        reason: format!("the proxy {host} {reason}"),
    };
    if proxy.scheme() != "http" {
        return Err(odd(
            "is used over TLS, which is supported only for http and https".into(),
        ));
    }
    let port = url.port_or_known_default().unwrap_or_default();
    let target = format!("{}:{port}", host_of(url));
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if !proxy.username().is_empty() || proxy.password().is_some() {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = decoded(proxy.username());
        let both = format!("{user}:{}", decoded(proxy.password().unwrap_or_default()));
        request += &format!(
            "Proxy-Authorization: Basic {}\r\n",
            BASE64_STANDARD.encode(both)
        );
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut answer = vec![];
    // not a byte of what follows
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_BYTES {
            return Err(odd("sent no HTTP response".into()));
        }
        answer.push(stream.read_u8().await.map_err(broken)?);
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    let words: Vec<&str> = status.splitn(3, ' ').collect();
    match words[..] {
        [version, code, ..] if version.starts_with("HTTP/1.") && code.starts_with('2') => Ok(()),
        [version, _, ..] if version.starts_with("HTTP/1.") => {
            Err(odd(format!("answered \"{}\"", status.escape_debug())))
        }
        _ => Err(odd("sent no HTTP response".into())),
    }
}
