//! Warns of files of the server that a source names and that do not exist, and of addresses that
//! sources may not connect to. A file may be created later, and an address may be allowed later. So
//! these are no errors.

use std::{io, path::Path};

use rag_definition::{
    FieldProblem,
    source::{ServerPath, SourceSpec},
};
use rag_protocol::network::{AllowedHosts, NOT_PUBLIC_HINT};
use url::Url;

use crate::{
    error::{Error, definition::DefinitionErrors},
    settings,
};

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

/// Warns of each address that every run would refuse to connect to.
///
/// # Errors
/// An entry of `rag.allowed_private_hosts` is invalid, so that every run fails.
pub fn warn_of_refused(spec: &SourceSpec, errors: &mut DefinitionErrors) -> Result<(), Error> {
    let addresses = spec.web_addresses();
    if addresses.is_empty() {
        return Ok(());
    }
    let allowed = AllowedHosts::parse(&settings::network().allowed_private_hosts)?;
    for address in addresses {
        pgrx::check_for_interrupts!();
        let url = Url::parse(&address.url).ok();
        if let Some(refusal) = url.and_then(|url| allowed.refusal(&url)) {
            errors.warn(FieldProblem::new(address.field, refusal).hint(NOT_PUBLIC_HINT));
        }
        if errors.warning_count() >= MAX_WARNINGS {
            break;
        }
    }
    Ok(())
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
