//! The requests of object_store for the token of a machine, and the wait for them.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use async_trait::async_trait;
use object_store::{
    ClientOptions, RetryConfig,
    client::{
        HttpClient as StoreClient, HttpConnector, HttpError as StoreError, HttpErrorKind,
        HttpRequest as StoreRequest, HttpResponse as StoreResponse, HttpResponseBody, HttpService,
    },
};
use rag_protocol::{EngineError, ingest::Network};
use reqwest::Method;
use url::Url;

use crate::http::{HttpClient, HttpRequest, Redirects};

/// The metadata service of Amazon's, Google's and Microsoft's machines.
pub const METADATA_ADDRESS: &str = "169.254.169.254";
const SILENCE_SECONDS: u64 = 5;
const TOTAL: Duration = Duration::from_secs(10);
const MAX_ANSWER: u64 = 1 << 20;

/// Each attempt has its own signature, so retries are made by the caller.
pub fn no_retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Sends the requests of object_store to one metadata service.
#[derive(Debug)]
pub struct MetadataConnector(Arc<HttpClient>);

impl MetadataConnector {
    /// The client may connect to `host` alone, and does not use the proxy: the service answers
    /// only this machine.
    pub fn new(host: &str) -> Result<Self, EngineError> {
        let network = Network {
            allowed_private_hosts: vec![host.into()],
            proxy: None,
            silence_seconds: Some(SILENCE_SECONDS),
        };
        Ok(Self(Arc::new(HttpClient::new(&network, None)?)))
    }
}

impl HttpConnector for MetadataConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<StoreClient> {
        Ok(StoreClient::new(MetadataService(Arc::clone(&self.0))))
    }
}

#[derive(Debug)]
struct MetadataService(Arc<HttpClient>);

#[async_trait]
impl HttpService for MetadataService {
    async fn call(&self, request: StoreRequest) -> Result<StoreResponse, StoreError> {
        let failed = |error| StoreError::new(HttpErrorKind::Unknown, error);
        let url = Url::parse(&request.uri().to_string());
        let url = url.map_err(|error| StoreError::new(HttpErrorKind::Unknown, error))?;
        let mut sent = HttpRequest::get(url);
        sent.method = Some(Method::clone(request.method()));
        sent.redirects = Redirects::Never;
        sent.total = Some(TOTAL);
        for name in METADATA_HEADERS {
            let value = request.headers().get(name);
            if let Some(value) = value.and_then(|value| value.to_str().ok()) {
                sent = sent.header(name, value);
            }
        }
        let response = self.0.send(&sent).map_err(failed)?;
        let (status, headers) = (response.status, response.headers.clone());
        let bytes = response.bytes(MAX_ANSWER).map_err(failed)?;
        let mut answer = StoreResponse::new(HttpResponseBody::from(bytes));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

/// The headers that metadata services ask for.
const METADATA_HEADERS: [&str; 4] = [
    "x-aws-ec2-metadata-token",
    "x-aws-ec2-metadata-token-ttl-seconds",
    "metadata-flavor",
    "metadata",
];

/// Waits for a future in this thread. It needs no runtime: its requests block.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
