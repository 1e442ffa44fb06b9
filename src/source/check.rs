//! The checks of a definition. All of them run, and each collects the errors of its part.

use pgrx::{datum::Interval, pg_sys};
use rag_definition::{
    Quota, SecretRef,
    labels::Labels,
    source::{Login, MAX_RETRIES, MAX_TIMEOUT, MIN_TIMEOUT, SourceSpec},
};
use rag_schedule::Schedule;
use serde_json::{Map, Value};

use super::{definition::SourceArguments, presence, rights, table::definition::NewTableSource};
use crate::{
    catalog::{
        access::CollectionPrivilege,
        collections::Collection,
        name::Name,
        sources::{self, DriftPolicy},
    },
    collection::rights::require,
    error::{
        Error,
        definition::{CREDENTIALS, CREDENTIALS_KEY, CREDENTIALS_NAME, DefinitionErrors},
    },
    pg::{
        roles::{self, Owner},
        transaction::subtransaction,
    },
    run::schedule,
    secrets, settings,
};

/// The checked spec of a source.
pub struct ResolvedSpec {
    pub spec: SourceSpec,
    pub labels: Labels,
    /// The spec as it is stored.
    pub json: Value,
    pub table: Option<NewTableSource>,
}

/// Returns the value of an argument, and adds an error if it is NULL.
pub fn required<T>(field: &str, value: Option<T>, errors: &mut DefinitionErrors) -> Option<T> {
    if value.is_none() {
        errors.add(
            field,
            Error::null_not_allowed(format!("{field} must not be NULL")),
        );
    }
    value
}

pub fn new_name(text: &str, errors: &mut DefinitionErrors) -> Option<Name> {
    let name = errors.note("name", Name::source(text))?;
    if errors.note("name", sources::has_name(&name))? {
        errors.add("name", sources::name_taken(&name));
    }
    Some(name)
}

/// Checks that the source's owner may write to the collection.
pub fn collection(name: &str, owner: pg_sys::Oid, errors: &mut DefinitionErrors) {
    let found = Collection::get(name)
        .and_then(|collection| require(owner, &collection, CollectionPrivilege::Write));
    errors.note("collection", found);
}

/// Checks the spec, and that `owner` may read what it names. Only members of rag_admin may create
/// sources that read from the network.
pub fn spec(
    kind: &str,
    spec: &Value,
    credentials: Option<&SecretRef>,
    owner: pg_sys::Oid,
    errors: &mut DefinitionErrors,
) -> Option<ResolvedSpec> {
    let parsed = SourceSpec::parse(kind, spec)
        .map_err(|problems| errors.extend(problems))
        .ok();
    if let Some(named) = credentials {
        self::credentials(named, parsed.as_ref(), owner, errors);
    }
    let parsed = parsed?;
    let may_read = errors.note(
        &format!("spec.{}", parsed.location_key()),
        rights::check(&parsed, owner),
    );
    if may_read.is_some() {
        presence::warn_of_missing(&parsed, errors);
        let judged = presence::warn_of_refused(&parsed, errors);
        errors.note(&format!("spec.{}", parsed.location_key()), judged);
    }
    if parsed.uses_network() {
        errors.note(
            "kind",
            roles::require_admin("create a source that reads from the network"),
        );
    }
    let labels = Labels::of_spec(spec);
    let SourceSpec::Table(given) = parsed else {
        return Some(ResolvedSpec {
            spec: parsed,
            labels,
            json: spec.clone(),
            table: None,
        });
    };
    // Postgres raises errors in the definition of a table
    let mut key = "relation";
    let table = subtransaction(|| NewTableSource::of(given, owner, &mut key));
    let table = errors.note(&format!("spec.{}", spelled(spec, key)), table)?;
    let mut json = table.spec.to_json();
    labels.write(&mut json);
    Some(ResolvedSpec {
        spec: SourceSpec::Table(table.spec.clone()),
        labels,
        json,
        table: Some(table),
    })
}

fn credentials(
    named: &SecretRef,
    spec: Option<&SourceSpec>,
    owner: pg_sys::Oid,
    errors: &mut DefinitionErrors,
) {
    let needed = spec.map_or(Ok(()), secrets::check_need);
    if errors.note(CREDENTIALS, needed).is_some()
        && errors
            .note(CREDENTIALS_NAME, secrets::check_use(named, owner))
            .is_some()
    {
        let login = spec.map_or(Login::Password, SourceSpec::login);
        errors.note(CREDENTIALS_KEY, secrets::check_value(named, login));
    }
}

/// Returns a key of a table's spec as the user spelled it: some keys have several spellings.
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

pub fn schedule(text: &str, errors: &mut DefinitionErrors) -> Option<Schedule> {
    match schedule::parse(text) {
        Ok(schedule) => errors
            .note("schedule", schedule::zone_of(&schedule))
            .map(|_| schedule),
        Err(problem) => {
            errors.extend([problem]);
            None
        }
    }
}

pub fn max_retries(number: i32, errors: &mut DefinitionErrors) {
    if !u32::try_from(number).is_ok_and(|number| number <= MAX_RETRIES) {
        let error = format!("max_retries must be between 0 and {MAX_RETRIES}, not {number}");
        errors.add("max_retries", Error::invalid_parameter(error));
    }
}

pub fn timeout(time: Interval, errors: &mut DefinitionErrors) {
    let [least, most] = [MIN_TIMEOUT, MAX_TIMEOUT].map(|time| time.as_micros().cast_signed());
    if time.as_micros() < least {
        let error = format!("timeout must be at least {} second", MIN_TIMEOUT.as_secs());
        errors.add("timeout", Error::invalid_parameter(error));
    } else if time.as_micros() > most {
        let error = format!(
            "timeout must be at most {} days",
            MAX_TIMEOUT.as_secs() / (24 * 60 * 60)
        );
        errors.add("timeout", Error::invalid_parameter(error));
    } else if time.as_micros() > settings::max_timeout().as_micros().cast_signed()
        && !roles::is_superuser(roles::current())
    {
        let most = settings::max_timeout().as_secs();
        let error = Error::invalid_parameter(format!(
            "timeout must be at most {most} seconds (rag.max_timeout)"
        ));
        errors.add(
            "timeout",
            error.hint("Only superusers can set a longer timeout or raise rag.max_timeout."),
        );
    }
}

pub fn drift_policy(name: &str, errors: &mut DefinitionErrors) -> Option<DriftPolicy> {
    let policy = DriftPolicy::parse(name).ok_or_else(|| {
        Error::invalid_parameter(format!("unknown drift_policy \"{name}\""))
            .hint(format!("Policies: {}.", DriftPolicy::NAMES.join(", ")))
    });
    errors.note("drift_policy", policy)
}

/// Returns a quota with the limits that are arguments.
pub fn quota(
    quota: Quota,
    arguments: &SourceArguments<'_>,
    errors: &mut DefinitionErrors,
) -> Quota {
    match quota.changed(arguments.max_documents, arguments.max_bytes) {
        Ok(quota) => quota,
        Err(problem) => {
            errors.extend_with_messages([problem]);
            quota
        }
    }
}

/// Returns the role that will own the source. None stands for the caller.
pub fn owner(name: Option<&str>, errors: &mut DefinitionErrors) -> Option<Owner> {
    let owner = match name {
        Some(name) => roles::future_owner(name, "source"),
        None => Owner::current(),
    };
    errors.note("owner", owner)
}
