//! What the settings mean.

use std::{collections::HashMap, net::SocketAddr, path::PathBuf, time::Duration};

use clap::ArgMatches;
use tokio_postgres::config::{Host, SslMode};

use crate::{
    password_file,
    settings::Values,
    token::{TokenKeys, TokenSettings},
};

pub struct Config {
    pub listen: SocketAddr,
    pub database: tokio_postgres::Config,
    pub database_ca: Option<PathBuf>,
    pub connections: usize,
    pub timeout: Duration,
    pub shutdown_timeout: Duration,
    /// Time that the head of a request may take.
    pub head_timeout: Duration,
    /// Bytes.
    pub max_body: usize,
    pub max_requests: usize,
    pub max_streams: usize,
    /// Requests a minute of a key. None: no limit.
    pub rate_limit: Option<u32>,
    pub anonymous_role: Option<String>,
    pub tokens: Option<TokenKeys>,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Without a slash at the end. None: the address that is listened on.
    pub public_url: Option<String>,
    pub authorization_servers: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub json_log: bool,
    pub log_level: tracing::Level,
}

/// How the program is used: the default user of the connection depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A server, which logs in as `rag_gateway`.
    Serve,
    /// MCP over standard input and output, with the rights of the user.
    Stdio,
}

impl Config {
    /// # Errors
    /// All faults of the settings, one a line.
    pub fn read(
        matches: &ArgMatches,
        environment: &HashMap<String, String>,
        mode: Mode,
    ) -> Result<Self, Vec<String>> {
        let mut values = Values::collect(matches, environment);
        let listen = values
            .parsed("listen", |text| {
                text.parse::<SocketAddr>()
                    .map_err(|_| "must be an address and a port, as 127.0.0.1:8088".to_string())
            })
            .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let database = values.text("database").unwrap_or_default();
        let database = database_config(&database, environment, mode).unwrap_or_else(|fault| {
            values.fault("database", &fault);
            tokio_postgres::Config::new()
        });
        let (certificate, key) = (values.path("tls-certificate"), values.path("tls-key"));
        let tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => {
                values.fault("tls-key", "is required with tls_certificate");
                None
            }
            (None, Some(_)) => {
                values.fault("tls-certificate", "is required with tls_key");
                None
            }
        };
        if let Some((certificate, key)) = &tls
            && let Err(fault) = crate::tls::server_config(certificate, key)
        {
            values.fault("tls-certificate", &fault);
        }
        let public_url = values.parsed("public-url", |url| {
            if url.starts_with("http://") || url.starts_with("https://") {
                return Ok(url.trim_end_matches('/').to_string());
            }
            Err("must begin with http:// or https://".to_string())
        });
        let tokens = tokens(&mut values);
        let json_log = values
            .parsed("log-format", |text| match text {
                "json" => Ok(true),
                "text" => Ok(false),
                _ => Err("must be text or json".to_string()),
            })
            .unwrap_or(false);
        let log_level = values
            .parsed("log-level", |text| match text {
                "error" | "warn" | "info" | "debug" => {
                    text.parse().map_err(|_| "is unknown".to_string())
                }
                _ => Err("must be error, warn, info or debug".to_string()),
            })
            .unwrap_or(tracing::Level::INFO);
        let rate_limit = values.number("rate-limit", 0..=1_000_000);
        let config = Self {
            listen,
            database,
            database_ca: values.path("database-ca"),
            connections: values.number("connections", 1..=1000) as usize,
            timeout: Duration::from_secs(values.number("timeout", 1..=3600)),
            head_timeout: Duration::from_secs(values.number("head-timeout", 1..=3600)),
            shutdown_timeout: Duration::from_secs(values.number("shutdown-timeout", 0..=3600)),
            max_body: values.number("max-body", 1024..=1 << 30) as usize,
            max_requests: values.number("max-requests", 1..=100_000) as usize,
            max_streams: values.number("max-streams", 0..=100_000) as usize,
            rate_limit: (rate_limit > 0).then_some(rate_limit as u32),
            anonymous_role: values.text("anonymous-role"),
            tokens,
            tls,
            public_url,
            authorization_servers: values.list("authorization-servers"),
            allowed_origins: values.list("allowed-origins"),
            json_log,
            log_level,
        };
        if let Err(fault) = crate::tls::client_config(config.database_ca.as_deref()) {
            values.fault("database-ca", &fault);
        }
        if values.faults.is_empty() {
            Ok(config)
        } else {
            Err(values.faults)
        }
    }
}

fn tokens(values: &mut Values) -> Option<TokenKeys> {
    let roles = values.list("jwt-roles");
    let Some(path) = values.path("jwt-key") else {
        if !roles.is_empty() {
            values.fault("jwt-roles", "has no effect without jwt_key");
        }
        return None;
    };
    if roles.is_empty() {
        values.fault("jwt-roles", "is required with jwt_key");
    }
    let settings = TokenSettings {
        audience: values.text("jwt-audience"),
        issuer: values.text("jwt-issuer"),
        claim: values.text("jwt-role-claim").unwrap_or_default(),
        roles,
    };
    let read = std::fs::read(path).map_err(|error| error.to_string());
    match read.and_then(|file| TokenKeys::read(&file, settings)) {
        Ok(tokens) => Some(tokens),
        Err(fault) => {
            values.fault("jwt-key", &fault);
            None
        }
    }
}

