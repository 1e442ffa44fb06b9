//! Secrets: stored encrypted or as references, and decrypted only at the beginning of a run.
//!
//! ```text
//!  rag_create_secret ──▶ encrypt under the current key of the key file ──▶ rag_internal.secret_value
//!                                                                                 │ the runner
//!  rag-engine ingest ◀── Job.credentials, through its standard input ◀── decrypt ─┘
//! ```
//!
//! A secret belongs to the role that created it. Only members of that role and superusers may
//! replace it, drop it, or name it in a source. No function returns a value. [`discretion`] keeps
//! values out of logs and views while they are created. [`keys`] maintains the key file. The
//! cryptography is in `crates/secret`.

mod discretion;
mod keys;

use pgrx::{PgSqlErrorCode as Code, pg_sys};
use rag_definition::{
    SecretRef,
    source::{Login, SourceSpec},
};
use rag_protocol::{ingest::Credentials, network::AllowedHosts};
use rag_secret::{
    InvalidValue, MAX_VALUE_BYTES, Reference, Value,
    sealed::{self, OpenError, Place},
};

pub use self::{
    discretion::{hiding_statement_text, install_log_hook},
    keys::{drop_key, rotate, status},
};
use crate::{
    catalog::{
        name::Name,
        secrets::{self, SecretEntry, SecretUsers, StoredSecret},
        sources::Source,
    },
    error::{Cause, Error},
    pg::{
        roles::{self, Owner},
        transaction::transaction,
    },
    settings,
};

/// The keys of the values that are sent to a source's server.
pub const TOKEN: &str = "token";
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
/// The name of Kubernetes.
const PRIVATE_KEY: &str = "ssh-privatekey";
const PASSPHRASE: &str = "passphrase";

/// Stores a value under a key of a secret, and replaces the old one.
///
/// # Errors
/// The value is invalid, the secret belongs to another role, or there is no key to encrypt with.
pub fn create(name: &Name, key: &str, value: Vec<u8>) -> Result<(), Error> {
    let value = Value::new(value).map_err(|e| invalid_value(&e))?;
    let reference = reference(&value)?;
    let owner = secrets::create_and_lock(name, &Owner::current()?)?;
    check_owner(name.as_str(), &owner, roles::current(), "replace")?;
    let stored = match reference {
        Some(_) => {
            check_referrer(name.as_str(), &owner)?;
            StoredSecret::Reference(value.expose().to_string())
        }
        None => {
            let ring = keys::for_writing()?;
            let sealed = sealed::seal(
                &ring,
                Place {
                    name: name.as_str(),
                    key,
                },
                &value,
            );
            StoredSecret::Sealed(sealed.map_err(|e| Error::internal(e.to_string()))?)
        }
    };
    secrets::put(name.as_str(), key, &stored)
}

fn invalid_value(error: &InvalidValue) -> Error {
    let message = format!("the value of the secret {error}");
    match error {
        InvalidValue::TooLong => Error::limit("the value of the secret is too long")
            .detail(format!("The limit is {MAX_VALUE_BYTES} bytes.")),
        InvalidValue::Empty => {
            Error::invalid_parameter("the value of the secret must not be empty")
        }
        InvalidValue::Nul | InvalidValue::NotUtf8 => {
            Error::new(Code::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE, message)
        }
    }
}

/// Returns the reference that a value is, if it is one.
fn reference(value: &Value) -> Result<Option<Reference>, Error> {
    let parsed = Reference::parse(value.expose());
    if !matches!(parsed, Ok(None)) {
        let action = "refer to a variable or file of the server";
        roles::require_superuser(roles::current(), action).map_err(|e| {
            e.detail(
                "A value that begins with \"env:\" or \"file:\" refers to a variable or file of \
                 the server.",
            )
        })?;
    }
    parsed.map_err(|e| {
        Error::invalid_parameter("the value of the secret is not a valid reference")
            .detail(format!(
                "A value that begins with \"env:\" or \"file:\" is a reference, and {e}."
            ))
            .hint(
                "Write env:NAME or file:/path. A secret that itself begins with one of these \
                 prefixes can be kept in a file.",
            )
    })
}

