//! The text search configuration of an index.
//!
//! An index names it with its schema: in the option `text_config`, which dumps restore, and as the
//! label of the index file, which is what the file was filled with. An OID would mean another
//! configuration after an upgrade, and `default_text_search_config` after a restore. The label also
//! has a digest of what the configuration did with words, if there is room.

use std::ffi::{CStr, CString};

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_bm25::LABEL_BYTES;

use crate::{
    error::Error,
    pg::{guc::setting, text_search},
};

/// Hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 16;

/// The name of a text search configuration with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigName {
    schema: CString,
    name: CString,
}

impl ConfigName {
    /// Reads the option `text_config`. A name without a schema is one of `pg_catalog`.
    ///
    /// # Errors
    /// There is no such configuration.
    pub fn parse(option: &CStr) -> Result<Self, Error> {
        let parts = text_search::split_name(option);
        let (schema, name) = match parts.as_slice() {
            [name] => ("pg_catalog", name.as_str()),
            [schema, name] => (schema.as_str(), name.as_str()),
            _ => {
                return Err(Error::invalid_parameter(format!(
                    "improper name of a text search configuration: \"{}\"",
                    option.to_string_lossy()
                )));
            }
        };
        let unknown = || Error::internal("a name contains a zero byte");
        let config = Self {
            schema: CString::new(schema).map_err(|_| unknown())?,
            name: CString::new(name).map_err(|_| unknown())?,
        };
        match text_search::config(&config.schema, &config.name) {
            Some(_) => Ok(config),
            None if parts.len() == 1 => Err(config.missing().hint(
                "A name without a schema is one of pg_catalog. Write other names with their \
                 schema: text_config = 'public.mine'.",
            )),
            None => Err(config.missing()),
        }
    }

    /// Reads a label of [`label`](Self::label).
    pub fn of_label(label: &[u8]) -> Option<Self> {
        let mut parts = label.splitn(3, |byte| *byte == 0);
        let config = Self {
            schema: CString::new(parts.next()?).ok()?,
            name: CString::new(parts.next()?).ok()?,
        };
        parts.next().is_none_or(is_digest).then_some(config)
    }

    /// Returns the bytes that an index file stores.
    ///
    /// # Errors
    /// It was dropped or renamed. A statement fails.
    pub fn label(&self) -> Result<Vec<u8>, Error> {
        let mut label = [self.schema.to_bytes_with_nul(), self.name.to_bytes()].concat();
        let digest = self.digest()?;
        if label.len() + 1 + digest.len() <= LABEL_BYTES {
            label.push(0);
            label.extend_from_slice(digest.as_bytes());
        }
        Ok(label)
    }

    /// Returns true if the configuration makes words in another way than when the label was made.
    ///
    /// # Errors
    /// It was dropped or renamed. A statement fails.
    pub fn has_changed_since(&self, label: &[u8]) -> Result<bool, Error> {
        match label.splitn(3, |byte| *byte == 0).nth(2) {
            Some(digest) => Ok(digest != self.digest()?.as_bytes()),
            None => Ok(false),
        }
    }

    /// Returns a digest of what the configuration does with words.
    fn digest(&self) -> Result<String, Error> {
        let mapping = text_search::mapping(self.find()?)?;
        let digest = blake3::hash(mapping.as_bytes()).to_hex();
        Ok(digest[..DIGEST_DIGITS].to_owned())
    }

    /// Returns the OID of the configuration.
    ///
    /// # Errors
    /// It was dropped or renamed.
    pub fn find(&self) -> Result<pg_sys::Oid, Error> {
        text_search::config(&self.schema, &self.name).ok_or_else(|| {
            self.missing().hint(
                "It was renamed or dropped after the index was created. Rename it back, or set \
                 the option text_config of the index and REINDEX it.",
            )
        })
    }

    fn missing(&self) -> Error {
        Error::undefined(format!("text search configuration {self} does not exist"))
    }
}

fn is_digest(bytes: &[u8]) -> bool {
    bytes.len() == DIGEST_DIGITS && bytes.iter().all(u8::is_ascii_hexdigit)
}

impl std::fmt::Display for ConfigName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (schema, name) = (self.schema.to_string_lossy(), self.name.to_string_lossy());
        f.write_str(&pgrx::spi::quote_qualified_identifier(schema, name))
    }
}

/// Returns the error for an index without the option `text_config`.
pub fn not_given() -> Error {
    let default = setting(c"default_text_search_config");
    Error::new(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "a rag_bm25 index requires the option text_config",
    )
    .detail("It names the text search configuration that makes words of the texts.")
    .hint(format!(
        "For the current default, write WITH (text_config = '{default}')."
    ))
}
