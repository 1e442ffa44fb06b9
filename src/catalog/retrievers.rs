//! `rag.retrievers`: named settings of how collections are stored and searched.

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

/// The one that is there from the beginning, and stays.
const BUILTIN: &str = "default";

#[derive(Debug)]
pub struct Retriever {
    pub name: String,
    pub spec: serde_json::Value,
    pub notes: Notes,
    /// As manifests write times.
    pub created_at: String,
    /// Collections that have it.
    pub collections: Vec<String>,
}

/// The error for a retriever that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("retriever \"{name}\" does not exist"))
        .hint("rag.retrievers lists them; a manifest of kind Retriever makes one: rag_apply.")
}

pub fn find(name: &str) -> Result<Option<Retriever>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT name, spec, pg_catalog.to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),
                    ARRAY(SELECT c.name FROM rag.collections c WHERE c.retriever = r.name ORDER BY 1),
                    display_name, labels, annotations
             FROM rag.retrievers r WHERE name = $1",
            &[name.into()],
            |row| {
                Ok(Retriever {
                    name: row.required(1)?,
                    spec: row.required::<JsonB>(2)?.0,
                    created_at: row.required(3)?,
                    collections: row.required(4)?,
                    notes: notes::read(&row, 5)?,
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// What became of a retriever that was put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Created,
    Changed,
    Unchanged,
}

/// Creates a retriever, or gives it other settings and notes.
pub fn put(name: &str, spec: &serde_json::Value, notes: &Notes) -> Result<Put, Error> {
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
            return Ok(Put::Created);
        }
        let changed = execute(
            "UPDATE rag.retrievers
             SET spec = $2, display_name = $3, labels = $4, annotations = $5, updated_at = now()
             WHERE name = $1
               AND (spec, display_name, labels, annotations) IS DISTINCT FROM ($2, $3, $4, $5)",
            &parameters(),
        )?;
        Ok(if changed > 0 {
            Put::Changed
        } else {
            Put::Unchanged
        })
    })
}

/// Drops a retriever; whether there was one.
///
/// # Errors
/// Collections have it, or it is the one named default.
pub fn drop(name: &str) -> Result<bool, Error> {
    let refuse = |why: &str| {
        Error::new(
            PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop retriever \"{name}\" because {why}"),
        )
    };
    let role = roles::current();
    as_owner(|| {
        // after whoever is giving it to a collection
        let found = execute_returning(
            "SELECT 1 FROM rag.retrievers WHERE name = $1 FOR UPDATE",
            &[name.into()],
            |_| Ok(()),
        )?;
        if found.is_empty() {
            return Ok(false);
        }
        if name == BUILTIN {
            return Err(refuse("it is the one of collections that name none"));
        }
        let users: Vec<String> = execute_returning(
            "SELECT name FROM rag.collections WHERE retriever = $1 ORDER BY name",
            &[name.into()],
            |row| row.required(1),
        )?;
        if !users.is_empty() {
            // those that the caller may not know of are not named
            let known = access::readable_among(role, users)?;
            let named = if known.is_empty() {
                "some of other owners".into()
            } else {
                known.join(", ")
            };
            return Err(refuse("collections have it")
                .detail(format!("Collections: {named}."))
                .hint("Drop them first: rag_drop_collection."));
        }
        execute("DELETE FROM rag.retrievers WHERE name = $1", &[name.into()])?;
        Ok(true)
    })
}
