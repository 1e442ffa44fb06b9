//! Updates category and tags of documents whose text has not changed to the source's definition.
//! Nothing is fetched or embedded again.

use rag_definition::labels::Labels;

use super::report::Report;
use crate::{
    catalog::{
        labels,
        sources::{self, Source},
    },
    error::Error,
    pg::spi::owner_transaction,
};

/// The number of documents that are checked in one transaction.
const PAGE_DOCUMENTS: i64 = 1000;

/// Sets the labels of all stored documents of a source to those of its present definition and of
/// their metadata. Does nothing if the last run had the same definition.
pub fn follow(source: &Source, report: &mut Report) -> Result<(), Error> {
    if owner_transaction(|owner| labels::are_current(owner, source))? {
        return Ok(());
    }
    let mut after = None;
    loop {
        let last = owner_transaction(|owner| {
            if !sources::exists(owner, source)? {
                return Err(crate::run::process::source_dropped(&source.name));
            }
            let page = labels::next_documents(owner, source, after, PAGE_DOCUMENTS)?;
            for document in &page {
                let wanted = source
                    .document_labels
                    .or(Labels::of_metadata(&document.metadata));
                if wanted != document.labels {
                    labels::update_if_intact(owner, &source.collection, document.id, &wanted)?;
                }
            }
            Ok(page.last().map(|document| document.id))
        })?;
        match last {
            None => return owner_transaction(|owner| labels::set_current(owner, source)),
            next => after = next,
        }
        report.tick()?;
    }
}
