//! The tables that several rooms use: row types and statements, a file per table.
//!
//! Only the extension's owner may write the tables, so statements run through its token
//! ([`crate::pg::spi::OwnerRights`]). A function that is a part of a step takes the token. A
//! function that is a step of its own opens the rights. Callers check the permissions of the user
//! first.
//!
//! | file | tables, statements |
//! |---|---|
//! | [`collections`] | `rag_internal.collection` |
//! | [`access`] | who may read and write a collection: `rag_internal.collection_grant` |
//! | [`quotas`] | what sources and collections store |
//! | [`retrievers`] | `rag_internal.retriever` |
//! | [`partitions`] | the partitions of `rag.chunks` |
//! | [`documents`], [`document_update`] | `rag.documents`, and changes of their attributes |
//! | [`stored_documents`] | documents with their chunks, as they are stored |
//! | [`kept_documents`] | documents that dropped sources have left |
//! | [`chunks`] | `rag.chunks` |
//! | [`labels`] | category and tags of documents |
//! | [`digests`], [`drift`] | `rag_internal.document_digest`, and the documents that drifted |
//! | [`sources`], [`conditions`], [`notes`] | `rag_internal.source`, its status, and metadata of manifests |
//! | [`runs`], [`run_phases`] | `rag_internal.run`, `rag_internal.run_error`, and what a run changes when it begins and ends |
//! | [`stalls`], [`metrics`] | runs without progress; the view `rag.metrics` |
//! | [`due`] | what schedulers look for |
//! | [`document_queue`] | `rag_internal.queued_document` |
//! | [`knowledge`], [`knowledge_runs`] | `rag_internal.knowledge_item` and `rag_internal.knowledge_run` |
//! | [`models`] | `rag_internal.model` and `rag_internal.model_grant` |
//! | [`api_keys`] | `rag_internal.api_key` |
//! | [`secrets`] | `rag_internal.secret` and `rag_internal.secret_value` |
//! | [`shards`] | where chunks are distributed over servers |
//! | [`rebuilds`] | `rag_internal.rebuild` |
//! | [`name`], [`renames`] | names of objects, and what a new name changes |
//! | [`damaged_relations`] | relations by the files and names in errors |

pub mod access;
pub mod api_keys;
pub mod chunks;
pub mod collections;
pub mod conditions;
pub mod damaged_relations;
pub mod digests;
pub mod document_queue;
pub mod document_update;
pub mod documents;
pub mod drift;
pub mod due;
pub mod kept_documents;
pub mod knowledge;
pub mod knowledge_runs;
pub mod labels;
pub mod metrics;
pub mod models;
pub mod name;
pub mod notes;
pub mod partitions;
pub mod quotas;
pub mod rebuilds;
pub mod renames;
pub mod retrievers;
pub mod run_phases;
pub mod runs;
pub mod secrets;
pub mod shards;
pub mod sources;
pub mod stalls;
pub mod stored_documents;
