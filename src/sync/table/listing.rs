//! Lists the rows of a table, and finds those that differ from what is stored.

use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, Instant},
};

use rag_protocol::{
    identity::DocumentId,
    ingest::{Event, Failure, Stage},
};

use super::TableFeed;
use crate::{
    catalog::documents,
    error::Error,
    pg::{spi::owner_transaction, transaction::transaction},
    settings,
    source::table::rows::{RowKey, RowSummary},
};

/// The target time for a page. The number of its rows is adapted to it.
const PAGE_TIME: Duration = Duration::from_millis(500);
const PAGE_ROWS: std::ops::RangeInclusive<usize> = 50..=5000;
/// The rows that remain to be listed.
pub(super) enum RemainingRows {
    /// All rows, page by page.
    Pages { after: Option<RowKey>, size: usize },
    /// All rows, already listed.
    List(std::vec::IntoIter<RowSummary>),
    /// The rows with certain keys.
    Keys(std::collections::btree_set::IntoIter<RowKey>),
    /// None. `complete`: all rows of the table were listed.
    Done { complete: bool },
}

impl TableFeed<'_> {
    /// Lists the rows of a relation whose id columns may be NULL or not unique. Such rows are
    /// reported as failures.
    pub(super) fn list_all(&mut self) -> Result<Vec<RowSummary>, Error> {
        let (mut listed, mut without_key) = (vec![], 0);
        let mut seen: HashSet<RowKey> = HashSet::new();
        let mut twice: BTreeSet<RowKey> = BTreeSet::new();
        self.rows.all(|row| match &row.key {
            None => without_key += 1,
            Some(key) if !seen.insert(key.clone()) => {
                twice.insert(key.clone());
            }
            Some(_) => listed.push(row),
        })?;
        listed.retain(|row| row.key.as_ref().is_some_and(|key| !twice.contains(key)));
        let columns = self.spec.id_columns.join(", ");
        if without_key > 0 {
            self.emit(Event::Failed(Failure::new(
                &*self.prefix,
                Stage::Fetch,
                format!("{without_key} rows have NULL in an id column ({columns})"),
                Some(
                    "These rows are not indexed. Choose id columns that are never NULL, or \
                     exclude the rows with a filter."
                        .into(),
                ),
            )));
        }
        for key in twice {
            let uri = self.uri(&key);
            self.emit(Event::Failed(Failure::new(
                uri,
                Stage::Fetch,
                format!("several rows have the same values in the id columns ({columns})"),
                Some("None of these rows is indexed. Choose id columns that are unique.".into()),
            )));
        }
        Ok(listed)
    }

    /// Calls [`TableFeed::list_more`] and measures its time.
    pub(super) fn list_more_timed(&mut self) -> Result<bool, Error> {
        let began = Instant::now();
        let is_more = self.list_more();
        self.fetching += began.elapsed();
        is_more
    }

    /// Lists some more rows: reports the unchanged ones and queues the others. Returns false if no
    /// rows remain.
    fn list_more(&mut self) -> Result<bool, Error> {
        match &mut self.remaining {
            RemainingRows::Done { .. } => return Ok(false),
            RemainingRows::Pages { after, size } => {
                let (after, most) = (after.take(), *size);
                let started = Instant::now();
                let page = transaction(|| self.rows.page(after.as_ref(), most))?;
                let last = page.last().and_then(|row| row.key.clone());
                self.remaining = match last {
                    Some(last) if page.len() == most => {
                        let elapsed = started.elapsed();
                        let size = match elapsed {
                            e if e > PAGE_TIME * 2 => most / 2,
                            e if e < PAGE_TIME / 2 => most * 2,
                            _ => most,
                        };
                        RemainingRows::Pages {
                            after: Some(last),
                            size: size.clamp(*PAGE_ROWS.start(), *PAGE_ROWS.end()),
                        }
                    }
                    _ => RemainingRows::Done { complete: true },
                };
                self.compare_with_stored(page)?;
            }
            RemainingRows::List(rest) => {
                let page: Vec<RowSummary> = rest.take(*PAGE_ROWS.end()).collect();
                if page.is_empty() {
                    self.remaining = RemainingRows::Done { complete: true };
                }
                self.compare_with_stored(page)?;
            }
            RemainingRows::Keys(rest) => {
                let keys: Vec<RowKey> = rest.take(*PAGE_ROWS.end()).collect();
                if keys.is_empty() {
                    self.remaining = RemainingRows::Done { complete: false };
                    return Ok(true);
                }
                let found = transaction(|| self.rows.look_up(&keys))?;
                let mut page = vec![];
                for (asked, row) in found {
                    // another spelling of an equal key is another uri
                    if row.as_ref().and_then(|row| row.key.as_ref()) != Some(&asked) {
                        let uri = self.uri(&asked);
                        self.emit(Event::Removed { uri, warning: None });
                    }
                    page.extend(row);
                }
                self.compare_with_stored(page)?;
            }
        }
        Ok(true)
    }

    /// Reports the rows of a page that are unchanged, and queues the others.
    fn compare_with_stored(&mut self, page: Vec<RowSummary>) -> Result<(), Error> {
        let mut uris = Vec::with_capacity(page.len());
        let mut ids = Vec::with_capacity(page.len());
        for row in &page {
            let uri = row
                .key
                .as_ref()
                .map(|key| self.uri(key))
                .unwrap_or_default();
            ids.push(DocumentId::derive(
                &self.ids_from,
                Some(&self.source.ids_from),
                &uri,
            ));
            uris.push(uri);
        }
        let stored = owner_transaction(|owner| {
            documents::raw_hashes(owner, &self.collection, &ids, &self.chunking)
        })?;
        let most = settings::max_file_bytes();
        for ((row, id), uri) in page.into_iter().zip(ids).zip(uris) {
            let Some(key) = row.key else { continue };
            if stored.get(&id) == Some(&row.hash) {
                self.emit(Event::Unchanged {
                    uri,
                    validator: None,
                });
            } else if row.bytes > most {
                self.emit(Event::Failed(Failure::new(
                    uri,
                    Stage::Extract,
                    format!(
                        "the row has {} bytes of text, more than the limit of {most} bytes",
                        row.bytes
                    ),
                    Some(
                        "Raise rag.max_file_size, or leave the row out with the source's filter."
                            .into(),
                    ),
                )));
            } else {
                self.to_fetch.push_back((key, row.bytes));
            }
        }
        Ok(())
    }
}
