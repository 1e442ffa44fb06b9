//! Damaged relations of the schema `rag`: which one an error names, marks of them, and remedies.
//!
//! A mark is a file in [`FOLDER`], named after the file of the relation. So it stays when the
//! transaction that met the damage is rolled back, and standbys have marks, too. A relation that is
//! rebuilt gets another file: marks of files that no relation has any more are deleted whenever
//! marks are read.

use std::{fs, path::PathBuf};

use pgrx::{
    PgSqlErrorCode, datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern, pg_sys,
    pg_sys::panic::ErrorReport, spi::quote_literal,
};

use crate::{
    catalog::{
        collections::Collection,
        damaged_relations::{DamagedRelation, find},
    },
    error::{Cause, Error},
    pg::{
        process::database as my_database,
        transaction::{self, subtransaction},
    },
};

/// The folder of the marks, in the data directory.
const FOLDER: &str = "pg_rag/damage";
/// The hint of an error that names a relation begins with it.
const CHECK_DISK: &str = "Check the disk.";
/// PostgreSQL's epoch, 2000-01-01, in Unix time.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// Returns the statements that heal it.
fn remedy(relation: &DamagedRelation) -> String {
    let (name, table) = (&relation.name, &relation.table_name);
    if relation.is_index {
        return format!("REINDEX INDEX {name};");
    }
    let zero = format!(
        "SET zero_damaged_pages = on; SELECT rag.delete_damaged_rows({}); VACUUM FULL {table};",
        quote_literal(table)
    );
    match relation.collections.as_slice() {
        [] => format!(
            "Restore it from a backup. To keep only what its undamaged pages have, run as a \
             superuser: {zero}"
        ),
        [only] => format!("CALL rag_rebuild_collection({only});"),
        several => {
            let rebuilds: Vec<String> = several
                .iter()
                .map(|name| format!("CALL rag_rebuild_collection({name});"))
                .collect();
            format!("As a superuser, {zero} then {}", rebuilds.join(" "))
        }
    }
}

/// Returns the name of the file that marks a relation.
fn mark_name(relation: &DamagedRelation) -> String {
    let parts = [my_database(), relation.tablespace, relation.filenode];
    parts.map(|oid| oid.to_u32().to_string()).join(".")
}

/// Returns the files that a text names, as in `base/16384/16827` or
/// `pg_tblspc/16400/PG_15_202209061/16384/16827.1`: tablespace, database and number.
fn files_in(text: &str) -> Vec<(u32, u32, u32)> {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || "/._".contains(c));
    text.split(is_end)
        .filter_map(|path| {
            let mut parts = path.split('/').rev();
            let digits = |part: &str| -> Option<u32> {
                let end = part.find(|c: char| !c.is_ascii_digit());
                part[..end.unwrap_or(part.len())].parse().ok()
            };
            let (file, database) = (digits(parts.next()?)?, parts.next()?.parse().ok()?);
            match parts.next()? {
                "base" => Some((0, database, file)),
                _ => Some((parts.next()?.parse().ok()?, database, file)),
            }
        })
        .collect()
}

/// Returns the names of relations that a text may have: what is in quotes, and TOAST tables.
fn names_in(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let toast = text
        .split(is_end)
        .filter(|word| word.starts_with("pg_toast_"));
    quoted.chain(toast).map(str::to_owned).collect()
}

/// Returns the relations of the extension that an error names. Must not be called before what has
/// failed is rolled back.
///
/// # Errors
/// The catalogs cannot be read.
pub fn named_by(error: &Error) -> Result<Vec<DamagedRelation>, Error> {
    let texts = [Some(&error.message), error.detail.as_ref()];
    let texts: Vec<&String> = texts.into_iter().flatten().collect();
    let database = my_database().to_u32();
    let files: Vec<(u32, u32)> = texts
        .iter()
        .flat_map(|text| files_in(text))
        .filter(|(_, of, _)| *of == database)
        .map(|(space, _, node)| (space, node))
        .collect();
    let names = texts.iter().flat_map(|text| names_in(text)).collect();
    find(&files, names)
}

/// Marks the relations that an error names. Reports no failure: a mark is for later statements.
pub fn mark(error: &Error) {
    let marked = subtransaction(|| {
        for relation in named_by(error)? {
            mark_relation(&relation, &error.message);
        }
        Ok(())
    });
    drop(marked);
}

fn mark_relation(relation: &DamagedRelation, problem: &str) {
    let path = PathBuf::from(FOLDER).join(mark_name(relation));
    let written = fs::create_dir_all(FOLDER).and_then(|()| {
        if path.exists() {
            Ok(())
        } else {
            fs::write(&path, problem)
        }
    });
    if let Err(error) = written {
        pgrx::log!("rag: could not write {}: {error}", path.display());
    }
}

/// A mark of a relation that exists.
pub struct Mark {
    pub relation: DamagedRelation,
    pub problem: String,
    noticed_at: TimestampWithTimeZone,
}

