//! A store that counts what is done with it, and ends or disturbs it at a chosen step.

use std::{
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
};

use rag_pages::{Block, IndexLock, LockMode, MemoryPages, Page, ReadPages, WritePages};

type Hook<'a> = Box<dyn FnOnce() + 'a>;

pub struct Watched<'a> {
    inner: &'a MemoryPages,
    pub reads: Cell<u64>,
    pub writes: Cell<u64>,
    pub interrupts: Cell<u64>,
    touches: Cell<u64>,
    /// Most pages that were touched between two looks at whether the work is cancelled.
    pub longest: Cell<u64>,
    /// The look at which the work is cancelled, and the change at which the server crashes; from 1.
    pub cancelled_at: Cell<u64>,
    pub crashes_at: Cell<u64>,
    hook: RefCell<Option<(u64, Hook<'a>)>>,
}

impl<'a> Watched<'a> {
    pub fn new(inner: &'a MemoryPages) -> Self {
        Self {
            inner,
            reads: Cell::default(),
            writes: Cell::default(),
            interrupts: Cell::default(),
            touches: Cell::default(),
            longest: Cell::default(),
            cancelled_at: Cell::default(),
            crashes_at: Cell::default(),
            hook: RefCell::default(),
        }
    }

    /// Calls `hook` after a number of changes.
    pub fn after_writes(&self, writes: u64, hook: impl FnOnce() + 'a) {
        *self.hook.borrow_mut() = Some((writes, Box::new(hook)));
    }

    fn touch(&self) {
        self.touches.set(self.touches.get() + 1);
        self.longest.set(self.longest.get().max(self.touches.get()));
    }

    fn wrote(&self) {
        self.writes.set(self.writes.get() + 1);
        if self.writes.get() == self.crashes_at.get() {
            panic::resume_unwind(Box::new(Stopped));
        }
        let due = self
            .hook
            .borrow()
            .as_ref()
            .is_some_and(|(at, _)| *at == self.writes.get());
        if due && let Some((_, hook)) = self.hook.take() {
            hook();
        }
    }
}

/// What cancelled work unwinds with.
struct Stopped;

/// Runs `f`, which may be stopped on its way; returns its result if it was not.
pub fn unless_stopped<R>(f: impl FnOnce() -> R) -> Option<R> {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Stopped>() => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}

impl ReadPages for Watched<'_> {
    fn block_count(&self) -> Block {
        self.inner.block_count()
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.touch();
        self.reads.set(self.reads.get() + 1);
        self.inner.read(block, f)
    }

    fn check_interrupts(&self) {
        self.touches.set(0);
        self.interrupts.set(self.interrupts.get() + 1);
        if self.interrupts.get() == self.cancelled_at.get() {
            panic::resume_unwind(Box::new(Stopped));
        }
    }
}

impl WritePages for Watched<'_> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        self.touch();
        let result = self.inner.write(block, f)?;
        self.wrote();
        Some(result)
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        self.touch();
        let block = self.inner.append(f);
        self.wrote();
        block
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.inner.lock(lock, mode);
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.inner.unlock(lock, mode);
    }
}
