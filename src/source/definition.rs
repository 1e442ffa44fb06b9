//! What people say of a source: checked as a whole, then made or altered.
//!
//! ```text
//!  rag_create_source ─┐                       ┌─ none ──▶ rag.source, triggers of a table
//!  rag_alter_source  ─┼─▶ Given ─▶ checks ─▶ Faults
//!  rag_apply         ─┘                       └─ some ──▶ one error, or the rows of rag_validate_source
//! ```
//!
//! A source runs with its owner's rights. So what it reads, where to and with which secret is for
//! members of that role alone to say, and checked with the owner's rights; members of rag_admin may
//! do the rest: when it is synced, how often it is tried again.

use std::time::Duration;

use pgrx::{
    PgSqlErrorCode,
    datum::{Interval, TimestampWithTimeZone},
    pg_sys::panic::ErrorReport,
    prelude::PgLogLevel,
};
use rag_protocol::{
    labels::Labels,
    name::{self, DEFAULT_NAMESPACE},
    spec::{Problem, SourceSpec},
};
use rag_schedule::Schedule;
use serde_json::Value;

use super::{
    check::{self, Reading, required},
    table::{changes, definition::NewTable},
    timing::{conditions_of_new, follows_table, next_time, ready, scheduled, warn_of_idle},
};
pub use super::{
    errors::Faults,
    timing::{reschedule, resume, suspend},
};
use crate::{
    catalog::{
        access,
        conditions::Changes,
        name::{Name, canonical},
        secrets::Named,
        sources::{self, Altered, DriftPolicy, Identity, NewSource, Source, Stored},
    },
    cluster::{news, shared},
    error::Error,
    pg::roles::{self, Owner},
    run::schedule,
    secrets,
};

/// Most time of a run where nothing is said.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A time as Postgres has it; too long a one is infinite.
pub fn interval(time: Duration) -> Interval {
    Interval::from_seconds(time.as_secs_f64())
}

/// By what a source is synced, for [`warn_of_idle`].
const BY_SCHEDULE: &str = "by its schedule";
const BY_TRIGGER: &str = "when its table changes";

/// What is said of a source. `None` is no value where it is made, and no change where it is
/// altered.
#[derive(Default)]
pub struct Given<'a> {
    pub name: Option<&'a str>,
    pub kind: Option<&'a str>,
    pub spec: Option<&'a Value>,
    pub collection: Option<&'a str>,
    /// Empty where it is altered: none.
    pub schedule: Option<&'a str>,
    /// `secret` or `secret/key`. Empty where it is altered: none.
    pub credentials: Option<&'a str>,
    pub max_retries: Option<i32>,
    pub timeout: Option<Interval>,
    pub suspend: Option<bool>,
    pub drift_policy: Option<&'a str>,
    pub owner: Option<&'a str>,
}

/// All of a new source, checked.
struct Checked<'a> {
    kind: &'a str,
    reading: Reading,
    collection: &'a str,
    schedule: Option<Schedule>,
    credentials: Option<Named>,
    max_retries: i32,
    timeout: Interval,
    suspend: bool,
    drift_policy: DriftPolicy,
    owner: Owner,
}

impl<'a> Checked<'a> {
    /// Checks all but the name.
    fn new(given: &Given<'a>, faults: &mut Faults) -> Option<Self> {
        let kind = required("kind", given.kind, faults);
        let spec = required("spec", given.spec, faults);
        let namespace = given
            .name
            .map_or(DEFAULT_NAMESPACE, |name| name::split(name).0);
        let credentials = given.credentials.map(|text| Named::parse(text, namespace));
        let owner = check::owner(given.owner, faults);
        let reading = match (kind, spec) {
            (Some(kind), Some(spec)) => {
                let role = owner.as_ref().map_or_else(roles::current, |owner| owner.id);
                check::reading(kind, spec, credentials.as_ref(), role, faults)
            }
            _ => None,
        };
        let collection = required("collection", given.collection, faults);
        let filler = owner.as_ref().map_or_else(roles::current, |owner| owner.id);
        collection
            .into_iter()
            .for_each(|name| check::collection(name, filler, faults));
        let schedule = given.schedule.map(|text| check::schedule(text, faults));
        let max_retries = required("max_retries", given.max_retries, faults);
        max_retries
            .into_iter()
            .for_each(|number| check::max_retries(number, faults));
        let timeout = required("timeout", given.timeout, faults);
        timeout
            .into_iter()
            .for_each(|time| check::timeout(time, faults));
        let suspend = required("suspend", given.suspend, faults);
        let drift_policy = required("drift_policy", given.drift_policy, faults);
        let drift_policy = drift_policy.and_then(|name| check::drift_policy(name, faults));
        Some(Self {
            kind: kind?,
            reading: reading?,
            collection: collection?,
            schedule: match schedule {
                Some(parsed) => Some(parsed?),
                None => None,
            },
            credentials,
            max_retries: max_retries?,
            timeout: timeout?,
            suspend: suspend?,
            drift_policy: drift_policy?,
            owner: owner?,
        })
    }
}

