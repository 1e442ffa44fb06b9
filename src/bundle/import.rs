//! Reads a bundle into a new collection, in the caller's transaction.

use std::{
    collections::{BTreeMap, HashSet},
    io::Read,
    mem::take,
};

use rag_bundle::{
    BundleError, BundleFile, Chunk, Digest, Document, KnowledgeItem, LineReader, MAX_METADATA,
    Metadata, Record, Summed, npy::RowReader,
};
use rag_definition::model::Precision;
use rag_manifest::Manifest;
use rag_protocol::embed::ModelInfo;
use uuid::Uuid;

use super::{
    BundleSource,
    rename::Renaming,
    retriever,
    rows::{self, CollectionTimes},
};
use crate::{
    catalog::{
        collections::{Collection, StoredModel},
        name::Name,
        sources::{self, Source},
    },
    collection::{self, index, model, quotas},
    engine::client::with_client,
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{disk_space, lock::WriterLock, roles::Owner, spi::as_owner, wait::check_for_interrupts},
    source::manifest,
    types::vector::OwnedVector,
};

/// Rows and bytes that are written by one statement.
const BATCH_ROWS: usize = 500;
const BATCH_BYTES: usize = 4 << 20;
/// What a byte of a bundle takes on the disk: table, indexes, and log.
const SPACE_FACTOR: u64 = 2;

pub struct ImportRequest<'a> {
    /// None: the name in the bundle.
    pub name: Option<&'a str>,
    /// Creates the sources, too. Otherwise the documents are left without sources, like those of
    /// dropped ones.
    pub with_sources: bool,
}

pub struct Imported {
    pub collection: String,
    pub documents: i64,
    pub chunks: i64,
    pub bytes: i64,
}

/// # Errors
/// The bundle is damaged, or is of another model or version. The collection or a source exists.
pub fn import(bundle: &impl BundleSource, request: &ImportRequest<'_>) -> Result<Imported, Error> {
    let metadata = read_metadata(bundle)?;
    let name = Name::collection(request.name.unwrap_or(&metadata.rag_name))?;
    if Collection::find(name.as_str())?.is_some() {
        return Err(
            Error::duplicate(format!("collection \"{name}\" already exists"))
                .hint("Import the bundle under another name, or drop the collection first."),
        );
    }
    disk_space::require_in_data_directory(
        metadata.total_bytes().saturating_mul(SPACE_FACTOR),
        &format!("import collection \"{name}\""),
    )?;
    let manifests = read_sources(bundle, &metadata)?;
    retriever::create(
        &metadata.settings.definition.retriever,
        &manifests,
        request.with_sources,
    )?;
    let collection = create_collection(&name, &metadata)?;
    quotas::check_documents(&collection, metadata.document_count)?;
    let settings = &metadata.settings;
    let from = settings.ids_from.as_ref().unwrap_or(&metadata.rag_name);
    let renaming = Renaming {
        from,
        to: if name.as_str() == metadata.rag_name {
            from
        } else {
            name.as_str()
        },
        sources: &settings.source_ids_from,
    };
    let sources = if request.with_sources {
        create_sources(manifests, name.as_str(), &settings.source_ids_from)?
    } else {
        HashSet::new()
    };
    let mut import = Import {
        bundle,
        metadata: &metadata,
        renaming,
        sources,
        ids: vec![],
        indexed: 0,
        collection,
    };
    import.read_knowledge()?;
    import.read_documents()?;
    import.read_chunks()?;
    import.read_digests()?;
    let Import {
        collection, ids, ..
    } = import;
    let times = CollectionTimes {
        created_at: &metadata.created_at,
        updated_at: &metadata.updated_at,
    };
    rows::restore_times(&collection, &times)?;
    quotas::check(&collection)?;
    if metadata.chunk_count > 0 {
        index::create_if_large_enough(&collection, WriterLock::SkipIfBusy)?;
    }
    Ok(Imported {
        collection: name.to_string(),
        documents: ids.iter().filter(|(_, here)| here.is_some()).count() as i64,
        chunks: metadata.chunk_count as i64,
        bytes: metadata.total_bytes() as i64,
    })
}

/// # Errors
/// It is not the metadata of a bundle of this version.
pub fn read_metadata(bundle: &impl BundleSource) -> Result<Metadata, Error> {
    let mut bytes = vec![];
    bundle
        .open(BundleFile::Metadata)?
        .take(MAX_METADATA as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| BundleError::io("read metadata.json", &e))?;
    if bytes.len() > MAX_METADATA {
        let why = format!("It has more than {MAX_METADATA} bytes.");
        return Err(BundleError::invalid(BundleFile::Metadata, why).into());
    }
    Ok(Metadata::read(&bytes, env!("CARGO_PKG_VERSION"))?)
}

