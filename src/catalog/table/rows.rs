//! The statements that read rows, with the rights of the source's owner.
//!
//! A row's hash covers all that its document is made of, and how: SHA-256 of the row of its columns as text, after a
//! word that stands for the definition. Settings that change how values are written are pinned, so that the same row
//! has the same key and hash in every session.

use std::collections::BTreeSet;

use pgrx::{Spi, datum::DatumWithOid, pg_sys, spi::quote_identifier};
use rag_protocol::spec::TableSpec;
use serde_json::{Map, Value};

use super::{
    filter::RowFilter,
    relation::{Column, Relation},
};
use crate::{
    catalog::{self, Row as ResultRow, as_table_owner, with_settings},
    error::Error,
};

/// Stands for the way in which documents are made of rows; another word makes all of them anew.
const VERSION: &str = "rows v1";

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
}

/// Keys that were looked up, as they are written now, each with the row that has it and passes the filter.
pub type Found<T> = Vec<(Key, Option<T>)>;

pub struct Rows {
    owner: pg_sys::Oid,
    ids: Vec<Column>,
    /// What stands for the definition in every hash.
    definition: String,
    filter: Option<RowFilter>,
    parts: Parts,
}

/// Pieces of the statements.
struct Parts {
    relation: String,
    /// All columns that are read: there may be others that the owner may not read.
    columns: String,
    hash: String,
    bytes: String,
    title: String,
    texts: Vec<String>,
    metadata: String,
}

impl Rows {
    /// # Errors
    /// A column does not exist, or the filter is not well-formed.
    pub fn new(relation: &Relation, spec: &TableSpec, owner: pg_sys::Oid) -> Result<Self, Error> {
        let column = |name: &String| Ok(format!("r.{}", quote_identifier(relation.column(name)?.name.as_str())));
        let ids: Vec<Column> =
            spec.id_columns.iter().map(|id| relation.column(id).cloned()).collect::<Result<_, _>>()?;
        let title = spec.title_column.as_ref().map(column).transpose()?;
        let contents: Vec<String> = spec.content_columns.iter().map(column).collect::<Result<_, Error>>()?;
        let metadata: Vec<String> = spec.metadata_columns.iter().map(column).collect::<Result<_, Error>>()?;
        let filter = spec.filter.as_ref().map(RowFilter::parse).transpose()?;
        for name in filter.iter().flat_map(|filter| &filter.columns) {
            relation.column(name)?;
        }
        let all: Vec<&str> = title.iter().chain(&contents).chain(&metadata).map(String::as_str).collect();
        let definition = format!(
            "{VERSION} {}",
            serde_json::json!([
                spec.document_type.name(),
                spec.title_column.is_some(),
                spec.content_columns,
                spec.metadata_columns
            ])
        );
        let id_columns = ids.iter().map(|id| format!("r.{}", quote_identifier(&id.name)));
        let columns: BTreeSet<String> = id_columns.chain(all.iter().map(ToString::to_string)).collect();
        let parts = Parts {
            relation: relation.quoted(),
            columns: columns.into_iter().collect::<Vec<_>>().join(", "),
            // the definition is the first parameter of every statement
            hash: format!("encode(sha256(convert_to(ROW($1::text, {})::text, 'UTF8')), 'hex')", all.join(", ")),
            bytes: contents
                .iter()
                .map(|c| format!("coalesce(octet_length({c}::text), 0)::bigint"))
                .collect::<Vec<_>>()
                .join(" + "),
            title: title.map_or_else(|| "NULL::text".into(), |title| format!("{title}::text")),
            texts: contents.iter().map(|c| format!("{c}::text")).collect(),
            metadata: object(spec.metadata_columns.iter().zip(&metadata)),
        };
        Ok(Self { owner, ids, definition, filter, parts })
    }

