//! A table or view as the feed of a run.
//!
//! ```text
//! pages of (key, hash) ──or── queued keys ──▶ those that differ from what is stored ──▶ their text ──▶ rag-engine: extract, split
//! ```
//!
//! Each arrow is a transaction of its own, or none: nothing is held while the engine works. A row
//! that changes meanwhile is read again by the next run, because its hash differs, or because a
//! trigger has queued its key after this run had looked into the queue.
//!
//! Rows are read page by page in the order of a unique index. Where there is none (views, or
//! columns that are not known to be unique) keys and hashes of all rows are listed in one statement
//! and kept: some 200 bytes a row.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    time::{Duration, Instant},
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pgrx::PgSqlErrorCode;
use rag_protocol::{
    embed::{ModelInfo, ModelRef},
    identity::DocumentId,
    ingest::{Document, DocumentType, Event, Failure, Splitting, Stage},
    spec::{TableSpec, TableSync},
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::pipeline::Feed;
use crate::{
    catalog::{
        collections::Collection,
        documents,
        sources::{self, Identity, Source},
    },
    engine::client::{Client, Ticket, Unprepared},
    error::Error,
    pg::transaction::transaction,
    settings,
    source::table::{
        changes::{self, Pending},
        definition::arguments,
        identity,
        relation::Relation,
        rows::{Key, Listed, Row, Rows},
    },
};

/// Rows of a page: as many as take about this long.
const PAGE_TIME: Duration = Duration::from_millis(500);
const PAGE: std::ops::RangeInclusive<usize> = 50..=5000;
/// Rows and bytes whose text is read at once.
const BATCH_ROWS: usize = 2000;
const BATCH_BYTES: u64 = 8 << 20;
/// Documents and bytes that are with the engine.
const DEPTH: usize = 16;
const DEPTH_BYTES: usize = 8 << 20;

/// What stands for itself in the parts of a uri.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
const KEY: &AsciiSet = &NAME.remove(b'.');

/// The metadata key under which a document has the key of its row.
const ROW_KEY: &str = "row_key";

pub struct Table<'a> {
    source: &'a Source,
    spec: &'a TableSpec,
    collection: String,
    splitting: Splitting,
    chunking: String,
    model: ModelRef,
    client: Client,
    rows: Rows,
    /// The table's name without its schema.
    name: String,
    /// Uris without their keys.
    prefix: String,
    /// What must be the same for a run that looks at queued keys alone.
    definition: String,
    /// The queue is all that a later run needs to know.
    is_tracked: bool,
    /// Rows of the queue that are done with at the end.
    handled: Vec<i64>,
    work: Work,
    /// Rows whose text is to be read, with its size.
    wanted: VecDeque<(Key, u64)>,
    fetched: VecDeque<Row>,
    preparing: VecDeque<Preparing>,
    preparing_bytes: usize,
    ready: VecDeque<(Event, Vec<u8>)>,
    bytes_fetched: u64,
    skipped: u64,
    /// Time spent on reading rows, and on waiting for the engine to extract and split them.
    fetching: Duration,
    extracting: Duration,
    is_timed: bool,
}

/// What is left to be looked at.
enum Work {
    /// All rows, page by page.
    Pages { after: Option<Key>, size: usize },
    /// All rows, listed already.
    List(std::vec::IntoIter<Listed>),
    /// Certain rows.
    Keys(std::collections::btree_set::IntoIter<Key>),
    /// Nothing; whether all rows were looked at.
    Done { complete: bool },
}

/// A document that the engine has.
struct Preparing {
    ticket: Ticket,
    uri: String,
    key: Key,
    hash: String,
    bytes: usize,
    metadata: Map<String, Value>,
    row_key: Value,
}

