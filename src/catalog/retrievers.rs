//! `rag.retrievers`: named settings for storing and searching collections.

use pgrx::{JsonB, PgSqlErrorCode};

use rag_manifest::Notes;

use super::{access, notes};
use crate::{
    error::Error,
    pg::{
        roles,
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
};

/// The retriever that the extension creates. It cannot be dropped.
const BUILTIN: &str = "default";

#[derive(Debug)]
pub struct Retriever {
    pub name: String,
    pub spec: serde_json::Value,
    pub notes: Notes,
    /// In the format of manifests.
    pub created_at: String,
    /// The collections that use it.
    pub collections: Vec<String>,
}

/// Returns the error for a retriever that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("retriever \"{name}\" does not exist")).hint(
        "The view rag.retrievers lists all retrievers. Create one by calling rag_apply with a \
             manifest of kind Retriever.",
    )
}

pub fn find(name: &str) -> Result<Option<Retriever>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT name, spec,
                    pg_catalog.to_char(created_at AT TIME ZONE 'UTC',
                                       'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') AS created_at,
                    ARRAY(SELECT c.name FROM rag.collections c
                          WHERE c.retriever = r.name ORDER BY 1) AS collections,
                    display_name, labels, annotations
             FROM rag.retrievers r WHERE name = $1",
            &[name.into()],
            |row| {
                Ok(Retriever {
                    name: row.required("name")?,
                    spec: row.required::<JsonB>("spec")?.0,
                    created_at: row.required("created_at")?,
                    collections: row.required("collections")?,
                    notes: notes::read(&row)?,
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// What [`create_or_update`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetrieverChange {
    Created,
    Changed,
    Unchanged,
}

/// Creates a retriever, or updates its settings and metadata.
pub fn create_or_update(
    name: &str,
    spec: &serde_json::Value,
    notes: &Notes,
) -> Result<RetrieverChange, Error> {
    let parameters = || {
        let mut parameters = vec![name.into(), JsonB(spec.clone()).into()];
        parameters.extend(notes::parameters(notes));
        parameters
    };
    as_owner(|| {
        let created = execute(
            "INSERT INTO rag.retrievers (name, spec, display_name, labels, annotations)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            &parameters(),
        )?;
        if created > 0 {
            return Ok(RetrieverChange::Created);
        }
        let changed = execute(
            "UPDATE rag.retrievers
             SET spec = $2, display_name = $3, labels = $4, annotations = $5, updated_at = now()
             WHERE name = $1
               AND (spec, display_name, labels, annotations) IS DISTINCT FROM ($2, $3, $4, $5)",
            &parameters(),
        )?;
        Ok(if changed > 0 {
            RetrieverChange::Changed
        } else {
            RetrieverChange::Unchanged
        })
    })
}

/// Drops a retriever. Returns false if it does not exist.
///
/// # Errors
/// Collections use it, or it is the default retriever.
pub fn drop(name: &str) -> Result<bool, Error> {
    let refuse = |why: &str| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop retriever \"{name}\" because {why}"),
        )
    };
    let role = roles::current();
    as_owner(|| {
        // waits for transactions that assign it to a collection
        let found = execute_returning(
            "SELECT 1 FROM rag.retrievers WHERE name = $1 FOR UPDATE",
            &[name.into()],
            |_| Ok(()),
        )?;
        if found.is_empty() {
            return Ok(false);
        }
        if name == BUILTIN {
            return Err(refuse("it is the default retriever of collections"));
        }
        let users: Vec<String> = execute_returning(
            "SELECT name FROM rag.collections WHERE retriever = $1 ORDER BY name",
            &[name.into()],
            |row| row.required(1),
        )?;
        if !users.is_empty() {
            // the error names only collections that the caller may read
            let known = access::readable_among(role, users)?;
            let named = if known.is_empty() {
                "some that belong to other owners".into()
            } else {
                known.join(", ")
            };
            return Err(refuse("collections depend on it")
                .detail(format!("Collections: {named}."))
                .hint("Drop the collections first with rag_drop_collection."));
        }
        execute("DELETE FROM rag.retrievers WHERE name = $1", &[name.into()])?;
        Ok(true)
    })
}
