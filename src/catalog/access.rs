//! Who may read and write which collection.
//!
//! | may | role |
//! |---|---|
//! | grant, revoke, give away, drop | the collection's owner |
//! | write: add and remove documents, fill it by a source | the owner, and roles that hold `write` |
//! | read: search, see documents, counts and errors | those that may write, and roles that hold `read` |
//!
//! Members of a role have its rights. Superusers have all rights, and roles with BYPASSRLS may read
//! everything. Which functions a role may call is a separate question: `sql/privileges.sql`.
//!
//! Functions check a collection by its [`Rights`], without a statement. Row-level security protects
//! the tables (`sql/policies.sql`): its policies call the SQL functions below and let a role see
//! the rows of the collections that it may read. An administrator's own policies on `rag.chunks`
//! narrow that further: a document is then visible if one of its chunks is.
#![allow(unsafe_code)] // system caches, and the relation cache for policies

use std::ffi::CStr;

use pgrx::{PgRelation, Uuid, datum::DatumWithOid, pg_extern, pg_sys, pg_sys::panic::ErrorReport};
use rag_protocol::identity::DocumentId;

use super::collections::Collection;
use crate::{
    error::Error,
    pg::{
        roles::{self, Owner},
        security::{as_owner, pinned},
        spi::{Row, execute, query_prepared, uuid},
    },
};

/// The role that stands for all roles, in a grant.
pub const PUBLIC: pg_sys::Oid = pg_sys::InvalidOid;
/// Its name, which no role can have.
pub const PUBLIC_NAME: &str = "public";

/// The policies that the extension itself puts on its tables; others are an administrator's.
const OWN_POLICIES: [&CStr; 2] = [c"rag_default", c"rag_collections"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    Read,
    /// Includes [`Privilege::Read`].
    Write,
}

impl Privilege {
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// # Errors
    /// There is no such privilege.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let lower = text.to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|privilege| privilege.name() == lower)
            .ok_or_else(|| {
                let shown: String = text.chars().take(80).collect();
                Error::invalid_parameter(format!("unknown privilege \"{shown}\""))
                    .hint("Privileges: read, write. Write includes read.")
            })
    }
}

/// Who owns a collection, and who holds which privilege on it.
#[derive(Debug, Clone)]
pub struct Rights {
    /// Not valid where the collection was restored and there was no role of the owner's name.
    pub owner: pg_sys::Oid,
    /// Roles that hold `read`; [`PUBLIC`]: all roles.
    pub readers: Vec<pg_sys::Oid>,
    pub writers: Vec<pg_sys::Oid>,
}

/// Columns of `rag.collections AS c` that [`Rights::read`] reads.
pub const RIGHTS: &str = "c.owner_id,
    ARRAY(SELECT g.role_id FROM rag.collection_grant g WHERE g.collection = c.name AND g.privilege = 'read' AND g.role_id IS NOT NULL),
    ARRAY(SELECT g.role_id FROM rag.collection_grant g WHERE g.collection = c.name AND g.privilege = 'write' AND g.role_id IS NOT NULL)";

impl Rights {
    /// Reads [`RIGHTS`], the first of which is column `first`.
    pub fn read(row: &Row<'_, '_>, first: usize) -> Result<Self, Error> {
        Ok(Self {
            owner: row.required(first)?,
            readers: row.required(first + 1)?,
            writers: row.required(first + 2)?,
        })
    }

    /// Returns true if `role` may act for the owner.
    fn is_owner(&self, role: pg_sys::Oid) -> bool {
        roles::may_act_for(role, self.owner)
    }

    fn allow(&self, role: pg_sys::Oid, privilege: Privilege) -> bool {
        let holds = |roles: &[pg_sys::Oid]| {
            roles
                .iter()
                .any(|r| *r == PUBLIC || roles::may_act_for(role, *r))
        };
        match privilege {
            Privilege::Write => self.is_owner(role) || holds(&self.writers),
            Privilege::Read => {
                self.allow(role, Privilege::Write)
                    || holds(&self.readers)
                    || bypasses_policies(role)
            }
        }
    }
}

fn bypasses_policies(role: pg_sys::Oid) -> bool {
    // SAFETY: a system-cache look-up.
    unsafe { pg_sys::has_bypassrls_privilege(role) }
}

