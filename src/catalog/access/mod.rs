//! Permissions on collections.
//!
//! | action | roles that may do it |
//! |---|---|
//! | grant, revoke, change the owner, drop | the collection's owner |
//! | write: add and remove documents, fill it by a source | the owner, and roles with `write` |
//! | read: search, see documents, counts and errors | roles that may write, and roles with `read` |
//!
//! Members of a role have its rights. Superusers have all rights, and roles with BYPASSRLS may read
//! everything. The right to call a function is separate: see `sql/privileges.sql`.
//!
//! Functions check the [`CollectionRights`] of a collection without running a statement. Row-level
//! security protects the tables (`sql/policies.sql`). Its policies call the SQL functions below and
//! show a role the rows of the collections that it may read. Policies that an administrator adds to
//! `rag.chunks` restrict that further: a document is then visible if one of its chunks is.

mod grants;

use std::ffi::CStr;

use pgrx::{Uuid, datum::DatumWithOid, pg_extern, pg_sys, pg_sys::panic::ErrorReport};

pub use self::grants::{grant, grantee, revoke, set_owner};
use super::{
    collections::Collection,
    partitions::{self, Partition},
};
use crate::{
    error::Error,
    pg::{
        extension, lookup, roles,
        spi::{Rights, Row, as_caller, as_owner, uuid},
    },
};

/// The OID that stands for all roles in a grant.
pub const PUBLIC: pg_sys::Oid = pg_sys::InvalidOid;
/// The name that stands for all roles. No role can have it.
pub const PUBLIC_NAME: &str = "public";

/// The policies of the extension on its tables. An administrator created all others.
const OWN_POLICIES: [&CStr; 2] = [c"rag_default", c"rag_collections"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionPrivilege {
    Read,
    /// Includes [`CollectionPrivilege::Read`].
    Write,
}

impl CollectionPrivilege {
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        Self::ALL.into_iter().find(|it| it.name() == lower)
    }
}

/// The owner of a collection, and the roles that were granted privileges on it.
#[derive(Debug, Clone)]
pub struct CollectionRights {
    /// `InvalidOid` if the collection was restored and no role had the name of its owner.
    pub owner: pg_sys::Oid,
    /// Roles with `read`. [`PUBLIC`] stands for all roles.
    pub readers: Vec<pg_sys::Oid>,
    pub writers: Vec<pg_sys::Oid>,
}

impl CollectionRights {
    /// The columns of `rag_internal.collection AS c` that [`CollectionRights::read`] reads.
    pub const COLUMNS: &'static str = "c.owner_id,
        ARRAY(SELECT g.role_id FROM rag_internal.collection_grant g
              WHERE g.collection = c.name AND g.privilege = 'read'
                AND g.role_id IS NOT NULL) AS readers,
        ARRAY(SELECT g.role_id FROM rag_internal.collection_grant g
              WHERE g.collection = c.name AND g.privilege = 'write'
                AND g.role_id IS NOT NULL) AS writers";

    pub fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            owner: row.required("owner_id")?,
            readers: row.required("readers")?,
            writers: row.required("writers")?,
        })
    }

    /// Returns true if `role` may act for the owner.
    pub fn is_owner(&self, role: pg_sys::Oid) -> bool {
        roles::may_act_for(role, self.owner)
    }

    /// Returns true if `role` has this privilege.
    pub fn allow(&self, role: pg_sys::Oid, privilege: CollectionPrivilege) -> bool {
        let holds = |roles: &[pg_sys::Oid]| {
            roles
                .iter()
                .any(|r| *r == PUBLIC || roles::may_act_for(role, *r))
        };
        match privilege {
            CollectionPrivilege::Write => self.is_owner(role) || holds(&self.writers),
            CollectionPrivilege::Read => {
                self.allow(role, CollectionPrivilege::Write)
                    || holds(&self.readers)
                    || lookup::bypasses_row_security(role)
            }
        }
    }
}

