//! Calls of functions of the schema `rag_api`, each in a transaction of its own with the role of
//! the request.
//!
//! ```text
//! BEGIN
//! SELECT set_config('role', rag_internal.api_key_role(id, secret), true), statement_timeout
//! SELECT rag_api.function(request)
//! COMMIT; RESET ROLE; RESET ALL
//! ```
//!
//! All four are sent at once, so a request is one round trip. A key is checked in the transaction
//! that it is used in, so a dropped key is refused at once. If a statement fails, the next ones
//! fail with it, and COMMIT rolls back. Nothing that a function set for the session stays.

use std::{future::Future, sync::Arc, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use futures_util::{TryStreamExt, future};
use tokio::sync::mpsc;
use tokio_postgres::{Row, Statement, types::ToSql};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{config::Config, identity::Identity, problem::Problem};

const END: &str = "COMMIT; RESET ROLE; RESET ALL";
/// Time that a request waits for a connection.
const WAIT: Duration = Duration::from_secs(5);
/// What a request may take longer than its statement, before its connection is given up.
const GRACE: Duration = Duration::from_secs(2);
/// Rows that wait for a slow client.
const ROWS: usize = 64;

pub struct Database {
    pool: Pool,
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    timeout: Duration,
}

/// The answer of a function.
pub struct Answer {
    /// JSON. None: the function returned NULL.
    pub body: Option<String>,
    /// What it set as `response.status`.
    pub status: Option<u16>,
}

/// A connection of the pool. If it is dropped before [`Lease::done`], the client has gone or the
/// time is up: the statement is cancelled, and the connection closed.
struct Lease {
    object: Option<Object>,
    tls: MakeRustlsConnect,
    is_done: bool,
}

impl Lease {
    fn client(&self) -> Result<&Object, Problem> {
        self.object.as_ref().ok_or_else(Problem::internal)
    }

    fn done(&mut self) {
        self.is_done = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(object) = self.object.take().filter(|_| !self.is_done) else {
            return;
        };
        let (cancel, tls) = (object.cancel_token(), self.tls.clone());
        drop(Object::take(object));
        tokio::spawn(async move {
            if let Err(error) = cancel.cancel_query(tls).await {
                tracing::debug!("a statement could not be cancelled: {error}");
            }
        });
    }
}

impl Database {
    /// # Errors
    /// The certificates that the server's is checked with cannot be read.
    pub fn new(config: &Config) -> Result<Self, String> {
        let tls = MakeRustlsConnect::new(crate::tls::client_config(config.database_ca.as_deref())?);
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(
            config.database.clone(),
            tls.clone(),
            ManagerConfig { recycling_method },
        );
        let pool = Pool::builder(manager)
            .max_size(config.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .recycle_timeout(Some(WAIT))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            pool,
            config: config.database.clone(),
            tls,
            timeout: config.timeout,
        })
    }

    /// Returns the number of connections, and of those in use.
    pub fn connections(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.size.saturating_sub(status.available))
    }

    /// Connects outside of the pool, for notifications.
    pub async fn connect(
        &self,
    ) -> Result<
        (
            tokio_postgres::Client,
            tokio_postgres::Connection<
                tokio_postgres::Socket,
                <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<
                    tokio_postgres::Socket,
                >>::Stream,
            >,
        ),
        tokio_postgres::Error,
    > {
        self.config.connect(self.tls.clone()).await
    }

    async fn lease(&self) -> Result<Lease, Problem> {
        let object = self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(TimeoutType::Wait) => Problem {
                retry_after: Some(1),
                ..Problem::unavailable("all connections to the database are busy")
            },
            PoolError::Backend(error) => {
                tracing::warn!("could not connect to the database: {}", described(&error));
                Problem::unavailable("the database does not answer")
            }
            error => {
                tracing::warn!("could not connect to the database: {error}");
                Problem::unavailable("the database does not answer")
            }
        })?;
        Ok(Lease {
            object: Some(object),
            tls: self.tls.clone(),
            is_done: false,
        })
    }

    /// Runs a future that uses a lease, within the time of a request.
    async fn within<T>(&self, run: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
        let limit = self.timeout + GRACE;
        match tokio::time::timeout(limit, run).await {
            Ok(result) => result,
            Err(_) => Err(Problem::timeout()),
        }
    }

    /// Calls a function with a request in JSON.
    pub async fn call(
        &self,
        identity: &Identity,
        function: &str,
        request: &str,
        reads: bool,
    ) -> Result<Answer, Problem> {
        let mut lease = self.lease().await?;
        let answer = self
            .within(async {
                let client = lease.client()?;
                let statement = format!(
                    "SELECT rag_api.{function}($1::text::jsonb)::text, \
                     pg_catalog.current_setting('response.status', true)"
                );
                let run = client.prepare_cached(&statement).await;
                let run = run.map_err(|error| failed(&error))?;
                let arguments: [&(dyn ToSql + Sync); 1] = [&request];
                self.transaction(client, identity, &run, &arguments, reads)
                    .await
            })
            .await;
        // An error of a statement leaves the connection as it was; one of the connection does not.
        let is_open = lease.client().is_ok_and(|client| !client.is_closed());
        if is_open && !answer.as_ref().is_err_and(is_timeout) {
            lease.done();
        }
        let row = answer?;
        Ok(Answer {
            body: row.get(0),
            status: row
                .get::<_, Option<&str>>(1)
                .and_then(|status| status.parse().ok()),
        })
    }

    async fn transaction(
        &self,
        client: &Object,
        identity: &Identity,
        run: &Statement,
        arguments: &[&(dyn ToSql + Sync)],
        reads: bool,
    ) -> Result<Row, Problem> {
        let enter = Enter::prepare(client, identity, self.timeout).await?;
        let begin = if reads { "BEGIN READ ONLY" } else { "BEGIN" };
        let (begun, entered, ran, ended) = future::join4(
            client.batch_execute(begin),
            enter.run(client),
            client.query_one(run, arguments),
            client.batch_execute(END),
        )
        .await;
        begun.map_err(|error| failed(&error))?;
        entered.map_err(|error| failed(&error))?;
        let row = ran.map_err(|error| failed(&error))?;
        ended.map_err(|error| failed(&error))?;
        Ok(row)
    }

    /// Calls a function that returns a set, and sends its rows as they arrive. The call ends when
    /// the receiver is dropped.
    pub fn stream(
        self: &Arc<Self>,
        identity: Identity,
        function: &'static str,
        request: String,
    ) -> mpsc::Receiver<Result<String, Problem>> {
        let (sender, receiver) = mpsc::channel(ROWS);
        let database = self.clone();
        tokio::spawn(async move {
            let sent = database.send_rows(&identity, function, &request, &sender);
            if let Err(problem) = database.within(sent).await {
                // an error says that the client has gone
                let _ = sender.send(Err(problem)).await;
            }
        });
        receiver
    }

    async fn send_rows(
        &self,
        identity: &Identity,
        function: &str,
        request: &str,
        sender: &mpsc::Sender<Result<String, Problem>>,
    ) -> Result<(), Problem> {
        let mut lease = self.lease().await?;
        let client = lease.client()?;
        // A set in the SELECT list arrives row by row.
        let statement = format!("SELECT rag_api.{function}($1::text::jsonb)::text");
        let run = client.prepare_cached(&statement).await;
        let run = run.map_err(|error| failed(&error))?;
        let enter = Enter::prepare(client, identity, self.timeout).await?;
        let (begun, entered, rows) = future::join3(
            client.batch_execute("BEGIN"),
            enter.run(client),
            client.query_raw(&run, [request]),
        )
        .await;
        let opened = begun.and(entered.map(|_| ())).and(rows.map(Box::pin));
        let result = match opened {
            Ok(mut rows) => loop {
                let next = tokio::select! {
                    next = rows.try_next() => next,
                    () = sender.closed() => return Ok(()),
                };
                match next {
                    Ok(Some(row)) => {
                        if sender.send(Ok(row.get(0))).await.is_err() {
                            return Ok(());
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            },
            Err(error) => Err(error),
        };
        let ended = client.batch_execute(END).await;
        let is_open = !client.is_closed();
        if is_open {
            lease.done();
        }
        result.and(ended).map_err(|error| failed(&error))
    }

    /// Tells whether the database answers and has the extension.
    pub async fn ready(&self) -> Result<(), Problem> {
        let mut lease = self.lease().await?;
        let found = self
            .within(async {
                let statement = "SELECT FROM pg_catalog.pg_extension WHERE extname = 'rag'";
                let found = lease.client()?.query_opt(statement, &[]).await;
                found.map_err(|error| failed(&error))
            })
            .await?;
        lease.done();
        found
            .map(|_| ())
            .ok_or_else(|| Problem::unavailable("the database does not have the extension rag"))
    }

    /// Adds numbers of requests to keys. Returns the ids of those that were counted.
    pub async fn count_calls(&self, counts: &str) -> Result<Vec<String>, Problem> {
        let mut lease = self.lease().await?;
        let row = self
            .within(async {
                let statement = "SELECT rag_internal.count_api_calls($1::text::jsonb)";
                let row = lease.client()?.query_one(statement, &[&counts]).await;
                row.map_err(|error| failed(&error))
            })
            .await;
        if lease.client().is_ok_and(|client| !client.is_closed()) {
            lease.done();
        }
        Ok(row?.get(0))
    }
}

/// The statement that takes on the role of a request.
struct Enter<'a> {
    statement: Statement,
    arguments: Vec<&'a str>,
    timeout: String,
}

impl<'a> Enter<'a> {
    async fn prepare(
        client: &Object,
        identity: &'a Identity,
        timeout: Duration,
    ) -> Result<Self, Problem> {
        let (role, arguments) = match identity {
            Identity::Key { id, secret } => (
                "rag_internal.api_key_role($2, $3)",
                vec![id.as_str(), secret.as_str()],
            ),
            Identity::Role(role) => ("rag_internal.named_role($2)", vec![role.as_str()]),
            Identity::Session => ("", vec![]),
        };
        let statement = if role.is_empty() {
            "SELECT pg_catalog.set_config('statement_timeout', $1, true)".to_string()
        } else {
            format!(
                "SELECT pg_catalog.set_config('role', {role}::text, true), \
                 pg_catalog.set_config('statement_timeout', $1, true)"
            )
        };
        let statement = client.prepare_cached(&statement).await;
        Ok(Self {
            statement: statement.map_err(|error| failed(&error))?,
            arguments,
            timeout: timeout.as_millis().to_string(),
        })
    }

    async fn run(&self, client: &Object) -> Result<(), tokio_postgres::Error> {
        let mut arguments: Vec<&(dyn ToSql + Sync)> = vec![&self.timeout];
        arguments.extend(self.arguments.iter().map(|a| a as &(dyn ToSql + Sync)));
        client
            .query_one(&self.statement, &arguments)
            .await
            .map(|_| ())
    }
}

/// Returns the problem of an error. What the caller is not told is in the log, without the request.
fn failed(error: &tokio_postgres::Error) -> Problem {
    let problem = Problem::of_database(error);
    if problem.status.is_server_error() {
        tracing::warn!("{}", described(error));
    }
    problem
}

fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{}: {}", error.code().code(), error.message()),
        None => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

fn is_timeout(problem: &Problem) -> bool {
    problem.status == axum::http::StatusCode::GATEWAY_TIMEOUT && problem.sqlstate.is_none()
}
