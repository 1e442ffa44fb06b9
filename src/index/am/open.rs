//! An index that a user's function works with.

use std::ops::Deref;

use pgrx::{PgSqlErrorCode, datum::DatumWithOid, pg_sys};

use super::relation::{LockedIndex, relation_name, table_of};
use crate::{
    catalog::{access, shards},
    error::Error,
    index::{METHODS, Method},
    pg::spi::{Rights, as_table_owner},
};

/// An index of one of the [`METHODS`], open with its table.
pub struct OpenIndex {
    relations: LockedIndex,
    pub method: &'static Method,
}

impl Deref for OpenIndex {
    type Target = LockedIndex;

    fn deref(&self) -> &LockedIndex {
        &self.relations
    }
}

/// How an index and its table are written in a statement.
pub struct IndexExpressions {
    /// The table, with its schema.
    pub table: String,
    /// The indexed column or expression.
    pub value: String,
    /// The condition that the index has a row.
    pub condition: String,
    /// The operator that the index orders by.
    pub operator: String,
}

impl OpenIndex {
    /// # Errors
    /// The relation is not an index of one of the [`METHODS`], or the caller is not allowed to read
    /// every row of its table.
    pub fn open(id: pg_sys::Oid) -> Result<Self, Error> {
        let name = relation_name(id);
        let Some(table) = table_of(id) else {
            return Err(wrong_kind(&name));
        };
        if !access::sees_every_row_of(table)? {
            return Err(Error::permission_denied(format!(
                "permission denied for index \"{name}\""
            ))
            .detail("Information about an index depends on all rows of its table.")
            .hint("Only roles that can read every row of the table can request it."));
        }
        if shards::is_distributed_relation(table)? {
            return Err(Error::unsupported(format!(
                "index \"{name}\" is distributed over servers"
            ))
            .detail("What is on this server is empty. Each shard has an index of its own.")
            .hint(
                "The functions rag_shard_indexes and rag_check_shards describe and check the \
                 indexes of all shards. For one shard, connect to its node.",
            ));
        }
        let Some(relations) = LockedIndex::open(id, table) else {
            return Err(wrong_kind(&name)); // another relation got this OID in the meantime
        };
        let index = relations.index();
        if index.is_partitioned() {
            return Err(wrong_kind(&name).hint("Name the index of one partition."));
        }
        let method = METHODS.iter().find(|method| index.is_of(method.name));
        match method {
            Some(method) => Ok(Self { relations, method }),
            None => Err(wrong_kind(&name)),
        }
    }

    /// Runs `f` with the rights of the table's owner. Statements are also written in it, so that
    /// their names mean the same when they are run.
    pub fn as_owner<R>(&self, f: impl FnOnce(&Rights) -> R) -> R {
        as_table_owner(self.table().owner(), f)
    }

    /// Returns how the index is written in a statement that is run by
    /// [`as_owner`](Self::as_owner).
    pub fn expressions(&self, rights: &Rights) -> Result<IndexExpressions, Error> {
        let statement = "
            SELECT format('%I.%I', s.nspname, t.relname) AS table,
                pg_get_indexdef(i.indexrelid, 1, false) AS value,
                pg_get_expr(i.indpred, i.indrelid) AS predicate,
                format('OPERATOR(%I.%s)', n.nspname, o.oprname) AS operator
            FROM pg_index i
            JOIN pg_class t ON t.oid = i.indrelid
            JOIN pg_namespace s ON s.oid = t.relnamespace
            JOIN pg_opclass c ON c.oid = i.indclass[0]
            JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 1
                AND a.amoplefttype = c.opcintype
            JOIN pg_operator o ON o.oid = a.amopopr
            JOIN pg_namespace n ON n.oid = o.oprnamespace
            WHERE i.indexrelid = $1";
        let found = rights.query(statement, &[self.index().id().into()], |row| {
            let (table, value) = (row.required("table")?, row.required::<String>("value")?);
            let mut condition = format!("({value}) IS NOT NULL");
            if let Some(predicate) = row.get::<String>("predicate")? {
                condition += &format!(" AND ({predicate})");
            }
            let operator = row.required("operator")?;
            Ok(IndexExpressions {
                table,
                value,
                condition,
                operator,
            })
        })?;
        let found = found.into_iter().next();
        found.ok_or_else(|| Error::internal("the operator class has no operator"))
    }
}

/// Returns the `value` of a statement that returns one. The statement only reads, so that it also
/// works on a standby.
pub fn query_value<T: pgrx::FromDatum + pgrx::IntoDatum>(
    rights: &Rights,
    statement: &str,
    arguments: &[DatumWithOid<'_>],
) -> Result<Option<T>, Error> {
    let values = rights.query(statement, arguments, |row| row.get("value"))?;
    Ok(values.into_iter().next().flatten())
}

fn wrong_kind(name: &str) -> Error {
    let known: Vec<_> = METHODS
        .iter()
        .map(|method| method.name.to_string_lossy())
        .collect();
    Error::new(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!("\"{name}\" is not a {} index", known.join(" or ")),
    )
}
