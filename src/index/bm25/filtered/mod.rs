//! `RagFilteredScan`: a plan for `WHERE bucket < 10 ORDER BY body <@> 'words' LIMIT 10` that ranks
//! only the rows that another index has for the filter.
//!
//! The other index, or several, fill a bitmap of rows, as for a bitmap heap scan. Few rows of a
//! single index are read without one. The plan is a scan of the `rag_bm25` index that is restricted
//! to these rows. So only the best of them are read from the table. The scan itself is the same as
//! in other plans: it finds the version of a row that the snapshot sees. All conditions are checked
//! on each row that is returned.
//!
//! | file | contents |
//! |---|---|
//! | [`path`] | when the planner is offered the plan, and what it costs |
//! | [`node`] | how it is executed and explained |
//! | [`rows`] | how the rows of a single index are read |

mod node;
mod path;
mod rows;

use std::ffi::CStr;

const NAME: &CStr = c"RagFilteredScan";

pub use node::register;
pub use path::add as add_path;
