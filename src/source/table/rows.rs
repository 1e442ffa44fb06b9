//! The statements that read rows, with the rights that [`super::reader`] decides on.
//!
//! The hash of a row covers everything that its document is made of: it is the SHA-256 of a row of
//! texts, first the definition, then the columns. Settings that change the text form of values are
//! fixed, so that a row has the same key and hash in every session.

use std::collections::BTreeSet;

use pgrx::{datum::DatumWithOid, pg_sys};
use rag_definition::source::TableSpec;
use serde_json::{Map, Value};

use super::{
    filter::RowFilter,
    identity, reader,
    relation::{RelationColumn, SourceRelation},
    row_sql::{SqlParts, reference},
};
use crate::{
    catalog::sources::RelationIdentity,
    error::Error,
    pg::{
        guc::with_settings,
        spi::{Rights, Row as ResultRow, as_table_owner, filter_argument},
    },
};

/// The version of the way in which documents are made of rows. A new version makes runs index all
/// rows again.
const ROW_FORMAT: &str = "rows v2";

/// How the names of the columns begin that have the parts of a row's key, and of a key that is
/// looked up.
const OWN: &str = "own";
const ASKED: &str = "asked";

/// The text forms of the values of a row's id columns.
pub type RowKey = Vec<String>;

/// The key, hash and size of a row.
#[derive(Debug)]
pub struct RowSummary {
    /// `None` where an id column is NULL.
    pub key: Option<RowKey>,
    pub hash: String,
    /// The size of its texts in bytes.
    pub bytes: u64,
}

/// The data from which the document of a row is made.
#[derive(Debug)]
pub struct TableRow {
    pub key: RowKey,
    pub hash: String,
    pub title: Option<String>,
    /// The value of each content column.
    pub texts: Vec<Option<String>>,
    pub metadata: Map<String, Value>,
    /// The id columns with their values.
    pub row_key: Value,
}

/// The keys that were looked up, in their present text form, each with its row if that exists and
/// passes the filter.
pub type RowsByKey<T> = Vec<(RowKey, Option<T>)>;

pub struct RowReader {
    relation: RelationIdentity,
    /// The role with whose rights rows are read.
    reader: pg_sys::Oid,
    ids: Vec<RelationColumn>,
    /// All columns that the statements read.
    columns: BTreeSet<String>,
    /// The definition, as it goes into every hash.
    definition: String,
    filter: Option<RowFilter>,
    parts: SqlParts,
}

/// A reader of which the role is not decided yet.
pub struct UncheckedRowReader(RowReader);

impl UncheckedRowReader {
    /// Returns the reader for a source of this role.
    ///
    /// # Errors
    /// The role may not read the columns, and no other role may read them for it.
    pub fn for_owner(
        self,
        relation: &SourceRelation,
        owner: pg_sys::Oid,
    ) -> Result<RowReader, Error> {
        let Self(rows) = self;
        let columns = rows.columns.iter().cloned().collect();
        Ok(RowReader {
            reader: reader::role_for(relation, columns, owner)?,
            ..rows
        })
    }
}

impl RowReader {
    /// # Errors
    /// A column does not exist, or the filter is not well-formed.
    pub fn plan(relation: &SourceRelation, spec: &TableSpec) -> Result<UncheckedRowReader, Error> {
        let column = |name: &String| relation.column(name);
        let ids: Vec<RelationColumn> = spec
            .id_columns
            .iter()
            .map(|id| relation.column(id).cloned())
            .collect::<Result<_, _>>()?;
        let title = spec.title_column.as_ref().map(column).transpose()?;
        let contents: Vec<&RelationColumn> = spec
            .content_columns
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        let metadata: Vec<&RelationColumn> = spec
            .metadata_columns
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?;
        let filter = spec.filter.as_ref().map(RowFilter::parse).transpose()?;
        let filtered: Vec<&RelationColumn> = filter
            .iter()
            .flat_map(|filter| &filter.columns)
            .map(column)
            .collect::<Result<_, _>>()?;
        let definition = format!(
            "{ROW_FORMAT} {}",
            serde_json::json!([
                spec.document_type.name(),
                spec.title_column.is_some(),
                spec.content_columns,
                spec.metadata_columns
            ])
        );
        let columns: BTreeSet<String> = ids
            .iter()
            .chain(title)
            .chain(contents.iter().copied())
            .chain(metadata.iter().copied())
            .chain(filtered.iter().copied())
            .map(|c| c.name.clone())
            .collect();
        let parts = SqlParts::new(relation, &ids, title, &contents, &metadata, &filtered);
        Ok(UncheckedRowReader(Self {
            relation: relation.identity(),
            reader: pg_sys::InvalidOid,
            ids,
            columns,
            definition,
            filter,
            parts,
        }))
    }

