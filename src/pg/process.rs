//! This process: its variables, rights, settings, signals and children, and what runs at its exit.
#![allow(unsafe_code)] // variables of the process, signals, system calls

use std::{
    cell::RefCell,
    ffi::{CStr, c_int},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::Command,
};

use pgrx::{pg_guard, pg_sys};

/// Returns the OID of the database that the process is connected to.
pub fn database() -> pg_sys::Oid {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns the process id.
pub fn my_pid() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }
}

/// Returns the role that has logged in, whatever role a function runs as.
pub fn session_user() -> pg_sys::Oid {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetSessionUserId() }
}

/// Returns the role whose rights the current command has.
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetUserId() }
}

/// Returns the server's clock, in microseconds since 2000-01-01.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Returns microseconds of a clock that nobody sets, the same one in all processes of the machine.
pub fn uptime() -> i64 {
    // SAFETY: zeros are a time, and the system writes to it.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    }
}

/// Returns when the client's current statement began, in microseconds since 2000-01-01.
pub fn statement_start() -> i64 {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::GetCurrentStatementStartTimestamp() }
}

/// Returns the number of pages of tables and indexes that the session has read so far, from shared
/// memory or from files.
pub fn pages_read() -> i64 {
    // SAFETY: reads variables of the session.
    unsafe {
        let usage = (&raw const pg_sys::pgBufferUsage).read();
        usage.shared_blks_hit
            + usage.shared_blks_read
            + usage.local_blks_hit
            + usage.local_blks_read
    }
}

/// Returns true if the server is in recovery, as a standby is.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads the server's state.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Raises the error for a command that writes if the server is in recovery.
pub fn prevent_in_recovery(command: &CStr) {
    // SAFETY: reads the server's state, and may raise an ERROR.
    unsafe { pg_sys::PreventCommandDuringRecovery(command.as_ptr()) };
}

/// Returns true while the postmaster loads `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Returns true if pg_upgrade runs this server.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Returns the folder of the server's libraries.
pub fn library_dir() -> PathBuf {
    // SAFETY: the server fills this NUL-terminated array before any extension is loaded and never
    // changes it.
    let path = unsafe { CStr::from_ptr((&raw const pg_sys::pkglib_path).cast()) };
    PathBuf::from(path.to_string_lossy().into_owned())
}

/// Returns the folder of the server's shared files.
pub fn share_dir() -> PathBuf {
    let mut path = [0 as std::ffi::c_char; pg_sys::MAXPGPATH as usize];
    // SAFETY: get_share_path writes at most MAXPGPATH bytes, NUL included.
    let path = unsafe {
        pg_sys::get_share_path((&raw const pg_sys::my_exec_path).cast(), path.as_mut_ptr());
        CStr::from_ptr(path.as_ptr())
    };
    PathBuf::from(path.to_string_lossy().into_owned())
}

/// Shows in pg_stat_activity what the process does.
pub fn report_activity(text: &str) {
    if let Ok(text) = std::ffi::CString::new(text) {
        report_activity_text(&text);
    }
}

/// Shows a text in pg_stat_activity.
pub fn report_activity_text(text: &CStr) {
    // SAFETY: the text is copied.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()) };
}

/// Returns a random number from 0 up to 1. Nothing secret depends on it.
pub fn random() -> f64 {
    let mut bytes = [0; 4];
    // SAFETY: fills as many bytes as there are.
    let filled = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    if filled {
        f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    } else {
        0.5
    }
}

// -- rights

/// The role whose rights a command had, and its SECURITY_ flags.
pub struct CurrentUser {
    role: pg_sys::Oid,
    context: c_int,
}

/// Makes another role the current one for a while. `restriction` is one of Postgres's SECURITY_
/// flags. Returns what [`restore_user`] restores.
///
/// An ERROR in between aborts the (sub)transaction, which restores the role.
pub fn set_user(role: pg_sys::Oid, restriction: u32) -> CurrentUser {
    let mut before = CurrentUser {
        role: pg_sys::InvalidOid,
        context: 0,
    };
    // SAFETY: the pair of calls that Postgres itself uses to change the current user for a while.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut before.role, &mut before.context);
        pg_sys::SetUserIdAndSecContext(role, before.context | restriction as c_int);
    }
    before
}

/// Ends what [`set_user`] has begun.
pub fn restore_user(before: CurrentUser) {
    // SAFETY: as there.
    unsafe { pg_sys::SetUserIdAndSecContext(before.role, before.context) };
}

