//! What is a valid spec, and what is said of those that are not.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn problems(kind: &str, spec: Value) -> Vec<String> {
    SourceSpec::parse(kind, &spec)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_folder_with_filters() {
    let spec =
        json!({"path": "/srv/docs", "paths": ["*.md", "guides/"], "excludePaths": ["drafts/"]});
    let Ok(SourceSpec::Folder(folder)) = SourceSpec::parse("folder", &spec) else {
        panic!("a valid spec")
    };
    assert_eq!(folder.path, PathBuf::from("/srv/docs"));
    assert_eq!(folder.filter.paths, ["*.md", "guides/"]);
    assert_eq!(folder.filter.exclude_paths, ["drafts/"]);
}

#[test]
fn git_takes_main_where_no_branch_is_named() {
    let Ok(SourceSpec::Git(git)) = SourceSpec::parse(
        "git",
        &json!({"repositoryURL": "https://example.org/a.git"}),
    ) else {
        panic!("a valid spec")
    };
    assert_eq!(git.branch, "main");
    assert_eq!(
        git.repository,
        Repository::Https("https://example.org/a.git".into())
    );
}

#[test]
fn credentials_are_for_servers() {
    for (kind, spec, expected) in [
        (
            "git",
            json!({"repositoryURL": "https://example.org/a.git"}),
            true,
        ),
        ("git", json!({"repositoryURL": "/srv/a.git"}), false),
        ("folder", json!({"path": "/srv"}), false),
        ("markdown", json!({"uri": "/srv/a.md"}), false),
        ("markdown", json!({"uri": "https://example.org/a.md"}), true),
        ("static", json!({"endpoints": ["/srv/a.md"]}), false),
        (
            "static",
            json!({"endpoints": ["/srv/a.md", "https://example.org/a.md"]}),
            true,
        ),
        ("website", json!({"url": "https://example.org"}), true),
    ] {
        assert_eq!(
            SourceSpec::parse(kind, &spec).unwrap().takes_credentials(),
            expected,
            "{spec}"
        );
    }
}

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
fn a_website_is_bounded_where_nothing_is_said() {
    let Ok(SourceSpec::Website(spec)) =
        SourceSpec::parse("website", &json!({"url": "https://example.org"}))
    else {
        panic!("a valid spec")
    };
    assert_eq!(
        (spec.depth, spec.max_pages, spec.delay_ms, spec.same_site),
        (2, 100, 200, SameSite::Host)
    );
    let spec = json!({"url": "https://example.org", "delay": 1.5, "sameSite": "domain", "include": ["/docs/"]});
    let Ok(SourceSpec::Website(spec)) = SourceSpec::parse("website", &spec) else {
        panic!("a valid spec")
    };
    assert_eq!(
        (spec.delay_ms, spec.same_site, spec.filter.paths.as_slice()),
        (1500, SameSite::Domain, &["/docs/".into()][..])
    );
}

#[test]
fn addresses_over_ssh_are_answered_with_those_over_https() {
    for (address, url) in [
        (
            "git@example.org:group/a.git",
            "https://example.org/group/a.git",
        ),
        (
            "ssh://git@example.org:2222/a.git",
            "https://example.org/a.git",
        ),
        (
            "ssh://me:secret@example.org/a.git",
            "https://example.org/a.git",
        ),
    ] {
        let problems = SourceSpec::parse("git", &json!({ "repositoryURL": address })).unwrap_err();
        assert_eq!(problems[0].problem, "must start with https://");
        assert!(
            problems[0]
                .hint
                .as_ref()
                .unwrap()
                .starts_with(&format!("Write {url}. ")),
            "{problems:?}"
        );
    }
    let problems = SourceSpec::parse("git", &json!({ "repositoryURL": "docs/a:b" })).unwrap_err();
    assert!(
        problems[0]
            .hint
            .as_ref()
            .unwrap()
            .starts_with("Write https://host/path")
    );
}

#[test]
fn a_table_in_either_spelling_is_the_same() {
    let camel = json!({"relation": "blog.posts", "idColumn": "id", "contentColumns": ["summary", "body"],
        "titleColumn": "title", "metadataColumns": ["author"], "filter": {"public": true}, "sync": "trigger", "documentType": "html"});
    let snake = json!({"relation": "blog.posts", "id_columns": ["id"], "content_columns": ["summary", "body"],
        "title_column": "title", "metadata_columns": ["author"], "filter": {"public": true}, "sync": "trigger", "document_type": "html"});
    let parsed = SourceSpec::parse("table", &camel).unwrap();
    assert_eq!(SourceSpec::parse("table", &snake).unwrap(), parsed);
    let SourceSpec::Table(table) = &parsed else {
        panic!("a table")
    };
    assert_eq!(table.id_columns, ["id"]);
    assert_eq!(
        SourceSpec::parse("table", &table.to_json()).unwrap(),
        parsed,
        "what is stored is read again"
    );
}