/// Returns true if the current role has this privilege on the collection.
pub fn has_privilege(collection: &Collection, privilege: CollectionPrivilege) -> bool {
    collection.rights.allow(roles::current(), privilege)
}

/// Returns true if the current role may write to a collection.
///
/// # Errors
/// A statement fails.
pub fn may_write(collection: &str) -> Result<bool, Error> {
    Ok(Collection::find(collection)?
        .is_some_and(|collection| has_privilege(&collection, CollectionPrivilege::Write)))
}

// -- row-level security

/// The restriction of the current role's statements on a table of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowRestriction {
    /// All rows are visible: the role owns the table or has BYPASSRLS, or an administrator disabled
    /// row-level security.
    None,
    /// The rows of collections that the role may read.
    Collections,
    /// Policies of an administrator restrict the rows further.
    Policies { permissive: bool },
}

/// Reads the policies from the relation cache, as the planner does.
fn row_restriction(table: pg_sys::Oid) -> RowRestriction {
    if !lookup::has_row_security(table) {
        return RowRestriction::None;
    }
    let mut foreign = lookup::read_policies(table);
    foreign.retain(|policy| !OWN_POLICIES.contains(&policy.name.as_c_str()));
    if foreign.is_empty() {
        RowRestriction::Collections
    } else {
        RowRestriction::Policies {
            permissive: foreign.iter().any(|policy| policy.is_permissive),
        }
    }
}

fn chunks_table() -> pg_sys::Oid {
    table(c"chunks")
}

fn table(name: &CStr) -> pg_sys::Oid {
    extension::relation(name).unwrap_or(pg_sys::InvalidOid)
}

/// Returns true if no policy of an administrator hides chunks from the current role.
pub fn sees_all_chunks() -> bool {
    !matches!(
        row_restriction(chunks_table()),
        RowRestriction::Policies { .. }
    )
}

/// Returns true if the current role sees every chunk of a collection.
///
/// Statements on that collection can then run with the rights of the extension's owner. This avoids
/// the evaluation of policies, and operators that are not leakproof can use indexes.
pub fn sees_every_row(collection: &Collection) -> bool {
    lookup::may_select(chunks_table(), roles::current())
        && has_privilege(collection, CollectionPrivilege::Read)
        && sees_all_chunks()
}

/// Returns true if the current role sees every document of a collection.
pub fn sees_every_document(collection: &Collection) -> bool {
    sees_every_row(collection)
        && !matches!(
            row_restriction(table(c"documents")),
            RowRestriction::Policies { .. }
        )
}

/// Returns true if the current role sees every row of a table, which may be a partition of
/// `rag.chunks`.
pub fn sees_every_row_of(table: pg_sys::Oid) -> Result<bool, Error> {
    if lookup::may_select(table, roles::current()) && !lookup::has_row_security(table) {
        return Ok(true);
    }
    let Some((name, _)) =
        lookup::relation_name(table).filter(|(_, schema)| extension::has_tables(*schema))
    else {
        return Ok(false);
    };
    let collections = Collection::of_partition(&name)?;
    Ok(!collections.is_empty() && collections.iter().all(sees_every_row))
}

/// Returns true if the current role sees every row of a collection's partition, which may have
/// chunks of other collections.
pub fn sees_partition(collection: &Collection) -> bool {
    sees_every_row(collection)
        && (!collection.shares_partition()
            || collection
                .partition_oid()
                .is_some_and(|partition| sees_every_row_of(partition).unwrap_or(false)))
}

// -- functions for policies and views, which run with the rights of the reading role

/// Returns the collections on which a role has a privilege.
fn collections(role: pg_sys::Oid, privilege: CollectionPrivilege) -> Result<Vec<String>, Error> {
    let all = as_owner(|owner| {
        owner.query_prepared(
            &format!(
                "SELECT c.name, {} FROM rag_internal.collection c ORDER BY 1",
                CollectionRights::COLUMNS
            ),
            &[],
            |row| {
                let name: String = row.required("name")?;
                Ok((name, CollectionRights::read(&row)?))
            },
        )
    })?;
    Ok(all
        .into_iter()
        .filter(|(_, rights)| rights.allow(role, privilege))
        .map(|(name, _)| name)
        .collect())
}

