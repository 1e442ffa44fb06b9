//! What the definition of a source has beside its [`spec`](crate::spec), whether a call gives it or
//! a manifest.

use std::time::Duration;

/// Most tries of a run after the first.
pub const MAX_RETRIES: u32 = 100;
/// Shortest and longest timeout of a run. The server's timers have milliseconds in 32 bits.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// What follows when the documents that are stored are not those that were indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DriftPolicy {
    /// They are indexed again.
    #[default]
    Auto,
    /// It is reported.
    Manual,
    /// Nobody looks.
    Ignore,
}

impl DriftPolicy {
    pub const NAMES: [&str; 3] = ["auto", "manual", "ignore"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::Ignore => "ignore",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Auto, Self::Manual, Self::Ignore]
            .into_iter()
            .find(|policy| policy.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_name() {
        let parsed = DriftPolicy::NAMES.map(DriftPolicy::parse);
        assert_eq!(
            parsed,
            [DriftPolicy::Auto, DriftPolicy::Manual, DriftPolicy::Ignore].map(Some)
        );
        assert_eq!(DriftPolicy::parse("Auto"), None);
    }

    #[test]
    fn the_longest_timeout_fits_into_a_timer_of_the_server() {
        assert!(i32::try_from(MAX_TIMEOUT.as_millis()).is_ok());
    }
}
