//! `rag_types.halfvec`: an array of floats of 16 bits with a fixed number of dimensions.
//!
//! Text form, binary form and layout in memory are those of pgvector's `halfvec`. [`super::vector`]
//! has what both types do. This folder has the functions that `sql/halfvec.sql` declares.

mod cast;
mod distance;
mod io;
mod order;
mod values;

use rag_ann::half::Half;

use super::vector::{Elements, OwnedElements};

/// A value that PostgreSQL passed in.
type Halfvec<'a> = Elements<'a, Half>;

/// A value to be returned.
type OwnedHalfvec = OwnedElements<Half>;
