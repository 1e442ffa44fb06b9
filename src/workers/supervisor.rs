//! The worker that keeps one `rag-engine embed` running for the whole cluster.
//!
//! With `shared_preload_libraries = 'rag'` it starts with the server. Otherwise the first session
//! that needs a model starts it. A lock file ensures that there is only one: a second worker finds
//! the lock held and exits. The worker has no database connection. The engine's log lines go to the
//! server's log. An engine that ends is started again, at growing intervals.

use std::{
    ffi::OsStr,
    time::{Duration, Instant},
};

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};

use super::reload_settings_if_asked;
use crate::{
    cluster::{backoff::Backoff, shared},
    engine::{
        self,
        process::{self, EngineProcess},
        starter,
    },
    error::Error,
    pg::{
        calls::worker_main,
        wait::{Until, sleep, wait},
        worker,
    },
    settings,
};

/// Delays between starts of an engine that keeps ending. The longest is less than a client waits
/// for the engine.
const ENGINE_RESTARTS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// An engine that ran for this time was healthy.
const HEALTHY_TIME: Duration = Duration::from_secs(10);

/// Registers the worker with the postmaster, which starts it with the server and again if it fails.
pub fn register() {
    worker::supervisor()
        .set_restart_time(Some(Duration::from_secs(5)))
        .load();
}

worker_main!(rag_supervisor_main, main);

fn main() {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    let lock = match starter::try_lock(starter::SUPERVISOR_LOCK) {
        Ok(Some(lock)) => lock,
        Ok(None) => return,
        Err(e) => {
            pgrx::warning!(
                "rag: could not use the folder {} in the data directory: {e}",
                engine::RUNTIME_DIR
            );
            return;
        }
    };
    let mut delay = ENGINE_RESTARTS.first;
    while !is_stopping() {
        let started = Instant::now();
        let ended = run_engine();
        shared::engine_ended();
        match ended {
            Ok(EngineEnd::Stopped) => break,
            Ok(EngineEnd::Reconfigured | EngineEnd::Replaced) => continue,
            Ok(EngineEnd::Died(how)) => {
                pgrx::log!("rag: rag-engine {how}; it will be started again");
            }
            Err(e) => pgrx::warning!("rag: {e}: {}", e.detail.as_deref().unwrap_or_default()),
        }
        if started.elapsed() >= HEALTHY_TIME {
            delay = ENGINE_RESTARTS.first;
        }
        let is_reloaded = sleep_or_reload(delay);
        delay = ENGINE_RESTARTS.after((!is_reloaded).then_some(delay));
    }
    let _ = std::fs::remove_file(engine::socket());
    drop(lock);
}

/// Sleeps for a time, or until the worker is stopped or the settings were read again. Returns true
/// if they were.
fn sleep_or_reload(time: Duration) -> bool {
    let until = Instant::now() + time;
    while !is_stopping() && Instant::now() < until {
        sleep(until.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        if reload_settings_if_asked() {
            return true;
        }
    }
    false
}

/// Returns true if SIGTERM has come, now or before.
fn is_stopping() -> bool {
    thread_local!(static STOP: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    STOP.with(|stop| {
        stop.set(stop.get() || BackgroundWorker::sigterm_received());
        stop.get()
    })
}

/// Why an engine ended.
enum EngineEnd {
    /// The worker stops.
    Stopped,
    /// The settings that the engine was started with have changed.
    Reconfigured,
    /// A client needs an engine that can read another folder of models.
    Replaced,
    Died(String),
}

/// The engine's command line under the current settings, without the folders of models. The first
/// session that needs another folder asks the engine to exit. So no session loses its engine
/// without need.
#[derive(PartialEq, Eq)]
struct EngineArguments(Vec<std::ffi::OsString>);

impl EngineArguments {
    fn current() -> Self {
        let mut args: Vec<std::ffi::OsString> = vec!["embed".into(), "--watch-stdin".into()];
        args.extend(["--socket".into(), engine::socket().into_os_string()]);
        args.extend(settings::model_options());
        args.extend([
            "--threads".into(),
            settings::engine_threads().to_string().into(),
        ]);
        args.extend([
            "--memory-limit".into(),
            settings::engine_memory_limit().to_string().into(),
        ]);
        args.extend(settings::pdf_options());
        args.extend(["--sandbox".into(), settings::sandbox().into()]);
        Self(args)
    }
}

/// Runs one engine until it ends or must be stopped.
fn run_engine() -> Result<EngineEnd, Error> {
    let (arguments, path) = (EngineArguments::current(), settings::engine_path());
    let folders = engine::folders::known();
    let folders = folders
        .iter()
        .flat_map(|folder| [OsStr::new("--model-dir"), folder.as_os_str()]);
    let args: Vec<&OsStr> = arguments
        .0
        .iter()
        .map(AsRef::as_ref)
        .chain(folders)
        .collect();
    let mut engine = EngineProcess::spawn(&args)?;
    pgrx::debug1!("rag: started rag-engine, process {}", engine.id());
    shared::engine_started(engine.id());
    loop {
        let mut descriptors = vec![(engine.stdout_fd(), Until::Readable)];
        descriptors.extend(engine.stderr_fd().map(|fd| (fd, Until::Readable)));
        wait(&descriptors, None);
        for line in engine.log_lines() {
            pgrx::log!("rag-engine: {line}");
        }
        if is_stopping() {
            return Ok(EngineEnd::Stopped);
        }
        if reload_settings_if_asked()
            && (arguments != EngineArguments::current() || path != settings::engine_path())
        {
            return Ok(EngineEnd::Reconfigured);
        }
        // the engine writes nothing to standard output, so readable means that it has ended
        if matches!(engine.read(&mut [0; 64]), Ok(Some(0)) | Err(_)) {
            return Ok(match engine.kill() {
                Some(status) if status.code() == Some(process::REPLACED) => EngineEnd::Replaced,
                status => EngineEnd::Died(status.map_or_else(|| "ended".into(), process::describe)),
            });
        }
    }
}
