//! Servers that search vectors.
//!
//! ```text
//! StorageCall ──▶ requests of the server's REST interface ──▶ HttpClient (network guard) ──▶ server
//! StorageEvent ◀── what it found, counted or did ◀───────────────────────────────────────────┘
//! ```
//!
//! * [`client`]: one request, its attempts, and its errors in words;
//! * [`qdrant`]: <https://api.qdrant.tech>, from version 1.10 on;
//! * [`elasticsearch`]: <https://www.elastic.co/docs/api/doc/elasticsearch>, from version 8.12 on.
//!
//! Every request can be repeated: points have ids of their own, and deleting what is not there does
//! nothing.

mod client;
mod elasticsearch;
mod qdrant;

use std::time::{Duration, Instant};

use rag_definition::retriever::ServerKind;
use rag_protocol::{
    EngineError, ErrorKind,
    storage::{
        FoundPoint, IndexShape, Place, Point, StorageCall, StorageCredentials, StorageEvent,
        StorageRequest,
    },
};
use serde_json::Value;
use uuid::Uuid;

use self::client::StorageClient;
pub use self::client::timeout;

/// The number of points in one request.
const BATCH_POINTS: usize = 256;

/// Executes a call. There is one event.
pub fn perform(call: &StorageCall, emit: &mut dyn FnMut(StorageEvent)) {
    let until = Instant::now() + Duration::from_millis(call.timeout_ms);
    emit(answer(call, until).unwrap_or_else(|error| StorageEvent::Failed { error }));
}

fn answer(call: &StorageCall, until: Instant) -> Result<StorageEvent, EngineError> {
    let server = server_of(call.server);
    let client = StorageClient::new(call, server.secret_header(&call.credentials), until)?;
    Ok(match &call.request {
        StorageRequest::Describe => StorageEvent::Described {
            server: server.describe(&client)?,
        },
        StorageRequest::Replace {
            place,
            shape,
            documents,
            points,
        } => {
            let created = server.ensure(&client, place, shape)?;
            server.delete(&client, place, documents)?;
            for batch in points.chunks(BATCH_POINTS) {
                match server.write(&client, place, batch) {
                    Err(error) if error.kind == ErrorKind::InvalidRequest => {
                        return Ok(StorageEvent::Refused { created, error });
                    }
                    written => written?,
                }
            }
            StorageEvent::Done { created }
        }
        StorageRequest::Clear { place, is_whole } => {
            server.clear(&client, place, *is_whole)?;
            StorageEvent::Done { created: false }
        }
        StorageRequest::Search { .. } => match server.search(&client, &call.request)? {
            Some(points) => StorageEvent::Found { points },
            None => StorageEvent::NoIndex,
        },
        StorageRequest::Count { place } => StorageEvent::Counted {
            points: server.count(&client, place)?,
        },
    })
}

fn server_of(kind: ServerKind) -> &'static dyn VectorServer {
    match kind {
        ServerKind::Qdrant => &qdrant::Qdrant,
        ServerKind::Elasticsearch => &elasticsearch::Elasticsearch,
    }
}

/// What differs between servers.
trait VectorServer {
    /// Returns the header that has the secret, with its value.
    fn secret_header(&self, credentials: &StorageCredentials) -> Option<(&'static str, String)>;

    /// Returns the name and the version of the server.
    fn describe(&self, client: &StorageClient<'_>) -> Result<String, EngineError>;

    /// Creates the index if it does not exist, or checks that it has this shape. Returns true if it
    /// was created.
    fn ensure(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        shape: &IndexShape,
    ) -> Result<bool, EngineError>;

    /// Deletes the points of some documents.
    fn delete(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        documents: &[Uuid],
    ) -> Result<(), EngineError>;

    fn write(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        points: &[Point],
    ) -> Result<(), EngineError>;

    /// Deletes the points of the collection, or the whole index.
    fn clear(
        &self,
        client: &StorageClient<'_>,
        place: &Place,
        is_whole: bool,
    ) -> Result<(), EngineError>;

    /// Returns the nearest points, or `None` if the index does not exist.
    fn search(
        &self,
        client: &StorageClient<'_>,
        request: &StorageRequest,
    ) -> Result<Option<Vec<FoundPoint>>, EngineError>;

    /// Returns the number of points. An index that does not exist has none.
    fn count(&self, client: &StorageClient<'_>, place: &Place) -> Result<u64, EngineError>;
}

/// Checks the shape of an index that exists.
///
/// # Errors
/// It is another one.
fn check_shape(
    client: &StorageClient<'_>,
    place: &Place,
    wanted: (usize, &str),
    found: (Option<u64>, Option<&str>),
) -> Result<(), EngineError> {
    let (dimensions, metric) = wanted;
    if found == (Some(dimensions as u64), Some(metric)) {
        return Ok(());
    }
    let found_dimensions = found.0.map_or("?".into(), |n| n.to_string());
    Err(EngineError::new(
        ErrorKind::InvalidRequest,
        format!(
            "index \"{}\" of {} has another shape",
            place.index,
            client.name()
        ),
    )
    .detail(format!(
        "It has {found_dimensions} dimensions and the metric {}, and the collection has \
         {dimensions} dimensions and the metric {metric}.",
        found.1.unwrap_or("?")
    ))
    .hint("Delete the index, or use a retriever with another strategy or metric."))
}

/// Reads a found point from what is stored with it.
fn found_point(client: &StorageClient<'_>, stored: &Value) -> Result<FoundPoint, EngineError> {
    let id = |key: &str| {
        stored[key]
            .as_str()
            .and_then(|text| Uuid::parse_str(text).ok())
    };
    match (id("chunk"), id("document")) {
        (Some(chunk), Some(document)) => Ok(FoundPoint { chunk, document }),
        _ => Err(client.no_answer("A point has no ids of its chunk and document.")),
    }
}
