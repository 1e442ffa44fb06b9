//! Inserting the text of one row.

use rag_pages::Tid;

use super::{cache, index_error, tokens};
use crate::{
    error::Error,
    index::am::relation::{Index, Value},
};

pub fn insert(index: Index<'_>, value: Value<'_>, tid: Tid) -> Result<(), Error> {
    let opened = cache::open(index)?;
    let config = opened.config()?;
    let terms = value.with_text(|text| tokens::terms(config, text))?;
    rag_bm25::insert(&opened.pages(index), tid, &terms).map_err(|e| index_error(*index, e))
}
