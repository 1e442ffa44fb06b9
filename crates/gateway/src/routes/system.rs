//! Routes of the program itself.

use super::{GET, Output, Route};
use crate::problem::Contract::Problem;

const fn route(
    path: &'static [&'static str],
    output: Output,
    summary: &'static str,
    result: &'static str,
) -> Route {
    Route::new(GET, path, "", &[], summary, result)
        .of("system", Problem)
        .output(output)
}

pub const ROUTES: &[Route] = &[
    route(
        &["/"],
        Output::File,
        "The [console](../guide/console.md), for people",
        "a page in HTML",
    ),
    route(
        &["/console.js"],
        Output::File,
        "The script of the console",
        "JavaScript",
    ),
    route(
        &["/console.css"],
        Output::File,
        "The styles of the console",
        "CSS",
    ),
    route(
        &["/console.svg"],
        Output::File,
        "The icon of the console",
        "an image",
    ),
    route(
        &["/healthz", "/health"],
        Output::Health,
        "Tells that the program runs",
        "`status`: `Healthy`",
    ),
    route(
        &["/readyz"],
        Output::Ready,
        "Tells whether the database answers",
        "`status`: `ready`",
    ),
    route(
        &["/metrics"],
        Output::Metrics,
        "Metrics in Prometheus' text format or OpenMetrics; with a key also those of \
         `rag_metrics_text()`",
        "text",
    ),
    route(
        &["/openapi.json"],
        Output::OpenApi,
        "This description, as OpenAPI 3.1",
        "the description",
    ),
    route(
        &[
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
        ],
        Output::ProtectedResource,
        "Metadata of RFC 9728, for clients of MCP",
        "`resource`, `authorization_servers`, `bearer_methods_supported`",
    ),
    Route::new(
        GET,
        &["/v1/events"],
        "event",
        &[],
        "Sends events of runs and sources as they happen",
        "server-sent events with the payload of [`rag_events`](status.md#events)",
    )
    .of("own", Problem)
    .output(Output::Events),
];
