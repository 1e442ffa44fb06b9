//! The key file of the cluster, and which secrets are encrypted under which of its keys.
//!
//! All databases share the file. Whoever encrypts, or drops what is encrypted, holds the cluster's
//! lock on it in share mode until the transaction ends ([`share`]); whoever changes the file holds
//! it alone. A new key is in the file, on disk, before anything is encrypted under it. An old one
//! stays until a superuser asks for its removal, as another database, a dump or a backup may need
//! it; then nothing of the present database may be encrypted under it.
#![allow(unsafe_code)] // a heavyweight lock, and the state of the transaction

use std::collections::BTreeMap;

use pgrx::{PgSqlErrorCode as Code, pg_sys};
use rag_secret::{
    Key, KeyId, KeyRing, Value,
    key_file::{self, KeyFileError},
    sealed::{self, Place},
};

use super::open_error;
use crate::{
    catalog::secrets::{self, Entry, Stored},
    error::Error,
    settings,
};

/// Until the end of the transaction nobody changes the key file.
pub fn share() {
    acquire(pg_sys::ShareLock);
}

/// Until the end of the transaction nobody else encrypts, or changes the key file.
fn claim() {
    acquire(pg_sys::ExclusiveLock);
}

fn acquire(mode: u32) {
    // An advisory lock of no database, which no function of SQL can ask for; "rag" in ASCII.
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: 0x0072_6167,
        locktag_field3: 1,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    };
    // SAFETY: a well-formed tag; the transaction's end releases it.
    unsafe { pg_sys::LockAcquire(&tag, mode as i32, false, false) };
}

/// The keys of the file.
///
/// # Errors
/// It is missing, or not as it must be.
pub fn load() -> Result<KeyRing, Error> {
    Ok(key_file::read(&settings::secret_key_file()).map_err(Refused)?)
}

/// The keys to encrypt with, in a file that is made now where nothing is encrypted yet.
pub fn for_writing() -> Result<KeyRing, Error> {
    share();
    let sealed = secrets::sealed_now()?;
    let path = settings::secret_key_file();
    match key_file::read(&path) {
        Ok(ring) => {
            let lost = sealed
                .iter()
                .filter(|s| sealed::key_id(s).is_none_or(|id| ring.get(id).is_none()))
                .count();
            if lost > 0 {
                pgrx::warning!(
                    "{lost} values of secrets of this database are encrypted under keys that are not in the file of rag.secret_key_file"
                );
            }
            Ok(ring)
        }
        Err(KeyFileError::Missing) if sealed.is_empty() => {
            Ok(key_file::create(&path, &KeyRing::new(generate()?)).map_err(Refused)?)
        }
        Err(e) => Err(Refused(e).into()),
    }
}

fn generate() -> Result<Key, Error> {
    Key::generate().map_err(|e| Error::new(Code::ERRCODE_SYSTEM_ERROR, e.to_string()))
}

/// # Errors
/// The key is not in the ring, or the bytes are not those that were stored.
pub fn open(ring: &KeyRing, entry: &Entry, sealed: &[u8]) -> Result<Value, Error> {
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
    /// Values that were encrypted anew.
    pub values: i64,
}

