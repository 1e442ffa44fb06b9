//! Models: their definitions, and calls of those on other servers.
//!
//! ```text
//! rag_create_model ──▶ rag_internal.model ──▶ right to use, limits ──▶ rag-engine call ──▶ server
//!                                              │                          ▲ stdin: key, request
//!                                              ▼                          │
//!                                        usage ledger ◀── tokens ◀────────┘ stdout: answer
//! ```
//!
//! A model belongs to the role that created it. Its key is resolved with the rights of that role,
//! as the credentials of a source are. Other roles need a grant to use it. A call runs in a process
//! of `rag-engine` of its own: nothing else of the session speaks to the network. Models on this
//! server run in `rag-engine embed`. [`embedding`] hides where a model runs; [`local`] has
//! rerankers.
//!
//! | file | contents |
//! |---|---|
//! | [`definition`] | create, alter, drop, grant |
//! | [`rights`] | who may use a model |
//! | [`users`] | collections and retrievers that name a model |
//! | [`embedding`] | texts to vectors, wherever the model runs |
//! | [`local`] | rerankers on this server |
//! | [`call`] | a call of a model on another server |
//! | [`usage`] | counts of calls and tokens |
//! | [`test`] | `rag_test_model` |

pub mod call;
pub mod definition;
pub mod embedding;
pub mod local;
pub mod rights;
pub mod test;
mod usage;
pub mod users;

pub use self::usage::{counts, spent};

/// Deletes the files of a database that the current transaction drops, or in which it drops the
/// extension: counts of calls, and cached embeddings.
pub fn forget_database_at_commit(database: u32) {
    usage::forget_database_at_commit(database);
    embedding::cache::forget_database_at_commit(database);
}
