//! Work on several threads while the calling thread waits.

use std::{
    ops::Range,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Builder, Thread},
    time::Duration,
};

use crate::memory::{OutOfMemory, Reserve};

const TICK: Duration = Duration::from_millis(20);
/// Number of items that a thread takes at a time. It is small, so that all threads finish together
/// and items are processed in about the order of their numbers.
const BATCH: usize = 16;
/// Number of elements from which a part of a slice may go to another thread.
const SHARED: usize = 4096;

/// Why work on a graph ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// `tick` returned false.
    Cancelled,
    OutOfMemory,
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "building the graph was cancelled",
            Self::OutOfMemory => "out of memory",
        })
    }
}

impl std::error::Error for BuildError {}

impl From<OutOfMemory> for BuildError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// Tells threads to stop.
#[derive(Default)]
pub(super) struct Stop {
    wanted: AtomicBool,
    out_of_memory: AtomicBool,
}

impl Stop {
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Stops all threads if one of them has failed.
    fn note(&self, result: Result<(), OutOfMemory>) {
        if result.is_err() {
            self.out_of_memory.store(true, Ordering::Relaxed);
            self.want();
        }
    }
}

/// Calls `work` for each of the items, on `threads` threads with a `state` each. Meanwhile the
/// calling thread calls `tick` with the number of the first item that was not begun, and once more
/// at the end. If `tick` returns false, or panics, or if memory runs out, all threads stop at their
/// next item.
pub(super) fn run<S>(
    threads: usize,
    items: Range<usize>,
    state: impl Fn() -> Result<S, OutOfMemory> + Sync,
    work: impl Fn(&mut S, usize, &Stop) -> Result<(), OutOfMemory> + Sync,
    tick: &mut impl FnMut(usize) -> bool,
) -> Result<(), BuildError> {
    let Range { start, end } = items;
    if start >= end {
        return Ok(());
    }
    let next = AtomicUsize::new(start);
    let worker = |stop: &Stop, pause: &mut dyn FnMut()| {
        let mut state = state()?;
        loop {
            let first = if stop.is_wanted() {
                end
            } else {
                next.fetch_add(BATCH, Ordering::Relaxed)
            };
            for item in first..end.min(first.saturating_add(BATCH)) {
                if !stop.is_wanted() {
                    work(&mut state, item, stop)?;
                }
            }
            if first >= end {
                return Ok(());
            }
            pause();
        }
    };
    let threads = threads.clamp(1, (end - start).div_ceil(BATCH));
    on_threads(threads, worker, &mut || {
        tick(next.load(Ordering::Relaxed).min(end))
    })
}

/// Calls `work` on one other thread. The calling thread calls `tick`, as in [`run`].
pub(super) fn alone<R: Send>(
    work: impl Fn(&Stop) -> Result<R, OutOfMemory> + Sync,
    tick: &mut dyn FnMut() -> bool,
) -> Result<R, BuildError> {
    let result = Mutex::new(None);
    let worker = |stop: &Stop, _: &mut dyn FnMut()| {
        let done = work(stop)?;
        *locked(&result) = Some(done);
        Ok(())
    };
    on_threads(1, worker, tick)?;
    result
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .ok_or(BuildError::Cancelled)
}

/// A part of a slice that is being divided.
pub(super) struct Part<'a, T> {
    pub items: &'a mut [T],
    /// The offset of the part in the slice.
    pub start: usize,
    /// Number of divisions that led to this part.
    pub depth: u32,
}

/// The parts that no thread works on, and the number of threads that have one.
struct Parts<'a, T> {
    waiting: Vec<Part<'a, T>>,
    at_work: usize,
}

