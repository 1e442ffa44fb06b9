//! The names of files in uris, for filters.

use pgrx::prelude::*;

/// Returns the name of the file of a uri, decoded.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn uri_file_name(uri: &str) -> String {
    rag_protocol::uri::file_name(uri).into_owned()
}
