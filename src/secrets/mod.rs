//! Secrets: stored encrypted or as references, decrypted only where a run of a source begins.
//!
//! ```text
//!  rag_create_secret ──▶ encrypt under the current key of the key file ──▶ rag.secret_value
//!                                                                                 │ the source's runner
//!  rag-engine ingest ◀── Job.credentials, through its standard input ◀── decrypt ─┘
//! ```
//!
//! A secret belongs to the role that made it: only its members and superusers may replace it, drop
//! it, or name it in a source. No function returns a value. [`discretion`] keeps values out of logs
//! and views while they are made, [`keys`] is about the key file; the cryptography is in
//! `crates/secret`.

mod discretion;
mod keys;

use pgrx::{PgSqlErrorCode as Code, pg_sys};
use rag_protocol::{ingest::Credentials, spec::SourceSpec};
use rag_secret::{
    InvalidValue, MAX_VALUE_BYTES, Reference, Value,
    sealed::{self, OpenError, Place},
};

pub use self::{
    discretion::{discreetly, watch_log},
    keys::{drop_key, rotate, status},
};
use crate::{
    catalog::{
        name::Name,
        secrets::{self, Entry, Named, Stored},
        sources::Source,
    },
    error::Error,
    pg::{
        roles::{self, Owner},
        transaction::transaction,
    },
};

/// What a secret's values are called where a source's server is shown them.
pub const TOKEN: &str = "token";
const USERNAME: &str = "username";
const PASSWORD: &str = "password";

/// Stores a value under a key of a secret, in the place of the one that was there.
///
/// # Errors
/// The value is no value, the secret is another role's, or there is no key to encrypt with.
pub fn create(name: &Name, key: &str, value: Vec<u8>) -> Result<(), Error> {
    let value = Value::new(value).map_err(|e| invalid_value(&e))?;
    let reference = reference(&value)?;
    let owner = secrets::make_and_lock(name, &Owner::current()?)?;
    check_owner(name.as_str(), &owner, roles::current(), "replace")?;
    let stored = match reference {
        Some(_) => {
            check_referrer(name.as_str(), &owner)?;
            Stored::Reference(value.expose().to_string())
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
            Stored::Sealed(sealed.map_err(|e| Error::internal(e.to_string()))?)
        }
    };
    secrets::put(name.as_str(), key, &stored)
}

fn invalid_value(error: &InvalidValue) -> Error {
    let message = format!("the value of the secret {error}");
    match error {
        InvalidValue::TooLong => Error::limit("the value of the secret is too long")
            .detail(format!("It can have {MAX_VALUE_BYTES} bytes.")),
        InvalidValue::Empty => {
            Error::invalid_parameter("the value of the secret must not be empty")
        }
        InvalidValue::Nul | InvalidValue::NotUtf8 => {
            Error::new(Code::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE, message)
        }
    }
}

/// The reference that a value is, if it is one.
fn reference(value: &Value) -> Result<Option<Reference>, Error> {
    let parsed = Reference::parse(value.expose());
    if !matches!(parsed, Ok(None)) {
        roles::require_superuser(roles::current(), "refer to a variable or file of the server").map_err(|e| {
            e.detail("A value that begins with \"env:\" or \"file:\" says where the server finds the secret.")
        })?;
    }
    parsed.map_err(|e| {
        Error::invalid_parameter("the value of the secret is not a valid reference")
            .detail(format!("A value that begins with \"env:\" or \"file:\" is one, and {e}."))
            .hint("Write env:NAME or file:/path. A secret that itself begins so can be kept in a file.")
    })
}

/// # Errors
/// The owner of a secret may not, or may no longer, refer to what only the server can read.
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
    .hint("Drop it and create it as a superuser."))
}

/// Removes a secret, or one of its values; whether there was one.
///
/// # Errors
/// It is another role's, or a source uses it and would have nothing left to show.
pub fn drop(name: &str, key: Option<&str>) -> Result<bool, Error> {
    // an uncommitted removal may come back, with what it is encrypted under
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
            let users = secrets::users_of_key(name, key, !left_secret)?;
            if !users.is_empty() {
                return Err(in_use(
                    &format!("key \"{key}\" of secret \"{name}\""),
                    &users,
                ));
            }
            secrets::drop_key(name, key)?;
            return Ok(true);
        }
    }
    let users = secrets::users(name)?;
    if !users.is_empty() {
        return Err(in_use(&format!("secret \"{name}\""), &users));
    }
    secrets::drop(name)?;
    Ok(true)
}

fn in_use(what: &str, users: &[String]) -> Error {
    Error::new(
        Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        format!("{what} cannot be dropped because sources use it"),
    )
    .detail(format!("Sources: {}.", users.join(", ")))
    .hint("Drop or alter the sources first, or replace the value with rag_create_secret.")
}

/// The key of the value that a server is shown where none is named.
pub fn default_key(name: &str) -> Result<Option<String>, Error> {
    let entries = secrets::entries(name)?;
    Ok(Login::of(name, None, &entries)
        .ok()
        .map(|login| login.secret.key.clone()))
}

/// Sees to it that a secret stays until the present transaction ends, if there is one.
pub fn hold(name: &str) -> Result<(), Error> {
    secrets::lock(name).map(|_| ())
}

fn check_owner(name: &str, owner: &Owner, role: pg_sys::Oid, to_do: &str) -> Result<(), Error> {
    if roles::may_act_for(role, owner.id) {
        return Ok(());
    }
    Err(
        Error::permission_denied(format!("permission denied to {to_do} secret \"{name}\""))
            .hint("Only members of the role that made it, and superusers, may."),
    )
}

