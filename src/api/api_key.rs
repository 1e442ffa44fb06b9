//! Keys of `rag-gateway`: create, drop.

use pgrx::{PgSqlErrorCode, datum::Interval, pg_extern, pg_sys, pg_sys::panic::ErrorReport};
use sha2::{Digest, Sha256};

use super::required;
use crate::{
    catalog::api_keys::{self, NewApiKey},
    error::Error,
    pg::{
        roles::{self, Owner},
        spi::as_owner,
    },
};

/// The role that `rag-gateway` logs in as.
const GATEWAY: &str = "rag_gateway";
/// The maximum length of the name of a key, in characters.
const MAX_NAME: usize = 100;

#[pg_extern]
fn rag_create_api_key(
    name: Option<&str>,
    role: Option<&str>,
    expires_in: pgrx::default!(Option<Interval>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
) -> Result<String, ErrorReport> {
    super::require_writer(c"rag_create_api_key()", "create an API key")?;
    let name = checked_name(required("name", name)?)?;
    let role = required("role", role)?;
    let role_id = usable_role(role)?;
    check_expiry(expires_in)?;
    grant(role, role_id)?;
    let creator = Owner::current()?;
    Ok(as_owner(|owner| {
        let key_id = api_keys::random(owner)?[..16].to_string();
        let secret = api_keys::random(owner)? + &api_keys::random(owner)?;
        let key = NewApiKey {
            name,
            key_id: &key_id,
            digest: Sha256::digest(secret.as_bytes()).to_vec(),
            role: (role, role_id),
            description,
            owner: creator,
            expires_in,
        };
        if !api_keys::create(owner, key)? {
            return Err(Error::duplicate(format!(
                "API key \"{name}\" already exists"
            )));
        }
        Ok(format!("rag_{key_id}_{secret}"))
    })?)
}

fn checked_name(name: &str) -> Result<&str, Error> {
    let fits = (1..=MAX_NAME).contains(&name.chars().count());
    if fits && !name.chars().any(char::is_control) {
        return Ok(name);
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_NAME,
        "invalid name of an API key",
    )
    .hint(format!(
        "A name has 1 to {MAX_NAME} characters, and no control characters."
    )))
}

fn check_expiry(expires_in: Option<Interval>) -> Result<(), Error> {
    let Some(time) = expires_in else {
        return Ok(());
    };
    if api_keys::is_positive(time)? {
        return Ok(());
    }
    Err(Error::invalid_parameter("expires_in must be positive"))
}

/// Returns the role of a name if requests may have it and the caller may become it.
fn usable_role(name: &str) -> Result<pg_sys::Oid, Error> {
    let Some(role) = roles::by_name(name) else {
        return Err(Error::undefined(format!("role \"{name}\" does not exist")));
    };
    if api_keys::is_superuser_or_member(role)? {
        return Err(
            Error::permission_denied(format!("role \"{name}\" must not have API keys"))
                .detail("The role is a superuser, or a member of one.")
                .hint("Create a role with the rights that the requests need."),
        );
    }
    if roles::may_become(roles::current(), role) {
        return Ok(role);
    }
    Err(Error::permission_denied(format!(
        "permission denied to create an API key for role \"{name}\""
    ))
    .hint(format!("Must be superuser or a member of role \"{name}\".")))
}

/// Makes `rag_gateway` a member of a role, by a GRANT of the caller, so that it may take it on.
fn grant(name: &str, role: pg_sys::Oid) -> Result<(), Error> {
    let Some(gateway) = roles::by_name(GATEWAY) else {
        return Err(
            Error::undefined(format!("role \"{GATEWAY}\" does not exist"))
                .hint(format!("CREATE ROLE {GATEWAY} LOGIN NOINHERIT;")),
        );
    };
    if gateway == role {
        return Err(Error::permission_denied(format!(
            "role \"{GATEWAY}\" must not have API keys"
        )));
    }
    if roles::may_become(gateway, role) {
        return Ok(());
    }
    api_keys::grant(name, GATEWAY)
}

#[pg_extern]
fn rag_drop_api_key(
    name: Option<&str>,
    if_exists: pgrx::default!(Option<bool>, "false"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_api_key()", "drop an API key")?;
    let name = required("name", name)?;
    let if_exists = required("if_exists", if_exists)?;
    let owner = api_keys::lock(name)?;
    let missing = || Error::undefined(format!("API key \"{name}\" does not exist"));
    match owner {
        Some(owner) if roles::may_act_for(roles::current(), owner.id) => {
            Ok(api_keys::delete(name)?)
        }
        _ if if_exists => {
            pgrx::notice!("{}, skipping", missing().message);
            Ok(())
        }
        _ => Err(missing()
            .hint("The view rag.api_keys lists the keys that you may drop.")
            .into()),
    }
}
