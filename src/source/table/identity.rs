//! Which relation a source reads: its OID and its owner, and how a statement is kept to it.
//!
//! A statement names its relation, and a name can come to mean another relation at any time: by a
//! rename of the relation, which a lock prevents, or of its schema, which none does. So each
//! statement is looked at once Postgres has resolved its names, before anything of it is executed:
//! it runs only if the one relation in it has the OID that is expected.
#![allow(unsafe_code)] // the hook, locks and the system caches

use std::{cell::RefCell, ffi::CString, sync::OnceLock};

use pgrx::{PgList, PgSqlErrorCode, pg_guard, pg_sys};

use crate::{
    catalog::{name::Name, sources::Identity},
    error::Error,
    pg::{roles, security::pinned, spi::query},
};

impl Identity {
    /// The relation that has a qualified name now.
    pub fn named(relation: &str) -> Result<Option<Self>, Error> {
        let found = pinned(|| {
            query(
                "SELECT oid, relowner FROM pg_class WHERE oid = to_regclass($1)::oid",
                &[relation.into()],
                |row| {
                    Ok(Self {
                        relation: row.required(1)?,
                        owner: row.required(2)?,
                    })
                },
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Keeps the relation from being renamed, dropped or given away until the transaction ends.
    ///
    /// # Errors
    /// It was dropped, or has another owner now.
    pub fn hold(&self) -> Result<(), Error> {
        // SAFETY: a lock on an OID, which needs no relation, then a system-cache look-up.
        let owner = unsafe {
            pg_sys::LockRelationOid(self.relation, pg_sys::AccessShareLock as i32);
            let tuple = pg_sys::SearchSysCache1(
                pg_sys::SysCacheIdentifier::RELOID as i32,
                self.relation.into(),
            );
            if tuple.is_null() {
                None
            } else {
                let owner =
                    (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
                pg_sys::ReleaseSysCache(tuple);
                Some(owner)
            }
        };
        match owner {
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

    /// The name of the relation, as statements have it, if there still is one.
    pub fn present_name(&self) -> Result<Option<String>, Error> {
        let found = pinned(|| {
            query(
                "SELECT oid::regclass::text FROM pg_class WHERE oid = $1",
                &[self.relation.into()],
                |row| row.required(1),
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
/// A source's relation is not the one, or not its owner's, that it was when the source was made.
pub fn check(
    source: &Name,
    relation: &str,
    stored: Option<Identity>,
    now: Identity,
) -> Result<(), Error> {
    let role = |id| roles::name_of(id).unwrap_or_else(|| format!("(OID {})", u32::from(id)));
    let error = match stored {
        Some(stored) if stored == now => return Ok(()),
        Some(stored) if stored.relation == now.relation => not_as_defined(format!(
            "relation {relation} has another owner than when source \"{source}\" was defined"
        ))
        .detail(format!(
            "It belongs to role \"{}\" now, and did to \"{}\".",
            role(now.owner),
            role(stored.owner)
        )),
        Some(_) => not_as_defined(format!(
            "relation {relation} is another one than when source \"{source}\" was defined"
        ))
        .detail("It was made, or renamed, since."),
        None => not_as_defined(format!(
            "relation {relation} was not there when the dump with source \"{source}\" was restored"
        )),
    };
    Err(error.hint(format!(
        "The owner of the source accepts the present relation with rag_alter_source('{source}', \
         spec => (SELECT spec FROM rag.sources WHERE name = '{source}'))."
    )))
}

/// A statement that may be executed if its one relation is this.
struct Expected {
    statement: CString,
    relation: pg_sys::Oid,
}

thread_local! {
    static EXPECTED: RefCell<Option<Expected>> = const { RefCell::new(None) };
}

/// Runs `f`, in which `statement` is executed if it reads this relation and no other.
pub fn only<R>(relation: pg_sys::Oid, statement: &str, f: impl FnOnce() -> R) -> R {
    struct Reset(Option<Expected>);
    impl Drop for Reset {
        fn drop(&mut self) {
            EXPECTED.set(self.0.take());
        }
    }
    let statement = CString::new(statement).unwrap_or_default();
    let _reset = Reset(EXPECTED.replace(Some(Expected {
        statement,
        relation,
    })));
    f()
}

static NEXT_HOOK: OnceLock<pg_sys::post_parse_analyze_hook_type> = OnceLock::new();

/// Has [`on_parsed`] called for each statement whose names are resolved.
pub fn watch_statements() {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if NEXT_HOOK.set(pg_sys::post_parse_analyze_hook).is_ok() {
            pg_sys::post_parse_analyze_hook = Some(on_parsed);
        }
    }
}

#[cfg(feature = "pg13")]
#[pg_guard]
unsafe extern "C-unwind" fn on_parsed(state: *mut pg_sys::ParseState, query: *mut pg_sys::Query) {
    // SAFETY: the caller's.
    unsafe {
        if let Some(next) = NEXT_HOOK.get().copied().flatten() {
            next(state, query);
        }
        check_parsed(state, query);
    }
}

#[cfg(not(feature = "pg13"))]
#[pg_guard]
unsafe extern "C-unwind" fn on_parsed(
    state: *mut pg_sys::ParseState,
    query: *mut pg_sys::Query,
    jumble: *mut pg_sys::JumbleState,
) {
    // SAFETY: the caller's.
    unsafe {
        if let Some(next) = NEXT_HOOK.get().copied().flatten() {
            next(state, query, jumble);
        }
        check_parsed(state, query);
    }
}

/// # Safety
/// State and query of a statement that Postgres has just analysed.
unsafe fn check_parsed(state: *mut pg_sys::ParseState, query: *mut pg_sys::Query) {
    // SAFETY: the text that was analysed ends with NUL.
    let expected = EXPECTED.with_borrow(|expected| unsafe {
        let text = (*state).p_sourcetext;
        let expected = expected.as_ref()?;
        (!text.is_null() && std::ffi::CStr::from_ptr(text) == expected.statement.as_c_str())
            .then_some(expected.relation)
    });
    let Some(expected) = expected else { return };
    // SAFETY: the caller's.
    if !unsafe { reads_only(query, expected) } {
        not_as_defined(
            "the name of the relation that the source reads has come to mean another relation",
        )
        .raise();
    }
}

/// Whether no other relation is in the FROM lists of a query.
///
/// # Safety
/// A query that has just been analysed.
unsafe fn reads_only(query: *const pg_sys::Query, relation: pg_sys::Oid) -> bool {
    // SAFETY: its list of range table entries.
    let entries = unsafe { PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable) };
    entries.iter_ptr().all(|entry| {
        // SAFETY: the kind of an entry says which of its members are set.
        unsafe {
            match (*entry).rtekind {
                pg_sys::RTEKind::RTE_RELATION => (*entry).relid == relation,
                pg_sys::RTEKind::RTE_SUBQUERY => reads_only((*entry).subquery, relation),
                _ => true,
            }
        }
    })
}
