//! SQL statements.
//!
//! A statement runs through a token of rights. [`as_owner`] and its siblings take on the rights of
//! a role for the time of a closure, and lend the closure a token. A function that needs the rights
//! of the extension's owner takes the token [`OwnerRights`].
//!
//! | file | contents |
//! |---|---|
//! | [`rights`] | the tokens |
//! | [`statement`] | statements: parsed each time, kept, or read in portions |
//! | [`row`] | rows, whose columns have names, and values for parameters |

mod rights;
mod row;
mod statement;

pub use rights::{
    OwnerRights, Rights, as_caller, as_owner, as_source_owner, as_table_owner, owner_transaction,
};
pub(super) use row::{ReadRow, collect, read_rows};
pub use row::{Row, array_literal, column, filter_argument, uuid};
