//! Definitions of sources: all arguments are checked, then the source is created.
//!
//! ```text
//! rag_create_source  ─┐                              ┌─ no errors ─▶ the source, triggers of a table
//! rag_alter_source   ─┼─▶ SourceArguments ─▶ checks ─┤
//! rag_apply_manifest ─┘                              └─ errors ────▶ one ERROR, or rows of problems
//! ```
//!
//! A source runs with its owner's rights. So only members of that role may define what the source
//! reads, the collection that it fills and the secret that it uses, and these are checked with the
//! owner's rights. Members of rag_admin may change the rest, such as its schedule and retries.

use std::time::Duration;

use pgrx::{PgSqlErrorCode, datum::Interval, pg_sys::panic::ErrorReport, prelude::PgLogLevel};
use rag_definition::{
    FieldProblem, Quota, SecretRef,
    name::{self, DEFAULT_NAMESPACE},
};
use rag_schedule::Schedule;
use serde_json::Value;

use super::{
    check::{self, ResolvedSpec, required},
    collection_state,
    table::definition::NewTableSource,
    timing::{conditions_of_new, follows_table, warn_of_idle},
};
use crate::{
    catalog::{
        name::Name,
        runs::{self, Trigger},
        sources::{self, SourceDefinition},
    },
    cluster::{news, shared},
    error::{Error, definition::DefinitionErrors},
    pg::{roles, spi::as_owner},
    run::schedule,
    secrets,
};

/// The timeout of a run if the definition has none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Returns a time as Postgres's type. A time that is too long becomes infinite.
pub fn interval(time: Duration) -> Interval {
    Interval::from_seconds(time.as_secs_f64())
}

/// What syncs a source, for [`warn_of_idle`].
pub const BY_SCHEDULE: &str = "by its schedule";
pub const BY_TRIGGER: &str = "when its table changes";

/// The arguments that define a source. `None` means NULL for a new source, and no change for one
/// that exists.
#[derive(Default)]
pub struct SourceArguments<'a> {
    pub name: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub spec: Option<&'a Value>,
    pub collection: Option<&'a str>,
    /// Empty removes the schedule of a source that exists.
    pub schedule: Option<&'a str>,
    /// `secret` or `secret/key`. Empty removes the secret of a source that exists.
    pub credentials: Option<&'a str>,
    pub max_retries: Option<i32>,
    pub timeout: Option<Interval>,
    pub suspend: Option<bool>,
    pub drift_policy: Option<&'a str>,
    /// 0 means no limit.
    pub max_documents: Option<i64>,
    pub max_bytes: Option<i64>,
    pub owner: Option<&'a str>,
}

/// The definition of a new source, checked.
struct NewDefinition {
    definition: SourceDefinition,
    resolved: ResolvedSpec,
    schedule: Option<Schedule>,
}

impl NewDefinition {
    /// Checks all arguments but the name.
    fn check(arguments: &SourceArguments<'_>, errors: &mut DefinitionErrors) -> Option<Self> {
        let kind = required("kind", arguments.kind, errors);
        let spec = required("spec", arguments.spec, errors);
        let namespace = arguments
            .name
            .map_or(DEFAULT_NAMESPACE, |name| name::split(name).0);
        let credentials = arguments
            .credentials
            .map(|text| SecretRef::parse(text).within(namespace));
        let owner = check::owner(arguments.owner, errors);
        let role = owner.as_ref().map_or_else(roles::current, |owner| owner.id);
        let resolved = match (kind, spec) {
            (Some(kind), Some(spec)) => check::spec(kind, spec, credentials.as_ref(), role, errors),
            _ => None,
        };
        let collection = required("collection", arguments.collection, errors);
        if let Some(name) = collection {
            check::collection(name, role, errors);
        }
        let schedule = arguments.schedule.map(|text| check::schedule(text, errors));
        let max_retries = required("max_retries", arguments.max_retries, errors);
        if let Some(number) = max_retries {
            check::max_retries(number, errors);
        }
        let timeout = required("timeout", arguments.timeout, errors);
        if let Some(time) = timeout {
            check::timeout(time, errors);
        }
        let suspend = required("suspend", arguments.suspend, errors);
        let drift_policy = required("drift_policy", arguments.drift_policy, errors)
            .and_then(|name| check::drift_policy(name, errors));
        let quota = check::quota(Quota::default(), arguments, errors);
        let resolved = resolved?;
        Some(Self {
            definition: SourceDefinition {
                kind: kind?.to_string(),
                spec: resolved.json.clone(),
                collection: collection?.to_string(),
                owner: owner?,
                relation: resolved.table.as_ref().map(NewTableSource::identity),
                credentials,
                schedule: arguments.schedule.map(String::from),
                max_retries: max_retries?,
                timeout: timeout?,
                suspend: suspend?,
                drift_policy: drift_policy?,
                quota,
            },
            resolved,
            schedule: match schedule {
                Some(parsed) => Some(parsed?),
                None => None,
            },
        })
    }
}

