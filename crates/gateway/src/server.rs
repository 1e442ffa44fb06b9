//! The router, made from the table of routes, and what happens to each request: limits, identity,
//! input, call, output, log.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body as HttpBody,
    extract::{RawPathParams, Request, State, rejection::RawPathParamsRejection},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodFilter, any, on},
};
use rag_metrics::Format;
use serde_json::{Value, json};

use crate::{
    answer_stream,
    app::App,
    console,
    identity::Identity,
    input, mcp_http, metrics, output,
    problem::{Contract, Problem},
    routes::{self, Output, Route, Verb},
};

/// What a wrong key waits for its answer.
const WRONG_KEY_DELAY: Duration = Duration::from_millis(300);
/// Functions whose times the traffic of searches has.
const SEARCHES: [&str; 7] = [
    "search",
    "context",
    "search_vector_store",
    "dify_retrieval",
    "kaito_retrieve",
    "knowledge_search",
    "knowledge_query",
];
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

type Shared = State<Arc<App>>;

/// Returns the router of all routes.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes::all() {
        for path in route.paths {
            let handler =
                move |State(app): Shared,
                      path: Result<RawPathParams, RawPathParamsRejection>,
                      request: Request| { handle(app, route, path, request) };
            router = router.route(path, on(filter(route.method), handler));
        }
    }
    let mcp = mcp_http::service(&app);
    let handle_mcp = move |State(app): Shared, request: Request| {
        let mcp = mcp.clone();
        async move {
            let id = request_id(&request);
            let began = Instant::now();
            let method = method_name(request.method());
            let (response, who) = mcp_http::handle(&app, &mcp, request, &id).await;
            finish(&app, method, "/mcp", began, &id, who.as_ref(), response)
        }
    };
    router
        .route("/mcp", any(handle_mcp))
        .fallback(|State(app): Shared, request: Request| async move {
            let problem = Problem::new(StatusCode::NOT_FOUND, "there is no such route");
            refuse(app, request, problem).await
        })
        .method_not_allowed_fallback(|State(app): Shared, request: Request| async move {
            let detail = "the route does not have this method";
            let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
            refuse(app, request, problem).await
        })
        .with_state(app)
}

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Put => MethodFilter::PUT,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Delete => MethodFilter::DELETE,
    }
}

/// Returns the name of a method for metrics and logs: a small number of them.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Returns the id that the client gave the request, if it is fit for a log, or a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(REQUEST_ID);
    let given = given.and_then(|id| id.to_str().ok()).filter(|id| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        (1..=100).contains(&id.len()) && id.bytes().all(fits)
    });
    given.map_or_else(random_id, str::to_owned)
}

/// Returns 128 random bits in hexadecimal.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    // without randomness ids may repeat, which only logs would notice
    let _ = getrandom::fill(&mut bytes);
    hex::encode(bytes)
}

async fn refuse(app: Arc<App>, request: Request, problem: Problem) -> Response {
    let id = request_id(&request);
    let response = problem.response(Contract::Problem, &id);
    let method = method_name(request.method());
    input::drain(request.into_body()).await;
    finish(&app, method, "none", Instant::now(), &id, None, response)
}

/// Counts and logs a request. The log has no body, no query and no secret.
fn finish(
    app: &App,
    method: &'static str,
    path: &'static str,
    began: Instant,
    id: &str,
    who: Option<&Identity>,
    mut response: Response,
) -> Response {
    let status = response.status().as_u16();
    app.metrics.request(method, path, status, began);
    tracing::info!(
        method,
        route = path,
        status,
        ms = began.elapsed().as_millis() as u64,
        key = who.map(Identity::name),
        request_id = id,
        "request"
    );
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

struct InFlight<'a>(&'a App);

impl<'a> InFlight<'a> {
    fn new(app: &'a App) -> Self {
        app.metrics.in_flight.fetch_add(1, Relaxed);
        Self(app)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_flight.fetch_sub(1, Relaxed);
    }
}

async fn handle(
    app: Arc<App>,
    route: &'static Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
) -> Response {
    let began = Instant::now();
    let id = request_id(&request);
    let method = method_name(request.method());
    let _in_flight = InFlight::new(&app);
    let mut who = None;
    let outcome = respond(&app, route, path, &mut request, &mut who).await;
    input::drain(std::mem::take(request.body_mut())).await;
    let response = match outcome {
        Ok(response) => response,
        Err(mut problem) => {
            if problem.status == StatusCode::UNAUTHORIZED && problem.sqlstate.is_some() {
                problem = wrong_key(&app, problem).await;
            }
            problem.response(route.contract, &id)
        }
    };
    if SEARCHES.contains(&route.function) && response.status() != StatusCode::UNAUTHORIZED {
        let is_error = !response.status().is_success();
        app.traffic.search(began.elapsed(), is_error);
    }
    finish(
        &app,
        method,
        route.paths[0],
        began,
        &id,
        who.as_ref(),
        response,
    )
}