fn read_sources(bundle: &impl BundleSource, metadata: &Metadata) -> Result<Vec<Manifest>, Error> {
    const FILE: BundleFile = BundleFile::Sources;
    let sum = metadata.sum(FILE);
    if sum.bytes > rag_manifest::MAX_BYTES as u64 {
        let why = format!("It has more than {} bytes.", rag_manifest::MAX_BYTES);
        return Err(BundleError::invalid(FILE, why).into());
    }
    let mut file = Summed::new(FILE, bundle.open(FILE)?, sum.clone());
    let mut bytes = vec![];
    (&mut file)
        .take(sum.bytes)
        .read_to_end(&mut bytes)
        .map_err(|e| BundleError::io("read sources.yaml", &e))?;
    file.finish()?;
    let text = String::from_utf8(bytes)
        .map_err(|_| BundleError::invalid(FILE, "It is not valid UTF-8."))?;
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    rag_manifest::parse(&text)
        .map_err(|problems| Error::invalid("invalid file sources.yaml of the bundle", &problems))
}

/// Creates the sources, with the caller as their owner. Returns their names.
fn create_sources(
    manifests: Vec<Manifest>,
    collection: &str,
    ids_from: &BTreeMap<String, String>,
) -> Result<HashSet<String>, Error> {
    let mut sources = vec![];
    for manifest in manifests {
        if let Manifest::AutoIndexer(mut source) = manifest {
            if Source::find(&source.metadata.name)?.is_some() {
                return Err(Error::duplicate(format!(
                    "source \"{}\" already exists",
                    source.metadata.name
                ))
                .hint("Import the bundle with with_sources => false, or drop the source first."));
            }
            source.collection = collection.to_owned();
            sources.push(Manifest::AutoIndexer(source));
        }
    }
    let applied = manifest::apply_parsed(sources)?;
    let names: HashSet<String> = applied.into_iter().map(|(_, name, _)| name).collect();
    for name in &names {
        as_owner(|owner| {
            sources::set_ids_from(owner, name, ids_from.get(name).map(String::as_str))
        })?;
    }
    Ok(names)
}

/// Creates the collection with the settings of the bundle, and its partition.
fn create_collection(name: &Name, metadata: &Metadata) -> Result<Collection, Error> {
    let settings = &metadata.settings;
    let is_same_name = name.as_str() == metadata.rag_name;
    let mut definition = settings.definition.clone();
    // it names one collection only
    definition.external_id = definition.external_id.filter(|_| is_same_name);
    let collection = collection::create(name.as_str(), definition, None)?;
    let ids_from = settings.ids_from.as_deref().filter(|_| is_same_name);
    rows::mark_imported(name.as_str(), ids_from)?;
    if let Some(entry) = &metadata.model {
        let wanted = EmbeddingModel::usable(collection.wanted_model())?;
        let info = with_client(|client| wanted.describe(client))?;
        let precision = entry.precision.as_deref().and_then(Precision::parse);
        // the error names both models
        let mut of_bundle = collection.clone();
        of_bundle.model = Some(StoredModel {
            name: entry.name.clone(),
            fingerprint: entry.fingerprint.clone(),
            identity: entry.identity.clone(),
            dimensions: entry.dimensions as usize,
            baseline: entry.baseline,
            precision,
            max_tokens: Some(entry.max_tokens as usize),
        });
        model::check(&of_bundle, &info)?;
        let stored = ModelInfo {
            name: entry.name.clone(),
            fingerprint: entry.fingerprint.clone(),
            identity: entry.identity.clone(),
            baseline: entry.baseline,
            precision,
            max_tokens: entry.max_tokens as usize,
            ..info
        };
        as_owner(|owner| model::prepare_for(owner, &collection, &stored))?;
    }
    Collection::get(name.as_str())
}

/// An import in progress.
struct Import<'a, B> {
    bundle: &'a B,
    metadata: &'a Metadata,
    renaming: Renaming<'a>,
    /// The sources that were created. Documents of others are left without a source.
    sources: HashSet<String>,
    /// The ids of the documents in the bundle, in their order, and here. None: the document is not
    /// imported.
    ids: Vec<(Uuid, Option<Uuid>)>,
    /// The number of documents with a text.
    indexed: u64,
    collection: Collection,
}

