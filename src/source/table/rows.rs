//! The statements that read rows, with the rights that [`super::reader`] gives.
//!
//! A row's hash covers all that its document is made of, and how: SHA-256 of the row of its columns
//! as text, after a word that stands for the definition. Settings that change how values are
//! written are pinned, so that the same row has the same key and hash in every session.

use std::collections::BTreeSet;

use pgrx::{Spi, datum::DatumWithOid, pg_sys, spi::quote_identifier};
use rag_protocol::spec::TableSpec;
use serde_json::{Map, Value};

use super::{
    filter::RowFilter,
    identity, reader,
    relation::{Column, Relation},
};
use crate::{
    catalog::sources::Identity,
    error::Error,
    pg::{
        guc::with_settings,
        security::as_table_owner,
        spi::{Row as ResultRow, filter_argument},
    },
};

/// Stands for the way in which documents are made of rows; another word makes all of them anew.
const VERSION: &str = "rows v2";

/// The text forms of the values of a row's id columns.
pub type Key = Vec<String>;

/// A row as it is listed.
#[derive(Debug)]
pub struct Listed {
    /// `None` where an id column is NULL.
    pub key: Option<Key>,
    pub hash: String,
    /// Bytes of its texts.
    pub bytes: u64,
}

/// What a row's document is made of.
#[derive(Debug)]
pub struct Row {
    pub key: Key,
    pub hash: String,
    pub title: Option<String>,
    /// Of each content column.
    pub texts: Vec<Option<String>>,
    pub metadata: Map<String, Value>,
    /// Its id columns with their values.
    pub row_key: Value,
}

/// Keys that were looked up, as they are written now, each with the row that has it and passes the
/// filter.
pub type Found<T> = Vec<(Key, Option<T>)>;

pub struct Rows {
    relation: Identity,
    /// With whose rights they are read.
    reader: pg_sys::Oid,
    ids: Vec<Column>,
    /// All columns that are read.
    columns: BTreeSet<String>,
    /// What stands for the definition in every hash.
    definition: String,
    filter: Option<RowFilter>,
    parts: Parts,
}

/// Pieces of the statements.
struct Parts {
    relation: String,
    /// The columns that are selected.
    columns: String,
    hash: String,
    bytes: String,
    title: String,
    texts: Vec<String>,
    metadata: String,
    row_key: String,
    /// Of the columns that the filter looks at.
    filtered: String,
}

/// What a spec says of a relation, before it is known with whose rights it is read.
pub struct Unauthorized(Rows);

impl Unauthorized {
    /// For a source of this role.
    ///
    /// # Errors
    /// It may not read the columns, or nobody may read them for it.
    pub fn for_owner(self, relation: &Relation, owner: pg_sys::Oid) -> Result<Rows, Error> {
        let Self(rows) = self;
        let columns = rows.columns.iter().cloned().collect();
        Ok(Rows {
            reader: reader::of(relation, columns, owner)?,
            ..rows
        })
    }
}