/// Gives the process the rights of an existing role for good. The process has authenticated as a
/// superuser.
pub fn become_session_user(role: pg_sys::Oid) {
    // SAFETY: reads the system caches and sets variables of the process.
    unsafe { pg_sys::SetSessionAuthorization(role, pg_sys::superuser_arg(role)) };
}

// -- settings

/// Runs `f` with other values of settings that every role may change.
///
/// An ERROR in between aborts the (sub)transaction, which restores them.
pub fn with_settings<R>(settings: &[(&CStr, &CStr)], f: impl FnOnce() -> R) -> R {
    let level = begin_settings(settings);
    let result = f();
    end_settings(level);
    result
}

/// Sets settings until [`end_settings`] is called with the level that is returned.
pub fn begin_settings(settings: &[(&CStr, &CStr)]) -> c_int {
    // SAFETY: the GUC nesting level that a function with SET has.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        for (name, value) in settings {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        level
    }
}

pub fn end_settings(level: c_int) {
    // SAFETY: the level that `begin_settings` has begun.
    unsafe { pg_sys::AtEOXact_GUC(false, level) };
}

/// Sets a setting until the transaction ends, as `SET LOCAL` does. Settings that no extension
/// defines are allowed, if their names have a dot.
pub fn set_for_transaction(name: &CStr, value: &str) {
    let value = std::ffi::CString::new(value).unwrap_or_default();
    // SAFETY: both texts end with NUL and are copied.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_LOCAL,
            true,
            0,
            false,
        );
    }
}

/// Sets a setting that every role may change, for the rest of the process.
pub fn set_setting(name: &CStr, value: &str) {
    let value = std::ffi::CString::new(value).unwrap_or_default();
    // SAFETY: both texts end with NUL and are copied.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Returns the present value of a setting, or an empty text if there is no such setting.
pub fn setting(name: &CStr) -> String {
    // SAFETY: null, or a text that is copied before anything changes it.
    unsafe { copy(pg_sys::GetConfigOption(name.as_ptr(), true, false)) }
}

/// Returns the value that RESET would give to a setting that exists.
pub fn reset_setting(name: &CStr) -> String {
    // SAFETY: null, or a text that is copied before anything changes it.
    unsafe { copy(pg_sys::GetConfigOptionResetString(name.as_ptr())) }
}

unsafe fn copy(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's: a text that ends with NUL.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Reads the configuration files again, as every worker does after SIGHUP.
pub fn reload_settings() {
    // SAFETY: called between transactions of a worker, as the server's own workers do.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
}

// -- the text of the statement

/// Returns true if the client's current statement has a text that satisfies `test`.
pub fn statement_text_is(test: impl FnOnce(&CStr) -> bool) -> bool {
    // SAFETY: null, or a text of the server's that stays during this call.
    unsafe {
        let text = pg_sys::debug_query_string;
        !text.is_null() && test(CStr::from_ptr(text))
    }
}

/// Replaces the text of the client's current statement, until the next one sets it again.
pub fn replace_statement_text(text: &'static CStr) {
    // SAFETY: Postgres only reads the text, which lives forever.
    unsafe { pg_sys::debug_query_string = text.as_ptr() };
}

/// Runs `f` so that errors in it have no CONTEXT. If `f` fails, errors have none until a handler
/// restores the callbacks: the error must be raised without running anything else.
pub fn without_error_context<R, E>(f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
    // SAFETY: the callbacks are those of the callers, which still run. If an ERROR leaves the
    // callbacks out, whatever catches it restores its own (PG_CATCH, the main loops).
    unsafe {
        let callbacks = pg_sys::error_context_stack;
        pg_sys::error_context_stack = std::ptr::null_mut();
        let result = f();
        if result.is_ok() {
            pg_sys::error_context_stack = callbacks;
        }
        result
    }
}

// -- signals

/// Sends a signal to a process of this server. Process id 0 means none.
pub fn signal(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: a signal to a process of this server.
        unsafe { libc::kill(pid, signal) };
    }
}

/// Sets a handler with which SIGTERM ends the process wherever it waits, and unblocks signals.
pub fn end_on_sigterm() {
    super::compat::end_on_sigterm();
    // SAFETY: the handlers are set.
    unsafe { pg_sys::BackgroundWorkerUnblockSignals() };
}

/// From here on nothing cancels the process.
///
/// SIGINT is ignored, not held off: a regular expression, as in a CHECK constraint, fails as soon
/// as a cancel is pending, even if cancels are held off.
pub fn ignore_cancels() {
    // SAFETY: sets the disposition of a signal, and a flag that the handler sets.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        // a cancel may have come before
        (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
    }
}

// -- background workers

/// Returns the process that started this background worker and is told of its end, or 0.
pub fn started_by() -> i32 {
    // SAFETY: the worker's own entry, which it has as long as it runs.
    unsafe {
        pg_sys::MyBgworkerEntry
            .as_ref()
            .map_or(0, |entry| entry.bgw_notify_pid)
    }
}

/// Returns true if this process is a background worker of the extension.
pub fn is_rag_worker() -> bool {
    // SAFETY: the worker's own entry, whose names end with NUL.
    unsafe {
        pg_sys::MyBgworkerEntry
            .as_ref()
            .is_some_and(|entry| CStr::from_ptr(entry.bgw_library_name.as_ptr()) == c"rag")
    }
}

/// Returns true while the process connects to its database.
pub fn is_connecting() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::Mode == pg_sys::ProcessingMode::InitProcessing }
}

