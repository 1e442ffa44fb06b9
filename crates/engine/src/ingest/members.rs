//! Files that hold other files: archives, mailboxes, and messages with attachments. Each file in
//! one is a document of its own.
//!
//! | | |
//! |---|---|
//! | uri | that of the container, `!/`, and the path in it: `file:///srv/a.zip!/docs/keys.md` |
//! | name | the container's, as if it were a folder: `a.zip/docs/keys.md` |
//! | metadata | those of the container, and `parent_uri` |
//! | validator | that of the container; the last document also has their number |
//!
//! The number tells whether all documents of a container are stored. If they are and its validator
//! is the same, it is not fetched again. Else the hash of each file tells whether it has changed.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    path::Path,
};

use percent_encoding::utf8_percent_encode;
use rag_document::{Container, DocumentError, Member, TokenCounter, Unpacking};
use rag_protocol::{
    ingest::{Event, Failure, KnownVersion, Stage},
    skipped::SkippedFiles,
};
use rag_source::{ENCODED, FetchedContent, SourceItem, Verdict};

use super::document::{File, Outcome, PARENT_URI, Reader};

/// Between the uri of a container and the path of a file in it.
const SEPARATOR: &str = "!/";
/// Maximum number of containers in each other.
const MAX_DEPTH: usize = 3;

/// The stored documents that containers hold.
#[derive(Debug, Default)]
pub struct StoredMembers<'a> {
    /// By the uri of the container.
    members: HashMap<&'a str, Vec<(&'a str, &'a KnownVersion)>>,
}

/// What is stored of an item.
#[derive(Debug, Default)]
pub struct StoredItem<'a> {
    /// None: nothing is, or not all that the item holds.
    pub version: Option<KnownVersion>,
    /// The documents with that version.
    uris: Vec<&'a str>,
    /// It holds documents.
    is_container: bool,
    /// It is a document, and holds no others.
    is_alone: bool,
}

impl<'a> StoredMembers<'a> {
    pub fn new(known: &'a HashMap<String, KnownVersion>) -> Self {
        let mut members: HashMap<&str, Vec<_>> = HashMap::new();
        for (uri, version) in known {
            for (at, _) in uri.match_indices(SEPARATOR) {
                let stored = (&**uri, version);
                members.entry(&uri[..at]).or_default().push(stored);
            }
        }
        Self { members }
    }

    /// Returns what is stored of an item. `own` is the document of the item itself.
    pub fn of(&self, item: &'a SourceItem, own: Option<&'a KnownVersion>) -> StoredItem<'a> {
        if rag_document::container(&item.name, None).is_some()
            || self.members.contains_key(&*item.uri)
        {
            return self.whole(&item.uri, own).unwrap_or(StoredItem {
                is_container: true,
                ..StoredItem::default()
            });
        }
        StoredItem {
            version: own.cloned(),
            uris: vec![&item.uri],
            is_container: false,
            is_alone: true,
        }
    }

    /// Returns what is stored of a container, if no document of it is missing.
    fn whole(&self, uri: &'a str, own: Option<&'a KnownVersion>) -> Option<StoredItem<'a>> {
        let members = self.members.get(uri).into_iter().flatten().copied();
        let own_document = own.map(|own| (uri, own)).into_iter();
        let stored: Vec<(&str, &KnownVersion)> = own_document.chain(members).collect();
        let validators = stored
            .iter()
            .map(|(_, version)| version.validator.as_deref());
        let counted = format!("{OF}{}", stored.len());
        let validator = match own {
            Some(own) if stored.len() == 1 => own.validator.as_deref()?,
            _ => validators
                .clone()
                .find_map(|validator| validator?.strip_suffix(&*counted))?,
        };
        let is_same = |stored: &str| {
            let rest = stored.strip_prefix(validator);
            rest.is_some_and(|rest| rest.is_empty() || rest == counted)
        };
        if !validators.into_iter().all(|it| it.is_some_and(is_same)) {
            return None;
        }
        let version = KnownVersion {
            raw_hash: own.map(|own| own.raw_hash.clone()).unwrap_or_default(),
            validator: Some(validator.to_owned()),
        };
        Some(StoredItem {
            version: Some(version),
            is_alone: own.is_some() && stored.len() == 1,
            uris: stored.into_iter().map(|(uri, _)| uri).collect(),
            is_container: true,
        })
    }
}

impl StoredItem<'_> {
    /// Returns the reports of the documents, which have not changed, with their validator if it
    /// has.
    pub fn unchanged(&self, validator: Option<&str>) -> impl Iterator<Item = Outcome> {
        self.uris.iter().enumerate().map(move |(n, uri)| {
            let is_last = !self.is_alone && n + 1 == self.uris.len();
            let validator = validator.map(|validator| match is_last {
                true => format!("{validator}{OF}{}", self.uris.len()),
                false => validator.to_owned(),
            });
            let uri = (*uri).to_owned();
            Outcome::Report(Event::Unchanged { uri, validator }, String::new())
        })
    }

    /// Returns the reports of an item that could not be fetched.
    pub fn failed(&self, failure: Failure) -> impl Iterator<Item = Outcome> {
        let container = failure.uri.clone();
        let kept = self.is_container.then_some(Event::Kept { container });
        [Some(Event::Failed(failure)), kept]
            .into_iter()
            .flatten()
            .map(|event| Outcome::Report(event, String::new()))
    }
}

/// Before the number of documents of a container, in the validator of its last one.
const OF: &str = " of ";

/// What is sent of a container.
struct Sink<'s> {
    send: &'s dyn Fn(Outcome),
    /// The last document, which waits for the number of all.
    held: Option<Outcome>,
    documents: usize,
}

