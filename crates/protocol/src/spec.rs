//! A source's `spec`: parsed once, at the edge, into a type that cannot be wrong; every problem is named at once.

use std::{
    collections::HashSet,
    path::{Component, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use crate::ingest::DocumentType;

/// Where a source's documents come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SourceSpec {
    Folder(FolderSpec),
    Git(GitSpec),
    Markdown(MarkdownSpec),
    Static(StaticSpec),
    Website(WebsiteSpec),
    Table(TableSpec),
}

/// A folder of the server's file system, with everything below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSpec {
    /// Absolute.
    pub path: PathBuf,
    pub filter: PathFilter,
}

/// One branch of a git repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitSpec {
    pub repository: Repository,
    pub branch: String,
    /// Pins the source to one commit (full or abbreviated hex).
    pub commit: Option<String>,
    pub filter: PathFilter,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repository {
    /// An `https://` URL without credentials in it; `http://` for hosts that may be asked although they are not public.
    Https(String),
    /// A path on the server; superusers only.
    Local(PathBuf),
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkdownSpec {
    pub endpoint: Endpoint,
}

/// A list of single files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticSpec {
    /// At least one, none twice.
    pub endpoints: Vec<Endpoint>,
}

/// Where one file is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// An `http://` or `https://` URL without credentials in it, as the user wrote it.
    Web(String),
    /// An absolute path on the server.
    File(PathBuf),
}

impl Endpoint {
    pub fn is_web(&self) -> bool {
        matches!(self, Self::Web(_))
    }
}

/// The pages of a site that can be reached from one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebsiteSpec {
    /// The page to begin with: an `http://` or `https://` URL without credentials in it.
    pub url: String,
    /// Links from the first page to the farthest one; 0 is the first page alone.
    pub depth: u32,
    /// Most pages, 1..=10000.
    pub max_pages: u32,
    /// Which paths of the site are wanted.
    pub filter: PathFilter,
    /// Whether the pages of the site's sitemap belong to it, as if the first page had links to them.
    pub sitemap: bool,
    /// Pause between two requests.
    pub delay_ms: u64,
    pub same_site: SameSite,
}

/// Which hosts belong to a website.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// That of the first page.
    #[default]
    Host,
    /// That of the first page, without a leading `www.`, and the hosts below it.
    Domain,
}

/// The rows of a table or view of the database. What a user leaves out is empty here, and filled in when the source is
/// made: [`TableSpec::to_json`] writes all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// As SQL writes it: `blog.posts`, `"Weird Schema"."Tab.le"`.
    pub relation: String,
    /// What tells one row from every other.
    pub id_columns: Vec<String>,
    pub content_columns: Vec<String>,
    pub title_column: Option<String>,
    pub metadata_columns: Vec<String>,
    /// A metadata filter (see the crate `rag-filter`) whose keys are columns; rows that do not pass are no documents.
    pub filter: Option<Value>,
    pub sync: TableSync,
    /// What the text of a row is.
    pub document_type: DocumentType,
}

/// How a run learns which rows have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableSync {
    /// It reads all rows and compares hashes.
    #[default]
    Scan,
    /// Triggers on the table note the keys.
    Trigger,
}

impl TableSync {
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Trigger => "trigger",
        }
    }
}

/// Most metadata columns: they are the arguments of one function, two each.
const MAX_METADATA_COLUMNS: usize = 50;

impl TableSpec {
    /// The spec as it is stored, in the names of the documentation.
    pub fn to_json(&self) -> Value {
        let mut spec = json!({
            "relation": self.relation,
            "idColumns": self.id_columns,
            "contentColumns": self.content_columns,
            "titleColumn": self.title_column,
            "metadataColumns": self.metadata_columns,
            "sync": self.sync.name(),
            "documentType": self.document_type.name(),
        });
        if let Some(filter) = &self.filter {
            spec["filter"] = filter.clone();
        }
        spec
    }
}

