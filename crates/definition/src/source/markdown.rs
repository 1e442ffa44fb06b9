//! `markdown`: one file of the web or of the database server.

use std::slice;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    Endpoint, KindSpec, RequiredRight, ServerPath, SourceKind, SourceSpec, WebAddress,
    endpoint::read_endpoint, server_of,
};
use crate::{FieldProblem, Fields};

pub(super) const KIND: SourceKind = SourceKind {
    name: "markdown",
    manifest_type: "Markdown",
    comment: "one file of the web or of the database server",
    keys: &["uri"],
    released_names: &[],
    parse: |fields| MarkdownSpec::parse(fields).map(SourceSpec::Markdown),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkdownSpec {
    pub endpoint: Endpoint,
}

impl MarkdownSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let uri = fields.required_text("uri")?;
        let endpoint = read_endpoint(fields, "uri", uri)?;
        Some(Self { endpoint })
    }
}

impl KindSpec for MarkdownSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        "uri".into()
    }

    fn required_right(&self) -> RequiredRight<'_> {
        Endpoint::required_right(slice::from_ref(&self.endpoint))
    }

    fn uses_network(&self) -> bool {
        self.endpoint.is_web()
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        server_of(slice::from_ref(&self.endpoint))
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        let address = self.endpoint.web_address(|| "spec.uri".into());
        address.into_iter().collect()
    }

    fn server_paths(&self) -> Vec<ServerPath<'_>> {
        let path = self.endpoint.server_path(|| "spec.uri".into());
        path.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::source::tests::refuses;

    #[test]
    fn a_uri_is_a_web_address_or_a_path_of_the_server() {
        for (uri, expected) in [
            ("docs/a.md", "spec.uri: is not a URL"),
            (
                "ftp://example.org/a.md",
                "spec.uri: must start with https:// or http://",
            ),
            (
                "file://elsewhere/a.md",
                "spec.uri: is not the URL of a file on this server",
            ),
        ] {
            refuses("markdown", json!({ "uri": uri }), expected);
        }
    }
}
