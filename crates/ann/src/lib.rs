//! Nearest-neighbour search over vectors, without Postgres.
//!
//! * [`distance`]: how far apart two `f32` vectors are, as fast as this CPU can tell.

pub mod distance;
