//! A table or view as the feed of a run.
//!
//! ```text
//! pages of (key, hash) ──or── queued keys ──▶ rows that differ from what is stored
//!     ──▶ their text ──▶ rag-engine: extract, split
//! ```
//!
//! Each arrow is one transaction or none: no transaction is open while the engine works. A row that
//! changes meanwhile is read again by the next run: either its hash differs, or a trigger has
//! queued its key after this run has read the queue.
//!
//! Rows are read page by page in the order of a unique index. Without one (views, or columns that
//! are not known to be unique), one statement lists keys and hashes of all rows, and the run keeps
//! them in memory: about 200 bytes a row.

mod listing;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pgrx::PgSqlErrorCode;
use rag_definition::{
    DocumentType,
    source::{TableSpec, TableSync},
};
use rag_protocol::{
    ingest::{Document, Event, Failure, Splitting, Stage},
    skipped::SkippedFiles,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use self::listing::RemainingRows;
use super::{feed::Feed, indexer::Indexer};
use crate::{
    catalog::{
        documents,
        sources::{self, RelationIdentity, Source},
    },
    engine::client::{Client, DocumentInput, Ticket, TokenSource},
    error::Error,
    pg::{spi::as_owner, transaction::transaction},
    source::table::{
        changes::{self, PendingChanges},
        definition::arguments,
        identity,
        relation::SourceRelation,
        rows::{RowKey, RowReader, TableRow},
    },
};

/// The maximum number of rows, and bytes of their texts, that one statement reads.
const BATCH_ROWS: usize = 2000;
const BATCH_BYTES: u64 = 8 << 20;
/// The maximum number of documents, and bytes of their texts, that the engine has at a time.
const MAX_PREPARING: usize = 16;
const MAX_PREPARING_BYTES: usize = 8 << 20;

/// The characters that are not encoded in the parts of a uri.
const NAME_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
const KEY_CHARACTERS: &AsciiSet = &NAME_CHARACTERS.remove(b'.');

/// The metadata key for the key of a document's row.
const ROW_KEY: &str = "row_key";

pub struct TableFeed<'a> {
    source: &'a Source,
    spec: &'a TableSpec,
    collection: String,
    /// The name of the collection that ids of documents are made from.
    ids_from: String,
    splitting: Splitting,
    chunking: String,
    tokens: TokenSource,
    client: Client,
    rows: RowReader,
    /// The name of the table without its schema.
    name: String,
    /// The part of uris before the key.
    prefix: String,
    /// A hash of the definition. A run may read only the queued keys if it has not changed.
    definition: String,
    /// All triggers exist, so that a later run needs only the queue.
    is_tracked: bool,
    /// The rows of the queue that are deleted at the end of the run.
    handled_changes: Vec<i64>,
    remaining: RemainingRows,
    /// The rows whose text is to be read, with its size.
    to_fetch: VecDeque<(RowKey, u64)>,
    fetched: VecDeque<TableRow>,
    preparing: VecDeque<PreparingDocument>,
    preparing_bytes: usize,
    ready: VecDeque<(Event, Vec<u8>)>,
    bytes_fetched: u64,
    skipped: u64,
    /// The time spent on reading rows, and on waiting for the engine to extract and split them.
    fetching: Duration,
    extracting: Duration,
    is_timed: bool,
}

/// A document that the engine extracts and splits.
struct PreparingDocument {
    ticket: Ticket,
    uri: String,
    key: RowKey,
    hash: String,
    bytes: usize,
    metadata: Map<String, Value>,
    row_key: Value,
}