/// Notes what is wrong with the definition of a new source; without a name that is not looked at.
pub fn validate(given: &Given<'_>, faults: &mut Faults) {
    given
        .name
        .into_iter()
        .for_each(|name| drop(check::new_name(name, faults)));
    Checked::new(given, faults);
}

/// Makes a source, unless something is wrong with its definition.
///
/// # Errors
/// What has nothing to do with the definition.
pub fn create(given: &Given<'_>, faults: &mut Faults) -> Result<(), Error> {
    let before = faults.len();
    let name = required("name", given.name, faults).and_then(|name| check::new_name(name, faults));
    if let (Some(text), Some(name)) = (given.credentials, &name) {
        secrets::hold(&Named::parse(text, name::split(name.as_str()).0).secret)?;
    }
    let checked = Checked::new(given, faults);
    let (Some(name), Some(new)) = (name, checked) else {
        return Ok(());
    };
    if faults.len() > before {
        return Ok(());
    }
    let missing = faults.take_warnings();
    let follows = follows_table(Some(&new.reading.spec));
    let is_made = sources::create(NewSource {
        name: &name,
        kind: new.kind,
        spec: pgrx::JsonB(new.reading.json),
        collection: new.collection,
        owner: &new.owner,
        relation: new.reading.table.as_ref().map(NewTable::identity),
        credentials: new.credentials.as_ref().map(|named| named.secret.as_str()),
        credentials_key: new
            .credentials
            .as_ref()
            .and_then(|named| named.key.as_deref()),
        schedule: given.schedule,
        max_retries: new.max_retries,
        timeout: new.timeout,
        suspend: new.suspend,
        drift_policy: new.drift_policy,
        next_run: schedule::next_run(new.schedule.as_ref(), false)?,
        conditions: conditions_of_new(given.schedule, new.suspend, follows, missing.first()),
    })?;
    if !is_made {
        faults.add("name", sources::taken(&name));
        return Ok(());
    }
    if let Some(table) = &new.reading.table {
        table.tell();
        table.prepare(&name)?;
    }
    tell(&name, &missing);
    if given.schedule.is_some() {
        warn_of_idle(&name, BY_SCHEDULE);
    } else if follows && !shared::is_present() {
        warn_of_idle(&name, BY_TRIGGER);
    }
    if given.schedule.is_none() && !new.suspend {
        news::start_new_at_commit();
    }
    news::wake_scheduler_at_commit();
    Ok(())
}

/// Tells the caller what is remarkable about a definition that was taken.
fn tell(source: &Name, remarkable: &[Problem]) {
    for problem in remarkable {
        let message = format!("source \"{source}\": {}", problem.problem);
        let report = ErrorReport::new(
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            message,
            "rag",
        );
        match &problem.hint {
            Some(hint) => report.set_hint(hint).report(PgLogLevel::NOTICE),
            None => report.report(PgLogLevel::NOTICE),
        }
    }
}

/// The row of a source that the caller may do something to, as it is once nobody else changes it.
/// Who may not neither waits for it nor is in the way of others.
///
/// # Errors
/// The caller may not manage the source: [`access::require_source_manager`].
pub fn lock(name: &str, to_do: &str) -> Result<Option<Stored>, Error> {
    // first, or strangers could lock it
    let found = sources::owner_and_collection(name)?;
    access::require_source_manager(
        found
            .as_ref()
            .map(|(owner, collection)| (owner, collection.as_str())),
        to_do,
    )?;
    let stored = sources::lock(name)?;
    access::require_source_manager(
        stored
            .as_ref()
            .map(|stored| (&stored.owner, stored.collection.as_str())),
        to_do,
    )?;
    Ok(stored)
}