impl Sink<'_> {
    fn push(&mut self, outcome: Outcome) {
        let is_document = match &outcome {
            Outcome::Report(Event::Document(_) | Event::Unchanged { .. }, _) => true,
            Outcome::Report(Event::Failed(_), _) => {
                // It is not stored: the container is read again.
                self.documents += 1;
                false
            }
            _ => false,
        };
        if !is_document {
            (self.send)(outcome);
            return;
        }
        self.documents += 1;
        if let Some(before) = self.held.replace(outcome) {
            (self.send)(before);
        }
    }

    /// Sends the last document. `is_alone` is true for a message without attachments, which is
    /// stored as any file.
    fn end(mut self, validator: Option<&str>, is_alone: bool) {
        let Some(mut last) = self.held.take() else {
            return;
        };
        if let (Some(validator), false) = (validator, is_alone) {
            let counted = Some(format!("{validator}{OF}{}", self.documents));
            match &mut last {
                Outcome::Report(Event::Document(document), _) => document.validator = counted,
                Outcome::Report(Event::Unchanged { validator, .. }, _) => *validator = counted,
                _ => {}
            }
        }
        (self.send)(last);
    }
}

impl<T: TokenCounter> Reader<'_, T> {
    /// Reads an item with all files that it holds, and sends what comes of them.
    pub fn read_all(&self, item: &SourceItem, fetched: &FetchedContent, send: &dyn Fn(Outcome)) {
        let file = File::from(item);
        let media_type = fetched.media_type.as_deref();
        let Some(container) = rag_document::container(file.name, media_type) else {
            send(self.read(file, fetched));
            return;
        };
        let sink = RefCell::new(Sink {
            send,
            held: None,
            documents: 0,
        });
        let unpacking = Unpacking::of(
            fetched.bytes.len() as u64,
            self.max_file_bytes,
            self.reads_pictures,
        );
        let left = Cell::new(unpacking.total);
        self.read_members(container, file, fetched, &left, 1, &sink);
        let is_document = container.is_document(&fetched.bytes);
        if is_document {
            sink.borrow_mut().push(self.read(file, fetched));
        }
        let sink = sink.into_inner();
        let is_alone = is_document && sink.documents == 1;
        sink.end(fetched.validator.as_deref(), is_alone);
    }

    /// Reads the files that a container holds. `left` is the number of bytes that they may have.
    fn read_members(
        &self,
        container: Container,
        file: File,
        fetched: &FetchedContent,
        left: &Cell<u64>,
        depth: usize,
        sink: &RefCell<Sink>,
    ) {
        let unpacking = Unpacking {
            member: self.max_file_bytes,
            total: left.get(),
            pictures: self.reads_pictures,
        };
        let done =
            self.extractors
                .unpack(&fetched.bytes, container, file.name, unpacking, |member| {
                    left.set(left.get().saturating_sub(member.bytes.len() as u64));
                    self.read_member(file, fetched, member, left, depth, sink);
                });
        match done {
            Ok(skipped) => sink.borrow_mut().push(Outcome::SkippedMembers(skipped)),
            // Reading the message itself finds the same.
            Err(_) if container.is_document(&fetched.bytes) => {
                let container = file.uri.to_owned();
                let kept = Outcome::Report(Event::Kept { container }, String::new());
                sink.borrow_mut().push(kept);
            }
            Err(error) => fail(file.uri, error, sink),
        }
    }

    fn read_member(
        &self,
        container: File,
        of: &FetchedContent,
        member: Member,
        left: &Cell<u64>,
        depth: usize,
        sink: &RefCell<Sink>,
    ) {
        let path = utf8_percent_encode(&member.path, ENCODED);
        let uri = format!("{}{SEPARATOR}{path}", container.uri);
        let name = format!("{}/{}", container.name, member.path);
        let file = File {
            uri: &uri,
            name: &name,
        };
        match self.member_filter.wants_below(Path::new(&name)) {
            Verdict::Wanted => {}
            Verdict::Unwanted => return,
            Verdict::Secret => {
                let keys = SkippedFiles {
                    keys: 1,
                    ..SkippedFiles::default()
                };
                sink.borrow_mut().push(Outcome::SkippedMembers(keys));
                return;
            }
        }
        if let Some(error) = member.error {
            return fail(&uri, error, sink);
        }
        let mut metadata = of.metadata.clone();
        metadata.insert(PARENT_URI.into(), container.uri.into());
        if metadata.contains_key("path") {
            metadata.insert("path".into(), name.clone().into());
        }
        let fetched = FetchedContent {
            bytes: member.bytes,
            validator: of.validator.clone(),
            media_type: member.media_type,
            metadata,
        };
        let media_type = fetched.media_type.as_deref();
        let Some(inner) = rag_document::container(&name, media_type) else {
            sink.borrow_mut().push(self.read(file, &fetched));
            return;
        };
        if depth < MAX_DEPTH {
            self.read_members(inner, file, &fetched, left, depth + 1, sink);
        } else if !inner.is_document(&fetched.bytes) {
            let message = format!("more than {MAX_DEPTH} archives are in each other");
            fail(&uri, DocumentError::new(Stage::Extract, message), sink);
        }
        if inner.is_document(&fetched.bytes) {
            sink.borrow_mut().push(self.read(file, &fetched));
        }
    }
}

/// Reports a container that could not be read completely.
fn fail(uri: &str, error: DocumentError, sink: &RefCell<Sink>) {
    let failure = Failure::new(uri, error.stage, error.message, error.hint);
    let container = uri.to_owned();
    let mut sink = sink.borrow_mut();
    sink.push(Outcome::Report(Event::Failed(failure), String::new()));
    sink.push(Outcome::Report(Event::Kept { container }, String::new()));
}
