//! DROP EXTENSION: what it would drop, and what it leaves behind.
//!
//! The tables that hold documents are partitions of one of the extension's own tables. So the
//! server has no reason to refuse the command without CASCADE. An event trigger of the extension
//! refuses it before the command begins, with preload and without.

use pgrx::PgSqlErrorCode as Code;

use crate::{
    catalog::documents,
    engine::{RUNTIME_DIR, clones},
    error::Error,
    models,
    pg::{
        calls::{c_function, handle_drop_trigger},
        process::database,
        spi::as_owner,
    },
};

c_function!(
    rag_before_drop,
    pg_finfo_rag_before_drop,
    handle_drop_trigger,
    before_drop
);

fn before_drop(cascade: bool) -> Result<(), Error> {
    if !cascade {
        let collections = as_owner(documents::counts_in_partitions)?;
        if !collections.is_empty() {
            let lines: Vec<String> = collections
                .iter()
                .map(|(name, count)| {
                    let noun = if *count == 1 { "document" } else { "documents" };
                    format!("collection {name}: {count} {noun}")
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
    models::forget_database_at_commit(database().to_u32());
    pgrx::notice!(
        "extension rag leaves the roles rag_admin and rag_reader and the folder {RUNTIME_DIR} of \
         the data directory, which belong to the cluster"
    );
    Ok(())
}
