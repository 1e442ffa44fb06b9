//! What all requests share.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    database::Database,
    events::Events,
    identity::{Authentication, Identity},
    metrics::{Metrics, RateLimit},
    traffic::Traffic,
};

/// Interval between reports of calls to the database.
const REPORT: Duration = Duration::from_secs(5);

pub struct App {
    pub config: Config,
    pub database: Arc<Database>,
    pub authentication: Authentication,
    pub metrics: Arc<Metrics>,
    pub traffic: Traffic,
    pub events: Arc<Events>,
    /// One for each request at a time.
    pub permits: Semaphore,
    pub rate: Option<RateLimit>,
    /// Cancelled when the program is to stop.
    pub stop: CancellationToken,
    pub openapi: String,
    /// The address by which clients know the gateway.
    pub public_url: String,
}

impl App {
    /// # Errors
    /// The certificates of the configuration cannot be read.
    pub fn new(mut config: Config, listening: SocketAddr) -> Result<Arc<Self>, String> {
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let public_url = config
            .public_url
            .clone()
            .unwrap_or_else(|| format!("{scheme}://{listening}"));
        let database = Arc::new(Database::new(&config)?);
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::default());
        let authentication = Authentication {
            anonymous: config.anonymous_role.clone().map(Identity::Role),
            tokens: config.tokens.take(),
            metadata_url: format!("{public_url}/.well-known/oauth-protected-resource"),
        };
        let app = Arc::new(Self {
            events: Events::start(database.clone(), stop.clone()),
            permits: Semaphore::new(config.max_requests),
            rate: config.rate_limit.map(RateLimit::new),
            openapi: crate::openapi::description(&public_url).to_string(),
            public_url,
            database,
            authentication,
            metrics,
            traffic: Traffic::default(),
            stop,
            config,
        });
        tokio::spawn(report_calls(app.clone()));
        Ok(app)
    }
}

async fn report_calls(app: Arc<App>) {
    while !app.stop.is_cancelled() {
        tokio::select! {
            () = tokio::time::sleep(REPORT) => {}
            () = app.stop.cancelled() => {}
        }
        report(&app).await;
    }
}

/// Reports the calls of keys since the last report. What a standby or a locked row does not take
/// waits for the next one.
pub async fn report(app: &App) {
    let mut calls = app.metrics.take_calls();
    if calls.is_empty() {
        return;
    }
    let rows: Vec<_> = calls
        .iter()
        .map(|(id, (number, last))| {
            let seconds = last.duration_since(UNIX_EPOCH).unwrap_or_default();
            json!({"key_id": id, "calls": number, "last_used": seconds.as_secs_f64()})
        })
        .collect();
    match app.database.count_calls(&json!(rows).to_string()).await {
        Ok(counted) => calls.retain(|id, _| !counted.contains(id)),
        Err(problem) => tracing::debug!("calls of keys are not counted yet: {}", problem.detail),
    }
    // a key that was dropped is not counted for ever
    let is_recent = |last: &std::time::SystemTime| {
        last.elapsed()
            .is_ok_and(|age| age < Duration::from_secs(600))
    };
    let kept: HashMap<_, _> = calls
        .into_iter()
        .filter(|(_, (_, last))| is_recent(last))
        .collect();
    app.metrics.put_calls(kept);
}
