//! Relations of the schema `rag` by their files and names, for errors that name a damaged one.

use pgrx::pg_sys;

use super::collections::Collection;
use crate::{
    error::Error,
    pg::{
        spi::{OwnerRights, as_owner},
        transaction::subtransaction,
    },
};

/// A relation of the schema `rag`, or one that keeps its long values.
#[derive(Debug, Clone)]
pub struct DamagedRelation {
    pub oid: pg_sys::Oid,
    pub tablespace: pg_sys::Oid,
    pub filenode: pg_sys::Oid,
    /// Its name, qualified and quoted.
    pub name: String,
    pub is_index: bool,
    /// The table that it is, or is of, and that table's name.
    pub table: pg_sys::Oid,
    pub table_name: String,
    is_toast: bool,
    /// The collections that have their chunks in the table, with their names as literals.
    pub collections: Vec<String>,
}

impl DamagedRelation {
    /// Returns true if a table of a collection is damaged, and not one of its indexes.
    pub fn is_table_of(&self, collection: &Collection) -> bool {
        !self.is_index && Some(self.table) == collection.partition_oid()
    }

    /// Returns true if it has chunks.
    pub fn is_of_chunks(&self) -> bool {
        !self.collections.is_empty()
    }

    pub fn kind(&self) -> &'static str {
        match (self.is_index, self.is_toast) {
            (true, _) => "index",
            (false, true) => "TOAST table",
            (false, false) => "table",
        }
    }
}

/// Returns those relations of the extension that have one of some files or names.
pub fn find(files: &[(u32, u32)], names: Vec<String>) -> Result<Vec<DamagedRelation>, Error> {
    let (spaces, nodes): (Vec<i64>, Vec<i64>) = files
        .iter()
        .map(|(space, node)| (i64::from(*space), i64::from(*node)))
        .unzip();
    as_owner(|owner| {
        owner.query(
            "WITH named (oid) AS (
                 SELECT pg_filenode_relation(f.space::oid,
                                             f.node::oid)::oid
                 FROM ROWS FROM (unnest($1), unnest($2)) AS f (space, node)
                 UNION
                 SELECT c.oid FROM pg_class c
                 WHERE c.relname = ANY ($3::name[])
                   AND c.relnamespace IN ('rag'::regnamespace, 'rag_internal'::regnamespace,
                                          'pg_toast'::regnamespace))
             SELECT c.oid, c.reltablespace, pg_relation_filenode(c.oid) AS filenode,
                    format('%I.%I', s.nspname, c.relname) AS name,
                    i.indexrelid IS NOT NULL AS is_index, t.oid AS of_table,
                    format('%s.%I', t.relnamespace::regnamespace, t.relname) AS table_name,
                    s.nspname = 'pg_toast' AS is_toast,
                    CASE WHEN t.relispartition THEN t.relname::text END AS partition
             FROM named n JOIN pg_class c ON c.oid = n.oid
                  JOIN pg_namespace s ON s.oid = c.relnamespace
                  LEFT JOIN pg_index i ON i.indexrelid = c.oid
                  LEFT JOIN pg_class o
                      ON o.reltoastrelid = coalesce(i.indrelid, c.oid)
                  JOIN pg_class t ON t.oid = coalesce(o.oid, i.indrelid, c.oid)
             WHERE t.relnamespace IN ('rag'::regnamespace, 'rag_internal'::regnamespace)
               AND pg_relation_filenode(c.oid) IS NOT NULL
             ORDER BY name",
            &[spaces.into(), nodes.into(), names.into()],
            |row| {
                let partition: Option<String> = row.get("partition")?;
                Ok(DamagedRelation {
                    oid: row.required("oid")?,
                    tablespace: row.required("reltablespace")?,
                    filenode: row.required("filenode")?,
                    name: row.required("name")?,
                    is_index: row.required("is_index")?,
                    table: row.required("of_table")?,
                    table_name: row.required("table_name")?,
                    is_toast: row.required("is_toast")?,
                    collections: partition.map_or(vec![], |name| collections_of(owner, &name)),
                })
            },
        )
    })
}

/// Returns the quoted names of the collections of a partition. They are not known if the table of
/// collections is damaged.
fn collections_of(owner: &OwnerRights, partition: &str) -> Vec<String> {
    let found = subtransaction(|| {
        owner.query(
            "SELECT quote_literal(k.name) AS name FROM rag_internal.collection k
             WHERE k.partition = $1 ORDER BY k.name",
            &[partition.into()],
            |row| row.required("name"),
        )
    });
    found.unwrap_or_default()
}