/// Alters a source, unless something is wrong with its new definition; whether anything is
/// different then.
///
/// # Errors
/// There is no such source, or the caller may not; or what has nothing to do with the definition.
pub fn alter(given: &Given<'_>, faults: &mut Faults) -> Result<bool, Error> {
    let before = faults.len();
    let Some(name) = required("name", given.name, faults) else {
        return Ok(false);
    };
    let name = canonical(name);
    let stored = lock(name, "alter a source")?.ok_or_else(|| Source::missing(name))?;

    let source = Substance::of(given, &stored);
    let owner = match source.difference(&stored)? {
        None => None,
        Some(field) => source.check_definer(field, given, &stored, faults)?,
    };
    let reading = owner.as_ref().and_then(|owner| {
        check::reading(
            source.kind,
            source.spec,
            source.credentials.as_ref(),
            owner.id,
            faults,
        )
    });
    let schedule = match given.schedule {
        Some("") => None,
        Some(text) => Some(text),
        None => stored.schedule.as_deref(),
    };
    let has_schedule_changed = schedule != stored.schedule.as_deref();
    let suspend = given.suspend.unwrap_or(stored.suspend);
    let resumes = stored.suspend && !suspend;
    let mut timing = Timing {
        schedule: schedule.and_then(|text| match has_schedule_changed || resumes {
            true => check::schedule(text, faults),
            false => None,
        }),
        has_changed: has_schedule_changed,
        resumes,
        is_by_hand: schedule.is_none(),
    };
    given
        .max_retries
        .into_iter()
        .for_each(|number| check::max_retries(number, faults));
    given
        .timeout
        .into_iter()
        .for_each(|time| check::timeout(time, faults));
    let drift_policy = given
        .drift_policy
        .and_then(|name| check::drift_policy(name, faults));
    if faults.len() > before {
        return Ok(false);
    }

    let relation = match &reading {
        Some(reading) => reading.table.as_ref().map(NewTable::identity),
        None => stored.relation,
    };
    let reads_other = relation != stored.relation
        || reading
            .as_ref()
            .is_some_and(|reading| !stored.means(&reading.spec, &reading.labels));
    let has_other_substance = reads_other
        || source.collection != stored.collection
        || source.credentials != stored.named()
        || reading.is_some() && stored.parsed().is_none();
    let has_changed = has_other_substance
        || !source.has_same_owner(&stored)
        || has_schedule_changed
        || suspend != stored.suspend
        || given
            .max_retries
            .is_some_and(|number| number != stored.max_retries)
        || given
            .timeout
            .is_some_and(|time| time.as_micros() != i128::from(stored.timeout_microseconds))
        || drift_policy.is_some_and(|policy| policy.name() != stored.drift_policy);
    if !has_changed {
        return Ok(false);
    }
    if timing.schedule.is_none() && stored.next_run.is_none() && !suspend {
        // it could not be kept before, and is said to be from now on
        timing.schedule = schedule.and_then(|text| check::schedule(text, faults));
        if faults.len() > before {
            return Ok(false);
        }
    }

    let missing = faults.take_warnings();
    let follows = match &reading {
        Some(reading) => follows_table(Some(&reading.spec)),
        None => follows_table(stored.parsed().as_ref()),
    };
    let mut conditions = scheduled(
        Changes::at(stored.generation + 1),
        schedule,
        suspend,
        follows,
    );
    if owner.is_some() {
        conditions = ready(conditions, missing.first());
    }
    let json = reading
        .as_ref()
        .filter(|_| reads_other)
        .map_or(&stored.spec, |reading| &reading.json);
    sources::alter(Altered {
        name: &stored.name,
        kind: source.kind,
        spec: pgrx::JsonB(json.clone()),
        collection: source.collection,
        owner: owner.as_ref().unwrap_or(&stored.owner),
        relation,
        credentials: source
            .credentials
            .as_ref()
            .map(|named| named.secret.as_str()),
        credentials_key: source
            .credentials
            .as_ref()
            .and_then(|named| named.key.as_deref()),
        schedule,
        max_retries: given.max_retries.unwrap_or(stored.max_retries),
        timeout: given.timeout,
        suspend,
        drift_policy: drift_policy.map_or(&stored.drift_policy, |policy| policy.name()),
        next_run: timing.next_run(&stored, has_other_substance)?,
        reboots_anew: has_schedule_changed,
        conditions,
    })?;
    if reads_other {
        follow_table(&stored, reading.as_ref())?;
        tell(&stored.name, &missing);
    }
    if has_schedule_changed && schedule.is_some() {
        warn_of_idle(&stored.name, BY_SCHEDULE);
    } else if reads_other && follows && schedule.is_none() && !shared::is_present() {
        warn_of_idle(&stored.name, BY_TRIGGER);
    }
    if schedule.is_none() && !suspend {
        news::start_new_at_commit();
    }
    news::wake_scheduler_at_commit();
    Ok(true)
}

/// Takes the triggers of what was read away, and installs those of what is read now.
fn follow_table(stored: &Stored, reading: Option<&Reading>) -> Result<(), Error> {
    changes::forget(
        &stored.name,
        stored.relation.map(|relation| relation.relation),
    )?;
    if let Some(table) = reading.and_then(|reading| reading.table.as_ref()) {
        table.tell();
        table.prepare(&stored.name)?;
    }
    Ok(())
}

