//! Manifests: those of the proposals, of releases, and hostile ones.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod hostile;
mod problems;
mod proposal;
mod released;
mod round_trip;
mod support;