impl Rows {
    /// # Errors
    /// A column does not exist, or the filter is not well-formed.
    pub fn plan(relation: &Relation, spec: &TableSpec) -> Result<Unauthorized, Error> {
        let column = |name: &String| relation.column(name);
        let ids: Vec<Column> = spec
            .id_columns
            .iter()
            .map(|id| relation.column(id).cloned())
            .collect::<Result<_, _>>()?;
        let title = spec.title_column.as_ref().map(column).transpose()?;
        let contents: Vec<&Column> = spec
            .content_columns
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        let metadata: Vec<&Column> = spec
            .metadata_columns
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        let filter = spec.filter.as_ref().map(RowFilter::parse).transpose()?;
        let filtered: Vec<&Column> = filter
            .iter()
            .flat_map(|filter| &filter.columns)
            .map(column)
            .collect::<Result<_, _>>()?;
        let hashed: Vec<&Column> = title
            .into_iter()
            .chain(contents.clone())
            .chain(metadata.clone())
            .collect();
        let definition = format!(
            "{VERSION} {}",
            serde_json::json!([
                spec.document_type.name(),
                spec.title_column.is_some(),
                spec.content_columns,
                spec.metadata_columns
            ])
        );
        let selected: BTreeSet<String> = ids
            .iter()
            .chain(hashed.iter().copied())
            .map(reference)
            .collect();
        let columns: BTreeSet<String> = ids
            .iter()
            .chain(hashed.iter().copied())
            .chain(filtered.iter().copied())
            .map(|c| c.name.clone())
            .collect();
        let text = |column: &Column| column.to_text(&reference(column));
        let values: Vec<String> = hashed.iter().copied().map(reference).collect();
        let parts = Parts {
            relation: relation.quoted(),
            columns: selected.into_iter().collect::<Vec<_>>().join(", "),
            // the definition is the first parameter of every statement
            hash: format!(
                "encode(sha256(convert_to(ROW($1::text, {})::text, 'UTF8')), 'hex')",
                values.join(", ")
            ),
            bytes: contents
                .iter()
                .map(|c| format!("coalesce(octet_length({}), 0)::bigint", text(c)))
                .collect::<Vec<_>>()
                .join(" + "),
            title: title.map_or_else(|| "NULL::text".into(), text),
            texts: contents.iter().map(|c| text(c)).collect(),
            metadata: object(metadata),
            row_key: object(&ids),
            filtered: object(filtered),
        };
        Ok(Unauthorized(Self {
            relation: relation.identity(),
            reader: pg_sys::InvalidOid,
            ids,
            columns,
            definition,
            filter,
            parts,
        }))
    }

    /// Tries the statements on no row, so that what is wrong with a definition shows when it is
    /// made.
    ///
    /// # Errors
    /// What Postgres says of them.
    pub fn check(&self) -> Result<(), Error> {
        self.page(None, 0)?;
        self.look_up(&[])?;
        self.fetch(&[])?;
        Ok(())
    }

    /// The types of the id columns: keys of other types are not comparable.
    pub fn key_types(&self) -> Vec<&str> {
        self.ids.iter().map(|id| id.type_name.as_str()).collect()
    }

