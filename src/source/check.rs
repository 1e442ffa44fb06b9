//! The checks of a definition. All run, and each notes what is wrong with its part.

use pgrx::{datum::Interval, pg_sys};
use rag_protocol::{
    definition::{MAX_RETRIES, MAX_TIMEOUT, MIN_TIMEOUT},
    labels::Labels,
    spec::SourceSpec,
};
use rag_schedule::Schedule;
use serde_json::{Map, Value};

use super::{
    errors::{CREDENTIALS, CREDENTIALS_KEY, CREDENTIALS_NAME, Faults},
    presence, rights,
    table::definition::NewTable,
};
use crate::{
    catalog::{
        access::{self, Privilege},
        collections::Collection,
        name::Name,
        secrets::Named,
        sources::{self, DriftPolicy},
    },
    error::Error,
    pg::{
        roles::{self, Owner},
        subtransaction::subtransaction,
    },
    run::schedule,
    secrets, settings,
};

/// What a source reads, checked.
pub struct Reading {
    pub spec: SourceSpec,
    pub labels: Labels,
    /// As it is stored.
    pub json: Value,
    pub table: Option<NewTable>,
}

/// The value of an argument that a new source must have.
pub fn required<T>(field: &str, value: Option<T>, faults: &mut Faults) -> Option<T> {
    if value.is_none() {
        faults.add(
            field,
            Error::null_not_allowed(format!("{field} must not be NULL")),
        );
    }
    value
}

pub fn new_name(text: &str, faults: &mut Faults) -> Option<Name> {
    let name = faults.note("name", Name::source(text))?;
    if faults.note("name", sources::has_name(&name))? {
        faults.add("name", sources::taken(&name));
    }
    Some(name)
}

/// The collection that a source is to fill, with the rights of its owner.
pub fn collection(name: &str, owner: pg_sys::Oid, faults: &mut Faults) {
    let found = Collection::get(name)
        .and_then(|collection| access::require(owner, &collection, Privilege::Write));
    faults.note("collection", found);
}

/// What is read, and whether `owner` may; network sources are made by members of rag_admin only.
pub fn reading(
    kind: &str,
    spec: &Value,
    credentials: Option<&Named>,
    owner: pg_sys::Oid,
    faults: &mut Faults,
) -> Option<Reading> {
    let parsed = SourceSpec::parse(kind, spec)
        .map_err(|problems| faults.extend(problems))
        .ok();
    if let Some(named) = credentials {
        self::credentials(named, parsed.as_ref(), owner, faults);
    }
    let parsed = parsed?;
    let may_read = faults.note(
        &format!("spec.{}", rights::place(&parsed)),
        rights::check(&parsed, owner),
    );
    if may_read.is_some() {
        presence::look(&parsed, faults);
    }
    if parsed.takes_credentials() {
        faults.note(
            "kind",
            roles::require_admin("let a source ask servers of the network"),
        );
    }
    let labels = Labels::of_spec(spec);
    let SourceSpec::Table(given) = parsed else {
        return Some(Reading {
            spec: parsed,
            labels,
            json: spec.clone(),
            table: None,
        });
    };
    // Postgres raises what is wrong with a table
    let mut key = "relation";
    let table = subtransaction(|| NewTable::of(given, owner, &mut key));
    let table = faults.note(&format!("spec.{}", spelled(spec, key)), table)?;
    let mut json = table.spec.to_json();
    labels.write(&mut json);
    Some(Reading {
        spec: SourceSpec::Table(table.spec.clone()),
        labels,
        json,
        table: Some(table),
    })
}

fn credentials(named: &Named, spec: Option<&SourceSpec>, owner: pg_sys::Oid, faults: &mut Faults) {
    let needed = spec.map_or(Ok(()), secrets::check_need);
    if faults.note(CREDENTIALS, needed).is_some()
        && faults
            .note(CREDENTIALS_NAME, secrets::check_use(named, owner))
            .is_some()
    {
        faults.note(CREDENTIALS_KEY, secrets::check_value(named));
    }
}

/// A key of a table's spec as it is spelled there: some may be written in several ways.
fn spelled<'a>(spec: &'a Value, key: &'a str) -> &'a str {
    let plain = |key: &str| {
        key.replace('_', "")
            .trim_end_matches('s')
            .to_ascii_lowercase()
    };
    let mut keys = spec.as_object().into_iter().flat_map(Map::keys);
    keys.find(|given| plain(given) == plain(key))
        .map_or(key, String::as_str)
}

pub fn schedule(text: &str, faults: &mut Faults) -> Option<Schedule> {
    match schedule::parse(text) {
        Ok(schedule) => faults
            .note("schedule", schedule::zone_of(&schedule))
            .map(|_| schedule),
        Err(problem) => {
            faults.extend([problem]);
            None
        }
    }
}

pub fn max_retries(number: i32, faults: &mut Faults) {
    if !u32::try_from(number).is_ok_and(|number| number <= MAX_RETRIES) {
        let error = format!("max_retries must be between 0 and {MAX_RETRIES}, not {number}");
        faults.add("max_retries", Error::invalid_parameter(error));
    }
}

pub fn timeout(time: Interval, faults: &mut Faults) {
    let [least, most] = [MIN_TIMEOUT, MAX_TIMEOUT].map(|time| time.as_micros().cast_signed());
    if time.as_micros() < least {
        let error = format!("timeout must be at least {} second", MIN_TIMEOUT.as_secs());
        faults.add("timeout", Error::invalid_parameter(error));
    } else if time.as_micros() > most {
        let error = format!(
            "timeout must be at most {} days",
            MAX_TIMEOUT.as_secs() / (24 * 60 * 60)
        );
        faults.add("timeout", Error::invalid_parameter(error));
    } else if time.as_micros() > settings::max_timeout().as_micros().cast_signed()
        && !roles::is_superuser(roles::current())
    {
        let most = settings::max_timeout().as_secs();
        let error = Error::invalid_parameter(format!(
            "timeout must be at most {most} seconds (rag.max_timeout)"
        ));
        faults.add(
            "timeout",
            error.hint("Only superusers may set a longer one, or raise rag.max_timeout."),
        );
    }
}

pub fn drift_policy(name: &str, faults: &mut Faults) -> Option<DriftPolicy> {
    let policy = DriftPolicy::parse(name).ok_or_else(|| {
        Error::invalid_parameter(format!("unknown drift_policy \"{name}\""))
            .hint(format!("Policies: {}.", DriftPolicy::NAMES.join(", ")))
    });
    faults.note("drift_policy", policy)
}

/// The role that is to own the source, `None`: the caller.
pub fn owner(name: Option<&str>, faults: &mut Faults) -> Option<Owner> {
    let owner = match name {
        Some(name) => roles::future_owner(name, "source"),
        None => Owner::current(),
    };
    faults.note("owner", owner)
}
