//! What the workers must hear of: the extension being created or dropped, databases coming and
//! going, and sources changing.
//!
//! Hooks note it, and tell when the transaction has committed ([`at_commit`]). Before a command
//! that needs a database to itself (DROP, RENAME, SET TABLESPACE, a database as template) the
//! workers in that database are asked to leave, and kept away until the transaction's end; and so
//! before DROP EXTENSION, which could meet with them in a deadlock. Installed with
//! `shared_preload_libraries = 'rag'` only.
#![allow(unsafe_code)] // hooks of the server's

use std::ffi::{CStr, c_char, c_int, c_void};

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use crate::{
    cluster::{news, shared},
    engine::clones,
    pg::process::database,
};

static mut PREVIOUS_OBJECT_ACCESS: pg_sys::object_access_hook_type = None;
static mut PREVIOUS_UTILITY: pg_sys::ProcessUtility_hook_type = None;

/// Installs the hooks; while the server loads its preloaded libraries.
pub fn install() {
    // SAFETY: nothing else runs yet, and each hook calls the one that was there.
    unsafe {
        PREVIOUS_OBJECT_ACCESS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
        PREVIOUS_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(utility);
    }
}

// Neither hook is guarded by pgrx, and neither calls what it stands before through pgrx, which
// would take every ERROR of the server's apart and raise it anew: without its place in the
// statement, its context, and the names of what it is about. An ERROR leaps over these frames,
// which have nothing to drop.

unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: c_int,
    argument: *mut c_void,
) {
    // SAFETY: as the server calls it.
    unsafe {
        if let Some(previous) = PREVIOUS_OBJECT_ACCESS {
            previous(access, class, object, part, argument);
        }
        after_access(access, class, object);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn after_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_CREATE};
    if matches!(access, OAT_POST_CREATE | OAT_DROP) {
        match class {
            pg_sys::ExtensionRelationId => news::note(|news| news.extensions = true),
            pg_sys::DatabaseRelationId => {
                news::note(|news| news.databases = true);
                if access == OAT_DROP {
                    clones::forget_database_at_commit(object.to_u32());
                }
            }
            _ => {}
        }
    }
}

#[cfg(not(feature = "pg13"))]
unsafe extern "C-unwind" {
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

#[cfg(feature = "pg13")]
unsafe extern "C-unwind" {
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        context: pg_sys::ProcessUtilityContext::Type,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        destination: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

#[cfg(not(feature = "pg13"))]
#[allow(clippy::too_many_arguments)] // the server's
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: as the server calls it.
    unsafe {
        before((*statement).utilityStmt);
        match PREVIOUS_UTILITY {
            Some(previous) => previous(
                statement,
                query,
                read_only_tree,
                context,
                params,
                environment,
                destination,
                completion,
            ),
            None => standard_ProcessUtility(
                statement,
                query,
                read_only_tree,
                context,
                params,
                environment,
                destination,
                completion,
            ),
        }
    }
}

#[cfg(feature = "pg13")]
#[allow(clippy::too_many_arguments)] // the server's
unsafe extern "C-unwind" fn utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: as the server calls it.
    unsafe {
        before((*statement).utilityStmt);
        match PREVIOUS_UTILITY {
            Some(previous) => previous(
                statement,
                query,
                context,
                params,
                environment,
                destination,
                completion,
            ),
            None => standard_ProcessUtility(
                statement,
                query,
                context,
                params,
                environment,
                destination,
                completion,
            ),
        }
    }
}

