//! Altering the definition of a source.

use pgrx::datum::TimestampWithTimeZone;
use rag_definition::{SecretRef, labels::Labels, name, source::SourceSpec};
use rag_schedule::Schedule;
use serde_json::Value;

use super::{
    check::{self, ResolvedSpec, required},
    definition::{BY_SCHEDULE, BY_TRIGGER, SourceArguments, report_collection, report_warnings},
    manage,
    table::{changes, definition::NewTableSource},
    timing::{follows_table, next_time, ready, scheduled, warn_of_idle},
};
use crate::{
    catalog::{
        conditions::ConditionChanges,
        name::canonical,
        sources::{self, RelationIdentity, Source, SourceDefinition, SourceRow},
    },
    cluster::{news, shared},
    error::{Error, definition::DefinitionErrors},
    pg::{
        roles::{self, Owner},
        spi::as_owner,
    },
    run::schedule,
    secrets,
};

/// Alters a source, unless there are errors in its new definition. Returns true if the definition
/// has changed.
///
/// # Errors
/// The source does not exist, the caller may not alter it, or errors that are not about the
/// definition.
pub fn alter(
    arguments: &SourceArguments<'_>,
    errors: &mut DefinitionErrors,
) -> Result<bool, Error> {
    let before = errors.len();
    let Some(name) = required("name", arguments.name, errors) else {
        return Ok(false);
    };
    let name = canonical(name);
    let row = manage::lock(name, "alter a source")?.ok_or_else(|| Source::missing(name))?;
    let stored = &row.definition;

    let fields = ProtectedFields::new(arguments, &row);
    let owner = match fields.first_difference(stored)? {
        None => None,
        Some(field) => fields.check_definer(field, arguments, &row, errors)?,
    };
    let resolved = owner.as_ref().and_then(|owner| {
        let credentials = fields.credentials.as_ref();
        check::spec(fields.kind, fields.spec, credentials, owner.id, errors)
    });
    let schedule = match arguments.schedule {
        Some("") => None,
        Some(text) => Some(text),
        None => stored.schedule.as_deref(),
    };
    let suspend = arguments.suspend.unwrap_or(stored.suspend);
    let mut timing = Timing::new(schedule, suspend, stored);
    if timing.schedule_has_changed || timing.resumes {
        timing.parsed = schedule.and_then(|text| check::schedule(text, errors));
    }
    if let Some(number) = arguments.max_retries {
        check::max_retries(number, errors);
    }
    if let Some(time) = arguments.timeout {
        check::timeout(time, errors);
    }
    let drift_policy = arguments
        .drift_policy
        .and_then(|name| check::drift_policy(name, errors));
    let quota = check::quota(stored.quota, arguments, errors);
    if errors.len() > before {
        return Ok(false);
    }

    let relation = match &resolved {
        Some(resolved) => resolved.table.as_ref().map(NewTableSource::identity),
        None => stored.relation,
    };
    let reads_other = relation != stored.relation
        || resolved
            .as_ref()
            .is_some_and(|resolved| !stored.means(&resolved.spec, &resolved.labels));
    let new = SourceDefinition {
        kind: fields.kind.to_string(),
        // a spec with the same meaning is no change
        spec: match &resolved {
            Some(resolved) if reads_other => resolved.json.clone(),
            _ => stored.spec.clone(),
        },
        collection: fields.collection.to_string(),
        owner: owner.clone().unwrap_or_else(|| stored.owner.clone()),
        relation,
        credentials: fields.credentials.clone(),
        schedule: schedule.map(String::from),
        max_retries: arguments.max_retries.unwrap_or(stored.max_retries),
        timeout: arguments.timeout.unwrap_or(stored.timeout),
        suspend,
        drift_policy: drift_policy.unwrap_or(stored.drift_policy),
        quota,
    };
    let is_due_anew = reads_other
        || new.collection != stored.collection
        || new.credentials != stored.credentials
        || resolved.is_some() && stored.parsed().is_none();
    let has_changed = is_due_anew
        || !fields.keeps_owner(stored)
        || timing.schedule_has_changed
        || new.suspend != stored.suspend
        || new.max_retries != stored.max_retries
        || new.timeout.as_micros() != stored.timeout.as_micros()
        || new.drift_policy != stored.drift_policy
        || new.quota != stored.quota;
    if !has_changed {
        return Ok(false);
    }
    if timing.parsed.is_none() && row.next_run.is_none() && !suspend {
        // the schedule was invalid before; this definition accepts it again
        timing.parsed = schedule.and_then(|text| check::schedule(text, errors));
        if errors.len() > before {
            return Ok(false);
        }
    }

    let warnings = errors.take_warnings();
    let follows = match &resolved {
        Some(resolved) => follows_table(Some(&resolved.spec)),
        None => follows_table(stored.parsed().as_ref()),
    };
    let mut conditions = scheduled(
        ConditionChanges::at(row.generation + 1),
        schedule,
        suspend,
        follows,
    );
    if owner.is_some() {
        conditions = ready(conditions, warnings.first());
    }
    let next_run = timing.next_run(&row, is_due_anew)?;
    as_owner(|owner| {
        sources::update(
            owner,
            &row.name,
            &new,
            next_run,
            &conditions,
            timing.schedule_has_changed,
        )
    })?;
    if reads_other {
        replace_triggers(&row, resolved.as_ref())?;
        report_warnings(&row.name, &warnings);
    }
    if new.collection != stored.collection {
        report_collection(&row.name, &new.collection)?;
    }
    if timing.schedule_has_changed && schedule.is_some() {
        warn_of_idle(&row.name, BY_SCHEDULE);
    } else if reads_other && follows && schedule.is_none() && !shared::is_present() {
        warn_of_idle(&row.name, BY_TRIGGER);
    }
    if schedule.is_none() && !suspend {
        news::start_new_at_commit();
    }
    news::wake_scheduler_at_commit();
    Ok(true)
}

