//! Inserting the text of one row.

use super::{cache, collected, tokens};
use crate::{
    error::Error,
    index::am::{
        NewRow,
        relation::{Index, Relation, Value},
    },
};

pub fn insert(
    table: Relation<'_>,
    index: Index<'_>,
    value: Value<'_>,
    row: NewRow,
) -> Result<(), Error> {
    let opened = cache::open_to_insert(index)?;
    let config = opened.config()?;
    let terms = value.with_text(|text| tokens::terms(config, text))?;
    if terms.is_empty() {
        return Ok(());
    }
    collected::add(table, index, &opened, row, &terms)
}
