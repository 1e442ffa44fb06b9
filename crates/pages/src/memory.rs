//! Allocations whose size depends on data, and whose failure is an error. The standard library
//! would end the process, and with it every session of a server.
//!
//! Memory that grows with the number of vectors or rows is allocated here. Buffers of a few
//! kilobytes are not. If such an allocation fails, the owner of the process decides what happens
//! ([`may_be_refused`]).

use std::{cell::Cell, collections::TryReserveError};

thread_local! {
    static MAY_BE_REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// An allocation has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("out of memory")
    }
}

impl std::error::Error for OutOfMemory {}

/// Returns true while this thread makes an allocation whose failure is an error. An allocator asks
/// this before it ends the process.
pub fn may_be_refused() -> bool {
    MAY_BE_REFUSED.get()
}

/// Collections that can make room.
pub trait Reserve {
    /// Makes room for `more` elements, and for as many as there are already, as growing does.
    ///
    /// # Errors
    /// The allocation failed.
    fn make_room(&mut self, more: usize) -> Result<(), OutOfMemory>;

    /// Makes room for exactly `more` elements.
    ///
    /// # Errors
    /// The allocation failed.
    fn make_exact_room(&mut self, more: usize) -> Result<(), OutOfMemory>;
}

impl<T> Reserve for Vec<T> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        if self.capacity() - self.len() >= more {
            Ok(())
        } else {
            ask(|| self.try_reserve(more))
        }
    }

    fn make_exact_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        ask(|| self.try_reserve_exact(more))
    }
}

impl<T: Ord> Reserve for std::collections::BinaryHeap<T> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        if self.capacity() - self.len() >= more {
            Ok(())
        } else {
            ask(|| self.try_reserve(more))
        }
    }

    fn make_exact_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        ask(|| self.try_reserve_exact(more))
    }
}

impl<K: Eq + std::hash::Hash, V> Reserve for std::collections::HashMap<K, V> {
    #[inline]
    fn make_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        if self.capacity() - self.len() >= more {
            Ok(())
        } else {
            ask(|| self.try_reserve(more))
        }
    }

    fn make_exact_room(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.make_room(more)
    }
}

/// Adds an element at the end.
///
/// # Errors
/// The allocation failed.
#[inline]
pub fn push<T>(vec: &mut Vec<T>, element: T) -> Result<(), OutOfMemory> {
    vec.make_room(1)?;
    vec.push(element);
    Ok(())
}

/// Checks that memory is left for small allocations, whose failure is no error: see the module.
/// Called when all that depends on data has been allocated.
///
/// # Errors
/// Less than a megabyte is left.
pub fn leave_some() -> Result<(), OutOfMemory> {
    const SOME: usize = 1 << 20;
    let some: Vec<u8> = with_room(SOME)?;
    std::hint::black_box(&some); // or else it would not be allocated at all
    Ok(())
}

/// Adds elements at the end.
///
/// # Errors
/// The allocation failed.
pub fn append<T: Clone>(vec: &mut Vec<T>, elements: &[T]) -> Result<(), OutOfMemory> {
    vec.make_room(elements.len())?;
    vec.extend_from_slice(elements);
    Ok(())
}

/// Returns an empty vector with room for elements.
///
/// # Errors
/// The allocation failed.
pub fn with_room<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = vec![];
    vec.make_exact_room(count)?;
    Ok(vec)
}

/// Returns a vector of equal elements.
///
/// # Errors
/// The allocation failed.
/// There is no room.
pub fn filled<T: Clone>(count: usize, element: T) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = vec![];
    vec.make_exact_room(count)?;
    vec.resize(count, element);
    Ok(vec)
}

/// Collects the elements of an iterator.
///
/// # Errors
/// The allocation failed.
pub fn collect<T>(elements: impl Iterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut vec = vec![];
    vec.make_exact_room(elements.size_hint().0)?;
    for element in elements {
        push(&mut vec, element)?;
    }
    Ok(vec)
}

/// Checks that a number of bytes can be allocated now.
///
/// # Errors
/// They cannot.
pub fn probe(bytes: usize) -> Result<(), OutOfMemory> {
    Vec::<u8>::new().make_exact_room(bytes)
}

#[cold]
fn ask(request: impl FnOnce() -> Result<(), TryReserveError>) -> Result<(), OutOfMemory> {
    let before = MAY_BE_REFUSED.replace(true);
    let answer = request();
    MAY_BE_REFUSED.set(before);
    answer.map_err(|_| OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error() {
        const TOO_MUCH: usize = usize::MAX / 32;
        assert_eq!(filled(TOO_MUCH, 0_u64), Err(OutOfMemory));
        assert_eq!(probe(usize::MAX / 4), Err(OutOfMemory));
        let mut vec = vec![1_u8];
        assert_eq!(vec.make_room(usize::MAX / 4), Err(OutOfMemory));
        assert_eq!(
            (vec, may_be_refused()),
            (vec![1], false),
            "nothing has changed"
        );
    }

    #[test]
    fn elements_are_those_that_were_given() {
        let mut vec = collect((0..10).filter(|x| x % 3 == 0)).unwrap();
        push(&mut vec, 12).unwrap();
        append(&mut vec, &[15, 18]).unwrap();
        assert_eq!(vec, [0, 3, 6, 9, 12, 15, 18]);
        assert_eq!(filled(3, 'a').unwrap(), ['a'; 3]);
    }
}
