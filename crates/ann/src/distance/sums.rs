//! The loops that the kernels of all vector units share.

/// Defines the sums over vectors of an element type, in vectors of a unit. What they need is in
/// scope: `LANES`, `zero`, `add`, `multiply_add` (x y + sum), `add_squared_difference`,
/// `add_absolute_difference`, `reduce_add`, `load` and `load_partial`.
///
/// Those of two element types add in the same order. So the sum of halves is, bit for bit, that of
/// the same numbers in f32.
macro_rules! define_sums {
    ($features:literal, $vector:ty, $element:ty) => {
        #[target_feature(enable = $features)]
        pub(in super::super) fn l2_squared(a: &[$element], b: &[$element]) -> f32 {
            sum(a, b, |acc, x, y| add_squared_difference(acc, x, y))
        }

        #[target_feature(enable = $features)]
        pub(in super::super) fn inner_product(a: &[$element], b: &[$element]) -> f32 {
            sum(a, b, |acc, x, y| multiply_add(x, y, acc))
        }

        #[target_feature(enable = $features)]
        pub(in super::super) fn l1(a: &[$element], b: &[$element]) -> f32 {
            sum(a, b, |acc, x, y| add_absolute_difference(acc, x, y))
        }

        #[target_feature(enable = $features)]
        pub(in super::super) fn cosine_sums(a: &[$element], b: &[$element]) -> CosineSums<f32> {
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
        fn sum(
            a: &[$element],
            b: &[$element],
            step: impl Fn($vector, $vector, $vector) -> $vector,
        ) -> f32 {
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

/// Returns the first `N` elements, or all, followed by zeros.
#[inline]
pub(super) fn padded<E: Copy + Default, const N: usize>(tail: &[E]) -> [E; N] {
    let mut lanes = [E::default(); N];
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = x;
    }
    lanes
}
