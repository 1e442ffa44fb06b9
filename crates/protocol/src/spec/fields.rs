//! Reading the fields of a spec one by one.

use std::{
    collections::HashSet,
    path::{Component, PathBuf},
};

use serde_json::{Map, Value};
use url::{Host, Url};

use super::{
    DELAY_MS, Endpoint, MAX_COLUMNS, MAX_DELAY_SECONDS, MAX_ENDPOINTS, MAX_METADATA_COLUMNS,
    PathFilter, Problem, Repository, SameSite, TableSpec, TableSync, keys_of, pattern,
};
use crate::{
    ingest::DocumentType,
    labels::{Labels, MAX_CHARS},
};

/// Takes the fields out of an object one by one and remembers what was wrong and what was never
/// asked for.
pub(super) struct Fields<'a> {
    pub(super) object: &'a Map<String, Value>,
    pub(super) problems: Vec<Problem>,
    pub(super) used: Vec<&'static str>,
}

impl Fields<'_> {
    pub(super) fn problem(
        &mut self,
        field: impl std::fmt::Display,
        problem: impl Into<String>,
    ) -> &mut Problem {
        self.problems
            .push(Problem::new(format!("spec.{field}"), problem));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    /// An optional text; `null` counts as absent.
    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        self.used.push(key);
        match self.object.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(s)) if s.is_empty() => {
                self.problem(key, "must not be empty");
                None
            }
            Some(Value::String(s)) if s.contains('\0') => {
                self.problem(key, "must not contain a NUL character");
                None
            }
            Some(Value::String(s)) => Some(s.clone()),
            Some(other) => {
                let problem = format!("must be a text, not {}", type_of(other));
                self.problem(key, problem).hint = as_text(other);
                None
            }
        }
    }

    pub(super) fn required(&mut self, key: &'static str) -> Option<String> {
        let absent = matches!(self.object.get(key), None | Some(Value::Null));
        let value = self.string(key);
        if absent {
            self.problem(key, "is missing");
        }
        value
    }

    pub(super) fn strings(&mut self, key: &'static str) -> Vec<String> {
        self.used.push(key);
        let items = match self.object.get(key) {
            None | Some(Value::Null) => return vec![],
            Some(Value::Array(items)) => items,
            Some(other) => {
                let problem = format!("must be an array of texts, not {}", type_of(other));
                let text = if other.is_string() {
                    Some(other.to_string())
                } else {
                    text_of(other)
                };
                self.problem(key, problem).hint = text.map(|text| format!("Write [{text}]."));
                return vec![];
            }
        };
        let mut strings = vec![];
        for (i, item) in items.iter().enumerate() {
            match item {
                Value::String(s) if !s.trim().is_empty() => strings.push(s.clone()),
                Value::String(_) => {
                    self.problem(format!("{key}[{i}]"), "must not be empty");
                }
                other => {
                    let problem = format!("must be a text, not {}", type_of(other));
                    self.problem(format!("{key}[{i}]"), problem).hint = as_text(other);
                }
            }
        }
        strings
    }

    /// Checks category and tags of all documents.
    pub(super) fn labels(&mut self) {
        let (category, tags) = (self.string("category"), self.strings("tags"));
        if let Err(field) = Labels::new(category.as_deref(), Some(&tags)) {
            self.problem(
                field,
                format!("must not have more than {MAX_CHARS} characters"),
            );
        }
    }

    pub(super) fn filter(&mut self) -> PathFilter {
        PathFilter {
            paths: self.patterns("paths"),
            exclude_paths: self.patterns("excludePaths"),
        }
    }

    /// Texts that are patterns of paths. All that are none are named.
    pub(super) fn patterns(&mut self, key: &'static str) -> Vec<String> {
        let patterns = self.strings(key);
        let mut is_each_right = true;
        for (i, pattern) in patterns.iter().enumerate() {
            if let Err(bad) = pattern::compile(std::slice::from_ref(pattern)) {
                is_each_right = false;
                let reason = bad.reason.replace('\0', "\u{FFFD}");
                self.problem(
                    format!("{key}[{i}]"),
                    format!("\"{pattern}\" is not a pattern: {reason}"),
                )
                .hint = Some(pattern::HINT.into());
            }
        }
        if is_each_right && let Err(bad) = pattern::compile(&patterns) {
            self.problem(
                key,
                format!("the patterns together are too much: {}", bad.reason),
            );
        }
        patterns
    }

    pub(super) fn integer(
        &mut self,
        key: &'static str,
        (least, most, default): (u64, u64, u64),
    ) -> u32 {
        self.used.push(key);
        let value = match self.object.get(key) {
            None | Some(Value::Null) => Some(default),
            Some(value) => value
                .as_u64()
                .filter(|value| (least..=most).contains(value)),
        };
        if value.is_none() {
            let problem = format!("must be an integer from {least} to {most}");
            self.problem(key, problem).hint =
                Some(format!("Write a number without quotes, such as {default}."));
        }
        value
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or_default()
    }

    pub(super) fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.used.push(key);
        match self.object.get(key) {
            None | Some(Value::Null) => default,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                let problem = format!("must be a boolean, not {}", type_of(other));
                self.problem(key, problem).hint =
                    Some("Write true or false, without quotes.".into());
                default
            }
        }
    }

    /// Seconds, in milliseconds.
    pub(super) fn delay(&mut self) -> u64 {
        const KEY: &str = "delay";
        self.used.push(KEY);
        match self.object.get(KEY) {
            None | Some(Value::Null) => return DELAY_MS,
            Some(value) => {
                if let Some(seconds) = value
                    .as_f64()
                    .filter(|seconds| (0.0..=MAX_DELAY_SECONDS).contains(seconds))
                {
                    return (seconds * 1000.0).round() as u64;
                }
            }
        }
        self.problem(
            KEY,
            format!("must be a number of seconds from 0 to {MAX_DELAY_SECONDS}"),
        );
        DELAY_MS
    }

    pub(super) fn same_site(&mut self) -> SameSite {
        match self.string("sameSite").as_deref() {
            None | Some("host") => SameSite::Host,
            Some("domain") => SameSite::Domain,
            Some(_) => {
                self.problem("sameSite", "must be \"host\" or \"domain\"");
                SameSite::Host
            }
        }
    }

    /// A path on the server, absolute and without `..`.
    pub(super) fn absolute_path(&mut self, key: &'static str, prefix: &str) -> Option<PathBuf> {
        let text = self.required(key)?;
        self.path(key, text.strip_prefix(prefix).unwrap_or(&text))
    }

    pub(super) fn path(&mut self, field: impl std::fmt::Display, text: &str) -> Option<PathBuf> {
        let path = PathBuf::from(text);
        if !path.is_absolute() {
            self.problem(field, "must be an absolute path").hint =
                Some("The path is on the database server.".into());
            return None;
        }
        if path.components().any(|c| c == Component::ParentDir) {
            self.problem(field, "must not contain \"..\"");
            return None;
        }
        Some(path)
    }

    pub(super) fn endpoints(&mut self) -> Option<Vec<Endpoint>> {
        const KEY: &str = "endpoints";
        let texts = self.strings(KEY);
        if texts.is_empty() && self.problems.is_empty() {
            self.problem(KEY, "must name at least one file").hint =
                Some("Write an array of https://, http:// and file:/// URLs.".into());
        }
        if texts.len() > MAX_ENDPOINTS {
            self.problem(
                KEY,
                format!("must not have more than {MAX_ENDPOINTS} elements"),
            );
            return None;
        }
        let mut seen = HashSet::new();
        let mut endpoints = vec![];
        for (i, text) in texts.iter().enumerate() {
            let field = format!("{KEY}[{i}]");
            let Some(endpoint) = self.endpoint(&field, text) else {
                continue;
            };
            let normalized = match &endpoint {
                Endpoint::Web(url) => Url::parse(url).map_or_else(
                    |_| url.clone(),
                    |mut url| {
                        url.set_fragment(None);
                        url.into()
                    },
                ),
                Endpoint::File(path) => path.to_string_lossy().into_owned(),
            };
            if seen.insert(normalized) {
                endpoints.push(endpoint);
            } else {
                self.problem(field, "is there twice");
            }
        }
        Some(endpoints)
    }

    /// A URL of the web, a `file://` URL or a path on the server.
    pub(super) fn endpoint(
        &mut self,
        field: impl std::fmt::Display,
        text: &str,
    ) -> Option<Endpoint> {
        if text.starts_with('/') {
            return self.path(field, text).map(Endpoint::File);
        }
        if text
            .get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
        {
            let Some(path) = Url::parse(text)
                .ok()
                .and_then(|url| url.to_file_path().ok())
            else {
                self.problem(field, "is not the URL of a file").hint =
                    Some("Write file:///path.".into());
                return None;
            };
            return self
                .path(field, &path.to_string_lossy())
                .map(Endpoint::File);
        }
        self.web(field, text).map(|_| Endpoint::Web(text.into()))
    }

    pub(super) fn web(&mut self, field: impl std::fmt::Display, text: &str) -> Option<Url> {
        const HINT: &str = "Write https://host/path, or an absolute path on the database server.";
        let Ok(url) = Url::parse(text) else {
            self.problem(field, "is not a URL").hint = Some(HINT.into());
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") {
            self.problem(field, "must start with https:// or http://")
                .hint = Some(HINT.into());
        } else if !has_sendable_host(&url) {
            self.problem(field, "is not a URL").hint = Some(HINT.into());
        } else if !url.username().is_empty() || url.password().is_some() {
            self.problem(field, "must not contain credentials").hint =
                Some("Make a secret and name it in the source's credentials.".into());
        } else {
            return Some(url);
        }
        None
    }

    pub(super) fn repository(&mut self) -> Option<Repository> {
        const KEY: &str = "repositoryURL";
        const HINT: &str =
            "Write https://host/path, or, as a superuser, an absolute path on the server.";
        let text = self.required(KEY)?;
        let local = text.strip_prefix("file://").unwrap_or(&text);
        if local.starts_with('/') {
            return Some(Repository::Local(local.into()));
        }
        let Some(rest) = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
        else {
            let hint = over_https(&text).map_or_else(
                || HINT.into(),
                |url| format!("Write {url}. For a private repository make a secret of a token that may read it."),
            );
            self.problem(KEY, "must start with https://").hint = Some(hint);
            return None;
        };
        // a URL parser would drop some of these, and take others for slashes
        let has_stray = |text: &str| {
            text.chars()
                .any(|c| c.is_whitespace() || c.is_control() || c == '\\')
        };
        let url = match Url::parse(&text) {
            Ok(url) if !has_stray(&text) => url,
            Ok(_) => {
                self.problem(KEY, "is not the URL of a repository").hint = Some(HINT.into());
                return None;
            }
            Err(error) => {
                self.problem(KEY, format!("is not the URL of a repository: {error}"))
                    .hint = Some(HINT.into());
                return None;
            }
        };
        if !url.username().is_empty()
            || url.password().is_some()
            || rest.split('/').next().is_some_and(|a| a.contains('@'))
        {
            self.problem(KEY, "must not contain credentials").hint =
                Some("Make a secret and name it in the source's credentials.".into());
        } else if url.path() == "/"
            || url.query().is_some()
            || url.fragment().is_some()
            || !has_sendable_host(&url)
        {
            self.problem(KEY, "is not the URL of a repository").hint = Some(HINT.into());
        } else {
            return Some(Repository::Https(text));
        }
        None
    }

    pub(super) fn table(&mut self) -> Option<TableSpec> {
        let relation = self.required("relation");
        let id_columns = self.columns(
            &["idColumns", "idColumn", "id_columns", "id_column"],
            MAX_COLUMNS,
        );
        let content_keys = [
            "contentColumns",
            "contentColumn",
            "content_columns",
            "content_column",
        ];
        let content_columns = self.columns(&content_keys, MAX_COLUMNS);
        let metadata_columns = self.columns(
            &["metadataColumns", "metadata_columns"],
            MAX_METADATA_COLUMNS,
        );
        let title_key = self.one_of(&["titleColumn", "title_column"]);
        let title_column = self.string(title_key);
        self.used.push("filter");
        let filter = self
            .object
            .get("filter")
            .filter(|filter| !filter.is_null())
            .cloned();
        let sync = match self.string("sync").as_deref() {
            None | Some("scan") => TableSync::Scan,
            Some("trigger") => TableSync::Trigger,
            Some(other) => {
                self.problem(
                    "sync",
                    format!("must be \"scan\" or \"trigger\", not \"{other}\""),
                );
                TableSync::Scan
            }
        };
        let type_key = self.one_of(&["documentType", "document_type"]);
        let document_type = match self.string(type_key) {
            None => DocumentType::Markdown,
            Some(name) => {
                let is_text =
                    |t: &DocumentType| !matches!(t, DocumentType::Pdf | DocumentType::Docx);
                DocumentType::parse(&name)
                    .filter(is_text)
                    .unwrap_or_else(|| {
                        let types: Vec<_> = DocumentType::ALL
                            .into_iter()
                            .filter(is_text)
                            .map(DocumentType::name)
                            .collect();
                        self.problem(type_key, format!("\"{name}\" is not a type of text"))
                            .hint = Some(format!("Types: {}.", types.join(", ")));
                        DocumentType::Markdown
                    })
            }
        };
        Some(TableSpec {
            relation: relation?,
            id_columns,
            content_columns,
            title_column,
            metadata_columns,
            filter,
            sync,
            document_type,
        })
    }

    /// Which of several names of the same key is given; the first where none is.
    pub(super) fn one_of(&mut self, keys: &[&'static str]) -> &'static str {
        let given: Vec<_> = keys
            .iter()
            .copied()
            .filter(|key| self.object.contains_key(*key))
            .collect();
        self.used.extend(&given);
        if let [first, second, ..] = given[..] {
            self.problem(second, format!("means the same as \"{first}\""));
        }
        given.first().copied().unwrap_or(keys[0])
    }

    /// Names of at most so many columns, or one name; each once.
    pub(super) fn columns(&mut self, keys: &[&'static str], most: usize) -> Vec<String> {
        let key = self.one_of(keys);
        let columns: Vec<String> = match self.object.get(key) {
            Some(Value::String(_)) => self.string(key).into_iter().collect(),
            _ => self.strings(key),
        };
        if columns.len() > most {
            self.problem(key, format!("must be at most {most} columns"));
            return columns;
        }
        let mut seen = HashSet::new();
        for (i, column) in columns.iter().enumerate() {
            if !seen.insert(column) {
                self.problem(
                    format!("{key}[{i}]"),
                    format!("names \"{column}\" a second time"),
                );
            }
        }
        columns
    }

    pub(super) fn check_git_names(&mut self, branch: Option<&str>, commit: Option<&str>) {
        if let Some(branch) = branch
            && !is_branch_name(branch)
        {
            self.problem("branch", "is not the name of a branch").hint =
                Some("Write the branch's name alone, as \"git branch\" shows it: \"main\", \"release/2.1\".".into());
        }
        if let Some(commit) = commit
            && !((7..=64).contains(&commit.len()) && commit.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            self.problem("commit", "must be 7 to 64 hexadecimal digits");
        }
    }

    pub(super) fn report_extra_keys(&mut self, kind: &str) {
        let extra: Vec<_> = self
            .object
            .keys()
            .filter(|key| !self.used.contains(&key.as_str()))
            .cloned()
            .collect();
        for key in extra {
            self.problem(&key, format!("is not a key of kind \"{kind}\""))
                .hint = Some(format!("Keys: {}.", keys_of(kind)));
        }
    }
}

/// Whether git would create a branch of this name (git-check-ref-format(1), `--branch`).
fn is_branch_name(branch: &str) -> bool {
    let reference = format!("refs/heads/{branch}");
    !branch.starts_with('-')
        && gix_validate::reference::branch_name(reference.as_str().into()).is_ok()
}

/// Whether the HTTP client would send a request to the URL's host. The parser of URLs lets some
/// characters pass that no name has.
fn has_sendable_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => true,
        None => false,
    }
}

/// What is probably meant by the address of a repository over ssh: `git@host:path`,
/// `ssh://git@host:22/path`.
fn over_https(address: &str) -> Option<String> {
    let (authority, path) = match address.strip_prefix("ssh://") {
        Some(rest) => rest.split_once('/')?,
        None => address
            .split_once(':')
            .filter(|(host, path)| host.contains('@') && !path.starts_with('/'))?,
    };
    let host = authority.rsplit('@').next()?.split(':').next()?;
    (!host.is_empty() && !path.is_empty()).then(|| format!("https://{host}/{path}"))
}

/// A number or boolean as the text that was probably meant, in quotes.
fn text_of(value: &Value) -> Option<String> {
    matches!(value, Value::Number(_) | Value::Bool(_)).then(|| format!("\"{value}\""))
}

fn as_text(value: &Value) -> Option<String> {
    text_of(value).map(|text| format!("Write {text}."))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
