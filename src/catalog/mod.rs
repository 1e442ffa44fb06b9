//! The tables of schema `rag`: typed rows and the statements on them, a file per table.
//!
//! Statements run with a pinned `search_path`, and, since nobody but the extension's functions may
//! write its tables, as the extension's owner ([`as_owner`]). Who may call those functions is
//! checked before, in [`crate::api`].
#![allow(unsafe_code)] // user ids, the GUC stack and the system caches

pub mod access;
pub mod chunks;
pub mod collection_status;
pub mod collections;
pub mod conditions;
pub mod damage;
pub mod documents;
pub mod drift;
pub mod due;
pub mod embedding_index;
pub mod knowledge;
pub mod labels;
pub mod locks;
pub mod name;
pub mod notes;
pub mod retrievers;
pub mod roles;
pub mod runs;
pub mod secrets;
pub mod sources;
pub mod table;

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    ffi::CStr,
    rc::Rc,
};

use pgrx::{
    IntoDatum, PgOid, PgSqlErrorCode, Spi,
    datum::DatumWithOid,
    pg_sys,
    spi::{OwnedPreparedStatement, SpiHeapTupleData, SpiTupleTable},
};

use self::collections::Collection;
use crate::error::Error;

/// Runs `f` with the rights of the extension's owner and a pinned search_path.
///
/// An ERROR in between aborts the (sub)transaction, which restores both.
pub fn as_owner<R>(f: impl FnOnce() -> R) -> R {
    as_role(owner(), pg_sys::SECURITY_LOCAL_USERID_CHANGE, || pinned(f))
}

/// Runs `f` as the owner of a table, whose expressions and conditions may call functions of the
/// owner's: those get no rights of the caller's, and can leave nothing behind for it. Nor does the
/// owner get a function of the caller's to run: the search_path is pinned.
pub fn as_table_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    as_role(owner, pg_sys::SECURITY_RESTRICTED_OPERATION, || pinned(f))
}

/// Runs `f` as the owner of a source, for whom the caller may act, with a search_path in which
/// nobody can put anything.
pub fn as_source_owner<R>(owner: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    as_role(owner, pg_sys::SECURITY_LOCAL_USERID_CHANGE, || pinned(f))
}

/// Runs `f` as another role; `restriction` is one of Postgres's SECURITY_ flags.
fn as_role<R>(role: pg_sys::Oid, restriction: u32, f: impl FnOnce() -> R) -> R {
    // SAFETY: the pair of calls that Postgres itself uses to change the current user for a while.
    unsafe {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(role, context | restriction as i32);
        let result = f();
        pg_sys::SetUserIdAndSecContext(user, context);
        result
    }
}

/// Runs `f` with the caller's rights and a search_path in which nobody can put anything.
pub fn pinned<R>(f: impl FnOnce() -> R) -> R {
    with_settings(&[(c"search_path", c"pg_catalog, pg_temp")], f)
}

/// Runs `f` with other settings, which everyone may change.
///
/// An ERROR in between aborts the (sub)transaction, which restores them.
pub fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    // SAFETY: the GUC nesting level that a function with SET has.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = f();
        pg_sys::AtEOXact_GUC(false, level);
        result
    }
}

/// Returns the OID of the type `rag_types.vector`; the functions that ask exist only where it does.
pub fn vector_type() -> pg_sys::Oid {
    // SAFETY: system-cache look-ups, that of the type by (name, namespace).
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
            pg_sys::Anum_pg_type_oid as _,
            c"vector".as_ptr().into(),
            pg_sys::get_namespace_oid(c"rag_types".as_ptr(), false).into(),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    }
}

/// The OID of schema `rag`; the functions that ask exist only where it does.
fn schema() -> pg_sys::Oid {
    // SAFETY: a system-cache look-up.
    unsafe { pg_sys::get_namespace_oid(c"rag".as_ptr(), false) }
}

/// The role that owns the extension, where the present database has it.
pub fn extension_owner() -> Option<pg_sys::Oid> {
    let found = pinned(|| {
        query(
            "SELECT extowner FROM pg_catalog.pg_extension WHERE extname = 'rag'",
            &[],
            |row| row.required::<pg_sys::Oid>(1),
        )
    });
    found.ok()?.into_iter().next()
}