/// Divides a slice, and its parts, on `threads` threads. `split` reorders a part and returns where
/// to divide it, or `None` if it is done. Its result must depend on nothing but the part. `tick` is
/// called as by [`run`].
pub(super) fn divide<T: Send>(
    threads: usize,
    items: &mut [T],
    split: impl Fn(&mut Part<'_, T>, &Stop) -> Result<Option<usize>, OutOfMemory> + Sync,
    tick: &mut dyn FnMut() -> bool,
) -> Result<(), BuildError> {
    let threads = threads.clamp(1, items.len().div_ceil(SHARED).max(1));
    let parts = Mutex::new(Parts {
        waiting: vec![Part {
            items,
            start: 0,
            depth: 0,
        }],
        at_work: 0,
    });
    let changed = Condvar::new();
    let worker = |stop: &Stop, pause: &mut dyn FnMut()| {
        let mut own: Vec<Part<'_, T>> = vec![];
        while !stop.is_wanted() {
            let Some(mut part) = own.pop() else {
                let Some(part) = take(&parts, &changed, stop) else {
                    break;
                };
                own.make_room(1)?;
                own.push(part);
                continue;
            };
            if let Some(at) = split(&mut part, stop)? {
                let Part {
                    items,
                    start,
                    depth,
                } = part;
                let (left, right) = items.split_at_mut(at);
                let right = Part {
                    items: right,
                    start: start + at,
                    depth: depth + 1,
                };
                own.make_room(2)?;
                if right.items.len() < SHARED {
                    own.push(right);
                } else {
                    let mut parts = locked(&parts);
                    parts.waiting.make_room(1)?;
                    parts.waiting.push(right);
                    changed.notify_one();
                }
                own.push(Part {
                    items: left,
                    start,
                    depth: depth + 1,
                });
            }
            if own.is_empty() {
                let mut parts = locked(&parts);
                parts.at_work -= 1;
                if parts.at_work == 0 {
                    changed.notify_all();
                }
            }
            pause();
        }
        Ok(())
    };
    on_threads(threads, worker, tick)
}

/// Waits for a part that no thread works on. Returns `None` when all parts are done, or when the
/// threads must stop.
fn take<'a, T>(parts: &Mutex<Parts<'a, T>>, changed: &Condvar, stop: &Stop) -> Option<Part<'a, T>> {
    let mut parts = locked(parts);
    while !stop.is_wanted() {
        if let Some(part) = parts.waiting.pop() {
            parts.at_work += 1;
            return Some(part);
        }
        if parts.at_work == 0 {
            return None;
        }
        // A request to stop does not notify, hence the timeout.
        (parts, _) = changed
            .wait_timeout(parts, TICK)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
    }
    None
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Calls `worker` on `threads` threads, or on fewer if the system has no more. Meanwhile the
/// calling thread calls `tick`, and once more at the end. If `tick` returns false, or panics, or if
/// memory runs out, all threads are told to stop.
///
/// If the system has no thread at all, the calling thread does the work. Then `worker` calls `tick`
/// by its second argument.
fn on_threads(
    threads: usize,
    worker: impl Fn(&Stop, &mut dyn FnMut()) -> Result<(), OutOfMemory> + Sync,
    tick: &mut dyn FnMut() -> bool,
) -> Result<(), BuildError> {
    let stop = Stop::default();
    let running = AtomicUsize::new(0);
    let caller = thread::current();
    let thread = || {
        let _leave = CountOutOnDrop {
            running: &running,
            caller: &caller,
            stop: &stop,
        };
        stop.note(worker(&stop, &mut || ()));
    };
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let blocked = BlockedSignals::new();
        let mut started = 0;
        while started < threads {
            running.fetch_add(1, Ordering::Relaxed);
            if Builder::new()
                .name("rag graph".into())
                .spawn_scoped(scope, thread)
                .is_err()
            {
                running.fetch_sub(1, Ordering::Relaxed);
                break; // the system has no more threads: fewer will do
            }
            started += 1;
        }
        drop(blocked);
        while running.load(Ordering::Acquire) > 0 {
            thread::park_timeout(TICK);
            if !tick() {
                return Err(BuildError::Cancelled);
            }
        }
        if started == 0 {
            let mut cancelled = false;
            let mut pause = || {
                if !cancelled && !tick() {
                    cancelled = true;
                    stop.want();
                }
            };
            stop.note(worker(&stop, &mut pause));
            if cancelled {
                return Err(BuildError::Cancelled);
            }
        }
        if stop.out_of_memory.load(Ordering::Relaxed) {
            return Err(BuildError::OutOfMemory);
        }
        if tick() {
            Ok(())
        } else {
            Err(BuildError::Cancelled)
        }
    })
}

/// Calls `work` with each of the items, on `threads` threads including the calling one.
pub(super) fn share<T: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = threads.min(items.len());
    let items = Mutex::new(items);
    let take = || locked(&items).pop();
    let worker = || {
        while let Some(item) = take() {
            work(item);
        }
    };
    thread::scope(|scope| {
        let blocked = BlockedSignals::new();
        for _ in 1..threads {
            if Builder::new()
                .name("rag encode".into())
                .spawn_scoped(scope, worker)
                .is_err()
            {
                break;
            }
        }
        drop(blocked);
        worker();
    });
}

/// Stops the threads when the caller returns or panics, so that the end of the scope need not wait
/// for all items.
struct StopOnDrop<'a>(&'a Stop);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.want();
    }
}

/// Counts a thread out when it ends or panics, and wakes the caller. After a panic the other
/// threads stop, because they may wait for it.
struct CountOutOnDrop<'a> {
    running: &'a AtomicUsize,
    caller: &'a Thread,
    stop: &'a Stop,
}

impl Drop for CountOutOnDrop<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.stop.want();
        }
        self.running.fetch_sub(1, Ordering::Release);
        self.caller.unpark();
    }
}

/// While it exists, this thread gets no signals, and threads that it starts never do: a new thread
/// inherits the mask.
struct BlockedSignals {
    #[cfg(unix)]
    before: libc::sigset_t,
}

#[cfg(unix)]
#[allow(unsafe_code)]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: a signal set is plain data for which zeros are valid; both calls get pointers to
        // whole sets of this frame.
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