/// Delays the answer to a key that the database does not know.
pub async fn wrong_key(app: &App, problem: Problem) -> Problem {
    app.metrics.wrong_keys.fetch_add(1, Relaxed);
    tokio::time::sleep(WRONG_KEY_DELAY).await;
    let detail = &problem.detail;
    app.authentication
        .refuse(detail, Some("invalid_token"), 1002)
}

/// Returns who calls, if the limits allow another request.
///
/// # Errors
/// The request has no valid key, or has to wait.
pub fn admit(app: &App, headers: &HeaderMap) -> Result<Identity, Problem> {
    let identity = app.authentication.identify(headers)?;
    if let Some(rate) = &app.rate
        && let Err(seconds) = rate.take(&identity.name())
    {
        app.metrics.limited.fetch_add(1, Relaxed);
        return Err(Problem {
            retry_after: Some(seconds),
            ..Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "the key has used its requests of this minute",
            )
        });
    }
    app.metrics.call(&identity);
    Ok(identity)
}

async fn respond(
    app: &Arc<App>,
    route: &'static Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: &mut Request,
    who: &mut Option<Identity>,
) -> Result<Response, Problem> {
    if route.is_open() {
        if route.output == Output::File {
            let file = console::respond(route.paths[0], request.headers());
            return file.ok_or_else(Problem::internal);
        }
        return system(app, route.output, request.headers()).await;
    }
    let Ok(_permit) = app.permits.try_acquire() else {
        app.metrics.limited.fetch_add(1, Relaxed);
        return Err(Problem {
            retry_after: Some(1),
            ..Problem::unavailable("the gateway has too many requests at a time")
        });
    };
    let identity = admit(app, request.headers())?;
    *who = Some(identity.clone());
    if route.output == Output::Events {
        return events(app, identity).await;
    }
    let path = path.map_err(|_| Problem::bad_request("the path is not in UTF-8"))?;
    let body = std::mem::take(request.body_mut());
    let parts = input::Parts {
        path: path
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        query: request.uri().query().unwrap_or_default().to_string(),
        headers: std::mem::take(request.headers_mut()),
    };
    let read = input::read(route, parts, body, app.config.max_body);
    let input = match tokio::time::timeout(app.config.timeout, read).await {
        Ok(input) => input?,
        Err(_) => {
            let detail = "the body did not arrive in time";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail));
        }
    };
    if answer_stream::is_wanted(route.output, &input) {
        let function = answer_stream::function(route.output);
        let rows = app.database.stream(identity, function, input.to_string());
        return answer_stream::respond(route.output, &input, random_id(), rows).await;
    }
    let text = input.to_string();
    let call = app
        .database
        .call(&identity, route.function, &text, route.reads);
    let answer = call.await?;
    output::respond(route, &input, answer, &app.traffic)
}

async fn events(app: &Arc<App>, identity: Identity) -> Result<Response, Problem> {
    if app.metrics.streams.load(Relaxed) >= app.config.max_streams {
        return Err(Problem::unavailable(
            "the gateway has too many clients of events",
        ));
    }
    let events = app.events.subscribe(identity, app.metrics.clone()).await?;
    Ok(events.into_response())
}

async fn system(app: &App, output: Output, headers: &HeaderMap) -> Result<Response, Problem> {
    match output {
        Output::Health => Ok(json_response(&json!({"status": "Healthy", "detail": null}))),
        Output::Ready => {
            if app.stop.is_cancelled() {
                return Err(Problem::unavailable("the gateway is stopping"));
            }
            app.database.ready().await?;
            Ok(json_response(&json!({"status": "ready"})))
        }
        Output::OpenApi => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            Ok((kind, app.openapi.clone()).into_response())
        }
        Output::ProtectedResource => Ok(json_response(&json!({
            "resource": format!("{}/mcp", app.public_url),
            "authorization_servers": app.config.authorization_servers,
            "bearer_methods_supported": ["header"],
            "resource_name": "rag",
        }))),
        _ => metrics_text(app, headers).await,
    }
}

fn json_response(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

/// Without a key, the metrics of the program. With one, also those that its role can read.
async fn metrics_text(app: &App, headers: &HeaderMap) -> Result<Response, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let format = metrics::format_for(accept);
    let mut text = app.metrics.text(app.database.connections(), format);
    if headers.contains_key(header::AUTHORIZATION) || app.authentication.anonymous.is_some() {
        let identity = app.authentication.identify(headers)?;
        let request = json!({"openmetrics": format == Format::OpenMetrics}).to_string();
        let answer = app
            .database
            .call(&identity, "metrics", &request, false)
            .await?;
        let of_database: Value =
            serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).unwrap_or_default();
        text.push_str(of_database["text"].as_str().unwrap_or_default());
    } else {
        text.push_str(rag_metrics::end(format));
    }
    let kind = [(header::CONTENT_TYPE, format.media_type())];
    Ok((kind, HttpBody::from(text)).into_response())
}
