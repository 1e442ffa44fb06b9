//! Manifests: sources and retrievers in YAML or JSON, in the format of the upstream proposals.
//!
//! ```text
//! text ── lines, tabs ──▶ documents ── YAML or JSON ──▶ values ── kinds, fields ──▶ manifests
//!         text.rs                      value.rs                   autoindexer.rs, retriever.rs
//! ```
//!
//! [`parse`] reports the problems of all documents at once, each with the path of its field. The
//! caller checks what needs the database (does the retriever exist, has the secret this key) and
//! the schedules.
//!
//! This runs inside a backend, on its stack. So everything that the input can make large is
//! limited: bytes, documents, nesting, expanded aliases, reported problems.

mod autoindexer;
mod duration;
mod list;
mod metadata;
mod retriever;
mod text;
mod value;

use std::{cell::LazyCell, collections::HashMap};

use rag_definition::{
    FieldProblem, Fields, Problems,
    fields::{shown, wrong_type},
    spelling::did_you_mean,
};
use serde_json::{Map, Value};

pub use self::{autoindexer::AutoIndexer, metadata::Metadata, retriever::Retriever};
use self::{
    text::DocumentText,
    value::{Budget, SyntaxError},
};

/// Maximum size of a text, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum number of documents in a text.
pub const MAX_DOCUMENTS: usize = 1_000;
/// Maximum number of problems that are reported.
const MAX_PROBLEMS: usize = 1_000;
/// Longer messages of a parser are truncated, in characters.
const MAX_MESSAGE: usize = 300;

/// One document.
#[allow(clippy::large_enum_variant)] // few values, which live for one statement
#[derive(Debug, Clone, PartialEq)]
pub enum Manifest {
    AutoIndexer(AutoIndexer),
    Retriever(Retriever),
}

/// What became of a document that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyAction {
    Created,
    Configured,
    Unchanged,
}

impl ApplyAction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// A kind of manifest.
struct ManifestKind {
    name: &'static str,
    /// The prefixes of an accepted `apiVersion`.
    groups: &'static [&'static str],
    /// The `apiVersion` that is written in manifests.
    version: &'static str,
}

const KINDS: [ManifestKind; 2] = [
    ManifestKind {
        name: "AutoIndexer",
        groups: &["kaito.ai/", "autoindexer.kaito.sh/", "rag/"],
        version: "kaito.ai/v1alpha1",
    },
    ManifestKind {
        name: "Retriever",
        groups: &["agent.wecode.io/", "rag/"],
        version: "agent.wecode.io/v1",
    },
];
const DOCUMENT: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

impl Manifest {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AutoIndexer(_) => "AutoIndexer",
            Self::Retriever(_) => "Retriever",
        }
    }

    /// Returns `name` in the namespace `default`, otherwise `namespace/name`.
    pub fn name(&self) -> &str {
        match self {
            Self::AutoIndexer(source) => &source.metadata.name,
            Self::Retriever(retriever) => &retriever.metadata.name,
        }
    }

    pub fn to_json(&self) -> Value {
        match self {
            Self::AutoIndexer(source) => source.to_json(),
            Self::Retriever(retriever) => retriever.to_json(),
        }
    }
}

/// Parses the documents of a text, in order. Documents without content are ignored.
///
/// # Errors
/// Every problem found in all documents; never empty. A field is its path in the document
/// (`spec.dataSource.git.branch`), or `manifest` for the whole document. In a text of several
/// documents it begins with `document 2: `, or is `document 2`.
pub fn parse(text: &str) -> Result<Vec<Manifest>, Vec<FieldProblem>> {
    let whole = |problem: String| Err(vec![FieldProblem::new("manifest", problem)]);
    if text.len() > MAX_BYTES {
        return whole(format!(
            "has {} bytes, more than the limit of {MAX_BYTES} bytes",
            text.len()
        ));
    }
    let plain = text::with_plain_lines(text);
    let spaced = text::with_spaces(&plain);
    let documents = text::documents(&spaced);
    match documents.len() {
        0 => return whole("contains no document".into()),
        1..=MAX_DOCUMENTS => {}
        many => {
            return whole(format!(
                "has {many} documents, more than the limit of {MAX_DOCUMENTS}"
            ));
        }
    }
    let several = documents.len() > 1;
    let mut budget = Budget::new();
    let lines = LazyCell::new(|| Lines {
        plain: plain.split('\n').collect(),
        spaced: spaced.split('\n').collect(),
    });
    let mut manifests = vec![];
    let mut problems = vec![];
    let mut first_of_name = HashMap::new();
    let mut has_empty_list = false;
    for (number, document) in (1..).zip(&documents) {
        let place = if several {
            format!("document {number}")
        } else {
            String::new()
        };
        let values = match value::parse(document, &mut budget) {
            Ok(value) => list::items(value, place),
            Err(error) => {
                let message = syntax_problem(error, document, &lines);
                vec![(place, Err(FieldProblem::new("", message)))]
            }
        };
        has_empty_list |= values.is_empty();
        for (place, value) in values {
            let found = match value.map_err(|problem| vec![problem]).and_then(manifest) {
                Ok(None) => continue,
                Ok(Some(manifest)) => {
                    let name = (manifest.kind(), manifest.name().to_owned());
                    manifests.push(manifest);
                    let first: &String = first_of_name.entry(name).or_insert_with(|| place.clone());
                    if *first == place {
                        continue;
                    }
                    let problem = FieldProblem::new(
                        "metadata.name",
                        format!("is the same as in {first}, of the same kind"),
                    );
                    vec![problem.hint("Remove one of the two documents.")]
                }
                Err(found) => found,
            };
            problems.extend(found.into_iter().map(|problem| {
                let field = match (place.as_str(), problem.field.as_str()) {
                    ("", "") => "manifest".to_owned(),
                    ("", _) => problem.field,
                    (_, "") => place.clone(),
                    (_, field) => format!("{place}: {field}"),
                };
                FieldProblem { field, ..problem }
            }));
        }
    }
    if manifests.len() > MAX_DOCUMENTS {
        return whole(format!(
            "has {} documents, more than the limit of {MAX_DOCUMENTS}",
            manifests.len()
        ));
    }
    if problems.len() > MAX_PROBLEMS {
        let more = problems.len() - MAX_PROBLEMS;
        problems.truncate(MAX_PROBLEMS);
        problems.push(FieldProblem::new(
            "manifest",
            format!("has {more} more problems"),
        ));
    }
    match (problems.is_empty(), manifests.is_empty() && !has_empty_list) {
        (true, false) => Ok(manifests),
        (true, true) => whole("contains no document".into()),
        (false, _) => Err(problems),
    }
}