    /// Runs the statements for no row, so that errors in a definition show when a source is
    /// created.
    ///
    /// # Errors
    /// A statement fails.
    pub fn check(&self) -> Result<(), Error> {
        self.page(None, 0)?;
        self.look_up(&[])?;
        self.fetch(&[])?;
        Ok(())
    }

    /// Returns the types of the id columns. Keys of other types are not comparable.
    pub fn key_types(&self) -> Vec<&str> {
        self.ids.iter().map(|id| id.type_name.as_str()).collect()
    }

    /// Returns the version of the row format. Under another version, all rows are indexed again.
    pub fn version(&self) -> &'static str {
        ROW_FORMAT
    }

    /// Returns the columns that the filter reads.
    pub fn filter_columns(&self) -> impl Iterator<Item = &str> {
        self.filter
            .iter()
            .flat_map(|filter| filter.columns.iter().map(String::as_str))
    }

    /// Returns the number of rows, for display.
    pub fn count(&self) -> Result<u64, Error> {
        let (from, condition, args) = self.from(1);
        let statement = format!("SELECT count(*) FROM {from} WHERE {condition}");
        let found = self.as_reader(&statement, |reader| {
            reader.query(&statement, &args, |row| row.required::<i64>("count"))
        })?;
        Ok(found.first().copied().unwrap_or(0).unsigned_abs())
    }

    /// Returns at most `most` rows that come after a key, in the order of keys.
    pub fn page(&self, after: Option<&RowKey>, most: usize) -> Result<Vec<RowSummary>, Error> {
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
            self.id_texts(&ids, OWN),
            self.parts.hash,
            self.parts.bytes,
            ids.join(", ")
        );
        self.as_reader(&statement, |reader| {
            reader.query(&statement, &args, |row| self.summary(&row))
        })
    }

    /// Calls `each` for all rows, in no order.
    pub fn all(&self, mut each: impl FnMut(RowSummary)) -> Result<(), Error> {
        let (from, condition, args) = self.arguments();
        let ids = self.id_columns();
        let statement = format!(
            "SELECT {}, {}, {} FROM {from} WHERE {condition}",
            self.id_texts(&ids, OWN),
            self.parts.hash,
            self.parts.bytes
        );
        self.as_reader(&statement, |reader| {
            reader.for_each_row(&statement, &args, |row| {
                each(self.summary(&row)?);
                Ok(())
            })
        })
    }

    /// Lists the rows that have certain keys.
    pub fn look_up(&self, keys: &[RowKey]) -> Result<RowsByKey<RowSummary>, Error> {
        let columns = format!("{}, {}", self.parts.hash, self.parts.bytes);
        self.find(keys, &columns, |row, key| summary(row, Some(key)))
    }

    /// Reads the rows that have certain keys.
    pub fn fetch(&self, keys: &[RowKey]) -> Result<RowsByKey<TableRow>, Error> {
        let SqlParts {
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
        self.find(keys, &columns, |row, key| {
            let metadata = match row.get::<pgrx::JsonB>("metadata")?.map(|json| json.0) {
                Some(Value::Object(map)) => map,
                _ => Map::new(),
            };
            let texts = (0..self.parts.texts.len())
                .map(|i| row.get(&format!("text{i}")))
                .collect::<Result<_, _>>()?;
            let row_key = row.required::<pgrx::JsonB>("row_key")?.0;
            Ok(TableRow {
                key,
                hash: row.required("hash")?,
                title: row.get("title")?,
                texts,
                metadata,
                row_key,
            })
        })
    }

    /// Selects `columns` of the rows that have certain keys.
    fn find<T>(
        &self,
        keys: &[RowKey],
        columns: &str,
        read: impl Fn(&ResultRow<'_, '_>, RowKey) -> Result<T, Error>,
    ) -> Result<RowsByKey<T>, Error> {
        let (from, condition, mut args) = self.arguments();
        let keys_sql = self.keys_sql(keys, &mut args);
        let joins: Vec<String> = self
            .ids
            .iter()
            .enumerate()
            .map(|(i, id)| format!("{} = k.k{i}", reference(id)))
            .collect();
        let names: Vec<String> = (0..self.ids.len()).map(|i| format!("k.k{i}")).collect();
        let statement = format!(
            "SELECT {}, {}, {columns}
             FROM ({keys_sql}) AS k LEFT JOIN (SELECT {} FROM {from} WHERE {condition}) AS r ON {}",
            self.id_texts(&names, ASKED),
            self.id_texts(&self.id_columns(), OWN),
            self.parts.columns,
            joins.join(" AND "),
        );
        self.as_reader(&statement, |reader| {
            reader.query(&statement, &args, |row| {
                let asked = self.key(&row, ASKED)?;
                let asked = asked.ok_or_else(|| Error::internal("a key became NULL"))?;
                let found = self.key(&row, OWN)?;
                let found = found.map(|own| read(&row, own)).transpose()?;
                Ok((asked, found))
            })
        })
    }

    /// Returns a query that selects the keys in columns `k0`, `k1`, ...
    fn keys_sql<'a>(&self, keys: &'a [RowKey], args: &mut Vec<DatumWithOid<'a>>) -> String {
        let columns = |of: &dyn Fn(usize, &RelationColumn) -> String| -> String {
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

    /// Returns the expressions for the text forms of the id columns, with names that begin with
    /// `name`.
    fn id_texts(&self, values: &[String], name: &str) -> String {
        (self.ids.iter().zip(values).enumerate())
            .map(|(i, (id, value))| format!("{} AS {name}{i}", id.to_text(value)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Reads a key that [`id_texts`](Self::id_texts) has named. Returns `None` if a part is NULL.
    fn key(&self, row: &ResultRow<'_, '_>, name: &str) -> Result<Option<RowKey>, Error> {
        (0..self.ids.len())
            .map(|i| row.get::<String>(&format!("{name}{i}")))
            .collect()
    }

    /// Runs `f` with the rights of the reader and with the settings under which keys and hashes are
    /// computed. The statement may read only the relation.
    fn as_reader<R>(
        &self,
        statement: &str,
        f: impl FnOnce(&Rights) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.relation.hold()?;
        as_table_owner(self.reader, |reader| {
            with_settings(
                &[
                    (c"datestyle", c"ISO, YMD"),
                    (c"intervalstyle", c"postgres"),
                    (c"timezone", c"UTC"),
                    (c"extra_float_digits", c"1"),
                    (c"bytea_output", c"hex"),
                    // rows that a policy hides are hidden from the source, too; that is no error
                    (c"row_security", c"on"),
                ],
                || identity::reading_only(self.relation.relation, statement, || f(reader)),
            )
        })
    }

    /// Returns the FROM list, the condition and the parameters so far: the definition and those of
    /// the filter.
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

    fn summary(&self, row: &ResultRow<'_, '_>) -> Result<RowSummary, Error> {
        summary(row, self.key(row, OWN)?)
    }
}

fn summary(row: &ResultRow<'_, '_>, key: Option<RowKey>) -> Result<RowSummary, Error> {
    Ok(RowSummary {
        key,
        hash: row.required("hash")?,
        bytes: row.required::<i64>("bytes")?.unsigned_abs(),
    })
}