/// The extension's owner: CREATE EXTENSION made the schema as that role.
fn owner() -> pg_sys::Oid {
    // SAFETY: the tuple is read before it is released.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
        let tuple = pg_sys::SearchSysCache1(id, schema().into());
        if tuple.is_null() {
            Error::internal("schema rag has vanished").raise();
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>()).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        owner
    }
}

/// What ALTER DATABASE ... SET says of a setting for every session of the present database.
pub fn database_setting(name: &str) -> Result<Option<String>, Error> {
    let found = pinned(|| {
        query(
            "SELECT pg_catalog.substr(c, pg_catalog.strpos(c, '=') + 1)
             FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase,
                  pg_catalog.unnest(s.setconfig) AS c
             WHERE d.datname = pg_catalog.current_database() AND s.setrole = 0 AND pg_catalog.lower(c) LIKE $1 || '=%'",
            &[name.into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.into_iter().next())
}

/// The OIDs of the cluster's databases.
pub fn databases() -> Result<HashSet<u32>, Error> {
    let found = pinned(|| {
        query("SELECT oid FROM pg_catalog.pg_database", &[], |row| {
            row.required::<pg_sys::Oid>(1)
        })
    })?;
    Ok(found.into_iter().map(pg_sys::Oid::to_u32).collect())
}

/// Runs one statement that writes; the number of rows it touched.
fn execute(statement: &str, args: &[DatumWithOid<'_>]) -> Result<usize, Error> {
    Ok(Spi::connect_mut(|client| {
        client
            .update(statement, None, args)
            .map(|table| table.len())
    })?)
}

/// Runs one statement that only reads, and reads each row of its result.
///
/// It takes no transaction id, so that it works on a standby; it sees what the calling command
/// sees, and, where the transaction has written already, all that it wrote.
fn query<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect(|client| read_rows(client.select(statement, None, args)?, read))
}

/// Runs one statement that writes or locks, and reads each row of its result.
fn execute_returning<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect_mut(|client| read_rows(client.update(statement, None, args)?, read))
}

/// [`execute_returning`] for a statement that one session runs thousands of times: it is parsed and
/// planned once.
fn execute_prepared<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect_mut(|client| {
        let prepared = prepared(statement, args, |types| {
            Ok(client.prepare_mut(statement, types)?.keep())
        })?;
        read_rows(client.update(&*prepared, None, args)?, read)
    })
}

/// [`query`] for a statement that one session runs often: it is parsed once, and planned once or a
/// few times.
fn query_prepared<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect(|client| {
        let prepared = prepared(statement, args, |types| {
            Ok(client.prepare(statement, types)?.keep())
        })?;
        read_rows(client.select(&*prepared, None, args)?, read)
    })
}

/// A prepared statement with the types of its parameters, which have other OIDs once the extension
/// was made anew.
type Prepared = (Vec<pg_sys::Oid>, Rc<OwnedPreparedStatement>);

