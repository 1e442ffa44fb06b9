//! Sources: their definitions and the errors in them, permissions, manifests, and the kind `table`.
//!
//! | file | contents |
//! |---|---|
//! | [`definition`], [`alter`] | create and alter a source |
//! | [`check`] | all checks of a definition |
//! | [`rights`] | what the owner of a source may read |
//! | [`presence`], [`collection_state`] | warnings: what a source names and does not exist yet |
//! | [`timing`] | the next run, and the conditions that follow from a schedule |
//! | [`manage`] | who may manage a source |
//! | [`drop`], [`rename`] | drop and rename |
//! | [`manifest`] | manifests of sources and retrievers |
//! | [`table`] | the kind `table` |

pub mod alter;
pub mod check;
mod collection_state;
pub mod definition;
pub mod drop;
pub mod manage;
pub mod manifest;
pub mod presence;
pub mod rename;
pub mod rights;
pub mod table;
pub mod timing;
