//! Memory: allocations of Rust that fail, memory contexts, and settings.
//!
//! If an allocation fails, the standard library aborts the process. The postmaster takes an aborted
//! backend for a crash and restarts the cluster, so that one session would end all others.
//! Therefore:
//!
//! * Memory that grows with the data is requested through [`rag_pages::memory`]. A failure is an
//!   ERROR like that of `palloc`.
//! * Code that works on a text first calls
//!   [`check_memory`](crate::error::Error::check_memory), which checks that
//!   enough can be allocated.
//! * Any other allocation that fails ends this session alone, with a FATAL error. The [`Allocator`]
//!   cannot return null, which aborts, and cannot raise an ERROR, as it must not unwind. A FATAL
//!   error does neither: PostgreSQL cleans up and exits.
#![allow(unsafe_code)] // an allocator, memory contexts

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::UnsafeCell,
    ffi::{CStr, c_char, c_int, c_void},
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    time::Duration,
};

use pgrx::{PgSqlErrorCode, pg_sys};
use rag_pages::memory::may_be_refused;

/// The system's allocator.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The thread that PostgreSQL runs on, as `pthread_self` names it, or 0 before
/// [`remember_main_thread`]. A forked process has the same value.
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);

/// True if a thread of a build ran out of memory and waits for the end of the process.
static THREAD_OUT_OF_MEMORY: AtomicBool = AtomicBool::new(false);

// SAFETY: the system's allocator does the work. If it returns null, this allocator returns null,
// too, or does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        check(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        check(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        check(unsafe { System.realloc(pointer, layout, size) })
    }
}

#[inline]
fn check(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() && !may_be_refused() {
        allocation_failed();
    }
    pointer
}

/// Remembers which thread PostgreSQL runs on. Called while the library is being loaded.
pub fn remember_main_thread() {
    MAIN_THREAD.store(this_thread(), Ordering::Relaxed);
}

fn this_thread() -> usize {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as usize }
}

/// Ends the session if one of its threads ran out of memory.
pub fn exit_if_thread_ran_out() {
    if THREAD_OUT_OF_MEMORY.load(Ordering::Relaxed) {
        end_session();
    }
}