/// Which paths below a root are wanted, in gitignore's pattern language. No `paths` means all; `excludePaths` wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFilter {
    pub paths: Vec<String>,
    #[serde(rename = "excludePaths")]
    pub exclude_paths: Vec<String>,
}

/// One thing wrong with what a user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `kind`, `spec`, or the path of a field: `spec.paths[2]`.
    pub field: String,
    pub problem: String,
    pub hint: Option<String>,
    /// It may be right elsewhere or later, but this version cannot do it.
    pub unsupported: bool,
}

/// The kinds this version can sync.
pub const KINDS: [&str; 6] = ["folder", "git", "markdown", "static", "website", "table"];
/// Most endpoints of a static source.
const MAX_ENDPOINTS: usize = 100_000;
/// Limits of a website, and what holds where nothing is said.
const DEPTH: (u64, u64, u64) = (0, 100, 2);
const PAGES: (u64, u64, u64) = (1, 10_000, 100);
const MAX_DELAY_SECONDS: f64 = 60.0;
const DELAY_MS: u64 = 200;

impl SourceSpec {
    /// Parses what a user gave as `kind` and `spec`.
    ///
    /// # Errors
    /// Every problem found, in the order of the fields; never empty.
    pub fn parse(kind: &str, spec: &Value) -> Result<Self, Vec<Problem>> {
        let Value::Object(object) = spec else {
            return Err(vec![Problem::new("spec", "must be a JSON object").hint(format!("Keys: {}.", keys_of(kind)))]);
        };
        let mut fields = Fields { object, problems: vec![], used: vec![] };
        let parsed = match kind {
            "folder" => {
                let path = fields.absolute_path("path", "");
                let filter = fields.filter();
                path.map(|path| Self::Folder(FolderSpec { path, filter }))
            }
            "git" => {
                let repository = fields.repository();
                let branch = fields.string("branch");
                let commit = fields.string("commit");
                let filter = fields.filter();
                fields.check_git_names(branch.as_deref(), commit.as_deref());
                repository.map(|repository| {
                    Self::Git(GitSpec { repository, branch: branch.unwrap_or_else(|| "main".into()), commit, filter })
                })
            }
            "markdown" => {
                let uri = fields.required("uri");
                let endpoint = uri.and_then(|uri| fields.endpoint("uri", &uri));
                endpoint.map(|endpoint| Self::Markdown(MarkdownSpec { endpoint }))
            }
            "static" => fields.endpoints().map(|endpoints| Self::Static(StaticSpec { endpoints })),
            "website" => {
                let url = fields.required("url").and_then(|url| fields.web("url", &url).map(|_| url));
                let depth = fields.integer("depth", DEPTH);
                let max_pages = fields.integer("maxPages", PAGES);
                let filter = PathFilter { paths: fields.strings("include"), exclude_paths: fields.strings("exclude") };
                let sitemap = fields.boolean("sitemap", true);
                let delay_ms = fields.delay();
                let same_site = fields.same_site();
                url.map(|url| {
                    Self::Website(WebsiteSpec { url, depth, max_pages, filter, sitemap, delay_ms, same_site })
                })
            }
            "table" => fields.table().map(Self::Table),
            other => {
                let problem = Problem::new("kind", format!("\"{other}\" is not a kind of source"));
                return Err(vec![problem.hint(format!("Kinds: {}.", KINDS.join(", ")))]);
            }
        };
        fields.report_extra_keys(kind);
        match parsed {
            Some(spec) if fields.problems.is_empty() => Ok(spec),
            _ => Err(fields.problems),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Folder(_) => "folder",
            Self::Git(_) => "git",
            Self::Markdown(_) => "markdown",
            Self::Static(_) => "static",
            Self::Website(_) => "website",
            Self::Table(_) => "table",
        }
    }