fn prepared(
    statement: &str,
    args: &[DatumWithOid<'_>],
    prepare: impl FnOnce(&[PgOid]) -> Result<OwnedPreparedStatement, Error>,
) -> Result<Rc<OwnedPreparedStatement>, Error> {
    thread_local! {
        static KEPT: RefCell<HashMap<String, Prepared>> = RefCell::default();
    }
    let types: Vec<pg_sys::Oid> = args.iter().map(DatumWithOid::oid).collect();
    let kept = KEPT.with_borrow(|kept| {
        kept.get(statement)
            .filter(|(of, _)| *of == types)
            .map(|(_, prepared)| Rc::clone(prepared))
    });
    if let Some(prepared) = kept {
        return Ok(prepared);
    }
    let oids: Vec<PgOid> = types.iter().map(|oid| PgOid::from(*oid)).collect();
    let prepared = Rc::new(prepare(&oids)?);
    KEPT.with_borrow_mut(|kept| kept.insert(statement.to_string(), (types, Rc::clone(&prepared))));
    Ok(prepared)
}

fn read_rows<T>(
    table: SpiTupleTable<'_>,
    mut read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    table.into_iter().map(|tuple| read(Row(&tuple))).collect()
}

/// One row of a result; columns are counted from 1.
pub struct Row<'a, 'conn>(&'a SpiHeapTupleData<'conn>);

impl Row<'_, '_> {
    /// A column that may be NULL.
    pub fn get<T: pgrx::FromDatum + IntoDatum>(&self, column: usize) -> Result<Option<T>, Error> {
        Ok(self.0.get(column)?)
    }

    /// A column that is never NULL.
    pub fn required<T: pgrx::FromDatum + IntoDatum>(&self, column: usize) -> Result<T, Error> {
        self.get(column)?
            .ok_or_else(|| Error::null_not_allowed(format!("unexpected NULL in column {column}")))
    }
}

/// A filter's parameter. The filter writes a cast around each, so that texts serve where it means
/// another type.
pub fn filter_argument(param: rag_filter::Param) -> DatumWithOid<'static> {
    use rag_filter::Param;
    match param {
        Param::Text(text) | Param::Timestamp(text) | Param::Uuid(text) => text.into(),
        Param::Json(value) => pgrx::JsonB(value).into(),
        Param::BigInt(n) => n.into(),
        Param::TextArray(texts) => texts.into(),
        Param::BigIntArray(numbers) => numbers.into(),
    }
}

/// For retrieval, which writes its own statements and runs them with the caller's rights.
pub fn query_as_caller<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    pinned(|| query(statement, args, read))
}

/// Runs a statement that reads chunks of one collection. It finds what the caller may see.
pub fn query_chunks<T>(
    collection: &Collection,
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    match access::sees_every_row(collection) {
        true => as_owner(|| query(statement, args, read)),
        false => query_as_caller(statement, args, read),
    }
}

/// Runs `f` under a snapshot that sees what others have committed by now, though the command, or
/// the transaction of a worker, began before: what is read after a lock was taken must be read so.
pub fn fresh<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: an ERROR in between aborts the transaction, which pops the snapshot.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Turns an ERROR that Postgres raises inside `f` into a value. The transaction must be aborted
/// afterwards.
pub fn catch<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let f = std::panic::AssertUnwindSafe(f);
    pgrx::PgTryBuilder::new(f)
        .catch_others(|error| Err(error.into()))
        .execute()
}

/// Runs `f` so that an ERROR in it undoes what it did and nothing else.
///
/// # Errors
/// What `f` returned or raised; but the end of the statement or session as a whole is raised.
pub fn subtransaction<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    within_subtransaction(true, f)
}

/// Reads as [`fresh`] does, and leaves no lock on what it has read: nobody who wants the tables for
/// himself, as DROP EXTENSION does, has to wait for a session that waits.
///
/// # Errors
/// As those of [`subtransaction`].
pub fn glance<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    within_subtransaction(false, || fresh(f))
}

fn within_subtransaction<R>(keep: bool, f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: the sequence of PL/pgSQL's exception blocks.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = catch(f);
        if keep && result.is_ok() {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        match result {
            Err(error) if is_the_end(error.code) => error.raise(),
            result => result,
        }
    }
}

fn is_the_end(code: PgSqlErrorCode) -> bool {
    matches!(
        code,
        PgSqlErrorCode::ERRCODE_QUERY_CANCELED
            | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN
            | PgSqlErrorCode::ERRCODE_CRASH_SHUTDOWN
    )
}

/// The SQLSTATE of an error as its five characters.
pub fn sqlstate(code: PgSqlErrorCode) -> String {
    let mut value = code as i32;
    (0..5)
        .map(|_| {
            let c = char::from((value & 0x3f) as u8 + b'0');
            value >>= 6;
            c
        })
        .collect()
}

/// A uuid as Postgres's own type.
pub fn uuid(id: uuid::Uuid) -> pgrx::Uuid {
    pgrx::Uuid::from_bytes(*id.as_bytes())
}
