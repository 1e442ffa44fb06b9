//! Which nodes have the same code as an earlier one.

use std::hash::{DefaultHasher, Hasher};

use super::{Cancelled, NONE, Node, codes::Codes, threads};

/// For each node the first one whose code and factors equal its own, or [`NONE`] where it is the first itself.
pub(super) fn duplicates(codes: &Codes, tick: &mut impl FnMut(usize) -> bool) -> Result<Vec<Node>, Cancelled> {
    let duplicate_of = std::sync::OnceLock::new();
    threads::run(1, 0..1, || (), |(), _, _| _ = duplicate_of.set(find(codes)), tick)?;
    Ok(duplicate_of.into_inner().unwrap_or_default())
}

fn find(codes: &Codes) -> Vec<Node> {
    let nodes = codes.len() as Node;
    let mut hashes: Vec<(u64, Node)> = (0..nodes).map(|node| (hash(codes, node), node)).collect();
    hashes.sort_unstable();
    let mut duplicate_of = vec![NONE; codes.len()];
    let mut firsts: Vec<Node> = vec![];
    for same_hash in hashes.chunk_by(|a, b| a.0 == b.0) {
        firsts.clear();
        for &(_, node) in same_hash {
            match firsts.iter().find(|first| equal(codes, **first, node)) {
                Some(first) => duplicate_of[node as usize] = *first,
                None => firsts.push(node),
            }
        }
    }
    duplicate_of
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