/// Drops the triggers on the relation that the source read before, and creates those on the
/// relation that it reads now.
fn replace_triggers(row: &SourceRow, resolved: Option<&ResolvedSpec>) -> Result<(), Error> {
    let relation = row.definition.relation;
    changes::remove_tracking(&row.name, relation.map(|relation| relation.relation))?;
    if let Some(table) = resolved.and_then(|resolved| resolved.table.as_ref()) {
        table.report_choices();
        table.prepare(&row.name)?;
    }
    Ok(())
}

/// The fields that only members of the source's owner may change: its spec, collection, owner and
/// secret.
struct ProtectedFields<'a> {
    kind: &'a str,
    spec: &'a Value,
    collection: &'a str,
    credentials: Option<SecretRef>,
    /// `None` keeps the owner.
    owner: Option<&'a str>,
    /// The spec is an argument, not the stored one.
    has_new_spec: bool,
}

impl<'a> ProtectedFields<'a> {
    fn new(arguments: &SourceArguments<'a>, row: &'a SourceRow) -> Self {
        let stored = &row.definition;
        Self {
            kind: arguments.kind.unwrap_or(&stored.kind),
            spec: arguments.spec.unwrap_or(&stored.spec),
            collection: arguments.collection.unwrap_or(&stored.collection),
            credentials: match arguments.credentials {
                None => stored.credentials.clone(),
                Some("") => None,
                Some(text) => Some(SecretRef::parse(text).within(name::split(row.name.as_str()).0)),
            },
            owner: arguments.owner,
            has_new_spec: arguments.spec.is_some(),
        }
    }

