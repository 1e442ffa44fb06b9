//! Schedules, durations and backoff.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod any_text;
mod backoff;
mod clock_changes;
mod durations;
mod fair;
mod next;
mod reference;
mod refused;
mod support;
mod zones;
