//! The settings of the program: one table, from which flags, environment and file are read.
//!
//! A flag wins over the environment (`RAG_GATEWAY_...`), and that over the file (TOML). All faults
//! are collected.

use std::{collections::HashMap, path::PathBuf};

use clap::{Arg, ArgMatches};

/// A setting.
pub struct Setting {
    /// As in the flag. The file has `_` for `-`.
    pub name: &'static str,
    pub default: Option<&'static str>,
    pub value: &'static str,
    pub about: &'static str,
}

impl Setting {
    /// Returns the name in the file.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

const fn setting(
    name: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    about: &'static str,
) -> Setting {
    Setting {
        name,
        default,
        value,
        about,
    }
}

pub const SETTINGS: &[Setting] = &[
    setting(
        "listen",
        "ADDRESS",
        Some("127.0.0.1:8088"),
        "address and port to listen on",
    ),
    setting(
        "database",
        "CONNECTION",
        None,
        "connection string or URL of the database; what it lacks comes from PGHOST, PGPORT, \
         PGDATABASE, PGUSER, PGPASSWORD or the password file, and PGSSLMODE",
    ),
    setting(
        "database-ca",
        "FILE",
        None,
        "certificates that the server's is checked with; those of the system without it",
    ),
    setting(
        "connections",
        "NUMBER",
        Some("16"),
        "maximum number of connections to the database",
    ),
    setting(
        "timeout",
        "SECONDS",
        Some("60"),
        "maximum time of a request, and of a statement",
    ),
    setting(
        "head-timeout",
        "SECONDS",
        Some("30"),
        "time that a client has for the head of a request, and that a connection may be idle",
    ),
    setting(
        "shutdown-timeout",
        "SECONDS",
        Some("30"),
        "time that requests have to end after a signal",
    ),
    setting(
        "max-body",
        "BYTES",
        Some("16777216"),
        "maximum size of the body of a request",
    ),
    setting(
        "max-requests",
        "NUMBER",
        Some("512"),
        "maximum number of requests at a time; further ones get 503",
    ),
    setting(
        "max-streams",
        "NUMBER",
        Some("10000"),
        "maximum number of clients of /v1/events at a time",
    ),
    setting(
        "rate-limit",
        "NUMBER",
        Some("0"),
        "requests a minute of a key; further ones get 429; 0: no limit",
    ),
    setting(
        "anonymous-role",
        "ROLE",
        None,
        "role of requests without a key; without it they get 401",
    ),
    setting(
        "jwt-key",
        "FILE",
        None,
        "secret (HS256), public key in PEM (RS256, ES256) or JWKS that verifies tokens",
    ),
    setting(
        "jwt-roles",
        "ROLES",
        None,
        "roles that tokens may ask for, with commas between them",
    ),
    setting(
        "jwt-role-claim",
        "NAME",
        Some("role"),
        "claim of a token that has the role",
    ),
    setting(
        "jwt-audience",
        "TEXT",
        None,
        "claim aud that tokens must have",
    ),
    setting(
        "jwt-issuer",
        "TEXT",
        None,
        "claim iss that tokens must have",
    ),
    setting(
        "tls-certificate",
        "FILE",
        None,
        "certificate in PEM; it is read again when the file changes",
    ),
    setting(
        "tls-key",
        "FILE",
        None,
        "private key of the certificate in PEM",
    ),
    setting(
        "public-url",
        "URL",
        None,
        "address by which clients know the gateway; http://LISTEN without it",
    ),
    setting(
        "authorization-servers",
        "URLS",
        None,
        "where clients of MCP get tokens, with commas between them",
    ),
    setting(
        "allowed-origins",
        "ORIGINS",
        None,
        "origins of web pages that may call MCP, with commas between them; the gateway's own \
         without it",
    ),
    setting("log-format", "FORMAT", Some("text"), "text or json"),
    setting(
        "log-level",
        "LEVEL",
        Some("info"),
        "error, warn, info or debug",
    ),
];

/// Where a value comes from, for messages.
#[derive(Debug, Clone)]
struct Given {
    value: String,
    from: String,
}

/// The values of all settings, as texts.
#[derive(Default)]
pub struct Values {
    given: HashMap<&'static str, Given>,
    pub faults: Vec<String>,
}

/// Returns a flag for each setting, and `--config`.
pub fn arguments() -> Vec<Arg> {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("file with settings, in TOML [environment: RAG_GATEWAY_CONFIG]");
    let flags = SETTINGS.iter().map(|setting| {
        let default = setting
            .default
            .map_or_else(String::new, |value| format!(" [default: {value}]"));
        Arg::new(setting.name)
            .long(setting.name)
            .value_name(setting.value)
            .help(format!("{}{default}", setting.about))
    });
    [config].into_iter().chain(flags).collect()
}

impl Values {
    /// Collects values from flags, an environment, and the file that one of both names.
    pub fn collect(matches: &ArgMatches, environment: &HashMap<String, String>) -> Self {
        let mut values = Self::default();
        let file = matches
            .get_one::<String>("config")
            .or_else(|| environment.get("RAG_GATEWAY_CONFIG"));
        if let Some(path) = file {
            values.read_file(path);
        }
        for setting in SETTINGS {
            let variable = format!("RAG_GATEWAY_{}", setting.key().to_uppercase());
            let flag = matches.get_one::<String>(setting.name);
            let found = match (flag, environment.get(&variable)) {
                (Some(value), _) => Some((value, format!("--{}", setting.name))),
                (None, Some(value)) if !value.is_empty() => Some((value, variable)),
                _ => None,
            };
            if let Some((value, from)) = found {
                let value = value.clone();
                values.given.insert(setting.name, Given { value, from });
            }
        }
        let known = |name: &str| {
            let name = name.strip_prefix("RAG_GATEWAY_")?.to_lowercase();
            (name != "config" && SETTINGS.iter().all(|s| s.key() != name)).then_some(())
        };
        let mut unknown: Vec<_> = environment.keys().filter(|n| known(n).is_some()).collect();
        unknown.sort();
        for name in unknown {
            values
                .faults
                .push(format!("{name}: is not a known setting"));
        }
        values
    }

