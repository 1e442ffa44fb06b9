//! Finds nodes that have the same code as an earlier one.
//!
//! Nodes are sorted by a hash of their codes, on all threads. Parts are divided by one bit of the
//! hash after another. Small parts are sorted.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    BuildError, NONE, Node,
    codes::Codes,
    threads::{Part, Stop, divide},
};
use crate::memory::{self, OutOfMemory, push};

/// Number of nodes of a part that is not divided further.
const SMALL: usize = 1024;

/// Returns for each node the first one whose code and factors equal its own, or [`NONE`] if it is
/// the first itself.
pub(super) fn duplicates(
    codes: &Codes,
    threads: usize,
    tick: &mut dyn FnMut() -> bool,
) -> Result<Vec<Node>, BuildError> {
    let mut hashes: Vec<(u64, Node)> = memory::filled(codes.len(), (0, NONE))?;
    divide(
        threads,
        &mut hashes,
        |part, _| Ok(hash_all(codes, part)),
        tick,
    )?;
    let duplicate_of: Vec<AtomicU32> =
        memory::collect((0..codes.len()).map(|_| AtomicU32::new(NONE)))?;
    divide(
        threads,
        &mut hashes,
        |part, stop| find(codes, part, stop, &duplicate_of),
        tick,
    )?;
    // The array stays at its place.
    Ok(duplicate_of
        .into_iter()
        .map(AtomicU32::into_inner)
        .collect())
}

/// Fills in hashes and nodes.
fn hash_all(codes: &Codes, part: &mut Part<'_, (u64, Node)>) -> Option<usize> {
    if part.items.len() > SMALL {
        return Some(part.items.len() / 2);
    }
    for (node, item) in (part.start as Node..).zip(&mut *part.items) {
        *item = (hash(codes, node), node);
    }
    None
}

/// Records the duplicates among nodes whose hashes begin with the same `part.depth` bits, or
/// divides them by the next bit.
fn find(
    codes: &Codes,
    part: &mut Part<'_, (u64, Node)>,
    stop: &Stop,
    duplicate_of: &[AtomicU32],
) -> Result<Option<usize>, OutOfMemory> {
    if part.items.len() > SMALL && part.depth < u64::BITS {
        let bit = 1 << (u64::BITS - 1 - part.depth);
        return Ok(Some(partition(part.items, |(hash, _)| hash & bit == 0)));
    }
    part.items.sort_unstable();
    let mut firsts: Vec<Node> = vec![];
    for same_hash in part.items.chunk_by(|a, b| a.0 == b.0) {
        if stop.is_wanted() {
            break;
        }
        firsts.clear();
        for &(_, node) in same_hash {
            match firsts.iter().find(|first| equal(codes, **first, node)) {
                Some(first) => duplicate_of[node as usize].store(*first, Ordering::Relaxed),
                None => push(&mut firsts, node)?,
            }
        }
    }
    Ok(None)
}

/// Moves the elements for the left side to the front. Returns their number.
fn partition<T>(items: &mut [T], is_left: impl Fn(&T) -> bool) -> usize {
    let mut left = 0;
    for i in 0..items.len() {
        if is_left(&items[i]) {
            items.swap(left, i);
            left += 1;
        }
    }
    left
}

fn equal(codes: &Codes, a: Node, b: Node) -> bool {
    factor_bits(codes, a) == factor_bits(codes, b) && codes.code(a) == codes.code(b)
}

fn hash(codes: &Codes, node: Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(codes.code(node));
    hasher.write_u64(factor_bits(codes, node));
    hasher.finish()
}

fn factor_bits(codes: &Codes, node: Node) -> u64 {
    let factors = codes.factors(node);
    u64::from(factors.scale.to_bits()) << 32 | u64::from(factors.bias.to_bits())
}
