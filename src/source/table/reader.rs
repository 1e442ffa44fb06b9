//! Decides with the rights of which role the rows of a relation are read.
//!
//! The functions of a view and the policies of row-level security are code of the relation's owner.
//! A run executes this code unattended. So the code gets no rights that its author does not have,
//! as in logical replication:
//!
//! * The source's owner must have SELECT on the columns that are read.
//! * The rows are read with the rights of the *relation's* owner. The source's owner must be able
//!   to act for that role (SET ROLE), and that role must not see rows that the source's owner does
//!   not see.
//! * A superuser's relation is read with the rights of the source's owner, unless the source's
//!   owner is a superuser, too. A superuser needs no view to act for others. But code of a third
//!   role that the relation uses must not run with the rights of either.

use pgrx::pg_sys;

use super::relation::SourceRelation;
use crate::{
    error::Error,
    pg::{
        roles,
        spi::{as_caller, as_source_owner},
    },
};

/// Returns the role with whose rights the columns of a relation are read for a source of `owner`.
///
/// # Errors
/// The owner may not read the columns, or there is no role that may read them for it.
pub fn role_for(
    relation: &SourceRelation,
    columns: Vec<String>,
    owner: pg_sys::Oid,
) -> Result<pg_sys::Oid, Error> {
    check_select(relation, columns, owner)?;
    if owner != relation.owner && !roles::may_become(owner, relation.owner) {
        if roles::is_superuser(relation.owner) {
            check_code(relation, owner)?;
            return Ok(owner);
        }
        let (reader, owner) = (role_name(relation.owner), role_name(owner));
        return Err(Error::permission_denied(format!(
            "permission denied to read {} with the rights of its owner",
            relation.quoted()
        ))
        .detail(format!(
            "Code of a relation runs with the rights of its owner \"{reader}\". Role \"{owner}\" \
             is not a member of that role."
        ))
        .hint(format!(
            "GRANT {reader} TO {owner}, or let a member of \"{reader}\" own the \
             source."
        )));
    }
    if owner != relation.owner {
        check_row_security(relation, owner)?;
    }
    if roles::is_superuser(relation.owner) {
        check_code(relation, relation.owner)?;
    }
    Ok(relation.owner)
}

fn role_name(id: pg_sys::Oid) -> String {
    roles::name_of(id).unwrap_or_else(|| u32::from(id).to_string())
}

fn check_select(
    relation: &SourceRelation,
    columns: Vec<String>,
    owner: pg_sys::Oid,
) -> Result<(), Error> {
    let found = as_caller(|caller| {
        caller.query(
            "SELECT has_schema_privilege($2, relnamespace, 'USAGE') AS in_schema,
                    NOT EXISTS (SELECT FROM unnest($3::text[]) AS name
                                WHERE NOT has_column_privilege($2, oid, name, 'SELECT'))
                        AS of_columns
             FROM pg_class WHERE oid = $1",
            &[relation.oid.into(), owner.into(), columns.into()],
            |row| {
                Ok((
                    row.required::<bool>("in_schema")?,
                    row.required::<bool>("of_columns")?,
                ))
            },
        )
    })?;
    let denied = |what: &str| {
        Err(Error::permission_denied(format!(
            "permission denied for {what}"
        )))
    };
    match found.first() {
        Some((true, true)) => Ok(()),
        Some((false, _)) => denied(&format!("schema {}", relation.schema)),
        _ => denied(&format!("{} {}", relation.kind_name(), relation.name)),
    }
}

/// # Errors
/// Row-level security may hide rows from the source's owner that the relation's owner sees.
fn check_row_security(relation: &SourceRelation, owner: pg_sys::Oid) -> Result<(), Error> {
    let applies = as_source_owner(owner, |owner| {
        owner.query(
            "SELECT row_security_active($1::oid) AS applies",
            &[relation.oid.into()],
            |row| row.required::<bool>("applies"),
        )
    })?;
    let is_subject = relation.is_security_invoker && !roles::is_superuser(owner);
    if applies != [true] && !is_subject {
        return Ok(());
    }
    let reader = role_name(relation.owner);
    Err(Error::permission_denied(format!(
        "row-level security may hide rows of {} from role \"{}\"",
        relation.quoted(),
        role_name(owner)
    ))
    .detail(format!(
        "Rows are read with the rights of \"{reader}\", who owns the relation and may see others."
    ))
    .hint(format!("Let \"{reader}\" own the source.")))
}

/// # Errors
/// The relation uses code of a role that does not have the rights of `reader`.
fn check_code(relation: &SourceRelation, reader: pg_sys::Oid) -> Result<(), Error> {
    let found = as_caller(|caller| {
        caller.query(
            "WITH RECURSIVE used (class, id, as_caller) AS (
                 SELECT 'pg_class'::regclass::oid, $1::oid, true
                 UNION
                 SELECT d.refclassid, d.refobjid, code.as_caller
                 FROM used u
                 CROSS JOIN LATERAL (
                     SELECT 'pg_rewrite'::regclass::oid, r.oid, u.as_caller AND EXISTS (
                                SELECT FROM pg_options_to_table(c.reloptions)
                                WHERE option_name = 'security_invoker' AND option_value::boolean)
                     FROM pg_class c JOIN pg_rewrite r ON r.ev_class = c.oid
                     WHERE c.oid = u.id AND c.relkind = 'v'
                     UNION ALL
                     SELECT 'pg_policy'::regclass::oid, p.oid, false
                     FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid
                     WHERE c.oid = u.id AND c.relrowsecurity AND u.as_caller) 
                         AS code (class, id, as_caller)
                 JOIN pg_depend d ON d.classid = code.class AND d.objid = code.id
                 WHERE u.class = 'pg_class'::regclass
                   AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass,
                                        'pg_operator'::regclass, 'pg_type'::regclass)),
             code (class, id, owner) AS (
                 SELECT class, id, relowner FROM used JOIN pg_class ON class = 'pg_class'::regclass
                     AND oid = id
                 WHERE relkind = 'v' OR relrowsecurity AND as_caller
                 UNION ALL
                 SELECT 'pg_proc'::regclass, p.oid, proowner
                 FROM used LEFT JOIN pg_operator o ON class = 'pg_operator'::regclass AND o.oid = id
                 JOIN pg_proc p ON p.oid = CASE class WHEN 'pg_proc'::regclass THEN id
                     ELSE o.oprcode END
                 UNION ALL
                 SELECT class, id, typowner FROM used JOIN pg_type ON class = 'pg_type'::regclass
                     AND oid = id
                 WHERE typtype = 'd')
             SELECT pg_describe_object(class, id, 0) AS code, rolname::text
             FROM code JOIN pg_roles r ON r.oid = owner
             WHERE NOT rolsuper AND NOT pg_has_role(r.oid, $2::oid, 'USAGE') ORDER BY 1 LIMIT 1",
            &[relation.oid.into(), reader.into()],
            |row| {
                Ok((
                    row.required::<String>("code")?,
                    row.required::<String>("rolname")?,
                ))
            },
        )
    })?;
    let Some((code, author)) = found.into_iter().next() else {
        return Ok(());
    };
    Err(Error::permission_denied(format!(
        "{} uses code of role \"{author}\"",
        relation.quoted()
    ))
    .detail(format!(
        "The {code} would run with the rights of role \"{}\".",
        role_name(reader)
    ))
    .hint(format!(
        "Give the {} to role \"{author}\", or what it uses to the role that owns it.",
        relation.kind_name()
    )))
}