    /// Whether there is a server that could ask for credentials.
    pub fn takes_credentials(&self) -> bool {
        match self {
            Self::Git(git) => match git.repository {
                Repository::Https(_) => true,
                Repository::Local(_) => false,
            },
            Self::Markdown(markdown) => markdown.endpoint.is_web(),
            Self::Static(list) => list.endpoints.iter().any(Endpoint::is_web),
            Self::Website(_) => true,
            Self::Folder(_) | Self::Table(_) => false,
        }
    }
}

impl Problem {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into(), hint: None, unsupported: false }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

fn keys_of(kind: &str) -> &'static str {
    match kind {
        "folder" => "path, paths, excludePaths",
        "git" => "repositoryURL, branch, commit, paths, excludePaths",
        "markdown" => "uri",
        "static" => "endpoints",
        "website" => "url, depth, maxPages, include, exclude, sitemap, delay, sameSite",
        "table" => {
            "relation, idColumns, contentColumns, titleColumn, metadataColumns, filter, sync, documentType (or id_columns, ...)"
        }
        _ => "depend on the kind",
    }
}

/// Takes the fields out of an object one by one and remembers what was wrong and what was never asked for.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    problems: Vec<Problem>,
    used: Vec<&'static str>,
}

impl Fields<'_> {
    fn problem(&mut self, field: impl std::fmt::Display, problem: impl Into<String>) -> &mut Problem {
        self.problems.push(Problem::new(format!("spec.{field}"), problem));
        let last = self.problems.len() - 1;
        &mut self.problems[last]
    }

    /// An optional text; `null` counts as absent.
    fn string(&mut self, key: &'static str) -> Option<String> {
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
                self.problem(key, problem);
                None
            }
        }
    }

    fn required(&mut self, key: &'static str) -> Option<String> {
        let absent = matches!(self.object.get(key), None | Some(Value::Null));
        let value = self.string(key);
        if absent {
            self.problem(key, "is missing");
        }
        value
    }

    fn strings(&mut self, key: &'static str) -> Vec<String> {
        self.used.push(key);
        let items = match self.object.get(key) {
            None | Some(Value::Null) => return vec![],
            Some(Value::Array(items)) => items,
            Some(other) => {
                let problem = format!("must be an array of texts, not {}", type_of(other));
                self.problem(key, problem);
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
                    self.problem(format!("{key}[{i}]"), problem);
                }
            }
        }
        strings
    }

    fn filter(&mut self) -> PathFilter {
        PathFilter { paths: self.strings("paths"), exclude_paths: self.strings("excludePaths") }
    }

    fn integer(&mut self, key: &'static str, (least, most, default): (u64, u64, u64)) -> u32 {
        self.used.push(key);
        let value = match self.object.get(key) {
            None | Some(Value::Null) => Some(default),
            Some(value) => value.as_u64().filter(|value| (least..=most).contains(value)),
        };
        if value.is_none() {
            self.problem(key, format!("must be an integer from {least} to {most}"));
        }
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or_default()
    }

    fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.used.push(key);
        match self.object.get(key) {
            None | Some(Value::Null) => default,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                let problem = format!("must be a boolean, not {}", type_of(other));
                self.problem(key, problem);
                default
            }
        }
    }

    /// Seconds, in milliseconds.
    fn delay(&mut self) -> u64 {
        const KEY: &str = "delay";
        self.used.push(KEY);
        match self.object.get(KEY) {
            None | Some(Value::Null) => return DELAY_MS,
            Some(value) => {
                if let Some(seconds) = value.as_f64().filter(|seconds| (0.0..=MAX_DELAY_SECONDS).contains(seconds)) {
                    return (seconds * 1000.0).round() as u64;
                }
            }
        }
        self.problem(KEY, format!("must be a number of seconds from 0 to {MAX_DELAY_SECONDS}"));
        DELAY_MS
    }

    fn same_site(&mut self) -> SameSite {
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
    fn absolute_path(&mut self, key: &'static str, prefix: &str) -> Option<PathBuf> {
        let text = self.required(key)?;
        self.path(key, text.strip_prefix(prefix).unwrap_or(&text))
    }

    fn path(&mut self, field: impl std::fmt::Display, text: &str) -> Option<PathBuf> {
        let path = PathBuf::from(text);
        if !path.is_absolute() {
            self.problem(field, "must be an absolute path").hint = Some("The path is on the database server.".into());
            return None;
        }
        if path.components().any(|c| c == Component::ParentDir) {
            self.problem(field, "must not contain \"..\"");
            return None;
        }
        Some(path)
    }

    fn endpoints(&mut self) -> Option<Vec<Endpoint>> {
        const KEY: &str = "endpoints";
        let texts = self.strings(KEY);
        if texts.is_empty() && self.problems.is_empty() {
            self.problem(KEY, "must name at least one file").hint =
                Some("Write an array of https://, http:// and file:/// URLs.".into());
        }
        if texts.len() > MAX_ENDPOINTS {
            self.problem(KEY, format!("must not have more than {MAX_ENDPOINTS} elements"));
            return None;
        }
        let mut seen = HashSet::new();
        let mut endpoints = vec![];
        for (i, text) in texts.iter().enumerate() {
            let field = format!("{KEY}[{i}]");
            let Some(endpoint) = self.endpoint(&field, text) else { continue };
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
    fn endpoint(&mut self, field: impl std::fmt::Display, text: &str) -> Option<Endpoint> {
        if text.starts_with('/') {
            return self.path(field, text).map(Endpoint::File);
        }
        if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
            let Some(path) = Url::parse(text).ok().and_then(|url| url.to_file_path().ok()) else {
                self.problem(field, "is not the URL of a file").hint = Some("Write file:///path.".into());
                return None;
            };
            return self.path(field, &path.to_string_lossy()).map(Endpoint::File);
        }
        self.web(field, text).map(|_| Endpoint::Web(text.into()))
    }

    fn web(&mut self, field: impl std::fmt::Display, text: &str) -> Option<Url> {
        const HINT: &str = "Write https://host/path, or an absolute path on the database server.";
        let Ok(url) = Url::parse(text) else {
            self.problem(field, "is not a URL").hint = Some(HINT.into());
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") {
            self.problem(field, "must start with https:// or http://").hint = Some(HINT.into());
        } else if !url.username().is_empty() || url.password().is_some() {
            self.problem(field, "must not contain credentials").hint =
                Some("Make a secret and name it in the source's credentials.".into());
        } else {
            return Some(url);
        }
        None
    }

    fn repository(&mut self) -> Option<Repository> {
        const KEY: &str = "repositoryURL";
        const HINT: &str = "Write https://host/path, or, as a superuser, an absolute path on the server.";
        let text = self.required(KEY)?;
        let local = text.strip_prefix("file://").unwrap_or(&text);
        if local.starts_with('/') {
            return Some(Repository::Local(local.into()));
        }
        let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else {
            let hint = over_https(&text).map_or_else(
                || HINT.into(),
                |url| format!("Write {url}. For a private repository make a secret of a token that may read it."),
            );
            self.problem(KEY, "must start with https://").hint = Some(hint);
            return None;
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            self.problem(KEY, "must not contain credentials").hint =
                Some("Make a secret and name it in the source's credentials.".into());
        } else if authority.is_empty()
            || path.is_empty()
            || text.chars().any(|c| c.is_whitespace() || c.is_control() || "?#\\".contains(c))
        {
            self.problem(KEY, "is not the URL of a repository").hint = Some(HINT.into());
        } else {
            return Some(Repository::Https(text));
        }
        None
    }

    fn table(&mut self) -> Option<TableSpec> {
        let relation = self.required("relation");
        let id_columns = self.columns(&["idColumns", "idColumn", "id_columns", "id_column"]);
        let content_columns = self.columns(&["contentColumns", "contentColumn", "content_columns", "content_column"]);
        let metadata_columns = self.columns(&["metadataColumns", "metadata_columns"]);
        let title_key = self.one_of(&["titleColumn", "title_column"]);
        let title_column = self.string(title_key);
        if metadata_columns.len() > MAX_METADATA_COLUMNS {
            self.problem("metadataColumns", format!("must be at most {MAX_METADATA_COLUMNS} columns"));
        }
        self.used.push("filter");
        let filter = self.object.get("filter").filter(|filter| !filter.is_null()).cloned();
        let sync = match self.string("sync").as_deref() {
            None | Some("scan") => TableSync::Scan,
            Some("trigger") => TableSync::Trigger,
            Some(other) => {
                self.problem("sync", format!("must be \"scan\" or \"trigger\", not \"{other}\""));
                TableSync::Scan
            }
        };
        let type_key = self.one_of(&["documentType", "document_type"]);
        let document_type = match self.string(type_key) {
            None => DocumentType::Markdown,
            Some(name) => {
                let is_text = |t: &DocumentType| !matches!(t, DocumentType::Pdf | DocumentType::Docx);
                DocumentType::parse(&name).filter(is_text).unwrap_or_else(|| {
                    let types: Vec<_> = DocumentType::ALL.into_iter().filter(is_text).map(DocumentType::name).collect();
                    self.problem(type_key, format!("\"{name}\" is not a type of text")).hint =
                        Some(format!("Types: {}.", types.join(", ")));
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
    fn one_of(&mut self, keys: &[&'static str]) -> &'static str {
        let given: Vec<_> = keys.iter().copied().filter(|key| self.object.contains_key(*key)).collect();
        self.used.extend(&given);
        if let [first, second, ..] = given[..] {
            self.problem(second, format!("means the same as \"{first}\""));
        }
        given.first().copied().unwrap_or(keys[0])
    }

    /// Names of columns, or one name; each once.
    fn columns(&mut self, keys: &[&'static str]) -> Vec<String> {
        let key = self.one_of(keys);
        let columns = match self.object.get(key) {
            Some(Value::String(_)) => self.string(key).into_iter().collect(),
            _ => self.strings(key),
        };
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].contains(column) {
                self.problem(format!("{key}[{i}]"), format!("names \"{column}\" a second time"));
            }
        }
        columns
    }

    fn check_git_names(&mut self, branch: Option<&str>, commit: Option<&str>) {
        if let Some(branch) = branch
            && (branch.starts_with('-')
                || branch.contains("..")
                || branch.chars().any(|c| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c)))
        {
            self.problem("branch", "is not the name of a branch");
        }
        if let Some(commit) = commit
            && !((7..=64).contains(&commit.len()) && commit.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            self.problem("commit", "must be 7 to 64 hexadecimal digits");
        }
    }

    fn report_extra_keys(&mut self, kind: &str) {
        let extra: Vec<_> = self.object.keys().filter(|key| !self.used.contains(&key.as_str())).cloned().collect();
        for key in extra {
            self.problem(&key, format!("is not a key of kind \"{kind}\"")).hint =
                Some(format!("Keys: {}.", keys_of(kind)));
        }
    }
}

/// What is probably meant by the address of a repository over ssh: `git@host:path`, `ssh://git@host:22/path`.
fn over_https(address: &str) -> Option<String> {
    let (authority, path) = match address.strip_prefix("ssh://") {
        Some(rest) => rest.split_once('/')?,
        None => address.split_once(':').filter(|(host, path)| host.contains('@') && !path.starts_with('/'))?,
    };
    let host = authority.rsplit('@').next()?.split(':').next()?;
    (!host.is_empty() && !path.is_empty()).then(|| format!("https://{host}/{path}"))
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

#[cfg(test)]
mod tests;
