//! Schedules, durations and backoff.

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