#[cold]
fn allocation_failed() {
    match MAIN_THREAD.load(Ordering::Relaxed) {
        0 => {} // not in a server
        main if main == this_thread() => end_session(),
        _ => {
            // Only PostgreSQL's own thread can end the process. It notices this by calling
            // `exit_if_thread_ran_out`.
            THREAD_OUT_OF_MEMORY.store(true, Ordering::Relaxed);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}

/// Raises a FATAL error, for which PostgreSQL keeps memory in reserve. Allocates nothing itself.
fn end_session() -> ! {
    unsafe extern "C-unwind" {
        fn errstart(level: c_int, domain: *const c_char) -> bool;
        fn errcode(code: c_int) -> c_int;
        fn errmsg(format: *const c_char, ...) -> c_int;
        fn errdetail(format: *const c_char, ...) -> c_int;
        fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
    }
    release_reserve();
    // SAFETY: runs on PostgreSQL's thread. A FATAL error neither returns nor jumps back: the
    // process exits.
    unsafe {
        if errstart(pg_sys::FATAL as c_int, std::ptr::null()) {
            errcode(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int);
            errmsg(c"out of memory".as_ptr());
            errdetail(c"This session ends. Other sessions are not affected.".as_ptr());
            errfinish(
                c"memory.rs".as_ptr(),
                line!() as c_int,
                c"end_session".as_ptr(),
            );
        }
    }
    std::process::abort()
}

/// A memory context of its own. It is deleted when this is dropped.
///
/// Its parent is `TopMemoryContext`, so that it lives as long as this whatever happens to the
/// memory context that is current now.
pub struct OwnedContext(NonNull<pg_sys::MemoryContextData>);

impl OwnedContext {
    pub fn new(name: &'static CStr) -> Self {
        // SAFETY: allocates a context, or raises an ERROR. It keeps the name, which is static.
        unsafe {
            Self(NonNull::new_unchecked(
                pg_sys::AllocSetContextCreateInternal(
                    pg_sys::TopMemoryContext,
                    name.as_ptr(),
                    pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                ),
            ))
        }
    }

    /// Runs `f` with this as the current memory context.
    ///
    /// # Safety
    /// What `f` allocates with `palloc` is not used after this is reset or dropped.
    pub unsafe fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        /// Restores the context also while an ERROR unwinds: this one may be deleted then.
        struct Restore(pg_sys::MemoryContext);
        impl Drop for Restore {
            fn drop(&mut self) {
                // SAFETY: the context that was current when `run` was called.
                unsafe { pg_sys::CurrentMemoryContext = self.0 };
            }
        }
        // SAFETY: the context exists for as long as this.
        let _restore = unsafe {
            let before = Restore(pg_sys::CurrentMemoryContext);
            pg_sys::CurrentMemoryContext = self.0.as_ptr();
            before
        };
        f()
    }

    /// Frees what was allocated in it.
    ///
    /// # Safety
    /// Nothing that was allocated in it is used any more.
    pub unsafe fn reset(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { pg_sys::MemoryContextReset(self.0.as_ptr()) };
    }
}

/// Bytes that are kept for errors. A memory context that is full asks for up to 1 MB at a time.
const RESERVE: usize = 2 << 20;

static RESERVED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Keeps memory in reserve, which is freed when an ERROR or FATAL error reports that memory has run
/// out. Called when a statement starts, and where work starts that is not part of one.
///
/// pgrx copies an ERROR into the memory context that was current when a function of the server was
/// called. If that has no memory either, it tries again and again until PostgreSQL ends with a
/// PANIC, which restarts the cluster.
pub fn keep_reserve() {
    /// The last of the callbacks for errors, below those of the statements that run now.
    struct Last(UnsafeCell<pg_sys::ErrorContextCallback>);
    // SAFETY: only PostgreSQL's own thread uses it.
    unsafe impl Sync for Last {}
    static LAST: Last = Last(UnsafeCell::new(pg_sys::ErrorContextCallback {
        previous: ptr::null_mut(),
        callback: Some(error_reported),
        arg: ptr::null_mut(),
    }));
    // SAFETY: the list of callbacks of this process. What is in it lives until it is removed, and
    // `LAST` lives for ever.
    unsafe {
        if RESERVED.load(Ordering::Relaxed).is_null() {
            RESERVED.store(libc::malloc(RESERVE), Ordering::Relaxed); // null: again the next time
        }
        let mut place = &raw mut pg_sys::error_context_stack;
        while !(*place).is_null() {
            if *place == LAST.0.get() {
                return;
            }
            place = &raw mut (**place).previous;
        }
        *place = LAST.0.get();
    }
}

/// Keeps memory in reserve for a statement that starts. One that is not part of another is refused
/// with an ERROR if there is none: each function that catches its errors would fail while it copies
/// one, and PostgreSQL ends with a PANIC after five.
///
/// # Safety
/// The ERROR leaps over the caller's frames, which have nothing to drop.
pub unsafe fn require_reserve() {
    unsafe extern "C-unwind" {
        fn MemoryContextAlloc(context: pg_sys::MemoryContext, size: usize) -> *mut c_void;
    }
    // SAFETY: the caller's promise. The memory is freed.
    unsafe {
        let is_first = pg_sys::error_context_stack.is_null();
        keep_reserve();
        if is_first && RESERVED.load(Ordering::Relaxed).is_null() {
            pg_sys::pfree(MemoryContextAlloc(pg_sys::TopMemoryContext, RESERVE));
        }
    }
}

/// Called for each message of this process, an error or not, before it is written or caught.
unsafe extern "C-unwind" fn error_reported(_: *mut c_void) {
    unsafe extern "C-unwind" {
        fn geterrcode() -> c_int;
    }
    // SAFETY: an error is being reported.
    if unsafe { geterrcode() } == PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int {
        release_reserve();
    }
}

fn release_reserve() {
    // SAFETY: what was allocated, or null. Nobody else has it.
    unsafe { libc::free(RESERVED.swap(ptr::null_mut(), Ordering::Relaxed)) };
}

/// Runs `f` with a memory context as the current one. An ERROR becomes an error of pgrx.
///
/// # Safety
/// `f` calls functions of the server without pgrx's guard, and has nothing to drop. What it
/// allocates is not used after `context` is reset or dropped.
pub unsafe fn guarded_in<R>(context: &OwnedContext, f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's promise.
    unsafe { context.run(|| pg_sys::ffi::pg_guard_ffi_boundary(f)) }
}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: made by `new`, whose callers keep the promise of `run`.
        unsafe { pg_sys::MemoryContextDelete(self.0.as_ptr()) };
    }
}

/// Returns `work_mem` in bytes.
pub fn work_mem() -> usize {
    // SAFETY: reads a setting of the session.
    unsafe { pg_sys::work_mem as usize * 1024 }
}

/// Returns `maintenance_work_mem` in bytes.
pub fn maintenance_work_mem() -> usize {
    // SAFETY: reads a setting of the session.
    unsafe { pg_sys::maintenance_work_mem as usize * 1024 }
}