/// The lines of a text, as the user wrote it and as the parser reads it.
struct Lines<'a> {
    plain: Vec<&'a str>,
    spaced: Vec<&'a str>,
}

/// Returns the message of a parser with the position in the whole text.
fn syntax_problem(error: SyntaxError, document: &DocumentText<'_>, lines: &Lines<'_>) -> String {
    let mut message = error
        .message
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('\0', "\u{FFFD}");
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
        message.truncate(end);
    }
    let Some((line, column)) = error.place else {
        return message;
    };
    let line = document.line + line;
    let of = |lines: &[&str]| {
        lines
            .get(line - 1)
            .map_or_else(String::new, |line| (*line).to_owned())
    };
    let column = text::original_column(&of(&lines.plain), &of(&lines.spaced), column);
    format!("line {line}, column {column}: {message}")
}

/// Reads a document. Returns `None` if it is `null`.
fn manifest(value: Value) -> Result<Option<Manifest>, Vec<FieldProblem>> {
    let problems = Problems::default();
    let manifest = match value {
        Value::Null => return Ok(None),
        Value::Object(map) => read(&map, &problems),
        other => {
            let problem = FieldProblem::new("", wrong_type("an object", &other));
            problems.push(problem.hint(format!("Fields: {}.", DOCUMENT.join(", "))));
            None
        }
    };
    if problems.is_empty() {
        Ok(manifest)
    } else {
        Err(problems.into_vec())
    }
}

fn read(map: &Map<String, Value>, problems: &Problems) -> Option<Manifest> {
    let known = match map.get("kind") {
        Some(Value::String(given)) => {
            let known = KINDS.iter().find(|kind| kind.name == given);
            if known.is_none() {
                // Its other fields may be valid in a manifest of that kind.
                let problem = FieldProblem::new(
                    "kind",
                    format!("\"{}\" is not a kind of manifest", shown(given)),
                );
                problems.push(problem.hint(did_you_mean(
                    given,
                    &KINDS.map(|kind| kind.name),
                    "Kinds",
                )));
                return None;
            }
            known
        }
        _ => None,
    };
    let document = Fields::new("", map, &DOCUMENT, problems);
    check_version(&document, known);
    if document.has("kind", Some("Kinds: AutoIndexer, Retriever.")) {
        document.text("kind");
    }
    let metadata = Metadata::read(&document);
    match known?.name {
        "AutoIndexer" => AutoIndexer::read(&document, metadata).map(Manifest::AutoIndexer),
        _ => Retriever::read(&document, metadata).map(Manifest::Retriever),
    }
}

fn check_version(document: &Fields<'_>, kind: Option<&ManifestKind>) {
    const KEY: &str = "apiVersion";
    let hint = KINDS
        .iter()
        .filter(|other| kind.is_none_or(|kind| kind.name == other.name))
        .map(|kind| {
            let groups: Vec<_> = kind
                .groups
                .iter()
                .map(|group| format!("{group}..."))
                .collect();
            format!(
                "Write apiVersion: {} for kind {} (accepted: {}).",
                kind.version,
                kind.name,
                groups.join(", ")
            )
        });
    let hint = hint.collect::<Vec<_>>().join(" ");
    if !document.has(KEY, Some(&hint)) {
        return;
    }
    let (Some(given), Some(kind)) = (document.text(KEY), kind) else {
        return;
    };
    if !kind.groups.iter().any(|group| {
        given
            .strip_prefix(group)
            .is_some_and(|version| !version.is_empty())
    }) {
        document.problem_with(
            KEY,
            format!(
                "\"{}\" is not an API version of {}",
                shown(given),
                kind.name
            ),
            hint,
        );
    }
}
