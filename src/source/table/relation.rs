//! The relation that a source reads, according to the system catalogs, and the choice of columns
//! where the user named none.

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_definition::source::{TableSpec, TableSync};

use crate::{
    catalog::{shards, sources::RelationIdentity},
    error::Error,
    pg::{lookup, spi::as_caller},
};

/// The names of columns that are chosen as the title, best first.
const TITLE_COLUMNS: [&str; 4] = ["title", "name", "subject", "headline"];
/// The names of columns that are chosen as the text.
const CONTENT_COLUMNS: [&str; 16] = [
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
/// A text column with a lower length limit holds codes and names rather than text.
const MIN_TEXT_LIMIT: i32 = 255;

#[derive(Debug, Clone)]
pub struct SourceRelation {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
    pub schema: String,
    pub name: String,
    kind: RelationKind,
    /// The relation is a partition or has child tables, so that a statement on one table of the
    /// tree may write to another.
    has_relatives: bool,
    /// The relation is a view with security_invoker: its queries run with the rights of its reader.
    pub is_security_invoker: bool,
    pub columns: Vec<RelationColumn>,
    /// The sets of columns that identify a row, primary key first, each in the order of its index.
    unique: Vec<UniqueKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelationKind {
    Table,
    PartitionedTable,
    MaterializedView,
    ForeignTable,
    View,
}

#[derive(Debug, Clone)]
pub struct RelationColumn {
    pub name: String,
    /// The type, or the base type of its domain, as it is written in a cast.
    pub type_name: String,
    /// The type is built in. Casts of other types to and from text and JSON may be functions of any
    /// role.
    pub is_builtin: bool,
    is_text: bool,
    /// The maximum number of characters.
    limit: Option<i32>,
    /// The source's owner may read the column.
    readable: bool,
}

#[derive(Debug, Clone)]
struct UniqueKey {
    columns: Vec<String>,
    /// None of the columns can be NULL.
    not_null: bool,
    /// The comparison operators are in `pg_catalog`, so that statements with a pinned search_path
    /// find them.
    comparable: bool,
}

impl RelationColumn {
    /// Returns the expression for a value's text form. A cast could call a function of the type's
    /// owner; `format` calls the type's output function.
    pub fn to_text(&self, value: &str) -> String {
        if self.is_builtin {
            format!("{value}::text")
        } else {
            format!("CASE WHEN num_nulls({value}) = 0 THEN format('%s', {value}) END")
        }
    }

    /// Returns an expression that becomes JSON without a cast, which could call a function of the
    /// type's owner.
    pub fn to_json(&self, value: &str) -> String {
        if self.is_builtin {
            value.to_string()
        } else {
            self.to_text(value)
        }
    }

    /// Returns a literal of the column's type. The type's input function reads it.
    pub fn literal(&self, text: &str) -> String {
        format!("{}::{}", pgrx::spi::quote_literal(text), self.type_name)
    }
}

/// Returns the relation that a name means under the current search_path, to the current role.
///
/// Only the name is looked up with that path: an operator or function on it could belong to any
/// role.
///
/// # Errors
/// There is no such relation.
pub fn resolve(name: &str) -> Result<pg_sys::Oid, Error> {
    let text = std::ffi::CString::new(name).unwrap_or_default();
    lookup::relation_on_path(&text).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}

impl SourceRelation {
    /// Returns the relation with an OID for a source of the role `owner`. Errors use `name`.
    ///
    /// # Errors
    /// The relation does not exist, or its rows cannot be documents.
    pub fn get(oid: pg_sys::Oid, name: &str, owner: pg_sys::Oid) -> Result<Self, Error> {
        let found = as_caller(|caller| {
            caller.query(
                "SELECT c.relowner, n.nspname::text, c.relname::text, c.relkind::text,
                        c.relpersistence::text,
                        c.relispartition
                            OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid
                                           OR i.inhrelid = c.oid) AS has_relatives,
                        EXISTS (SELECT FROM pg_options_to_table(c.reloptions)
                                WHERE option_name = 'security_invoker' AND option_value::boolean)
                            AS is_security_invoker
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1",
                &[oid.into()],
                |row| {
                    Ok((
                        (
                            row.required::<pg_sys::Oid>("relowner")?,
                            row.required::<String>("nspname")?,
                            row.required::<String>("relname")?,
                        ),
                        row.required::<String>("relkind")?,
                        row.required::<String>("relpersistence")?,
                        row.required::<bool>("has_relatives")?,
                        row.required::<bool>("is_security_invoker")?,
                    ))
                },
            )
        })?;
        let Some((
            (relation_owner, schema, relation),
            kind,
            persistence,
            has_relatives,
            is_security_invoker,
        )) = found.into_iter().next()
        else {
            return Err(missing(name));
        };
        let kind = match kind.as_str() {
            "r" => RelationKind::Table,
            "p" => RelationKind::PartitionedTable,
            "m" => RelationKind::MaterializedView,
            "f" => RelationKind::ForeignTable,
            "v" => RelationKind::View,
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
            is_security_invoker,
            columns: columns(oid, owner)?,
            unique: unique_keys(oid)?,
        })
    }

    /// Returns the name as it is written in a statement.
    pub fn quoted(&self) -> String {
        pgrx::spi::quote_qualified_identifier(&self.schema, &self.name)
    }

    pub fn identity(&self) -> RelationIdentity {
        RelationIdentity {
            relation: self.oid,
            owner: self.owner,
        }
    }

    /// Returns the kind of relation for messages.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            RelationKind::Table | RelationKind::PartitionedTable => "table",
            RelationKind::MaterializedView => "materialized view",
            RelationKind::ForeignTable => "foreign table",
            RelationKind::View => "view",
        }
    }

    /// # Errors
    /// There is no such column.
    pub fn column(&self, name: &str) -> Result<&RelationColumn, Error> {
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

    /// Returns the columns in the order of a unique index on exactly these columns, by which rows
    /// can be read page by page. Returns None if two rows may have the same values, or if a value
    /// may be NULL.
    pub fn ordered_key(&self, columns: &[String]) -> Option<&[String]> {
        // an index of a parent does not cover the rows of its children
        if self.kind == RelationKind::Table && self.has_relatives {
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

    /// Checks that triggers on the relation see every change of its rows.
    ///
    /// # Errors
    /// Triggers would miss changes.
    pub fn check_triggers(&self, id_columns: &[String]) -> Result<(), Error> {
        let refuse = |why: &str| {
            Err(Error::new(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!(
                    "changes of {} cannot be recorded by triggers",
                    self.quoted()
                ),
            )
            .detail(why)
            .hint("Use \"sync\": \"scan\"."))
        };
        if shards::is_distributed_relation(self.oid)? {
            return refuse("It is distributed by Citus, which permits no triggers there.");
        }
        match self.kind {
            RelationKind::Table if self.has_relatives => refuse(
                "It is a partition or has child tables. Its triggers do not see statements on \
                 another table of the tree.",
            ),
            RelationKind::Table if self.ordered_key(id_columns).is_none() => {
                refuse("The id columns have no unique index, or are not all NOT NULL.")
            }
            RelationKind::Table => Ok(()),
            RelationKind::PartitionedTable => {
                refuse("It is partitioned. Its triggers do not see statements on a partition.")
            }
            RelationKind::MaterializedView | RelationKind::ForeignTable | RelationKind::View => {
                refuse("Only tables can have such triggers.")
            }
        }
    }

    /// Completes a spec and checks it. `key` is set to the key that is being checked; an error is
    /// about that key.
    ///
    /// # Errors
    /// A column does not exist, or no column can be chosen.
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
        self.unique
            .iter()
            .find(|key| key.not_null)
            .map(|key| key.columns.clone())
            .ok_or_else(|| {
                Error::new(
                    PgSqlErrorCode::ERRCODE_INVALID_TABLE_DEFINITION,
                    format!(
                        "{} has no primary key, and no other unique index on columns that are NOT \
                         NULL",
                        self.quoted()
                    ),
                )
                .hint("Name the columns that identify a row in \"idColumns\".")
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
        TITLE_COLUMNS.iter().find(free).map(ToString::to_string)
    }

    /// Returns the text columns with one of the names in [`CONTENT_COLUMNS`]. If there are none,
    /// returns all columns of long text, or else all text columns.
    fn pick_content(&self, spec: &TableSpec) -> Result<Vec<String>, Error> {
        let texts: Vec<&RelationColumn> = self
            .columns
            .iter()
            .filter(|column| column.is_text && column.readable)
            .filter(|column| {
                !spec.id_columns.contains(&column.name)
                    && spec.title_column.as_ref() != Some(&column.name)
            })
            .filter(|column| !spec.metadata_columns.contains(&column.name))
            .collect();
        let named = |column: &&&RelationColumn| CONTENT_COLUMNS.contains(&column.name.as_str());
        let long =
            |column: &&&RelationColumn| column.limit.is_none_or(|limit| limit > MIN_TEXT_LIMIT);
        let names = |columns: &mut dyn Iterator<Item = &&RelationColumn>| -> Vec<String> {
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
                format!("{} has no text column that could be indexed", self.quoted()),
            )
            .hint(
                "Name columns in \"contentColumns\". Columns of any type can be used; their \
                 text form is indexed.",
            ));
        }
        Ok(picked)
    }
}

fn columns(relation: pg_sys::Oid, owner: pg_sys::Oid) -> Result<Vec<RelationColumn>, Error> {
    // with a pinned search_path, the names of types are qualified where needed
    as_caller(|caller| {
        caller.query(
            "SELECT a.attname::text, format_type(b.oid, -1) AS type_name,
                    b.oid < 16384 AS is_builtin, b.typcategory = 'S' AS is_text,
                    CASE WHEN a.atttypmod > 4 AND b.typcategory = 'S' THEN a.atttypmod - 4 END
                        AS limit,
                    has_column_privilege($2, a.attrelid, a.attnum, 'SELECT') AS readable
             FROM pg_attribute a CROSS JOIN LATERAL (
                 WITH RECURSIVE base AS (
                     SELECT oid, typtype, typbasetype, typcategory FROM pg_type
                         WHERE oid = a.atttypid
                     UNION ALL
                     SELECT t.oid, t.typtype, t.typbasetype, t.typcategory
                     FROM base JOIN pg_type t ON t.oid = base.typbasetype WHERE base.typtype = 'd')
                 SELECT oid, typcategory FROM base WHERE typtype <> 'd') AS b
             WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            &[relation.into(), owner.into()],
            |row| {
                Ok(RelationColumn {
                    name: row.required("attname")?,
                    type_name: row.required("type_name")?,
                    is_builtin: row.required("is_builtin")?,
                    is_text: row.required("is_text")?,
                    limit: row.get("limit")?,
                    readable: row.required("readable")?,
                })
            },
        )
    })
}

fn unique_keys(relation: pg_sys::Oid) -> Result<Vec<UniqueKey>, Error> {
    as_caller(|caller| {
        caller.query(
            "SELECT array_agg(a.attname::text ORDER BY k.i) AS columns,
                    bool_and(a.attnotnull) AS not_null,
                    bool_and(o.opcnamespace = 'pg_catalog'::regnamespace) AS comparable
             FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
                  JOIN pg_am m ON m.oid = c.relam,
                  ROWS FROM (unnest(x.indkey::int2[]), unnest(x.indclass::oid[])) WITH ORDINALITY
                      AS k (attnum, opclass, i)
                  JOIN pg_attribute a ON a.attnum = k.attnum JOIN pg_opclass o ON o.oid = k.opclass
             WHERE x.indrelid = $1 AND a.attrelid = $1 AND k.i <= x.indnkeyatts
               AND x.indisunique AND x.indisvalid AND x.indimmediate
               AND x.indpred IS NULL AND x.indexprs IS NULL AND m.amname = 'btree'
             GROUP BY x.indexrelid, x.indisprimary, x.indnkeyatts
             ORDER BY x.indisprimary DESC, x.indnkeyatts, x.indexrelid",
            &[relation.into()],
            |row| {
                Ok(UniqueKey {
                    columns: row.required("columns")?,
                    not_null: row.required("not_null")?,
                    comparable: row.required("comparable")?,
                })
            },
        )
    })
}
