//! Collections: what they are, how they are made and changed, where their chunks are and by what
//! they are searched.
//!
//! ```text
//! rag_create_collection ─┐                           ┌▶ create ──▶ rag_internal.collection
//! a bundle's settings   ─┼─▶ CollectionDefinition ───┤
//! a manifest of sources ─┘   (crates/definition)     └▶ alter ─┬▶ attributes that change at once
//! rag_alter_collection ──────▶ a whole other one               └▶ `wanted`: others wait for a rebuild
//!
//! first document ──▶ model, placement ──▶ partition, keyword_index
//! enough chunks ───▶ index
//! ```
//!
//! A row has two definitions. Its columns say how the stored chunks were made: searches and writes
//! go by them. `wanted` has the attributes that differ in the definition that the user wants.
//! `rag_rebuild_collection` (`sync::rebuild`) makes chunks and indexes by it, and adopts it.
//!
//! | file | contents |
//! |---|---|
//! | [`definition`] | the checks of a definition that need the database |
//! | [`create`], [`alter`], [`rename`], [`drop`] | create, change, rename and drop a collection; what each change does |
//! | [`rights`] | who may read, write or change a collection |
//! | [`names`] | names and external ids, which no two collections share |
//! | [`retriever`] | retrievers, and what a change of one means for its collections |
//! | [`model`] | the model of the stored embeddings |
//! | [`placement`], [`partition`] | which partition a collection gets; partitions are created and dropped |
//! | [`index`], [`keyword_index`] | the indexes of a partition |
//! | [`quotas`] | the most that collections and sources may store |
//! | [`status`], [`figures`] | the state of a collection, with reasons and remedies; its counts and sizes |
//! | [`damage`], [`corruption`] | corrupted relations: marks and remedies; what searches and writes do |

pub mod alter;
pub mod corruption;
pub mod create;
pub mod damage;
pub mod definition;
pub mod drop;
mod figures;
pub mod index;
pub mod keyword_index;
pub mod model;
pub mod names;
pub mod partition;
pub mod placement;
pub mod quotas;
pub mod rename;
pub mod retriever;
pub mod rights;
pub mod status;

pub use self::{alter::alter, create::create, create::create_if_missing, drop::drop};
