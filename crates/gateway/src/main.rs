//! `rag-gateway`: HTTP, MCP and the interfaces of other systems in front of a database with `rag`.
//!
//! The program holds no retrieval logic. Each route calls one function of the schema `rag_api`,
//! with the rights of the caller (`docs/decisions/gateway.md`).
//!
//! | file | contents |
//! |---|---|
//! | [`routes`] | the one table of routes |
//! | [`server`], [`input`], [`output`], [`answer_stream`], [`events`] | from a request to its answer |
//! | [`database`] | the call of a function, in a transaction with the role of the request |
//! | [`identity`], [`token`] | keys and tokens |
//! | [`problem`] | errors, in the shape of each contract |
//! | [`mcp`], [`mcp_tools`], [`mcp_http`] | the Model Context Protocol |
//! | [`openapi`], [`reference`] | descriptions of the table of routes |
//! | [`settings`], [`config`], [`tls`] | settings and what they mean |
//! | [`serving`] | connections of clients |
//! | [`console`] | the files of the console |
//! | [`app`], [`metrics`], [`traffic`] | what all requests share |

mod answer_stream;
mod app;
mod config;
mod console;
mod database;
mod events;
mod identity;
mod input;
mod mcp;
mod mcp_http;
mod mcp_tools;
mod metrics;
mod openapi;
mod output;
mod password_file;
mod problem;
mod reference;
mod routes;
mod server;
mod serving;
mod settings;
mod tls;
mod token;
mod traffic;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, process::ExitCode, sync::Arc, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use rmcp::ServiceExt;
use tokio::{net::TcpListener, signal::unix::SignalKind};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    app::App,
    config::{Config, Mode},
    database::Database,
    identity::Identity,
    mcp::McpServer,
    tls::TlsListener,
};

fn command() -> Command {
    let check = Arg::new("check")
        .long("check")
        .action(ArgAction::SetTrue)
        .help("check the settings, report all faults, and exit");
    // in place of the flag of the same name
    let connection = Arg::new("database")
        .value_name("CONNECTION")
        .help("connection string or URL; what it lacks comes from PGHOST and so on");
    let others = settings::arguments()
        .into_iter()
        .filter(|argument| argument.get_id() != "database");
    Command::new("rag-gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .about("HTTP, MCP and OpenAI's API in front of a PostgreSQL database with rag")
        .subcommand_required(true)
        .subcommand(
            Command::new("serve")
                .about("listen for HTTP requests")
                .arg(check)
                .args(settings::arguments()),
        )
        .subcommand(
            Command::new("mcp")
                .about("serve MCP on standard input and output, with the rights of the user")
                .arg(connection)
                .args(others),
        )
        .subcommand(Command::new("openapi").about("print the OpenAPI description"))
        .subcommand(Command::new("reference").about("print docs/reference/http.md"))
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let run = match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("mcp", matches)) => stdio(matches),
        Some(("openapi", _)) => {
            println!("{:#}", openapi::description("http://127.0.0.1:8088"));
            Ok(())
        }
        _ => {
            print!("{}", reference::page());
            Ok(())
        }
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(faults) => {
            for fault in faults {
                eprintln!("rag-gateway: {fault}");
            }
            ExitCode::FAILURE
        }
    }
}

fn configured(matches: &ArgMatches, mode: Mode) -> Result<Config, Vec<String>> {
    let environment: HashMap<String, String> = std::env::vars().collect();
    let config = Config::read(matches, &environment, mode)?;
    // Libraries log requests in their own words. Standard output has the messages of MCP.
    let filter = Targets::new().with_target("rag_gateway", config.log_level);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let registry = tracing_subscriber::registry();
    if config.json_log {
        let layer = layer.json().flatten_event(true).with_filter(filter);
        registry.with(layer).init();
    } else {
        registry
            .with(layer.with_ansi(false).with_filter(filter))
            .init();
    }
    Ok(config)
}

fn runtime() -> Result<tokio::runtime::Runtime, Vec<String>> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| vec![error.to_string()])
}

fn serve(matches: &ArgMatches) -> Result<(), Vec<String>> {
    let config = configured(matches, Mode::Serve)?;
    if matches.get_flag("check") {
        println!("the settings are valid");
        return Ok(());
    }
    let served = runtime()?.block_on(listen(config));
    served.map_err(|error| vec![error])
}

async fn listen(config: Config) -> Result<(), String> {
    let (address, grace) = (config.listen, config.shutdown_timeout);
    let tls = config.tls.clone();
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("could not listen on {address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let app = App::new(config, address)?;
    let router = server::router(app.clone());
    tracing::info!("listening on {address}");
    let (head, stop) = (app.config.head_timeout, app.stop.clone());
    let mut serving = match tls {
        Some((certificate, key)) => {
            let listener = TlsListener::new(listener, certificate, key);
            let listener = listener.map_err(|error| error.to_string())?;
            tokio::spawn(serving::serve(listener, router, head, stop))
        }
        None => tokio::spawn(serving::serve(listener, router, head, stop)),
    };
    tokio::select! {
        ended = &mut serving => return finished(ended),
        () = signalled() => {}
    }
    tracing::info!("stopping");
    app.stop.cancel();
    let ended = tokio::time::timeout(grace, serving).await;
    let counted = tokio::time::timeout(Duration::from_secs(5), app::report(&app));
    // the database may be away
    let _ = counted.await;
    match ended {
        Ok(ended) => finished(ended),
        Err(_) => {
            tracing::warn!("requests that did not end in time are given up");
            Ok(())
        }
    }
}

fn finished(ended: Result<(), tokio::task::JoinError>) -> Result<(), String> {
    ended.map_err(|error| error.to_string())
}

/// Waits for SIGTERM or SIGINT.
async fn signalled() {
    let signal = |kind| tokio::signal::unix::signal(kind);
    let (Ok(mut term), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn stdio(matches: &ArgMatches) -> Result<(), Vec<String>> {
    let config = configured(matches, Mode::Stdio)?;
    runtime()?.block_on(async {
        let database = Database::new(&config).map_err(|fault| vec![fault])?;
        let server = McpServer {
            database: Arc::new(database),
            session: Some(Identity::Session),
        };
        let running = server.serve(rmcp::transport::stdio()).await;
        let running = running.map_err(|error| vec![error.to_string()])?;
        running
            .waiting()
            .await
            .map(|_| ())
            .map_err(|error| vec![error.to_string()])
    })
}
