//! `rag_internal.api_key`: keys of `rag-gateway`.

use pgrx::{datum::Interval, pg_sys, spi::quote_identifier};

use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, as_caller, as_owner},
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

/// Returns true if an interval leads into the future.
pub fn is_positive(time: Interval) -> Result<bool, Error> {
    let positive = as_owner(|owner| {
        owner.query(
            "SELECT now() + $1 > now() AS positive",
            &[time.into()],
            |row| row.required::<bool>("positive"),
        )
    })?;
    Ok(positive == [true])
}

/// Returns true if a role is a superuser, or a member of one.
pub fn is_superuser_or_member(role: pg_sys::Oid) -> Result<bool, Error> {
    let superusers = as_owner(|owner| {
        owner.query(
            "SELECT oid FROM pg_roles WHERE rolsuper AND pg_has_role($1, oid, 'MEMBER')",
            &[role.into()],
            |row| row.required::<pg_sys::Oid>("oid"),
        )
    })?;
    Ok(!superusers.is_empty())
}

/// Grants a role to another one with the rights of the caller. The other one can take it on, and
/// does not inherit from it.
pub fn grant(role: &str, to: &str) -> Result<(), Error> {
    let options = if pg_sys::PG_VERSION_NUM >= 160_000 {
        " WITH INHERIT FALSE, SET TRUE"
    } else {
        "" // the other one is NOINHERIT
    };
    let (role, to) = (quote_identifier(role), quote_identifier(to));
    as_caller(|caller| caller.execute(&format!("GRANT {role} TO {to}{options}"), &[]))?;
    Ok(())
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