impl<'a> TableFeed<'a> {
    /// # Errors
    /// The relation or a column does not exist, or the source's owner may not read it.
    pub fn start(
        source: &'a Source,
        spec: &'a TableSpec,
        indexer: &Indexer,
    ) -> Result<Self, Error> {
        let client = Client::connect()?;
        let (collection, chunking) = (&indexer.collection, indexer.chunking());
        let collection_name = collection.name.as_str();
        transaction(|| {
            let relation = current_relation(source, spec)?;
            let rows = RowReader::plan(&relation, spec)
                .map_err(|error| changes::explain_missing(source.relation, &spec.relation, error))?
                .for_owner(&relation, source.owner.role()?)?;
            // also if nothing has changed: permissions may have been revoked
            rows.check()?;
            let definition = definition(&relation, spec, &rows, &chunking);
            let prefix = format!(
                "table://{}.{}/",
                utf8_percent_encode(&relation.schema, NAME_CHARACTERS),
                utf8_percent_encode(&relation.name, NAME_CHARACTERS)
            );
            let arguments = arguments(source.name.as_str(), spec, &rows)?;
            let by_triggers = spec.sync == TableSync::Trigger;
            let is_tracked = by_triggers
                && relation.check_triggers(&spec.id_columns).is_ok()
                && changes::has_triggers(&source.name, &relation, &arguments)?;
            if by_triggers && !is_tracked {
                // changes that are not recorded now must be found once the triggers exist again
                changes::set_incomplete(&source.name)?;
                pgrx::log!(
                    "rag: source \"{}\" reads all of {}: some of its triggers are missing",
                    source.name,
                    relation.quoted()
                );
            }
            let key_parts = spec.id_columns.len();
            let pending = if by_triggers {
                changes::read_pending(&source.name, key_parts)?
            } else {
                PendingChanges {
                    ids: vec![],
                    keys: None,
                }
            };
            let known = match pending.keys {
                Some(keys)
                    if is_tracked
                        && changes::is_complete(&source.name, collection_name, &definition)? =>
                {
                    // documents that failed in an earlier run are retried
                    let failed = as_owner(|owner| {
                        documents::failed_uris(owner, collection_name, source.name.as_str())
                    })?;
                    keys_of(&failed, &prefix, key_parts)
                        .map(|failed| keys.union(&failed).cloned().collect::<BTreeSet<_>>())
                }
                _ => None,
            };
            let mut feed = Self {
                source,
                spec,
                collection: collection_name.to_string(),
                ids_from: collection.ids_from.clone(),
                splitting: collection.splitting(),
                chunking,
                tokens: indexer.embedder.token_source(),
                client,
                rows,
                name: relation.name.clone(),
                prefix,
                definition,
                is_tracked,
                handled_changes: pending.ids,
                remaining: RemainingRows::Done { complete: false },
                to_fetch: VecDeque::new(),
                fetched: VecDeque::new(),
                preparing: VecDeque::new(),
                preparing_bytes: 0,
                ready: VecDeque::new(),
                bytes_fetched: 0,
                skipped: 0,
                fetching: Duration::ZERO,
                extracting: Duration::ZERO,
                is_timed: false,
            };
            let documents;
            (feed.remaining, documents) = match known {
                Some(keys) => {
                    let count = keys.len() as u64;
                    (RemainingRows::Keys(keys.into_iter()), count)
                }
                None if relation.ordered_key(&spec.id_columns).is_some() => (
                    RemainingRows::Pages {
                        after: None,
                        size: 1000,
                    },
                    feed.rows.count()?,
                ),
                None => {
                    let listed = feed.list_all()?;
                    let count = listed.len() as u64;
                    (RemainingRows::List(listed.into_iter()), count)
                }
            };
            feed.ready.push_front((
                Event::Started {
                    documents,
                    commit: None,
                },
                vec![],
            ));
            Ok(feed)
        })
    }

    fn uri(&self, key: &RowKey) -> String {
        let key: Vec<String> = key
            .iter()
            .map(|part| utf8_percent_encode(part, KEY_CHARACTERS).to_string())
            .collect();
        format!("{}{}", self.prefix, key.join("/"))
    }

    fn emit(&mut self, event: Event) {
        self.ready.push_back((event, vec![]));
    }

