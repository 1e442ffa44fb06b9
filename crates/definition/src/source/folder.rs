//! `folder`: a folder of the database server, with everything below it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    KindSpec, PathFilter, RequiredRight, ServerPath, SourceKind, SourceSpec, common::path_filter,
    endpoint::absolute_path,
};
use crate::Fields;

pub(super) const KIND: SourceKind = SourceKind {
    name: "folder",
    manifest_type: "Folder",
    comment: "the files below a folder of the database server",
    keys: &["path", "paths", "excludePaths"],
    released_names: &[],
    parse: |fields| FolderSpec::parse(fields).map(SourceSpec::Folder),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSpec {
    /// Absolute.
    pub path: PathBuf,
    pub filter: PathFilter,
}

impl FolderSpec {
    fn parse(fields: &Fields<'_>) -> Option<Self> {
        let path = absolute_path(fields, "path");
        let filter = path_filter(fields, PathFilter::KEYS);
        Some(Self {
            path: path?,
            filter,
        })
    }
}

impl KindSpec for FolderSpec {
    fn kind(&self) -> &'static SourceKind {
        &KIND
    }

    fn location_key(&self) -> String {
        "path".into()
    }

    fn required_right(&self) -> RequiredRight<'_> {
        RequiredRight::ServerFiles
    }

    fn uses_network(&self) -> bool {
        false
    }

    fn server_paths(&self) -> Vec<ServerPath<'_>> {
        vec![ServerPath {
            field: "spec.path".into(),
            path: &self.path,
            is_folder: true,
        }]
    }

    fn path_filter(&self) -> Option<(&PathFilter, [&'static str; 2])> {
        Some((&self.filter, PathFilter::KEYS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::source::{
        SourceSpec,
        tests::{messages, refuses},
    };

    #[test]
    fn a_folder_has_a_path_and_patterns() {
        let spec =
            json!({"path": "/srv/docs", "paths": ["*.md", "guides/"], "excludePaths": ["drafts/"]});
        let Ok(SourceSpec::Folder(folder)) = SourceSpec::parse("folder", &spec) else {
            panic!("a valid spec")
        };
        assert_eq!(folder.path.to_str(), Some("/srv/docs"));
        assert_eq!(folder.filter.paths, ["*.md", "guides/"]);
        assert_eq!(folder.filter.exclude_paths, ["drafts/"]);
    }

    #[test]
    fn paths_are_absolute_and_stay_where_they_are() {
        for (path, expected) in [
            ("docs", "spec.path: must be an absolute path"),
            ("/srv/../etc", "spec.path: must not contain \"..\""),
            ("/srv/\0", "spec.path: must not contain a NUL character"),
        ] {
            refuses("folder", json!({ "path": path }), expected);
        }
    }

    #[test]
    fn patterns_are_those_that_a_run_accepts() {
        let spec = json!({
            "path": "/srv",
            "paths": ["*.md", "[z-a]"],
            "excludePaths": ["{a", "docs//api"],
        });
        let messages = messages("folder", spec);
        for (message, expected) in messages.iter().zip([
            "spec.paths[1]: \"[z-a]\" is not a valid pattern: ",
            "spec.excludePaths[0]: \"{a\" is not a valid pattern: ",
            "spec.excludePaths[1]: \"docs//api\" is not a valid pattern: it has two slashes in a \
             row, so no path matches it",
        ]) {
            assert!(message.starts_with(expected), "{message}");
        }
        assert_eq!(messages.len(), 3);
    }
}