/// Collects the errors in the definition of a new source. A missing name is no error.
///
/// # Errors
/// A statement fails.
pub fn validate(
    arguments: &SourceArguments<'_>,
    errors: &mut DefinitionErrors,
) -> Result<(), Error> {
    if let Some(name) = arguments.name {
        check::new_name(name, errors);
    }
    NewDefinition::check(arguments, errors);
    let collection = arguments.collection.unwrap_or_default();
    for problem in collection_state::problems(collection)? {
        errors.warn(problem);
    }
    Ok(())
}

/// Creates a source, unless there are errors in its definition.
///
/// # Errors
/// Errors that are not about the definition.
pub fn create(arguments: &SourceArguments<'_>, errors: &mut DefinitionErrors) -> Result<(), Error> {
    let before = errors.len();
    let name =
        required("name", arguments.name, errors).and_then(|name| check::new_name(name, errors));
    if let (Some(text), Some(name)) = (arguments.credentials, &name) {
        secrets::lock_until_commit(
            &SecretRef::parse(text)
                .within(name::split(name.as_str()).0)
                .name,
        )?;
    }
    let checked = NewDefinition::check(arguments, errors);
    let (Some(name), Some(new)) = (name, checked) else {
        return Ok(());
    };
    if errors.len() > before {
        return Ok(());
    }
    let warnings = errors.take_warnings();
    let definition = &new.definition;
    let follows = follows_table(Some(&new.resolved.spec));
    let conditions = conditions_of_new(
        definition.schedule.as_deref(),
        definition.suspend,
        follows,
        warnings.first(),
    );
    let next_run = schedule::next_run(new.schedule.as_ref(), false)?;
    if !as_owner(|owner| sources::create(owner, &name, definition, next_run, &conditions))? {
        errors.add("name", sources::name_taken(&name));
        return Ok(());
    }
    if let Some(table) = &new.resolved.table {
        table.report_choices();
        table.prepare(&name)?;
    }
    report_warnings(&name, &warnings);
    report_collection(&name, &definition.collection)?;
    if definition.schedule.is_some() {
        if !warn_of_idle(&name, BY_SCHEDULE) && !definition.suspend {
            // the first time of the schedule may be far away
            as_owner(|owner| runs::queue(owner, name.as_str(), Trigger::Create))?;
        }
    } else if follows && !shared::is_present() {
        warn_of_idle(&name, BY_TRIGGER);
    }
    if definition.schedule.is_none() && !definition.suspend {
        news::start_new_at_commit();
    }
    news::wake_scheduler_at_commit();
    Ok(())
}

/// Reports the warnings of a definition that was accepted, each as a NOTICE.
pub fn report_warnings(source: &Name, warnings: &[FieldProblem]) {
    report(source, warnings, PgLogLevel::NOTICE);
}

/// Reports the problems of the collection that a source is going to fill, each as a WARNING.
///
/// # Errors
/// A statement fails.
pub fn report_collection(source: &Name, collection: &str) -> Result<(), Error> {
    let problems = collection_state::problems(collection)?;
    report(source, &problems, PgLogLevel::WARNING);
    Ok(())
}

fn report(source: &Name, problems: &[FieldProblem], level: PgLogLevel) {
    let code = match level {
        PgLogLevel::WARNING => PgSqlErrorCode::ERRCODE_WARNING,
        _ => PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
    };
    for problem in problems {
        let message = format!("source \"{source}\": {}", problem.message);
        let report = ErrorReport::new(code, message, "rag");
        match &problem.hint {
            Some(hint) => report.set_hint(hint).report(level),
            None => report.report(level),
        }
    }
}