impl<B: BundleSource> Import<'_, B> {
    fn open(&self, file: BundleFile) -> Result<Summed<Box<dyn Read>>, Error> {
        let opened = self.bundle.open(file)?;
        Ok(Summed::new(file, opened, self.metadata.sum(file)))
    }

    /// Reads the records of a file. `take` says what is stored of each. `store` stores some.
    fn read_lines<T: Record, R>(
        &mut self,
        file: BundleFile,
        mut take_one: impl FnMut(&mut Self, T) -> Result<Option<R>, String>,
        mut store: impl FnMut(&Self, &[R]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut lines = LineReader::new(file, self.open(file)?);
        let (mut batch, mut bytes) = (vec![], 0);
        while let Some((record, size)) = lines.next_record::<T>()? {
            match take_one(self, record) {
                Ok(Some(row)) => batch.push(row),
                Ok(None) => {}
                Err(why) => return Err(lines.invalid(&why).into()),
            }
            bytes += size;
            if batch.len() == BATCH_ROWS || bytes > BATCH_BYTES {
                check_for_interrupts();
                store(self, &take(&mut batch))?;
                bytes = 0;
            }
        }
        if !batch.is_empty() {
            store(self, &batch)?;
        }
        Ok(lines.into_inner().finish()?)
    }

    fn read_knowledge(&mut self) -> Result<(), Error> {
        let owner = Owner::current()?;
        let mut last = None;
        self.read_lines(
            BundleFile::Knowledge,
            |_, item: KnowledgeItem| {
                if last.replace(item.knowledge_id) >= Some(item.knowledge_id) {
                    return Err("is not in the order of knowledge_id".into());
                }
                Ok(Some(item))
            },
            |import, rows| rows::insert_knowledge(&import.collection, rows, &owner),
        )
    }

    fn read_documents(&mut self) -> Result<(), Error> {
        self.read_lines(BundleFile::Corpus, Self::take_document, |import, rows| {
            rows::insert_documents(&import.collection, rows)
        })?;
        if self.indexed != self.metadata.document_count {
            let why = format!(
                "It has {} documents, and metadata.json says {}.",
                self.indexed, self.metadata.document_count
            );
            return Err(BundleError::invalid(BundleFile::Corpus, why).into());
        }
        Ok(())
    }

    fn take_document(&mut self, mut document: Document) -> Result<Option<Document>, String> {
        let id = document.document_id;
        if self.ids.last().is_some_and(|(last, _)| *last >= id) {
            return Err("is not in the order of document_id".into());
        }
        let has_text = document.content_hash.is_some();
        self.indexed += u64::from(has_text);
        document.document_id = self.renaming.id_of(&document);
        let is_kept = match document.source.take() {
            Some(source) if self.sources.contains(&source) => {
                self.renaming.check_id(id, &source, &document.uri)?;
                document.source = Some(source);
                true
            }
            // as kept_documents::detach leaves the documents of a dropped source
            Some(source) => {
                document.former_source = Some(source);
                document.status = "active".into();
                (document.error, document.raw_hash, document.validator) = (None, None, None);
                has_text
            }
            None => true,
        };
        self.ids.push((id, is_kept.then_some(document.document_id)));
        Ok(is_kept.then_some(document))
    }

    /// Returns the id here of a document of the bundle. `from` is where the last one was found.
    fn id_here(&self, id: Uuid, from: &mut usize) -> Result<Option<Uuid>, String> {
        *from += self.ids[*from..].partition_point(|(other, _)| *other < id);
        match self.ids.get(*from) {
            Some((other, here)) if *other == id => Ok(*here),
            _ => Err(format!(
                "is of document {id}, which corpus.jsonl does not have"
            )),
        }
    }

    fn read_chunks(&mut self) -> Result<(), Error> {
        let mut embeddings = RowReader::open(self.open(BundleFile::Embeddings)?)?;
        let expected = rag_bundle::npy::Shape {
            rows: self.metadata.chunk_count,
            dimensions: self.metadata.embedding_dimension.unwrap_or(0) as usize,
        };
        if embeddings.shape() != expected {
            let found = embeddings.shape();
            let why = format!(
                "It has {} rows of {} numbers, and metadata.json says {} rows of {}.",
                found.rows, found.dimensions, expected.rows, expected.dimensions
            );
            return Err(BundleError::invalid(BundleFile::Embeddings, why).into());
        }
        let (mut from, mut last, mut failure) = (0, None, None);
        let read = self.read_lines(
            BundleFile::Chunks,
            |import, mut chunk: Chunk| {
                let key = (chunk.document_id, chunk.chunk_index, chunk.chunk_id);
                if last.replace(key) >= Some(key) {
                    return Err("is not in the order of document_id and chunk_index".into());
                }
                let row = embeddings
                    .next_row()
                    .map_err(Error::from)
                    .and_then(OwnedVector::new);
                let embedding = match row {
                    Ok(embedding) => embedding,
                    Err(error) => {
                        failure = Some(error);
                        return Err("has no embedding".into());
                    }
                };
                Ok(import.id_here(chunk.document_id, &mut from)?.map(|here| {
                    chunk.document_id = here;
                    (chunk, embedding)
                }))
            },
            |import, rows| rows::insert_chunks(&import.collection, rows),
        );
        // why there is no embedding says more
        match failure {
            Some(error) => return Err(error),
            None => read?,
        }
        Ok(embeddings.finish()?.finish()?)
    }

    fn read_digests(&mut self) -> Result<(), Error> {
        let is_renamed = self.renaming.is_needed();
        let mut last = None;
        self.read_lines(
            BundleFile::Digests,
            |import, digest: Digest| {
                if last.replace(digest.document_id) >= Some(digest.document_id) {
                    return Err("is not in the order of document_id".into());
                }
                let bytes = digest.bytes()?;
                let is_kept = import.sources.contains(&digest.source) && !is_renamed;
                if is_kept {
                    let renaming = import.renaming;
                    renaming.check_id(digest.document_id, &digest.source, &digest.uri)?;
                }
                Ok(is_kept.then_some((digest, bytes)))
            },
            |import, rows| rows::insert_digests(&import.collection, rows),
        )?;
        // a digest covers ids and the name of the collection
        if is_renamed && !self.sources.is_empty() {
            rows::digest_all(&self.collection)
        } else {
            Ok(())
        }
    }
}