/// # Errors
/// The owner of a secret has no right (any more) to refer to what only the server can read.
fn check_referrer(name: &str, owner: &Owner) -> Result<(), Error> {
    if roles::is_superuser(owner.id) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "secret \"{name}\" may not refer to a variable or file of the server"
    ))
    .detail(format!(
        "It belongs to role \"{}\", which is not a superuser.",
        owner.name
    ))
    .hint("Drop the secret and create it as a superuser."))
}

/// Removes a secret, or one of its values. Returns true if there was one.
///
/// # Errors
/// It belongs to another role, or a source uses it and would have no value left.
pub fn drop(name: &str, key: Option<&str>) -> Result<bool, Error> {
    // a rollback may restore the value, which needs its key
    keys::share();
    let Some(owner) = secrets::lock_to_drop(name)? else {
        return Ok(false);
    };
    check_owner(name, &owner, roles::current(), "drop")?;
    let keys: Vec<String> = secrets::entries(name)?
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    if let Some(key) = key {
        if !keys.iter().any(|k| k == key) {
            return Ok(false);
        }
        if keys.len() > 1 {
            let left_secret = keys
                .iter()
                .any(|k| k != key && matches!(k.as_str(), TOKEN | PASSWORD));
            let is_of_ssh = matches!(key, PRIVATE_KEY | PASSPHRASE);
            let users = secrets::users_of_key(name, key, is_of_ssh || !left_secret)?;
            check_unused(&format!("key \"{key}\" of secret \"{name}\""), &users)?;
            secrets::drop_key(name, key)?;
            return Ok(true);
        }
    }
    check_unused(&format!("secret \"{name}\""), &secrets::users(name)?)?;
    secrets::drop(name)?;
    Ok(true)
}

/// # Errors
/// Sources or models use it.
fn check_unused(what: &str, users: &SecretUsers) -> Result<(), Error> {
    let of = |kind: &str, names: &[String]| {
        if names.is_empty() {
            None
        } else {
            Some((
                kind.to_lowercase(),
                format!("{kind}: {}.", names.join(", ")),
            ))
        }
    };
    let kinds = [
        of("Sources", &users.sources),
        of("Models", &users.models),
        of("Retrievers", &users.retrievers),
    ];
    let (kinds, lists): (Vec<String>, Vec<String>) = kinds.into_iter().flatten().unzip();
    if kinds.is_empty() {
        return Ok(());
    }
    let kinds = kinds.join(" and ");
    Err(Error::new(
        Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot drop {what} because {kinds} use it"),
    )
    .detail(lists.join(" "))
    .hint(format!(
        "Drop or alter the {kinds} first, or replace the value with rag_create_secret."
    )))
}

/// Returns the key of the value that is sent to a server if the source names none.
pub fn default_key(name: &str, login: Login) -> Result<Option<String>, Error> {
    let entries = secrets::entries(name)?;
    Ok(LoginValues::select(name, None, login, &entries)
        .ok()
        .map(|login| login.secret.key.clone()))
}

/// Prevents a secret from being dropped until the current transaction ends, if there is one.
pub fn lock_until_commit(name: &str) -> Result<(), Error> {
    secrets::lock(name).map(|_| ())
}

fn check_owner(name: &str, owner: &Owner, role: pg_sys::Oid, to_do: &str) -> Result<(), Error> {
    if roles::may_act_for(role, owner.id) {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do} secret \"{name}\""))
            .hint("Must be superuser or a member of the role that created the secret."),
    )
}

/// # Errors
/// The source connects to no server that could ask for credentials, or to one that they cannot be
/// sent to.
pub fn check_need(spec: &SourceSpec) -> Result<(), Error> {
    if spec.takes_credentials() {
        let server = spec.credentials_server().map_err(|problem| {
            Error::invalid_parameter(problem.message).maybe_hint(problem.hint)
        })?;
        let allowed = AllowedHosts::parse(&settings::network().allowed_private_hosts)?;
        return match server {
            Some(url) if url.scheme() != "https" && !allowed.allows_host_of(&url) => Err(
                Error::invalid_parameter("credentials cannot be sent over http").hint(
                    "Write the URL with https://. Only hosts in rag.allowed_private_hosts get \
                     credentials over http.",
                ),
            ),
            _ => Ok(()),
        };
    }
    Err(Error::invalid_parameter(format!(
        "source of kind \"{}\" takes no credentials",
        spec.kind()
    ))
    .detail("The source connects to no server that could ask for them."))
}

