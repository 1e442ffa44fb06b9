//! `rag_internal.secret` and `rag_internal.secret_value`: encrypted secrets, and references to
//! secrets.

use pgrx::datum::DatumWithOid;
use rag_definition::SecretRef;

use super::{
    name::Name,
    retrievers::{self, Retriever},
};
use crate::{
    error::Error,
    pg::{roles::Owner, spi::as_owner},
};

/// The stored form of a secret value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSecret {
    /// Encrypted by [`rag_secret::sealed`].
    Sealed(Vec<u8>),
    /// `env:NAME` or `file:/path`.
    Reference(String),
}

/// One value of a secret.
#[derive(Debug, Clone)]
pub struct SecretEntry {
    /// The name of the secret.
    pub name: String,
    /// `token`, `username`, `password`, ...
    pub key: String,
    pub stored: StoredSecret,
}

/// Returns the error for a secret that does not exist.
pub fn missing(name: &str) -> Error {
    Error::undefined(format!("secret \"{name}\" does not exist"))
        .hint("The view rag.secrets lists all secrets. Create one with rag_create_secret.")
}

/// Returns the owner of a secret, and locks the secret against a drop until the transaction ends.
pub fn lock(name: &str) -> Result<Option<Owner>, Error> {
    owner_by(
        "SELECT owner_id, owner FROM rag_internal.secret WHERE name = $1 FOR KEY SHARE",
        name,
    )
}

/// Returns the owner of a secret.
pub fn owner(name: &str) -> Result<Option<Owner>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT owner_id, owner FROM rag_internal.secret WHERE name = $1",
            &[name.into()],
            read_owner,
        )
    })?;
    Ok(found.into_iter().next())
}

/// Returns the owner of a secret, and locks the secret against changes until the transaction ends.
/// A secret that does not exist is created with `owner`.
pub fn create_and_lock(name: &Name, owner: &Owner) -> Result<Owner, Error> {
    as_owner(|rights| {
        rights.execute(
            "INSERT INTO rag_internal.secret (name, owner, owner_id) VALUES ($1, $2, $3)
             ON CONFLICT DO NOTHING",
            &[
                name.as_str().into(),
                owner.name.as_str().into(),
                owner.id.into(),
            ],
        )
    })?;
    owner_by(
        "SELECT owner_id, owner FROM rag_internal.secret WHERE name = $1 FOR UPDATE",
        name.as_str(),
    )?
    .ok_or_else(|| {
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("secret \"{name}\" was dropped by another session"),
        )
    })
}

/// Returns the owner of a secret, and locks the secret against changes until the transaction ends.
pub fn lock_to_drop(name: &str) -> Result<Option<Owner>, Error> {
    owner_by(
        "SELECT owner_id, owner FROM rag_internal.secret WHERE name = $1 FOR UPDATE",
        name,
    )
}

fn owner_by(statement: &str, name: &str) -> Result<Option<Owner>, Error> {
    let found = as_owner(|owner| owner.execute_returning(statement, &[name.into()], read_owner))?;
    Ok(found.into_iter().next())
}

fn read_owner(row: crate::pg::spi::Row<'_, '_>) -> Result<Owner, Error> {
    Ok(Owner::stored(
        row.required("owner_id")?,
        row.required("owner")?,
    ))
}

/// Stores the value of a key. It replaces an existing value.
pub fn put(name: &str, key: &str, stored: &StoredSecret) -> Result<(), Error> {
    let (sealed, reference) = columns(stored);
    as_owner(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.secret_value AS v (name, key, sealed, reference)
             VALUES ($1, $2, $3, $4)
             ON CONFLICT (name, key) DO UPDATE
             SET sealed = excluded.sealed, reference = excluded.reference,
                 updated_at = now()",
            &[name.into(), key.into(), sealed.into(), reference.into()],
        )
    })?;
    Ok(())
}

/// Replaces a value by the same value under another encryption key.
pub fn reseal(entry: &SecretEntry, sealed: &[u8]) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "UPDATE rag_internal.secret_value SET sealed = $3 WHERE name = $1 AND key = $2",
            &[
                entry.name.as_str().into(),
                entry.key.as_str().into(),
                sealed.into(),
            ],
        )
    })?;
    Ok(())
}

fn columns(stored: &StoredSecret) -> (Option<&[u8]>, Option<&str>) {
    match stored {
        StoredSecret::Sealed(sealed) => (Some(sealed), None),
        StoredSecret::Reference(reference) => (None, Some(reference)),
    }
}

