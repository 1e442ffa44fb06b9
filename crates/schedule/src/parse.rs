//! Parses a schedule: a time zone, then a descriptor or five fields.

use crate::calendar::Calendar;
use crate::error::{ParseError, Result};
use crate::field::{DAY, FieldKind, HOUR, MINUTE, MONTH, WEEKDAY};
use crate::text::Part;
use crate::{
    MAX_LENGTH, Rule, Schedule, TimeZone, duration,
    zone::{OffsetOfUtc, zone},
};

const FIELDS: [FieldKind; 5] = [MINUTE, HOUR, DAY, MONTH, WEEKDAY];

const FORMS: &str = "Write five fields (minute, hour, day of month, month, day of week) such as \
                     30 6 * * mon-fri, or a descriptor such as @daily or @every 1h30m.";

const DESCRIPTORS: &str = "Descriptors: @yearly, @annually, @monthly, @weekly, @daily, @midnight, \
                           @hourly, @every with a duration, @reboot.";

pub(crate) fn schedule(text: &str) -> Result<Schedule> {
    if text.chars().nth(MAX_LENGTH).is_some() {
        let problem = format!("it is longer than {MAX_LENGTH} characters");
        return Err(ParseError::new("schedule", MAX_LENGTH + 1, problem)
            .hint("Use ranges and steps instead of lists."));
    }
    let whole = Part::trimmed(text);
    let (zone, rest) = time_zone(whole)?;
    if rest.text.is_empty() {
        let problem = if whole.text.is_empty() {
            "it is empty"
        } else {
            "there is no schedule after the time zone"
        };
        return Err(ParseError::new("schedule", rest.position, problem).hint(FORMS));
    }
    let rule = if rest.text.starts_with('@') {
        descriptor(rest)?
    } else {
        Rule::Calendar(fields(rest)?)
    };
    Ok(Schedule {
        text: text.to_owned(),
        zone,
        rule,
    })
}

/// Parses the zone that `CRON_TZ=` or `TZ=` names. Returns it and the rest.
fn time_zone(whole: Part) -> Result<(Option<TimeZone>, Part)> {
    let Some(prefix) = ["CRON_TZ=", "TZ="]
        .into_iter()
        .find(|prefix| whole.text.starts_with(prefix))
    else {
        return Ok((None, whole));
    };
    let (name, rest) = whole.split_at(prefix.len()).1.word();
    // PostgreSQL counts a bare offset westward, which would be a surprise here
    let offset = name
        .text
        .starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    if let Some(of_utc) = OffsetOfUtc::parse(name.text) {
        let problem = format!("{} can be read as east or west of UTC", name.quoted());
        let hint = format!(
            "For the clocks that are called {} write {prefix}{}, or a name such as Europe/Berlin.",
            name.text,
            of_utc.clear_name()
        );
        return Err(ParseError::new("time zone", name.position, problem).hint(hint));
    }
    if let Some(zone) = zone(name.text).filter(|_| !offset) {
        return Ok((Some(zone), rest));
    }
    let problem = if name.text.is_empty() {
        "the name is missing".to_owned()
    } else if offset {
        format!(
            "{} is an offset, not the name of a time zone",
            name.quoted()
        )
    } else {
        format!("unknown time zone {}", name.quoted())
    };
    let hint = format!(
        "Write {prefix} and a name such as Europe/Berlin, without a space, then the schedule."
    );
    Err(ParseError::new("time zone", name.position, problem).hint(hint))
}

fn descriptor(text: Part) -> Result<Rule> {
    let (name, rest) = text.word();
    if name.text == "@every" {
        return Ok(Rule::Every(duration::seconds(rest)?));
    }
    let midnight = Calendar {
        minute: MINUTE.only(0),
        hour: HOUR.only(0),
        day: DAY.all(),
        month: MONTH.all(),
        weekday: WEEKDAY.all(),
    };
    let first_of_month = Calendar {
        day: DAY.only(1),
        ..midnight
    };
    let rule = match name.text {
        "@yearly" | "@annually" => Rule::Calendar(Calendar {
            month: MONTH.only(1),
            ..first_of_month
        }),
        "@monthly" => Rule::Calendar(first_of_month),
        "@weekly" => Rule::Calendar(Calendar {
            weekday: WEEKDAY.only(0),
            ..midnight
        }),
        "@daily" | "@midnight" => Rule::Calendar(midnight),
        "@hourly" => Rule::Calendar(Calendar {
            hour: HOUR.all(),
            ..midnight
        }),
        "@reboot" => Rule::Reboot,
        _ => {
            let problem = format!("unknown descriptor {}", name.quoted());
            return Err(ParseError::new("descriptor", name.position, problem).hint(DESCRIPTORS));
        }
    };
    if !rest.text.is_empty() {
        let problem = format!("nothing may follow {}, found {}", name.text, rest.quoted());
        return Err(ParseError::new("descriptor", rest.position, problem)
            .hint("Only @every takes a duration."));
    }
    Ok(rule)
}

fn fields(text: Part) -> Result<Calendar> {
    let words = text.words();
    let [minute, hour, day, month, weekday] = words[..] else {
        let (position, problem) = match (words.get(FIELDS.len()), FIELDS.get(words.len())) {
            (Some(surplus), _) => (
                surplus.position,
                format!("expected 5 fields, found {}", words.len()),
            ),
            (None, Some(missing)) => (
                text.end(),
                format!(
                    "expected 5 fields, found {}: the {} is missing",
                    words.len(),
                    missing.name
                ),
            ),
            (None, None) => (text.end(), "expected 5 fields".to_owned()),
        };
        return Err(ParseError::new("schedule", position, problem).hint(FORMS));
    };
    let calendar = Calendar {
        minute: MINUTE.parse(minute)?,
        hour: HOUR.parse(hour)?,
        day: DAY.parse(day)?,
        month: MONTH.parse(month)?,
        weekday: WEEKDAY.parse(weekday)?,
    };
    if calendar.never_matches() {
        let problem = format!(
            "day {} does not exist in month {}",
            day.quoted(),
            month.quoted()
        );
        let hint =
            "Choose a day that the month has. For the end of each month, use day 28 or day 1.";
        return Err(ParseError::new(DAY.name, day.position, problem).hint(hint));
    }
    Ok(calendar)
}
