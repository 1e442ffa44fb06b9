//! The identity of the relation that a source reads, its OID and its owner, and a hook that lets a
//! statement read only that relation.
//!
//! A statement names its relation. Renaming the relation can give the name another meaning, which a
//! lock prevents; so can renaming its schema, which no lock prevents. So each statement is checked
//! after Postgres has resolved its names and before it is executed: its only relation must have the
//! expected OID.

use std::{cell::RefCell, ffi::CString};

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::{
    catalog::{name::Name, sources::RelationIdentity},
    error::Error,
    pg::{
        hooks::{self, Statement},
        lookup, roles,
        spi::as_caller,
    },
};

impl RelationIdentity {
    /// Returns the relation that a qualified name means now.
    pub fn by_name(relation: &str) -> Result<Option<Self>, Error> {
        let found = as_caller(|caller| {
            caller.query(
                "SELECT oid, relowner FROM pg_class WHERE oid = to_regclass($1)::oid",
                &[relation.into()],
                |row| {
                    Ok(Self {
                        relation: row.required("oid")?,
                        owner: row.required("relowner")?,
                    })
                },
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Locks the relation until the transaction ends, so that it is not renamed, dropped or given
    /// to another owner.
    ///
    /// # Errors
    /// The relation was dropped, or has another owner now.
    pub fn hold(&self) -> Result<(), Error> {
        lookup::lock_relation(self.relation, pg_sys::AccessShareLock);
        match lookup::relation_owner(self.relation) {
            Some(owner) if owner == self.owner => Ok(()),
            Some(_) => Err(not_as_defined(
                "the owner of the relation that the source reads was changed",
            )),
            None => Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
                "the relation that the source reads was dropped",
            )),
        }
    }

    /// Returns the name of the relation as it is written in a statement, or None if it was dropped.
    pub fn current_name(&self) -> Result<Option<String>, Error> {
        let found = as_caller(|caller| {
            caller.query(
                "SELECT oid::regclass::text AS name FROM pg_class WHERE oid = $1",
                &[self.relation.into()],
                |row| row.required("name"),
            )
        })?;
        Ok(found.into_iter().next())
    }
}

fn not_as_defined(message: impl Into<String>) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        message,
    )
}

/// # Errors
/// The relation, or its owner, is not the one for which the source was defined.
pub fn check(
    source: &Name,
    relation: &str,
    stored: Option<RelationIdentity>,
    now: RelationIdentity,
) -> Result<(), Error> {
    let role = |id| roles::name_of(id).unwrap_or_else(|| format!("(OID {})", u32::from(id)));
    let error = match stored {
        Some(stored) if stored == now => return Ok(()),
        Some(stored) if stored.relation == now.relation => not_as_defined(format!(
            "relation {relation} has had another owner since source \"{source}\" was defined"
        ))
        .detail(format!(
            "Its owner is now role \"{}\" and was role \"{}\".",
            role(now.owner),
            role(stored.owner)
        )),
        Some(_) => not_as_defined(format!(
            "relation {relation} is another one than when source \"{source}\" was defined"
        ))
        .detail("It was created or renamed later."),
        None => not_as_defined(format!(
            "relation {relation} did not exist when the dump with source \"{source}\" was restored"
        )),
    };
    Err(error.hint(format!(
        "The owner of the source accepts the present relation with rag_alter_source('{source}', \
         spec => (SELECT spec FROM rag.sources WHERE name = '{source}'))."
    )))
}

/// A statement, and the only relation that it may read.
struct ExpectedStatement {
    statement: CString,
    relation: pg_sys::Oid,
}

thread_local! {
    static EXPECTED_STATEMENT: RefCell<Option<ExpectedStatement>> = const { RefCell::new(None) };
}

/// Runs `f`. In it, `statement` fails if it reads any other relation than this one.
pub fn reading_only<R>(relation: pg_sys::Oid, statement: &str, f: impl FnOnce() -> R) -> R {
    struct Reset(Option<ExpectedStatement>);
    impl Drop for Reset {
        fn drop(&mut self) {
            EXPECTED_STATEMENT.set(self.0.take());
        }
    }
    let statement = CString::new(statement).unwrap_or_default();
    let _reset = Reset(EXPECTED_STATEMENT.replace(Some(ExpectedStatement {
        statement,
        relation,
    })));
    f()
}

/// Installs [`check_statement`], which is called for each statement whose names were resolved.
pub fn watch_statements() {
    hooks::watch_statements(check_statement);
}

/// Raises an error if the statement is the expected one and its relation is another.
fn check_statement(statement: &Statement<'_>) {
    let expected = EXPECTED_STATEMENT.with_borrow(|expected| {
        let expected = expected.as_ref()?;
        (statement.text == expected.statement.as_c_str()).then_some(expected.relation)
    });
    if expected.is_some_and(|relation| !statement.reads_only(relation)) {
        not_as_defined("the name of the relation that the source reads now means another relation")
            .raise();
    }
}
