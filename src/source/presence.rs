//! Warns of files of the server that a source names and that do not exist. They may be created
//! later, so this is no error.

use std::{io, path::Path};

use rag_protocol::spec::{FieldProblem, ServerPath, SourceSpec};

use super::errors::DefinitionErrors;

/// The maximum number of warnings.
const MAX_WARNINGS: usize = 10;

/// Warns of each folder, file or local repository that does not exist. The caller has checked that
/// the source may read files of the server.
pub fn warn_of_missing(spec: &SourceSpec, errors: &mut DefinitionErrors) {
    for ServerPath {
        field,
        path,
        is_folder,
    } in spec.server_paths()
    {
        pgrx::check_for_interrupts!();
        expect(&field, path, is_folder, errors);
        if errors.warning_count() >= MAX_WARNINGS {
            break;
        }
    }
}

fn expect(field: &str, path: &Path, is_folder: bool, errors: &mut DefinitionErrors) {
    let shown = path.display();
    let problem = match std::fs::metadata(path) {
        Ok(found) if is_folder && !found.is_dir() => format!("\"{shown}\" is not a folder"),
        Ok(found) if !is_folder && !found.is_file() => format!("\"{shown}\" is not a regular file"),
        Ok(_) => return,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("\"{shown}\" does not exist")
        }
        Err(error) => format!("\"{shown}\" cannot be read: {error}"),
    };
    const HINT: &str =
        "The path is on the database server. Runs of the source fail until it exists.";
    errors.warn(FieldProblem::new(field, problem).hint(HINT));
}
