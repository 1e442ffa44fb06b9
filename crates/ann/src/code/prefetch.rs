//! Asking for memory before it is needed.
#![allow(unsafe_code)]

/// Bytes in a cache line: right for x86-64 and most aarch64; elsewhere a line may be asked for
/// twice.
const LINE: usize = 64;

/// Starts to load `bytes` bytes at `pointer` into the cache and does not wait. A hint: any address
/// is allowed, and none is read as far as the program can tell.
#[inline]
pub fn prefetch(pointer: *const u8, bytes: usize) {
    // From the start of the first line, so that the last line is not missed when the range starts
    // inside one.
    let start = pointer.wrapping_sub(pointer.addr() % LINE);
    for offset in (0..bytes + pointer.addr() % LINE).step_by(LINE) {
        prefetch_line(start.wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(pointer: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction never faults, and SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(pointer.cast()) }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn prefetch_line(pointer: *const u8) {
    // SAFETY: the instruction never faults and changes neither memory, registers nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{pointer}]", pointer = in(reg) pointer, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn prefetch_line(_: *const u8) {}
