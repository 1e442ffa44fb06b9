//! `s3`: the objects of a bucket of Amazon S3, or of a server that speaks its protocol.

use serde::{Deserialize, Serialize};

use super::{
    ObjectSelection, SourceKind, SourceSpec,
    objects::{self, BucketSpec},
};
use crate::Fields;

pub(super) const KIND: SourceKind = SourceKind {
    name: "s3",
    manifest_type: "S3",
    comment: "the objects of a bucket of Amazon S3 or of a compatible server",
    keys: &[
        "bucket",
        "prefix",
        "region",
        "endpoint",
        "pathStyle",
        "versions",
        "instanceIdentity",
        "paths",
        "excludePaths",
    ],
    released_names: &[],
    parse: |fields| S3Spec::parse(fields).map(SourceSpec::S3),
};

const DEFAULT_REGION: &str = "us-east-1";
const MAX_REGION: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct S3Spec {
    pub bucket: String,
    pub region: String,
    /// An `http://` or `https://` URL without credentials in it, and without the bucket.
    pub endpoint: String,
    /// True: the bucket is the first part of the path. False: it is in front of the host.
    pub path_style: bool,
    pub versions: ObjectVersions,
    /// Requests are signed with the rights of the machine that the server runs on.
    pub instance_identity: bool,
    pub objects: ObjectSelection,
}

/// Which versions of an object are documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectVersions {
    #[default]
    Current,
    /// Each version is a document of its own.
    All,
}

impl S3Spec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let bucket = objects::bucket_name(fields, "bucket", &["s3", "s3a", "s3n"]);
        let region = region(fields);
        let endpoint = objects::endpoint(
            fields,
            bucket.as_deref(),
            "Write https://host, with the port of the S3 interface if it has another one.",
        );
        let has_endpoint = fields.get("endpoint").is_some();
        let path_style = fields.boolean("pathStyle");
        let versions = match fields.word("versions", &["current", "all"], "a set of versions") {
            Some("all") => ObjectVersions::All,
            _ => ObjectVersions::Current,
        };
        let instance_identity = objects::instance_identity(fields);
        let objects = ObjectSelection::parse(fields);
        let (bucket, region) = (bucket?, region?);
        Some(Self {
            // certificates are not valid for two names before the host's
            path_style: path_style.unwrap_or(has_endpoint || bucket.contains('.')),
            endpoint: endpoint.unwrap_or_else(|| amazon(&region)),
            bucket,
            region,
            versions,
            instance_identity,
            objects,
        })
    }

    /// Returns the URL of the bucket, without a slash at its end.
    pub fn bucket_url(&self) -> String {
        if self.path_style {
            return format!("{}/{}", self.endpoint, self.bucket);
        }
        match self.endpoint.split_once("://") {
            Some((scheme, host)) => format!("{scheme}://{}.{host}", self.bucket),
            None => self.endpoint.clone(),
        }
    }
}

/// Returns the endpoint of a region of Amazon S3.
fn amazon(region: &str) -> String {
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://s3.{region}.{domain}")
}

fn region(fields: &Fields<'_>) -> Option<String> {
    const KEY: &str = "region";
    if fields.get(KEY).is_none() {
        return Some(DEFAULT_REGION.into());
    }
    let text = fields.text(KEY)?;
    let is_region = text.len() <= MAX_REGION
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_region {
        let hint = "Write its code, for example eu-central-1. Servers without regions accept \
                    us-east-1.";
        fields.problem_with(KEY, format!("\"{text}\" is not a region"), hint);
        return None;
    }
    Some(text.to_owned())
}

impl BucketSpec for S3Spec {
    const KIND: &'static SourceKind = &KIND;
    const NAME_KEY: &'static str = "bucket";

    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn instance_identity(&self) -> bool {
        self.instance_identity
    }

    fn objects(&self) -> &ObjectSelection {
        &self.objects
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::source::{KindSpec, RequiredRight, tests::refuses};

    fn parsed(spec: &Value) -> S3Spec {
        match SourceSpec::parse("s3", spec) {
            Ok(SourceSpec::S3(spec)) => spec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_bucket_is_in_the_host_or_in_the_path() {
        for (spec, expected) in [
            (
                json!({"bucket": "docs"}),
                "https://docs.s3.us-east-1.amazonaws.com",
            ),
            (
                json!({"bucket": "docs", "region": "eu-west-1", "pathStyle": true}),
                "https://s3.eu-west-1.amazonaws.com/docs",
            ),
            (
                json!({"bucket": "docs.example.org"}),
                "https://s3.us-east-1.amazonaws.com/docs.example.org",
            ),
            (
                json!({"bucket": "docs", "region": "cn-north-1"}),
                "https://docs.s3.cn-north-1.amazonaws.com.cn",
            ),
            (
                json!({"bucket": "docs", "endpoint": "https://minio.example:9000/"}),
                "https://minio.example:9000/docs",
            ),
            (
                json!({"bucket": "docs", "endpoint": "https://s.example", "pathStyle": false}),
                "https://docs.s.example",
            ),
        ] {
            assert_eq!(parsed(&spec).bucket_url(), expected);
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (key, value, expected) in [
            (
                "bucket",
                json!("s3://docs/guides/"),
                "spec.bucket: must be a name, not an address",
            ),
            (
                "bucket",
                json!("docs/guides"),
                "spec.bucket: \"docs/guides\" is not the name of a bucket",
            ),
            (
                "prefix",
                json!("/guides/"),
                "spec.prefix: must not begin with a slash",
            ),
            (
                "region",
                json!("Europe (Frankfurt)"),
                "spec.region: \"Europe (Frankfurt)\" is not a region",
            ),
            (
                "endpoint",
                json!("minio:9000"),
                "spec.endpoint: must start with https:// or http://",
            ),
            (
                "endpoint",
                json!("https://docs.fra1.example.com"),
                "spec.endpoint: must not begin with the name of the bucket",
            ),
            (
                "endpoint",
                json!("https://key:word@minio.example"),
                "spec.endpoint: must not contain credentials",
            ),
            (
                "versions",
                json!("old"),
                "spec.versions: \"old\" is not a set of versions",
            ),
        ] {
            let mut spec = json!({"bucket": "docs"});
            spec[key] = value;
            refuses("s3", spec, expected);
        }
    }

    #[test]
    fn the_identity_of_the_machine_excludes_credentials() {
        let spec = parsed(&json!({"bucket": "docs", "instanceIdentity": true}));
        let problem = spec.credentials_server().unwrap_err();
        assert_eq!(
            problem.message,
            "a source with \"instanceIdentity\" takes no credentials"
        );
        let right = RequiredRight::InstanceIdentity("https://s3.us-east-1.amazonaws.com");
        assert_eq!(spec.required_right(), right);
    }
}
