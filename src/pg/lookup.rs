//! Look-ups in the system caches, the relation cache and a shared catalog.
//!
//! All of them need a transaction.
#![allow(unsafe_code)] // reads of the caches

use std::ffi::{CStr, CString};

use pgrx::{PgList, PgRelation, pg_sys};

use super::transaction::catch;
use crate::error::Error;

fn copied(name: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: a look-up's result: null, or a text that ends with NUL.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name).to_string_lossy().into_owned() })
}

fn valid(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    (oid != pg_sys::InvalidOid).then_some(oid)
}

// -- roles

/// Returns the name of a role.
pub fn role_name(role: pg_sys::Oid) -> Option<String> {
    // SAFETY: a look-up that returns null if there is no such role.
    copied(unsafe { pg_sys::GetUserNameFromId(role, true) })
}

/// Returns the role of a name.
pub fn role(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::get_role_oid(name.as_ptr(), true) })
}

/// Returns true if `role` has the privileges of `other`. Both exist.
pub fn has_privileges_of(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// Returns true if `role` is `other`, or a member of it. A superuser is no member of a role that
/// nobody has granted to it.
pub fn is_granted(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::is_member_of_role_nosuper(role, other) }
}

/// Returns true if there is a role of this OID and it is a superuser.
pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: a look-up; no role has the invalid OID.
    unsafe { pg_sys::superuser_arg(role) }
}

/// Returns true if policies of row-level security do not apply to a role.
pub fn bypasses_row_security(role: pg_sys::Oid) -> bool {
    // SAFETY: a look-up.
    unsafe { pg_sys::has_bypassrls_privilege(role) }
}

// -- schemas, types, functions, extensions, databases

/// Returns the OID of a schema.
pub fn schema(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::get_namespace_oid(name.as_ptr(), true) })
}

/// Returns the owner of a schema.
pub fn schema_owner(schema: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the tuple is read before it is released.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
        let tuple = pg_sys::SearchSysCache1(id, schema.into());
        if tuple.is_null() {
            return None;
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>()).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        Some(owner)
    }
}

/// Returns the OID of a type.
pub fn type_in_schema(name: &CStr, schema: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a look-up by (name, schema).
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
            pg_sys::Anum_pg_type_oid as _,
            name.as_ptr().into(),
            schema.into(),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    }
}

/// Returns the name of a schema.
pub fn schema_name(schema: pg_sys::Oid) -> Option<String> {
    // SAFETY: a look-up; the name is null or copied.
    copied(unsafe { pg_sys::get_namespace_name(schema) })
}

/// Returns the OID of a function in a schema.
pub fn function_in_schema(
    name: &CStr,
    schema: &CStr,
    arguments: &[pg_sys::Oid],
) -> Option<pg_sys::Oid> {
    let schema = self::schema(schema)?;
    // SAFETY: a look-up by (name, argument types, schema).
    let function = unsafe {
        let arguments = pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as i32);
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as i32,
            pg_sys::Anum_pg_proc_oid as _,
            name.as_ptr().into(),
            pg_sys::Datum::from(arguments),
            schema.into(),
            pg_sys::Datum::null(),
        )
    };
    valid(function)
}

/// Returns the OID of an extension.
pub fn extension(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) })
}

/// Returns the OID of a database.
pub fn database(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::get_database_oid(name.as_ptr(), true) })
}

/// Returns the name of a database.
pub fn database_name(database: pg_sys::Oid) -> Option<String> {
    // SAFETY: a look-up; the name is null or copied.
    copied(unsafe { pg_sys::get_database_name(database) })
}

/// Returns the databases that a worker can connect to and that are no templates.
pub fn connectable_databases() -> Vec<u32> {
    let mut found = vec![];
    // SAFETY: a scan of a shared catalog, as autovacuum's launcher does it; each tuple is read
    // before the next.
    unsafe {
        let lock = pg_sys::AccessShareLock as i32;
        let relation = pg_sys::table_open(pg_sys::DatabaseRelationId, lock);
        let scan = pg_sys::table_beginscan_catalog(relation, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            // -2: a DROP DATABASE that was interrupted
            if row.datallowconn && !row.datistemplate && row.datconnlimit != -2 {
                found.push(row.oid.to_u32());
            }
        }
        pg_sys::heap_endscan(scan);
        pg_sys::table_close(relation, lock);
    }
    found
}

// -- relations

/// Returns the OID of a relation in a schema.
pub fn relation(name: &CStr, schema: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) })
}