#[pg_extern(sql = false)]
fn readable_collections() -> Result<Vec<String>, ErrorReport> {
    Ok(collections(roles::current(), CollectionPrivilege::Read)?)
}

#[pg_extern(sql = false)]
fn writable_collections() -> Result<Vec<String>, ErrorReport> {
    Ok(collections(roles::current(), CollectionPrivilege::Write)?)
}

#[pg_extern(sql = false)]
fn may_read_collection(collection: &str) -> Result<bool, ErrorReport> {
    Ok(Collection::find(collection)?
        .is_some_and(|collection| has_privilege(&collection, CollectionPrivilege::Read)))
}

#[pg_extern(sql = false)]
fn may_write_collection(collection: &str) -> Result<bool, ErrorReport> {
    Ok(may_write(collection)?)
}

#[pg_extern(sql = false, name = "sees_all_chunks")]
fn all_chunks_are_visible() -> bool {
    sees_all_chunks()
}

#[pg_extern(sql = false)]
fn has_no_policy(relation: pg_sys::Oid) -> bool {
    !matches!(
        row_restriction(relation),
        RowRestriction::Policies { permissive: true }
    )
}

#[pg_extern(sql = false)]
fn sees_document(collection: &str, document_id: Uuid) -> Result<bool, ErrorReport> {
    Ok(sees_one(collection, "document_id", document_id.into())?)
}

#[pg_extern(sql = false)]
fn sees_uri(collection: &str, source: &str, uri: &str) -> Result<bool, ErrorReport> {
    let Some(found) = Collection::find(collection)? else {
        return Ok(false);
    };
    let id = found.document_id(
        Some(&as_owner(|owner| super::sources::ids_from(owner, source))?),
        uri,
    );
    Ok(sees_one(collection, "document_id", uuid(id.0).into())?)
}

#[pg_extern(sql = false)]
fn sees_knowledge(collection: &str, knowledge_id: i64) -> Result<bool, ErrorReport> {
    Ok(sees_one(collection, "knowledge_id", knowledge_id.into())?)
}

/// Returns true if the current role sees a chunk with this value. If no chunk has the value,
/// returns true if the role may write to the collection.
fn sees_one(collection: &str, column: &str, value: DatumWithOid<'_>) -> Result<bool, Error> {
    // the name is part of the statement, so that only its partition is planned
    let statement = format!(
        "SELECT 1 FROM rag.chunks WHERE {} AND {column} = $1 LIMIT 1",
        Partition::rows_of(partitions::of(collection)?.as_ref(), collection, "")
    );
    let arguments = [value];
    let is_there = |rights: &Rights| {
        let found = rights.query_prepared(&statement, &arguments, |_| Ok(()))?;
        Ok::<_, Error>(!found.is_empty())
    };
    if as_caller(is_there)? {
        return Ok(true);
    }
    let is_hidden = as_owner(|owner| is_there(owner))?;
    Ok(!is_hidden && may_write(collection)?)
}

/// Returns those of the collections that a role may read.
pub fn readable_among(role: pg_sys::Oid, names: Vec<String>) -> Result<Vec<String>, Error> {
    let readable = collections(role, CollectionPrivilege::Read)?;
    Ok(names
        .into_iter()
        .filter(|name| readable.contains(name))
        .collect())
}

/// Returns those of the collections whose counts a role may see: all of them if it has the
/// privileges of `pg_monitor`, else those that it may read.
pub fn monitored_among(role: pg_sys::Oid, names: Vec<String>) -> Result<Vec<String>, Error> {
    if roles::is_monitor(role) {
        Ok(names)
    } else {
        readable_among(role, names)
    }
}
