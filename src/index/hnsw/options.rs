//! `WITH (m = ..., ef_construction = ...)`.

use crate::{
    error::Error,
    index::am::{
        options::{IndexOption, OptionSet, OptionType, OptionValues},
        relation::Index,
    },
};

const DEFAULT_M: i32 = 16;
const DEFAULT_EF_CONSTRUCTION: i32 = 100;

pub static OPTIONS: OptionSet = OptionSet::new(&[
    // More links make the index larger and slower to build. Answers become better at equal
    // `rag.ef_search`, noticeably so above some 500 dimensions.
    IndexOption {
        name: c"m",
        description: c"Number of links of a node in the graph; twice as many on the base level",
        values: OptionType::Integer {
            default: DEFAULT_M,
            min: 2,
            max: 100,
        },
    },
    // More candidates make a better graph, in proportionally more time.
    IndexOption {
        name: c"ef_construction",
        description: c"Number of candidates among which the neighbours of a new node are chosen",
        values: OptionType::Integer {
            default: DEFAULT_EF_CONSTRUCTION,
            min: 4,
            max: 1000,
        },
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
        let given = index.options().unwrap_or_default();
        Self {
            m: given.integer(0).unwrap_or(DEFAULT_M) as u16,
            ef_construction: given.integer(1).unwrap_or(DEFAULT_EF_CONSTRUCTION) as u16,
        }
    }
}

/// # Errors
/// There are too few candidates to choose the links of a node from.
pub fn check(values: &OptionValues) -> Result<(), Error> {
    let (Some(m), Some(ef_construction)) = (values.integer(0), values.integer(1)) else {
        return Err(Error::internal("rag_hnsw has two options"));
    };
    if ef_construction < 2 * m {
        let message = "ef_construction must be greater than or equal to 2 * m";
        return Err(Error::invalid_parameter(message)
            .detail(format!("ef_construction is {ef_construction}, m is {m}.")));
    }
    Ok(())
}
