//! Copies documents of a collection into its new storage. What other settings or another model have
//! made is split and embedded again.

mod texts;

use pgrx::spi::quote_literal;
use rag_protocol::{
    identity::{DocumentId, EmbeddingKey},
    ingest::Title,
};

use super::{
    copies::{self, PendingDocument},
    target::Target,
};
use crate::{
    catalog::{
        documents::{self, GIVEN},
        partitions::Partition,
        rebuilds,
    },
    engine::client::{Client, with_client},
    error::{Cause, Error},
    pg::{
        spi::{OwnerRights, uuid},
        transaction::subtransaction,
    },
    sync::indexer::{Embeddings, KeyedText},
    types::vector::OwnedVector,
};

/// The maximum number of documents and chunks that one transaction copies.
const COPIED_DOCUMENTS: i64 = 2000;
const COPIED_CHUNKS: i64 = 5000;
/// The maximum size of the texts that one transaction embeds, in bytes.
const EMBEDDED_BYTES: i64 = 256 << 10;

/// How the new chunks of a document are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// They are the same.
    Copy,
    /// They have other metadata.
    Label,
    /// They are the same texts, and are embedded again.
    Embed,
    /// The text is split again.
    Split,
}

impl Method {
    fn of(document: &PendingDocument, target: &Target) -> Self {
        match document.chunking.as_deref() {
            Some(GIVEN) if target.keeps_model() && target.gains_languages() => Self::Label,
            Some(GIVEN) if target.keeps_model() => Self::Copy,
            Some(GIVEN) => Self::Embed,
            Some(_) if target.is_damaged && document.has_text => Self::Split,
            Some(_) if document.lost_chunks > 0 && document.has_text => Self::Split,
            Some(chunking) if chunking != target.chunking && document.has_text => Self::Split,
            None if document.has_text => Self::Split,
            _ if target.changes_metadata() => Self::Label,
            _ => Self::Copy,
        }
    }

    /// Returns the part of a transaction's work that a document is.
    fn cost(self, document: &PendingDocument) -> f64 {
        match self {
            Self::Copy | Self::Label => document.chunks as f64 / COPIED_CHUNKS as f64,
            Self::Embed | Self::Split => document.text_bytes as f64 / EMBEDDED_BYTES as f64,
        }
    }
}

/// Returns documents that are not copied yet, in the order of their ids, after the one `after`.
///
/// # Errors
/// A statement fails.
pub fn pending(
    owner: &OwnerRights,
    target: &Target,
    after: Option<DocumentId>,
    limit: i64,
) -> Result<Vec<PendingDocument>, Error> {
    let mut documents = copies::next_documents(owner, target.wanted().name.as_str(), after, limit)?;
    if !target.is_damaged {
        copies::count_lost_chunks(owner, &target.present, &mut documents)?;
    }
    Ok(documents)
}

/// Copies some documents that are not copied yet. Returns the last one, or None if there was none
/// after the document `after`.
///
/// # Errors
/// The engine is unavailable, or a statement fails.
pub fn copy_some(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    after: Option<DocumentId>,
) -> Result<Option<DocumentId>, Error> {
    let mut documents = pending(owner, target, after, COPIED_DOCUMENTS)?;
    let mut cost = 0.0;
    let fit = documents.iter().take_while(|document| {
        let has_room = cost < 1.0;
        cost += Method::of(document, target).cost(document);
        has_room
    });
    let fit = fit.count();
    documents.truncate(fit);
    copy(owner, target, relation, &documents)?;
    Ok(documents.last().map(|document| document.id))
}

/// Returns true if one of some documents is to be embedded.
pub fn needs_model(target: &Target, documents: &[PendingDocument]) -> bool {
    documents
        .iter()
        .any(|document| matches!(Method::of(document, target), Method::Embed | Method::Split))
}

/// Copies documents.
///
/// # Errors
/// See [`copy_some`].
pub fn copy(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    documents: &[PendingDocument],
) -> Result<(), Error> {
    let Some(last) = documents.last() else {
        return Ok(());
    };
    let name = target.wanted().name.as_str();
    let again: Vec<DocumentId> = documents
        .iter()
        .filter(|document| document.is_again)
        .map(|document| document.id)
        .collect();
    copies::delete_copies(owner, relation, &again)?;
    let by = |method| -> Vec<&PendingDocument> {
        documents
            .iter()
            .filter(|document| Method::of(document, target) == method)
            .collect()
    };
    let (mut chunks, mut embedded) = (0, 0);
    for method in [Method::Copy, Method::Label, Method::Embed, Method::Split] {
        let documents = by(method);
        if documents.is_empty() {
            continue;
        }
        chunks += match method {
            Method::Copy | Method::Label | Method::Embed if target.is_damaged => {
                copy_readable(owner, target, relation, method, &documents)?
            }
            Method::Copy | Method::Label => {
                tell_losses(owner, name, &documents)?;
                copy_rows(owner, target, relation, method, &documents)?
            }
            Method::Embed => {
                tell_losses(owner, name, &documents)?;
                let counts = embed_again(owner, target, relation, &documents)?;
                embedded += counts.embedded;
                counts.written
            }
            Method::Split => {
                let counts = texts::split_again(owner, target, relation, &documents)?;
                embedded += counts.embedded;
                counts.written
            }
        };
        let chunking = (method == Method::Split).then_some(target.chunking.as_str());
        let is_changed = method != Method::Copy;
        copies::record(owner, name, relation, &documents, chunking, is_changed)?;
    }
    rebuilds::note_progress(owner, name, chunks, embedded, &last.uri)
}

