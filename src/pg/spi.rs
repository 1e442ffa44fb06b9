//! SQL statements: their parameters, and rows with typed columns.

use std::{cell::RefCell, collections::HashMap, fmt::Display, rc::Rc};

use pgrx::{
    IntoDatum, PgOid, Spi,
    datum::DatumWithOid,
    pg_sys,
    spi::{OwnedPreparedStatement, SpiHeapTupleData, SpiTupleTable},
};

use super::security::with_safe_search_path;
use crate::error::Error;

/// Runs one statement that writes. Returns the number of rows that it affected.
pub fn execute(statement: &str, args: &[DatumWithOid<'_>]) -> Result<usize, Error> {
    Ok(Spi::connect_mut(|client| {
        client
            .update(statement, None, args)
            .map(|table| table.len())
    })?)
}

/// Runs one statement that only reads, and reads each row of its result.
///
/// It takes no transaction id, so it works on a standby. It sees what the calling command sees, and
/// everything that the transaction has written.
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

fn read_rows<T>(
    table: SpiTupleTable<'_>,
    mut read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    table.into_iter().map(|tuple| read(Row(&tuple))).collect()
}

/// One row of a result. A [`ColumnKey`] is the name of a column, or its number from 1.
pub struct Row<'a, 'conn>(&'a SpiHeapTupleData<'conn>);

/// What tells a column of a row: its name or its number.
pub trait ColumnKey: Copy + Display {
    fn read<T: pgrx::FromDatum + IntoDatum>(
        self,
        tuple: &SpiHeapTupleData<'_>,
    ) -> Result<Option<T>, pgrx::spi::Error>;
}

impl ColumnKey for usize {
    fn read<T: pgrx::FromDatum + IntoDatum>(
        self,
        tuple: &SpiHeapTupleData<'_>,
    ) -> Result<Option<T>, pgrx::spi::Error> {
        tuple.get(self)
    }
}

impl ColumnKey for &str {
    fn read<T: pgrx::FromDatum + IntoDatum>(
        self,
        tuple: &SpiHeapTupleData<'_>,
    ) -> Result<Option<T>, pgrx::spi::Error> {
        tuple.get_by_name(self)
    }
}

impl<'a, 'conn> Row<'a, 'conn> {
    pub fn new(tuple: &'a SpiHeapTupleData<'conn>) -> Self {
        Self(tuple)
    }

    /// Returns a column that may be NULL.
    pub fn get<T: pgrx::FromDatum + IntoDatum>(
        &self,
        column: impl ColumnKey,
    ) -> Result<Option<T>, Error> {
        Ok(column.read(self.0)?)
    }

    /// Returns a column that is never NULL.
    pub fn required<T: pgrx::FromDatum + IntoDatum>(
        &self,
        column: impl ColumnKey,
    ) -> Result<T, Error> {
        self.get(column)?
            .ok_or_else(|| Error::null_not_allowed(format!("unexpected NULL in column {column}")))
    }
}

/// Runs a statement of a search with the caller's rights.
pub fn query_as_caller<T>(
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    with_safe_search_path(|| query(statement, args, read))
}

/// Returns a uuid as Postgres's own type.
pub fn uuid(id: uuid::Uuid) -> pgrx::Uuid {
    pgrx::Uuid::from_bytes(*id.as_bytes())
}

/// Returns a filter's parameter. The filter casts each parameter, so a text can stand for another
/// type.
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
