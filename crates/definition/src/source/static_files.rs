//! `static`: a list of single files of the web and of the database server.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    Endpoint, KindSpec, RequiredRight, ServerPath, SourceKind, SourceSpec, WebAddress,
    endpoint::read_endpoint, server_of,
};
use crate::{FieldProblem, Fields};

pub(super) const KIND: SourceKind = SourceKind {
    name: "static",
    manifest_type: "Static",
    comment: "a list of files of the web and of the database server",
    keys: &["endpoints"],
    released_names: &[("urls", "endpoints")],
    parse: |fields| StaticSpec::parse(fields).map(SourceSpec::Static),
};

const MAX_ENDPOINTS: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticSpec {
    /// At least one, none twice.
    pub endpoints: Vec<Endpoint>,
}

impl StaticSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        const KEY: &str = "endpoints";
        let texts = fields.texts(KEY).unwrap_or_default();
        if texts.is_empty() && fields.problems().is_empty() {
            fields.problem_with(
                KEY,
                "must name at least one file",
                "Write an array of https://, http:// and file:/// URLs.",
            );
        }
        if texts.len() > MAX_ENDPOINTS {
            let problem = format!("must have at most {MAX_ENDPOINTS} elements");
            fields.problem(KEY, problem);
            return None;
        }
        let mut seen = HashSet::new();
        let mut endpoints = vec![];
        for (i, text) in texts.iter().enumerate() {
            let field = format!("{KEY}[{i}]");
            let Some(endpoint) = read_endpoint(fields, &field, text) else {
                continue;
            };
            if seen.insert(endpoint.normalized()) {
                endpoints.push(endpoint);
            } else {
                fields.problem(field, "is a duplicate");
            }
        }
        Some(Self { endpoints })
    }

    fn first_file(&self) -> Option<usize> {
        self.endpoints
            .iter()
            .position(|endpoint| !endpoint.is_web())
    }
}

impl KindSpec for StaticSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        match self.first_file() {
            Some(i) => format!("endpoints[{i}]"),
            None => "endpoints".into(),
        }
    }

    fn required_right(&self) -> RequiredRight<'_> {
        Endpoint::required_right(&self.endpoints)
    }

    fn uses_network(&self) -> bool {
        self.endpoints.iter().any(Endpoint::is_web)
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        server_of(&self.endpoints)
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        let endpoints = self.endpoints.iter().enumerate();
        endpoints
            .filter_map(|(i, endpoint)| endpoint.web_address(|| format!("spec.endpoints[{i}]")))
            .collect()
    }

    fn server_paths(&self) -> Vec<ServerPath<'_>> {
        let paths = self.endpoints.iter().enumerate();
        paths
            .filter_map(|(i, endpoint)| endpoint.server_path(|| format!("spec.endpoints[{i}]")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::source::{Endpoint, SourceSpec, tests::refuses};

    #[test]
    fn endpoints_are_on_the_web_or_on_the_server() {
        let spec =
            json!({"endpoints": ["https://example.org/a.md", "file:///srv/a%20b.md", "/srv/c.md"]});
        let Ok(SourceSpec::Static(spec)) = SourceSpec::parse("static", &spec) else {
            panic!("a valid spec")
        };
        let files = ["/srv/a b.md", "/srv/c.md"].map(|path| Endpoint::File(path.into()));
        assert_eq!(
            spec.endpoints[0],
            Endpoint::Web("https://example.org/a.md".into())
        );
        assert_eq!(spec.endpoints[1..], files);
    }

    #[test]
    fn wrong_endpoints_are_refused() {
        for (endpoints, expected) in [
            (
                &["/srv/../a.md"][..],
                "spec.endpoints[0]: must not contain \"..\"",
            ),
            (
                &["https://example.org/a", "HTTPS://example.org:443/a#b"],
                "spec.endpoints[1]: is a duplicate",
            ),
            (
                &["https://u:p@example.org/a"],
                "spec.endpoints[0]: must not contain credentials",
            ),
            (&[], "spec.endpoints: must name at least one file"),
        ] {
            refuses("static", json!({ "endpoints": endpoints }), expected);
        }
        refuses(
            "static",
            json!({}),
            "spec.endpoints: must name at least one file",
        );
    }

    #[test]
    fn credentials_are_for_one_server() {
        let check = |endpoints: &[&str]| {
            SourceSpec::parse("static", &json!({ "endpoints": endpoints }))
                .unwrap()
                .credentials_server()
        };
        let same = [
            "https://a.example/1",
            "https://A.example:443/2",
            "/srv/a.md",
        ];
        assert!(check(&same).is_ok());
        for other in [
            "https://b.example/2",
            "http://a.example/2",
            "https://a.example:8443/2",
        ] {
            let problem = check(&["https://a.example/1", other]).unwrap_err();
            assert_eq!(
                problem.hint.as_deref(),
                Some("Create one source for each server.")
            );
        }
    }
}