/// Returns the OID of the relation that a name means with the current search_path, as
/// `to_regclass()` does.
pub fn relation_on_path(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: what to_regclass() does with a text.
    valid(unsafe {
        let names = pg_sys::textToQualifiedNameList(pg_sys::cstring_to_text(name.as_ptr()));
        pg_sys::RangeVarGetRelidExtended(
            pg_sys::makeRangeVarFromNameList(names),
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    })
}

/// Reads what other transactions have committed by now, for the look-ups that follow. Statements do
/// that when they lock their tables, and not when they have waited for a row.
pub fn accept_changes() {
    // SAFETY: as when a lock on a relation is acquired.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// Returns the name of a relation and the schema that it is in.
pub fn relation_name(relation: pg_sys::Oid) -> Option<(String, pg_sys::Oid)> {
    // SAFETY: look-ups; the name is null or copied.
    unsafe {
        let name = copied(pg_sys::get_rel_name(relation))?;
        Some((name, pg_sys::get_rel_namespace(relation)))
    }
}

/// Returns the owner of a relation.
pub fn relation_owner(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the tuple is read before it is released.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::RELOID as i32;
        let tuple = pg_sys::SearchSysCache1(id, relation.into());
        if tuple.is_null() {
            return None;
        }
        let owner = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>()).relowner;
        pg_sys::ReleaseSysCache(tuple);
        Some(owner)
    }
}

/// Returns the table of an index.
pub fn table_of_index(index: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up.
    valid(unsafe { pg_sys::IndexGetRelation(index, true) })
}

/// Returns the number of the first column of an index, or `None` for an expression. Locks nothing.
pub fn indexed_column(index: pg_sys::Oid) -> Option<i16> {
    // SAFETY: a look-up; the row of the cache is read before it is released, and an index has at
    // least one key.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
        let row = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(index));
        if row.is_null() {
            return None;
        }
        let form = pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_index>();
        let column = (*form).indkey.values.as_slice(1)[0];
        pg_sys::ReleaseSysCache(row);
        (column != 0).then_some(column)
    }
}

/// Returns true if a role has SELECT on a table that exists.
pub fn may_select(table: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: a look-up.
    unsafe {
        pg_sys::pg_class_aclcheck(table, role, pg_sys::ACL_SELECT as _)
            == pg_sys::AclResult::ACLCHECK_OK
    }
}

/// Returns true if a role has SELECT on a column of a table, or on all columns for `None`. SELECT
/// on the table counts as well.
pub fn may_select_column(table: pg_sys::Oid, column: Option<i16>, role: pg_sys::Oid) -> bool {
    let select = pg_sys::ACL_SELECT as pg_sys::AclMode;
    // SAFETY: look-ups.
    let answer = unsafe {
        match column {
            Some(column) => pg_sys::pg_attribute_aclcheck(table, column, role, select),
            None => {
                let all = pg_sys::AclMaskHow::ACLMASK_ALL;
                pg_sys::pg_attribute_aclcheck_all(table, role, select, all)
            }
        }
    };
    may_select(table, role) || answer == pg_sys::AclResult::ACLCHECK_OK
}

/// Returns the tables that a partition belongs to, the nearest first.
pub fn partition_ancestors(table: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    unsafe extern "C-unwind" {
        /// pgrx has no binding for it.
        fn get_partition_ancestors(table: pg_sys::Oid) -> *mut pg_sys::List;
    }
    // SAFETY: the declaration is that of all versions of PostgreSQL; the guard catches its ERRORs.
    unsafe {
        if !pg_sys::get_rel_relispartition(table) {
            return vec![];
        }
        let ancestors = pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_ancestors(table));
        PgList::<pg_sys::Oid>::from_pg(ancestors)
            .iter_oid()
            .collect()
    }
}

/// Returns a valid index of an access method on a table, without a WHERE clause. A table that was
/// dropped while the session waited for it has none.
pub fn whole_index(table: pg_sys::Oid, access_method: &CStr) -> Option<pg_sys::Oid> {
    find_whole_index(table, access_method, None)
}

/// Returns such an index whose first column has an operator family of this name.
pub fn whole_index_of(
    table: pg_sys::Oid,
    access_method: &CStr,
    family: &CStr,
) -> Option<pg_sys::Oid> {
    find_whole_index(table, access_method, Some(family))
}

fn find_whole_index(
    table: pg_sys::Oid,
    access_method: &CStr,
    family: Option<&CStr>,
) -> Option<pg_sys::Oid> {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: relations are opened under a lock, and closed. An index has a column.
    unsafe {
        let method = valid(pg_sys::get_am_oid(access_method.as_ptr(), true))?;
        let open = pg_sys::try_relation_open(table, lock);
        if open.is_null() {
            return None;
        }
        let found = PgRelation::with_lock(table, lock)
            .indices(lock)
            .find(|index| {
                (*index.rd_rel).relam == method
                    && (*index.rd_index).indisvalid
                    && pg_sys::RelationGetIndexPredicate(index.as_ptr()).is_null()
                    && family.is_none_or(|family| is_family(*index.rd_opfamily, family))
            })
            .map(|index| index.oid());
        pg_sys::relation_close(open, lock);
        found
    }
}

