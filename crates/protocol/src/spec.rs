//! A source's `spec`: parsed once, at the edge, into a type that cannot be wrong; every problem is
//! named at once.

mod fields;
pub mod pattern;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use self::fields::Fields;
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
    /// An `https://` URL without credentials in it; `http://` for hosts that may be asked although
    /// they are not public.
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
    /// Whether the pages of the site's sitemap belong to it, as if the first page had links to
    /// them.
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

/// The rows of a table or view of the database. What a user leaves out is empty here, and filled in
/// when the source is made: [`TableSpec::to_json`] writes all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// As SQL writes it: `blog.posts`, `"Weird Schema"."Tab.le"`.
    pub relation: String,
    /// What tells one row from every other.
    pub id_columns: Vec<String>,
    pub content_columns: Vec<String>,
    pub title_column: Option<String>,
    pub metadata_columns: Vec<String>,
    /// A metadata filter (see the crate `rag-filter`) whose keys are columns; rows that do not pass
    /// are no documents.
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

/// Most columns that a table of PostgreSQL can have.
const MAX_COLUMNS: usize = 1_600;
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

/// Which paths below a root are wanted, in gitignore's pattern language. No `paths` means all;
/// `excludePaths` wins.
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
    /// Parses what a user gave as `kind` and `spec`. `category` and `tags`, which every kind has,
    /// are checked here and read by [`Labels::of_spec`](crate::labels::Labels::of_spec).
    ///
    /// # Errors
    /// Every problem found, in the order of the fields; never empty.
    pub fn parse(kind: &str, spec: &Value) -> Result<Self, Vec<Problem>> {
        let Value::Object(object) = spec else {
            return Err(vec![
                Problem::new("spec", "must be a JSON object")
                    .hint(format!("Keys: {}.", keys_of(kind))),
            ]);
        };
        let mut fields = Fields {
            object,
            problems: vec![],
            used: vec![],
        };
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
                    Self::Git(GitSpec {
                        repository,
                        branch: branch.unwrap_or_else(|| "main".into()),
                        commit,
                        filter,
                    })
                })
            }
            "markdown" => {
                let uri = fields.required("uri");
                let endpoint = uri.and_then(|uri| fields.endpoint("uri", &uri));
                endpoint.map(|endpoint| Self::Markdown(MarkdownSpec { endpoint }))
            }
            "static" => fields
                .endpoints()
                .map(|endpoints| Self::Static(StaticSpec { endpoints })),
            "website" => {
                let url = fields
                    .required("url")
                    .and_then(|url| fields.web("url", &url).map(|_| url));
                let depth = fields.integer("depth", DEPTH);
                let max_pages = fields.integer("maxPages", PAGES);
                let filter = PathFilter {
                    paths: fields.patterns("include"),
                    exclude_paths: fields.patterns("exclude"),
                };
                let sitemap = fields.boolean("sitemap", true);
                let delay_ms = fields.delay();
                let same_site = fields.same_site();
                url.map(|url| {
                    Self::Website(WebsiteSpec {
                        url,
                        depth,
                        max_pages,
                        filter,
                        sitemap,
                        delay_ms,
                        same_site,
                    })
                })
            }
            "table" => fields.table().map(Self::Table),
            other => {
                let problem = Problem::new("kind", format!("\"{other}\" is not a kind of source"));
                return Err(vec![problem.hint(format!("Kinds: {}.", KINDS.join(", ")))]);
            }
        };
        fields.labels();
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

    /// Credentials are shown to one server. Checks that the source asks no more than one.
    ///
    /// # Errors
    /// The endpoints are on several servers.
    pub fn check_credentials(&self) -> Result<(), Problem> {
        match self {
            Self::Static(list) => server_of(&list.endpoints).map(drop),
            _ => Ok(()),
        }
    }
}

/// The one server that endpoints are on, as the first URL of it; `None` where all are files.
///
/// # Errors
/// They are on several servers, told apart by scheme, host and port.
pub fn server_of(endpoints: &[Endpoint]) -> Result<Option<Url>, Problem> {
    let mut server: Option<Url> = None;
    for endpoint in endpoints {
        let Endpoint::Web(url) = endpoint else {
            continue;
        };
        let url = Url::parse(url)
            .map_err(|_| Problem::new("spec.endpoints", "an endpoint is not a URL"))?;
        match &server {
            Some(first) if first.origin() != url.origin() => {
                let problem = "credentials go to one server, and the endpoints are on several";
                return Err(
                    Problem::new("credentials", problem).hint("Make a source for each server.")
                );
            }
            Some(_) => {}
            None => server = Some(url),
        }
    }
    Ok(server)
}

impl Problem {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            hint: None,
        }
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

/// The keys of a kind's spec, with commas between them.
pub fn keys_of(kind: &str) -> &'static str {
    match kind {
        "folder" => "path, paths, excludePaths, category, tags",
        "git" => "repositoryURL, branch, commit, paths, excludePaths, category, tags",
        "markdown" => "uri, category, tags",
        "static" => "endpoints, category, tags",
        "website" => {
            "url, depth, maxPages, include, exclude, sitemap, delay, sameSite, category, tags"
        }
        "table" => {
            "relation, idColumns, contentColumns, titleColumn, metadataColumns, filter, sync, documentType, category, tags (or id_columns, ...)"
        }
        _ => "depend on the kind",
    }
}
