//! Casts from and to pgvector's type, if both extensions are in a database.

use pgrx::{pg_extern, pg_sys, pg_sys::panic::ErrorReport};

use super::datum::make_cast_depend_on_extension;
use crate::{
    error::Error,
    pg::roles::{current, is_superuser},
};

/// Makes DROP EXTENSION drop a cast together with an extension, without CASCADE. The cast cannot
/// be a member of either extension: then the other extension, whose type the cast names, could not
/// be dropped.
#[pg_extern(sql = false, strict)]
fn rag_cast_goes_with(cast: pg_sys::Oid, extension: pg_sys::Oid) -> Result<(), ErrorReport> {
    if !is_superuser(current()) {
        return Err(Error::permission_denied(
            "must be superuser to create casts of pgvector's type",
        )
        .into());
    }
    make_cast_depend_on_extension(cast, extension);
    Ok(())
}
