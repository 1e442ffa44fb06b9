//! With whose rights requests are made: without any, with a secret, or with those of the machine.
//!
//! The crate object_store signs the requests, and gets the tokens of a machine from the metadata
//! service of its cloud. Its own requests go through a [`MetadataConnector`].

use std::{error::Error, fmt::Display, iter, sync::Arc};

use object_store::{
    aws::{AmazonS3Builder, AwsAuthorizer, AwsCredential, AwsCredentialProvider},
    azure::{
        AzureAccessKey, AzureAuthorizer, AzureCredential, AzureCredentialProvider,
        MicrosoftAzureBuilder, split_sas,
    },
    client::{HttpRequest as StoreRequest, HttpRequestBody, StaticCredentialProvider},
    gcp::{GcpCredentialProvider, GoogleCloudStorageBuilder},
};
use rag_protocol::{EngineError, ErrorKind, ingest::Credentials};
use reqwest::header::HeaderValue;
use url::Url;

use super::metadata::{METADATA_ADDRESS, MetadataConnector, block_on, no_retry};

/// The headers that authorize a request, and those that must be sent with them.
const SENT_HEADERS: [&str; 6] = [
    "authorization",
    "date",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
    "x-ms-version",
];
/// The version of Azure's interface, which object_store sends, too.
const AZURE_VERSION: &str = "2023-11-03";

/// With whose rights requests are made.
#[derive(Debug)]
pub enum Access {
    Public,
    /// Everybody's, in the form of Azure.
    PublicAzure,
    Amazon {
        provider: AwsCredentialProvider,
        region: String,
    },
    Azure {
        provider: AzureCredentialProvider,
        account: String,
    },
    Google(GcpCredentialProvider),
}

