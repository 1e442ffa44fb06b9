//! A bucket of Amazon S3, or of a server that speaks its protocol.

use rag_definition::source::{ObjectVersions, S3Spec};
use rag_protocol::{EngineError, ErrorKind, ingest::Job};
use reqwest::header::HeaderMap;
use serde_json::{Map, Value};
use url::Url;

use crate::{
    OpenReader, SourceReader,
    http::HttpClient,
    objects::{
        MAX_PAGE, ObjectPage, ObjectStorage, Objects, PAGE_KEYS,
        access::Access,
        client::{ObjectClient, ObjectError},
        refusal::{Explanation, Refusal},
        text, url_below, with_query,
        xml::{marker_parts, s3_page},
    },
};

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
        let explain =
            move |refusal: &Refusal, access: &Access| explain(refusal, access, &bucket, &region);
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
    let elsewhere = refusal.region.as_deref().filter(|found| *found != region);
    if let Some(found) = elsewhere.filter(|found| !found.is_empty()) {
        let message = format!("the bucket is in the region {found}, not in {region}");
        return Explanation::unavailable(message, &format!("Set \"region\" to \"{found}\"."));
    }
    match &*refusal.code {
        "NoSuchBucket" => Explanation::unavailable(
            format!("there is no bucket \"{bucket}\""),
            "Check \"bucket\" and \"endpoint\".",
        ),
        "NoSuchKey" | "NoSuchVersion" => {
            Explanation::without_hint("it was removed after it was listed")
        }
        "InvalidObjectState" => Explanation::unavailable(
            "the object is archived",
            "Restore it, or leave it out with \"excludePaths\".",
        ),
        "RequestTimeTooSkewed" => refusal.skewed(),
        "InvalidAccessKeyId" => Explanation::denied(
            "the access key id does not exist there",
            "Check the value \"username\" of the secret, and \"endpoint\".",
        ),
        "SignatureDoesNotMatch" => Explanation::denied(
            "the signature is refused",
            "Check the value \"password\" of the secret, which is the secret access key. A proxy \
             in front of the storage must not change the host and the path of requests.",
        ),
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => Explanation::denied(
            "the token is refused",
            "Check the role of this machine, or use a secret.",
        ),
        _ => refusal.explained(
            access,
            "The credentials need the rights s3:ListBucket on the bucket and s3:GetObject on its \
             objects, with \"versions\" also s3:ListBucketVersions and s3:GetObjectVersion. \
             Without s3:ListBucket, missing objects are denied, too.",
            "S3",
        ),
    }
}
