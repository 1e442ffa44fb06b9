//! stub
pub use jiff::{Timestamp, tz::TimeZone};
use std::time::Duration;
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule(String);
#[derive(Debug)]
pub struct ParseError {
    pub field: &'static str,
    pub position: usize,
    pub problem: String,
    pub hint: Option<String>,
}
impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)
    }
}
impl Schedule {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Ok(Self(text.into()))
    }
    pub fn next(&self, after: Timestamp, _zone: &TimeZone) -> Option<Timestamp> {
        Some(after + jiff::SignedDuration::from_secs(3600))
    }
    pub fn is_reboot(&self) -> bool {
        self.0 == "@reboot"
    }
}
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}
pub mod backoff {
    use super::Duration;
    pub fn delay(base: Duration, _attempt: u32, _random: f64) -> Duration {
        base
    }
}
