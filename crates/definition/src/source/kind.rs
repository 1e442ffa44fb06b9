//! What the file of a kind must provide.

use std::{borrow::Cow, path::Path};

use url::Url;

use super::{PathFilter, SourceSpec};
use crate::{FieldProblem, Fields, spelling::meant};

/// A kind of source, as the registry knows it: the constant `KIND` of the kind's file.
#[derive(Debug)]
pub struct SourceKind {
    /// The value of `kind` in calls, and the field of `dataSource` in manifests.
    pub name: &'static str,
    /// The value of `dataSource.type` in manifests.
    pub manifest_type: &'static str,
    /// What a source of this kind reads: part of a sentence in the comment of `rag.sources.kind`.
    pub comment: &'static str,
    /// The keys of its `spec`, without [`COMMON_KEYS`].
    pub keys: &'static [&'static str],
    /// Keys with other names in KAITO's releases: the name there, and the one in `keys`.
    pub released_names: &'static [(&'static str, &'static str)],
    /// Reads the fields of a spec. Returns `None` if a required one is missing or wrong; `fields`
    /// has all problems.
    pub(super) parse: fn(&Fields<'_>) -> Option<SourceSpec>,
}

/// The keys that the spec of every kind may have.
pub const COMMON_KEYS: [&str; 2] = ["category", "tags"];

impl SourceKind {
    /// Returns all keys of the kind's spec, in the order of the documentation.
    pub fn all_keys(&self) -> Vec<&'static str> {
        [self.keys, &COMMON_KEYS].concat()
    }

    /// Returns the hint for a key that the kind does not have.
    pub fn unknown_key_hint(&self, given: &str) -> String {
        let keys = self.keys_hint();
        let renamed = self.released_names.iter().find(|(name, _)| *name == given);
        match renamed
            .map(|(_, key)| *key)
            .or_else(|| meant(given, &self.all_keys()))
        {
            Some(key) => format!("Did you mean \"{key}\"? {keys}"),
            None => keys,
        }
    }

    /// Returns the hint that lists the keys.
    pub fn keys_hint(&self) -> String {
        format!("Fields: {}.", self.all_keys().join(", "))
    }
}

/// What the spec of a kind tells about a source.
pub trait KindSpec {
    fn kind(&self) -> &'static SourceKind;

    /// Returns the key of the spec that says what is read. A problem with rights is reported there.
    fn location_key(&self) -> String;

    /// Returns the right that the owner of the source needs in order to read it.
    fn required_right(&self) -> RequiredRight<'_>;

    /// Returns true if a run sends requests to servers of the network. Only members of `rag_admin`
    /// may define such a source.
    fn uses_network(&self) -> bool;

    /// Returns a URL of the one server that credentials are sent to, if there is one.
    ///
    /// # Errors
    /// There are several servers.
    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        Ok(None)
    }

    /// Returns what the server asks for.
    fn login(&self) -> Login {
        Login::Password
    }

    /// Returns the addresses that every run requests.
    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        vec![]
    }

    /// Returns the files and folders of the database server that a run reads.
    fn server_paths(&self) -> Vec<ServerPath<'_>> {
        vec![]
    }

    /// Returns the patterns that select documents, with the names of their two keys.
    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        None
    }
}

/// What a server asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A token, or a user name and a password.
    Password,
    /// A private key of ssh.
    PrivateKey,
}

/// A right on what a source reads. It is checked when a source is defined and at the start of each
/// run: rights can be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredRight<'a> {
    /// None beyond those that Postgres checks.
    None,
    /// Reading files of the server (`pg_read_server_files`).
    ServerFiles,
    /// Only superusers may read this; the text completes "permission denied to ...".
    Superuser(&'static str),
    /// The URL is not encrypted: allowed only if `rag.allowed_private_hosts` names its host.
    PlainHttp(&'a str),
    /// Requests to this URL have the rights of the machine that the server runs on: allowed only
    /// with `rag.allow_instance_identity`.
    InstanceIdentity(&'a str),
}

/// A file or folder of the database server that a source reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPath<'a> {
    /// The path of the field: `spec.endpoints[2]`.
    pub field: String,
    pub path: &'a Path,
    pub is_folder: bool,
}

/// An address of the web that a source reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress<'a> {
    /// The path of the field: `spec.endpoints[2]`.
    pub field: String,
    pub url: Cow<'a, str>,
}
