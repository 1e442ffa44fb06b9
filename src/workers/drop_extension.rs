//! DROP EXTENSION: what it would take with it, and what it leaves.
//!
//! The tables that hold documents are partitions of one of the extension's own, and so no reason
//! for the server to refuse the command without CASCADE. An event trigger of the extension's does
//! it before the command begins, with preload and without.
#![allow(unsafe_code)] // an event trigger's call and the command that it is about

use pgrx::{PgList, PgSqlErrorCode as Code, is_a, pg_guard, pg_sys};

use super::hooks;
use crate::{
    catalog::documents,
    engine::{RUNTIME_DIR, clones},
    error::Error,
    pg::process::database,
};

#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_rag_before_drop() -> &'static pg_sys::Pg_finfo_record {
    const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &V1
}

/// # Safety
/// Called by Postgres.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rag_before_drop(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the caller's; the node's tag says whether it is an event trigger's call.
    let dropped = unsafe {
        let context = (*call).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_EventTriggerData {
            Error::new(
                Code::ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED,
                "rag.before_drop() can only be called as an event trigger",
            )
            .raise();
        }
        behavior((*context.cast::<pg_sys::EventTriggerData>()).parsetree)
    };
    if let Some(behavior) = dropped
        && let Err(error) = before_drop(behavior == pg_sys::DropBehavior::DROP_CASCADE)
    {
        error.raise();
    }
    pg_sys::Datum::null()
}

/// CASCADE or RESTRICT of a command that drops the extension, which the session may do; `None`: it
/// does not.
unsafe fn behavior(command: *mut pg_sys::Node) -> Option<pg_sys::DropBehavior::Type> {
    // SAFETY: a node of a statement, which is the type that its tag says; look-ups in a
    // transaction.
    unsafe {
        if command.is_null() {
            None
        } else if is_a(command, pg_sys::NodeTag::T_DropStmt) {
            let drop = command.cast::<pg_sys::DropStmt>();
            hooks::drops_extension(drop).then_some((*drop).behavior)
        } else if is_a(command, pg_sys::NodeTag::T_DropOwnedStmt) {
            let drop = command.cast::<pg_sys::DropOwnedStmt>();
            let owner = crate::pg::extension::extension_owner()?;
            let is_owners = PgList::<pg_sys::RoleSpec>::from_pg((*drop).roles)
                .iter_ptr()
                .any(|role| pg_sys::get_rolespec_oid(role, true) == owner);
            (is_owners && pg_sys::has_privs_of_role(pg_sys::GetUserId(), owner))
                .then_some((*drop).behavior)
        } else {
            None
        }
    }
}

fn before_drop(cascade: bool) -> Result<(), Error> {
    if !cascade {
        let collections = documents::in_partitions()?;
        if !collections.is_empty() {
            let lines: Vec<String> = collections
                .iter()
                .map(|(name, count)| {
                    format!(
                        "collection {name}: {count} {}",
                        if *count == 1 { "document" } else { "documents" }
                    )
                })
                .collect();
            return Err(Error::new(
                Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                "cannot drop extension rag because collections contain documents",
            )
            .detail(lines.join("\n"))
            .hint("Use DROP ... CASCADE to drop the documents too, or pg_dump to keep them."));
        }
    }
    clones::forget_database_at_commit(database().to_u32());
    pgrx::notice!(
        "extension rag leaves the roles rag_admin and rag_reader and the folder {RUNTIME_DIR} of the data \
         directory, which belong to the cluster"
    );
    Ok(())
}
