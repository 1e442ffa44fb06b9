//! The first matching time after another one, in a time zone.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::calendar::Calendar;

/// The search ends after this number of years. A zone may skip a local time every year.
const YEARS: i64 = 40;

const HORIZON: SignedDuration = SignedDuration::from_hours(YEARS * 366 * 24);

/// Returns the time `seconds` after `after`, which is rounded down to seconds to avoid drift.
pub(crate) fn in_seconds(seconds: i64, after: Timestamp) -> Option<Timestamp> {
    // jiff rounds towards zero, which is up before 1970
    let second = after.as_second() - i64::from(after.subsec_nanosecond() < 0);
    Timestamp::from_second(second.checked_add(seconds)?).ok()
}

pub(crate) fn in_calendar(
    calendar: &Calendar,
    after: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    let horizon = after.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
    let mut from = after.checked_add(SignedDuration::from_nanos(1)).ok()?;
    while from <= horizon {
        let stretch = Stretch::at(from, zone);
        if let Some(time) = stretch.first(calendar, zone) {
            return Some(time);
        }
        from = stretch.end?;
    }
    None
}

/// A stretch of real time in which local time has one offset. `end` is exclusive.
struct Stretch {
    begin: Timestamp,
    end: Option<Timestamp>,
    offset: Offset,
}

impl Stretch {
    fn at(begin: Timestamp, zone: &TimeZone) -> Self {
        let end = zone
            .following(begin)
            .next()
            .map(|transition| transition.timestamp());
        Stretch {
            begin,
            end,
            offset: zone.to_offset(begin),
        }
    }

    fn first(&self, calendar: &Calendar, zone: &TimeZone) -> Option<Timestamp> {
        let mut earliest = self.offset.to_datetime(self.begin);
        loop {
            let local = calendar.at_or_after(earliest)?;
            let time = self.offset.to_timestamp(local).ok()?;
            if self.end.is_some_and(|end| time >= end) {
                return None;
            }
            if calendar.is_every_hour() || !is_repeated(local, time, zone) {
                return Some(time);
            }
            earliest = local.checked_add(1.minute()).ok()?;
        }
    }
}

/// Returns true if the local time has occurred before.
fn is_repeated(local: DateTime, time: Timestamp, zone: &TimeZone) -> bool {
    zone.to_ambiguous_timestamp(local)
        .earlier()
        .is_ok_and(|first| first < time)
}
