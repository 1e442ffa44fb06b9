//! Sources: their definitions and the errors in them, permissions, manifests, and the kind `table`.

pub mod alter;
pub mod check;
pub mod collection;
mod collection_state;
pub mod definition;
pub mod drop;
pub mod errors;
pub mod manage;
pub mod manifest;
pub mod presence;
pub mod rename;
pub mod retriever;
pub mod rights;
pub mod table;
pub mod timing;
