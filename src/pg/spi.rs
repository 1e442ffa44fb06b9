//! SQL statements: their parameters, and rows with typed columns.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use pgrx::{
    IntoDatum, PgOid, Spi,
    datum::DatumWithOid,
    pg_sys,
    spi::{OwnedPreparedStatement, SpiHeapTupleData, SpiTupleTable},
};

use super::security::pinned;
use crate::error::Error;

/// Runs one statement that writes; the number of rows it touched.
pub fn execute(statement: &str, args: &[DatumWithOid<'_>]) -> Result<usize, Error> {
    Ok(Spi::connect_mut(|client| {
        client
            .update(statement, None, args)
            .map(|table| table.len())
    })?)
}

/// Runs one statement that only reads, and reads each row of its result.
///
/// It takes no transaction id, so that it works on a standby; it sees what the calling command
/// sees, and, where the transaction has written already, all that it wrote.
pub fn query<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect(|client| read_rows(client.select(statement, None, args)?, read))
}

/// Runs one statement that writes or locks, and reads each row of its result.
pub fn execute_returning<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect_mut(|client| read_rows(client.update(statement, None, args)?, read))
}

/// [`execute_returning`] for a statement that one session runs thousands of times: it is parsed and
/// planned once.
pub fn execute_prepared<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect_mut(|client| {
        let prepared = prepared(statement, args, |types| {
            Ok(client.prepare_mut(statement, types)?.keep())
        })?;
        read_rows(client.update(&*prepared, None, args)?, read)
    })
}

/// [`query`] for a statement that one session runs often: it is parsed once, and planned once or a
/// few times.
pub fn query_prepared<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Spi::connect(|client| {
        let prepared = prepared(statement, args, |types| {
            Ok(client.prepare(statement, types)?.keep())
        })?;
        read_rows(client.select(&*prepared, None, args)?, read)
    })
}

/// A prepared statement with the types of its parameters, which have other OIDs once the extension
/// was made anew.
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
    KEPT.with_borrow_mut(|kept| kept.insert(statement.to_string(), (types, Rc::clone(&prepared))));
    Ok(prepared)
}

fn read_rows<T>(
    table: SpiTupleTable<'_>,
    mut read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    table.into_iter().map(|tuple| read(Row(&tuple))).collect()
}

/// One row of a result; columns are counted from 1.
pub struct Row<'a, 'conn>(&'a SpiHeapTupleData<'conn>);

impl<'a, 'conn> Row<'a, 'conn> {
    pub fn new(tuple: &'a SpiHeapTupleData<'conn>) -> Self {
        Self(tuple)
    }

    /// A column that may be NULL.
    pub fn get<T: pgrx::FromDatum + IntoDatum>(&self, column: usize) -> Result<Option<T>, Error> {
        Ok(self.0.get(column)?)
    }

    /// A column that is never NULL.
    pub fn required<T: pgrx::FromDatum + IntoDatum>(&self, column: usize) -> Result<T, Error> {
        self.get(column)?
            .ok_or_else(|| Error::null_not_allowed(format!("unexpected NULL in column {column}")))
    }
}

/// For retrieval, which writes its own statements and runs them with the caller's rights.
pub fn query_as_caller<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    pinned(|| query(statement, args, read))
}

/// A uuid as Postgres's own type.
pub fn uuid(id: uuid::Uuid) -> pgrx::Uuid {
    pgrx::Uuid::from_bytes(*id.as_bytes())
}

/// A filter's parameter. The filter writes a cast around each, so that texts serve where it means
/// another type.
pub fn filter_argument(param: rag_filter::Param) -> DatumWithOid<'static> {
    use rag_filter::Param;
    match param {
        Param::Text(text) | Param::Timestamp(text) | Param::Uuid(text) => text.into(),
        Param::Json(value) => pgrx::JsonB(value).into(),
        Param::BigInt(n) => n.into(),
        Param::TextArray(texts) => texts.into(),
        Param::BigIntArray(numbers) => numbers.into(),
    }
}
