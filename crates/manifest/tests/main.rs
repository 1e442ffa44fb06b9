//! Manifests: those of the proposals, of releases, and hostile ones.

mod hostile;
mod problems;
mod proposal;
mod released;
mod retrievers;
mod round_trip;
mod support;
