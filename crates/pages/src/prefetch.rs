//! Loads memory into the cache before it is needed.
#![allow(unsafe_code)]

/// Bytes of a cache line. Right for x86-64 and most aarch64; with longer lines, some are requested
/// twice.
const LINE: usize = 64;

/// Starts to load `bytes` bytes at `pointer` into the cache and does not wait. This is a hint: any
/// address is allowed, and the program does not read it.
#[inline]
pub fn prefetch(pointer: *const u8, bytes: usize) {
    // Begins at the start of the first line. Otherwise the last line would be missed where the
    // range starts inside a line.
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
        std::arch::asm!(
            "prfm pldl1keep, [{pointer}]",
            pointer = in(reg) pointer,
            options(nostack, preserves_flags, readonly),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn prefetch_line(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_may_be_prefetched() {
        let bytes = [0u8; 300];
        prefetch(bytes.as_ptr(), bytes.len());
        prefetch(bytes.as_ptr().wrapping_add(13), 0);
        prefetch(std::ptr::null(), 1000);
    }
}
