//! Work on several threads while the calling one waits.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread::{self, Builder, Thread},
    time::Duration,
};

const TICK: Duration = Duration::from_millis(20);
/// Items that a thread takes at a time: few, so that all finish together and in about the order of their numbers.
const BATCH: usize = 16;

/// The caller wanted no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("building the graph was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// Tells a long item that its result is no longer wanted.
#[derive(Default)]
pub(super) struct Stop(AtomicBool);

impl Stop {
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls `work` for each of the items, on `threads` threads with a `state` each. Meanwhile `tick` is called on this one with
/// the number of the first item that was not begun, and once more in the end. Where that returns false, or panics, all threads stop at their next item.
pub(super) fn run<S>(
    threads: usize,
    items: Range<usize>,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize, &Stop) + Sync,
    tick: &mut impl FnMut(usize) -> bool,
) -> Result<(), Cancelled> {
    let Range { start, end } = items;
    if start >= end {
        return Ok(());
    }
    let next = AtomicUsize::new(start);
    let stop = Stop::default();
    let running = AtomicUsize::new(0);
    let take = || {
        let first = if stop.is_wanted() { end } else { next.fetch_add(BATCH, Ordering::Relaxed) };
        (first < end).then(|| first..end.min(first + BATCH))
    };
    let batch = |state: &mut S, items: Range<usize>| {
        for item in items {
            if !stop.is_wanted() {
                work(state, item, &stop);
            }
        }
    };
    let caller = thread::current();
    let worker = || {
        let _leave = Leave { running: &running, caller: &caller };
        let mut state = state();
        while let Some(items) = take() {
            batch(&mut state, items);
        }
    };
    let mut report = || if tick(next.load(Ordering::Relaxed).min(end)) { Ok(()) } else { Err(Cancelled) };
    let threads = threads.clamp(1, (end - start).div_ceil(BATCH));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let blocked = BlockedSignals::new();
        let mut started = 0;
        while started < threads {
            running.fetch_add(1, Ordering::Relaxed);
            if Builder::new().name("rag graph".into()).spawn_scoped(scope, worker).is_err() {
                running.fetch_sub(1, Ordering::Relaxed);
                break; // the system has no more threads: fewer will do
            }
            started += 1;
        }
        drop(blocked);
        while running.load(Ordering::Acquire) > 0 {
            thread::park_timeout(TICK);
            report()?;
        }
        if started == 0 {
            let mut state = state();
            while let Some(items) = take() {
                batch(&mut state, items);
                report()?;
            }
        }
        report()
    })
}

/// Calls `work` with each of the items, on `threads` threads including this one.
pub(super) fn share<T: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = threads.min(items.len());
    let items = std::sync::Mutex::new(items);
    let take = || items.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
    let worker = || {
        while let Some(item) = take() {
            work(item);
        }
    };
    thread::scope(|scope| {
        let blocked = BlockedSignals::new();
        for _ in 1..threads {
            if Builder::new().name("rag encode".into()).spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        drop(blocked);
        worker();
    });
}

/// Stops the threads when the caller leaves, in whatever way, so that the scope's end need not wait for all items.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Counts a thread out when it ends, in whatever way, and wakes the caller.
struct Leave<'a> {
    running: &'a AtomicUsize,
    caller: &'a Thread,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

/// While it lives, this thread gets no signals, and threads that it starts never do: a new thread inherits the mask.
struct BlockedSignals {
    #[cfg(unix)]
    before: libc::sigset_t,
}

#[cfg(unix)]
#[allow(unsafe_code)]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: a signal set is plain data for which zeros are valid; both calls get pointers to whole sets of this frame.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self { before }
        }
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that `new` was given; no set is asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(not(unix))]
impl BlockedSignals {
    fn new() -> Self {
        Self {}
    }
}