/// Returns where the database is. A host that is neither this machine nor a socket gets TLS, unless
/// `sslmode` says otherwise.
fn database_config(
    text: &str,
    environment: &HashMap<String, String>,
    mode: Mode,
) -> Result<tokio_postgres::Config, String> {
    // Both are checked as this program always does: the certificate, and the name in it.
    let text = text
        .replace("sslmode=verify-full", "sslmode=require")
        .replace("sslmode=verify-ca", "sslmode=require");
    let mut config: tokio_postgres::Config = text
        .parse()
        .map_err(|error: tokio_postgres::Error| in_words(&error))?;
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    if config.get_hosts().is_empty() {
        match variable("PGHOST") {
            Some(host) => config.host(host),
            None => config.host_path("/var/run/postgresql"),
        };
    }
    if config.get_ports().is_empty() {
        let port = variable("PGPORT").map_or(Ok(5432), |port| port.parse());
        config.port(port.map_err(|_| "PGPORT: is not a port")?);
    }
    if config.get_user().is_none() {
        let system = environment
            .get("USER")
            .or_else(|| environment.get("LOGNAME"));
        let user = variable("PGUSER").map(String::as_str).or(match mode {
            Mode::Serve => Some("rag_gateway"),
            Mode::Stdio => system.map(String::as_str),
        });
        config.user(user.ok_or("has no user, nor has PGUSER")?);
    }
    if config.get_dbname().is_none() {
        let user = config.get_user().unwrap_or_default().to_string();
        config.dbname(variable("PGDATABASE").unwrap_or(&user));
    }
    if config.get_password().is_none() {
        let password = match variable("PGPASSWORD") {
            Some(password) => Some(password.clone()),
            None => password_file::password(&config, environment),
        };
        if let Some(password) = password {
            config.password(password);
        }
    }
    if !text.contains("sslmode") {
        let is_near = config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        });
        let mode = match variable("PGSSLMODE").map(String::as_str) {
            Some("disable") => SslMode::Disable,
            Some("prefer" | "allow") => SslMode::Prefer,
            Some(_) => SslMode::Require,
            None if is_near => SslMode::Disable,
            None => SslMode::Require,
        };
        config.ssl_mode(mode);
    }
    config.application_name("rag-gateway");
    config.connect_timeout(Duration::from_secs(5));
    config.keepalives_idle(Duration::from_secs(60));
    Ok(config)
}

fn in_words(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    fn read(
        arguments: &[&str],
        environment: &[(&str, &str)],
        mode: Mode,
    ) -> Result<Config, Vec<String>> {
        let command = clap::Command::new("test").args(settings::arguments());
        let arguments = ["test"].iter().chain(arguments);
        let matches = command.try_get_matches_from(arguments).expect("arguments");
        let environment = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Config::read(&matches, &environment, mode)
    }

    fn faults(arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
        read(arguments, environment, Mode::Serve)
            .err()
            .expect("faults")
    }

    #[test]
    fn without_settings_the_program_listens_on_loopback_as_rag_gateway() {
        let config = read(&[], &[], Mode::Serve).unwrap_or_else(|faults| panic!("{faults:?}"));
        assert_eq!(config.listen.to_string(), "127.0.0.1:8088");
        assert_eq!(config.database.get_user(), Some("rag_gateway"));
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let found = faults(
            &[
                "--listen",
                "x",
                "--connections",
                "0",
                "--tls-key",
                "k",
                "--jwt-roles",
                "a",
            ],
            &[("RAG_GATEWAY_TIMEOUT", "never"), ("RAG_GATEWAY_TYPO", "1")],
        );
        let begins = |start: &str| found.iter().any(|fault| fault.starts_with(start));
        for start in [
            "--listen: must be",
            "--connections: must be 1 to 1000",
            "tls-certificate: is required",
            "--jwt-roles: has no effect",
            "RAG_GATEWAY_TIMEOUT: must be",
            "RAG_GATEWAY_TYPO: is not a known setting",
        ] {
            assert!(begins(start), "{start} in {found:?}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = std::env::temp_dir().join(format!("rag-gateway-{}.toml", std::process::id()));
        std::fs::write(&file, "connections = 3\ntimeout = 7\nrate_limit = 5\n").expect("written");
        let path = file.display().to_string();
        let config = read(
            &["--config", &path, "--connections", "4"],
            &[
                ("RAG_GATEWAY_CONNECTIONS", "5"),
                ("RAG_GATEWAY_TIMEOUT", "6"),
            ],
            Mode::Serve,
        )
        .unwrap_or_else(|faults| panic!("{faults:?}"));
        std::fs::remove_file(file).expect("removed");
        assert_eq!((config.connections, config.timeout.as_secs()), (4, 6));
        assert_eq!(config.rate_limit, Some(5));
    }

    #[test]
    fn tls_is_required_of_other_machines() {
        let mode = |text: &str, environment: &[(&str, &str)]| {
            let read = read(&["--database", text], environment, Mode::Serve);
            read.unwrap_or_else(|faults| panic!("{faults:?}"))
                .database
                .get_ssl_mode()
        };
        assert_eq!(mode("host=/run/postgresql", &[]), SslMode::Disable);
        assert_eq!(mode("postgres://localhost/x", &[]), SslMode::Disable);
        assert_eq!(mode("host=db.example.org", &[]), SslMode::Require);
        assert_eq!(
            mode("host=db.example.org", &[("PGSSLMODE", "disable")]),
            SslMode::Disable
        );
        assert_eq!(
            mode("host=a.example.org sslmode=verify-full", &[]),
            SslMode::Require
        );
    }

    #[test]
    fn standard_input_and_output_have_the_rights_of_the_user() {
        let environment = [("USER", "ann"), ("PGDATABASE", "docs"), ("PGPORT", "5433")];
        let config = read(&[], &environment, Mode::Stdio).unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(config.database.get_user(), Some("ann"));
        assert_eq!(config.database.get_dbname(), Some("docs"));
        assert_eq!(config.database.get_ports(), [5433]);
    }
}
