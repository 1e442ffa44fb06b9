//! The metadata filter of `rag_search`: JSON to a typed tree to SQL with parameters.

mod condition;
mod error;
mod key;
mod operator;
mod parse;
mod sql;
mod test;
mod timestamp;
mod value;

pub use error::FilterError;
pub use parse::parse;
pub use sql::{Param, Sql};

/// How deep groups, and a value's arrays and objects, may nest.
pub const MAX_DEPTH: usize = 32;

/// How many conditions a filter may have, over all groups.
pub const MAX_CONDITIONS: usize = 1000;

/// A filter that is known to be well-formed.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: condition::Node,
}

impl Filter {
    /// Whether every row passes.
    pub fn is_unrestricted(&self) -> bool {
        self.root == condition::Node::All(Vec::new())
    }

    /// The condition for a WHERE clause, its placeholders numbered from `first_param` on; `true` for an empty filter.
    pub fn to_sql(&self, first_param: usize) -> Sql {
        sql::write(&self.root, first_param)
    }
}