/// Copies the chunks of those documents whose chunks can be read. The others cannot be made again
/// from a text: they get status error.
fn copy_readable(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    method: Method,
    documents: &[&PendingDocument],
) -> Result<usize, Error> {
    let mut written = 0;
    for document in documents {
        let copied = subtransaction(|| match method {
            Method::Embed => Ok(embed_again(owner, target, relation, &[document])?.written),
            _ => copy_rows(owner, target, relation, method, &[document]),
        });
        match copied {
            Err(error) if error.is(Cause::Corrupt) => {
                lose_chunks(
                    owner,
                    target.wanted().name.as_str(),
                    document,
                    0,
                    &error.message,
                )?;
            }
            copied => written += copied?,
        }
    }
    Ok(written)
}

/// Records what documents have lost that have no text to make it from again.
fn tell_losses(
    owner: &OwnerRights,
    collection: &str,
    documents: &[&PendingDocument],
) -> Result<(), Error> {
    for document in documents {
        if document.lost_chunks > 0 {
            let problem = format!("{} of {}", document.lost_chunks, document.chunks);
            let kept = document.chunks - document.lost_chunks;
            lose_chunks(owner, collection, document, kept, &problem)?;
        }
    }
    Ok(())
}

/// Records that a document has lost chunks: it gets status error.
fn lose_chunks(
    owner: &OwnerRights,
    collection: &str,
    document: &PendingDocument,
    kept: i64,
    problem: &str,
) -> Result<(), Error> {
    documents::lose_chunks(owner, collection, document.id, kept, problem)?;
    pgrx::warning!("chunks of document {} are lost: {problem}", document.uri);
    Ok(())
}

/// The chunks that were written, and those of them that the model has embedded.
struct Counts {
    written: usize,
    embedded: usize,
}

fn ids(documents: &[&PendingDocument]) -> Vec<pgrx::Uuid> {
    documents
        .iter()
        .map(|document| uuid(document.id.0))
        .collect()
}

/// Returns the names of the columns of `rag.chunks` but those in `except`.
pub fn columns(owner: &OwnerRights, except: &[&str]) -> Result<Vec<String>, Error> {
    let except: Vec<&str> = except.iter().copied().chain(["partition"]).collect();
    owner.query(
        "SELECT quote_ident(attname) AS name FROM pg_attribute
         WHERE attrelid = 'rag.chunks'::regclass AND attnum > 0 AND NOT attisdropped
           AND NOT attname = ANY ($1)
         ORDER BY attnum",
        &[except.into()],
        |row| row.required("name"),
    )
}

/// Returns the statement that inserts the chunks `c` of `from` into the new storage. `others` are
/// columns with other values.
fn copy_statement(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    others: &[(&str, &str)],
    from: &str,
) -> Result<String, Error> {
    let except: Vec<&str> = others.iter().map(|(column, _)| *column).collect();
    let (mut into, mut values) = (vec!["partition".to_owned()], vec![]);
    values.push(pgrx::spi::quote_literal(
        target.partition_of(relation).name(),
    ));
    for column in columns(owner, &except)? {
        values.push(format!("c.{column}"));
        into.push(column);
    }
    for (column, value) in others {
        values.push((*value).to_owned());
        into.push((*column).to_owned());
    }
    Ok(format!(
        "INSERT INTO {} ({}) SELECT {} FROM {from}",
        relation.qualified(),
        into.join(", "),
        values.join(", ")
    ))
}

