//! Cursors that read a large result in portions, over several calls of a function.
#![allow(unsafe_code)] // cursors with the snapshot of the calling statement

use std::ffi::{CStr, CString, c_char, c_int};

use pgrx::{Spi, datum::DatumWithOid, pg_sys};

use super::spi::{ReadRow, Rights, Row, collect, read_rows};
use crate::error::Error;

/// A cursor of the current transaction. It sees what the statement sees that the client has sent.
/// So several cursors of one call see the same state, even if the transaction has written.
pub struct Cursor(String);

impl Cursor {
    /// # Errors
    /// The statement contains NUL.
    pub fn open(rights: &Rights, statement: &str) -> Result<Self, Error> {
        Self::open_with(rights, statement, &[])
    }

    /// Opens a cursor of a statement with parameters, whose values are copied.
    ///
    /// # Errors
    /// The statement contains NUL.
    pub fn open_with(
        rights: &Rights,
        statement: &str,
        args: &[DatumWithOid<'_>],
    ) -> Result<Self, Error> {
        rights.check()?;
        let statement = CString::new(statement)
            .map_err(|_| Error::internal("unexpected NUL in a statement"))?;
        let mut types: Vec<pg_sys::Oid> = args.iter().map(DatumWithOid::oid).collect();
        // 'n' stands for a null value
        let nulls: Vec<c_char> = args
            .iter()
            .map(|arg| if arg.datum().is_none() { b'n' } else { b' ' } as c_char)
            .collect();
        let mut values: Vec<pg_sys::Datum> = args
            .iter()
            .map(|arg| {
                arg.datum()
                    .map_or(pg_sys::Datum::from(0), |datum| datum.sans_lifetime())
            })
            .collect();
        Spi::connect(|_| {
            // SAFETY: inside of a connection to SPI, with as many types, values and nulls as it is
            // told, which it copies. Errors are raised. With the flag for reading only, SPI uses
            // the snapshot of the caller. The name of the portal is copied.
            let name = unsafe {
                let portal = pg_sys::SPI_cursor_open_with_args(
                    std::ptr::null(),
                    statement.as_ptr(),
                    types.len() as c_int,
                    types.as_mut_ptr(),
                    values.as_mut_ptr(),
                    nulls.as_ptr(),
                    true,
                    0,
                );
                CStr::from_ptr((*portal).name)
            };
            Ok(Self(name.to_string_lossy().into_owned()))
        })
    }

    /// Reads the next rows, at most `rows`. Returns less at the end only. The functions that they
    /// are computed with have these rights.
    ///
    /// # Errors
    /// `read` fails.
    pub fn fetch<T>(
        &self,
        rights: &Rights,
        rows: usize,
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        rights.check()?;
        collect(read, |read| self.fetch_rows(rows, read))
    }

    fn fetch_rows(&self, rows: usize, read: &mut ReadRow<'_>) -> Result<(), Error> {
        Spi::connect(|client| {
            let mut cursor = client.find_cursor(&self.0)?;
            read_rows(cursor.fetch(rows as _)?, read)?;
            // it stays open
            cursor.detach_into_name();
            Ok(())
        })
    }

    /// Closes the cursor, and frees its memory. A cursor that is only dropped ends with the
    /// transaction.
    ///
    /// # Errors
    /// It is closed.
    pub fn close(self) -> Result<(), Error> {
        Spi::connect(|client| {
            drop(client.find_cursor(&self.0)?);
            Ok(())
        })
    }
}
