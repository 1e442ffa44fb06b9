//! The key file of the cluster, and which secrets are encrypted under which of its keys.
//!
//! All databases share the file. A transaction that encrypts values, or drops encrypted ones, holds
//! the cluster's lock on the file in share mode until it ends ([`share`]). A transaction that
//! changes the file holds the lock exclusively. A new key is in the file, on disk, before anything
//! is encrypted under it. An old key stays until a superuser removes it, because another database,
//! a dump or a backup may need it. To be removed, it must not encrypt anything of the current
//! database.

use std::collections::BTreeMap;

use pgrx::PgSqlErrorCode as Code;
use rag_secret::{
    Key, KeyId, KeyRing, Value,
    key_file::{self, KeyFileError},
    sealed::{self, Place},
};

use super::open_error;
use crate::{
    catalog::secrets::{self, SecretEntry, StoredSecret},
    error::Error,
    pg::{lock::Lock, transaction},
    settings,
};

/// Prevents changes of the key file until the transaction ends.
pub fn share() {
    Lock::key_file().acquire_shared_for_transaction();
}

/// Prevents other transactions from encrypting, and from changing the key file, until the
/// transaction ends.
fn lock_exclusively() {
    Lock::key_file().acquire_for_transaction();
}

/// Returns the keys of the file.
///
/// # Errors
/// The file does not exist, cannot be read, or is invalid.
pub fn load() -> Result<KeyRing, Error> {
    Ok(key_file::read(&settings::secret_key_file()).map_err(UnusableKeyFile)?)
}

/// Returns the keys to encrypt with. Creates the file if nothing is encrypted yet.
pub fn for_writing() -> Result<KeyRing, Error> {
    share();
    let sealed = secrets::latest_sealed_values()?;
    let path = settings::secret_key_file();
    match key_file::read(&path) {
        Ok(ring) => {
            let lost = sealed
                .iter()
                .filter(|s| sealed::key_id(s).is_none_or(|id| ring.get(id).is_none()))
                .count();
            if lost > 0 {
                pgrx::warning!(
                    "{lost} values of secrets of this database are encrypted under keys that are \
                     not in the file of rag.secret_key_file"
                );
            }
            Ok(ring)
        }
        Err(KeyFileError::Missing) if sealed.is_empty() => {
            Ok(key_file::create(&path, &KeyRing::new(generate()?)).map_err(UnusableKeyFile)?)
        }
        Err(e) => Err(UnusableKeyFile(e).into()),
    }
}

fn generate() -> Result<Key, Error> {
    Key::generate().map_err(|e| Error::new(Code::ERRCODE_SYSTEM_ERROR, e.to_string()))
}

/// # Errors
/// The key is not in the ring, or the bytes are not those that were stored.
pub fn open(ring: &KeyRing, entry: &SecretEntry, sealed: &[u8]) -> Result<Value, Error> {
    sealed::open(
        ring,
        Place {
            name: &entry.name,
            key: &entry.key,
        },
        sealed,
    )
    .map_err(|e| open_error(entry, &e))
}

pub struct Rotated {
    pub current: KeyId,
    /// Number of values that were encrypted again.
    pub values: i64,
}

/// Adds a key to the file, which becomes the current one, and encrypts the values of the database
/// under the current key. Both steps are optional.
///
/// # Errors
/// The file cannot be read or written, or a value cannot be decrypted.
pub fn rotate(add_key: bool, reencrypt: bool) -> Result<Rotated, Error> {
    lock_exclusively();
    let path = settings::secret_key_file();
    let mut ring = match key_file::read(&path) {
        Ok(ring) => ring,
        // a caller that does not want the values encrypted again knows that their keys are lost
        Err(KeyFileError::Missing)
            if add_key && (!reencrypt || secrets::latest_sealed_values()?.is_empty()) =>
        {
            let ring =
                key_file::create(&path, &KeyRing::new(generate()?)).map_err(UnusableKeyFile)?;
            return Ok(Rotated {
                current: ring.current().id(),
                values: 0,
            });
        }
        Err(e) => return Err(UnusableKeyFile(e).into()),
    };
    if add_key {
        ring = ring.with(generate()?);
        key_file::replace(&path, &ring).map_err(UnusableKeyFile)?;
    }
    let current = ring.current().id();
    let mut values = 0;
    if reencrypt {
        for entry in secrets::lock_sealed_entries()? {
            let StoredSecret::Sealed(bytes) = &entry.stored else {
                continue;
            };
            if sealed::key_id(bytes) == Some(current) {
                continue;
            }
            let value = open(&ring, &entry, bytes)?;
            let place = Place {
                name: &entry.name,
                key: &entry.key,
            };
            let bytes =
                sealed::seal(&ring, place, &value).map_err(|e| Error::internal(e.to_string()))?;
            secrets::reseal(&entry, &bytes)?;
            values += 1;
        }
    }
    Ok(Rotated { current, values })
}

