//! `rag.secret` and `rag.secret_value`: secrets, encrypted or as references.

use super::name::Name;
use rag_protocol::name::qualify;

use crate::{
    error::Error,
    pg::{
        roles::Owner,
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
};

/// What is stored in the place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Bytes of [`rag_secret::sealed`].
    Sealed(Vec<u8>),
    /// `env:NAME` or `file:/path`.
    Reference(String),
}

/// One of the values of a secret.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Name of the secret.
    pub name: String,
    /// `token`, `username`, `password`, ...
    pub key: String,
    pub stored: Stored,
}

/// The error for a secret that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("secret \"{name}\" does not exist"))
        .hint("rag.secrets lists them; rag_create_secret makes one.")
}

/// Owner of a secret, which nobody else can drop until the transaction ends.
pub fn lock(name: &str) -> Result<Option<Owner>, Error> {
    owner_by(
        "SELECT owner_id, owner FROM rag.secret WHERE name = $1 FOR KEY SHARE",
        name,
    )
}

/// Owner of a secret.
pub fn owner(name: &str) -> Result<Option<Owner>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT owner_id, owner FROM rag.secret WHERE name = $1",
            &[name.into()],
            read_owner,
        )
    })?;
    Ok(found.into_iter().next())
}

/// Owner of a secret, which nobody else can change or drop until the transaction ends; `owner` if
/// it is new.
pub fn make_and_lock(name: &Name, owner: &Owner) -> Result<Owner, Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.secret (name, owner, owner_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[
                name.as_str().into(),
                owner.name.as_str().into(),
                owner.id.into(),
            ],
        )
    })?;
    owner_by(
        "SELECT owner_id, owner FROM rag.secret WHERE name = $1 FOR UPDATE",
        name.as_str(),
    )?
    .ok_or_else(|| {
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("secret \"{name}\" was dropped by another session meanwhile"),
        )
    })
}

/// Owner of a secret, which nobody else can change or drop until the transaction ends.
pub fn lock_to_drop(name: &str) -> Result<Option<Owner>, Error> {
    owner_by(
        "SELECT owner_id, owner FROM rag.secret WHERE name = $1 FOR UPDATE",
        name,
    )
}

fn owner_by(statement: &str, name: &str) -> Result<Option<Owner>, Error> {
    let found = as_owner(|| execute_returning(statement, &[name.into()], read_owner))?;
    Ok(found.into_iter().next())
}

fn read_owner(row: crate::pg::spi::Row<'_, '_>) -> Result<Owner, Error> {
    Ok(Owner::stored(row.required(1)?, row.required(2)?))
}

/// Stores a value in the place of the one that the key had.
pub fn put(name: &str, key: &str, stored: &Stored) -> Result<(), Error> {
    let (sealed, reference) = columns(stored);
    as_owner(|| {
        execute(
            "INSERT INTO rag.secret_value AS v (name, key, sealed, reference) VALUES ($1, $2, $3, $4)
             ON CONFLICT (name, key) DO UPDATE
             SET sealed = excluded.sealed, reference = excluded.reference, updated_at = pg_catalog.now()",
            &[name.into(), key.into(), sealed.into(), reference.into()],
        )
    })?;
    Ok(())
}

/// Stores the same value under another encryption key.
pub fn reseal(entry: &Entry, sealed: &[u8]) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.secret_value SET sealed = $3 WHERE name = $1 AND key = $2",
            &[
                entry.name.as_str().into(),
                entry.key.as_str().into(),
                sealed.into(),
            ],
        )
    })?;
    Ok(())
}

fn columns(stored: &Stored) -> (Option<&[u8]>, Option<&str>) {
    match stored {
        Stored::Sealed(sealed) => (Some(sealed), None),
        Stored::Reference(reference) => (None, Some(reference)),
    }
}

/// All that is stored of a secret.
pub fn entries(name: &str) -> Result<Vec<Entry>, Error> {
    as_owner(|| {
        query(
            "SELECT name, key, sealed, reference FROM rag.secret_value WHERE name = $1",
            &[name.into()],
            read_entry,
        )
    })
}

/// All encrypted values of the database, for an update.
pub fn lock_sealed() -> Result<Vec<Entry>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT name, key, sealed, reference FROM rag.secret_value WHERE sealed IS NOT NULL ORDER BY name, key FOR UPDATE",
            &[],
            read_entry,
        )
    })
}

fn read_entry(row: crate::pg::spi::Row<'_, '_>) -> Result<Entry, Error> {
    let stored = match row.get::<Vec<u8>>(3)? {
        Some(sealed) => Stored::Sealed(sealed),
        None => Stored::Reference(row.required(4)?),
    };
    Ok(Entry {
        name: row.required(1)?,
        key: row.required(2)?,
        stored,
    })
}

/// Every encrypted value, as it is now: a snapshot that was taken before may lack some.
pub fn sealed_now() -> Result<Vec<Vec<u8>>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT sealed FROM rag.secret_value WHERE sealed IS NOT NULL",
            &[],
            |row| row.required(1),
        )
    })
}

/// Every encrypted value, without writing anything: on a standby too.
pub fn sealed() -> Result<Vec<Vec<u8>>, Error> {
    as_owner(|| {
        query(
            "SELECT sealed FROM rag.secret_value WHERE sealed IS NOT NULL",
            &[],
            |row| row.required(1),
        )
    })
}

/// Sources that use a secret.
pub fn users(name: &str) -> Result<Vec<String>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT name FROM rag.source WHERE credentials = $1 ORDER BY name",
            &[name.into()],
            |row| row.required(1),
        )
    })
}

/// Sources that use one value of a secret: those that name its key, and, `with_unnamed`, those that
/// name none.
pub fn users_of_key(name: &str, key: &str, with_unnamed: bool) -> Result<Vec<String>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT name FROM rag.source WHERE credentials = $1 AND coalesce(credentials_key = $2, $3) ORDER BY name",
            &[name.into(), key.into(), with_unnamed.into()],
            |row| row.required(1),
        )
    })
}

/// Removes a secret with all its values.
pub fn drop(name: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "DELETE FROM rag.secret_value WHERE name = $1",
            &[name.into()],
        )?;
        execute("DELETE FROM rag.secret WHERE name = $1", &[name.into()])?;
        Ok(())
    })
}

/// Removes one value of a secret.
pub fn drop_key(name: &str, key: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "DELETE FROM rag.secret_value WHERE name = $1 AND key = $2",
            &[name.into(), key.into()],
        )
    })?;
    Ok(())
}

/// What a source names for its server: a secret of its namespace, or one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its qualified name.
    pub secret: String,
    /// `None`: its token, or else its password.
    pub key: Option<String>,
}

impl Named {
    /// Reads `secret` or `secret/key`, where the secret is one of the source's namespace.
    pub fn parse(text: &str, namespace: &str) -> Self {
        let (secret, key) = match text.split_once('/') {
            Some((secret, key)) => (secret, Some(key.into())),
            None => (text, None),
        };
        Self {
            secret: qualify(namespace, secret),
            key,
        }
    }
}
