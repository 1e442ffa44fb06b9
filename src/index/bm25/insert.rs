//! Inserting the text of one row.

use super::{cache, collected, index_error, tokens};
use crate::{
    error::Error,
    index::am::{
        NewRow,
        collected::is_collected,
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
    if is_collected(table, row) {
        return collected::add(index, &opened, value, row);
    }
    let analyzer = opened.analyzer()?;
    let terms = value.with_text(|text| tokens::terms(analyzer, text))?;
    if terms.is_empty() {
        return Ok(());
    }
    rag_bm25::insert(&opened.pages(index), row.tid, &terms).map_err(|e| index_error(*index, e))
}
