//! A bucket of Amazon S3, or of a server that speaks its protocol.

use rag_definition::source::{ObjectVersions, S3Spec};
use rag_protocol::{EngineError, ErrorKind, ingest::Job};
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::{Map, Value};
use url::Url;

use crate::{
    OpenReader, SourceReader,
    http::HttpClient,
    objects::{
        ObjectPage, ObjectStorage, Objects,
        access::Access,
        client::{Explanation, ObjectClient, ObjectError, Refusal},
        text, url_below, with_query,
        xml::{marker_parts, s3_page},
    },
};

/// Maximum size of a page of a list: a thousand keys of a kilobyte, each byte as three, with much
/// else.
const MAX_PAGE: u64 = 16 << 20;
const PAGE_KEYS: &str = "1000";

struct S3 {
    client: ObjectClient,
    name: String,
    root: String,
    /// Of the bucket.
    url: Url,
    versions: ObjectVersions,
}

impl OpenReader for S3Spec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        let url = Url::parse(&self.bucket_url()).map_err(|_| {
            EngineError::new(ErrorKind::InvalidRequest, "the endpoint is not a URL")
        })?;
        let access = match &job.credentials {
            Some(credentials) => Access::amazon(credentials, &self.region)?,
            None if self.instance_identity => Access::amazon_machine(&self.region, None)?,
            None => Access::Public,
        };
        let http = HttpClient::new(&job.network, None)?;
        let (bucket, region) = (self.bucket.clone(), self.region.clone());
        let explain = move |refusal: &Refusal, access: &Access| {
            explain(refusal, access, &bucket, &region)
        };
        let storage = S3 {
            client: ObjectClient::new(http, access, &url, Box::new(explain))?,
            name: format!("bucket \"{}\"", self.bucket),
            root: format!("s3://{}/", self.bucket),
            url,
            versions: self.versions,
        };
        Ok(Box::new(Objects::open(storage, &self.objects, job)?))
    }
}

impl ObjectStorage for S3 {
    fn client(&self) -> &ObjectClient {
        &self.client
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn root(&self) -> &str {
        &self.root
    }

    fn server(&self) -> &Url {
        &self.url
    }

    fn list_page(&self, prefix: &str, page: Option<&str>) -> Result<ObjectPage, ObjectError> {
        let mut query = match self.versions {
            ObjectVersions::Current => vec![("list-type", "2")],
            ObjectVersions::All => vec![("versions", "")],
        };
        query.extend([
            // a key may have characters that XML cannot have
            ("encoding-type", "url"),
            ("max-keys", PAGE_KEYS),
            ("prefix", prefix),
        ]);
        match (self.versions, page) {
            (_, None) => {}
            (ObjectVersions::Current, Some(token)) => query.push(("continuation-token", token)),
            (ObjectVersions::All, Some(marker)) => {
                let (key, version) = marker_parts(marker);
                query.extend([("key-marker", key), ("version-id-marker", version)]);
            }
        }
        let mut url = self.url.clone();
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let answer = self.client.get(&with_query(url, &query), MAX_PAGE)?;
        s3_page(&answer.bytes).map_err(ObjectError::Invalid)
    }

    fn url(&self, key: &str, version: Option<&str>) -> Option<Url> {
        let url = url_below(&self.url, key)?;
        Some(match version {
            Some(version) => with_query(url, &[("versionId", version)]),
            None => url,
        })
    }

    fn metadata(&self, headers: &HeaderMap) -> Map<String, Value> {
        let version = text(headers, "x-amz-version-id").filter(|version| *version != "null");
        let version = version.map(|version| ("version_id".to_owned(), version.into()));
        version.into_iter().collect()
    }
}

fn explain(refusal: &Refusal, access: &Access, bucket: &str, region: &str) -> Explanation {
    let explained = |kind, message: String, hint: &str| Explanation {
        kind,
        message,
        hint: Some(hint.into()),
    };
    let elsewhere = refusal.region.as_deref().filter(|found| *found != region);
    if let Some(found) = elsewhere.filter(|found| !found.is_empty()) {
        let message = format!("the bucket is in the region {found}, not in {region}");
        let hint = format!("Set \"region\" to \"{found}\".");
        return explained(ErrorKind::SourceUnavailable, message, &hint);
    }
    let denied = ErrorKind::Unauthorized;
    match (refusal.status, &*refusal.code) {
        (_, "NoSuchBucket") => explained(
            ErrorKind::SourceUnavailable,
            format!("there is no bucket \"{bucket}\""),
            "Check \"bucket\" and \"endpoint\".",
        ),
        (_, "NoSuchKey" | "NoSuchVersion") => Explanation {
            kind: ErrorKind::SourceUnavailable,
            message: "it was removed after it was listed".into(),
            hint: None,
        },
        (_, "InvalidObjectState") => explained(
            ErrorKind::SourceUnavailable,
            "the object is archived".into(),
            "Restore it, or leave it out with \"excludePaths\".",
        ),
        (_, "RequestTimeTooSkewed") => explained(
            ErrorKind::SourceUnavailable,
            skew(refusal),
            "Synchronize the clock of the database server.",
        ),
        (_, "InvalidAccessKeyId") => explained(
            denied,
            "the access key id does not exist there".into(),
            "Check the value \"username\" of the secret, and \"endpoint\".",
        ),
        (_, "SignatureDoesNotMatch") => explained(
            denied,
            "the signature is refused".into(),
            "Check the value \"password\" of the secret, which is the secret access key. A proxy \
             in front of the storage must not change the host and the path of requests.",
        ),
        (_, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => explained(
            denied,
            "the token is refused".into(),
            "Check the role of this machine, or use a secret.",
        ),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) if access.is_public() => explained(
            denied,
            "it is not public".into(),
            "Create a secret and name it in the source's credentials.",
        ),
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => explained(
            denied,
            "access is denied".into(),
            "The credentials need the rights s3:ListBucket on the bucket and s3:GetObject on its \
             objects, with \"versions\" also s3:ListBucketVersions and s3:GetObjectVersion. \
             Without s3:ListBucket, missing objects are denied, too.",
        ),
        (status, _) if status.is_redirection() => {
            let to = refusal.location.as_deref().unwrap_or("another address");
            explained(
                ErrorKind::SourceUnavailable,
                format!("the server redirects to {to}"),
                "Requests are signed for one host. Check \"region\", or write the address that the \
                 bucket has into \"endpoint\".",
            )
        }
        (_, "") => explained(
            ErrorKind::SourceUnavailable,
            "the server does not answer as S3 does".into(),
            "Check that \"endpoint\" is the address of the S3 interface, not that of a console, \
             and \"pathStyle\".",
        ),
        (_, code) => Explanation {
            kind: ErrorKind::SourceUnavailable,
            message: format!("the server refuses the request as {code}"),
            hint: None,
        },
    }
}

/// Says how much the clocks differ.
fn skew(refusal: &Refusal) -> String {
    let date = refusal.date.as_deref().map(httpdate::parse_http_date);
    let differ = "the clocks of this server and of the storage differ";
    let Some(Ok(there)) = date else {
        return differ.into();
    };
    let here = std::time::SystemTime::now();
    let seconds = here
        .duration_since(there)
        .unwrap_or_else(|ahead| ahead.duration())
        .as_secs();
    format!("{differ} by {seconds} s")
}
