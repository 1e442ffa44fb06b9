//! The duties of a child process of Postgres: it starts from a clean state, stays within limits,
//! and never outlives its parent.
//!
//! A process started by a Postgres worker inherits blocked and ignored signals. It learns of its
//! parent's death in two ways: from the kernel (`PR_SET_PDEATHSIG`), and from the end of its
//! standard input, which the parent keeps open while it needs the child. The second also works if
//! the parent died before the first was set.
//!
//! This is the only module of the crate that calls the C library.
#![allow(unsafe_code)]

use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsFd, AsRawFd},
    process, ptr,
    sync::mpsc,
    thread,
    time::Duration,
};

/// Exit code of a process whose parent is gone.
pub const ORPHANED: i32 = 6;
/// Exit code of a process that exceeded its wall-clock time.
pub const OUT_OF_TIME: i32 = 7;

/// Exit code of a process that a client asked to leave, so that another one can start.
pub const LEFT: i32 = 8;

/// A limit that the kernel enforces on this process and on the children that it starts afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of address space.
    AddressSpace(u64),
    /// Bytes of memory that the process can write to and shares with no other.
    Data(u64),
    /// Seconds of processor time.
    CpuSeconds(u64),
    /// Maximum size of a file that the process writes, in bytes.
    FileSize(u64),
    /// Open descriptors.
    OpenFiles(u64),
    /// Size of a core dump in bytes: [`NO_CORE_DUMP`].
    CoreSize(u64),
}

/// Prevents core dumps, which would contain all data of the process, secrets included. The kernel
/// writes no file of that size. For a limit of 1 (but not of 0) it does not start a program that
/// receives dumps instead of a file (fs/coredump.c).
pub const NO_CORE_DUMP: Limit = Limit::CoreSize(1);

/// Resets what Postgres left behind, makes this process the first to be killed if the machine runs
/// out of memory, and asks the kernel to kill it when its parent dies. Call it first.
pub fn begin() -> io::Result<()> {
    unblock_signals()?;
    no_telemetry();
    if let Err(e) = fs::write("/proc/self/oom_score_adj", "1000") {
        tracing::debug!("could not raise oom_score_adj: {e}");
    }
    // SAFETY: prctl with these arguments reads no memory.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// Disables ONNX Runtime's telemetry. ONNX Runtime reads the variable while its library is loaded:
/// a call of one of its functions would be too late.
fn no_telemetry() {
    // SAFETY: the process has one thread.
    unsafe { std::env::set_var("ORT_DISABLE_TELEMETRY", "1") };
}

/// Unblocks all signals, and resets SIGCHLD, so that children can be waited for.
fn unblock_signals() -> io::Result<()> {
    // SAFETY: a zeroed sigset_t is a valid place for sigemptyset to write to, and both calls get
    // valid pointers. SIG_DFL is a valid disposition.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        check(libc::sigemptyset(&mut none))?;
        check(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()))?;
        if libc::signal(libc::SIGCHLD, libc::SIG_DFL) == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lowers a limit, soft and hard. A hard limit that is already lower stays.
pub fn limit(limit: Limit) -> io::Result<()> {
    let (resource, value) = match limit {
        Limit::AddressSpace(bytes) => (libc::RLIMIT_AS, bytes),
        Limit::Data(bytes) => (libc::RLIMIT_DATA, bytes),
        Limit::CpuSeconds(seconds) => (libc::RLIMIT_CPU, seconds),
        Limit::FileSize(bytes) => (libc::RLIMIT_FSIZE, bytes),
        Limit::OpenFiles(descriptors) => (libc::RLIMIT_NOFILE, descriptors),
        Limit::CoreSize(bytes) => (libc::RLIMIT_CORE, bytes),
    };
    // At the soft limit of processor time the kernel sends a signal that names the reason, at the
    // hard limit SIGKILL.
    let grace = u64::from(resource == libc::RLIMIT_CPU);
    let mut current = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a pointer to a valid rlimit.
    unsafe {
        check(libc::getrlimit(resource, &mut current))?;
        let soft = value.min(current.rlim_max);
        let hard = value.saturating_add(grace).min(current.rlim_max);
        check(libc::setrlimit(
            resource,
            &libc::rlimit {
                rlim_cur: soft,
                rlim_max: hard,
            },
        ))
    }
}

/// Ends the process with SIGXCPU after this many more seconds of processor time, whatever limit was
/// set before.
pub fn limit_cpu_from_now(seconds: u64) -> io::Result<()> {
    // SAFETY: zeroed is a valid rusage, and each call gets a pointer to what it fills or reads.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        check(libc::getrusage(libc::RUSAGE_SELF, &mut usage))?;
        let used = usage.ru_utime.tv_sec.saturating_add(usage.ru_stime.tv_sec);
        let until = u64::try_from(used)
            .unwrap_or(0)
            .saturating_add(seconds)
            .saturating_add(1);
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        check(libc::getrlimit(libc::RLIMIT_CPU, &mut limit))?;
        limit.rlim_cur = until.min(limit.rlim_max);
        check(libc::setrlimit(libc::RLIMIT_CPU, &limit))
    }
}