/// Returns true if an operator family has a name.
fn is_family(family: pg_sys::Oid, name: &CStr) -> bool {
    // SAFETY: the tuple is read before it is released; a name ends with NUL.
    unsafe {
        let id = pg_sys::SysCacheIdentifier::OPFAMILYOID as i32;
        let tuple = pg_sys::SearchSysCache1(id, family.into());
        if tuple.is_null() {
            return false;
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_opfamily>();
        let is_same = CStr::from_ptr((*form).opfname.data.as_ptr()) == name;
        pg_sys::ReleaseSysCache(tuple);
        is_same
    }
}

/// Runs `f` while this session takes a table for one without indexes. The planner would read the
/// first page of a corrupted index, whatever its settings say.
///
/// # Errors
/// What `f` returned or raised; the (sub)transaction must be aborted then.
pub fn without_indexes<R>(
    table: pg_sys::Oid,
    f: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    // SAFETY: the relation stays open, so that its entry stays in the cache; `catch` lets no ERROR
    // pass by the end of this function. Only the planner reads the field, and whatever reloads the
    // entry sets it again.
    unsafe {
        let table = PgRelation::with_lock(table, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        let entry = (*table.as_ptr()).rd_rel;
        (*entry).relhasindex = false;
        let result = catch(f);
        (*entry).relhasindex = true;
        result
    }
}

/// Drops a trigger, whatever the current role's rights on its table.
pub fn drop_trigger(trigger: pg_sys::Oid) {
    let trigger = pg_sys::ObjectAddress {
        classId: pg_sys::TriggerRelationId,
        objectId: trigger,
        objectSubId: 0,
    };
    // SAFETY: DROP TRIGGER once its name is resolved and its rights are checked.
    unsafe { pg_sys::performDeletion(&raw const trigger, pg_sys::DropBehavior::DROP_RESTRICT, 0) };
}

// -- row-level security

/// A policy for reading a table that applies to the current role.
pub struct Policy {
    pub name: CString,
    pub is_permissive: bool,
}

/// Returns true if policies limit what the current role reads of a table.
pub fn has_row_security(table: pg_sys::Oid) -> bool {
    // SAFETY: a look-up.
    unsafe {
        pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true)
            == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
    }
}

/// Returns the policies for reading a table that apply to the current role. They come from the
/// relation cache, where the planner finds them.
pub fn read_policies(table: pg_sys::Oid) -> Vec<Policy> {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the relation is open, and so its policies stay, until the end of the function.
    unsafe {
        let relation = PgRelation::with_lock(table, lock);
        let description = (*relation.as_ptr()).rd_rsdesc;
        if description.is_null() {
            return vec![];
        }
        PgList::<pg_sys::RowSecurityPolicy>::from_pg((*description).policies)
            .iter_ptr()
            .map(|policy| &*policy)
            .filter(|policy| matches!(policy.polcmd as u8, b'*' | b'r') && applies(policy))
            .map(|policy| Policy {
                name: CStr::from_ptr(policy.policy_name).to_owned(),
                is_permissive: policy.permissive,
            })
            .collect()
    }
}

/// Returns true if a policy is for the current role.
///
/// # Safety
/// A policy of an open relation.
unsafe fn applies(policy: &pg_sys::RowSecurityPolicy) -> bool {
    /// The role PUBLIC in lists of roles.
    const PUBLIC: pg_sys::Oid = pg_sys::InvalidOid;
    let role = super::process::current_user();
    // SAFETY: an array of OIDs without NULLs, which is read where it is.
    let roles: Vec<pg_sys::Oid> = unsafe {
        let datum = pg_sys::Datum::from(policy.roles);
        pgrx::FromDatum::from_polymorphic_datum(datum, false, pg_sys::OIDARRAYOID)
            .unwrap_or_default()
    };
    roles
        .iter()
        .any(|of| *of == PUBLIC || has_privileges_of(role, *of))
}

/// Returns the OID of `rag_internal.source`, or 0 if the database has no such table.
pub fn source_table() -> pg_sys::Oid {
    relation_in(c"source", c"rag_internal")
}

/// Returns the OID of `rag_internal.collection`, or 0 if the database has no such table.
pub fn collections_table() -> pg_sys::Oid {
    relation_in(c"collection", c"rag_internal")
}

/// Returns the OID of `rag.chunks`, or 0 if the database has no such table.
pub fn chunks_table() -> pg_sys::Oid {
    relation_in(c"chunks", c"rag")
}

fn relation_in(name: &CStr, schema: &CStr) -> pg_sys::Oid {
    // SAFETY: look-ups in the system caches.
    unsafe {
        let schema = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    }
}

/// Locks a relation until the transaction ends. `mode` is one of Postgres's lock modes.
pub fn lock_relation(relation: pg_sys::Oid, mode: u32) {
    // SAFETY: a lock on an OID, which needs no relation.
    unsafe { pg_sys::LockRelationOid(relation, mode as pg_sys::LOCKMODE) };
}

/// Locks a relation until the transaction ends, if no lock conflicts. Returns false if one does.
pub fn try_lock_relation(relation: pg_sys::Oid, mode: u32) -> bool {
    // SAFETY: a lock on an OID, which needs no relation.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, mode as pg_sys::LOCKMODE) }
}
