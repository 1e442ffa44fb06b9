//! Next times against a reference that walks real time minute by minute, through every change of
//! the clocks.
//!
//! The reference reads no text and computes no time: it asks the zone for the local time of each
//! minute of twelve years, holds that against the values of each field, and leaves out what the
//! clocks have shown before, unless the schedule is of every hour.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ops::Range;
use std::sync::LazyLock;

use jiff::civil::date;
use proptest::prelude::*;
use rag_schedule::{Schedule, TimeZone, Timestamp, zone};

/// What the clocks of a zone show, minute by minute.
struct Walk {
    name: &'static str,
    zone: TimeZone,
    minutes: Vec<Minute>,
    /// Indexes of the minutes at which the offset is not what it was before.
    changes: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Minute {
    /// Minute, hour, day of month, month, day of week.
    shown: [u8; 5],
    shown_before: bool,
}

const FIRST_YEAR: i16 = 2009;
const YEARS: i16 = 12;

fn first_time() -> i64 {
    date(FIRST_YEAR, 1, 1)
        .to_zoned(TimeZone::UTC)
        .unwrap()
        .timestamp()
        .as_second()
}

fn time_of(minute: usize) -> Timestamp {
    Timestamp::from_second(first_time() + 60 * minute as i64).unwrap()
}

impl Walk {
    fn through(name: &'static str) -> Self {
        let zone = zone(name).unwrap();
        let end = date(FIRST_YEAR + YEARS, 1, 1)
            .to_zoned(TimeZone::UTC)
            .unwrap()
            .timestamp()
            .as_second();
        let count = ((end - first_time()) / 60) as usize;
        let two_days = 2 * 1440;
        let mut seen = vec![false; count + 2 * two_days];
        let mut walk = Walk {
            name,
            zone,
            minutes: Vec::with_capacity(count),
            changes: Vec::new(),
        };
        let mut last_offset = walk.zone.to_offset(time_of(0));
        for minute in 0..count {
            let offset = walk.zone.to_offset(time_of(minute));
            let local = offset.to_datetime(time_of(minute));
            assert_eq!(local.second(), 0);
            let seen =
                &mut seen[(minute as i64 + i64::from(offset.seconds()) / 60) as usize + two_days];
            let weekday = local.weekday().to_sunday_zero_offset();
            let shown = [
                local.minute(),
                local.hour(),
                local.day(),
                local.month(),
                weekday,
            ]
            .map(|value| value as u8);
            walk.minutes.push(Minute {
                shown,
                shown_before: *seen,
            });
            *seen = true;
            if offset != last_offset {
                walk.changes.push(minute);
            }
            last_offset = offset;
        }
        walk
    }

    fn around_changes(&self) -> impl Iterator<Item = Range<usize>> {
        let days = 3 * 1440;
        self.changes
            .iter()
            .map(move |change| change - days..change + days)
    }
}

/// Three zones with two changes a year, one of them by half an hour; and three with changes at
/// midnight, none in some years, four in others, and a day left out.
static WALKS: LazyLock<Vec<Walk>> = LazyLock::new(|| {
    let names = [
        ("America/New_York", 24),
        ("Europe/Berlin", 24),
        ("Australia/Lord_Howe", 24),
        ("America/Sao_Paulo", 20),
        ("Africa/Cairo", 10),
        ("Pacific/Apia", 20),
    ];
    let walk = |(name, changes)| {
        let walk = Walk::through(name);
        assert!(
            walk.changes.len() >= changes,
            "{name} has {} changes",
            walk.changes.len()
        );
        walk
    };
    names.into_iter().map(walk).collect()
});

/// An item of a field's list, as it is meant.
#[derive(Debug, Clone, Copy)]
enum Item {
    Star(Option<u8>),
    From(u8, Option<u8>),
    Range(u8, u8, Option<u8>),
}
use Item::{From, Range as To, Star};

const BOUNDS: [(u8, u8); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];

impl Item {
    fn has(self, value: u8, (least, most): (u8, u8)) -> bool {
        let (first, last, step) = match self {
            Star(step) => (least, most, step),
            From(first, None) => (first, first, None),
            From(first, step) => (first, most, step),
            To(first, last, step) => (first, last, step),
        };
        first <= value && value <= last && (value - first).is_multiple_of(step.unwrap_or(1))
    }

    fn is_plain_star(self) -> bool {
        matches!(self, Star(None | Some(1)))
    }

