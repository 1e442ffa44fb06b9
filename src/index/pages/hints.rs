//! The buffers that a backend has last seen pages in.
#![allow(unsafe_code)] // descriptors of buffers

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU32, Ordering},
};

use pgrx::pg_sys::Buffer;
use rag_pages::{Block, memory::Reserve};

use super::raw;

/// Bytes of a buffer's descriptor with its padding (BUFFERDESC_PAD_TO_SIZE): one cache line.
pub(super) const DESCRIPTOR_BYTES: usize = 64;

/// Offset of `BufferDesc.state` in a descriptor, after a tag of 20 bytes and the buffer's number:
/// the same in PostgreSQL 15 to 18.
const STATE_OFFSET: usize = 24;
/// Where the use count is in the state: `BUF_USAGECOUNT_SHIFT` and `BUF_USAGECOUNT_MASK` of
/// PostgreSQL 15 to 18.
const USES_SHIFT: u32 = 18;
const USES_MASK: u32 = 0xF << USES_SHIFT;

/// The shared buffer that this backend has last seen each block of a file in, or 0.
#[derive(Default)]
pub struct BufferHints {
    buffers: RefCell<Vec<Buffer>>,
}

impl BufferHints {
    #[inline]
    pub(super) fn get(&self, block: Block) -> Buffer {
        self.buffers
            .borrow()
            .get(block as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Remembers nothing if there is no memory for it.
    pub(super) fn set(&self, block: Block, buffer: Buffer) {
        let mut buffers = self.buffers.borrow_mut();
        let i = block as usize;
        if i >= buffers.len() {
            let length = (i + 1).next_multiple_of(1024);
            let more = length - buffers.len();
            if buffers.make_room(more).is_err() {
                return;
            }
            buffers.resize(length, 0);
        }
        buffers[i] = buffer;
    }

    /// Returns the memory that they take.
    pub fn bytes(&self) -> usize {
        self.buffers.borrow().capacity() * size_of::<Buffer>()
    }

    /// Returns the use count of a buffer that this has a hint of. Other processes change the count
    /// at any time.
    #[inline]
    pub(super) fn uses(&self, buffer: Buffer) -> u32 {
        // SAFETY: the number of a shared buffer, which stays valid as long as the server runs. The
        // state is a `pg_atomic_uint32`.
        let state = unsafe {
            let descriptor = raw::BufferDescriptors.add((buffer as usize - 1) * DESCRIPTOR_BYTES);
            &*descriptor.add(STATE_OFFSET).cast::<AtomicU32>()
        };
        (state.load(Ordering::Relaxed) & USES_MASK) >> USES_SHIFT
    }
}
