//! Rows of collections as bundles have them (`crates/bundle`), read and written exactly.
//!
//! Times and metadata pass as texts, so that they do not lose digits. The statements for them run
//! as the extension's owner, and with settings that fix how times are written.

pub mod blocks;
mod read;
mod write;

pub use self::{
    read::{OpenRows, Overview, overview, times},
    write::{
        CollectionTimes, digest_all, insert_chunks, insert_digests, insert_documents,
        insert_knowledge, mark_imported, restore_times,
    },
};

use crate::pg::{
    guc::with_settings,
    spi::{OwnerRights, as_owner},
};

/// Runs `f` as the extension's owner. Times are read and written in UTC, in the format ISO.
fn exactly<R>(f: impl FnOnce(&OwnerRights) -> R) -> R {
    let settings = [(c"timezone", c"UTC"), (c"datestyle", c"ISO, YMD")];
    as_owner(|owner| with_settings(&settings, || f(owner)))
}