    /// Reads the text of some of the rows to fetch.
    fn fetch(&mut self) -> Result<(), Error> {
        let (mut keys, mut bytes) = (vec![], 0);
        while let Some((key, size)) = self.to_fetch.pop_front() {
            bytes += size;
            keys.push(key);
            if keys.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
                break;
            }
        }
        let began = Instant::now();
        let found = transaction(|| self.rows.fetch(&keys))?;
        self.fetching += began.elapsed();
        for (asked, row) in found {
            match row {
                Some(row) => self.fetched.push_back(row),
                None => {
                    // deleted since it was listed
                    let uri = self.uri(&asked);
                    self.emit(Event::Removed { uri, warning: None });
                }
            }
        }
        Ok(())
    }

    /// Sends a row to the engine, unless it has no text.
    fn prepare(&mut self, row: TableRow) -> Result<(), Error> {
        let uri = self.uri(&row.key);
        let text = compose(self.spec, &row.texts);
        let Some(text) = text else {
            self.skipped += 1;
            self.emit(Event::Removed { uri, warning: None });
            return Ok(());
        };
        let title = row
            .title
            .as_deref()
            .filter(|title| !title.trim().is_empty());
        let document = DocumentInput {
            bytes: text.as_bytes(),
            document_type: Some(self.spec.document_type),
            title,
            ..Default::default()
        };
        let ticket = self
            .client
            .start_preparing(&self.tokens, self.splitting, &document)?;
        let bytes = text.len();
        self.preparing_bytes += bytes;
        self.bytes_fetched += bytes as u64;
        self.preparing.push_back(PreparingDocument {
            ticket,
            uri,
            key: row.key,
            hash: row.hash,
            bytes,
            metadata: row.metadata,
            row_key: row.row_key,
        });
        Ok(())
    }

    /// Receives the oldest document from the engine.
    fn take_prepared(&mut self) -> Result<(), Error> {
        let Some(document) = self.preparing.pop_front() else {
            return Ok(());
        };
        self.preparing_bytes -= document.bytes;
        let began = Instant::now();
        let prepared = self.client.finish_preparing(document.ticket);
        self.extracting += began.elapsed();
        match prepared {
            Ok((mut content, text)) => {
                if !content.title.own {
                    content.title.text = format!("{} {}", self.name, document.key.join(" "));
                }
                content.metadata.extend(document.metadata);
                content.metadata.insert(ROW_KEY.into(), document.row_key);
                let document = Document {
                    uri: document.uri,
                    raw_hash: document.hash,
                    bytes: document.bytes as u64,
                    validator: None,
                    content,
                };
                self.ready
                    .push_back((Event::Document(Box::new(document)), text.into_bytes()));
                Ok(())
            }
            Err(error) if error.cause().is_in_input() => {
                let (message, hint) = (error.message, error.hint);
                self.emit(Event::Failed(Failure::new(
                    document.uri,
                    Stage::Extract,
                    message,
                    hint,
                )));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Feed for TableFeed<'_> {
    fn lists_all(&self) -> bool {
        !matches!(self.remaining, RemainingRows::Keys(_))
    }

    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.preparing.len() >= MAX_PREPARING || self.preparing_bytes >= MAX_PREPARING_BYTES
            {
                self.take_prepared()?;
            } else if let Some(row) = self.fetched.pop_front() {
                self.prepare(row)?;
            } else if !self.to_fetch.is_empty() {
                self.fetch()?;
            } else if self.list_more_timed()? {
            } else if !self.preparing.is_empty() {
                self.take_prepared()?;
            } else if !self.is_timed {
                self.is_timed = true;
                let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                let (fetch_ms, extract_ms) = (ms(self.fetching), ms(self.extracting));
                return Ok(Some((
                    Event::Worked {
                        fetch_ms,
                        extract_ms,
                    },
                    vec![],
                )));
            } else {
                let complete = matches!(self.remaining, RemainingRows::Done { complete: true });
                let bytes_fetched = self.bytes_fetched;
                let skipped = SkippedFiles {
                    others: self.skipped,
                    ..SkippedFiles::default()
                };
                return Ok(Some((
                    Event::Finished {
                        complete,
                        bytes_fetched,
                        skipped,
                    },
                    vec![],
                )));
            }
        }
    }

    fn done(&mut self) -> Result<(), Error> {
        if self.spec.sync == TableSync::Scan {
            return Ok(());
        }
        transaction(|| {
            if !as_owner(|owner| sources::exists(owner, self.source))? {
                return Err(crate::run::process::source_dropped(&self.source.name));
            }
            for ids in self.handled_changes.chunks(10_000) {
                changes::delete_handled(&self.source.name, ids)?;
            }
            if self.is_tracked {
                changes::set_complete(&self.source.name, &self.collection, &self.definition)?;
            }
            Ok(())
        })
    }
}

/// Returns the relation that the source was created for.
///
/// # Errors
/// No relation has this name, or it is another relation, or it has another owner.
fn current_relation(source: &Source, spec: &TableSpec) -> Result<SourceRelation, Error> {
    let name = &spec.relation;
    let owner = source.owner.role()?;
    let Some(now) = RelationIdentity::by_name(name)? else {
        let error = Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE, "it does not exist");
        return Err(changes::explain_missing(source.relation, name, error));
    };
    identity::check(&source.name, name, source.relation, now)?;
    SourceRelation::get(now.relation, name, owner)
}

/// Returns a hash of everything that decides which documents exist and how they are split.
fn definition(
    relation: &SourceRelation,
    spec: &TableSpec,
    rows: &RowReader,
    chunking: &str,
) -> String {
    let all = serde_json::json!([
        relation.oid.to_u32(),
        spec.to_json(),
        rows.key_types(),
        rows.version(),
        chunking
    ]);
    hex::encode(Sha256::digest(all.to_string()))
}

/// Returns the keys in some uris, or None if one is not a uri of this table.
fn keys_of(uris: &[String], prefix: &str, parts: usize) -> Option<BTreeSet<RowKey>> {
    uris.iter()
        .map(|uri| {
            let key = uri.strip_prefix(prefix)?.split('/');
            let key: Vec<String> = key
                .map(|part| Some(percent_decode_str(part).decode_utf8().ok()?.into_owned()))
                .collect::<Option<_>>()?;
            (key.len() == parts).then_some(key)
        })
        .collect()
}

/// Returns the text of a row: its only content column unchanged, or those of several columns that
/// are not blank, each below its name. Returns None if all are blank.
fn compose(spec: &TableSpec, texts: &[Option<String>]) -> Option<String> {
    let texts = spec
        .content_columns
        .iter()
        .zip(texts)
        .filter_map(|(column, text)| {
            let text = text.as_deref().filter(|text| !text.trim().is_empty())?;
            Some((column, text))
        });
    let text = if spec.content_columns.len() == 1 {
        texts.map(|(_, text)| text.to_string()).collect()
    } else {
        let labelled = texts.map(|(column, text)| match spec.document_type {
            DocumentType::Html => format!("<p>{column}:</p>\n{text}"),
            _ => format!("{column}:\n\n{text}"),
        });
        labelled.collect::<Vec<_>>().join("\n\n")
    };
    (!text.is_empty()).then_some(text)
}
