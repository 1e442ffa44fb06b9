//! The text search configuration of an index.
//!
//! An index names it with its schema: in the option `text_config`, which dumps restore, and as the
//! label of the index file, which is what the file was filled with. An OID would mean another
//! configuration after an upgrade, and `default_text_search_config` after a restore.

use std::ffi::{CStr, CString};

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::{
    error::Error,
    pg::{guc::setting, text_search},
};

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
        let separator = label.iter().position(|byte| *byte == 0)?;
        let (schema, name) = (&label[..separator], &label[separator + 1..]);
        Some(Self {
            schema: CString::new(schema).ok()?,
            name: CString::new(name).ok()?,
        })
    }

    /// Returns the bytes that an index file stores.
    pub fn label(&self) -> Vec<u8> {
        [self.schema.to_bytes_with_nul(), self.name.to_bytes()].concat()
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
