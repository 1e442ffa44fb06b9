//! The outbox: what servers that search vectors do not have yet.
//!
//! | file | contents |
//! |---|---|
//! | [`changes`] | documents that have changed, and servers that are waited for |
//! | [`removals`] | what servers have to delete |

pub mod changes;
pub mod removals;