impl<'a> Table<'a> {
    /// # Errors
    /// The relation or a column is gone, or the source's owner may not read it.
    pub fn start(
        source: &'a Source,
        spec: &'a TableSpec,
        collection: &Collection,
        model_ref: &ModelRef,
        model: &ModelInfo,
    ) -> Result<Self, Error> {
        let client = Client::connect()?;
        let chunking = collection.splitting.fingerprint(&model.fingerprint);
        let collection_name = collection.name.as_str();
        transaction(|| {
            let relation = present(source, spec)?;
            let rows = Rows::plan(&relation, spec)
                .map_err(|error| changes::missing(source.relation, &spec.relation, error))?
                .for_owner(&relation, source.owner.role()?)?;
            // also where nothing has changed: rights may have been taken away
            rows.check()?;
            let definition = definition(&relation, spec, &rows, &chunking);
            let prefix = format!(
                "table://{}.{}/",
                utf8_percent_encode(&relation.schema, NAME),
                utf8_percent_encode(&relation.name, NAME)
            );
            let arguments = arguments(source.name.as_str(), spec, &rows)?;
            let by_triggers = spec.sync == TableSync::Trigger;
            let is_tracked = by_triggers
                && relation.check_triggers(&spec.id_columns).is_ok()
                && changes::has_triggers(&source.name, &relation, &arguments)?;
            if by_triggers && !is_tracked {
                // what is not noted now must not be thought unchanged once the triggers are back
                changes::set_incomplete(&source.name)?;
                pgrx::log!(
                    "rag: source \"{}\" reads all of {}: its triggers are not all there",
                    source.name,
                    relation.quoted()
                );
            }
            let key_parts = spec.id_columns.len();
            let pending = match by_triggers {
                true => changes::pending(&source.name, key_parts)?,
                false => Pending {
                    ids: vec![],
                    keys: None,
                },
            };
            let known = match pending.keys {
                Some(keys)
                    if is_tracked
                        && changes::is_complete(&source.name, collection_name, &definition)? =>
                {
                    // what failed in an earlier run is tried again
                    let failed = documents::failed(collection_name, source.name.as_str())?;
                    keys_of(&failed, &prefix, key_parts)
                        .map(|failed| keys.union(&failed).cloned().collect::<BTreeSet<_>>())
                }
                _ => None,
            };
            let mut feed = Self {
                source,
                spec,
                collection: collection_name.to_string(),
                splitting: collection.splitting,
                chunking,
                model: model_ref.clone(),
                client,
                rows,
                name: relation.name.clone(),
                prefix,
                definition,
                is_tracked,
                handled: pending.ids,
                work: Work::Done { complete: false },
                wanted: VecDeque::new(),
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
            (feed.work, documents) = match known {
                Some(keys) => {
                    let count = keys.len() as u64;
                    (Work::Keys(keys.into_iter()), count)
                }
                None if relation.ordered_key(&spec.id_columns).is_some() => (
                    Work::Pages {
                        after: None,
                        size: 1000,
                    },
                    feed.rows.count()?,
                ),
                None => {
                    let listed = feed.list_all()?;
                    let count = listed.len() as u64;
                    (Work::List(listed.into_iter()), count)
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

    fn uri(&self, key: &Key) -> String {
        let key: Vec<String> = key
            .iter()
            .map(|part| utf8_percent_encode(part, KEY).to_string())
            .collect();
        format!("{}{}", self.prefix, key.join("/"))
    }

    fn emit(&mut self, event: Event) {
        self.ready.push_back((event, vec![]));
    }

    /// Lists the rows of a relation whose keys may be anything: those that are NULL or there twice
    /// are failures.
    fn list_all(&mut self) -> Result<Vec<Listed>, Error> {
        let (mut listed, mut without_key) = (vec![], 0);
        let mut seen: HashSet<Key> = HashSet::new();
        let mut twice: BTreeSet<Key> = BTreeSet::new();
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
                Some("They are not indexed. Choose id columns that are never NULL, or filter such rows out.".into()),
            )));
        }
        for key in twice {
            let uri = self.uri(&key);
            self.emit(Event::Failed(Failure::new(
                uri,
                Stage::Fetch,
                format!("several rows have the same values in the id columns ({columns})"),
                Some("None of them is indexed. Choose id columns that tell one row from every other.".into()),
            )));
        }
        Ok(listed)
    }

    /// [`Table::look_further`], timed.
    fn look_on(&mut self) -> Result<bool, Error> {
        let began = Instant::now();
        let is_more = self.look_further();
        self.fetching += began.elapsed();
        is_more
    }

    /// Looks at some more rows: unchanged ones are reported, the others are wanted. False where
    /// there are no more.
    fn look_further(&mut self) -> Result<bool, Error> {
        match &mut self.work {
            Work::Done { .. } => return Ok(false),
            Work::Pages { after, size } => {
                let (after, most) = (after.take(), *size);
                let started = Instant::now();
                let page = transaction(|| self.rows.page(after.as_ref(), most))?;
                let last = page.last().and_then(|row| row.key.clone());
                self.work = match last {
                    Some(last) if page.len() == most => {
                        let elapsed = started.elapsed();
                        let size = match elapsed {
                            e if e > PAGE_TIME * 2 => most / 2,
                            e if e < PAGE_TIME / 2 => most * 2,
                            _ => most,
                        };
                        Work::Pages {
                            after: Some(last),
                            size: size.clamp(*PAGE.start(), *PAGE.end()),
                        }
                    }
                    _ => Work::Done { complete: true },
                };
                self.sort_out(page)?;
            }
            Work::List(rest) => {
                let page: Vec<Listed> = rest.take(*PAGE.end()).collect();
                if page.is_empty() {
                    self.work = Work::Done { complete: true };
                }
                self.sort_out(page)?;
            }
            Work::Keys(rest) => {
                let keys: Vec<Key> = rest.take(*PAGE.end()).collect();
                if keys.is_empty() {
                    self.work = Work::Done { complete: false };
                    return Ok(true);
                }
                let found = transaction(|| self.rows.look_up(&keys))?;
                let mut page = vec![];
                for (asked, row) in found {
                    // another way of writing an equal key is another uri
                    if row.as_ref().and_then(|row| row.key.as_ref()) != Some(&asked) {
                        let uri = self.uri(&asked);
                        self.emit(Event::Removed { uri });
                    }
                    page.extend(row);
                }
                self.sort_out(page)?;
            }
        }
        Ok(true)
    }

    /// Reports the rows of a page that are stored as they are now, and wants the others.
    fn sort_out(&mut self, page: Vec<Listed>) -> Result<(), Error> {
        let mut uris = Vec::with_capacity(page.len());
        let mut ids = Vec::with_capacity(page.len());
        for row in &page {
            let uri = row
                .key
                .as_ref()
                .map(|key| self.uri(key))
                .unwrap_or_default();
            ids.push(DocumentId::derive(
                &self.collection,
                Some(self.source.name.as_str()),
                &uri,
            ));
            uris.push(uri);
        }
        let stored = transaction(|| documents::raw_hashes(&ids, &self.chunking))?;
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
                self.wanted.push_back((key, row.bytes));
            }
        }
        Ok(())
    }

