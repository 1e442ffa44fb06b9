//! Connections of clients: each has a limit of time for the head of a request, and ends gracefully.

use std::time::Duration;

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Serves connections until `stop` is cancelled, and returns when the requests of all have ended.
/// A connection whose client does not send the head of a request within `head` is closed. That is
/// also how long a connection may be idle.
pub async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    head: Duration,
    stop: CancellationToken,
) {
    // A router that is served as it is would be built again for each connection.
    let router = router.with_state(());
    let (all, open) = watch::channel(());
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head)
            .serve_connection(TokioIo::new(stream), service);
        let (open, stop) = (open.clone(), stop.clone());
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!("a connection has ended: {error}");
            }
            drop(open);
        });
    }
    drop((open, listener));
    all.closed().await;
}