/// Makes a write beyond the file size limit fail, instead of ending the process.
pub fn survive_file_size_limit() -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition.
    if unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Keeps the allocator from reserving address space for every thread, which counts towards
/// [`Limit::AddressSpace`].
pub fn share_heaps() {
    // SAFETY: sets a parameter of the allocator, before threads exist.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// Makes the allocator map large blocks and return them at once. By default it would learn to keep
/// them.
pub fn give_back_large_blocks() {
    const MMAP_THRESHOLD: libc::c_int = 1 << 20;
    // SAFETY: sets a parameter of the allocator, before threads exist.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD) };
}

/// Ends the process when its standard input does. Nothing else may read standard input afterwards.
pub fn watch_stdin() -> io::Result<()> {
    let watch = || {
        let mut scratch = [0; 256];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut scratch) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        tracing::debug!("standard input ended: the parent is gone or done with this process");
        process::exit(ORPHANED);
    };
    thread::Builder::new()
        .name("stdin".into())
        .spawn(watch)
        .map(drop)
}

/// Ends the process after this wall-clock time, after calling `last_words`. If nobody reads them,
/// the process ends without.
pub fn watch_clock(limit: Duration, last_words: impl FnOnce() + Send + 'static) -> io::Result<()> {
    const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);
    let watch = move || {
        thread::sleep(limit);
        let (said, heard) = mpsc::channel();
        let speaker = thread::Builder::new().spawn(move || {
            last_words();
            let _ = said.send(());
        });
        if speaker.is_ok() {
            let _ = heard.recv_timeout(LAST_WORDS_TIMEOUT);
        }
        process::exit(OUT_OF_TIME);
    };
    thread::Builder::new()
        .name("clock".into())
        .spawn(watch)
        .map(drop)
}

/// Returns true if the other side has closed a socket or pipe. Reads nothing.
pub fn hung_up(descriptor: &impl AsRawFd) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: a pointer to one valid pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0 && poll.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns the id of the user that this process runs as.
pub fn user_id() -> u32 {
    // SAFETY: geteuid cannot fail and reads no memory.
    unsafe { libc::geteuid() }
}

/// Ends the process at once. Libraries do not clean up, because other threads use them. `listener`
/// is closed before the connections are, so that a client that sees its connection end does not
/// reach this process again.
pub fn leave(listener: &impl AsRawFd) -> ! {
    // SAFETY: an open descriptor; the second call does not return, and runs no code of this
    // process.
    unsafe {
        libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR);
        libc::_exit(LEFT)
    }
}

/// Returns the standard output, and redirects output of libraries that print to standard error.
pub fn take_stdout() -> io::Result<File> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open; the buffer of the second one is flushed.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(output.into())
}

/// Tries to change the parent in ways that change nothing, to see what the sandbox refuses.
pub fn touch_parent() -> [(&'static str, io::Result<()>); 5] {
    const OF_PROCESS: libc::c_int = 1;
    // SAFETY: the calls get pointers to valid values, or NULL where it means to read nothing. Each
    // sets what the parent has already.
    unsafe {
        let parent = libc::getppid();
        let mut limit: libc::rlimit64 = std::mem::zeroed();
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(parent, size, &mut processors);
        let priority = libc::getpriority(libc::PRIO_PROCESS, parent as libc::id_t);
        let class = libc::syscall(libc::SYS_ioprio_get, OF_PROCESS, parent);
        let mut sample: libc::sched_param = std::mem::zeroed();
        libc::sched_getparam(parent, &mut sample);
        let limited = libc::prlimit64(parent, libc::RLIMIT_NOFILE, ptr::null(), &mut limit);
        let limited = check(limited);
        let placed = check(libc::sched_setaffinity(parent, size, &processors));
        let niced = libc::setpriority(libc::PRIO_PROCESS, parent as libc::id_t, priority);
        let niced = check(niced);
        let queued = libc::syscall(libc::SYS_ioprio_set, OF_PROCESS, parent, class);
        let queued = check(queued as libc::c_int);
        let scheduled = check(libc::sched_setparam(parent, &sample));
        [
            ("limit of the parent", limited),
            ("processors of the parent", placed),
            ("priority of the parent", niced),
            ("disk priority of the parent", queued),
            ("scheduling of the parent", scheduled),
        ]
    }
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
