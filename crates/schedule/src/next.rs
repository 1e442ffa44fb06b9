//! The first time after another, in a zone.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::calendar::Calendar;

/// How far to look. Zones whose clocks change by a day of the week skip a local time in one year
/// and not in the next, but a POSIX zone may skip the same one every year.
const YEARS: i64 = 40;

const HORIZON: SignedDuration = SignedDuration::from_hours(YEARS * 366 * 24);

/// Whole seconds after `after`, itself taken down to the second: no drift from time to time.
pub(crate) fn in_seconds(seconds: i64, after: Timestamp) -> Option<Timestamp> {
    // jiff's seconds go towards zero, which before 1970 is up.
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

/// Real time from one instant to before another, in which local time has one offset.
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

/// Whether the local time was there before.
fn is_repeated(local: DateTime, time: Timestamp, zone: &TimeZone) -> bool {
    zone.to_ambiguous_timestamp(local)
        .earlier()
        .is_ok_and(|first| first < time)
}