/// Returns true if the present role may do this with the collection.
pub fn may(collection: &Collection, privilege: Privilege) -> bool {
    collection.rights.allow(roles::current(), privilege)
}

/// # Errors
/// The present role may not read the collection.
pub fn require_read(collection: &Collection) -> Result<(), Error> {
    require(roles::current(), collection, Privilege::Read)
}

/// # Errors
/// The present role may not write to the collection.
pub fn require_write(collection: &Collection) -> Result<(), Error> {
    require(roles::current(), collection, Privilege::Write)
}

/// # Errors
/// `role` may not do this with the collection.
pub fn require(
    role: pg_sys::Oid,
    collection: &Collection,
    privilege: Privilege,
) -> Result<(), Error> {
    if collection.rights.allow(role, privilege) {
        return Ok(());
    }
    let (name, role) = (
        collection.name.as_str(),
        roles::name_of(role).unwrap_or_default(),
    );
    let what = match privilege {
        Privilege::Read => "read",
        Privilege::Write => "write to",
    };
    let call = format!(
        "SELECT rag_grant_collection({}, {}, '{}')",
        pgrx::spi::quote_literal(name),
        pgrx::spi::quote_literal(&role),
        privilege.name()
    );
    Err(
        Error::permission_denied(format!("permission denied to {what} collection \"{name}\""))
            .detail(format!(
                "Role \"{role}\" neither owns it nor holds the privilege {}.",
                privilege.name()
            ))
            .hint(format!("Its owner can grant it: {call}.")),
    )
}

/// # Errors
/// The present role is not a member of the collection's owner.
pub fn require_owner(collection: &Collection, to_do: &str) -> Result<(), Error> {
    if collection.rights.is_owner(roles::current()) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to {to_do} \"{}\"",
        collection.name
    ))
    .hint("Only members of the role that owns it, and superusers, may."))
}

/// # Errors
/// The present role is neither a member of a source's owner, nor a member of rag_admin that may
/// write to its collection. Without a source, all but members of rag_admin are told the same.
pub fn require_source_manager(source: Option<(&Owner, &str)>, to_do: &str) -> Result<(), Error> {
    let is_allowed = match source {
        Some((owner, _)) if roles::may_act_for(roles::current(), owner.id) => true,
        Some((_, collection)) => roles::is_admin() && may_write(collection)?,
        None => roles::is_admin(),
    };
    if is_allowed {
        return Ok(());
    }
    Err(Error::permission_denied(format!("permission denied to {to_do}"))
        .hint("Only members of the role that owns it may, and members of rag_admin that may write to its collection."))
}

fn may_write(collection: &str) -> Result<bool, Error> {
    Ok(Collection::find(collection)?.is_some_and(|collection| may(&collection, Privilege::Write)))
}

// -- row-level security
// -----------------------------------------------------------------------------------------------

/// How the present role's statements on a table of the extension are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    /// Not at all: it owns the table, has BYPASSRLS, or an administrator has switched row-level
    /// security off.
    None,
    /// To the collections that it may read.
    Collections,
    /// Further, by policies of an administrator's.
    Policies { permissive: bool },
}

/// Reads the policies from the relation cache, where the planner finds them.
fn limits(table: pg_sys::Oid) -> Limits {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the relation is open, and so its policies stay, until the end of the function.
    unsafe {
        if pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true)
            != pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
        {
            return Limits::None;
        }
        let relation = PgRelation::with_lock(table, lock);
        let description = (*relation.as_ptr()).rd_rsdesc;
        if description.is_null() {
            return Limits::Collections;
        }
        let policies = pgrx::PgList::<pg_sys::RowSecurityPolicy>::from_pg((*description).policies);
        let foreign: Vec<_> = policies
            .iter_ptr()
            .filter(|policy| {
                let (policy, name) = (&**policy, CStr::from_ptr((**policy).policy_name));
                let is_for_reading = matches!(policy.polcmd as u8, b'*' | b'r');
                is_for_reading && !OWN_POLICIES.contains(&name) && applies(policy)
            })
            .collect();
        match foreign.is_empty() {
            true => Limits::Collections,
            false => Limits::Policies {
                permissive: foreign.iter().any(|policy| (**policy).permissive),
            },
        }
    }
}

