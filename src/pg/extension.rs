//! The extension's own objects in the system catalogs: its schema, owner and type.
#![allow(unsafe_code)] // the system caches

use std::collections::HashSet;

use pgrx::pg_sys;

use super::{security::pinned, spi::query};
use crate::error::Error;

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
pub fn schema() -> pg_sys::Oid {
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
pub fn owner() -> pg_sys::Oid {
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

/// The OIDs of the cluster's databases.
pub fn databases() -> Result<HashSet<u32>, Error> {
    let found = pinned(|| {
        query("SELECT oid FROM pg_catalog.pg_database", &[], |row| {
            row.required::<pg_sys::Oid>(1)
        })
    })?;
    Ok(found.into_iter().map(pg_sys::Oid::to_u32).collect())
}
