//! Whether the files of the server that a source names are there now. They may come later, so that
//! is no fault.

use std::{io, path::Path};

use rag_protocol::spec::{Endpoint, MarkdownSpec, Problem, Repository, SourceSpec};

use super::definition::Faults;

/// Most missing files that are named.
const NAMED: usize = 10;

/// Warns of a folder, file or local repository that cannot be found. The caller has made sure that
/// the source may read files of the server.
pub fn look(spec: &SourceSpec, faults: &mut Faults) {
    match spec {
        SourceSpec::Folder(folder) => expect("spec.path", &folder.path, true, faults),
        SourceSpec::Markdown(MarkdownSpec {
            endpoint: Endpoint::File(path),
        }) => {
            expect("spec.uri", path, false, faults);
        }
        SourceSpec::Static(list) => {
            for (i, endpoint) in list.endpoints.iter().enumerate() {
                if let Endpoint::File(path) = endpoint {
                    pgrx::check_for_interrupts!();
                    expect(&format!("spec.endpoints[{i}]"), path, false, faults);
                }
                if faults.warning_count() >= NAMED {
                    break;
                }
            }
        }
        SourceSpec::Git(git) => {
            if let Repository::Local(path) = &git.repository {
                expect("spec.repositoryURL", path, true, faults);
            }
        }
        SourceSpec::Markdown(_) | SourceSpec::Website(_) | SourceSpec::Table(_) => {}
    }
}

fn expect(field: &str, path: &Path, is_folder: bool, faults: &mut Faults) {
    let shown = path.display();
    let problem = match std::fs::metadata(path) {
        Ok(found) if is_folder && !found.is_dir() => format!("\"{shown}\" is not a folder"),
        Ok(found) if !is_folder && !found.is_file() => format!("\"{shown}\" is not a plain file"),
        Ok(_) => return,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("\"{shown}\" does not exist")
        }
        Err(error) => format!("\"{shown}\" cannot be read: {error}"),
    };
    const HINT: &str =
        "The path is on the database server. Runs of the source fail until it is there.";
    faults.warn(Problem::new(field, problem).hint(HINT));
}
