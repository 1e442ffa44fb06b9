//! The extension's own objects in the system catalogs: its schemas, owner and types.

use std::{cell::Cell, collections::HashSet};

use pgrx::pg_sys;

use super::{lookup, spi::as_caller};
use crate::error::Error;

thread_local! {
    /// The extension and the schema that its functions are in, which it cannot leave.
    static OWN_SCHEMA: Cell<Option<(pg_sys::Oid, pg_sys::Oid)>> = const { Cell::new(None) };
}

/// Returns the OID of the type `rag_types.vector`. Functions that ask exist only if the type does.
pub fn vector_type() -> pg_sys::Oid {
    lookup::type_in_schema(c"vector", existing_schema(c"rag_types"))
}

/// Returns the OID of the type `rag_types.halfvec`, or an invalid one before the upgrade that
/// creates it.
pub fn halfvec_type() -> pg_sys::Oid {
    lookup::type_in_schema(c"halfvec", existing_schema(c"rag_types"))
}

/// Returns the OID of schema `rag`. Functions that ask exist only if the schema does.
pub fn schema() -> pg_sys::Oid {
    existing_schema(c"rag")
}

/// Returns the OID of schema `rag_internal`. Functions that ask exist only if the schema does.
pub fn internal_schema() -> pg_sys::Oid {
    existing_schema(c"rag_internal")
}

fn existing_schema(name: &std::ffi::CStr) -> pg_sys::Oid {
    lookup::schema(name).unwrap_or_else(|| {
        let name = name.to_string_lossy();
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME,
            format!("schema \"{name}\" does not exist"),
        )
        .raise()
    })
}

/// Returns the OID of the type of queries of `rag_bm25`.
pub fn bm25_query_type() -> pg_sys::Oid {
    lookup::type_in_schema(c"bm25_query", schema())
}

/// Returns the OID of a relation of schema `rag`.
pub fn relation(name: &std::ffi::CStr) -> Option<pg_sys::Oid> {
    lookup::relation(name, schema())
}

/// Returns the OID of a relation of schema `rag_internal`.
pub fn internal_relation(name: &std::ffi::CStr) -> Option<pg_sys::Oid> {
    lookup::relation(name, internal_schema())
}

/// Returns true if a schema has tables of the extension.
pub fn has_tables(schema_id: pg_sys::Oid) -> bool {
    schema_id == schema() || schema_id == internal_schema()
}

/// Returns true if the current database has the whole extension.
pub fn is_installed() -> bool {
    lookup::extension(c"rag").is_some() && lookup::schema(c"rag").is_some()
}

/// Returns the role that owns the extension, if the current database has it.
pub fn extension_owner() -> Option<pg_sys::Oid> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT extowner FROM pg_extension WHERE extname = 'rag'",
            &[],
            |row| row.required::<pg_sys::Oid>("extowner"),
        )
    });
    found.ok()?.into_iter().next()
}

/// Returns the extension's owner: CREATE EXTENSION created the schema as that role.
pub fn owner() -> pg_sys::Oid {
    match lookup::schema_owner(schema()) {
        Some(owner) => owner,
        None => Error::internal("schema rag has vanished").raise(),
    }
}

/// Returns the quoted name of the schema of the extension's functions and operators.
pub fn own_schema() -> Result<String, Error> {
    let extension = lookup::extension(c"rag").ok_or_else(|| Error::internal("rag has vanished"))?;
    let schema = match OWN_SCHEMA.get() {
        Some((known, schema)) if known == extension => schema,
        _ => {
            let schema = read_own_schema(extension)?;
            OWN_SCHEMA.set(Some((extension, schema)));
            schema
        }
    };
    let name = lookup::schema_name(schema).ok_or_else(|| Error::internal("rag has no schema"))?;
    Ok(pgrx::spi::quote_identifier(name))
}

fn read_own_schema(extension: pg_sys::Oid) -> Result<pg_sys::Oid, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT extnamespace FROM pg_extension WHERE oid = $1",
            &[extension.into()],
            |row| row.required::<pg_sys::Oid>("extnamespace"),
        )
    })?;
    let schema = found.into_iter().next();
    schema.ok_or_else(|| Error::internal("rag has no schema"))
}

/// Returns the OIDs of the cluster's databases.
pub fn databases() -> Result<HashSet<u32>, Error> {
    let found = as_caller(|caller| {
        caller.query("SELECT oid FROM pg_database", &[], |row| {
            row.required::<pg_sys::Oid>("oid")
        })
    })?;
    Ok(found.into_iter().map(pg_sys::Oid::to_u32).collect())
}
