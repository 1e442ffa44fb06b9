//! `GET /v1/events`: notifications of the channel `rag_events`, for those that may see them.
//!
//! One connection listens while there are clients. Each event is asked for once per identity
//! (`rag_api.event`), whose clients then share the answer. A connection that ends is opened again.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::{Notify, broadcast};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;

use crate::{
    database::Database,
    identity::Identity,
    metrics::{Metrics, lock},
    problem::Problem,
};

/// Events that a slow client may lag behind, before it loses the oldest.
const BACKLOG: usize = 256;
/// Time until a connection that ended is opened again.
const RECONNECT: Duration = Duration::from_secs(2);

type Clients = HashMap<Identity, broadcast::Sender<Arc<str>>>;

pub struct Events {
    database: Arc<Database>,
    clients: Mutex<Clients>,
    wake: Notify,
    stop: CancellationToken,
}

impl Events {
    pub fn start(database: Arc<Database>, stop: CancellationToken) -> Arc<Self> {
        let events = Arc::new(Self {
            database,
            clients: Mutex::default(),
            wake: Notify::new(),
            stop,
        });
        tokio::spawn(events.clone().listen());
        events
    }

    /// Returns the events of an identity.
    ///
    /// # Errors
    /// The role may not call the function.
    pub async fn subscribe(
        self: &Arc<Self>,
        identity: Identity,
        metrics: Arc<Metrics>,
    ) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>> + use<>>, Problem> {
        // it checks the key and the right to call the function
        self.database.call(&identity, "event", "{}", true).await?;
        let receiver = {
            let mut clients = lock(&self.clients);
            let sender = clients
                .entry(identity)
                .or_insert_with(|| broadcast::channel(BACKLOG).0);
            sender.subscribe()
        };
        self.wake.notify_one();
        let guard = Counted::new(metrics);
        let events = stream::unfold((receiver, guard), |(mut receiver, guard)| async move {
            loop {
                match receiver.recv().await {
                    Ok(event) => {
                        let event = Event::default().event("rag_events").data(&*event);
                        return Some((Ok(event), (receiver, guard)));
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        });
        let stopped = self.stop.clone().cancelled_owned();
        let alive = KeepAlive::new().interval(Duration::from_secs(15));
        Ok(Sse::new(events.take_until(stopped)).keep_alive(alive))
    }

    async fn listen(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = self.wake.notified() => {}
            }
            while self.has_clients() {
                tokio::select! {
                    () = self.stop.cancelled() => return,
                    ended = self.read() => if let Err(error) = ended {
                        tracing::warn!("events are interrupted: {error}");
                    }
                }
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }

    fn has_clients(&self) -> bool {
        let mut clients = lock(&self.clients);
        clients.retain(|_, sender| sender.receiver_count() > 0);
        !clients.is_empty()
    }

    /// Reads notifications until the connection ends.
    async fn read(&self) -> Result<(), tokio_postgres::Error> {
        let (client, mut connection) = self.database.connect().await?;
        let messages = stream::poll_fn(move |context| connection.poll_message(context));
        let mut messages = Box::pin(messages);
        let listen = client.batch_execute("LISTEN rag_events");
        let mut listen = Box::pin(listen);
        let mut is_listening = false;
        loop {
            let message = tokio::select! {
                done = &mut listen, if !is_listening => {
                    done?;
                    is_listening = true;
                    continue;
                }
                message = messages.next() => message,
            };
            match message {
                Some(Ok(AsyncMessage::Notification(event))) => self.send(event.payload()).await,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    }

    async fn send(&self, payload: &str) {
        if !self.has_clients() || serde_json::from_str::<serde_json::Value>(payload).is_err() {
            return;
        }
        let clients: Vec<_> = lock(&self.clients)
            .iter()
            .map(|(identity, sender)| (identity.clone(), sender.clone()))
            .collect();
        for (identity, sender) in clients {
            match self.database.call(&identity, "event", payload, true).await {
                Ok(answer) => {
                    if let Some(event) = answer.body {
                        // an error says that its clients have gone
                        let _ = sender.send(event.into());
                    }
                }
                // the key is no longer valid: its streams end
                Err(problem) if problem.status.is_client_error() => {
                    lock(&self.clients).remove(&identity);
                }
                Err(_) => {}
            }
        }
    }
}

/// Counts a client for as long as it is there.
struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics
            .streams
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(metrics)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0
            .streams
            .fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}