/// A request that was authorized: its URL, and its headers.
pub type Authorized = (Url, Vec<(&'static str, String)>);

impl Access {
    /// # Errors
    /// `InvalidRequest`: the secret has no user name, or one that cannot be sent.
    pub fn amazon(credentials: &Credentials, region: &str) -> Result<Self, EngineError> {
        const HINT: &str = "Create the secret with the access key id under the key \"username\", \
                            and the secret access key under the key \"password\".";
        let user = credentials.username.as_deref();
        let user = user.filter(|user| HeaderValue::from_str(user).is_ok());
        let user = user.ok_or_else(|| unusable("the secret has no access key id", HINT))?;
        let credential = AwsCredential {
            key_id: user.into(),
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

    /// Accepts a key of the account, a shared access signature, or a connection string with one of
    /// them.
    ///
    /// # Errors
    /// `InvalidRequest`: the secret is none of these.
    pub fn azure(credentials: &Credentials, account: &str) -> Result<Self, EngineError> {
        const HINT: &str = "Create the secret with a key of the storage account, or with a shared \
                            access signature, under the key \"token\".";
        let secret = credentials.secret.trim();
        let part = |name: &str| secret.split(';').find_map(|part| part.strip_prefix(name));
        let secret = part("AccountKey=")
            .or_else(|| part("SharedAccessSignature="))
            .unwrap_or(secret);
        let credential = if secret.contains("sig=") {
            split_sas(secret).map(AzureCredential::SASToken).ok()
        } else {
            let key = AzureAccessKey::try_new(secret);
            key.map(AzureCredential::AccessKey).ok()
        };
        let credential = credential.ok_or_else(|| {
            unusable(
                "the secret is no key of a storage account, nor a signature",
                HINT,
            )
        })?;
        Ok(Self::Azure {
            provider: Arc::new(StaticCredentialProvider::new(credential)),
            account: account.into(),
        })
    }

    /// See [`Access::amazon_machine`].
    ///
    /// # Errors
    /// `Internal`: object_store refuses what it is given.
    pub fn azure_machine(account: &str) -> Result<Self, EngineError> {
        let store = MicrosoftAzureBuilder::new()
            .with_account(account)
            .with_container_name("unused")
            .with_retry(no_retry())
            .with_http_connector(MetadataConnector::new(METADATA_ADDRESS)?)
            .build()
            .map_err(|error| internal(&error))?;
        Ok(Self::Azure {
            provider: Arc::clone(store.credentials()),
            account: account.into(),
        })
    }

    /// Accepts the key of a service account in JSON, as the console gives it.
    ///
    /// # Errors
    /// `InvalidRequest`: the secret is not such a key.
    pub fn google(credentials: &Credentials) -> Result<Self, EngineError> {
        const HINT: &str = "Create the secret with the content of the key's file, which is JSON, \
                            under the key \"token\". HMAC keys are for sources of kind s3 with \
                            \"endpoint\": \"https://storage.googleapis.com\".";
        let store = GoogleCloudStorageBuilder::new()
            .with_service_account_key(&credentials.secret)
            .with_bucket_name("unused")
            .with_retry(no_retry())
            .with_http_connector(MetadataConnector::new(METADATA_ADDRESS)?)
            .build();
        // the library's message could have parts of the key
        let store =
            store.map_err(|_| unusable("the secret is not the key of a service account", HINT))?;
        Ok(Self::Google(Arc::clone(store.credentials())))
    }

    /// See [`Access::amazon_machine`].
    ///
    /// # Errors
    /// `Internal`: object_store refuses what it is given.
    pub fn google_machine() -> Result<Self, EngineError> {
        let store = GoogleCloudStorageBuilder::new()
            .with_bucket_name("unused")
            .with_retry(no_retry())
            .with_http_connector(MetadataConnector::new(METADATA_ADDRESS)?)
            .build()
            .map_err(|error| internal(&error))?;
        Ok(Self::Google(Arc::clone(store.credentials())))
    }

    pub fn is_public(&self) -> bool {
        matches!(self, Self::Public | Self::PublicAzure)
    }

    /// Returns the URL and the headers of a GET request.
    ///
    /// # Errors
    /// `Unauthorized`: the machine has no identity.
    pub fn authorize(&self, url: &Url) -> Result<Authorized, EngineError> {
        let mut request = StoreRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(|error| internal(&error))?;
        match self {
            Self::Public => return Ok((url.clone(), vec![])),
            Self::PublicAzure => {
                let version = ("x-ms-version", AZURE_VERSION.to_owned());
                return Ok((url.clone(), vec![version]));
            }
            Self::Amazon { provider, region } => {
                let credential = block_on(provider.get_credential());
                let credential = credential.map_err(|error| no_token(&error))?;
                check_token(credential.token.as_deref().unwrap_or_default())?;
                AwsAuthorizer::new(&credential, "s3", region)
                    .try_authorize(&mut request, None)
                    .map_err(|error| internal(&error))?;
            }
            Self::Azure { provider, account } => {
                let credential = block_on(provider.get_credential());
                let credential = credential.map_err(|error| no_token(&error))?;
                if let AzureCredential::BearerToken(token) = &*credential {
                    check_token(token)?;
                }
                AzureAuthorizer::new(&credential, account)
                    .try_authorize(&mut request)
                    .map_err(|error| internal(&error))?;
            }
            Self::Google(provider) => {
                let credential = block_on(provider.get_credential());
                let bearer = &credential.map_err(|error| no_token(&error))?.bearer;
                check_token(bearer)?;
                let header = ("authorization", format!("Bearer {bearer}"));
                return Ok((url.clone(), vec![header]));
            }
        }
        // a shared access signature is a part of the URL
        let url = Url::parse(&request.uri().to_string()).map_err(|error| internal(&error))?;
        let headers = SENT_HEADERS.into_iter().filter_map(|name| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some((name, value.to_owned()))
        });
        Ok((url, headers.collect()))
    }
}

fn unusable(message: &str, hint: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidRequest, message).hint(hint)
}

/// Checks a token of a metadata service, which may be anything.
fn check_token(token: &str) -> Result<(), EngineError> {
    if HeaderValue::from_str(token).is_ok() {
        return Ok(());
    }
    let message = "the metadata service of this machine sent an invalid token";
    Err(EngineError::new(ErrorKind::InvalidAnswer, message))
}

fn internal(error: &dyn Display) -> EngineError {
    EngineError::new(ErrorKind::Internal, "could not sign a request").detail(error.to_string())
}

fn no_token(error: &object_store::Error) -> EngineError {
    let error: &(dyn Error + 'static) = error;
    let innermost = iter::successors(Some(error), |&error| error.source()).last();
    let reason = innermost.map(ToString::to_string).unwrap_or_default();
    let message = "could not get the identity of this machine from its metadata service";
    EngineError::new(ErrorKind::Unauthorized, message)
        .detail(reason)
        .hint(
            "Give the machine a role that may read the bucket. Outside of the cloud of the \
             bucket, use a secret.",
        )
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// Answers as the metadata service of Amazon's machines: what the path of a request begins
    /// with, and the answer. Returns its URL, and the requests that it gets.
    fn metadata(answers: &'static [(&str, &str)]) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let token = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty());
                let token: Vec<String> =
                    token.filter(|line| line.starts_with("x-aws-ec2")).collect();
                seen.lock()
                    .unwrap()
                    .push(format!("{first} {}", token.join(" ")));
                let answer = answers.iter().rfind(|(begin, _)| first.starts_with(begin));
                let (status, body) = answer.map_or(("404 Not Found", ""), |it| ("200 OK", it.1));
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}");
                write!(connection, "{head}\r\nConnection: close\r\n\r\n{body}").unwrap();
            }
        });
        (url, requests)
    }

    const ROLE: &str = "GET /latest/meta-data/iam/security-credentials/";

    #[test]
    fn a_machine_signs_with_the_token_of_its_role() {
        let (url, requests) = metadata(&[
            ("PUT /latest/api/token", "session"),
            (ROLE, "reader"),
            (
                "GET /latest/meta-data/iam/security-credentials/reader",
                r#"{"AccessKeyId": "AKID", "SecretAccessKey": "word", "Token": "of-the-role",
                    "Expiration": "2999-01-01T00:00:00Z"}"#,
            ),
        ]);
        let access = Access::amazon_machine("eu-central-1", Some(&url)).unwrap();
        let object = Url::parse("https://docs.s3.example/a.md").unwrap();
        for _ in 0..2 {
            let (_, headers) = access.authorize(&object).unwrap();
            let get = |name| headers.iter().find(|it| it.0 == name).unwrap().1.as_str();
            assert_eq!(get("x-amz-security-token"), "of-the-role");
            assert!(get("authorization").contains("Credential=AKID/"));
        }
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 3, "a token is kept: {requests:?}");
        assert!(
            requests[2].ends_with("x-aws-ec2-metadata-token: session"),
            "{requests:?}"
        );
    }

    #[test]
    fn a_machine_without_a_role_is_told() {
        let (url, _) = metadata(&[("PUT /latest/api/token", "session")]);
        let access = Access::amazon_machine("eu-central-1", Some(&url)).unwrap();
        let object = Url::parse("https://docs.s3.example/a.md").unwrap();
        let error = access.authorize(&object).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        let (url, _) = metadata(&[
            ("PUT /latest/api/token", "session"),
            (ROLE, "reader"),
            (
                "GET /latest/meta-data/iam/security-credentials/reader",
                "{\"AccessKeyId\": \"AKID\", \"SecretAccessKey\": \"word\", \
                  \"Token\": \"line\\nbreak\", \"Expiration\": \"2999-01-01T00:00:00Z\"}",
            ),
        ]);
        let access = Access::amazon_machine("eu-central-1", Some(&url)).unwrap();
        let error = access.authorize(&object).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidAnswer);
    }

    #[test]
    fn secrets_of_another_kind_are_refused() {
        let secret = |username: Option<&str>, secret: &str| Credentials {
            username: username.map(Into::into),
            secret: secret.into(),
            passphrase: None,
        };
        for refused in [
            Access::amazon(&secret(None, "x"), "us-east-1"),
            Access::amazon(&secret(Some("a\nb"), "x"), "us-east-1"),
            Access::azure(&secret(None, "no key!"), "company"),
            Access::google(&secret(None, "{}")),
            Access::google(&secret(Some("GOOG1"), "hmac")),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest);
            assert!(error.hint.is_some());
        }
        for accepted in [
            "a2V5",
            "?sv=2023&sig=abc%3D",
            "DefaultEndpointsProtocol=https;AccountName=company;AccountKey=a2V5;EndpointSuffix=x",
            "BlobEndpoint=https://x/;SharedAccessSignature=sv=2023&sig=abc%3D",
        ] {
            assert!(Access::azure(&secret(None, accepted), "company").is_ok());
        }
    }
}
