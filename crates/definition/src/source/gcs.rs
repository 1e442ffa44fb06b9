//! `gcs`: the objects of a bucket of Google Cloud Storage.

use serde::{Deserialize, Serialize};

use super::{
    ObjectSelection, SourceKind, SourceSpec,
    objects::{self, BucketSpec},
};
use crate::Fields;

pub(super) const KIND: SourceKind = SourceKind {
    name: "gcs",
    manifest_type: "GCS",
    comment: "the objects of a bucket of Google Cloud Storage",
    keys: &[
        "bucket",
        "prefix",
        "endpoint",
        "instanceIdentity",
        "paths",
        "excludePaths",
    ],
    released_names: &[],
    parse: |fields| GcsSpec::parse(fields).map(SourceSpec::Gcs),
};

const GOOGLE: &str = "https://storage.googleapis.com";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcsSpec {
    pub bucket: String,
    /// An `http://` or `https://` URL without credentials in it, and without the bucket.
    pub endpoint: String,
    /// Requests are made with the rights of the machine that the server runs on.
    pub instance_identity: bool,
    pub objects: ObjectSelection,
}

impl GcsSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let bucket = objects::bucket_name(fields, "bucket", &["gs", "gcs"]);
        let endpoint = objects::endpoint(fields, bucket.as_deref(), "Write https://host.");
        let instance_identity = objects::instance_identity(fields);
        let objects = ObjectSelection::parse(fields);
        Some(Self {
            bucket: bucket?,
            endpoint: endpoint.unwrap_or_else(|| GOOGLE.into()),
            instance_identity,
            objects,
        })
    }
}

impl BucketSpec for GcsSpec {
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
    use serde_json::json;

    use crate::source::{SourceSpec, tests::refuses};

    #[test]
    fn a_bucket_is_at_google_unless_an_endpoint_is_named() {
        let Ok(SourceSpec::Gcs(spec)) = SourceSpec::parse("gcs", &json!({"bucket": "docs"})) else {
            panic!("a valid spec")
        };
        assert_eq!(spec.endpoint, "https://storage.googleapis.com");
        let address = json!({"bucket": "gs://docs/guides/"});
        refuses(
            "gcs",
            address,
            "spec.bucket: must be a name, not an address",
        );
    }
}
