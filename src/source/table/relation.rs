//! What Postgres knows of a relation that a source reads, and what is picked where the user did not
//! say.

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_protocol::spec::{TableSpec, TableSync};

use crate::{
    catalog::sources::Identity,
    error::Error,
    pg::{security::pinned, spi::query},
};

/// Columns that are taken for a title, the best first.
const TITLES: [&str; 4] = ["title", "name", "subject", "headline"];
/// Columns that are taken for the text, where there is one of these names.
const CONTENTS: [&str; 16] = [
    "body",
    "content",
    "contents",
    "text",
    "description",
    "summary",
    "abstract",
    "article",
    "message",
    "comment",
    "note",
    "notes",
    "question",
    "answer",
    "details",
    "excerpt",
];
/// A text column with a lower limit holds codes and names rather than text.
const LEAST_TEXT: i32 = 255;

#[derive(Debug, Clone)]
pub struct Relation {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
    pub schema: String,
    pub name: String,
    kind: Kind,
    /// It is a part of another table, or has parts of its own: a statement on one writes to
    /// another.
    has_relatives: bool,
    /// A view that asks for rights of whoever reads it (security_invoker).
    pub asks_as_caller: bool,
    pub columns: Vec<Column>,
    /// Sets of columns that identify a row, the primary key first, in the order of their indexes.
    unique: Vec<UniqueKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    PartitionedTable,
    MaterializedView,
    ForeignTable,
    View,
}

#[derive(Debug, Clone)]
pub struct Column {
    pub name: String,
    /// Its type, or that of its domain, as it is written in a cast.
    pub type_name: String,
    /// The type is one that Postgres brings. Others may have casts to and from text and JSON that
    /// are anybody's functions.
    pub is_builtin: bool,
    is_text: bool,
    /// Most characters, where there is a limit.
    limit: Option<i32>,
    /// Whether the source's owner may read it.
    readable: bool,
}

#[derive(Debug, Clone)]
struct UniqueKey {
    columns: Vec<String>,
    /// None of the columns can be NULL.
    not_null: bool,
    /// Comparisons are those of `pg_catalog`, which statements with a pinned search_path find.
    comparable: bool,
}

impl Column {
    /// The text that a value of the column is shown as. A cast could be a function of the type's
    /// owner; the type's output function is not.
    pub fn to_text(&self, value: &str) -> String {
        match self.is_builtin {
            true => format!("{value}::text"),
            false => format!("CASE WHEN num_nulls({value}) = 0 THEN format('%s', {value}) END"),
        }
    }

    /// A value of the column as something that becomes JSON without a cast that could be a function
    /// of the type's owner.
    pub fn to_json(&self, value: &str) -> String {
        if self.is_builtin {
            value.to_string()
        } else {
            self.to_text(value)
        }
    }

    /// A value of the column's type, which has this text; the type's input function reads the
    /// literal.
    pub fn literal(&self, text: &str) -> String {
        format!("{}::{}", pgrx::spi::quote_literal(text), self.type_name)
    }
}

