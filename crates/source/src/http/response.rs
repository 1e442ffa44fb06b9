//! Responses and their bodies.

use std::{
    fmt,
    io::{self, Read},
    time::{Duration, Instant, SystemTime},
};

use flate2::read::MultiGzDecoder;
use reqwest::{
    StatusCode, blocking,
    header::{self, HeaderMap},
};
use url::Url;

use super::HttpError;

/// A longer Retry-After is reduced to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Debug)]
pub struct HttpResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Its URL, after redirects.
    pub url: Url,
    pub body: Body,
}

impl HttpResponse {
    /// Returns the value of a header if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns true if the server limits the rate of requests: 429, or 503 with a Retry-After. A
    /// 503 without one means that the server has failed.
    pub fn is_throttling(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
            || (self.status == StatusCode::SERVICE_UNAVAILABLE && self.retry_after().is_some())
    }

    /// Returns how long the server asks to wait (RFC 9110, 10.2.3): seconds, or a date by the
    /// server's clock.
    pub fn retry_after(&self) -> Option<Duration> {
        let date = |name| {
            self.header(name)
                .and_then(|value| httpdate::parse_http_date(value.trim()).ok())
        };
        let value = self.header("retry-after")?.trim();
        let asked = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
            // a number that overflows exceeds the limit
            value.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs)
        } else {
            let now = date("date").unwrap_or_else(SystemTime::now);
            date("retry-after")?.duration_since(now).unwrap_or_default()
        };
        Some(asked.min(MAX_RETRY_AFTER))
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// It has more than `max_bytes` bytes after decompression, or is incomplete.
    pub fn bytes(self, max_bytes: u64) -> Result<Vec<u8>, HttpError> {
        let host = self.body.host.clone();
        let mut bytes = vec![];
        let read = self
            .body
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| HttpError::of_io(&host, error))?;
        if bytes.len() as u64 > max_bytes {
            Err(HttpError::TooLarge(max_bytes))
        } else {
            Ok(bytes)
        }
    }
}

/// A decompressed body. Its errors carry an [`HttpError`].
pub struct Body {
    host: String,
    reader: Box<dyn Read + Send>,
}

impl Body {
    pub(super) fn new(
        host: &str,
        encoding: Encoding,
        until: Option<Instant>,
        reader: blocking::Response,
    ) -> Self {
        let host = host.to_owned();
        let raw = RawBody {
            host: host.clone(),
            until,
            reader,
        };
        let reader: Box<dyn Read + Send> = match encoding {
            Encoding::Identity => Box::new(raw),
            Encoding::Gzip => Box::new(Gunzip(MultiGzDecoder::new(raw))),
        };
        Self { host, reader }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// A body as it is sent, compressed or not.
struct RawBody<R> {
    host: String,
    /// The end of the request's time.
    until: Option<Instant>,
    reader: R,
}

impl<R: Read> Read for RawBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let error = HttpError::Timeout {
                host: self.host.clone(),
                during: "body".into(),
            };
            return Err(io::Error::new(io::ErrorKind::TimedOut, error));
        }
        self.reader
            .read(buffer)
            .map_err(|error| io::Error::new(error.kind(), HttpError::of_io(&self.host, error)))
    }
}

/// Decompresses. Tells errors of the compression from errors of the connection.
struct Gunzip<R>(MultiGzDecoder<R>);

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let kind = error.kind();
            let error = error
                .downcast::<HttpError>()
                .unwrap_or_else(|error| match kind {
                    io::ErrorKind::UnexpectedEof => {
                        HttpError::Compression("it is truncated".into())
                    }
                    _ => HttpError::Compression(error.to_string()),
                });
            io::Error::new(kind, error)
        })
    }
}

pub(super) enum Encoding {
    Identity,
    Gzip,
}

pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, HttpError> {
    let mut encoding = Encoding::Identity;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let parts = value.split(',').map(str::trim);
        // the last two encode no bytes, but are common values of this header in object storage
        let encodings =
            parts.filter(|part| !matches!(*part, "" | "identity" | "aws-chunked" | "utf-8"));
        let value = encodings.collect::<Vec<_>>().join(", ");
        encoding = match (value.as_str(), encoding) {
            ("", encoding) => encoding,
            ("gzip" | "x-gzip", Encoding::Identity) => Encoding::Gzip,
            _ => return Err(HttpError::Encoding(value)),
        };
    }
    Ok(encoding)
}
