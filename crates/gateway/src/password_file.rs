//! The password file of PostgreSQL's clients: `~/.pgpass`, or the file that `PGPASSFILE` names.
//!
//! Lines are `hostname:port:database:username:password`. Each of the first four may be `*`. A `:`
//! or a `\` that belongs to a name has a `\` before it. The first line that fits counts. See
//! "The Password File" in the documentation of libpq.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio_postgres::config::Host;

/// Where libpq says a server without a host is. Its lines have the hostname `localhost`.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Returns the password for a connection, of its first host that has one. `None`: there is no file,
/// or no line fits. A file that must not be used is ignored with a warning, as libpq does.
pub fn password(
    config: &tokio_postgres::Config,
    environment: &HashMap<String, String>,
) -> Option<String> {
    let path = path(environment)?;
    let text = match read(&path) {
        Ok(text) => text?,
        Err(why) => {
            eprintln!("rag-gateway: WARNING: password file {path:?} is ignored: {why}");
            return None;
        }
    };
    let database = config.get_dbname().unwrap_or_default();
    let user = config.get_user().unwrap_or_default();
    let ports = config.get_ports();
    config.get_hosts().iter().enumerate().find_map(|(i, host)| {
        let port = ports.get(i).or(ports.first()).unwrap_or(&5432).to_string();
        find(&text, [&hostname(host), &port, database, user])
    })
}

/// Reads the file, if there is one.
fn read(path: &Path) -> Result<Option<String>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !metadata.is_file() {
        return Err("it is not a plain file".into());
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err("others may read it; its mode should be 0600 or less".into());
    }
    fs::read_to_string(path)
        .map(Some)
        .map_err(|error| error.to_string())
}

fn path(environment: &HashMap<String, String>) -> Option<PathBuf> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    match given("PGPASSFILE") {
        Some(path) => Some(path.into()),
        None => given("HOME").map(|home| PathBuf::from(home).join(".pgpass")),
    }
}

fn hostname(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => match folder.to_string_lossy() {
            usual if SOCKET_FOLDERS.contains(&&*usual) => "localhost".into(),
            other => other.into_owned(),
        },
    }
}

/// Returns the password of the first line for these names.
fn find(text: &str, names: [&str; 4]) -> Option<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut rest = line;
            for name in names {
                let (field, after) = field(rest);
                if rest.get(..2) != Some("*:") && field != name {
                    return None;
                }
                rest = after?;
            }
            let (password, _) = field(rest);
            (!password.is_empty()).then_some(password)
        })
}

/// Returns the first field of a line, without the signs that escape, and what is behind its `:`.
fn field(line: &str) -> (String, Option<&str>) {
    let mut field = String::new();
    let mut characters = line.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            ':' => return (field, Some(&line[at + 1..])),
            '\\' => field.extend(characters.next().map(|(_, escaped)| escaped)),
            c => field.push(c),
        }
    }
    (field, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let text = "# a comment\n\
                    db:5432:docs:ann:one\n\
                    db:*:docs:*:two\n\
                    a\\:b:5432:*:*:th\\:r\\\\ee\n\
                    short:line\n\
                    none:*:*:*:\n\
                    *:*:*:*:last:ignored\n";
        for (names, expected) in [
            (["db", "5432", "docs", "ann"], "one"),
            (["db", "5433", "docs", "ann"], "two"),
            (["db", "5432", "docs", "bob"], "two"),
            (["a:b", "5432", "x", "y"], "th:r\\ee"),
            (["none", "1", "x", "y"], "last"),
            (["*", "5432", "docs", "ann"], "last"),
        ] {
            assert_eq!(find(text, names).as_deref(), Some(expected), "{names:?}");
        }
        assert_eq!(
            find("db:5432:docs:ann:one", ["db", "1", "docs", "ann"]),
            None
        );
        assert_eq!(find("\\*:*:*:*:one", ["db", "1", "docs", "ann"]), None);
    }

    #[test]
    fn a_socket_in_its_usual_place_is_localhost() {
        assert_eq!(
            hostname(&Host::Unix("/var/run/postgresql".into())),
            "localhost"
        );
        assert_eq!(hostname(&Host::Unix("/srv/run".into())), "/srv/run");
    }
}
