//! The functions that users call, a file per noun. Each converts its arguments, calls the domain, converts the result.
//! `sql/privileges.sql` says who may execute them; comments are in `sql/comments.sql`.

mod collection;
mod document;
mod model;
mod search;
mod source;