#[test]
fn columns_are_as_many_as_a_table_can_have() {
    let named = |n: usize| (0..n).map(|i| format!("c{i}")).collect::<Vec<_>>();
    for (key, most) in [
        ("idColumns", 1_600),
        ("content_columns", 1_600),
        ("metadataColumns", 50),
        ("metadata_columns", 50),
    ] {
        let parse = |columns: Vec<String>| {
            SourceSpec::parse("table", &json!({"relation": "a", key: columns}))
        };
        assert!(parse(named(most)).is_ok(), "{key}");
        let too_many = format!("spec.{key}: must be at most {most} columns");
        assert_eq!(
            problems("table", json!({"relation": "a", key: named(most + 1)})),
            [&*too_many]
        );
        // not one for each name that is there again, and none of them looked for
        assert_eq!(
            problems("table", json!({"relation": "a", key: vec!["c"; 200_000]})),
            [&*too_many]
        );
        let twice = [named(most - 1), named(1)].concat();
        let expected = format!("spec.{key}[{}]: names \"c0\" a second time", most - 1);
        assert_eq!(
            problems("table", json!({"relation": "a", key: twice})),
            [expected]
        );
    }
}

#[test]
fn patterns_and_urls_are_those_that_a_run_takes() {
    let git = |url: &str| SourceSpec::parse("git", &json!({ "repositoryURL": url }));
    for url in [
        "https://example.org:8443/a.git",
        "https://[2606:4700::1111]/a.git",
        "http://wiki.local/a",
        "https://bücher.example/a",
    ] {
        assert!(git(url).is_ok(), "{url}");
    }
    for url in [
        "https://[::bad/x",
        "https://h:99999/x",
        "https://example.org",
        "https://a b/x",
        "https://h\\x/y",
        "https://h!/x",
        "https:///x?y",
    ] {
        assert!(
            git(url).unwrap_err()[0]
                .problem
                .starts_with("is not the URL of a repository"),
            "{url}"
        );
    }
    let problems = problems(
        "folder",
        json!({"path": "/srv", "paths": ["*.md", "[z-a]"], "excludePaths": ["{a", "docs//api"]}),
    );
    assert!(
        problems[0].starts_with("spec.paths[1]: \"[z-a]\" is not a pattern: "),
        "{problems:?}"
    );
    assert!(
        problems[1].starts_with("spec.excludePaths[0]: \"{a\" is not a pattern: "),
        "{problems:?}"
    );
    let empty = "\"docs//api\" is not a pattern: there is nothing between two of its slashes, so no path matches it";
    assert_eq!(problems[2], format!("spec.excludePaths[1]: {empty}"));
}

#[test]
fn names_of_branches_follow_the_rules_of_git() {
    let parse = |branch: &str| {
        SourceSpec::parse(
            "git",
            &json!({"repositoryURL": "https://example.org/a", "branch": branch}),
        )
    };
    for branch in ["main", "release/2.1", "größe", "a@b", "head"] {
        assert!(parse(branch).is_ok(), "{branch}");
    }
    for branch in [
        "main/",
        "a//b",
        "main.lock",
        "a@{b",
        "HEAD",
        "-a",
        "a..b",
        "a b",
        ".a",
        "a/.b",
        "a.",
        "a~1",
        "a^",
        "a:b",
        "a?",
    ] {
        assert!(parse(branch).is_err(), "{branch}");
    }
}

#[test]
fn credentials_are_for_one_server() {
    let check = |endpoints: &[&str]| {
        SourceSpec::parse("static", &json!({ "endpoints": endpoints }))
            .unwrap()
            .check_credentials()
    };
    assert!(
        check(&[
            "https://a.example/1",
            "https://A.example:443/2",
            "/srv/a.md"
        ])
        .is_ok()
    );
    for other in [
        "https://b.example/2",
        "http://a.example/2",
        "https://a.example:8443/2",
    ] {
        assert_eq!(
            check(&["https://a.example/1", other])
                .unwrap_err()
                .hint
                .unwrap(),
            "Make a source for each server."
        );
    }
}

#[test]
fn all_problems_are_named_at_once() {
    assert_eq!(
        problems(
            "folder",
            json!({"paths": ["*.md", 3], "excludePaths": "x", "pth": "/srv", "colour": 1})
        ),
        [
            "spec.path: is missing",
            "spec.paths[1]: must be a text, not a number",
            "spec.excludePaths: must be an array of texts, not a text",
            "spec.pth: is not a key of kind \"folder\"",
            "spec.colour: is not a key of kind \"folder\"",
        ]
    );
}

