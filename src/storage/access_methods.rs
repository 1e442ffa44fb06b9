//! What the server knows of the access methods that index vectors.

use crate::{error::Error, pg::spi::as_owner};

/// Returns the qualified name of an operator class of `rag_hnsw`.
pub fn operator_class(name: &str) -> Result<Option<String>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT format('%I.%I', n.nspname, o.opcname) AS class
             FROM pg_am AS a
             JOIN pg_opclass AS o ON o.opcmethod = a.oid AND o.opcname = $1
             JOIN pg_namespace AS n ON n.oid = o.opcnamespace
             WHERE a.amname = 'rag_hnsw'",
            &[name.into()],
            |row| row.required("class"),
        )
    })?;
    Ok(found.into_iter().next())
}

/// The extension pgvector.
pub struct Pgvector {
    /// The quoted name of its schema.
    pub schema: String,
    pub version: String,
    /// Vectors of this extension can be cast to its type.
    pub has_casts: bool,
}

/// Returns pgvector, if it is installed.
pub fn pgvector() -> Result<Option<Pgvector>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT quote_ident(n.nspname) AS schema, e.extversion AS version,
                    EXISTS (SELECT FROM pg_cast AS k
                            JOIN pg_type AS t
                                ON t.oid = k.casttarget AND t.typnamespace = n.oid
                               AND t.typname = 'vector'
                            WHERE k.castsource = 'rag_types.vector'::regtype) AS has_casts
             FROM pg_extension AS e
             JOIN pg_namespace AS n ON n.oid = e.extnamespace
             WHERE e.extname = 'vector'",
            &[],
            |row| {
                Ok(Pgvector {
                    schema: row.required("schema")?,
                    version: row.required("version")?,
                    has_casts: row.required("has_casts")?,
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}
