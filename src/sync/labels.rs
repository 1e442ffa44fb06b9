//! Category and tags of documents whose text has not changed: they follow the source's definition
//! without anything being fetched or embedded again.

use rag_protocol::labels::Labels;

use super::report::Report;
use crate::{
    catalog::{
        labels,
        sources::{self, Source},
    },
    error::Error,
    pg::transaction::transaction,
};

/// Documents that are looked at in one transaction.
const PAGE: i64 = 1000;

/// Gives all stored documents of a source the labels that its present definition and their metadata
/// give them. Does nothing where the last run had the same definition.
pub fn follow(source: &Source, report: &mut Report) -> Result<(), Error> {
    if transaction(|| labels::are_current(source))? {
        return Ok(());
    }
    let mut after = None;
    loop {
        let last = transaction(|| {
            if !sources::exists(source)? {
                return Err(crate::run::process::source_gone(&source.name));
            }
            let page = labels::page(source, after, PAGE)?;
            for document in &page {
                let wanted = source
                    .document_labels
                    .or(Labels::of_metadata(&document.metadata));
                if wanted != document.labels {
                    labels::change(&source.collection, document.id, &wanted)?;
                }
            }
            Ok(page.last().map(|document| document.id))
        })?;
        match last {
            None => return transaction(|| labels::set_current(source)),
            next => after = next,
        }
        report.tick()?;
    }
}