#[test]
fn wrong_values_are_refused() {
    for (kind, spec, expected) in [
        (
            "folder",
            json!({"path": "docs"}),
            "spec.path: must be an absolute path",
        ),
        (
            "folder",
            json!({"path": "/srv/../etc"}),
            "spec.path: must not contain \"..\"",
        ),
        (
            "folder",
            json!({"path": "/srv/\u{0}"}),
            "spec.path: must not contain a NUL character",
        ),
        ("folder", json!([]), "spec: must be a JSON object"),
        (
            "git",
            json!({"repositoryURL": "ftp://example.org/a"}),
            "spec.repositoryURL: must start with https://",
        ),
        (
            "git",
            json!({"repositoryURL": "https://example.org/a?b=c"}),
            "spec.repositoryURL: is not the URL of a repository",
        ),
        (
            "git",
            json!({"repositoryURL": "https://u:p@example.org/a"}),
            "spec.repositoryURL: must not contain credentials",
        ),
        (
            "git",
            json!({"repositoryURL": "https://example.org/a", "branch": "--upload-pack=x"}),
            "spec.branch: is not the name of a branch",
        ),
        (
            "git",
            json!({"repositoryURL": "https://example.org/a", "commit": "HEAD"}),
            "spec.commit: must be 7 to 64 hexadecimal digits",
        ),
        (
            "markdown",
            json!({"uri": "docs/a.md"}),
            "spec.uri: is not a URL",
        ),
        (
            "markdown",
            json!({"uri": "ftp://example.org/a.md"}),
            "spec.uri: must start with https:// or http://",
        ),
        (
            "markdown",
            json!({"uri": "file://elsewhere/a.md"}),
            "spec.uri: is not the URL of a file",
        ),
        (
            "static",
            json!({}),
            "spec.endpoints: must name at least one file",
        ),
        (
            "static",
            json!({"endpoints": ["/srv/../a.md"]}),
            "spec.endpoints[0]: must not contain \"..\"",
        ),
        (
            "static",
            json!({"endpoints": ["https://example.org/a", "HTTPS://example.org:443/a#b"]}),
            "spec.endpoints[1]: is there twice",
        ),
        (
            "static",
            json!({"endpoints": ["https://u:p@example.org/a"]}),
            "spec.endpoints[0]: must not contain credentials",
        ),
        (
            "website",
            json!({"url": "example.org"}),
            "spec.url: is not a URL",
        ),
        (
            "website",
            json!({"url": "https://a.example", "depth": -1}),
            "spec.depth: must be an integer from 0 to 100",
        ),
        (
            "website",
            json!({"url": "https://a.example", "maxPages": 0}),
            "spec.maxPages: must be an integer from 1 to 10000",
        ),
        (
            "website",
            json!({"url": "https://a.example", "delay": "1"}),
            "spec.delay: must be a number of seconds from 0 to 60",
        ),
        (
            "website",
            json!({"url": "https://a.example", "sameSite": "world"}),
            "spec.sameSite: must be \"host\" or \"domain\"",
        ),
        (
            "website",
            json!({"url": "https://a.example", "sitemap": 1}),
            "spec.sitemap: must be a boolean, not a number",
        ),
        (
            "table",
            json!({"idColumns": ["id"]}),
            "spec.relation: is missing",
        ),
        (
            "table",
            json!({"relation": "a", "sync": "poll"}),
            "spec.sync: must be \"scan\" or \"trigger\", not \"poll\"",
        ),
        (
            "table",
            json!({"relation": "a", "documentType": "pdf"}),
            "spec.documentType: \"pdf\" is not a type of text",
        ),
        (
            "table",
            json!({"relation": "a", "idColumns": ["id"], "id_column": "id"}),
            "spec.id_column: means the same as \"idColumns\"",
        ),
        (
            "table",
            json!({"relation": "a", "contentColumns": ["b", "b"]}),
            "spec.contentColumns[1]: names \"b\" a second time",
        ),
        (
            "table",
            json!({"relation": "a", "idColumns": 3}),
            "spec.idColumns: must be an array of texts, not a number",
        ),
        ("ftp", json!({}), "kind: \"ftp\" is not a kind of source"),
    ] {
        assert_eq!(problems(kind, spec), [expected]);
    }
}

proptest! {
    #[test]
    fn any_text_is_answered_without_panic(kind in "folder|git|markdown|static|website|table|.{0,5}", key in "path|uri|url|repositoryURL|branch|.{0,5}", value in ".{0,40}") {
        if let Err(problems) = SourceSpec::parse(&kind, &json!({ key: value })) {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn every_kind_takes_category_and_tags() {
    for (kind, mut spec) in [
        ("folder", json!({"path": "/srv"})),
        ("git", json!({"repositoryURL": "https://example.org/a.git"})),
        ("markdown", json!({"uri": "/srv/a.md"})),
        ("static", json!({"endpoints": ["/srv/a.md"]})),
        ("website", json!({"url": "https://example.org"})),
        ("table", json!({"relation": "t"})),
    ] {
        spec["category"] = "ops".into();
        spec["tags"] = json!(["a", " a ", "b"]);
        assert!(SourceSpec::parse(kind, &spec).is_ok(), "{kind}");
        assert!(keys_of(kind).contains("category, tags"), "{kind}");
        let labels = crate::labels::Labels::of_spec(&spec);
        assert_eq!(labels.category.as_deref(), Some("ops"));
        assert_eq!(labels.tags, Some(vec!["a".to_owned(), "b".to_owned()]));
    }
    let wrong = json!({"path": "/srv", "category": 7, "tags": ["x".repeat(201), ""]});
    let expected = [
        "spec.category: must be a text, not a number",
        "spec.tags[1]: must not be empty",
        "spec.tags: must not have more than 200 characters",
    ];
    assert_eq!(problems("folder", wrong), expected);
}
