//! Writes a collection as the files of a bundle, block by block.

use std::collections::BTreeMap;

use rag_bundle::{
    BundleFile, Chunk, DatasetInfo, Digest, Document, FORMAT, FORMAT_VERSION, FileSizes,
    KnowledgeItem, Metadata, ModelEntry, Record, Settings, Summing,
    npy::{self, Shape},
};
use rag_definition::collection::DEFAULT_RETRIEVER;
use serde_json::Value;

use super::rows::{self, OpenRows, Overview};
use crate::{
    catalog::{access, chunks, collections::Collection, sources},
    collection::{rights, status},
    error::Error,
    pg::spi::as_owner,
    source::manifest::{self, ManifestKind},
};

/// The size of a block in bytes from which on it is passed on.
const BLOCK: usize = 1 << 20;
/// The size of a record without its texts and its embedding, about.
const RECORD: i64 = 700;

/// A part of a file. The parts of a file come in their order, between those of others.
pub struct BundleBlock {
    pub file: BundleFile,
    /// The number of the block in its file, from 0.
    pub number: i32,
    pub bytes: Vec<u8>,
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exported {
    pub documents: i64,
    pub chunks: i64,
    pub bytes: i64,
}

/// The bytes of a file that are not passed on yet.
#[derive(Default)]
struct OpenFile {
    bytes: Vec<u8>,
    blocks: i32,
    summing: Summing,
}

/// What is read next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Small,
    Documents,
    Chunks,
    Metadata,
    Done,
}

/// An export in progress. All that it reads is of one snapshot.
pub struct CollectionExport {
    metadata: Metadata,
    overview: Overview,
    files: BTreeMap<BundleFile, OpenFile>,
    step: Step,
    sources: String,
    knowledge: OpenRows<KnowledgeItem>,
    digests: OpenRows<Digest>,
    documents: OpenRows<Document>,
    chunks: OpenRows<(Chunk, Vec<f32>)>,
    /// The ids of the documents, in their order.
    document_ids: Vec<uuid::Uuid>,
    /// The number of those that come before the document of the last chunk.
    passed: usize,
    done: Exported,
}

impl CollectionExport {
    /// # Errors
    /// The caller does not own the collection, or a policy hides documents from the caller.
    pub fn begin(collection: &Collection) -> Result<Self, Error> {
        rights::require_owner(collection, "export collection")?;
        if !access::sees_every_document(collection) {
            return Err(Error::permission_denied(format!(
                "permission denied to export collection \"{}\"",
                collection.name
            ))
            .detail(
                "Policies of row-level security hide documents or knowledge items from the current \
                 role.",
            )
            .hint("Export as a superuser or as a role with BYPASSRLS."));
        }
        chunks::check_not_moved(collection)?;
        let overview = rows::overview(collection)?;
        let names = as_owner(|owner| sources::names_of(owner, Some(collection.name.as_str())))?;
        let metadata = metadata(collection, &overview, names.clone())?;
        Ok(Self {
            sources: sources_manifest(collection, &names)?,
            metadata,
            overview,
            files: BundleFile::ALL
                .into_iter()
                .map(|file| (file, OpenFile::default()))
                .collect(),
            step: Step::Small,
            knowledge: OpenRows::open(collection)?,
            digests: OpenRows::open(collection)?,
            documents: OpenRows::open(collection)?,
            chunks: OpenRows::open(collection)?,
            document_ids: vec![],
            passed: 0,
            done: Exported::default(),
        })
    }

    /// Returns about how many bytes the bundle will have.
    pub fn expected_bytes(&self) -> u64 {
        let records = self.overview.documents + self.overview.errors + self.overview.chunks;
        let dimensions = i64::from(self.metadata.embedding_dimension.unwrap_or(0));
        let embeddings = self.overview.chunks * dimensions * 4;
        (self.overview.text_bytes + records * RECORD + embeddings).unsigned_abs()
    }

    pub fn exported(&self) -> Exported {
        self.done
    }

    /// Returns the next block, or None at the end.
    ///
    /// # Errors
    /// A statement fails, or there are chunks without a document.
    pub fn next_block(&mut self) -> Result<Option<BundleBlock>, Error> {
        loop {
            if let Some(block) = self.take(BLOCK) {
                return Ok(Some(block));
            }
            match self.step {
                Step::Small => self.write_small()?,
                Step::Documents => self.write_documents()?,
                Step::Chunks => self.write_chunks()?,
                // what is left of the other files
                Step::Metadata => match self.take(1) {
                    Some(block) => return Ok(Some(block)),
                    None => self.write_metadata(),
                },
                Step::Done => return Ok(self.take(1)),
            }
        }
    }

    /// Takes the bytes of a file that has so many.
    fn take(&mut self, at_least: usize) -> Option<BundleBlock> {
        // an empty file has an empty block, so that it is there
        let is_last = at_least == 1;
        let (file, open) = self.files.iter_mut().find(|(file, open)| {
            open.bytes.len() >= at_least
                || is_last && open.blocks == 0 && **file != BundleFile::Metadata
        })?;
        let bytes = std::mem::take(&mut open.bytes);
        open.summing.update(&bytes);
        self.done.bytes += bytes.len() as i64;
        open.blocks += 1;
        Some(BundleBlock {
            file: *file,
            number: open.blocks - 1,
            bytes,
        })
    }

    fn file(&mut self, file: BundleFile) -> &mut Vec<u8> {
        &mut self.files.entry(file).or_default().bytes
    }

