//! Counts of the calls and tokens of remote models, by day, their limits, and what they cost.
//!
//! A [`Ledger`] has the counts of one database. It is a value that is stored as JSON; the caller
//! stores it, and tells the time. A call is counted when it begins, its tokens when it ends. So a
//! call that begins within a limit of tokens may exceed it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of days that are kept.
pub const KEPT_DAYS: u64 = 100;
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * 60;

/// Limits of a model. None means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageLimits {
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    pub tokens_per_day: Option<u64>,
}

/// The prices of a model. Amounts are billionths of the unit of a currency, which only the user
/// knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// The price of a million tokens that are sent.
    pub input_tokens: u64,
    /// The price of a million tokens that are received.
    pub output_tokens: u64,
    /// The price of a thousand requests.
    pub requests: u64,
}

impl Prices {
    /// Number of billionths in the unit of a currency.
    pub const BILLION: f64 = 1e9;

    /// Returns what requests and their tokens cost, rounded to a billionth.
    pub fn cost(&self, requests: u64, input_tokens: u64, output_tokens: u64) -> u64 {
        const MILLION: u128 = 1_000_000;
        let part = |price: u64, count: u64, per: u128| {
            // in millionths of a billionth
            (u128::from(price) * u128::from(count)).saturating_mul(MILLION / per)
        };
        let sum = part(self.input_tokens, input_tokens, MILLION)
            .saturating_add(part(self.output_tokens, output_tokens, MILLION))
            .saturating_add(part(self.requests, requests, 1000));
        u64::try_from((sum.saturating_add(MILLION / 2)) / MILLION).unwrap_or(u64::MAX)
    }
}

/// Returns a count as a column of type bigint has it: at most 2^52, so that the sum over all days
/// and models is a bigint, too.
pub fn in_sql(count: u64) -> i64 {
    const MAX: i64 = 1 << 52;
    i64::try_from(count).map_or(MAX, |count| count.min(MAX))
}

/// A limit that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    pub limit: Limit,
    pub most: u64,
    /// Seconds until calls are possible again.
    pub wait: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    RequestsPerMinute,
    TokensPerMinute,
    TokensPerDay,
}

impl Limit {
    /// Returns its key in the settings of a model.
    pub fn key(self) -> &'static str {
        match self {
            Self::RequestsPerMinute => "requestsPerMinute",
            Self::TokensPerMinute => "tokensPerMinute",
            Self::TokensPerDay => "tokensPerDay",
        }
    }
}

/// What a call that has ended used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallRecord {
    pub has_failed: bool,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// True if the server did not count the tokens.
    pub is_estimated: bool,
    /// See [`Prices::cost`]. None: the model has no prices.
    pub cost: Option<u64>,
}

impl CallRecord {
    /// Returns the tokens and the cost of the call.
    pub fn spent(&self) -> Spent {
        Spent {
            tokens: self.input_tokens.saturating_add(self.output_tokens),
            cost: self.cost,
        }
    }
}

/// What some calls used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    /// See [`Prices::cost`]. None: the models have no prices.
    pub cost: Option<u64>,
}

impl Spent {
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: added(self.cost, other.cost),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub calls: u64,
    /// Calls that failed or were cancelled.
    pub errors: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Calls whose tokens were not counted by the server.
    pub estimated: u64,
    /// What the calls cost for which the model had prices. None: it had none.
    #[serde(default)]
    pub cost: Option<u64>,
}

