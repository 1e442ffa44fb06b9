//! Statements with the rights of a token.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use pgrx::{PgOid, Spi, datum::DatumWithOid, pg_sys, spi::OwnedPreparedStatement};

use super::{
    rights::Rights,
    row::{ReadRow, Row, collect, read_rows},
};
use crate::error::Error;

/// How a statement runs.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// It only reads, and takes no transaction id.
    Read,
    /// It writes or locks.
    Write,
    /// It only reads, and is kept.
    ReadPrepared,
    /// It writes or locks, and is kept.
    WritePrepared,
}

impl Rights {
    /// Runs one statement that writes. Returns the number of rows that it affected.
    pub fn execute(&self, statement: &str, args: &[DatumWithOid<'_>]) -> Result<usize, Error> {
        self.check()?;
        Ok(Spi::connect_mut(|client| {
            client
                .update(statement, None, args)
                .map(|table| table.len())
        })?)
    }

    /// Runs one statement that only reads, and reads each row of its result.
    ///
    /// It takes no transaction id, so it works on a standby. It sees what the calling command sees,
    /// and everything that the transaction has written.
    pub fn query<T>(
        &self,
        statement: &str,
        args: &[DatumWithOid<'_>],
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        collect(read, |read| self.run(Mode::Read, statement, args, read))
    }

    /// Runs one statement that writes or locks, and reads each row of its result.
    pub fn execute_returning<T>(
        &self,
        statement: &str,
        args: &[DatumWithOid<'_>],
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        collect(read, |read| self.run(Mode::Write, statement, args, read))
    }

    /// [`execute_returning`](Self::execute_returning) for a statement that one session runs
    /// thousands of times: it is parsed and planned once.
    pub fn execute_prepared<T>(
        &self,
        statement: &str,
        args: &[DatumWithOid<'_>],
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        collect(read, |read| {
            self.run(Mode::WritePrepared, statement, args, read)
        })
    }

    /// [`query`](Self::query) for a statement that one session runs often: it is parsed once, and
    /// planned once or a few times.
    pub fn query_prepared<T>(
        &self,
        statement: &str,
        args: &[DatumWithOid<'_>],
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        collect(read, |read| {
            self.run(Mode::ReadPrepared, statement, args, read)
        })
    }

    fn run(
        &self,
        mode: Mode,
        statement: &str,
        args: &[DatumWithOid<'_>],
        read: &mut ReadRow<'_>,
    ) -> Result<(), Error> {
        self.check()?;
        match mode {
            Mode::Read => {
                Spi::connect(|client| read_rows(client.select(statement, None, args)?, read))
            }
            Mode::Write => {
                Spi::connect_mut(|client| read_rows(client.update(statement, None, args)?, read))
            }
            Mode::ReadPrepared => Spi::connect(|client| {
                let prepared = prepared(statement, args, |types| {
                    Ok(client.prepare(statement, types)?.keep())
                })?;
                read_rows(client.select(&*prepared, None, args)?, read)
            }),
            Mode::WritePrepared => Spi::connect_mut(|client| {
                let prepared = prepared(statement, args, |types| {
                    Ok(client.prepare_mut(statement, types)?.keep())
                })?;
                read_rows(client.update(&*prepared, None, args)?, read)
            }),
        }
    }

    /// Prepares a statement that only reads for several runs with parameters of these types.
    pub fn prepare_query(
        &self,
        statement: &str,
        types: &[pg_sys::Oid],
    ) -> Result<PreparedQuery<'_>, Error> {
        self.check()?;
        let types: Vec<PgOid> = types.iter().map(|oid| PgOid::from(*oid)).collect();
        let prepared =
            Spi::connect(|client| Ok::<_, Error>(client.prepare(statement, &types)?.keep()))?;
        Ok(PreparedQuery {
            rights: self,
            prepared,
        })
    }

    /// [`query`](Self::query) for a large result, which is read in portions.
    pub fn for_each_row(
        &self,
        statement: &str,
        args: &[DatumWithOid<'_>],
        mut read: impl FnMut(Row<'_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        /// Rows that are read at a time.
        const PORTION: std::ffi::c_long = 1000;
        self.check()?;
        Spi::connect(|client| {
            let mut cursor = client.try_open_cursor(statement, args)?;
            loop {
                let rows = cursor.fetch(PORTION)?;
                if rows.is_empty() {
                    return Ok(());
                }
                read_rows(rows, &mut read)?;
                pgrx::check_for_interrupts!();
            }
        })
    }
}

/// A statement that is parsed once, and whose plans are forgotten with it.
pub struct PreparedQuery<'a> {
    rights: &'a Rights,
    prepared: OwnedPreparedStatement,
}

impl PreparedQuery<'_> {
    /// See [`Rights::query`].
    pub fn run<T>(
        &self,
        args: &[DatumWithOid<'_>],
        read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.rights.check()?;
        collect(read, |read| {
            Spi::connect(|client| read_rows(client.select(&self.prepared, None, args)?, read))
        })
    }
}

/// The maximum number of statements that a session keeps. Those of searches are different for each
/// collection.
const MAX_PREPARED: usize = 256;

/// A prepared statement with the types of its parameters. Types have other OIDs after the extension
/// was created again.
type Prepared = (Vec<pg_sys::Oid>, Rc<OwnedPreparedStatement>);

fn prepared(
    statement: &str,
    args: &[DatumWithOid<'_>],
    prepare: impl FnOnce(&[PgOid]) -> Result<OwnedPreparedStatement, Error>,
) -> Result<Rc<OwnedPreparedStatement>, Error> {
    thread_local! {
        static KEPT: RefCell<HashMap<String, Prepared>> = RefCell::default();
    }
    let types: Vec<pg_sys::Oid> = args.iter().map(DatumWithOid::oid).collect();
    let kept = KEPT.with_borrow(|kept| {
        kept.get(statement)
            .filter(|(of, _)| *of == types)
            .map(|(_, prepared)| Rc::clone(prepared))
    });
    if let Some(prepared) = kept {
        return Ok(prepared);
    }
    let oids: Vec<PgOid> = types.iter().map(|oid| PgOid::from(*oid)).collect();
    let prepared = Rc::new(prepare(&oids)?);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() == MAX_PREPARED {
            kept.clear();
        }
        kept.insert(statement.to_string(), (types, Rc::clone(&prepared)))
    });
    Ok(prepared)
}
