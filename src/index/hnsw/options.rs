//! `WITH (m = ..., ef_construction = ...)`.

use crate::{
    error::Error,
    index::am::{
        options::{IntegerOption, OptionSet},
        relation::Index,
    },
};

pub static OPTIONS: OptionSet = OptionSet::new(&[
    // More links make the index larger and slower to build. Answers become better at equal
    // `rag.ef_search`, noticeably so above some 500 dimensions.
    IntegerOption {
        name: c"m",
        description: c"Number of links of a node in the graph; twice as many on the base level",
        default: 16,
        min: 2,
        max: 100,
    },
    // More candidates make a better graph, in proportionally more time.
    IntegerOption {
        name: c"ef_construction",
        description: c"Number of candidates among which the neighbours of a new node are chosen",
        default: 100,
        min: 4,
        max: 1000,
    },
]);

/// Options of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswOptions {
    pub m: u16,
    pub ef_construction: u16,
}

impl HnswOptions {
    pub fn of(index: Index<'_>) -> Self {
        let given = index.options();
        let option = |number: usize| {
            let given = given.as_ref().and_then(|given| given.get(number));
            given.copied().unwrap_or(OPTIONS.options[number].default) as u16
        };
        Self {
            m: option(0),
            ef_construction: option(1),
        }
    }
}

/// # Errors
/// There are too few candidates to choose the links of a node from.
pub fn check(values: &[i32]) -> Result<(), Error> {
    let &[m, ef_construction] = values else {
        return Err(Error::internal("rag_hnsw has two options"));
    };
    if ef_construction < 2 * m {
        let message = "ef_construction must be greater than or equal to 2 * m";
        return Err(Error::invalid_parameter(message)
            .detail(format!("ef_construction is {ef_construction}, m is {m}.")));
    }
    Ok(())
}
