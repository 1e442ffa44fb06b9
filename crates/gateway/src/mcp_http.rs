//! MCP over streamable HTTP, without sessions: each POST is a request of its own, with its own key.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};

use crate::{
    app::App,
    identity::Identity,
    input,
    mcp::McpServer,
    problem::{Contract, Problem},
    server,
};

pub type McpService = Arc<StreamableHttpService<McpServer, NeverSessionManager>>;

/// Returns the service of all requests.
pub fn service(app: &Arc<App>) -> McpService {
    let database = app.database.clone();
    let mut config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(app.config.max_body)
        .with_cancellation_token(app.stop.child_token());
    // A key is required, which a web page of another host does not have. Without one, a page could
    // reach a gateway on the machine of its reader by a name that resolves to it.
    if app.authentication.anonymous.is_none() {
        config = config.disable_allowed_hosts();
    } else {
        config.allowed_hosts.push(host(&app.public_url));
    }
    let mut origins = app.config.allowed_origins.clone();
    origins.push(app.public_url.clone());
    config = config.with_allowed_origins(origins);
    Arc::new(StreamableHttpService::new(
        move || {
            Ok(McpServer {
                database: database.clone(),
                session: None,
            })
        },
        Arc::new(NeverSessionManager::default()),
        config,
    ))
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_string()
}

/// Answers a request. Its key is checked before the protocol sees it.
pub async fn handle(
    app: &App,
    service: &McpService,
    mut request: Request,
    id: &str,
) -> (Response, Option<Identity>) {
    let identity = match identify(app, request.headers()).await {
        Ok(identity) => identity,
        Err(problem) => {
            input::drain(request.into_body()).await;
            return (problem.response(Contract::Problem, id), None);
        }
    };
    request.extensions_mut().insert(identity.clone());
    let response = service.handle(request).await.map(Body::new);
    (response, Some(identity))
}

async fn identify(app: &App, headers: &HeaderMap) -> Result<Identity, Problem> {
    let identity = server::admit(app, headers)?;
    let checked = app.database.call(&identity, "mcp_tools", "{}", true).await;
    match checked {
        Ok(_) => Ok(identity),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            Err(server::wrong_key(app, problem).await)
        }
        Err(problem) if problem.status == StatusCode::FORBIDDEN => {
            let refused =
                app.authentication
                    .refuse(&problem.detail, Some("insufficient_scope"), 403);
            Err(Problem {
                status: StatusCode::FORBIDDEN,
                ..refused
            })
        }
        Err(problem) => Err(problem),
    }
}