/// # Errors
/// The source has nothing to show a secret to.
pub fn check_need(spec: &SourceSpec) -> Result<(), Error> {
    if spec.takes_credentials() {
        return spec.check_credentials().map_err(|problem| {
            let error = Error::invalid_parameter(problem.problem);
            problem.hint.into_iter().fold(error, Error::hint)
        });
    }
    Err(Error::invalid_parameter(format!(
        "this source of kind \"{}\" takes no credentials",
        spec.kind()
    ))
    .detail("It connects to no server that could ask for them."))
}

/// Whether a source of `role` may name a secret.
///
/// # Errors
/// There is none, or it is another role's.
pub fn check_use(named: &Named, role: pg_sys::Oid) -> Result<(), Error> {
    let name = named.secret.as_str();
    let owner = secrets::owner(name)?.ok_or_else(|| secrets::missing(name))?;
    check_owner(name, &owner, role, "use")
}

/// Whether a secret, which the source may name, has this value.
///
/// # Errors
/// It has not.
pub fn check_value(named: &Named) -> Result<(), Error> {
    let name = named.secret.as_str();
    let entries = secrets::entries(name)?;
    Login::of(name, named.key.as_deref(), &entries).map(|_| ())
}

/// Which values of a secret are shown to a server.
struct Login<'a> {
    username: Option<&'a Entry>,
    secret: &'a Entry,
}

impl<'a> Login<'a> {
    /// Where no key is named: the token, or else the password. Either is shown with the username,
    /// if there is one; what any other key has is shown alone.
    fn of(name: &str, key: Option<&str>, entries: &'a [Entry]) -> Result<Self, Error> {
        let get = |key| entries.iter().find(|entry| entry.key == key);
        let username = get(USERNAME);
        if let Some(key) = key {
            let secret = get(key).ok_or_else(|| missing_key(name, key, entries))?;
            return Ok(Self {
                username: username.filter(|_| matches!(key, TOKEN | PASSWORD)),
                secret,
            });
        }
        match (get(TOKEN), get(PASSWORD), username) {
            (Some(secret), ..) | (None, Some(secret), Some(_)) => Ok(Self { username, secret }),
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
                .hint("A source needs the key \"token\", or \"username\" and \"password\": rag_create_secret(name, value, key)."))
            }
        }
    }
}

fn missing_key(name: &str, key: &str, entries: &[Entry]) -> Error {
    let mut keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    Error::undefined(format!("secret \"{name}\" has no key \"{key}\""))
        .detail(format!("Its keys: {}.", keys.join(", ")))
        .hint("rag.secrets lists them; rag_create_secret(name, value, key) adds one.")
}

/// What a source's server is shown, as its run begins.
///
/// # Errors
/// The secret is not the source's owner's any more, or its value cannot be had.
pub fn credentials(source: &Source) -> Result<Option<Credentials>, Error> {
    let Some(name) = source.credentials.as_deref() else {
        return Ok(None);
    };
    let entries = transaction(|| {
        let owner = secrets::owner(name)?.ok_or_else(|| secrets::missing(name))?;
        check_owner(name, &owner, source.owner.role()?, "use")?;
        let entries = secrets::entries(name)?;
        if entries
            .iter()
            .any(|entry| matches!(entry.stored, Stored::Reference(_)))
        {
            check_referrer(name, &owner)?;
        }
        Ok(entries)
    })?;
    let login = Login::of(name, source.credentials_key.as_deref(), &entries)?;
    let text = |entry: &Entry| resolve(entry).map(|value| value.expose().to_string());
    Ok(Some(Credentials {
        username: login.username.map(text).transpose()?,
        secret: text(login.secret)?,
    }))
}

/// The value of a stored secret.
fn resolve(entry: &Entry) -> Result<Value, Error> {
    let (name, key) = (&entry.name, &entry.key);
    match &entry.stored {
        Stored::Sealed(bytes) => keys::open(&keys::load()?, entry, bytes),
        Stored::Reference(text) => {
            let what = format!("the value of key \"{key}\" of secret \"{name}\" could not be had");
            let hint = "Superusers find in rag.secret_value where it is looked for.";
            let reference = Reference::parse(text).ok().flatten();
            let reference = reference
                .ok_or_else(|| Error::data_exception(&what).detail("It is not a reference."))?;
            reference.resolve().map_err(|e| {
                Error::new(Code::ERRCODE_CONFIG_FILE_ERROR, what)
                    .detail(format!("{}: {e}.", reference.kind()))
                    .hint(hint)
            })
        }
    }
}

fn open_error(entry: &Entry, error: &OpenError) -> Error {
    let (name, key) = (&entry.name, &entry.key);
    let message = format!("key \"{key}\" of secret \"{name}\" could not be decrypted");
    let detail = format!("{}.", capitalized(&error.to_string()));
    match error {
        OpenError::UnknownKey(_) => Error::new(Code::ERRCODE_CONFIG_FILE_ERROR, message).detail(detail).hint(
            "rag.secret_key_file must name the file that the secret was made with; the lines of several such files can be put \
             together in one. Where it is lost, create the secret again.",
        ),
        _ => Error::new(Code::ERRCODE_DATA_CORRUPTED, message).detail(detail).hint("Create the secret again."),
    }
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
