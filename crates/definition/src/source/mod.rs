//! A source's `spec`: parsed once, at the edge, into a type that cannot be wrong. All problems are
//! reported at once.
//!
//! Each kind of source has a file here with its constant `KIND`, the type of its spec, its parser
//! and its implementation of [`KindSpec`]. The registry ([`source_kinds!`](crate::source_kinds))
//! has one line for each kind. Everything that depends on all kinds is derived from it: the
//! functions of [`SourceSpec`], [`KINDS`], the types of manifests, hints, and the comment of
//! `rag.sources.kind`. To add a kind, add its file here, its reader in the crate `rag-source`, and
//! its line in `registry.rs`.

mod attributes;
mod common;
mod endpoint;
mod kind;
mod objects;
pub mod pattern;
#[macro_use]
mod registry;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

pub use self::{
    attributes::{DriftPolicy, MAX_RETRIES, MAX_TIMEOUT, MIN_TIMEOUT},
    endpoint::{Endpoint, server_of},
    kind::{COMMON_KEYS, KindSpec, Login, RequiredRight, ServerPath, SourceKind, WebAddress},
    objects::ObjectSelection,
};
use crate::{FieldProblem, Fields, Problems, fields::wrong_type};

macro_rules! define_source_spec {
    ($($module:ident::$Spec:ident as $Kind:ident;)+) => {
        $(
            mod $module;
            pub use self::$module::*;
        )+

        /// What a source reads.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum SourceSpec {
            $($Kind($Spec),)+
        }

        /// The kinds of sources, in the order of the registry.
        pub const KINDS: &[&SourceKind] = &[$(&$module::KIND),+];

        impl SourceSpec {
            fn as_kind(&self) -> &dyn KindSpec {
                match self {
                    $(Self::$Kind(spec) => spec,)+
                }
            }
        }
    };
}

source_kinds!(define_source_spec);

impl SourceSpec {
    /// Parses the `kind` and `spec` of a definition. `category` and `tags`, which every kind has,
    /// are checked here and read by [`Labels::of_spec`](crate::labels::Labels::of_spec).
    ///
    /// # Errors
    /// Every problem found, in the order of the fields; never empty.
    pub fn parse(kind: &str, spec: &Value) -> Result<Self, Vec<FieldProblem>> {
        let Some(kind) = kind_named(kind) else {
            let problem = format!("\"{kind}\" is not a kind of source");
            let hint = format!("Kinds: {}.", kind_names().join(", "));
            return Err(vec![FieldProblem::new("kind", problem).hint(hint)]);
        };
        let problems = Problems::default();
        let spec = match spec {
            Value::Object(map) => Self::read(kind, &Fields::with_any("spec", map, &problems)),
            other => {
                let problem = FieldProblem::new("spec", wrong_type("an object", other));
                problems.push(problem.hint(kind.keys_hint()));
                None
            }
        };
        problems.into_result(spec)
    }

    /// Reads the spec of a kind. Returns `None` if there are problems that leave it incomplete.
    pub fn read(kind: &SourceKind, fields: &Fields<'_>) -> Option<Self> {
        fields.report_unknown(&kind.all_keys(), |key| kind.unknown_key_hint(key));
        let spec = (kind.parse)(fields);
        common::check_labels(fields);
        spec
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.as_kind().kind().name
    }

    /// See [`KindSpec::location_key`].
    pub fn location_key(&self) -> String {
        self.as_kind().location_key()
    }

    /// See [`KindSpec::required_right`].
    pub fn required_right(&self) -> RequiredRight<'_> {
        self.as_kind().required_right()
    }

    /// See [`KindSpec::uses_network`].
    pub fn uses_network(&self) -> bool {
        self.as_kind().uses_network()
    }

    /// Returns true if there is a server that could ask for credentials.
    pub fn takes_credentials(&self) -> bool {
        self.uses_network()
    }

    /// See [`KindSpec::credentials_server`].
    ///
    /// # Errors
    /// The source has several servers.
    pub fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        self.as_kind().credentials_server()
    }

    /// See [`KindSpec::login`].
    pub fn login(&self) -> Login {
        self.as_kind().login()
    }

    /// See [`KindSpec::web_addresses`].
    pub fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        self.as_kind().web_addresses()
    }

    /// See [`KindSpec::server_paths`].
    pub fn server_paths(&self) -> Vec<ServerPath<'_>> {
        self.as_kind().server_paths()
    }

    /// See [`KindSpec::path_filter`].
    pub fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        self.as_kind().path_filter()
    }
}

pub fn kind_named(name: &str) -> Option<&'static SourceKind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

pub fn kind_names() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.name).collect()
}

/// Returns the comment of the column `rag.sources.kind`.
pub fn kinds_comment() -> String {
    let kinds: Vec<_> = KINDS
        .iter()
        .map(|kind| format!("{} ({})", kind.name, kind.comment))
        .collect();
    kinds.join(", ")
}

/// Selects paths below a root, in gitignore's pattern language. Without `paths` all are selected;
/// `exclude_paths` takes precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFilter {
    pub paths: Vec<String>,
    #[serde(rename = "excludePaths")]
    pub exclude_paths: Vec<String>,
}

impl PathFilter {
    /// What its fields are called in the specs of folders and repositories.
    pub const KEYS: [&'static str; 2] = ["paths", "excludePaths"];
}
