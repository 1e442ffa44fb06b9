//! The table of routes, the router, the OpenAPI description and the page of the reference agree.

use std::collections::{BTreeSet, HashMap};

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use tower::ServiceExt;

use crate::{
    app::App,
    config::{Config, Mode},
    openapi, reference, routes, server, settings,
};

fn config() -> Config {
    let command = clap::Command::new("test").args(settings::arguments());
    // nothing listens there: these tests need no database
    let arguments = ["test", "--database", "host=/nonexistent"];
    let matches = command.try_get_matches_from(arguments).expect("arguments");
    let config = Config::read(&matches, &HashMap::new(), Mode::Serve);
    config.unwrap_or_else(|faults| panic!("{faults:?}"))
}

async fn status(method: &str, path: &str) -> StatusCode {
    let app = App::new(config(), ([127, 0, 0, 1], 8088).into()).expect("an app");
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).expect("a request");
    let response = server::router(app).oneshot(request).await;
    response.expect("a response").status()
}

/// Returns a path with values for its fields.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part.strip_prefix('{') {
        Some(_) => "1",
        None => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn every_route_of_the_table_is_routed_and_asks_for_a_key() {
    for route in routes::all() {
        for path in route.paths {
            let method = route.method.http();
            let status = status(method.as_str(), &filled(path)).await;
            let expected: &[u16] = if route.is_open() { &[200, 503] } else { &[401] };
            assert!(
                expected.contains(&status.as_u16()),
                "{method} {path}: {status}"
            );
        }
    }
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let paths: BTreeSet<_> = routes::all().flat_map(|route| route.paths).collect();
    for path in paths {
        for method in methods {
            let is_there = routes::all()
                .any(|route| route.paths.contains(path) && route.method.http() == method);
            if !is_there {
                let status = status(method, &filled(path)).await;
                assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            }
        }
    }
    for path in [
        "/v2/search",
        "/v1/search/x",
        "/v1//search",
        "/%00",
        "/v1/sources/a/b",
    ] {
        assert_eq!(status("POST", path).await, StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn the_openapi_description_has_the_routes_of_the_table() {
    let description = openapi::description("http://localhost");
    let described: BTreeSet<_> = description["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let table: BTreeSet<_> = routes::all()
        .flat_map(|route| {
            let paths = route.paths.iter();
            paths.map(|path| (path.to_string(), route.method.http().to_string()))
        })
        .collect();
    assert_eq!(described, table);
    let mut ids = BTreeSet::new();
    for methods in description["paths"].as_object().expect("paths").values() {
        for operation in methods.as_object().expect("methods").values() {
            let id = operation["operationId"].to_string();
            assert!(ids.insert(id.clone()), "{id} occurs twice");
        }
    }
}

#[test]
fn the_fields_of_each_path_are_in_the_table() {
    for route in routes::all() {
        let named: BTreeSet<_> = route.paths[0]
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let fields: BTreeSet<_> = route
            .fields
            .iter()
            .filter(|field| field.place == routes::Place::Path)
            .map(|field| field.name)
            .collect();
        assert_eq!(named, fields, "{}", route.paths[0]);
    }
}

#[test]
fn functions_have_the_summaries_of_their_routes_as_comments() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sql/api_comments.sql");
    let written = std::fs::read_to_string(path).expect("sql/api_comments.sql");
    let written = written.split_whitespace().collect::<Vec<_>>().join(" ");
    let comments: HashMap<&str, String> = written
        .split("COMMENT ON FUNCTION rag_api.")
        .filter_map(|comment| comment.split_once("(jsonb) IS '"))
        .filter_map(|(name, text)| Some((name, text.split_once("';")?.0.replace("''", "'"))))
        .collect();
    let mut wanted: HashMap<&str, Vec<String>> = HashMap::new();
    for route in routes::all().filter(|route| !route.function.is_empty()) {
        let summary = openapi::plain(route.summary).to_lowercase();
        wanted.entry(route.function).or_default().push(summary);
    }
    for (function, summaries) in wanted {
        let comment = comments.get(function).map(|text| text.to_lowercase());
        assert!(
            comment.is_some_and(|text| summaries.contains(&text)),
            "{function}: {summaries:?}"
        );
    }
}

/// `rag-gateway reference` writes the page.
#[test]
fn the_page_of_the_reference_is_that_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/http.md");
    let written = std::fs::read_to_string(path).expect("docs/reference/http.md");
    assert!(
        written == reference::page(),
        "run: rag-gateway reference >docs/reference/http.md"
    );
}
