//! A relation of the caller that has the blocks of a bundle. It is read with the caller's rights.

use pgrx::pg_sys;

use crate::{
    error::Error,
    pg::{cursor::Cursor, spi::as_caller},
};

/// Returns the name of a relation, qualified and quoted.
pub fn relation_name(relation: pg_sys::Oid) -> Result<Option<String>, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT format('%I.%I', n.nspname, c.relname) AS name
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = $1",
            &[relation.into()],
            |row| row.required("name"),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Returns true if a relation has the columns of blocks.
pub fn has_columns(relation: pg_sys::Oid) -> Result<bool, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT 1 FROM pg_attribute a
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
               AND (a.attname, a.atttypid) IN (
                   ('file', 'text'::regtype), ('block', 'int4'::regtype),
                   ('data', 'bytea'::regtype))",
            &[relation.into()],
            |_| Ok(()),
        )
    })?;
    Ok(found.len() == 3)
}

/// The blocks of a file, in their order.
pub struct OpenBlocks(Cursor);

impl OpenBlocks {
    /// Opens the blocks of a file. The name of the relation is qualified and quoted.
    pub fn open(relation: &str, file: &str) -> Result<Self, Error> {
        let statement =
            format!("SELECT block, data FROM {relation} WHERE file = '{file}' ORDER BY block");
        Ok(Self(as_caller(|caller| Cursor::open(caller, &statement))?))
    }

    /// Returns the number and the content of the next block, or `None` at the end.
    pub fn next(&mut self) -> Result<Option<(i32, Vec<u8>)>, Error> {
        let found = as_caller(|caller| {
            self.0.fetch(caller, 1, |row| {
                Ok((row.required("block")?, row.required("data")?))
            })
        })?;
        Ok(found.into_iter().next())
    }
}
