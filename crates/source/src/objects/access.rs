//! With whose rights requests are made: without any, with a secret, or with those of the machine.
//!
//! The crate object_store signs the requests, and gets the tokens of a machine from the metadata
//! service of its cloud. Its own requests go through [`MetadataConnector`].

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
    aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential, AwsCredentialProvider},
    client::{
        HttpClient as StoreClient, HttpConnector, HttpError as StoreError, HttpErrorKind,
        HttpRequest as StoreRequest, HttpRequestBody, HttpResponse as StoreResponse,
        HttpResponseBody, HttpService, StaticCredentialProvider,
    },
};
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Network},
};
use reqwest::{Method, header::HeaderValue};
use url::Url;

use crate::http::{HttpClient, HttpRequest, Redirects};

/// The metadata service of Amazon's, Google's and Microsoft's machines.
const METADATA_ADDRESS: &str = "169.254.169.254";
const METADATA_SILENCE_SECONDS: u64 = 5;
const METADATA_TOTAL: Duration = Duration::from_secs(10);
const MAX_METADATA: u64 = 1 << 20;
/// The headers that authorize a request, and those that must be sent with them.
const SENT_HEADERS: [&str; 6] = [
    "authorization",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-ms-date",
    "x-ms-version",
];

/// With whose rights requests are made.
#[derive(Debug)]
pub enum Access {
    /// Everybody's.
    Public,
    Amazon {
        provider: AwsCredentialProvider,
        region: String,
    },
}

/// A request that was authorized: its URL, and its headers.
pub type Authorized = (Url, Vec<(&'static str, String)>);

impl Access {
    /// # Errors
    /// `InvalidRequest`: the secret has no user name, or what cannot be sent.
    pub fn amazon(credentials: &Credentials, region: &str) -> Result<Self, EngineError> {
        let Some(user) = &credentials.username else {
            let message = "the secret has no access key id";
            return Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(AMAZON_HINT));
        };
        if HeaderValue::from_str(user).is_err() {
            let message = "the access key id cannot be sent in an HTTP header";
            return Err(EngineError::new(ErrorKind::InvalidRequest, message).hint(AMAZON_HINT));
        }
        let credential = AwsCredential {
            key_id: user.clone(),
            secret_key: credentials.secret.clone(),
            token: None,
        };
        Ok(Self::Amazon {
            provider: Arc::new(StaticCredentialProvider::new(credential)),
            region: region.into(),
        })
    }

    /// Returns the access of the machine that this process runs on; `metadata` is the URL of
    /// another metadata service.
    ///
    /// # Errors
    /// `Internal`: object_store refuses what it is given.
    pub fn amazon_machine(region: &str, metadata: Option<&str>) -> Result<Self, EngineError> {
        let address = metadata.and_then(|url| Url::parse(url).ok());
        let address = address.as_ref().and_then(Url::host_str);
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name("unused")
            .with_region(region)
            .with_retry(no_retry())
            .with_http_connector(MetadataConnector::new(address.unwrap_or(METADATA_ADDRESS))?);
        if let Some(url) = metadata {
            builder = builder.with_metadata_endpoint(url);
        }
        let store = builder.build().map_err(|error| internal(&error))?;
        Ok(Self::Amazon {
            provider: Arc::clone(store.credentials()),
            region: region.into(),
        })
    }

    pub fn is_public(&self) -> bool {
        matches!(self, Self::Public)
    }

    /// Returns the URL and the headers of a GET request.
    ///
    /// # Errors
    /// `Unauthorized`: the machine has no identity.
    pub fn authorize(&self, url: &Url) -> Result<Authorized, EngineError> {
        let Self::Amazon { provider, region } = self else {
            return Ok((url.clone(), vec![]));
        };
        let credential = block_on(provider.get_credential()).map_err(|error| no_token(&error))?;
        if let Some(token) = &credential.token
            && HeaderValue::from_str(token).is_err()
        {
            return Err(EngineError::new(
                ErrorKind::InvalidAnswer,
                "the metadata service of this machine sent an invalid token",
            ));
        }
        let mut request = StoreRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(|error| internal(&error))?;
        AwsAuthorizer::new(&credential, "s3", region)
            .try_authorize(&mut request, None)
            .map_err(|error| internal(&error))?;
        Ok((url.clone(), sent_headers(&request)))
    }
}

/// Where the two parts of a key pair belong.
const AMAZON_HINT: &str = "Create the secret with the access key id under the key \"username\", \
                           and the secret access key under the key \"password\".";

fn sent_headers(request: &StoreRequest) -> Vec<(&'static str, String)> {
    let headers = SENT_HEADERS.into_iter().filter_map(|name| {
        let value = request.headers().get(name)?.to_str().ok()?;
        Some((name, value.to_owned()))
    });
    headers.collect()
}

fn internal(error: &dyn std::error::Error) -> EngineError {
    EngineError::new(ErrorKind::Internal, "could not sign a request").detail(error.to_string())
}

fn no_token(error: &object_store::Error) -> EngineError {
    let error: &dyn std::error::Error = error;
    let innermost = std::iter::successors(Some(error), |error| error.source()).last();
    let reason = innermost.map(ToString::to_string).unwrap_or_default();
    let message = "could not get the identity of this machine from its metadata service";
    EngineError::new(ErrorKind::Unauthorized, message)
        .detail(reason)
        .hint(
            "Give the machine a role that may read the bucket. Outside of the cloud of the \
             bucket, use a secret.",
        )
}

/// Each attempt has its own signature, so retries are made by the caller.
fn no_retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Sends the requests of object_store to one metadata service.
#[derive(Debug)]
struct MetadataConnector(Arc<HttpClient>);

impl MetadataConnector {
    /// The client may connect to `host` alone, and does not use the proxy: the service answers
    /// only this machine.
    fn new(host: &str) -> Result<Self, EngineError> {
        let network = Network {
            allowed_private_hosts: vec![host.into()],
            proxy: None,
            silence_seconds: Some(METADATA_SILENCE_SECONDS),
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
        sent.total = Some(METADATA_TOTAL);
        for name in METADATA_HEADERS {
            let value = request.headers().get(name);
            if let Some(value) = value.and_then(|value| value.to_str().ok()) {
                sent = sent.header(name, value);
            }
        }
        let response = self.0.send(&sent).map_err(failed)?;
        let (status, headers) = (response.status, response.headers.clone());
        let bytes = response.bytes(MAX_METADATA).map_err(failed)?;
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
fn block_on<F: Future>(future: F) -> F::Output {
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