/// Returns true if a policy is for the present role.
///
/// # Safety
/// A policy of an open relation.
unsafe fn applies(policy: &pg_sys::RowSecurityPolicy) -> bool {
    let role = roles::current();
    // SAFETY: an array of OIDs without NULLs, which is read where it is.
    unsafe {
        let datum = pg_sys::Datum::from(policy.roles);
        let roles: Vec<pg_sys::Oid> =
            pgrx::FromDatum::from_polymorphic_datum(datum, false, pg_sys::OIDARRAYOID)
                .unwrap_or_default();
        roles
            .iter()
            .any(|of| *of == PUBLIC || pg_sys::has_privs_of_role(role, *of))
    }
}

fn chunks_table() -> pg_sys::Oid {
    table(c"chunks")
}

fn table(name: &CStr) -> pg_sys::Oid {
    // SAFETY: a system-cache look-up.
    unsafe { pg_sys::get_relname_relid(name.as_ptr(), crate::pg::extension::schema()) }
}

/// Returns true if no policy of an administrator's hides chunks from the present role.
pub fn sees_all_chunks() -> bool {
    !matches!(limits(chunks_table()), Limits::Policies { .. })
}

/// Returns true if the present role sees every row of a collection's. Then a statement on all of
/// them, with the rights of the extension's owner, tells nothing that is hidden. It spares the
/// evaluation of policies, and lets operators that are not leakproof use indexes.
pub fn sees_every_row(collection: &Collection) -> bool {
    // SAFETY: a look-up of privileges on a table that exists.
    let may_select = unsafe {
        pg_sys::pg_class_aclcheck(chunks_table(), roles::current(), pg_sys::ACL_SELECT as _)
    };
    may_select == pg_sys::AclResult::ACLCHECK_OK
        && may(collection, Privilege::Read)
        && sees_all_chunks()
}

/// Returns true if the present role sees every document of a collection's.
pub fn sees_every_document(collection: &Collection) -> bool {
    sees_every_row(collection) && !matches!(limits(table(c"documents")), Limits::Policies { .. })
}

/// Returns true if the present role sees every row of a table, which may be the partition of a
/// collection.
pub fn sees_every_row_of(table: pg_sys::Oid) -> Result<bool, Error> {
    // SAFETY: look-ups in the system caches; the name is null or copied.
    let name = unsafe {
        let is_granted =
            pg_sys::pg_class_aclcheck(table, roles::current(), pg_sys::ACL_SELECT as _)
                == pg_sys::AclResult::ACLCHECK_OK;
        let is_limited = pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true)
            == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32;
        if is_granted && !is_limited {
            return Ok(true);
        }
        let name = pg_sys::get_rel_name(table);
        if name.is_null() || pg_sys::get_rel_namespace(table) != crate::pg::extension::schema() {
            return Ok(false);
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    };
    Ok(Collection::of_partition(&name)?.is_some_and(|collection| sees_every_row(&collection)))
}

// -- what policies and views call, with the rights of the role that reads
// ---------------------------------------------

