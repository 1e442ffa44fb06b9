//! `RagCountScan`: a plan for `SELECT count(*) FROM posts WHERE body @@@ 'words'`.
//!
//! It is an aggregate and the scan below it at once, for a level that only counts the rows of a
//! table, and whose only condition is that of the index. As an index-only scan, it visits the rows
//! of those blocks that the visibility map does not call visible to all. A condition of row-level
//! security is another condition, so that the planner counts otherwise.
//!
//! | file | contents |
//! |---|---|
//! | [`path`] | when the planner is offered the plan, and what it costs |
//! | [`node`] | how it is executed and explained |
//! | [`rows`] | the rows that are counted |

mod node;
mod path;
mod rows;

use std::ffi::CStr;

const NAME: &CStr = c"RagCountScan";

pub use node::register;
pub use path::add as add_path;