/// The relation that a name means under the present search_path, to the present role.
///
/// Nothing but the name is looked up by that path: an operator or function on it could be
/// anybody's.
///
/// # Errors
/// There is none.
#[allow(unsafe_code)]
pub fn resolve(name: &str) -> Result<pg_sys::Oid, Error> {
    let text = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: what to_regclass() does with a text.
    let oid = unsafe {
        let names = pg_sys::textToQualifiedNameList(pg_sys::cstring_to_text(text.as_ptr()));
        pg_sys::RangeVarGetRelidExtended(
            pg_sys::makeRangeVarFromNameList(names),
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    };
    if oid == pg_sys::InvalidOid {
        return Err(missing(name));
    }
    Ok(oid)
}

fn missing(name: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}

impl Relation {
    /// The relation with an OID, which errors call by `name`, for a source of the role `owner`.
    ///
    /// # Errors
    /// There is none, or it has no rows that could be documents.
    pub fn get(oid: pg_sys::Oid, name: &str, owner: pg_sys::Oid) -> Result<Self, Error> {
        let found = pinned(|| {
            query(
                "SELECT c.relowner, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,
                        c.relispartition
                            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid),
                        EXISTS (SELECT FROM pg_options_to_table(c.reloptions)
                                WHERE option_name = 'security_invoker' AND option_value::boolean)
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1",
                &[oid.into()],
                |row| {
                    Ok((
                        (row.required::<pg_sys::Oid>(1)?, row.required::<String>(2)?, row.required::<String>(3)?),
                        row.required::<String>(4)?,
                        row.required::<String>(5)?,
                        row.required::<bool>(6)?,
                        row.required::<bool>(7)?,
                    ))
                },
            )
        })?;
        let Some((
            (relation_owner, schema, relation),
            kind,
            persistence,
            has_relatives,
            asks_as_caller,
        )) = found.into_iter().next()
        else {
            return Err(missing(name));
        };
        let kind = match kind.as_str() {
            "r" => Kind::Table,
            "p" => Kind::PartitionedTable,
            "m" => Kind::MaterializedView,
            "f" => Kind::ForeignTable,
            "v" => Kind::View,
            _ => {
                return Err(Error::new(
                    PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                    format!("\"{name}\" is not a table or view"),
                ));
            }
        };
        if persistence == "t" {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{name}\" is a temporary table, which no other session can read"),
            ));
        }
        Ok(Self {
            oid,
            owner: relation_owner,
            schema,
            name: relation,
            kind,
            has_relatives,
            asks_as_caller,
            columns: columns(oid, owner)?,
            unique: unique_keys(oid)?,
        })
    }

    /// Its name as it is written in a statement.
    pub fn quoted(&self) -> String {
        pgrx::spi::quote_qualified_identifier(&self.schema, &self.name)
    }

    pub fn identity(&self) -> Identity {
        Identity {
            relation: self.oid,
            owner: self.owner,
        }
    }

    /// What messages call such a relation.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Table | Kind::PartitionedTable => "table",
            Kind::MaterializedView => "materialized view",
            Kind::ForeignTable => "foreign table",
            Kind::View => "view",
        }
    }

    /// # Errors
    /// There is no such column.
    pub fn column(&self, name: &str) -> Result<&Column, Error> {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = self
                    .columns
                    .iter()
                    .map(|column| column.name.as_str())
                    .collect();
                Error::new(
                    PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("column \"{name}\" of {} does not exist", self.quoted()),
                )
                .detail(format!("Its columns: {}.", names.join(", ")))
            })
    }

    /// The columns in the order of a unique index on just these, by which rows can be read page by
    /// page; `None` where two rows may have the same values, or one may have none.
    pub fn ordered_key(&self, columns: &[String]) -> Option<&[String]> {
        // an index of a parent says nothing of the rows of its children
        if self.kind == Kind::Table && self.has_relatives {
            return None;
        }
        let is_same = |key: &&UniqueKey| {
            key.not_null
                && key.comparable
                && key.columns.len() == columns.len()
                && columns.iter().all(|c| key.columns.contains(c))
        };
        self.unique
            .iter()
            .find(is_same)
            .map(|key| key.columns.as_slice())
    }

    /// Whether triggers on the relation see every change of its rows.
    ///
    /// # Errors
    /// They do not.
    pub fn check_triggers(&self, id_columns: &[String]) -> Result<(), Error> {
        let refuse = |why: &str| {
            Err(Error::new(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("changes of {} cannot be noted by triggers", self.quoted()),
            )
            .detail(why)
            .hint("Use \"sync\": \"scan\"."))
        };
        match self.kind {
            Kind::Table if self.has_relatives => refuse(
                "It is a partition or has child tables: a statement on one of them writes to another, unnoticed.",
            ),
            Kind::Table if self.ordered_key(id_columns).is_none() => {
                refuse("There is no unique index on the id columns, all of them NOT NULL.")
            }
            Kind::Table => Ok(()),
            Kind::PartitionedTable => {
                refuse("It is partitioned: a statement on a partition would go unnoticed.")
            }
            Kind::MaterializedView | Kind::ForeignTable | Kind::View => {
                refuse("Only tables have such triggers.")
            }
        }
    }

    /// Fills in what a spec leaves out, and checks what it says. `key`: the one that is being
    /// looked at, which an error is about.
    ///
    /// # Errors
    /// A column does not exist, or nothing can be picked.
    pub fn complete(&self, spec: TableSpec, key: &mut &'static str) -> Result<TableSpec, Error> {
        let mut spec = TableSpec {
            relation: self.quoted(),
            ..spec
        };
        *key = "idColumns";
        if spec.id_columns.is_empty() {
            spec.id_columns = self.pick_key()?;
        } else if let Some(ordered) = self.ordered_key(&spec.id_columns) {
            spec.id_columns = ordered.to_vec();
        }
        if spec.title_column.is_none() {
            spec.title_column = self.pick_title(&spec);
        }
        *key = "contentColumns";
        if spec.content_columns.is_empty() {
            spec.content_columns = self.pick_content(&spec)?;
        }
        let columns: [(_, &[String]); 4] = [
            ("idColumns", &spec.id_columns),
            ("contentColumns", &spec.content_columns),
            ("titleColumn", spec.title_column.as_slice()),
            ("metadataColumns", &spec.metadata_columns),
        ];
        for (list, columns) in columns {
            *key = list;
            columns
                .iter()
                .try_for_each(|column| self.column(column).map(drop))?;
        }
        if spec.sync == TableSync::Trigger {
            *key = "sync";
            self.check_triggers(&spec.id_columns)?;
        }
        Ok(spec)
    }

    fn pick_key(&self) -> Result<Vec<String>, Error> {
        self.unique.iter().find(|key| key.not_null).map(|key| key.columns.clone()).ok_or_else(|| {
            Error::new(
                PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
                format!("{} has no primary key, and no other unique index on columns that are NOT NULL", self.quoted()),
            )
            .hint("Say what identifies a row: \"idColumns\": [...].")
        })
    }

    fn pick_title(&self, spec: &TableSpec) -> Option<String> {
        let free = |name: &&&str| {
            !spec
                .content_columns
                .iter()
                .chain(&spec.id_columns)
                .any(|column| column == **name)
                && self
                    .columns
                    .iter()
                    .any(|column| column.name == **name && column.is_text && column.readable)
        };
        TITLES.iter().find(free).map(ToString::to_string)
    }

    /// The columns of text that are named like that, else all of long text, else all of text.
    fn pick_content(&self, spec: &TableSpec) -> Result<Vec<String>, Error> {
        let texts: Vec<&Column> = self
            .columns
            .iter()
            .filter(|column| column.is_text && column.readable)
            .filter(|column| {
                !spec.id_columns.contains(&column.name)
                    && spec.title_column.as_ref() != Some(&column.name)
            })
            .filter(|column| !spec.metadata_columns.contains(&column.name))
            .collect();
        let named = |column: &&&Column| CONTENTS.contains(&column.name.as_str());
        let long = |column: &&&Column| column.limit.is_none_or(|limit| limit > LEAST_TEXT);
        let names = |columns: &mut dyn Iterator<Item = &&Column>| -> Vec<String> {
            columns.map(|column| column.name.clone()).collect()
        };
        let mut picked = names(&mut texts.iter().filter(named));
        if picked.is_empty() {
            picked = names(&mut texts.iter().filter(long));
        }
        if picked.is_empty() {
            picked = names(&mut texts.iter());
        }
        if picked.is_empty() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("{} has no column of text that could be indexed", self.quoted()),
            )
            .hint("Say which: \"contentColumns\": [...]. Columns of any type are taken as the text that they are shown as."));
        }
        Ok(picked)
    }
}

