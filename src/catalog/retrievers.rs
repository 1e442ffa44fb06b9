//! `rag_internal.retriever`: named settings for storing and searching collections.

use pgrx::JsonB;

use super::notes;
use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{Row, as_owner},
    },
};
use rag_definition::{FieldProblem, Notes, SecretRef, name::split, retriever::RetrieverDefinition};
use serde_json::Value;

#[derive(Debug)]
pub struct Retriever {
    pub name: String,
    pub definition: RetrieverDefinition,
    pub notes: Notes,
    pub owner: Owner,
    /// In the format of manifests.
    pub created_at: String,
    /// The collections that use it.
    pub collections: Vec<String>,
}

/// Returns the error for a retriever that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("retriever \"{name}\" does not exist")).hint(
        "The view rag.retrievers lists all retrievers. Create one with rag_create_retriever, or \
         with a manifest of kind Retriever.",
    )
}

const COLUMNS: &str =
    "r.name, r.spec, r.display_name, r.labels, r.annotations, r.owner, r.owner_id,
    to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
        AS created_at,
    ARRAY(SELECT c.name FROM rag_internal.collection c WHERE c.retriever = r.name ORDER BY 1)
        AS collections";

impl Retriever {
    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let name: String = row.required("name")?;
        Ok(Self {
            definition: definition(&name, &row.required::<JsonB>("spec")?.0)?,
            notes: notes::read(row)?,
            name,
            owner: Owner::stored(row.required("owner_id")?, row.required("owner")?),
            created_at: row.required("created_at")?,
            collections: row.required("collections")?,
        })
    }
}

pub fn find(name: &str) -> Result<Option<Retriever>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            &format!("SELECT {COLUMNS} FROM rag_internal.retriever r WHERE r.name = $1"),
            &[name.into()],
            |row| Retriever::read(&row),
        )
    })?;
    Ok(found.into_iter().next())
}

pub fn all() -> Result<Vec<Retriever>, Error> {
    as_owner(|owner| {
        owner.query(
            &format!("SELECT {COLUMNS} FROM rag_internal.retriever r ORDER BY r.name"),
            &[],
            |row| Retriever::read(&row),
        )
    })
}

/// Returns a retriever, and waits for transactions that assign it to a collection.
pub fn lock(name: &str) -> Result<Option<Retriever>, Error> {
    let found = as_owner(|owner| {
        owner.execute_returning(
            &format!("SELECT {COLUMNS} FROM rag_internal.retriever r WHERE r.name = $1 FOR UPDATE"),
            &[name.into()],
            |row| Retriever::read(&row),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Reads the stored settings of a retriever.
///
/// # Errors
/// Somebody has changed the table by hand.
pub fn definition(name: &str, spec: &Value) -> Result<RetrieverDefinition, Error> {
    RetrieverDefinition::parse(spec).map_err(|problems| invalid(name, &problems))
}

/// Returns the error for invalid settings.
pub fn invalid(name: &str, problems: &[FieldProblem]) -> Error {
    Error::invalid_spec(&format!("retriever \"{name}\""), problems)
}

impl Retriever {
    /// Returns the values of secrets that the storage sends to its server. Secrets are in the
    /// namespace of the retriever.
    pub fn secrets(&self) -> impl Iterator<Item = SecretRef> {
        let secrets = self.definition.storage().secrets().into_iter().flatten();
        secrets.map(|secret| secret.within(split(&self.name).0))
    }
}

/// Returns the collections with a retriever that have documents, or had.
pub fn filled_collections(name: &str) -> Result<Vec<String>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT name FROM rag_internal.collection WHERE retriever = $1 AND model IS NOT NULL
             ORDER BY name",
            &[name.into()],
            |row| row.required("name"),
        )
    })
}

/// Creates a retriever that the current role owns. Returns false if one of the name exists.
pub fn create(name: &str, definition: &RetrieverDefinition, notes: &Notes) -> Result<bool, Error> {
    let owner = Owner::current()?;
    let mut parameters = vec![name.into(), JsonB(definition.to_json()).into()];
    parameters.extend(notes::parameters(notes));
    parameters.extend([owner.name.as_str().into(), owner.id.into()]);
    let created = as_owner(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.retriever (name, spec, display_name, labels, annotations,
                owner,
                                         owner_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
            &parameters,
        )
    })?;
    Ok(created > 0)
}

/// Replaces the settings and metadata of a retriever. Returns false if they are the same.
pub fn update(name: &str, definition: &RetrieverDefinition, notes: &Notes) -> Result<bool, Error> {
    let mut parameters = vec![name.into(), JsonB(definition.to_json()).into()];
    parameters.extend(notes::parameters(notes));
    let changed = as_owner(|owner| {
        owner.execute(
            "UPDATE rag_internal.retriever
             SET spec = $2, display_name = $3, labels = $4, annotations = $5, updated_at = now()
             WHERE name = $1
               AND (spec, display_name, labels, annotations) IS DISTINCT FROM ($2, $3, $4, $5)",
            &parameters,
        )
    })?;
    Ok(changed > 0)
}

/// Returns the collections that have a retriever, or wait for a rebuild with it. The caller holds a
/// lock that came after the statement of the user.
pub fn users(name: &str) -> Result<Vec<String>, Error> {
    as_owner(|owner| {
        owner.execute_returning(
            "SELECT name FROM rag_internal.collection
             WHERE $1 IN (retriever, wanted ->> 'retriever') ORDER BY name",
            &[name.into()],
            |row| row.required("name"),
        )
    })
}

pub fn delete(name: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.retriever WHERE name = $1",
            &[name.into()],
        )
    })?;
    Ok(())
}
