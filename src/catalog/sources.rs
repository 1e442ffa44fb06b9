//! `rag.source`: where documents come from.

use std::time::Duration;

use pgrx::pg_sys;
use rag_protocol::spec::SourceSpec;

use super::{as_owner, execute, execute_returning, name::Name, query};
use crate::error::Error;

#[derive(Debug, Clone)]
pub struct Source {
    pub name: Name,
    pub spec: SourceSpec,
    pub collection: String,
    /// Whose rights its runs have.
    pub owner: String,
    /// Name of the secret that its server is shown.
    pub credentials: Option<String>,
    /// Most time of one run.
    pub timeout: Duration,
    /// Counts the changes of its definition.
    pub generation: i64,
    /// Made or changed by the present, uncommitted transaction: nobody else can see it yet.
    pub uncommitted: bool,
}

impl Source {
    /// # Errors
    /// There is no such source.
    pub fn get(name: &str) -> Result<Self, Error> {
        Self::find(name)?.ok_or_else(|| Self::missing(name))
    }

    /// The error for a source that does not exist.
    pub fn missing(name: &str) -> Error {
        Error::undefined(format!("source \"{name}\" does not exist"))
            .hint("rag.sources lists them; rag_create_source makes one.")
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let found = as_owner(|| {
            query(
                "SELECT name, kind, spec, collection, owner, extract(epoch FROM timeout)::pg_catalog.float8,
                        generation, xmin, credentials
                 FROM rag.source WHERE name = $1",
                &[name.into()],
                |row| {
                    let kind: String = row.required(2)?;
                    let spec: pgrx::JsonB = row.required(3)?;
                    Ok(Self {
                        name: Name::parse("source", &row.required::<String>(1)?)?,
                        spec: SourceSpec::parse(&kind, &spec.0)
                            .map_err(|problems| Error::invalid_spec(&format!("source \"{name}\""), &problems))?,
                        collection: row.required(4)?,
                        owner: row.required(5)?,
                        timeout: Duration::from_secs_f64(row.required::<f64>(6)?.max(0.0)),
                        generation: row.required(7)?,
                        uncommitted: is_current_transaction(row.required(8)?),
                        credentials: row.get(9)?,
                    })
                },
            )
        })?;
        Ok(found.into_iter().next())
    }
}

#[allow(unsafe_code)]
fn is_current_transaction(xmin: pg_sys::TransactionId) -> bool {
    // SAFETY: looks at the session's own transaction state.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xmin) }
}

/// A source that is to be made.
pub struct NewSource<'a> {
    pub name: &'a Name,
    pub kind: &'a str,
    pub spec: pgrx::JsonB,
    pub collection: &'a str,
    pub owner: &'a str,
    pub credentials: Option<&'a str>,
    pub timeout: pgrx::datum::Interval,
}

/// # Errors
/// The name is taken.
pub fn create(new: NewSource<'_>) -> Result<(), Error> {
    let made = as_owner(|| {
        execute(
            "INSERT INTO rag.source (name, kind, spec, collection, owner, credentials, timeout)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT DO NOTHING",
            &[
                new.name.as_str().into(),
                new.kind.into(),
                new.spec.into(),
                new.collection.into(),
                new.owner.into(),
                new.credentials.into(),
                new.timeout.into(),
            ],
        )
    })?;
    if made == 0 {
        return Err(Error::duplicate(format!("source \"{}\" already exists", new.name)));
    }
    Ok(())
}

/// Deletes a source with its runs; its documents are the caller's business.
pub fn drop(name: &Name) -> Result<(), Error> {
    as_owner(|| {
        for statement in [
            "DELETE FROM rag.run_errors WHERE source = $1",
            "DELETE FROM rag.run WHERE source = $1",
            "DELETE FROM rag.source WHERE name = $1",
        ] {
            execute(statement, &[name.as_str().into()])?;
        }
        Ok(())
    })
}

/// Whether the definition is still the one that a run started with, or is gone.
///
/// Whoever drops or changes it waits until the present transaction is through, and sees what it stored.
pub fn is_current(source: &Source) -> Result<bool, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT 1 FROM rag.source WHERE name = $1 AND generation = $2 FOR SHARE",
            &[source.name.as_str().into(), source.generation.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}