// -- exit

thread_local! {
    static BEFORE_EXIT: RefCell<Vec<fn()>> = const { RefCell::new(vec![]) };
    static AT_EXIT: RefCell<Vec<fn()>> = const { RefCell::new(vec![]) };
}

/// Adds a callback. Returns true if it is the first one of the list.
fn add_callback(callbacks: &mut Vec<fn()>, callback: fn()) -> bool {
    let is_first = callbacks.is_empty();
    let is_known = |known: &fn()| std::ptr::fn_addr_eq(*known, callback);
    if !callbacks.iter().any(is_known) {
        callbacks.push(callback);
    }
    is_first
}

/// Registers a callback for the exit of the process, before it releases its locks. A second
/// registration has no effect.
pub fn before_exit(callback: fn()) {
    if BEFORE_EXIT.with_borrow_mut(|callbacks| add_callback(callbacks, callback)) {
        // SAFETY: the callback stays valid as long as the library, which is never unloaded.
        unsafe { pg_sys::before_shmem_exit(Some(run_before_exit), pg_sys::Datum::null()) };
    }
}

/// Registers a callback for the exit of the process, after it has released its locks. A second
/// registration has no effect.
pub fn at_exit(callback: fn()) {
    if AT_EXIT.with_borrow_mut(|callbacks| add_callback(callbacks, callback)) {
        // SAFETY: the callback stays valid as long as the library, which is never unloaded.
        unsafe { pg_sys::on_shmem_exit(Some(run_at_exit), pg_sys::Datum::null()) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn run_before_exit(_code: c_int, _argument: pg_sys::Datum) {
    for callback in BEFORE_EXIT.take() {
        callback();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn run_at_exit(_code: c_int, _argument: pg_sys::Datum) {
    for callback in AT_EXIT.take() {
        callback();
    }
}

// -- child processes

/// Kills a child of this process that nobody has waited for, and waits for it.
pub fn kill_child(pid: i32) {
    if pid > 0 {
        // SAFETY: system calls on a process id.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Closes all descriptors but the three standard ones in the process of a command: the child must
/// not keep the server's files, its sockets and the postmaster's death pipe open.
pub fn close_descriptors_in_child(command: &mut Command) {
    // SAFETY: the function makes only system calls, which are safe between fork and exec.
    unsafe { command.pre_exec(mark_descriptors_close_on_exec) };
}

fn mark_descriptors_close_on_exec() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: a plain system call on the process's own descriptors.
    unsafe {
        if libc::syscall(
            libc::SYS_close_range,
            3u32,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        ) == 0
        {
            return Ok(());
        }
    }
    // SAFETY: fcntl on a number that is no descriptor fails harmlessly.
    unsafe {
        for fd in 3..4096 {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok(())
}

/// Makes reads from and writes to a descriptor return instead of waiting.
pub fn set_nonblocking(descriptor: &impl AsRawFd) -> io::Result<()> {
    let fd: RawFd = descriptor.as_raw_fd();
    // SAFETY: fcntl on a descriptor that the caller owns.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

// -- the environment

/// Keeps backtraces of Rust out of the DETAIL of errors, whatever `RUST_BACKTRACE` says.
///
/// pgrx captures a backtrace in its panic hook and appends it. The standard library reads the
/// environment for the first backtrace only and remembers the result, for this library alone. So
/// the first one is captured here, under a variable that takes precedence over `RUST_BACKTRACE`.
/// Called while the library is loaded.
pub fn disable_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // SAFETY: called while the library is being loaded, by a process with one thread.
    unsafe {
        std::env::set_var(VARIABLE, "0");
        drop(std::backtrace::Backtrace::capture());
        match before {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}