    /// Tries the statements on no row, so that what is wrong with a definition shows when it is made.
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
        self.filter.iter().flat_map(|filter| filter.columns.iter().map(String::as_str))
    }

    /// How many rows there are, for people.
    pub fn count(&self) -> Result<u64, Error> {
        let (from, condition, args) = self.from(1);
        let statement = format!("SELECT count(*) FROM {from} WHERE {condition}");
        let found = self.as_reader(|| catalog::query(&statement, &args, |row| row.required::<i64>(1)))?;
        Ok(found.first().copied().unwrap_or(0).unsigned_abs())
    }

    /// Rows after a key in the order of keys, at most `most`.
    pub fn page(&self, after: Option<&Key>, most: usize) -> Result<Vec<Listed>, Error> {
        let (from, mut condition, mut args) = self.arguments();
        let ids = self.id_columns();
        if let Some(key) = after {
            let placeholders: Vec<String> = self
                .ids
                .iter()
                .zip(key)
                .map(|(id, value)| {
                    args.push(value.as_str().into());
                    format!("${}::text::{}", args.len(), id.type_name)
                })
                .collect();
            condition = format!("{condition} AND ROW({}) > ROW({})", ids.join(", "), placeholders.join(", "));
        }
        let statement = format!(
            "SELECT {}, {}, {} FROM {from} WHERE {condition} ORDER BY {} LIMIT {most}",
            texts(&ids),
            self.parts.hash,
            self.parts.bytes,
            ids.join(", ")
        );
        self.as_reader(|| catalog::query(&statement, &args, |row| self.listed(&row)))
    }

    /// All rows, in no order; `each` is given them as they come.
    pub fn all(&self, mut each: impl FnMut(Listed)) -> Result<(), Error> {
        let (from, condition, args) = self.arguments();
        let ids = self.id_columns();
        let statement =
            format!("SELECT {}, {}, {} FROM {from} WHERE {condition}", texts(&ids), self.parts.hash, self.parts.bytes);
        const AT_ONCE: std::ffi::c_long = 1000;
        self.as_reader(|| {
            Spi::connect(|client| {
                let mut cursor = client.try_open_cursor(statement.as_str(), &args)?;
                loop {
                    let rows = cursor.fetch(AT_ONCE)?;
                    if rows.is_empty() {
                        return Ok(());
                    }
                    for tuple in rows {
                        each(self.listed(&ResultRow(&tuple))?);
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
            Ok(Listed { key: Some(key), hash: row.required(next)?, bytes })
        })
    }

    /// Reads the rows that have certain keys.
    pub fn fetch(&self, keys: &[Key]) -> Result<Found<Row>, Error> {
        let Parts { hash, title, metadata, texts, .. } = &self.parts;
        let columns = format!("{hash}, {title}, {metadata}, {}", texts.join(", "));
        self.find(keys, &columns, |row, next, key| {
            let metadata = match row.get::<pgrx::JsonB>(next + 2)?.map(|json| json.0) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let texts = (0..self.parts.texts.len()).map(|i| row.get(next + 3 + i)).collect::<Result<_, _>>()?;
            Ok(Row { key, hash: row.required(next)?, title: row.get(next + 1)?, texts, metadata })
        })
    }

    /// Selects `columns` of the rows that have certain keys; `read` is given the number of the first one.
    fn find<T>(
        &self,
        keys: &[Key],
        columns: &str,
        read: impl Fn(&ResultRow<'_, '_>, usize, Key) -> Result<T, Error>,
    ) -> Result<Found<T>, Error> {
        let (from, condition, mut args) = self.arguments();
        let (mut casts, mut arrays, mut names, mut joins) = (vec![], vec![], vec![], vec![]);
        for (i, id) in self.ids.iter().enumerate() {
            let values: Vec<&str> = keys.iter().map(|key| key[i].as_str()).collect();
            args.push(values.into());
            arrays.push(format!("unnest(${}::text[])", args.len()));
            names.push(format!("a{i}"));
            casts.push(format!("u.a{i}::{} AS k{i}", id.type_name));
            joins.push(format!("r.{} = k.k{i}", quote_identifier(&id.name)));
        }
        let asked: Vec<String> = (0..self.ids.len()).map(|i| format!("k.k{i}")).collect();
        let statement = format!(
            "SELECT {}, {}, {columns}
             FROM (SELECT {} FROM ROWS FROM ({}) AS u ({})) AS k
             LEFT JOIN (SELECT {} FROM {from} WHERE {condition}) AS r ON {}",
            texts(&asked),
            texts(&self.id_columns()),
            casts.join(", "),
            arrays.join(", "),
            names.join(", "),
            self.parts.columns,
            joins.join(" AND "),
        );
        let n = self.ids.len();
        self.as_reader(|| {
            catalog::query(&statement, &args, |row| {
                let asked = key(&row, 1, n)?.ok_or_else(|| Error::internal("a key became NULL"))?;
                let found = key(&row, n + 1, n)?.map(|own| read(&row, 2 * n + 1, own)).transpose()?;
                Ok((asked, found))
            })
        })
    }

    fn id_columns(&self) -> Vec<String> {
        self.ids.iter().map(|id| format!("r.{}", quote_identifier(&id.name))).collect()
    }

    /// The settings under which keys and hashes are made, and the rights of the source's owner.
    fn as_reader<R>(&self, f: impl FnOnce() -> R) -> R {
        as_table_owner(self.owner, || {
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
                f,
            )
        })
    }

    /// What to read from, on which condition, and the parameters so far: the definition, and the filter's.
    fn arguments(&self) -> (String, String, Vec<DatumWithOid<'_>>) {
        let (from, condition, filter) = self.from(2);
        let mut args: Vec<DatumWithOid<'_>> = vec![self.definition.as_str().into()];
        args.extend(filter);
        (from, condition, args)
    }

    fn from(&self, first_param: usize) -> (String, String, Vec<DatumWithOid<'_>>) {
        let relation = &self.parts.relation;
        let Some(filter) = &self.filter else { return (format!("{relation} AS r"), "true".into(), vec![]) };
        let columns: Vec<String> = filter.columns.iter().map(|name| format!("r.{}", quote_identifier(name))).collect();
        let sql = filter.filter.to_sql(first_param);
        (
            format!(
                "{relation} AS r CROSS JOIN LATERAL (SELECT {} AS metadata) AS c",
                object(filter.columns.iter().zip(&columns))
            ),
            format!("({})", sql.text),
            sql.params.into_iter().map(catalog::filter_argument).collect(),
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

/// A JSON object of columns by their names.
fn object<'a>(columns: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let members: Vec<String> =
        columns.map(|(name, column)| format!("{}, {column}", pgrx::spi::quote_literal(name))).collect();
    format!("jsonb_build_object({})", members.join(", "))
}

fn texts(columns: &[String]) -> String {
    columns.iter().map(|column| format!("{column}::text")).collect::<Vec<_>>().join(", ")
}

fn key(row: &ResultRow<'_, '_>, first: usize, count: usize) -> Result<Option<Key>, Error> {
    (first..first + count).map(|i| row.get::<String>(i)).collect()
}