/// Collections that a role may read or write.
fn collections(role: pg_sys::Oid, privilege: Privilege) -> Result<Vec<String>, Error> {
    let all = as_owner(|| {
        query_prepared(
            &format!("SELECT c.name, {RIGHTS} FROM rag.collections c ORDER BY 1"),
            &[],
            |row| Ok((row.required::<String>(1)?, Rights::read(&row, 2)?)),
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
    Ok(collections(roles::current(), Privilege::Read)?)
}

#[pg_extern(sql = false)]
fn writable_collections() -> Result<Vec<String>, ErrorReport> {
    Ok(collections(roles::current(), Privilege::Write)?)
}

#[pg_extern(sql = false)]
fn may_read_collection(collection: &str) -> Result<bool, ErrorReport> {
    Ok(Collection::find(collection)?.is_some_and(|collection| may(&collection, Privilege::Read)))
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
    !matches!(limits(relation), Limits::Policies { permissive: true })
}

#[pg_extern(sql = false)]
fn sees_document(collection: &str, document_id: Uuid) -> Result<bool, ErrorReport> {
    Ok(sees_one(collection, "document_id", document_id.into())?)
}

#[pg_extern(sql = false)]
fn sees_uri(collection: &str, source: &str, uri: &str) -> Result<bool, ErrorReport> {
    let id = DocumentId::derive(collection, Some(source), uri);
    Ok(sees_one(collection, "document_id", uuid(id.0).into())?)
}

#[pg_extern(sql = false)]
fn sees_knowledge(collection: &str, knowledge_id: i64) -> Result<bool, ErrorReport> {
    Ok(sees_one(collection, "knowledge_id", knowledge_id.into())?)
}

/// Returns true if the present role sees a chunk that has this value; where there is none at all,
/// if it may write to the collection.
fn sees_one(collection: &str, column: &str, value: DatumWithOid<'_>) -> Result<bool, Error> {
    // the name is written into the statement, so that only its partition is planned
    let statement = format!(
        "SELECT 1 FROM rag.chunks WHERE collection = {} AND {column} = $1 LIMIT 1",
        pgrx::spi::quote_literal(collection)
    );
    let arguments = [value];
    let is_there =
        || Ok::<_, Error>(!query_prepared(&statement, &arguments, |_| Ok(()))?.is_empty());
    if pinned(is_there)? {
        return Ok(true);
    }
    let is_hidden = as_owner(is_there)?;
    Ok(!is_hidden && may_write(collection)?)
}

/// Of collections, those that a role may read.
pub fn readable_among(role: pg_sys::Oid, names: Vec<String>) -> Result<Vec<String>, Error> {
    let readable = collections(role, Privilege::Read)?;
    Ok(names
        .into_iter()
        .filter(|name| readable.contains(name))
        .collect())
}

// -- grants
// -----------------------------------------------------------------------------------------------------------

/// The role that a grant names; `public` is all roles.
///
/// # Errors
/// There is no role of this name.
pub fn grantee(name: &str) -> Result<Owner, Error> {
    if name.eq_ignore_ascii_case(PUBLIC_NAME) {
        return Ok(Owner {
            id: PUBLIC,
            name: PUBLIC_NAME.to_string(),
        });
    }
    let id = roles::by_name(name)
        .ok_or_else(|| Error::undefined(format!("role \"{name}\" does not exist")))?;
    Ok(Owner {
        id,
        name: name.to_string(),
    })
}

/// Grants a privilege. To grant it again changes nothing.
///
/// # Errors
/// The collection was dropped meanwhile.
pub fn grant(collection: &Collection, to: &Owner, privilege: Privilege) -> Result<(), Error> {
    as_owner(|| {
        forget_dropped_roles(collection)?;
        execute(
            // no OID is handed to Postgres as NULL
            "INSERT INTO rag.collection_grant (collection, role, role_id, privilege) VALUES ($1, $2, coalesce($3, 0::oid), $4)
             ON CONFLICT (collection, role_id, privilege) DO UPDATE SET role = excluded.role",
            &[collection.name.as_str().into(), to.name.as_str().into(), to.id.into(), privilege.name().into()],
        )
    })?;
    Ok(())
}

/// Revokes a privilege, or both. A role without `read` has no `write` either. To revoke what was
/// not granted changes nothing.
pub fn revoke(
    collection: &Collection,
    from: &Owner,
    privilege: Option<Privilege>,
) -> Result<(), Error> {
    let is_write_alone = privilege == Some(Privilege::Write);
    as_owner(|| {
        forget_dropped_roles(collection)?;
        execute(
            "DELETE FROM rag.collection_grant WHERE collection = $1 AND role_id = coalesce($2, 0::oid) AND (privilege = 'write' OR NOT $3)",
            &[
                collection.name.as_str().into(),
                from.id.into(),
                is_write_alone.into(),
            ],
        )
    })?;
    Ok(())
}

/// Deletes grants to roles that were dropped. They have no effect.
fn forget_dropped_roles(collection: &Collection) -> Result<usize, Error> {
    execute(
        "DELETE FROM rag.collection_grant g
         WHERE g.collection = $1 AND g.role_id IS DISTINCT FROM 0
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = g.role_id)",
        &[collection.name.as_str().into()],
    )
}

/// Gives a collection to another owner.
pub fn set_owner(collection: &Collection, owner: &Owner) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.collections SET owner = $2, owner_id = $3 WHERE name = $1",
            &[
                collection.name.as_str().into(),
                owner.name.as_str().into(),
                owner.id.into(),
            ],
        )
    })?;
    Ok(())
}