impl Counts {
    fn add(&mut self, record: &CallRecord) {
        self.errors += u64::from(record.has_failed);
        self.estimated += u64::from(record.is_estimated);
        self.input_tokens = self.input_tokens.saturating_add(record.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(record.output_tokens);
        self.cost = added(self.cost, record.cost);
    }

    fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Returns the sum of two costs, as far as they are known.
fn added(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (known, None) | (None, known) => known,
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ModelCounts {
    /// The minute that `requests` and `tokens` belong to.
    minute: u64,
    requests: u64,
    tokens: u64,
    /// By day since 1970-01-01.
    days: BTreeMap<u64, Counts>,
}

impl ModelCounts {
    /// Moves to the minute of a time.
    fn at(&mut self, now: u64) {
        if self.minute != now / MINUTE {
            (self.minute, self.requests, self.tokens) = (now / MINUTE, 0, 0);
        }
    }
}

/// The counts of all models of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    models: BTreeMap<String, ModelCounts>,
}

impl Ledger {
    /// Counts calls that begin at `now`, in seconds since 1970.
    ///
    /// # Errors
    /// A limit is used up. Then nothing is counted.
    pub fn begin(
        &mut self,
        model: &str,
        limits: &UsageLimits,
        calls: u64,
        now: u64,
    ) -> Result<(), Exhausted> {
        let counts = self.models.entry(model.to_owned()).or_default();
        counts.at(now);
        let today = counts.days.get(&(now / DAY)).copied().unwrap_or_default();
        let until_minute = MINUTE - now % MINUTE;
        let all = [
            (
                Limit::TokensPerDay,
                limits.tokens_per_day,
                today.tokens(),
                DAY - now % DAY,
            ),
            (
                Limit::TokensPerMinute,
                limits.tokens_per_minute,
                counts.tokens,
                until_minute,
            ),
            (
                Limit::RequestsPerMinute,
                limits.requests_per_minute,
                counts.requests,
                until_minute,
            ),
        ];
        for (limit, most, used, wait) in all {
            if let Some(most) = most.filter(|most| used >= *most) {
                return Err(Exhausted { limit, most, wait });
            }
        }
        counts.requests += calls;
        counts.days.entry(now / DAY).or_default().calls += calls;
        let first = (now / DAY).saturating_sub(KEPT_DAYS - 1);
        counts.days = counts.days.split_off(&first);
        Ok(())
    }

    /// Adds what a call used that ends at `now`.
    pub fn end(&mut self, model: &str, record: &CallRecord, now: u64) {
        let counts = self.models.entry(model.to_owned()).or_default();
        counts.at(now);
        counts.tokens = counts.tokens.saturating_add(record.spent().tokens);
        counts.days.entry(now / DAY).or_default().add(record);
    }

    /// Removes a model.
    pub fn forget(&mut self, model: &str) {
        self.models.remove(model);
    }

    /// Returns models, days since 1970-01-01, and their counts.
    pub fn days(&self) -> impl Iterator<Item = (&str, u64, Counts)> {
        self.models.iter().flat_map(|(model, counts)| {
            let days = counts.days.iter();
            days.map(move |(day, counts)| (model.as_str(), *day, *counts))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 20_000 * DAY + 12 * 60 * 60;

    fn used(tokens: u64) -> CallRecord {
        CallRecord {
            input_tokens: tokens,
            ..CallRecord::default()
        }
    }

    #[test]
    fn requests_are_limited_by_the_minute() {
        let mut ledger = Ledger::default();
        let limits = UsageLimits {
            requests_per_minute: Some(2),
            ..UsageLimits::default()
        };
        assert_eq!(ledger.begin("a", &limits, 1, NOON), Ok(()));
        assert_eq!(ledger.begin("a", &limits, 1, NOON + 10), Ok(()));
        let refused = ledger.begin("a", &limits, 1, NOON + 45);
        let expected = Exhausted {
            limit: Limit::RequestsPerMinute,
            most: 2,
            wait: 15,
        };
        assert_eq!(refused, Err(expected));
        assert_eq!(ledger.begin("b", &limits, 1, NOON + 45), Ok(()));
        assert_eq!(ledger.begin("a", &limits, 1, NOON + 60), Ok(()));
        let calls: Vec<u64> = ledger.days().map(|(_, _, counts)| counts.calls).collect();
        assert_eq!(calls, [3, 1]);
    }

    #[test]
    fn tokens_are_limited_by_the_day() {
        let mut ledger = Ledger::default();
        let limits = UsageLimits {
            tokens_per_day: Some(100),
            tokens_per_minute: Some(100),
            ..UsageLimits::default()
        };
        ledger
            .begin("a", &limits, 1, NOON)
            .expect("within the limit");
        ledger.end("a", &used(99), NOON);
        ledger
            .begin("a", &limits, 1, NOON)
            .expect("one token is left");
        ledger.end("a", &used(40), NOON);
        let wait = |at| {
            ledger
                .clone()
                .begin("a", &limits, 1, at)
                .err()
                .map(|e| e.wait)
        };
        assert_eq!(wait(NOON + 3600), Some(11 * 3600));
        assert_eq!(wait(NOON + 12 * 3600), None);
    }

    #[test]
    fn a_stored_ledger_is_the_same() {
        let mut ledger = Ledger::default();
        ledger
            .begin("a", &UsageLimits::default(), 1, NOON)
            .expect("no limits");
        let failed = CallRecord {
            has_failed: true,
            is_estimated: true,
            ..used(5)
        };
        ledger.end("a", &failed, NOON + 1);
        let text = serde_json::to_string(&ledger).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Ledger>(&text).expect("a ledger"),
            ledger
        );
        let (_, _, counts) = ledger.days().next().expect("a day");
        let expected = Counts {
            calls: 1,
            errors: 1,
            input_tokens: 5,
            output_tokens: 0,
            estimated: 1,
            cost: None,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn costs_are_rounded_once_for_a_call() {
        // .02 for a million tokens, .08 for a million of the answer, 2 for a thousand requests
        let prices = Prices {
            input_tokens: 20_000_000,
            output_tokens: 80_000_000,
            requests: 2_000_000_000,
        };
        assert_eq!(prices.cost(0, 1, 0), 20);
        assert_eq!(prices.cost(1, 0, 0), 2_000_000);
        assert_eq!(prices.cost(3, 1_000_000, 500_000), 66_000_000);
        let cheap = Prices {
            input_tokens: 250_000,
            output_tokens: 250_000,
            requests: 0,
        };
        assert_eq!((cheap.cost(1, 1, 0), cheap.cost(1, 1, 1)), (0, 1));
        let dear = Prices {
            input_tokens: u64::MAX,
            output_tokens: u64::MAX,
            requests: u64::MAX,
        };
        assert_eq!(dear.cost(u64::MAX, u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Prices::default().cost(7, 7, 7), 0);
    }

    #[test]
    fn the_sum_of_counts_in_sql_is_a_bigint() {
        let counts = [0, 7, u64::MAX].map(in_sql);
        assert_eq!(counts, [0, 7, 1 << 52]);
        let days = i64::try_from(KEPT_DAYS).expect("some days");
        assert!(counts[2].checked_mul(2 * days).is_some());
    }

    #[test]
    fn calls_without_a_price_do_not_change_the_cost() {
        let mut ledger = Ledger::default();
        for cost in [None, Some(5), None, Some(7)] {
            let record = CallRecord { cost, ..used(1) };
            ledger.end("a", &record, NOON);
        }
        let (_, _, counts) = ledger.days().next().expect("a day");
        assert_eq!(counts.cost, Some(12));
    }

    #[test]
    fn a_ledger_from_before_costs_can_be_read() {
        let text = r#"{"models": {"a": {"minute": 0, "requests": 0, "tokens": 0, "days": {"20000":
            {"calls": 1, "errors": 0, "input_tokens": 2, "output_tokens": 3, "estimated": 0}}}}}"#;
        let ledger: Ledger = serde_json::from_str(text).expect("a ledger");
        let (_, _, counts) = ledger.days().next().expect("a day");
        assert_eq!((counts.input_tokens, counts.cost), (2, None));
    }

    #[test]
    fn old_days_are_forgotten() {
        let mut ledger = Ledger::default();
        for day in 0..2 * KEPT_DAYS {
            ledger
                .begin("a", &UsageLimits::default(), 1, NOON + day * DAY)
                .expect("no limits");
        }
        assert_eq!(ledger.days().count() as u64, KEPT_DAYS);
    }
}
