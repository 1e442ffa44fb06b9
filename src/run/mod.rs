//! The life of a run.

pub mod end;
pub mod process;
pub mod retry;
pub mod schedule;
pub mod session;
pub mod start;
