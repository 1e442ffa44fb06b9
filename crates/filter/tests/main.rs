//! Filters: errors, rows and SQL.

mod errors;
mod rows;
mod sql;