    /// Another one makes all documents anew.
    pub fn version(&self) -> &'static str {
        VERSION
    }

    /// Columns that the filter looks at.
    pub fn filter_columns(&self) -> impl Iterator<Item = &str> {
        self.filter
            .iter()
            .flat_map(|filter| filter.columns.iter().map(String::as_str))
    }

    /// How many rows there are, for people.
    pub fn count(&self) -> Result<u64, Error> {
        let (from, condition, args) = self.from(1);
        let statement = format!("SELECT count(*) FROM {from} WHERE {condition}");
        let found = self.as_reader(&statement, || {
            crate::pg::spi::query(&statement, &args, |row| row.required::<i64>(1))
        })?;
        Ok(found.first().copied().unwrap_or(0).unsigned_abs())
    }

    /// Rows after a key in the order of keys, at most `most`.
    pub fn page(&self, after: Option<&Key>, most: usize) -> Result<Vec<Listed>, Error> {
        let (from, mut condition, mut args) = self.arguments();
        let ids = self.id_columns();
        if let Some(key) = after {
            let mut values = vec![];
            for (id, text) in self.ids.iter().zip(key) {
                if id.is_builtin {
                    args.push(text.as_str().into());
                    values.push(format!("${}::text::{}", args.len(), id.type_name));
                } else {
                    values.push(id.literal(text));
                }
            }
            condition = format!(
                "{condition} AND ROW({}) > ROW({})",
                ids.join(", "),
                values.join(", ")
            );
        }
        let statement = format!(
            "SELECT {}, {}, {} FROM {from} WHERE {condition} ORDER BY {} LIMIT {most}",
            self.id_texts(&ids),
            self.parts.hash,
            self.parts.bytes,
            ids.join(", ")
        );
        self.as_reader(&statement, || {
            crate::pg::spi::query(&statement, &args, |row| self.listed(&row))
        })
    }

    /// All rows, in no order; `each` is given them as they come.
    pub fn all(&self, mut each: impl FnMut(Listed)) -> Result<(), Error> {
        let (from, condition, args) = self.arguments();
        let ids = self.id_columns();
        let statement = format!(
            "SELECT {}, {}, {} FROM {from} WHERE {condition}",
            self.id_texts(&ids),
            self.parts.hash,
            self.parts.bytes
        );
        const AT_ONCE: std::ffi::c_long = 1000;
        self.as_reader(&statement, || {
            Spi::connect(|client| {
                let mut cursor = client.try_open_cursor(statement.as_str(), &args)?;
                loop {
                    let rows = cursor.fetch(AT_ONCE)?;
                    if rows.is_empty() {
                        return Ok(());
                    }
                    for tuple in rows {
                        each(self.listed(&ResultRow::new(&tuple))?);
                    }
                    pgrx::check_for_interrupts!();
                }
            })
        })
    }

    /// Lists the rows that have certain keys.
    pub fn look_up(&self, keys: &[Key]) -> Result<Found<Listed>, Error> {
        let columns = format!("{}, {}", self.parts.hash, self.parts.bytes);
        self.find(keys, &columns, |row, next, key| {
            let bytes = row.required::<i64>(next + 1)?.unsigned_abs();
            Ok(Listed {
                key: Some(key),
                hash: row.required(next)?,
                bytes,
            })
        })
    }

    /// Reads the rows that have certain keys.
    pub fn fetch(&self, keys: &[Key]) -> Result<Found<Row>, Error> {
        let Parts {
            hash,
            title,
            metadata,
            row_key,
            texts,
            ..
        } = &self.parts;
        let columns = format!(
            "{hash}, {title}, {metadata}, {row_key}, {}",
            texts.join(", ")
        );
        self.find(keys, &columns, |row, next, key| {
            let metadata = match row.get::<pgrx::JsonB>(next + 2)?.map(|json| json.0) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let texts = (0..self.parts.texts.len())
                .map(|i| row.get(next + 4 + i))
                .collect::<Result<_, _>>()?;
            let row_key = row.required::<pgrx::JsonB>(next + 3)?.0;
            Ok(Row {
                key,
                hash: row.required(next)?,
                title: row.get(next + 1)?,
                texts,
                metadata,
                row_key,
            })
        })
    }

    /// Selects `columns` of the rows that have certain keys; `read` is given the number of the
    /// first one.
    fn find<T>(
        &self,
        keys: &[Key],
        columns: &str,
        read: impl Fn(&ResultRow<'_, '_>, usize, Key) -> Result<T, Error>,
    ) -> Result<Found<T>, Error> {
        let (from, condition, mut args) = self.arguments();
        let asked = self.asked(keys, &mut args);
        let joins: Vec<String> = self
            .ids
            .iter()
            .enumerate()
            .map(|(i, id)| format!("{} = k.k{i}", reference(id)))
            .collect();
        let names: Vec<String> = (0..self.ids.len()).map(|i| format!("k.k{i}")).collect();
        let statement = format!(
            "SELECT {}, {}, {columns}
             FROM ({asked}) AS k LEFT JOIN (SELECT {} FROM {from} WHERE {condition}) AS r ON {}",
            self.id_texts(&names),
            self.id_texts(&self.id_columns()),
            self.parts.columns,
            joins.join(" AND "),
        );
        let n = self.ids.len();
        self.as_reader(&statement, || {
            crate::pg::spi::query(&statement, &args, |row| {
                let asked = key(&row, 1, n)?.ok_or_else(|| Error::internal("a key became NULL"))?;
                let found = key(&row, n + 1, n)?
                    .map(|own| read(&row, 2 * n + 1, own))
                    .transpose()?;
                Ok((asked, found))
            })
        })
    }

    /// A query for keys in columns `k0`, `k1`, ...
    fn asked<'a>(&self, keys: &'a [Key], args: &mut Vec<DatumWithOid<'a>>) -> String {
        let columns = |of: &dyn Fn(usize, &Column) -> String| -> String {
            self.ids
                .iter()
                .enumerate()
                .map(|(i, id)| of(i, id))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if self.ids.iter().all(|id| id.is_builtin) {
            let first = args.len() + 1;
            for i in 0..self.ids.len() {
                args.push(
                    keys.iter()
                        .map(|key| key[i].as_str())
                        .collect::<Vec<_>>()
                        .into(),
                );
            }
            return format!(
                "SELECT {} FROM ROWS FROM ({}) AS u ({})",
                columns(&|i, id| format!("u.a{i}::{} AS k{i}", id.type_name)),
                columns(&|i, _| format!("unnest(${}::text[])", first + i)),
                columns(&|i, _| format!("a{i}")),
            );
        }
        if keys.is_empty() {
            return format!(
                "SELECT {} WHERE false",
                columns(&|i, id| format!("NULL::{} AS k{i}", id.type_name))
            );
        }
        let rows: Vec<String> = keys
            .iter()
            .map(|key| format!("({})", columns(&|i, id| id.literal(&key[i]))))
            .collect();
        format!(
            "SELECT * FROM (VALUES {}) AS v ({})",
            rows.join(", "),
            columns(&|i, _| format!("k{i}"))
        )
    }

    fn id_columns(&self) -> Vec<String> {
        self.ids.iter().map(reference).collect()
    }

    /// Values of the id columns as texts.
    fn id_texts(&self, values: &[String]) -> String {
        self.ids
            .iter()
            .zip(values)
            .map(|(id, value)| id.to_text(value))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The settings under which keys and hashes are made, the rights of the reader, and the
    /// relation that the statement may read.
    fn as_reader<R>(
        &self,
        statement: &str,
        f: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.relation.hold()?;
        as_table_owner(self.reader, || {
            with_settings(
                &[
                    (c"datestyle", c"ISO, YMD"),
                    (c"intervalstyle", c"postgres"),
                    (c"timezone", c"UTC"),
                    (c"extra_float_digits", c"1"),
                    (c"bytea_output", c"hex"),
                    // a policy that hides rows hides them from the source; it is not an error
                    (c"row_security", c"on"),
                ],
                || identity::only(self.relation.relation, statement, f),
            )
        })
    }

    /// What to read from, on which condition, and the parameters so far: the definition, and the
    /// filter's.
    fn arguments(&self) -> (String, String, Vec<DatumWithOid<'_>>) {
        let (from, condition, filter) = self.from(2);
        let mut args: Vec<DatumWithOid<'_>> = vec![self.definition.as_str().into()];
        args.extend(filter);
        (from, condition, args)
    }

    fn from(&self, first_param: usize) -> (String, String, Vec<DatumWithOid<'_>>) {
        let relation = &self.parts.relation;
        let Some(filter) = &self.filter else {
            return (format!("{relation} AS r"), "true".into(), vec![]);
        };
        let sql = filter.filter.to_sql(first_param);
        (
            format!(
                "{relation} AS r CROSS JOIN LATERAL (SELECT {} AS metadata) AS c",
                self.parts.filtered
            ),
            format!("({})", sql.text),
            sql.params.into_iter().map(filter_argument).collect(),
        )
    }

    fn listed(&self, row: &ResultRow<'_, '_>) -> Result<Listed, Error> {
        let n = self.ids.len();
        Ok(Listed {
            key: key(row, 1, n)?,
            hash: row.required(n + 1)?,
            bytes: row.required::<i64>(n + 2)?.unsigned_abs(),
        })
    }
}

/// A column of the relation in a statement.
fn reference(column: &Column) -> String {
    format!("r.{}", quote_identifier(&column.name))
}

/// A JSON object of columns by their names.
fn object<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    let members: Vec<String> = columns
        .into_iter()
        .map(|column| {
            format!(
                "{}, {}",
                pgrx::spi::quote_literal(&column.name),
                column.to_json(&reference(column))
            )
        })
        .collect();
    format!("jsonb_build_object({})", members.join(", "))
}

fn key(row: &ResultRow<'_, '_>, first: usize, count: usize) -> Result<Option<Key>, Error> {
    (first..first + count)
        .map(|i| row.get::<String>(i))
        .collect()
}