fn columns(relation: pg_sys::Oid, owner: pg_sys::Oid) -> Result<Vec<Column>, Error> {
    // with a pinned search_path the names of types are qualified where they must be
    pinned(|| {
        query(
            "SELECT a.attname::text, format_type(b.oid, -1), b.oid < 16384, b.typcategory = 'S',
                    CASE WHEN a.atttypmod > 4 AND b.typcategory = 'S' THEN a.atttypmod - 4 END,
                    has_column_privilege($2, a.attrelid, a.attnum, 'SELECT')
             FROM pg_attribute a CROSS JOIN LATERAL (
                 WITH RECURSIVE base AS (
                     SELECT oid, typtype, typbasetype, typcategory FROM pg_type WHERE oid = a.atttypid
                     UNION ALL
                     SELECT t.oid, t.typtype, t.typbasetype, t.typcategory
                     FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd')
                 SELECT oid, typcategory FROM base WHERE typtype <> 'd') AS b
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            &[relation.into(), owner.into()],
            |row| {
                Ok(Column {
                    name: row.required(1)?,
                    type_name: row.required(2)?,
                    is_builtin: row.required(3)?,
                    is_text: row.required(4)?,
                    limit: row.get(5)?,
                    readable: row.required(6)?,
                })
            },
        )
    })
}

fn unique_keys(relation: pg_sys::Oid) -> Result<Vec<UniqueKey>, Error> {
    pinned(|| {
        query(
            "SELECT array_agg(a.attname::text ORDER BY k.i), bool_and(a.attnotnull), bool_and(o.opcnamespace = 'pg_catalog'::regnamespace)
             FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am m ON m.oid = c.relam,
                  ROWS FROM (unnest(x.indkey::int2[]), unnest(x.indclass::oid[])) WITH ORDINALITY AS k (attnum, opclass, i)
                  JOIN pg_attribute a ON a.attnum = k.attnum JOIN pg_opclass o ON o.oid = k.opclass
             WHERE x.indrelid = $1 AND a.attrelid = $1 AND k.i <= x.indnkeyatts AND x.indisunique AND x.indisvalid
               AND x.indimmediate AND x.indpred IS NULL AND x.indexprs IS NULL AND m.amname = 'btree'
             GROUP BY x.indexrelid, x.indisprimary, x.indnkeyatts
             ORDER BY x.indisprimary DESC, x.indnkeyatts, x.indexrelid",
            &[relation.into()],
            |row| {
                Ok(UniqueKey { columns: row.required(1)?, not_null: row.required(2)?, comparable: row.required(3)? })
            },
        )
    })
}