/// Adds a key to the file, which is the current one from then on, and encrypts the values of the
/// database under it; each of the two can be left out.
///
/// # Errors
/// The file cannot be read or written, or a value cannot be decrypted.
pub fn rotate(add_key: bool, reencrypt: bool) -> Result<Rotated, Error> {
    claim();
    let path = settings::secret_key_file();
    let mut ring = match key_file::read(&path) {
        Ok(ring) => ring,
        // somebody who does not want what there is to be encrypted anew knows that its keys are
        // lost
        Err(KeyFileError::Missing)
            if add_key && (!reencrypt || secrets::sealed_now()?.is_empty()) =>
        {
            let ring = key_file::create(&path, &KeyRing::new(generate()?)).map_err(Refused)?;
            return Ok(Rotated {
                current: ring.current().id(),
                values: 0,
            });
        }
        Err(e) => return Err(Refused(e).into()),
    };
    if add_key {
        ring = ring.with(generate()?);
        key_file::replace(&path, &ring).map_err(Refused)?;
    }
    let current = ring.current().id();
    let mut values = 0;
    if reencrypt {
        for entry in secrets::lock_sealed()? {
            let Stored::Sealed(bytes) = &entry.stored else {
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
/// It is the current one, or something of this database is encrypted under it, or may be again when
/// the transaction is rolled back.
pub fn drop_key(id: &str) -> Result<(), Error> {
    // SAFETY: look at the state of the session's transaction.
    let (has_written, snapshot_is_fixed) = unsafe {
        let has_written = pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId;
        (
            has_written,
            pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32,
        )
    };
    if has_written || snapshot_is_fixed {
        return Err(Error::new(
            Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "rag_drop_secret_key needs a transaction of its own",
        )
        .detail("The file does not follow when a transaction is rolled back.")
        .hint("COMMIT first; use isolation level READ COMMITTED."));
    }
    claim();
    let path = settings::secret_key_file();
    let ring = key_file::read(&path).map_err(Refused)?;
    let known = KeyId::parse(id).and_then(|id| ring.get(id)).map(Key::id);
    let id = known.ok_or_else(|| {
        Error::undefined("there is no such key in the key file")
            .hint("rag_secret_keys() lists the ids of its keys.")
    })?;
    if id == ring.current().id() {
        return Err(Error::in_use(format!("key {id} is the current one"))
            .hint("rag_rotate_secret_key() makes another one the current one."));
    }
    let values = secrets::sealed_now()?
        .iter()
        .filter(|sealed| sealed::key_id(sealed) == Some(id))
        .count();
    if values > 0 {
        return Err(Error::new(
            Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("key {id} cannot be dropped because {values} values of secrets are encrypted under it"),
        )
        .hint("rag_rotate_secret_key(add_key => false) encrypts them under the current key."));
    }
    key_file::replace(&path, &ring.without(id)).map_err(Refused)?;
    Ok(())
}

/// A key as far as people may know it.
pub struct KeyStatus {
    pub id: KeyId,
    pub is_in_file: bool,
    pub is_current: bool,
    /// Values of this database that are encrypted under it.
    pub values: i64,
}

/// The keys of the file, and those that something in this database is encrypted under.
pub fn status() -> Result<Vec<KeyStatus>, Error> {
    let ring = match key_file::read(&settings::secret_key_file()) {
        Ok(ring) => Some(ring),
        Err(KeyFileError::Missing) => None,
        Err(e) => return Err(Refused(e).into()),
    };
    let mut values: BTreeMap<KeyId, i64> = BTreeMap::new();
    for id in ring.iter().flat_map(KeyRing::keys).map(Key::id) {
        values.insert(id, 0);
    }
    for id in secrets::sealed()?
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

/// The key file is not as it must be.
struct Refused(KeyFileError);

impl From<Refused> for Error {
    fn from(Refused(error): Refused) -> Self {
        let detail = format!("{}.", super::capitalized(&error.to_string()));
        match error {
            KeyFileError::Missing => {
                Self::new(Code::ERRCODE_UNDEFINED_FILE, "the key file of the secrets, rag.secret_key_file, does not exist")
                    .hint(
                        "Put it back from a copy; on a promoted replica, from the former primary. Where it is lost, \
                         rag_rotate_secret_key(reencrypt => false) makes another one, and each secret has to be created again.",
                    )
            }
            KeyFileError::Io { .. } => {
                Self::new(Code::ERRCODE_IO_ERROR, "the key file of the secrets, rag.secret_key_file, cannot be used").detail(detail)
            }
            KeyFileError::Owner | KeyFileError::Mode(_) => {
                Self::new(Code::ERRCODE_CONFIG_FILE_ERROR, "the key file of the secrets, rag.secret_key_file, is not private")
                    .detail(detail)
                    .hint("It must belong to the user that runs the server and have the mode 0600.")
            }
            KeyFileError::NotAFile | KeyFileError::Invalid(_) => {
                Self::new(Code::ERRCODE_CONFIG_FILE_ERROR, "the key file of the secrets, rag.secret_key_file, is damaged")
                    .detail(detail)
                    .hint("Put it back from a copy.")
            }
        }
    }
}
