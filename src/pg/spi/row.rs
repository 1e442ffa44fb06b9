//! Rows of results, and values for parameters.

use pgrx::{
    FromDatum, IntoDatum,
    datum::DatumWithOid,
    spi::{SpiHeapTupleData, SpiTupleTable},
};

use crate::error::Error;

/// What a caller does with each row of a result.
///
/// Functions that run statements take it in this form, so that they are compiled once and not for
/// each caller.
pub type ReadRow<'a> = dyn FnMut(Row<'_, '_>) -> Result<(), Error> + 'a;

/// Returns what `read` makes of the rows that `run` passes to it.
pub fn collect<T>(
    mut read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
    run: impl FnOnce(&mut ReadRow<'_>) -> Result<(), Error>,
) -> Result<Vec<T>, Error> {
    let mut values = vec![];
    run(&mut |row| {
        values.push(read(row)?);
        Ok(())
    })?;
    Ok(values)
}

/// Reads each row of a result.
pub fn read_rows(table: SpiTupleTable<'_>, read: &mut ReadRow<'_>) -> Result<(), Error> {
    // once for all rows
    let columns: Vec<String> = (1..=table.columns().unwrap_or(0))
        .map(|number| table.column_name(number))
        .collect::<Result<_, _>>()?;
    for tuple in table {
        read(Row {
            tuple: &tuple,
            columns: &columns,
        })?;
    }
    Ok(())
}

/// One row of a result. Its columns are read by their names.
pub struct Row<'a, 'conn> {
    tuple: &'a SpiHeapTupleData<'conn>,
    columns: &'a [String],
}

impl Row<'_, '_> {
    /// Returns a column that may be NULL.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: &str) -> Result<Option<T>, Error> {
        let place = self.columns.iter().position(|name| name == column);
        let place =
            place.ok_or_else(|| Error::internal(format!("a result has no column {column}")))?;
        Ok(self.tuple.get(place + 1)?)
    }

    /// Returns a column that is never NULL.
    pub fn required<T: FromDatum + IntoDatum>(&self, column: &str) -> Result<T, Error> {
        self.get(column)?
            .ok_or_else(|| Error::null_not_allowed(format!("unexpected NULL in column {column}")))
    }

    /// Returns a uuid that is never NULL.
    pub fn uuid(&self, column: &str) -> Result<uuid::Uuid, Error> {
        let id: pgrx::Uuid = self.required(column)?;
        Ok(uuid::Uuid::from_bytes(*id.as_bytes()))
    }
}

/// Returns a uuid as Postgres's own type.
pub fn uuid(id: uuid::Uuid) -> pgrx::Uuid {
    pgrx::Uuid::from_bytes(*id.as_bytes())
}

/// Returns a parameter with one value of each item, as an array.
pub fn column<'a, I, T>(items: &'a [I], value: impl Fn(&'a I) -> T) -> DatumWithOid<'a>
where
    T: IntoDatum,
{
    items.iter().map(value).collect::<Vec<T>>().into()
}

/// Returns the literal of an array of texts, for values that are arrays in a [`column`]: arrays of
/// PostgreSQL cannot contain arrays of different lengths.
pub fn array_literal(texts: &[String]) -> String {
    let mut literal = String::from("{");
    for (i, text) in texts.iter().enumerate() {
        literal.push_str(if i == 0 { "\"" } else { ",\"" });
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                literal.push('\\');
            }
            literal.push(c);
        }
        literal.push('"');
    }
    literal.push('}');
    literal
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