    /// Returns the first field that differs from the stored one, as far as can be known without
    /// reading the source: columns that the spec of a table leaves out are chosen later.
    ///
    /// Giving the same spec again accepts the relation that its name means now.
    fn first_difference(&self, stored: &SourceDefinition) -> Result<Option<&'static str>, Error> {
        let parsed = SourceSpec::parse(self.kind, self.spec).ok();
        let mut reads_same = self.kind == stored.kind && *self.spec == stored.spec
            || parsed
                .as_ref()
                .is_some_and(|parsed| stored.means(parsed, &Labels::of_spec(self.spec)));
        if let (true, true, Some(SourceSpec::Table(table))) =
            (reads_same, self.has_new_spec, &parsed)
        {
            let now = RelationIdentity::by_name(&table.relation)?;
            reads_same = now.is_none() || now == stored.relation;
        }
        let fields = [
            ("kind", reads_same || self.kind == stored.kind),
            ("spec", reads_same),
            ("collection", self.collection == stored.collection),
            ("credentials", self.credentials == stored.credentials),
            ("owner", self.keeps_owner(stored)),
        ];
        let difference = fields.into_iter().find(|(_, is_same)| !is_same);
        Ok(difference.map(|(field, _)| field))
    }

    /// Returns true if the owner stays. A role of the same name that was created later is another
    /// role.
    fn keeps_owner(&self, stored: &SourceDefinition) -> bool {
        self.owner.is_none_or(|name| stored.owner.is_named(name))
    }

    /// Checks that the caller may change `field`, before anything is read with the owner's rights.
    /// Returns the new owner, or None if there are errors.
    fn check_definer(
        &self,
        field: &str,
        arguments: &SourceArguments<'_>,
        row: &SourceRow,
        errors: &mut DefinitionErrors,
    ) -> Result<Option<Owner>, Error> {
        let stored = &row.definition;
        if !roles::may_act_for(roles::current(), stored.owner.id) {
            let denied = Error::permission_denied(format!(
                "permission denied to alter the definition of source \"{}\"",
                row.name
            ))
            .detail(format!(
                "The source runs with the rights of role \"{}\".",
                stored.owner.name
            ))
            .hint(
                "Only members of that role and superusers can alter kind, spec, collection, \
                 credentials and owner.",
            );
            errors.add(field, denied);
            return Ok(None);
        }
        if let (Some(_), Some(secret)) = (arguments.credentials, &self.credentials) {
            secrets::lock_until_commit(&secret.name)?;
        }
        let owner = if self.keeps_owner(stored) {
            errors
                .note("owner", stored.owner.role())
                .map(|_| stored.owner.clone())
        } else {
            // with errors the owner is not used
            Some(check::owner(self.owner, errors).unwrap_or(Owner::current()?))
        };
        if let Some(owner) = &owner {
            check::collection(self.collection, owner.id, errors);
        }
        Ok(owner)
    }
}

/// Decides when the altered source runs next.
struct Timing {
    /// The schedule, parsed if needed.
    parsed: Option<Schedule>,
    has_schedule: bool,
    schedule_has_changed: bool,
    resumes: bool,
}

impl Timing {
    fn new(schedule: Option<&str>, suspend: bool, stored: &SourceDefinition) -> Self {
        Self {
            parsed: None,
            has_schedule: schedule.is_some(),
            schedule_has_changed: schedule != stored.schedule.as_deref(),
            resumes: stored.suspend && !suspend,
        }
    }

    fn next_run(
        &self,
        row: &SourceRow,
        is_due_anew: bool,
    ) -> Result<Option<TimestampWithTimeZone>, Error> {
        if self.has_schedule {
            // a source without a next run had an invalid schedule
            let from_now = self.schedule_has_changed || self.resumes || row.next_run.is_none();
            return if from_now {
                next_time(self.parsed.as_ref())
            } else {
                Ok(row.next_run)
            };
        }
        // the next run of a removed schedule does not count
        let was_due = !self.schedule_has_changed && row.next_run.is_some();
        let is_due = is_due_anew || !row.has_run || was_due;
        Ok(is_due.then(schedule::now))
    }
}