/// Looks at a utility command before it is carried out.
#[pg_guard]
unsafe extern "C-unwind" fn before(command: *mut pg_sys::Node) {
    // SAFETY: a node of a statement, which is the type that its tag says.
    unsafe {
        if is_a(command, pg_sys::NodeTag::T_DropdbStmt) {
            empty((*command.cast::<pg_sys::DropdbStmt>()).dbname);
        } else if is_a(command, pg_sys::NodeTag::T_RenameStmt) {
            let rename = command.cast::<pg_sys::RenameStmt>();
            if (*rename).renameType == pg_sys::ObjectType::OBJECT_DATABASE {
                empty((*rename).subname);
            }
        } else if is_a(command, pg_sys::NodeTag::T_AlterDatabaseStmt) {
            let alter = command.cast::<pg_sys::AlterDatabaseStmt>();
            // it may be one now that workers are to be in, or not any more
            news::note(|news| news.databases = true);
            if option((*alter).options, c"tablespace").is_some() {
                empty((*alter).dbname);
            }
        } else if is_a(command, pg_sys::NodeTag::T_CreatedbStmt) {
            if let Some(template) = option(
                (*command.cast::<pg_sys::CreatedbStmt>()).options,
                c"template",
            ) {
                empty(template);
            }
        } else if is_a(command, pg_sys::NodeTag::T_DropStmt) {
            if drops_extension(command.cast()) {
                news::note(|news| news.evictions = true);
                shared::evict(database());
            }
        } else if is_a(command, pg_sys::NodeTag::T_TransactionStmt) {
            // what another session prepared is visible with this one's end
            let kind = (*command.cast::<pg_sys::TransactionStmt>()).kind;
            if kind == pg_sys::TransactionStmtKind::TRANS_STMT_COMMIT_PREPARED {
                news::note(|news| (news.extensions, news.sources) = (true, true));
            }
        }
    }
}

/// The text of one of a command's options, where it has one.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut c_char> {
    // SAFETY: a list of DefElem, as the grammar makes it.
    unsafe {
        let found = PgList::<pg_sys::DefElem>::from_pg(options)
            .iter_ptr()
            .find(|element| CStr::from_ptr((**element).defname) == name)?;
        (!(*found).arg.is_null()).then(|| pg_sys::defGetString(found))
    }
}

/// Whether a command drops this extension, which the session may do.
pub unsafe fn drops_extension(drop: *mut pg_sys::DropStmt) -> bool {
    #[cfg(any(feature = "pg13", feature = "pg14"))]
    // SAFETY: a name in a list of names.
    let text = |name: *mut pg_sys::Value| unsafe { CStr::from_ptr((*name).val.str_) };
    #[cfg(not(any(feature = "pg13", feature = "pg14")))]
    // SAFETY: a name in a list of names.
    let text = |name: *mut pg_sys::String| unsafe { CStr::from_ptr((*name).sval) };
    // SAFETY: a list of names, as the grammar makes it; look-ups in a transaction.
    unsafe {
        if (*drop).removeType != pg_sys::ObjectType::OBJECT_EXTENSION
            || !pg_sys::IsTransactionState()
        {
            return false;
        }
        if !PgList::from_pg((*drop).objects)
            .iter_ptr()
            .any(|name| text(name) == c"rag")
        {
            return false;
        }
        let extension = pg_sys::get_extension_oid(c"rag".as_ptr(), true);
        if extension == pg_sys::InvalidOid {
            return false;
        }
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        return pg_sys::pg_extension_ownercheck(extension, pg_sys::GetUserId());
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        return pg_sys::object_ownercheck(
            pg_sys::ExtensionRelationId,
            extension,
            pg_sys::GetUserId(),
        );
    }
}

/// Has the extension's workers leave a database that the session may do with as it likes.
unsafe fn empty(name: *mut c_char) {
    // SAFETY: look-ups in a transaction; the name is a statement's.
    unsafe {
        if name.is_null() || !pg_sys::IsTransactionState() {
            return;
        }
        let target = pg_sys::get_database_oid(name, true);
        if target == pg_sys::InvalidOid || target == database() || !owns(target) {
            return;
        }
        news::note(|news| news.evictions = true);
        shared::evict(target);
    }
}

unsafe fn owns(target: pg_sys::Oid) -> bool {
    // SAFETY: a look-up of an existing database.
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        return pg_sys::pg_database_ownercheck(target, pg_sys::GetUserId());
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        return pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, target, pg_sys::GetUserId());
    }
}
