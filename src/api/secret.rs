//! Secrets: create, drop, and their encryption keys.

use pgrx::{PgSqlErrorCode, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_definition::name::NameForm;

use super::required;
use crate::{
    catalog::{
        name::{Name, canonical},
        secrets as catalog,
    },
    error::Error,
    pg::roles,
    secrets,
};

// The arguments are bytes: pgrx would raise an error for invalid UTF-8 before the function could
// keep the statement out of the log.
#[pg_extern(sql = r#"
CREATE FUNCTION rag_create_secret(name text, value text, key text DEFAULT 'token') RETURNS void
    VOLATILE LANGUAGE c AS '@MODULE_PATHNAME@', '@FUNCTION_NAME@';
"#)]
fn rag_create_secret(
    name: Option<&[u8]>,
    value: Option<&[u8]>,
    key: Option<&[u8]>,
) -> Result<(), ErrorReport> {
    Ok(secrets::hiding_statement_text(|| {
        super::require_writer(c"rag_create_secret()", "create a secret")?;
        let name =
            Name::secret(text(required("name", name)?)?).map_err(unquoted("name of a secret"))?;
        let key = text(required("key", key)?)?;
        check_key(key)?;
        secrets::create(&name, key, required("value", value)?.to_vec())
    })?)
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes)
        .map_err(|_| Error::invalid_text("names of secrets and keys must be ASCII"))
}

/// Removes the name from an error, because it may be the value in the wrong place.
fn unquoted(what: &'static str) -> impl FnOnce(Error) -> Error {
    move |error| error.message(format!("invalid {what}"))
}

/// Checks a key. The error does not quote it, because it may be the value in the wrong place.
fn check_key(key: &str) -> Result<(), Error> {
    NameForm::SecretKey.check(key).map_err(|_| {
        Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_NAME,
            "invalid key of a secret",
        )
        .hint(
            "Common keys are \"token\", \"username\" and \"password\". A key has 1 to 253 letters, \
             digits, \".\", \"_\" and \"-\".",
        )
    })
}

#[pg_extern]
fn rag_drop_secret(
    name: Option<&str>,
    if_exists: pgrx::default!(Option<bool>, "false"),
    key: pgrx::default!(Option<&str>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_secret()", "drop a secret")?;
    let (name, if_exists) = (required("name", name)?, required("if_exists", if_exists)?);
    let name = canonical(name);
    if secrets::drop(name, key)? {
        return Ok(());
    }
    let missing = match key {
        Some(key) => Error::undefined(format!("secret \"{name}\" has no key \"{key}\""))
            .hint("The view rag.secrets lists the keys of each secret."),
        None => catalog::missing(name),
    };
    if if_exists {
        pgrx::notice!("{}, skipping", missing.message);
        return Ok(());
    }
    Err(missing.into())
}

#[pg_extern]
fn rag_rotate_secret_key(
    add_key: pgrx::default!(bool, "true"),
    reencrypt: pgrx::default!(bool, "true"),
) -> Result<TableIterator<'static, (name!(key_id, String), name!(reencrypted, i64))>, ErrorReport> {
    super::require_writer(c"rag_rotate_secret_key()", "rotate the key of the secrets")?;
    roles::require_superuser(roles::current(), "rotate the key of the secrets")?;
    let rotated = secrets::rotate(add_key, reencrypt)?;
    Ok(TableIterator::once((
        rotated.current.to_string(),
        rotated.values,
    )))
}

#[pg_extern]
fn rag_drop_secret_key(key_id: &str) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_secret_key()", "drop a key of the secrets")?;
    roles::require_superuser(roles::current(), "drop a key of the secrets")?;
    Ok(secrets::drop_key(key_id)?)
}

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_secret_keys() -> Result<
    TableIterator<
        'static,
        (
            name!(key_id, String),
            name!(in_file, bool),
            name!(is_current, bool),
            name!(encrypted_values, i64),
        ),
    >,
    ErrorReport,
> {
    roles::require_superuser(roles::current(), "list the keys of the secrets")?;
    let keys = secrets::status()?;
    Ok(TableIterator::new(keys.into_iter().map(|key| {
        (
            key.id.to_string(),
            key.is_in_file,
            key.is_current,
            key.values,
        )
    })))
}