/// Returns all values of a secret.
pub fn entries(name: &str) -> Result<Vec<SecretEntry>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT name, key, sealed, reference FROM rag_internal.secret_value WHERE name = $1",
            &[name.into()],
            read_entry,
        )
    })
}

/// Returns all encrypted values of the database, and locks them for an update.
pub fn lock_sealed_entries() -> Result<Vec<SecretEntry>, Error> {
    as_owner(|owner| {
        owner.execute_returning(
            "SELECT name, key, sealed, reference FROM rag_internal.secret_value
             WHERE sealed IS NOT NULL ORDER BY name, key FOR UPDATE",
            &[],
            read_entry,
        )
    })
}

fn read_entry(row: crate::pg::spi::Row<'_, '_>) -> Result<SecretEntry, Error> {
    let stored = match row.get::<Vec<u8>>("sealed")? {
        Some(sealed) => StoredSecret::Sealed(sealed),
        None => StoredSecret::Reference(row.required("reference")?),
    };
    Ok(SecretEntry {
        name: row.required("name")?,
        key: row.required("key")?,
        stored,
    })
}

/// Returns all encrypted values as of now. An earlier snapshot may lack some.
pub fn latest_sealed_values() -> Result<Vec<Vec<u8>>, Error> {
    as_owner(|owner| {
        owner.execute_returning(
            "SELECT sealed FROM rag_internal.secret_value WHERE sealed IS NOT NULL",
            &[],
            |row| row.required("sealed"),
        )
    })
}

/// Returns all encrypted values. Works on a standby, because it does not write.
pub fn sealed_values() -> Result<Vec<Vec<u8>>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT sealed FROM rag_internal.secret_value WHERE sealed IS NOT NULL",
            &[],
            |row| row.required("sealed"),
        )
    })
}

/// The objects that use a secret.
#[derive(Debug, Default)]
pub struct SecretUsers {
    pub sources: Vec<String>,
    pub models: Vec<String>,
    pub retrievers: Vec<String>,
}

/// Returns the sources, models and retrievers that use a secret.
pub fn users(name: &str) -> Result<SecretUsers, Error> {
    let retrievers = retrievers_with(|named| named.name == name)?;
    using("credentials = $1", &[name.into()], retrievers)
}

/// Returns the retrievers whose storage sends a value of a secret to its server.
fn retrievers_with(is_used: impl Fn(&SecretRef) -> bool) -> Result<Vec<String>, Error> {
    let uses = |retriever: &Retriever| retriever.secrets().any(|secret| is_used(&secret));
    let all = retrievers::all()?.into_iter();
    Ok(all.filter(uses).map(|retriever| retriever.name).collect())
}

/// Returns the sources, models and retrievers that use one value of a secret: those that name its
/// key, and with `with_unnamed` those that name no key.
pub fn users_of_key(name: &str, key: &str, with_unnamed: bool) -> Result<SecretUsers, Error> {
    let retrievers =
        retrievers_with(|named| named.name == name && named.key.as_deref() == Some(key))?;
    using(
        "credentials = $1 AND coalesce(credentials_key = $2, $3)",
        &[name.into(), key.into(), with_unnamed.into()],
        retrievers,
    )
}

fn using(
    condition: &str,
    arguments: &[DatumWithOid<'_>],
    retrievers: Vec<String>,
) -> Result<SecretUsers, Error> {
    as_owner(|owner| {
        let names = |table: &str| {
            let statement = format!(
                "SELECT name FROM rag_internal.{table} WHERE {condition}
                ORDER BY name"
            );
            owner.execute_returning(&statement, arguments, |row| row.required("name"))
        };
        Ok(SecretUsers {
            sources: names("source")?,
            models: names("model")?,
            retrievers,
        })
    })
}

/// Deletes a secret with all its values.
pub fn drop(name: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.secret_value WHERE name = $1",
            &[name.into()],
        )?;
        owner.execute(
            "DELETE FROM rag_internal.secret WHERE name = $1",
            &[name.into()],
        )?;
        Ok(())
    })
}

/// Deletes one value of a secret.
pub fn drop_key(name: &str, key: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.secret_value WHERE name = $1 AND key = $2",
            &[name.into(), key.into()],
        )
    })?;
    Ok(())
}