fn copy_rows(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    method: Method,
    documents: &[&PendingDocument],
) -> Result<usize, Error> {
    let (metadata, join) = match (method, &target.wanted().definition.metadata_whitelist) {
        (Method::Label, Some(_)) => (
            "CASE d.chunking WHEN 'given' THEN c.metadata ELSE
                 (SELECT coalesce(jsonb_object_agg(m.key, m.value), '{}')
                  FROM jsonb_each(d.metadata) AS m WHERE m.key = ANY ($2)) END",
            true,
        ),
        (Method::Label, None) => (
            "CASE d.chunking WHEN 'given' THEN c.metadata ELSE d.metadata - 'link_targets' END",
            true,
        ),
        _ => ("c.metadata", false),
    };
    // once for each document; the keys on the right are kept
    let (metadata, language) = match join && target.wanted().detects_language() {
        true => (
            format!("jsonb_build_object('language', d.language) || {metadata}"),
            "coalesce(metadata -> 'language',
                      to_jsonb(rag_internal.document_language(title, content)))",
        ),
        false => (metadata.to_owned(), "NULL"),
    };
    let join = match join {
        true => format!(
            "JOIN (SELECT document_id, chunking, metadata, {language} AS language
                   FROM rag.documents WHERE collection = {} AND document_id = ANY ($1)
                   OFFSET 0) AS d
                 ON d.document_id = c.document_id",
            quote_literal(target.present.name.as_str())
        ),
        false => String::new(),
    };
    let from = format!(
        "rag.chunks c {join} WHERE {} AND c.document_id = ANY ($1) AND $2 IS NOT DISTINCT FROM $2",
        target.present.rows("c.")
    );
    owner.execute(
        &copy_statement(owner, target, relation, &[("metadata", &metadata)], &from)?,
        &[
            ids(documents).into(),
            target.wanted().definition.metadata_whitelist.clone().into(),
        ],
    )
}

/// Copies chunks of an application, and embeds them by another model.
fn embed_again(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    documents: &[&PendingDocument],
) -> Result<Counts, Error> {
    let found = owner.execute_returning(
        &format!(
            "SELECT c.document_id, c.chunk_id, c.title, c.content
             FROM rag.chunks c WHERE {} AND c.document_id = ANY ($1)",
            target.present.rows("c.")
        ),
        &[ids(documents).into()],
        |row| {
            let title: Option<String> = row.get("title")?;
            let title = Title {
                own: title.is_some(),
                text: title.unwrap_or_default(),
            };
            let content: String = row.required("content")?;
            Ok((
                row.required::<pgrx::Uuid>("document_id")?,
                row.required::<pgrx::Uuid>("chunk_id")?,
                target.indexer.text(&title, "", &content),
            ))
        },
    )?;
    let (mut of, mut chunks, mut keys, mut texts) = (vec![], vec![], vec![], vec![]);
    for (document, chunk, text) in found {
        of.push(document);
        chunks.push(chunk);
        keys.push(text.key);
        texts.push(text);
    }
    let (embeddings, embedded) =
        with_client(|client| embeddings(owner, target, relation, client, texts))?;
    let vectors = keys.iter().map(|key| embeddings.get(*key));
    let vectors: Vec<&OwnedVector> = vectors.collect::<Result<_, _>>()?;
    let keys: Vec<pgrx::Uuid> = keys.iter().map(|key| uuid(key.0)).collect();
    let mut others = vec![("embedding_key", "n.key"), ("embedding", "n.embedding")];
    if target.gains_languages() {
        others.push((
            "metadata",
            "jsonb_build_object('language', rag_internal.document_language(NULL, c.content))
             || c.metadata",
        ));
    }
    let from = format!(
        "ROWS FROM (unnest($1), unnest($2), unnest($3), unnest($4))
             AS n (document_id, chunk_id, key, embedding)
         JOIN rag.chunks c ON {} AND c.document_id = n.document_id AND c.chunk_id = n.chunk_id",
        target.present.rows("c.")
    );
    let written = owner.execute(
        &copy_statement(owner, target, relation, &others, &from)?,
        &[of.into(), chunks.into(), keys.into(), vectors.into()],
    )?;
    Ok(Counts { written, embedded })
}

/// Returns the embeddings of texts, and the number of those that the engine has computed. The
/// others are in the new storage, in the present one, or in another collection.
fn embeddings(
    owner: &OwnerRights,
    target: &Target,
    relation: &Partition,
    client: &mut Client,
    texts: Vec<KeyedText>,
) -> Result<(Embeddings, usize), Error> {
    let keys: Vec<pgrx::Uuid> = texts.iter().map(|text| uuid(text.key.0)).collect();
    let stored = owner.execute_prepared(
        &format!(
            "SELECT DISTINCT ON (embedding_key) embedding_key, embedding FROM {}
             WHERE embedding_key = ANY ($1)",
            relation.qualified()
        ),
        &[keys.into()],
        |row| {
            let key = EmbeddingKey(row.uuid("embedding_key")?);
            Ok((key, row.required::<OwnedVector>("embedding")?))
        },
    )?;
    let mut all: Embeddings = stored.into_iter().collect();
    let missing = texts.iter().map(|text| text.key);
    let missing: Vec<EmbeddingKey> = missing.filter(|key| !all.has(*key)).collect();
    let indexer = &target.indexer;
    let known = if target.is_damaged {
        indexer.cached(&missing)
    } else {
        indexer.known(&missing)?
    };
    all.share(&known);
    let computed = indexer.complete(client, texts, &mut all)?;
    Ok((all, computed))
}
