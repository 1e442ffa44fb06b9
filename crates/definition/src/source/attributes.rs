//! The fields of a source's definition other than its spec, for calls and manifests.

use std::time::Duration;

pub const MAX_RETRIES: u32 = 100;
/// Limits of the timeout of a run. The server's timers count milliseconds in 32 bits.
pub const MIN_TIMEOUT: Duration = Duration::from_secs(1);
pub const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// What happens when stored documents differ from those that were indexed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DriftPolicy {
    /// The documents are indexed again.
    #[default]
    Auto,
    /// The drift is reported.
    Manual,
    /// Drift is not checked.
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
    fn policies_are_parsed_by_name() {
        let parsed = DriftPolicy::NAMES.map(DriftPolicy::parse);
        assert_eq!(
            parsed,
            [DriftPolicy::Auto, DriftPolicy::Manual, DriftPolicy::Ignore].map(Some)
        );
        assert_eq!(DriftPolicy::parse("Auto"), None);
    }

    #[test]
    fn the_maximum_timeout_fits_into_a_timer_of_the_server() {
        assert!(i32::try_from(MAX_TIMEOUT.as_millis()).is_ok());
    }
}