/// What a source reads, where to, with which rights and secret: for members of its owner to say.
struct Substance<'a> {
    kind: &'a str,
    spec: &'a Value,
    collection: &'a str,
    credentials: Option<Named>,
    /// `None`: the one it has.
    owner: Option<&'a str>,
    /// The spec is said, not kept.
    says_spec: bool,
}

impl<'a> Substance<'a> {
    fn of(given: &Given<'a>, stored: &'a Stored) -> Self {
        Self {
            kind: given.kind.unwrap_or(&stored.kind),
            spec: given.spec.unwrap_or(&stored.spec),
            collection: given.collection.unwrap_or(&stored.collection),
            credentials: match given.credentials {
                None => stored.named(),
                Some("") => None,
                Some(text) => Some(Named::parse(text, name::split(stored.name.as_str()).0)),
            },
            owner: given.owner,
            says_spec: given.spec.is_some(),
        }
    }

    /// The first field that is not the stored one, as far as can be told without looking at what is
    /// read: what is left out of the spec of a table is picked from its columns. A spec that is
    /// said again accepts the relation that its name means now.
    fn difference(&self, stored: &Stored) -> Result<Option<&'static str>, Error> {
        let parsed = SourceSpec::parse(self.kind, self.spec).ok();
        let mut reads_same = self.kind == stored.kind && *self.spec == stored.spec
            || parsed
                .as_ref()
                .is_some_and(|parsed| stored.means(parsed, &Labels::of_spec(self.spec)));
        if let (true, true, Some(SourceSpec::Table(table))) = (reads_same, self.says_spec, &parsed)
        {
            let now = Identity::named(&table.relation)?;
            reads_same = now.is_none() || now == stored.relation;
        }
        let fields = [
            ("kind", reads_same || self.kind == stored.kind),
            ("spec", reads_same),
            ("collection", self.collection == stored.collection),
            ("credentials", self.credentials == stored.named()),
            ("owner", self.has_same_owner(stored)),
        ];
        Ok(fields
            .into_iter()
            .find(|(_, is_same)| !is_same)
            .map(|(field, _)| field))
    }

    /// Whether the owner stays. A role of the same name that was made later is another one.
    fn has_same_owner(&self, stored: &Stored) -> bool {
        self.owner.is_none_or(|name| stored.owner.is_named(name))
    }

    /// Asks whether the caller may say this, of which `field` is another one, before anything is
    /// looked at with the owner's rights; the owner there will be, whose rights it is then checked
    /// with. `None`: there are faults.
    fn check_definer(
        &self,
        field: &str,
        given: &Given<'_>,
        stored: &Stored,
        faults: &mut Faults,
    ) -> Result<Option<Owner>, Error> {
        if !roles::may_act_for(roles::current(), stored.owner.id) {
            let denied = Error::permission_denied(format!(
                "permission denied to alter what source \"{}\" reads",
                stored.name
            ))
            .detail(format!("It runs with the rights of role \"{}\".", stored.owner.name))
            .hint(
                "Only members of that role, and superusers, may alter kind, spec, collection, credentials and owner.",
            );
            faults.add(field, denied);
            return Ok(None);
        }
        if let (Some(_), Some(named)) = (given.credentials, &self.credentials) {
            secrets::hold(&named.secret)?;
        }
        let owner = match self.has_same_owner(stored) {
            true => faults
                .note("owner", stored.owner.role())
                .map(|_| stored.owner.clone()),
            // where there are faults it is not used
            false => Some(check::owner(self.owner, faults).unwrap_or(Owner::current()?)),
        };
        if let Some(owner) = &owner {
            check::collection(self.collection, owner.id, faults);
        }
        Ok(owner)
    }
}

/// What becomes of the time of the next run.
struct Timing {
    /// Parsed where it is needed.
    schedule: Option<Schedule>,
    has_changed: bool,
    resumes: bool,
    /// Without a schedule it is synced once.
    is_by_hand: bool,
}

impl Timing {
    fn next_run(
        &self,
        stored: &Stored,
        has_other_substance: bool,
    ) -> Result<Option<TimestampWithTimeZone>, Error> {
        if !self.is_by_hand {
            // also of one that could not be kept before
            let from_now = self.has_changed || self.resumes || stored.next_run.is_none();
            return if from_now {
                next_time(self.schedule.as_ref())
            } else {
                Ok(stored.next_run)
            };
        }
        // what was the next time of a schedule that is gone is none
        let is_due = has_other_substance
            || !stored.has_run
            || (!self.has_changed && stored.next_run.is_some());
        Ok(is_due.then(schedule::now))
    }
}
