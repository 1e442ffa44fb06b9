//! The loops that the kernels of all vector units share.

/// Defines `cosine_sums` and `sum` for vectors of a type. The file has `LANES`, `zero`, `add`,
/// `multiply_add` (x y + sum), `reduce_add`, `load` and `load_partial` for it.
macro_rules! define_sums {
    ($features:literal, $vector:ty) => {
        #[target_feature(enable = $features)]
        pub(super) fn cosine_sums(a: &[f32], b: &[f32]) -> CosineSums<f32> {
            let (mut dot, mut a_squared, mut b_squared) = ([zero(); 2], [zero(); 2], [zero(); 2]);
            let mut add_products = |i: usize, x: $vector, y: $vector| {
                dot[i] = multiply_add(x, y, dot[i]);
                a_squared[i] = multiply_add(x, x, a_squared[i]);
                b_squared[i] = multiply_add(y, y, b_squared[i]);
            };
            let (a_blocks, a_tail) = a.as_chunks::<{ 2 * LANES }>();
            let (b_blocks, b_tail) = b.as_chunks::<{ 2 * LANES }>();
            for (x, y) in a_blocks.iter().zip(b_blocks) {
                add_products(0, load(x, 0), load(y, 0));
                add_products(1, load(x, 1), load(y, 1));
            }
            for (x, y) in a_tail.chunks(LANES).zip(b_tail.chunks(LANES)) {
                add_products(0, load_partial(x), load_partial(y));
            }
            let total = |sums: [$vector; 2]| reduce_add(add(sums[0], sums[1]));
            CosineSums {
                dot: total(dot),
                a: total(a_squared),
                b: total(b_squared),
            }
        }

        /// Folds `step(acc, x, y)` over all lanes. `step` must return `acc` if `x` and `y` are
        /// zero.
        #[inline]
        #[target_feature(enable = $features)]
        fn sum(a: &[f32], b: &[f32], step: impl Fn($vector, $vector, $vector) -> $vector) -> f32 {
            let mut sums = [zero(); 4];
            let (a_blocks, a_tail) = a.as_chunks::<{ 4 * LANES }>();
            let (b_blocks, b_tail) = b.as_chunks::<{ 4 * LANES }>();
            for (x, y) in a_blocks.iter().zip(b_blocks) {
                for (i, acc) in sums.iter_mut().enumerate() {
                    *acc = step(*acc, load(x, i), load(y, i));
                }
            }
            let tails = a_tail.chunks(LANES).zip(b_tail.chunks(LANES));
            for (acc, (x, y)) in sums.iter_mut().zip(tails) {
                *acc = step(*acc, load_partial(x), load_partial(y));
            }
            reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])))
        }
    };
}

pub(super) use define_sums;
