//! What the kinds of object storage share: which objects of a bucket are read, and with whose
//! rights.

use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    KindSpec, PathFilter, RequiredRight, SourceKind, WebAddress, common::path_filter,
    endpoint::CREDENTIALS_HINT,
};
use crate::{FieldProblem, Fields};

/// The limit of a key in all services, in bytes.
const MAX_PREFIX: usize = 1024;
const MAX_NAME: usize = 255;

/// Which objects of a bucket are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectSelection {
    /// Only keys that begin with this are listed. May be empty.
    pub prefix: String,
    /// Selects keys by their part after the prefix's last slash.
    pub filter: PathFilter,
}

impl ObjectSelection {
    pub(super) fn parse(fields: &Fields<'_>) -> Self {
        const KEY: &str = "prefix";
        let prefix = fields.any_text(KEY).unwrap_or_default();
        if let Some(rest) = prefix.strip_prefix('/') {
            let hint = format!("Write \"{rest}\": keys have no slash at their beginning.");
            fields.problem_with(KEY, "must not begin with a slash", hint);
        }
        if prefix.len() > MAX_PREFIX {
            fields.problem(KEY, format!("must have at most {MAX_PREFIX} bytes"));
        }
        Self {
            prefix: prefix.into(),
            filter: path_filter(fields, PathFilter::KEYS),
        }
    }

    /// Returns the part of a key that patterns are compared with.
    pub fn path_of<'k>(&self, key: &'k str) -> &'k str {
        let folder = self.prefix.rfind('/').map_or(0, |slash| slash + 1);
        key.get(folder..).unwrap_or(key)
    }
}

/// Reads the required name of a bucket. `schemes` are those of addresses that people write instead.
pub(super) fn bucket_name(fields: &Fields<'_>, key: &str, schemes: &[&str]) -> Option<String> {
    let text = fields.required_text(key)?;
    let address = schemes
        .iter()
        .find_map(|scheme| text.strip_prefix(&format!("{scheme}://")));
    if let Some(address) = address {
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        let hint = match prefix {
            "" => format!("Write \"{bucket}\"."),
            prefix => format!("Write \"{bucket}\", and \"prefix\": \"{prefix}\"."),
        };
        fields.problem_with(key, "must be a name, not an address", hint);
        return None;
    }
    let is_name = text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_name {
        let hint = "A name has letters, digits, hyphens, underscores and dots. The beginning of \
                    keys belongs into \"prefix\".";
        fields.problem_with(key, format!("\"{text}\" is not the name of a {key}"), hint);
        return None;
    }
    Some(text.to_owned())
}

/// Reads the optional address of a server. `host` is what its name begins with if it has the name
/// of the bucket already, which would then be there twice.
pub(super) fn endpoint(fields: &Fields<'_>, host: Option<&str>, hint: &str) -> Option<String> {
    const KEY: &str = "endpoint";
    fields.get(KEY)?;
    let text = fields.server_url(KEY, hint, CREDENTIALS_HINT)?;
    let url = Url::parse(&text).ok()?;
    let twice = host.zip(url.host_str()).and_then(|(bucket, host)| {
        let rest = host.strip_prefix(&bucket.to_ascii_lowercase())?;
        rest.strip_prefix('.').filter(|rest| rest.contains('.'))
    });
    if let Some(rest) = twice {
        let hint = format!("Write {}://{rest}.", url.scheme());
        fields.problem_with(KEY, "must not begin with the name of the bucket", hint);
        return None;
    }
    Some(text.trim_end_matches('/').to_owned())
}

/// Reads whether requests are made with the rights of the database server's machine.
pub(super) fn instance_identity(fields: &Fields<'_>) -> bool {
    fields.boolean("instanceIdentity").unwrap_or_default()
}

/// The spec of a kind of object storage.
pub(super) trait BucketSpec {
    const KIND: &'static SourceKind;
    /// The key that has the name of the bucket.
    const NAME_KEY: &'static str;

    /// The URL of the server, without the bucket.
    fn endpoint(&self) -> &str;

    fn instance_identity(&self) -> bool;

    fn objects(&self) -> &ObjectSelection;
}

impl<T: BucketSpec> KindSpec for T {
    fn kind(&self) -> &'static SourceKind {
        T::KIND
    }

    fn location_key(&self) -> String {
        T::NAME_KEY.into()
    }

    fn required_right(&self) -> RequiredRight<'_> {
        if self.instance_identity() {
            RequiredRight::InstanceIdentity(self.endpoint())
        } else {
            RequiredRight::None
        }
    }

    fn uses_network(&self) -> bool {
        true
    }

    fn credentials_server(&self) -> Result<Option<Url>, FieldProblem> {
        if self.instance_identity() {
            let problem = "a source with \"instanceIdentity\" takes no credentials";
            let hint =
                "Leave out one of the two. Credentials may be removed with credentials => ''.";
            return Err(FieldProblem::new("credentials", problem).hint(hint));
        }
        Ok(Url::parse(self.endpoint()).ok())
    }

    fn web_addresses(&self) -> Vec<WebAddress<'_>> {
        vec![WebAddress {
            field: "spec.endpoint".into(),
            url: self.endpoint().into(),
        }]
    }

    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        Some((&self.objects().filter, PathFilter::KEYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_compared_with_what_follows_the_folder_of_the_prefix() {
        let selection = |prefix: &str| ObjectSelection {
            prefix: prefix.into(),
            ..ObjectSelection::default()
        };
        for (prefix, path) in [
            ("", "docs/guides/a.md"),
            ("docs/", "guides/a.md"),
            ("docs/gui", "guides/a.md"),
            ("doc", "docs/guides/a.md"),
            ("docs/guides/", "a.md"),
        ] {
            assert_eq!(selection(prefix).path_of("docs/guides/a.md"), path);
        }
    }
}