    /// Writes the files that are small in most collections.
    fn write_small(&mut self) -> Result<(), Error> {
        if self.files[&BundleFile::Sources].blocks == 0 {
            let text = std::mem::take(&mut self.sources);
            self.file(BundleFile::Sources).extend(text.as_bytes());
        }
        let items = self.knowledge.next_portion()?;
        let digests = self.digests.next_portion()?;
        if items.is_empty() && digests.is_empty() {
            self.step = Step::Documents;
        }
        for item in items {
            write(&item, self.file(BundleFile::Knowledge))?;
        }
        for digest in digests {
            write(&digest, self.file(BundleFile::Digests))?;
        }
        Ok(())
    }

    fn write_documents(&mut self) -> Result<(), Error> {
        let documents = self.documents.next_portion()?;
        if documents.is_empty() {
            self.step = Step::Chunks;
            let shape = Shape {
                rows: self.metadata.chunk_count,
                dimensions: self.metadata.embedding_dimension.unwrap_or(0) as usize,
            };
            self.file(BundleFile::Embeddings).extend(npy::header(shape));
        }
        for document in documents {
            self.document_ids.push(document.document_id);
            self.done.documents += 1;
            write(&document, self.file(BundleFile::Corpus))?;
        }
        Ok(())
    }

    fn write_chunks(&mut self) -> Result<(), Error> {
        let chunks = self.chunks.next_portion()?;
        if chunks.is_empty() {
            self.step = Step::Metadata;
        }
        for (chunk, embedding) in chunks {
            let id = chunk.document_id;
            self.passed += self.document_ids[self.passed..].partition_point(|other| *other < id);
            if self.document_ids.get(self.passed) != Some(&id) {
                return Err(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!(
                        "collection \"{}\" has chunks of a document that it does not have",
                        self.metadata.rag_name
                    ),
                )
                .detail(format!("Document {id} is not in rag.documents."))
                .hint("Sync the sources of the collection, which removes such chunks."));
            }
            self.done.chunks += 1;
            write(&chunk, self.file(BundleFile::Chunks))?;
            npy::push_row(&embedding, self.file(BundleFile::Embeddings));
        }
        Ok(())
    }

    fn write_metadata(&mut self) {
        for (file, open) in &self.files {
            self.metadata.set_sum(*file, open.summing.clone().finish());
        }
        let bytes = self.metadata.to_bytes();
        self.file(BundleFile::Metadata).extend(bytes);
        self.step = Step::Done;
    }
}

fn write(record: &impl Record, to: &mut Vec<u8>) -> Result<(), Error> {
    record.write(to).map_err(Error::internal)
}

fn metadata(
    collection: &Collection,
    overview: &Overview,
    sources: Vec<String>,
) -> Result<Metadata, Error> {
    let is_indexed = status::of(collection)?.is_some_and(|status| status.has_vector_index());
    let definition = &overview.definition;
    let name = collection.name.as_str();
    let model = collection.model.as_ref().map(|model| ModelEntry {
        name: model.name.clone(),
        fingerprint: model.fingerprint.clone(),
        identity: model.identity.clone(),
        dimensions: model.dimensions as u32,
        baseline: model.baseline,
        precision: model.precision.map(|precision| precision.name().into()),
        max_tokens: model.max_tokens.unwrap_or_default() as u32,
    });
    Ok(Metadata {
        format: FORMAT.into(),
        format_version: FORMAT_VERSION,
        rag_version: env!("CARGO_PKG_VERSION").into(),
        rag_name: name.into(),
        document_count: overview.documents.unsigned_abs(),
        error_count: overview.errors.unsigned_abs(),
        chunk_count: overview.chunks.unsigned_abs(),
        embedding_dimension: model.as_ref().map(|model| model.dimensions),
        index_type: if is_indexed { "hnsw" } else { "flat" }.into(),
        created_at: overview.created_at.clone(),
        updated_at: overview.updated_at.clone(),
        exported_at: overview.now.clone(),
        file_sizes: FileSizes::default(),
        dataset_info: DatasetInfo {
            dataset_name: definition
                .external_id
                .clone()
                .unwrap_or_else(|| name.into()),
            subset: None,
            sources,
        },
        model,
        settings: Settings {
            definition: definition.clone(),
            ids_from: Some(collection.ids_from.clone()).filter(|ids| ids != name),
            source_ids_from: as_owner(|owner| sources::renamed(owner, name))?,
        },
        files: BTreeMap::new(),
    })
}

/// Returns the manifests of the retriever and the sources of a collection as one text of YAML,
/// whose documents are JSON. Secrets are named, without their values.
fn sources_manifest(collection: &Collection, names: &[String]) -> Result<String, Error> {
    let mut manifests = vec![];
    let retriever = &collection.definition.retriever;
    if retriever != DEFAULT_RETRIEVER {
        manifests.push(manifest::get(ManifestKind::Retriever, retriever)?);
    }
    for name in names {
        manifests.push(manifest::get(ManifestKind::AutoIndexer, name)?);
    }
    let mut text = String::new();
    for mut manifest in manifests {
        strip_status(&mut manifest);
        let json =
            serde_json::to_string_pretty(&manifest).map_err(|e| Error::internal(e.to_string()))?;
        text.push_str("---\n");
        text.push_str(&json);
        text.push('\n');
    }
    Ok(text)
}

/// Removes what is of this server: status, identity and times.
fn strip_status(manifest: &mut Value) {
    if let Some(fields) = manifest.as_object_mut() {
        fields.shift_remove("status");
    }
    if let Some(fields) = manifest["metadata"].as_object_mut() {
        for field in ["uid", "generation", "creationTimestamp"] {
            fields.shift_remove(field);
        }
    }
}
