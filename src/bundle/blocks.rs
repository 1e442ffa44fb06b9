//! Bundles in the rows of a table, for clients without rights on files of the server.
//!
//! A row is a block of a file: `file text, block integer, data bytea`. Blocks have numbers from 0.

use std::io::{self, Read};

use pgrx::pg_sys;
use rag_bundle::{BundleError, BundleFile};

use super::{
    BundleSource,
    rows::blocks::{self, OpenBlocks},
};
use crate::{error::Error, pg::lookup};

/// A table, or another relation, with the blocks of a bundle. It is read with the caller's rights.
pub struct BlockTable {
    /// Qualified and quoted.
    name: String,
}

impl BlockTable {
    /// # Errors
    /// There is no such relation, or it lacks a column.
    pub fn of(relation: pg_sys::Oid) -> Result<Self, Error> {
        let missing = || Error::undefined("the relation with the blocks does not exist");
        lookup::relation_name(relation).ok_or_else(missing)?;
        let name = blocks::relation_name(relation)?.ok_or_else(missing)?;
        if !blocks::has_columns(relation)? {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("{name} does not have the columns of blocks"),
            )
            .hint("The columns are: file text, block integer, data bytea."));
        }
        Ok(Self { name })
    }
}

impl BundleSource for BlockTable {
    fn open(&self, file: BundleFile) -> Result<Box<dyn Read>, Error> {
        Ok(Box::new(BlockReader {
            file,
            blocks: Some(OpenBlocks::open(&self.name, file.name())?),
            next: 0,
            data: vec![],
            read: 0,
        }))
    }
}

struct BlockReader {
    file: BundleFile,
    blocks: Option<OpenBlocks>,
    next: i32,
    data: Vec<u8>,
    /// The bytes of `data` that were read.
    read: usize,
}

impl BlockReader {
    /// Reads the next block that is not empty. Returns false at the end.
    fn advance(&mut self) -> Result<bool, BundleError> {
        let invalid = |why: String| BundleError::invalid(self.file, why);
        loop {
            let Some(blocks) = &mut self.blocks else {
                return Ok(false);
            };
            let found = blocks
                .next()
                .map_err(|e| invalid(format!("{}.", e.message)))?;
            let Some((block, data)) = found else {
                self.blocks = None;
                return match self.next {
                    0 => Err(invalid("There is no block of it.".into())),
                    _ => Ok(false),
                };
            };
            if block != self.next {
                let block = self.next.min(block);
                return Err(invalid(format!("Block {block} is missing or there twice.")));
            }
            self.next += 1;
            (self.data, self.read) = (data, 0);
            if !self.data.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl Read for BlockReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.data.len() {
            match self.advance() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let rest = &self.data[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}
