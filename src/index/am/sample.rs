//! Which rows of a table to sample.

use super::{callbacks::BuildInput, relation::Value};
use crate::error::Error;

/// Number of places in the table that rows are sampled at. They are evenly spread, because rows
/// that were inserted together are often similar.
pub const PLACES: u32 = 64;
/// Maximum number of blocks that are read at each place.
const BLOCKS_PER_PLACE: u32 = 8;

/// Calls `f` with the indexed values of rows at [`PLACES`] places of a table, and with the number
/// of the place.
///
/// # Errors
/// What `f` returns is raised.
pub fn each_sampled_row(
    input: &BuildInput<'_>,
    mut f: impl FnMut(u32, Value<'_>) -> Result<(), Error>,
) {
    let blocks = u64::from(input.table().block_count());
    let places = u64::from(PLACES).min(blocks);
    for place in 0..places {
        let (start, end) = (place * blocks / places, (place + 1) * blocks / places);
        let count = (end - start).min(u64::from(BLOCKS_PER_PLACE));
        input.each_row_of(start as u32, count as u32, |value, _| {
            f(place as u32, value)
        });
    }
}
