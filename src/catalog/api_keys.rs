//! `rag_internal.api_key`: keys of `rag-gateway`.

use pgrx::{datum::Interval, pg_sys};

use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, as_owner},
    },
};

/// A key that is created.
pub struct NewApiKey<'a> {
    pub name: &'a str,
    /// The public part of the key.
    pub key_id: &'a str,
    /// The SHA-256 of its secret part.
    pub digest: Vec<u8>,
    /// The role of the requests.
    pub role: (&'a str, pg_sys::Oid),
    pub description: Option<&'a str>,
    pub owner: Owner,
    /// None: it does not expire.
    pub expires_in: Option<Interval>,
}

/// Returns 128 random bits in hexadecimal, from PostgreSQL's generator for keys and salts.
pub fn random(owner: &OwnerRights) -> Result<String, Error> {
    let random = owner.query(
        "SELECT replace(gen_random_uuid()::text, '-', '') AS random",
        &[],
        |row| row.required::<String>("random"),
    )?;
    random
        .into_iter()
        .next()
        .ok_or_else(|| Error::internal("no random number"))
}

/// Stores a key. Returns false if there is one of that name.
pub fn create(owner: &OwnerRights, key: NewApiKey<'_>) -> Result<bool, Error> {
    let stored = owner.execute_returning(
        "INSERT INTO rag_internal.api_key
             (name, key_id, digest, role, role_id, description, owner, owner_id, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now() + $9)
         ON CONFLICT (name) DO NOTHING RETURNING name",
        &[
            key.name.into(),
            key.key_id.into(),
            key.digest.into(),
            key.role.0.into(),
            key.role.1.into(),
            key.description.into(),
            key.owner.name.into(),
            key.owner.id.into(),
            key.expires_in.into(),
        ],
        |row| row.required::<String>("name"),
    )?;
    Ok(!stored.is_empty())
}

/// Returns the owner of a key, and locks the key until the transaction ends.
pub fn lock(name: &str) -> Result<Option<Owner>, Error> {
    let found = as_owner(|owner| {
        owner.execute_returning(
            "SELECT owner_id, owner FROM rag_internal.api_key WHERE name = $1 FOR UPDATE",
            &[name.into()],
            |row| {
                Ok(Owner::stored(
                    row.required("owner_id")?,
                    row.required("owner")?,
                ))
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// Deletes a key.
pub fn delete(name: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.api_key WHERE name = $1",
            &[name.into()],
        )
    })?;
    Ok(())
}