    /// Reads the text of some of the wanted rows.
    fn fetch(&mut self) -> Result<(), Error> {
        let (mut keys, mut bytes) = (vec![], 0);
        while let Some((key, size)) = self.wanted.pop_front() {
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
                    // gone since it was listed
                    let uri = self.uri(&asked);
                    self.emit(Event::Removed { uri });
                }
            }
        }
        Ok(())
    }

    /// Gives a row to the engine, if there is anything in it.
    fn prepare(&mut self, row: Row) -> Result<(), Error> {
        let uri = self.uri(&row.key);
        let text = compose(self.spec, &row.texts);
        let Some(text) = text else {
            self.skipped += 1;
            self.emit(Event::Removed { uri });
            return Ok(());
        };
        let title = row
            .title
            .as_deref()
            .filter(|title| !title.trim().is_empty());
        let document = Unprepared {
            bytes: text.as_bytes(),
            document_type: Some(self.spec.document_type),
            title,
            ..Default::default()
        };
        let ticket = self
            .client
            .start_preparing(&self.model, self.splitting, &document)?;
        let bytes = text.len();
        self.preparing_bytes += bytes;
        self.bytes_fetched += bytes as u64;
        self.preparing.push_back(Preparing {
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

    /// Takes the oldest document back from the engine.
    fn take_prepared(&mut self) -> Result<(), Error> {
        let Some(document) = self.preparing.pop_front() else {
            return Ok(());
        };
        self.preparing_bytes -= document.bytes;
        let began = Instant::now();
        let prepared = self.client.finish_preparing(document.ticket);
        self.extracting += began.elapsed();
        match prepared {
            Ok((_, mut content, text)) => {
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
            Err(error) if is_about_document(&error) => {
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

impl Feed for Table<'_> {
    fn next_event(&mut self) -> Result<Option<(Event, Vec<u8>)>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.preparing.len() >= DEPTH || self.preparing_bytes >= DEPTH_BYTES {
                self.take_prepared()?;
            } else if let Some(row) = self.fetched.pop_front() {
                self.prepare(row)?;
            } else if !self.wanted.is_empty() {
                self.fetch()?;
            } else if self.look_on()? {
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
                let complete = matches!(self.work, Work::Done { complete: true });
                let (bytes_fetched, skipped) = (self.bytes_fetched, self.skipped);
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
            if !sources::exists(self.source)? {
                return Err(crate::run::process::source_gone(&self.source.name));
            }
            for ids in self.handled.chunks(10_000) {
                changes::handled(&self.source.name, ids)?;
            }
            if self.is_tracked {
                changes::set_complete(&self.source.name, &self.collection, &self.definition)?;
            }
            Ok(())
        })
    }
}

/// The relation that the source was made for.
///
/// # Errors
/// There is no relation of its name, or it is another one, or another role's.
fn present(source: &Source, spec: &TableSpec) -> Result<Relation, Error> {
    let name = &spec.relation;
    let owner = source.owner.role()?;
    let Some(now) = Identity::named(name)? else {
        let error = Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE, "it does not exist");
        return Err(changes::missing(source.relation, name, error));
    };
    identity::check(&source.name, name, source.relation, now)?;
    Relation::get(now.relation, name, owner)
}

/// What decides which documents there are and how they are cut, as a hash.
fn definition(relation: &Relation, spec: &TableSpec, rows: &Rows, chunking: &str) -> String {
    let all = serde_json::json!([
        relation.oid.to_u32(),
        spec.to_json(),
        rows.key_types(),
        rows.version(),
        chunking
    ]);
    hex::encode(Sha256::digest(all.to_string()))
}

/// The keys in some uris; `None` where one is not of this table.
fn keys_of(uris: &[String], prefix: &str, parts: usize) -> Option<BTreeSet<Key>> {
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

/// The text of a row: its content column as it is, or where there are several those that are not
/// blank, each below its name. `None` where all are blank.
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

/// Whether an error of the engine's is this document's alone.
fn is_about_document(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE
            | PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED
    )
}