/// Returns the marks of relations in this database. Deletes the others of this database.
///
/// # Errors
/// The catalogs cannot be read.
pub fn marks() -> Result<Vec<Mark>, Error> {
    let Ok(folder) = fs::read_dir(FOLDER) else {
        return Ok(vec![]);
    };
    let database = my_database().to_u32();
    let mut files = vec![];
    for entry in folder.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let parts: Vec<u32> = name.split('.').flat_map(str::parse).collect();
        if let [of, space, node] = parts.as_slice()
            && *of == database
        {
            files.push((name, *space, *node));
        }
    }
    if files.is_empty() {
        return Ok(vec![]);
    }
    let ids: Vec<(u32, u32)> = files
        .iter()
        .map(|(_, space, node)| (*space, *node))
        .collect();
    let relations = find(&ids, vec![])?;
    let mut marks = vec![];
    for (name, ..) in files {
        let path = PathBuf::from(FOLDER).join(&name);
        let known = relations
            .iter()
            .find(|relation| mark_name(relation) == name);
        match known {
            Some(relation) => marks.push(Mark {
                relation: relation.clone(),
                problem: fs::read_to_string(&path).unwrap_or_default(),
                noticed_at: written_at(&path),
            }),
            // it was rebuilt or dropped; another session may have deleted the mark
            None => drop(fs::remove_file(&path)),
        }
    }
    Ok(marks)
}

fn written_at(path: &std::path::Path) -> TimestampWithTimeZone {
    let written = fs::metadata(path).and_then(|file| file.modified()).ok();
    let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let microseconds = since.map_or(0, |since| since.as_micros() as i64);
    TimestampWithTimeZone::try_from(microseconds - EPOCH_MICROSECONDS)
        .unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

/// Returns true if the table of a collection is marked.
///
/// # Errors
/// The catalogs cannot be read.
pub fn is_table_marked(collection: &Collection) -> Result<bool, Error> {
    let marks = marks()?;
    Ok(marks
        .iter()
        .any(|mark| mark.relation.is_table_of(collection)))
}

/// Runs `f`. If it meets a damaged relation of the extension, marks it, and names it in the error
/// with what heals it.
///
/// # Errors
/// What `f` returned or raised.
pub fn explained<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // parallel mode allows no subtransactions
    if transaction::is_parallel() {
        return f();
    }
    subtransaction(f).map_err(explain)
}

/// Marks what an error names, and returns the error with the relation and its remedy. Errors that
/// are explained already stay as they are. The error must come from a statement on tables of the
/// extension: code of a user could raise one that names a sound relation.
pub fn explain(error: Error) -> Error {
    if error.is(Cause::Corrupt) {
        mark(&error);
    }
    describe(error)
}

/// Returns an error with the relation that it names and its remedy, and marks nothing.
pub fn describe(error: Error) -> Error {
    let is_explained = error
        .hint
        .as_ref()
        .is_some_and(|hint| hint.starts_with(CHECK_DISK));
    if !error.is(Cause::Corrupt) || is_explained {
        return error;
    }
    let Ok(relations) = subtransaction(|| named_by(&error)) else {
        return error;
    };
    let Some(relation) = relations.first() else {
        return error;
    };
    let message = match relation.collections.as_slice() {
        [] => format!("{} \"{}\" is corrupted", relation.kind(), relation.name),
        [only, ..] => {
            let name = only.trim_matches('\'');
            format!("data of collection \"{name}\" is corrupted")
        }
    };
    let what = if relation.is_of_chunks() {
        format!(" The {} is {}.", relation.kind(), relation.name)
    } else {
        String::new()
    };
    error
        .like(message)
        .detail(format!("{}{what}", sentence(&error)))
        .hint(format!("{CHECK_DISK} Then: {}", remedy(relation)))
}

/// Returns an error as a sentence.
pub fn sentence(error: &Error) -> String {
    let detail = error
        .detail
        .as_ref()
        .map(|detail| format!(" {detail}"))
        .unwrap_or_default();
    format!("{}.{detail}", error.message)
}

/// `rag_internal.damaged_relations`, for views and `rag_status`.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // the columns of the result
fn damaged_relations() -> Result<
    TableIterator<
        'static,
        (
            name!(relation, String),
            name!(kind, String),
            name!(table_id, pg_sys::Oid),
            name!(relation_id, pg_sys::Oid),
            name!(problem, String),
            name!(remedy, String),
            name!(noticed_at, TimestampWithTimeZone),
        ),
    >,
    ErrorReport,
> {
    let rows = marks()?.into_iter().map(|mark| {
        let relation = mark.relation;
        (
            relation.name.clone(),
            relation.kind().to_owned(),
            relation.table,
            relation.oid,
            mark.problem,
            remedy(&relation),
            mark.noticed_at,
        )
    });
    Ok(TableIterator::new(rows.collect::<Vec<_>>()))
}

/// `rag_internal.explain_damage`, for `rag_status`. It marks nothing: anybody can call it, with
/// any text.
#[pg_extern(sql = false)]
fn explain_damage(
    problem: &str,
) -> Result<TableIterator<'static, (name!(object, String), name!(remedy, String))>, ErrorReport> {
    let error = Error::new(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, problem);
    let relations = named_by(&error)?;
    let row = |relation: &DamagedRelation| {
        let object = format!("{} {}", relation.kind(), relation.name);
        (object, remedy(relation))
    };
    let mut rows: Vec<_> = relations.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(("server".to_owned(), "Check the disk.".to_owned()));
    }
    Ok(TableIterator::new(rows))
}

#[cfg(test)]
mod tests {
    use super::{files_in, names_in};

    #[test]
    fn files_of_messages_are_found() {
        assert_eq!(
            files_in("invalid page in block 3 of relation base/5/16681"),
            [(0, 5, 16681)]
        );
        assert_eq!(
            files_in("could not read block 3 in file \"pg_tblspc/9/PG_15_2/5/16681.1\": read"),
            [(9, 5, 16681)]
        );
        assert_eq!(files_in("page 3/4 of and/or"), []);
    }

    #[test]
    fn names_of_messages_are_found() {
        assert_eq!(
            names_in("index \"a b\" has a page; value 7 in pg_toast_123"),
            ["a b", "pg_toast_123"]
        );
    }
}
