//! A bucket of Amazon S3, or of a server that speaks its protocol.

use rag_definition::source::{ObjectVersions, S3Spec};
use rag_protocol::{EngineError, ingest::Job};
use url::Url;

use crate::{
    OpenReader, SourceReader,
    objects::{
        Bucket, MAX_PAGE, ObjectPage, ObjectStorage, Objects, PAGE_KEYS,
        access::Access,
        client::ObjectError,
        refusal::{Explanation, Refusal},
        url_below, with_query,
        xml::{marker_parts, s3_page},
    },
};

struct S3 {
    bucket: Bucket,
    versions: ObjectVersions,
}

impl OpenReader for S3Spec {
    fn open(&self, job: &Job) -> Result<Box<dyn SourceReader>, EngineError> {
        let access = match &job.credentials {
            Some(credentials) => Access::amazon(credentials, &self.region)?,
            None if self.instance_identity => Access::amazon_machine(&self.region, None)?,
            None => Access::Public,
        };
        let (bucket, region) = (self.bucket.clone(), self.region.clone());
        let explain =
            move |refusal: &Refusal, access: &Access| explain(refusal, access, &bucket, &region);
        let names = (
            format!("bucket \"{}\"", self.bucket),
            format!("s3://{}/", self.bucket),
        );
        let storage = S3 {
            bucket: Bucket::open(job, names, &self.bucket_url(), access, Box::new(explain))?,
            versions: self.versions,
        };
        Ok(Box::new(Objects::open(storage, &self.objects, job)?))
    }
}

impl ObjectStorage for S3 {
    const VERSION_HEADER: &'static str = "x-amz-version-id";

    fn bucket(&self) -> &Bucket {
        &self.bucket
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
        let mut url = self.bucket.url.clone();
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        let answer = self.bucket.client.get(&with_query(url, &query), MAX_PAGE)?;
        s3_page(&answer.bytes).map_err(ObjectError::Invalid)
    }

    fn url(&self, key: &str, version: Option<&str>) -> Option<Url> {
        let url = url_below(&self.bucket.url, key)?;
        Some(match version {
            Some(version) => with_query(url, &[("versionId", version)]),
            None => url,
        })
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
