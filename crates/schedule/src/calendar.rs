//! Local times that match the five fields, without time zones.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime};

use crate::field::Set;

/// The longest interval between two matching months: eight years between two leap days, around a
/// century without one.
const RAREST_MONTHS: u32 = 8 * 12 + 1;

const HOURS: u64 = (1 << 24) - 1;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Calendar {
    pub minute: Set,
    pub hour: Set,
    pub day: Set,
    pub month: Set,
    pub weekday: Set,
}

impl Calendar {
    pub fn is_every_hour(&self) -> bool {
        self.hour.bits == HOURS
    }

    /// Returns true if no matching month has a matching day. Every month has all days of the week.
    pub fn never_matches(&self) -> bool {
        let first = self.day.bits.trailing_zeros();
        let longest = |month| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        self.weekday.star
            && !(1..=12).any(|month| self.month.contains(month) && first <= longest(month))
    }

    /// Returns the first matching minute that does not begin before `earliest`.
    pub fn at_or_after(&self, earliest: DateTime) -> Option<DateTime> {
        let mut from = earliest
            .with()
            .second(0)
            .subsec_nanosecond(0)
            .build()
            .ok()?;
        if from != earliest {
            from = from.checked_add(1.minute()).ok()?;
        }
        let (date, hour, minute) = (from.date(), from.hour() as u32, from.minute() as u32);
        if self
            .days_of(date.first_of_month())
            .contains(date.day() as u32)
        {
            if self.hour.contains(hour)
                && let Some(minute) = self.minute.at_least(minute)
            {
                return at(date, hour, minute);
            }
            if let Some(hour) = self.hour.at_least(hour + 1) {
                return at(date, hour, self.minute.at_least(0)?);
            }
        }
        at(
            self.day_from(date.tomorrow().ok()?)?,
            self.hour.at_least(0)?,
            self.minute.at_least(0)?,
        )
    }

    fn day_from(&self, date: Date) -> Option<Date> {
        let mut month = date.first_of_month();
        let mut least = date.day() as u32;
        for _ in 0..=RAREST_MONTHS {
            if let Some(day) = self.days_of(month).at_least(least) {
                return month.with().day(day as i8).build().ok();
            }
            month = month.checked_add(1.month()).ok()?;
            least = 1;
        }
        None
    }

    /// Returns the matching days of the month that begins at `first`.
    fn days_of(&self, first: Date) -> Set {
        let mut bits = 0;
        if self.month.contains(first.month() as u32) {
            let mut weekday = first.weekday().to_sunday_zero_offset() as u32;
            for day in 1..=first.days_in_month() as u32 {
                let (by_day, by_weekday) = (self.day.contains(day), self.weekday.contains(weekday));
                let either = !self.day.star && !self.weekday.star;
                if if either {
                    by_day || by_weekday
                } else {
                    by_day && by_weekday
                } {
                    bits |= 1 << day;
                }
                weekday = (weekday + 1) % 7;
            }
        }
        Set { bits, star: false }
    }
}

fn at(date: Date, hour: u32, minute: u32) -> Option<DateTime> {
    Some(date.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0))
}
