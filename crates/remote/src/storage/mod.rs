//! Servers that search vectors.
//!
//! ```text
//! StorageCall ──▶ requests of the engine's REST interface ──▶ HttpClient (network guard) ──▶ server
//! StorageEvent ◀── what it found, counted or did ◀───────────────────────────────────────────┘
//! ```
//!
//! * [`server`]: one request, its attempts, and its errors in words;
//! * [`qdrant`]: <https://api.qdrant.tech>, from version 1.10 on;
//! * [`elasticsearch`]: <https://www.elastic.co/docs/api/doc/elasticsearch>, from version 8.12 on.
//!
//! Every request can be repeated: points have ids of their own, and deleting what is not there does
//! nothing.

mod elasticsearch;
mod qdrant;
mod server;

use std::time::{Duration, Instant};

use rag_definition::retriever::ServerKind;
use rag_protocol::{
    EngineError, ErrorKind,
    storage::{FoundPoint, IndexShape, Place, Point, StorageCall, StorageEvent, StorageRequest},
};
use serde_json::Value;
use uuid::Uuid;

use self::server::Server;
pub use self::server::timeout;

/// The number of points in one request.
const BATCH_POINTS: usize = 256;

/// Executes a call. There is one event.
pub fn perform(call: &StorageCall, emit: &mut dyn FnMut(StorageEvent)) {
    let until = Instant::now() + Duration::from_millis(call.timeout_ms);
    emit(answer(call, until).unwrap_or_else(|error| StorageEvent::Failed { error }));
}

fn answer(call: &StorageCall, until: Instant) -> Result<StorageEvent, EngineError> {
    let server = Server::new(call, until)?;
    let engine: &dyn Engine = match call.engine {
        ServerKind::Qdrant => &qdrant::Qdrant,
        ServerKind::Elasticsearch => &elasticsearch::Elasticsearch,
    };
    Ok(match &call.request {
        StorageRequest::Describe => StorageEvent::Described {
            server: engine.describe(&server)?,
        },
        StorageRequest::Replace {
            place,
            shape,
            documents,
            points,
        } => {
            let created = engine.ensure(&server, place, shape)?;
            engine.delete(&server, place, documents)?;
            for batch in points.chunks(BATCH_POINTS) {
                match engine.write(&server, place, batch) {
                    Err(error) if error.kind == ErrorKind::InvalidRequest => {
                        return Ok(StorageEvent::Refused { created, error });
                    }
                    written => written?,
                }
            }
            StorageEvent::Done { created }
        }
        StorageRequest::Clear { place, is_whole } => {
            engine.clear(&server, place, *is_whole)?;
            StorageEvent::Done { created: false }
        }
        StorageRequest::Search { .. } => match engine.search(&server, &call.request)? {
            Some(points) => StorageEvent::Found { points },
            None => StorageEvent::NoIndex,
        },
        StorageRequest::Count { place } => StorageEvent::Counted {
            points: engine.count(&server, place)?,
        },
    })
}

/// What differs between servers.
trait Engine {
    /// Returns the name and the version of the server.
    fn describe(&self, server: &Server<'_>) -> Result<String, EngineError>;

    /// Creates the index if it does not exist, or checks that it has this shape. Returns true if it
    /// was created.
    fn ensure(
        &self,
        server: &Server<'_>,
        place: &Place,
        shape: &IndexShape,
    ) -> Result<bool, EngineError>;

    /// Deletes the points of some documents.
    fn delete(
        &self,
        server: &Server<'_>,
        place: &Place,
        documents: &[Uuid],
    ) -> Result<(), EngineError>;

    fn write(
        &self,
        server: &Server<'_>,
        place: &Place,
        points: &[Point],
    ) -> Result<(), EngineError>;

    /// Deletes the points of the collection, or the whole index.
    fn clear(&self, server: &Server<'_>, place: &Place, is_whole: bool) -> Result<(), EngineError>;

    /// Returns the nearest points, or `None` if the index does not exist.
    fn search(
        &self,
        server: &Server<'_>,
        request: &StorageRequest,
    ) -> Result<Option<Vec<FoundPoint>>, EngineError>;

    /// Returns the number of points. An index that does not exist has none.
    fn count(&self, server: &Server<'_>, place: &Place) -> Result<u64, EngineError>;
}

/// Checks the shape of an index that exists.
///
/// # Errors
/// It is another one.
fn check_shape(
    server: &Server<'_>,
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
            server.name()
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
fn found_point(server: &Server<'_>, stored: &Value) -> Result<FoundPoint, EngineError> {
    let id = |key: &str| {
        stored[key]
            .as_str()
            .and_then(|text| Uuid::parse_str(text).ok())
    };
    match (id("chunk"), id("document")) {
        (Some(chunk), Some(document)) => Ok(FoundPoint { chunk, document }),
        _ => Err(server.no_answer("A point has no ids of its chunk and document.")),
    }
}
