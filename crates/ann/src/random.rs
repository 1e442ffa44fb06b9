//! Random numbers from a seed, and the levels of nodes.

/// Returns the next number of SplitMix64: G. Steele, D. Lea and C. Flood, "Fast splittable
/// pseudorandom number generators", 2014.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns the first number of the generator with this seed.
pub fn mix(mut seed: u64) -> u64 {
    next(&mut seed)
}

/// Converts random bits to a number above 0 and at most 1.
pub fn uniform(bits: u64) -> f64 {
    ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Returns the level of a node, at most `max`: one in m nodes of a level is on the next one, too.
/// `uniform` is above 0 and at most 1.
pub fn level(m: usize, max: usize, uniform: f64) -> usize {
    let level = -uniform.max(f64::MIN_POSITIVE).ln() / (m.max(2) as f64).ln();
    (level as usize).min(max)
}
