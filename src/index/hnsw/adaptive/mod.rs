//! `RagAdaptiveScan`: a plan for `WHERE kind = 3 ORDER BY embedding <=> $1 LIMIT 10` that is right
//! for a filter whose rows are near to the query, far from it, or anywhere.
//!
//! The index returns the nearest rows of all, and the filter drops what does not pass. That is fast
//! if the filter's rows are among the nearest, and slow if they are far away. Which of the two is
//! the case, statistics cannot tell. So the plan begins with the index. When that has returned rows
//! for a while and more are wanted, the plan reads all rows that pass the filter by another plan,
//! ranks them by their exact distance, and continues with these. So it never takes much longer than
//! the faster of the two plans.
//!
//! | file | contents |
//! |---|---|
//! | [`path`] | when the planner is offered the plan, and what it costs |
//! | [`node`] | how it is executed and explained |

mod node;
mod path;

use std::ffi::CStr;

const NAME: &CStr = c"RagAdaptiveScan";

pub use node::register;
pub use path::add_paths;