/// Removes an old key from the file.
///
/// # Errors
/// It is the current key, or it encrypts values of this database, or may do so again if the
/// transaction is rolled back.
pub fn drop_key(id: &str) -> Result<(), Error> {
    if transaction::has_written() || transaction::snapshot_is_fixed() {
        return Err(Error::new(
            Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "rag_drop_secret_key needs a transaction of its own",
        )
        .detail("A rollback does not restore the key file.")
        .hint("COMMIT first, and use isolation level READ COMMITTED."));
    }
    lock_exclusively();
    let path = settings::secret_key_file();
    let ring = key_file::read(&path).map_err(UnusableKeyFile)?;
    let known = KeyId::parse(id).and_then(|id| ring.get(id)).map(Key::id);
    let id = known.ok_or_else(|| {
        Error::undefined("key does not exist in the key file")
            .hint("rag_secret_keys() lists the ids of the keys.")
    })?;
    if id == ring.current().id() {
        return Err(Error::in_use(format!("key {id} is the current key"))
            .hint("rag_rotate_secret_key() adds a new current key."));
    }
    let values = secrets::latest_sealed_values()?
        .iter()
        .filter(|sealed| sealed::key_id(sealed) == Some(id))
        .count();
    if values > 0 {
        return Err(Error::new(
            Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!(
                "cannot drop key {id} because {values} values of secrets are encrypted under it"
            ),
        )
        .hint("rag_rotate_secret_key(add_key => false) encrypts them under the current key."));
    }
    key_file::replace(&path, &ring.without(id)).map_err(UnusableKeyFile)?;
    Ok(())
}

/// What users may know of a key.
pub struct KeyStatus {
    pub id: KeyId,
    pub is_in_file: bool,
    pub is_current: bool,
    /// Number of values of this database that are encrypted under it.
    pub values: i64,
}

/// Returns the keys of the file, and those that encrypt values of this database.
pub fn status() -> Result<Vec<KeyStatus>, Error> {
    let ring = match key_file::read(&settings::secret_key_file()) {
        Ok(ring) => Some(ring),
        Err(KeyFileError::Missing) => None,
        Err(e) => return Err(UnusableKeyFile(e).into()),
    };
    let mut values: BTreeMap<KeyId, i64> = BTreeMap::new();
    for id in ring.iter().flat_map(KeyRing::keys).map(Key::id) {
        values.insert(id, 0);
    }
    for id in secrets::sealed_values()?
        .iter()
        .filter_map(|sealed| sealed::key_id(sealed))
    {
        *values.entry(id).or_default() += 1;
    }
    let status = |(id, values)| KeyStatus {
        id,
        is_in_file: ring.as_ref().is_some_and(|ring| ring.get(id).is_some()),
        is_current: ring.as_ref().is_some_and(|ring| ring.current().id() == id),
        values,
    };
    Ok(values.into_iter().map(status).collect())
}

/// The key file cannot be used.
struct UnusableKeyFile(KeyFileError);

impl From<UnusableKeyFile> for Error {
    fn from(UnusableKeyFile(error): UnusableKeyFile) -> Self {
        let detail = format!("{}.", super::capitalized(&error.to_string()));
        let (code, message) = match error {
            KeyFileError::Missing => (
                Code::ERRCODE_UNDEFINED_FILE,
                "key file rag.secret_key_file does not exist",
            ),
            KeyFileError::Io { .. } => (
                Code::ERRCODE_IO_ERROR,
                "could not use key file rag.secret_key_file",
            ),
            KeyFileError::Owner | KeyFileError::Mode(_) => (
                Code::ERRCODE_CONFIG_FILE_ERROR,
                "key file rag.secret_key_file has insecure permissions",
            ),
            KeyFileError::NotAFile | KeyFileError::Invalid(_) => (
                Code::ERRCODE_CONFIG_FILE_ERROR,
                "key file rag.secret_key_file is corrupted",
            ),
        };
        let result = Self::new(code, message);
        match error {
            KeyFileError::Missing => result.hint(
                "Restore the file from a copy, or on a promoted replica from the former primary. \
                 If it is lost, rag_rotate_secret_key(reencrypt => false) creates another one, and \
                 each secret must be created again.",
            ),
            KeyFileError::Io { .. } => result.detail(detail),
            KeyFileError::Owner | KeyFileError::Mode(_) => result
                .detail(detail)
                .hint("The file must belong to the user that runs the server and have mode 0600."),
            KeyFileError::NotAFile | KeyFileError::Invalid(_) => {
                result.detail(detail).hint("Restore the file from a copy.")
            }
        }
    }
}
