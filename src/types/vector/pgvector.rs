//! Casts from and to the type of pgvector, where both extensions are in a database.
#![allow(unsafe_code)] // records dependencies

use pgrx::{pg_extern, pg_sys, pg_sys::panic::ErrorReport};

use crate::error::Error;

/// `pg_cast`, whose header pgrx leaves out.
const CAST_RELATION: pg_sys::Oid = pg_sys::Oid::from_u32(2605);

/// Has a cast go with an extension: DROP EXTENSION drops it without a word. A cast that is a member
/// of one extension would keep the other, whose type it names, from being dropped.
#[pg_extern(sql = false, strict)]
fn rag_cast_goes_with(cast: pg_sys::Oid, extension: pg_sys::Oid) -> Result<(), ErrorReport> {
    // SAFETY: reads the session's state.
    if !unsafe { pg_sys::superuser() } {
        return Err(Error::permission_denied(
            "must be superuser to create casts of pgvector's type",
        )
        .into());
    }
    let address = |class, object| pg_sys::ObjectAddress {
        classId: class,
        objectId: object,
        objectSubId: 0,
    };
    let behavior = pg_sys::DependencyType::DEPENDENCY_AUTO_EXTENSION;
    // SAFETY: writes a row of pg_depend, as ALTER ... DEPENDS ON EXTENSION does.
    unsafe {
        let (cast, extension) = (
            address(CAST_RELATION, cast),
            address(pg_sys::ExtensionRelationId, extension),
        );
        pg_sys::recordDependencyOn(&cast, &extension, behavior);
    }
    Ok(())
}
