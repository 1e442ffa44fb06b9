//! The worker that keeps one `rag-engine embed` running for the whole cluster.
//!
//! With `shared_preload_libraries = 'rag'` it starts with the server; otherwise the first session
//! that needs a model starts it. A lock file makes sure that there is one: a second worker finds it
//! taken and leaves. It has no database connection. What the engine logs goes to the server's log;
//! an engine that ends is started again, at growing intervals.
#![allow(unsafe_code)] // the entry point that the postmaster calls, signal handlers, flock

use std::{
    ffi::OsStr,
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{BackgroundWorker, SignalWakeFlags},
    pg_guard, pg_sys,
};

use crate::{
    engine::{
        self,
        process::{self, EngineProcess},
        starter,
    },
    error::Error,
    pg::wait::{Until, wait},
    settings,
};

/// Between two starts of an engine that keeps ending; doubled each time up to the second figure,
/// which is less than a client waits for the engine.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// An engine that ran for so long is not one that keeps ending.
const HEALTHY: Duration = Duration::from_secs(10);

/// Has the postmaster start the worker with the server, and again should it fail.
pub fn register() {
    starter::builder()
        .set_restart_time(Some(Duration::from_secs(5)))
        .load();
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_supervisor_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    let lock = match starter::take_lock(starter::SUPERVISING) {
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
    let mut pause = FIRST_PAUSE;
    while !stopping() {
        let started = Instant::now();
        match supervise() {
            Ok(End::Stopped) => break,
            Ok(End::Reconfigured | End::Left) => continue,
            Ok(End::Died(how)) => pgrx::log!("rag: rag-engine {how}; it will be started again"),
            Err(e) => pgrx::warning!("rag: {e}: {}", e.detail.as_deref().unwrap_or_default()),
        }
        pause = if started.elapsed() >= HEALTHY {
            FIRST_PAUSE
        } else {
            pause
        };
        pause = if rest(pause) {
            FIRST_PAUSE
        } else {
            (pause * 2).min(LONGEST_PAUSE)
        };
    }
    let _ = std::fs::remove_file(engine::socket());
    drop(lock);
}

/// Waits for `pause`, or less if the worker is to stop or the settings were read anew; whether they
/// were.
fn rest(pause: Duration) -> bool {
    let until = Instant::now() + pause;
    while !stopping() && Instant::now() < until {
        wait(
            &[],
            Some(until.saturating_duration_since(Instant::now()) + Duration::from_millis(1)),
        );
        if read_settings_anew() {
            return true;
        }
    }
    false
}

/// Reads the server's settings where SIGHUP has come; whether it has.
fn read_settings_anew() -> bool {
    let told = BackgroundWorker::sighup_received();
    if told {
        // SAFETY: the reaction to SIGHUP of every worker.
        unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
    }
    told
}

/// Whether SIGTERM has come; the flag stays set.
fn stopping() -> bool {
    thread_local!(static STOP: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    STOP.with(|stop| {
        stop.set(stop.get() || BackgroundWorker::sigterm_received());
        stop.get()
    })
}

/// How a time with an engine ended.
enum End {
    /// The worker is to stop.
    Stopped,
    /// The settings that the engine was started with have changed.
    Reconfigured,
    /// A client needs one that can reach another folder of models.
    Left,
    Died(String),
}

/// The engine's command line under the present settings, but for the folders of models. An engine
/// that lacks one of those is asked to leave by the first session that needs it, so that no session
/// loses its engine for nothing.
#[derive(PartialEq, Eq)]
struct Arguments(Vec<std::ffi::OsString>);

impl Arguments {
    fn present() -> Self {
        let mut args: Vec<std::ffi::OsString> = vec!["embed".into(), "--watch-stdin".into()];
        args.extend(["--socket".into(), engine::socket().into_os_string()]);
        args.extend([
            "--onnxruntime".into(),
            settings::onnxruntime_path().into_os_string(),
        ]);
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

/// Runs one engine until it or the worker ends.
fn supervise() -> Result<End, Error> {
    let (arguments, path) = (Arguments::present(), settings::engine_path());
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
    loop {
        let mut descriptors = vec![(engine.stdout_fd(), Until::Readable)];
        descriptors.extend(engine.stderr_fd().map(|fd| (fd, Until::Readable)));
        wait(&descriptors, None);
        for line in engine.log_lines() {
            pgrx::log!("rag-engine: {line}");
        }
        if stopping() {
            return Ok(End::Stopped);
        }
        if read_settings_anew()
            && (arguments != Arguments::present() || path != settings::engine_path())
        {
            return Ok(End::Reconfigured);
        }
        // the engine writes nothing to standard output: readable means that it has ended
        if matches!(engine.read(&mut [0; 64]), Ok(Some(0)) | Err(_)) {
            return Ok(match engine.kill() {
                Some(status) if status.code() == Some(process::LEFT) => End::Left,
                status => End::Died(status.map_or_else(|| "ended".into(), process::describe)),
            });
        }
    }
}