    fn text(self, field: usize, names: bool) -> String {
        let name = |value: u8| match (names, field) {
            (true, 3) => "Jan feb MAR apr may jun jul aug sep oct nov dec"
                .split(' ')
                .nth(value as usize - 1)
                .unwrap()
                .into(),
            (true, 4) => "SUN mon Tue wed thu fri sat"
                .split(' ')
                .nth(value as usize)
                .unwrap()
                .into(),
            _ => value.to_string(),
        };
        let (text, step) = match self {
            Star(step) => (if names { "?".into() } else { "*".to_owned() }, step),
            From(first, step) => (name(first), step),
            To(first, last, step) => (format!("{}-{}", name(first), name(last)), step),
        };
        step.map_or(text.clone(), |step| format!("{text}/{step}"))
    }
}

#[derive(Debug, Clone)]
struct Meant {
    fields: [Vec<Item>; 5],
    names: bool,
}

impl Meant {
    fn text(&self) -> String {
        let field = |(index, items): (usize, &Vec<Item>)| {
            items
                .iter()
                .map(|item| item.text(index, self.names))
                .collect::<Vec<_>>()
                .join(",")
        };
        self.fields
            .iter()
            .enumerate()
            .map(field)
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn reference(&self) -> Reference {
        let mut allowed = [[false; 60]; 5];
        for (field, items) in self.fields.iter().enumerate() {
            for value in BOUNDS[field].0..=BOUNDS[field].1 {
                allowed[field][value as usize] =
                    items.iter().any(|item| item.has(value, BOUNDS[field]));
            }
        }
        let starred = |field: usize| self.fields[field].iter().any(|item| item.is_plain_star());
        let either_day = !starred(2) && !starred(4);
        Reference {
            every_hour: (0..24).all(|hour| allowed[1][hour]),
            allowed,
            either_day,
        }
    }
}

struct Reference {
    allowed: [[bool; 60]; 5],
    either_day: bool,
    every_hour: bool,
}

impl Reference {
    fn runs(&self, minute: &Minute) -> bool {
        let has = |field: usize| self.allowed[field][minute.shown[field] as usize];
        let day = if self.either_day {
            has(2) || has(4)
        } else {
            has(2) && has(4)
        };
        has(0) && has(1) && has(3) && day && (self.every_hour || !minute.shown_before)
    }
}

/// Asks for time after time through these minutes: none is left out, none is too many.
fn compare(meant: &Meant, walk: &Walk, minutes: Range<usize>) {
    let reference = meant.reference();
    let schedule = Schedule::parse(&meant.text()).unwrap();
    let mut after = time_of(minutes.start)
        .checked_sub(std::time::Duration::from_nanos(1))
        .unwrap();
    let end = minutes.end;
    for minute in minutes {
        if reference.runs(&walk.minutes[minute]) {
            let next = schedule.next(after, &walk.zone);
            assert_eq!(
                next,
                Some(time_of(minute)),
                "{schedule} in {} after {after}",
                walk.name
            );
            after = time_of(minute);
        }
    }
    let next = schedule.next(after, &walk.zone);
    assert!(
        next.is_none_or(|next| next >= time_of(end)),
        "{schedule} in {} after {after}: {next:?}",
        walk.name
    );
}

fn one(value: u8) -> Vec<Item> {
    vec![From(value, None)]
}

fn star() -> Vec<Item> {
    vec![Star(None)]
}

fn daily(minute: Vec<Item>, hour: Vec<Item>) -> Meant {
    Meant {
        fields: [minute, hour, star(), star(), star()],
        names: false,
    }
}

#[test]
fn every_change_of_the_clocks_is_passed_as_the_reference_passes_it() {
    let mut schedules = vec![
        daily(star(), star()),
        daily(star(), vec![To(0, 23, None)]),
        daily(star(), vec![To(0, 22, None)]),
        daily(star(), vec![Star(Some(2))]),
        daily(vec![Star(Some(15))], star()),
        daily(vec![From(7, Some(13))], vec![To(1, 3, None)]),
        daily(
            vec![To(0, 40, Some(20))],
            vec![From(0, None), From(23, None)],
        ),
    ];
    for hour in 0..24 {
        for minute in [0, 15, 30, 45] {
            schedules.push(daily(one(minute), one(hour)));
        }
    }
    for minute in [0, 10, 30, 59] {
        schedules.push(daily(one(minute), star()));
    }
    for weekday in 0..7 {
        let fields = [one(30), star(), star(), star(), one(weekday)];
        schedules.push(Meant {
            fields,
            names: true,
        });
        let fields = [
            one(30),
            one(1),
            vec![From(1, Some(7))],
            star(),
            one(weekday),
        ];
        schedules.push(Meant {
            fields,
            names: false,
        });
    }
    for walk in WALKS.iter() {
        for schedule in &schedules {
            for minutes in walk.around_changes() {
                compare(schedule, walk, minutes);
            }
        }
    }
}

#[test]
fn rare_schedules_come_when_the_reference_says_over_all_the_years() {
    let yearly = |minute, hour, day, month| Meant {
        fields: [one(minute), one(hour), one(day), one(month), star()],
        names: false,
    };
    let rare = [
        yearly(0, 0, 29, 2),
        yearly(30, 2, 10, 3),
        yearly(30, 1, 4, 11),
        yearly(0, 12, 30, 12),
        yearly(0, 0, 4, 11),
        Meant {
            fields: [one(59), one(23), one(31), star(), star()],
            names: false,
        },
        Meant {
            fields: [one(0), one(0), one(29), one(2), one(1)],
            names: true,
        },
        Meant {
            fields: [
                one(0),
                one(3),
                vec![From(29, Some(1))],
                vec![To(2, 12, Some(2))],
                star(),
            ],
            names: true,
        },
    ];
    for walk in WALKS.iter() {
        for schedule in &rare {
            compare(schedule, walk, 0..walk.minutes.len());
        }
    }
}

fn item(field: usize) -> impl Strategy<Value = Item> {
    let (least, most) = BOUNDS[field];
    let step = || prop_oneof![3 => Just(None), 2 => (1..=most).prop_map(Some)];
    prop_oneof![
        2 => step().prop_map(Star),
        3 => (least..=most, step()).prop_map(|(first, step)| From(first, step)),
        2 => (least..=most, least..=most, step()).prop_map(|(a, b, step)| To(a.min(b), a.max(b), step)),
    ]
}

fn field(field: usize) -> impl Strategy<Value = Vec<Item>> {
    prop_oneof![2 => Just(star()), 3 => prop::collection::vec(item(field), 1..4)]
}

fn meant() -> impl Strategy<Value = Meant> {
    (
        (field(0), field(1), field(2), field(3), field(4)),
        any::<bool>(),
    )
        .prop_map(|((minute, hour, day, month, weekday), names)| Meant {
            fields: [minute, hour, day, month, weekday],
            names,
        })
        .prop_filter("comes at all", |meant| !never_comes(meant))
}

/// No leap year has such a day.
fn never_comes(meant: &Meant) -> bool {
    let reference = meant.reference();
    let mut days = date(2024, 1, 1).series(jiff::ToSpan::days(1)).take(366);
    !reference.either_day
        && !days.any(|day| {
            reference.allowed[3][day.month() as usize] && reference.allowed[2][day.day() as usize]
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_pass_every_change_as_the_reference_does(meant in meant()) {
        for walk in WALKS.iter() {
            for minutes in walk.around_changes() {
                compare(&meant, walk, minutes);
            }
        }
    }

    #[test]
    fn random_schedules_come_when_the_reference_says_over_a_year(
        meant in meant(),
        zone in 0usize..6,
        begin in 0usize..5_700_000,
    ) {
        compare(&meant, &WALKS[zone], begin..begin + 400 * 1440);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// From any nanosecond: the next time is the first that the reference runs at.
    #[test]
    fn nothing_comes_between_a_time_and_its_next(
        meant in meant(),
        zone in 0usize..6,
        begin in 0usize..6_000_000,
        nanoseconds in 0u64..60_000_000_000,
    ) {
        let walk = &WALKS[zone];
        let after = time_of(begin).checked_add(std::time::Duration::from_nanos(nanoseconds)).unwrap();
        let next = Schedule::parse(&meant.text()).unwrap().next(after, &walk.zone);
        let reference = meant.reference();
        match walk.minutes[begin + 1..].iter().position(|minute| reference.runs(minute)) {
            Some(later) => prop_assert_eq!(next, Some(time_of(begin + 1 + later)), "{} after {}", meant.text(), after),
            None => prop_assert!(next.is_none_or(|next| next >= time_of(walk.minutes.len()))),
        }
    }

    /// What never comes is refused, and nothing else is.
    #[test]
    fn every_field_as_it_is_meant_is_read(fields in (field(0), field(1), field(2), field(3), field(4)), names: bool) {
        let (minute, hour, day, month, weekday) = fields;
        let meant = Meant { fields: [minute, hour, day, month, weekday], names };
        prop_assert_eq!(Schedule::parse(&meant.text()).is_err(), never_comes(&meant), "{}", meant.text());
    }
}