/// Checks that a source of `role` may name a secret.
///
/// # Errors
/// There is no such secret, or it belongs to another role.
pub fn check_use(named: &SecretRef, role: pg_sys::Oid) -> Result<(), Error> {
    let name = named.name.as_str();
    let owner = secrets::owner(name)?.ok_or_else(|| secrets::missing(name))?;
    check_owner(name, &owner, role, "use")
}

/// Checks that a secret, which the source may name, has this value.
///
/// # Errors
/// It does not.
pub fn check_value(named: &SecretRef, login: Login) -> Result<(), Error> {
    let name = named.name.as_str();
    let entries = secrets::entries(name)?;
    LoginValues::select(name, named.key.as_deref(), login, &entries).map(|_| ())
}

/// The values of a secret that open an account on a server.
struct LoginValues<'a> {
    username: Option<&'a SecretEntry>,
    secret: &'a SecretEntry,
    passphrase: Option<&'a SecretEntry>,
}

impl<'a> LoginValues<'a> {
    /// Selects the value of a key. Without a key it is the token, or else the password. Both are
    /// sent with the username, if there is one. The value of any other key is sent alone. For ssh
    /// the value is a private key, and the passphrase belongs to it.
    fn select(
        name: &str,
        key: Option<&str>,
        login: Login,
        entries: &'a [SecretEntry],
    ) -> Result<Self, Error> {
        let get = |key| entries.iter().find(|entry| entry.key == key);
        if login == Login::PrivateKey {
            let key = key.unwrap_or(PRIVATE_KEY);
            return Ok(Self {
                username: None,
                secret: get(key).ok_or_else(|| missing_key(name, key, entries))?,
                passphrase: get(PASSPHRASE),
            });
        }
        let passphrase = None;
        let username = get(USERNAME);
        if let Some(key) = key {
            let secret = get(key).ok_or_else(|| missing_key(name, key, entries))?;
            return Ok(Self {
                username: username.filter(|_| matches!(key, TOKEN | PASSWORD)),
                secret,
                passphrase,
            });
        }
        match (get(TOKEN), get(PASSWORD), username) {
            (Some(secret), ..) | (None, Some(secret), Some(_)) => Ok(Self {
                username,
                secret,
                passphrase,
            }),
            (None, password, _) => {
                let has = if password.is_some() {
                    "a password and no username"
                } else {
                    "neither token nor password"
                };
                Err(Error::new(
                    Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("secret \"{name}\" has {has}"),
                )
                .hint(
                    "The key \"token\" is needed, or \"username\" and \"password\". \
                     rag_create_secret(name, value, key) adds a value.",
                ))
            }
        }
    }
}

fn missing_key(name: &str, key: &str, entries: &[SecretEntry]) -> Error {
    let mut keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    Error::undefined(format!("secret \"{name}\" has no key \"{key}\""))
        .detail(format!("Its keys: {}.", keys.join(", ")))
        .hint("The view rag.secrets lists the keys. rag_create_secret(name, value, key) adds one.")
}

/// Returns the credentials for a source's server, at the beginning of a run.
///
/// # Errors
/// The source's owner has no right to the secret any more, or its value is unavailable.
pub fn credentials(source: &Source) -> Result<Option<Credentials>, Error> {
    let Some(named) = &source.credentials else {
        return Ok(None);
    };
    let entries = transaction(|| usable_entries(named, source.owner.role()?))?;
    login(named, source.spec.login(), &entries).map(Some)
}

/// Returns the credentials that a secret has, for an object of `owner`.
///
/// # Errors
/// The role has no right to the secret, or its value is unavailable.
pub fn credentials_for(named: &SecretRef, owner: pg_sys::Oid) -> Result<Credentials, Error> {
    login(named, Login::Password, &usable_entries(named, owner)?)
}

