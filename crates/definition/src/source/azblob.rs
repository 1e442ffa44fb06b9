//! `azblob`: the blobs of a container of Azure Blob Storage.

use serde::{Deserialize, Serialize};

use super::{
    ObjectSelection, SourceKind, SourceSpec,
    objects::{self, BucketSpec},
};
use crate::Fields;

pub(super) const KIND: SourceKind = SourceKind {
    name: "azblob",
    manifest_type: "AzBlob",
    comment: "the blobs of a container of Azure Blob Storage",
    keys: &[
        "account",
        "container",
        "prefix",
        "endpoint",
        "instanceIdentity",
        "paths",
        "excludePaths",
    ],
    released_names: &[],
    parse: |fields| AzblobSpec::parse(fields).map(SourceSpec::Azblob),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AzblobSpec {
    pub account: String,
    pub container: String,
    /// An `http://` or `https://` URL without credentials in it, and without the container.
    pub endpoint: String,
    /// Requests are made with the rights of the machine that the server runs on.
    pub instance_identity: bool,
    pub objects: ObjectSelection,
}

impl AzblobSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let account = account(fields);
        let schemes = ["az", "azure", "abfs", "abfss"];
        let container = objects::bucket_name(fields, "container", &schemes);
        let endpoint = objects::endpoint(fields, None, "Write https://host.");
        let instance_identity = objects::instance_identity(fields);
        let objects = ObjectSelection::parse(fields);
        let (account, container) = (account?, container?);
        let public = || format!("https://{account}.blob.core.windows.net");
        Some(Self {
            endpoint: endpoint.unwrap_or_else(public),
            account,
            container,
            instance_identity,
            objects,
        })
    }

    /// Returns the URL of the container, without a slash at its end.
    pub fn container_url(&self) -> String {
        format!("{}/{}", self.endpoint, self.container)
    }
}

fn account(fields: &Fields<'_>) -> Option<String> {
    const KEY: &str = "account";
    let text = fields.required_text(KEY)?;
    let is_account = (3..=24).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_account {
        let hint = "Write the name alone: 3 to 24 letters in lower case and digits. The address \
                    of another cloud belongs into \"endpoint\".";
        let problem = format!("\"{text}\" is not the name of a storage account");
        fields.problem_with(KEY, problem, hint);
        return None;
    }
    Some(text.to_owned())
}

impl BucketSpec for AzblobSpec {
    const KIND: &'static SourceKind = &KIND;
    const NAME_KEY: &'static str = "container";

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

    use super::*;
    use crate::source::tests::refuses;

    #[test]
    fn a_container_is_below_its_account_or_endpoint() {
        for (endpoint, expected) in [
            (None, "https://company.blob.core.windows.net/docs"),
            (
                Some("http://127.0.0.1:10000/company/"),
                "http://127.0.0.1:10000/company/docs",
            ),
        ] {
            let spec = json!({"account": "company", "container": "docs", "endpoint": endpoint});
            let Ok(SourceSpec::Azblob(spec)) = SourceSpec::parse("azblob", &spec) else {
                panic!("a valid spec")
            };
            assert_eq!(spec.container_url(), expected);
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (account, container, expected) in [
            (
                "https://company.blob.core.windows.net",
                "docs",
                "spec.account: \"https://company.blob.core.windows.net\" is not the name of a \
                 storage account",
            ),
            (
                "company",
                "az://docs/guides",
                "spec.container: must be a name, not an address",
            ),
            (
                "company",
                "docs/guides",
                "spec.container: \"docs/guides\" is not the name of a container",
            ),
        ] {
            let spec = json!({"account": account, "container": container});
            refuses("azblob", spec, expected);
        }
    }
}