    fn read_file(&mut self, path: &str) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.faults.push(format!("{path}: {error}")),
        };
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return self.faults.push(format!("{path}: {error}")),
        };
        for (name, value) in table {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.key() == name) else {
                self.faults
                    .push(format!("{path}: {name}: is not a known setting"));
                continue;
            };
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Array(texts) if texts.iter().all(|t| t.as_str().is_some()) => {
                    let texts: Vec<_> = texts.iter().filter_map(|t| t.as_str()).collect();
                    texts.join(",")
                }
                _ => {
                    let fault = "must be a string, a number or an array of strings";
                    self.faults.push(format!("{path}: {name}: {fault}"));
                    continue;
                }
            };
            let from = format!("{path}: {name}");
            self.given.insert(setting.name, Given { value, from });
        }
    }

    /// Returns the text of a setting, or its default.
    pub fn text(&self, name: &str) -> Option<String> {
        let default = || {
            let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
            setting.default.map(str::to_owned)
        };
        let given = self.given.get(name).map(|given| given.value.clone());
        given.or_else(default)
    }

    /// Returns the elements of a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let elements = text.split(',').map(str::trim).filter(|e| !e.is_empty());
        elements.map(str::to_owned).collect()
    }

    /// Returns a value that is parsed. A fault is recorded, and gives None.
    pub fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault(name, &fault);
                None
            }
        }
    }

    /// Returns a number within limits.
    pub fn number(&mut self, name: &str, limits: std::ops::RangeInclusive<u64>) -> u64 {
        let parse = |text: &str| {
            let number = text.parse().ok().filter(|n| limits.contains(n));
            number.ok_or_else(|| format!("must be {} to {}", limits.start(), limits.end()))
        };
        self.parsed(name, parse).unwrap_or(*limits.start())
    }

    /// Returns a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// Records a fault of a setting, with the place of its value.
    pub fn fault(&mut self, name: &str, fault: &str) {
        let place = self
            .given
            .get(name)
            .map_or_else(|| name.to_string(), |given| given.from.clone());
        self.faults.push(format!("{place}: {fault}"));
    }
}