/// Returns the one value of a secret that is named, for an object of `owner`.
///
/// # Errors
/// The role has no right to the secret, or its value is unavailable.
pub fn value_for(named: &SecretRef, owner: pg_sys::Oid) -> Result<String, Error> {
    let name = named.name.as_str();
    let key = named.key.as_deref().unwrap_or(TOKEN);
    let entries = usable_entries(named, owner)?;
    let entry = entries.iter().find(|entry| entry.key == key);
    let entry = entry.ok_or_else(|| missing_key(name, key, &entries))?;
    resolve(entry).map(|value| value.expose().to_owned())
}

/// Checks that an object of `owner` may send the one value of a secret that is named.
///
/// # Errors
/// There is no such value, or the role has no right to it.
pub fn check_value_for(named: &SecretRef, owner: pg_sys::Oid) -> Result<(), Error> {
    check_use(named, owner)?;
    let name = named.name.as_str();
    let key = named.key.as_deref().unwrap_or(TOKEN);
    let entries = secrets::entries(name)?;
    if entries.iter().any(|entry| entry.key == key) {
        Ok(())
    } else {
        Err(missing_key(name, key, &entries))
    }
}

/// Returns the values of a secret that `role` may use.
fn usable_entries(named: &SecretRef, role: pg_sys::Oid) -> Result<Vec<SecretEntry>, Error> {
    let name = named.name.as_str();
    let owner = secrets::owner(name)?.ok_or_else(|| secrets::missing(name))?;
    check_owner(name, &owner, role, "use")?;
    let entries = secrets::entries(name)?;
    if entries
        .iter()
        .any(|entry| matches!(entry.stored, StoredSecret::Reference(_)))
    {
        check_referrer(name, &owner)?;
    }
    Ok(entries)
}

fn login(named: &SecretRef, login: Login, entries: &[SecretEntry]) -> Result<Credentials, Error> {
    let SecretRef { name, key } = named;
    let login = LoginValues::select(name, key.as_deref(), login, entries)?;
    let text = |entry: &SecretEntry| resolve(entry).map(|value| value.expose().to_string());
    Ok(Credentials {
        username: login.username.map(text).transpose()?,
        secret: text(login.secret)?,
        passphrase: login.passphrase.map(text).transpose()?,
    })
}

/// Returns the value of a stored secret.
fn resolve(entry: &SecretEntry) -> Result<Value, Error> {
    let (name, key) = (&entry.name, &entry.key);
    match &entry.stored {
        StoredSecret::Sealed(bytes) => keys::open(&keys::load()?, entry, bytes),
        StoredSecret::Reference(text) => {
            let what = format!("value of key \"{key}\" of secret \"{name}\" is unavailable");
            let hint = "Superusers can see the reference in the table rag_internal.secret_value.";
            let reference = Reference::parse(text).ok().flatten();
            let reference = reference.ok_or_else(|| {
                Error::data_exception(&what).detail("The stored text is not a reference.")
            })?;
            reference.resolve().map_err(|e| {
                Error::new(Code::ERRCODE_CONFIG_FILE_ERROR, what)
                    .detail(format!("{}: {e}.", reference.kind()))
                    .hint(hint)
            })
        }
    }
}

fn open_error(entry: &SecretEntry, error: &OpenError) -> Error {
    let (name, key) = (&entry.name, &entry.key);
    let message = format!("could not decrypt key \"{key}\" of secret \"{name}\"");
    let detail = format!("{}.", capitalized(&error.to_string()));
    match error {
        OpenError::UnknownKey(_) => Error::new(Code::ERRCODE_CONFIG_FILE_ERROR, message)
            .detail(detail)
            .hint(
                "rag.secret_key_file must name the file that the secret was created with. The \
                 lines of several such files can be put together in one. If the file is lost, \
                 create the secret again.",
            ),
        _ => Error::new(Code::ERRCODE_DATA_CORRUPTED, message)
            // no relation is damaged
            .because(Cause::Setup)
            .detail(detail)
            .hint("Create the secret again."),
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
