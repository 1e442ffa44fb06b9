//! The records in the lines of a bundle.
//!
//! Times are texts as PostgreSQL writes them with `TimeZone = UTC` and `DateStyle = ISO`.

use serde::{Deserialize, Serialize, de::IgnoredAny};
use uuid::Uuid;

use crate::member;

/// A record that is a line of a file.
pub trait Record: Sized {
    /// Reads a line.
    ///
    /// # Errors
    /// It is not such a record; returns the reason.
    fn read(line: &str) -> Result<Self, String>;

    /// Appends the record as a line.
    ///
    /// # Errors
    /// Its metadata is not a JSON object.
    fn write(&self, to: &mut Vec<u8>) -> Result<(), String>;
}

/// A document: a row of `rag.documents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub document_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_id: Option<String>,
    pub source: Option<String>,
    pub former_source: Option<String>,
    pub uri: String,
    pub title: Option<String>,
    pub knowledge_id: Option<i64>,
    pub document_type: Option<String>,
    pub category: Option<String>,
    pub tags: Option<Vec<String>>,
    pub status: String,
    pub error: Option<String>,
    pub content_hash: Option<String>,
    pub chunk_count: i32,
    pub raw_hash: Option<String>,
    pub chunking: Option<String>,
    pub own_title: bool,
    pub validator: Option<String>,
    /// Places of the content that addresses can name: positions and names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchors: Option<Vec<(u32, String)>>,
    pub created_at: String,
    pub fetched_at: Option<String>,
    pub indexed_at: Option<String>,
    pub content: Option<String>,
    /// A JSON object, exactly as it is stored.
    #[serde(skip_deserializing, serialize_with = "no_value")]
    pub metadata: String,
}

/// A chunk: a row of `rag.chunks` without its embedding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    pub document_id: Uuid,
    pub chunk_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_id: Option<String>,
    pub chunk_index: i32,
    pub start_index: i32,
    #[serde(default)]
    pub head_length: i32,
    pub start_line: i32,
    pub end_line: i32,
    pub page: Option<i32>,
    pub heading_path: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    pub source: Option<String>,
    pub uri: String,
    pub title: Option<String>,
    pub knowledge_id: Option<i64>,
    pub document_type: String,
    pub category: Option<String>,
    pub tags: Option<Vec<String>>,
    pub embedding_key: Uuid,
    pub fetched_at: String,
    pub indexed_at: String,
    pub content: String,
    /// A JSON object, exactly as it is stored.
    #[serde(skip_deserializing, serialize_with = "no_value")]
    pub metadata: String,
}

/// A knowledge item: a row of `rag_internal.knowledge_item` without its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeItem {
    pub knowledge_id: i64,
    pub title: Option<String>,
    pub uri: String,
    pub document_type: String,
    pub category: Option<String>,
    /// Separated by commas.
    pub tags: Option<String>,
    /// Patterns of the files of a folder, each on a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<String>,
    pub status: String,
    pub error: Option<String>,
    pub content_hash: Option<String>,
    pub created_at: String,
    pub fetched_at: Option<String>,
    pub indexed_at: Option<String>,
}

/// What a run has indexed: a row of `rag_internal.document_digest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    pub document_id: Uuid,
    pub source: String,
    pub uri: String,
    pub content_hash: Option<String>,
    pub chunk_count: i32,
    /// 64 bytes in hexadecimal.
    pub digest: String,
}

/// What stands for metadata in a line while it is parsed or written.
const NO_VALUE: &str = "null";

fn no_value<S: serde::Serializer>(_: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_unit()
}

fn parse<T: for<'de> Deserialize<'de>>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| e.to_string())
}

/// Reads a record, and the text of its key `metadata`.
fn parse_with_metadata<T: for<'de> Deserialize<'de>>(line: &str) -> Result<(T, String), String> {
    let place = member::find(line, "metadata").ok_or("missing field `metadata`")?;
    let metadata = &line[place.clone()];
    if !metadata.starts_with('{') {
        return Err("metadata is not an object".into());
    }
    parse::<IgnoredAny>(metadata)?;
    // the member itself is left out: serde does not know the field when it reads
    let key = line[..place.start].rfind("\"metadata\"").unwrap_or(0);
    let before = line[..key].trim_end();
    let after = line[place.end..].trim_start();
    let rest = match before.strip_suffix(',') {
        Some(before) => format!("{before}{after}"),
        None => format!("{before}{}", after.strip_prefix(',').unwrap_or(after)),
    };
    Ok((parse(&rest)?, metadata.to_string()))
}

fn append<T: Serialize>(record: &T, to: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(&mut *to, record).map_err(|e| e.to_string())
}

/// Appends a record whose last field is its metadata.
fn append_with_metadata<T: Serialize>(
    record: &T,
    metadata: &str,
    to: &mut Vec<u8>,
) -> Result<(), String> {
    if !metadata.starts_with('{') || metadata.contains('\n') {
        return Err("metadata is not an object".into());
    }
    append(record, to)?;
    to.truncate(to.len() - NO_VALUE.len() - 1);
    to.extend(metadata.as_bytes());
    to.extend(b"}\n");
    Ok(())
}

/// Checks the texts of a record, which PostgreSQL stores without NUL.
fn check_texts<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> Result<(), String> {
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        Err("a text contains the character U+0000".into())
    } else {
        Ok(())
    }
}

/// Checks that a text is a time as PostgreSQL writes it.
fn check_time(text: Option<&str>) -> Result<(), String> {
    let Some(text) = text else { return Ok(()) };
    let is_time = matches!(text, "infinity" | "-infinity")
        || text.starts_with(|c: char| c.is_ascii_digit())
            && text.len() <= 40
            && text
                .chars()
                .all(|c| c.is_ascii_digit() || "-:.+ BC".contains(c));
    is_time
        .then_some(())
        .ok_or_else(|| format!("\"{}\" is not a time", text.escape_debug()))
}

fn check_one_of(what: &str, value: &str, allowed: &[&str]) -> Result<(), String> {
    allowed
        .contains(&value)
        .then_some(())
        .ok_or_else(|| format!("{what} is \"{}\"", value.escape_debug()))
}

fn check_count(what: &str, count: i32) -> Result<(), String> {
    (count >= 0)
        .then_some(())
        .ok_or_else(|| format!("{what} is {count}"))
}

fn check_uri(uri: &str) -> Result<(), String> {
    (!uri.trim().is_empty())
        .then_some(())
        .ok_or_else(|| "uri is empty".into())
}

const STATES: [&str; 3] = ["pending", "active", "error"];

fn parts(texts: Option<&Vec<String>>) -> impl Iterator<Item = Option<&str>> {
    texts.into_iter().flatten().map(|text| Some(text.as_str()))
}

impl Record for Document {
    fn read(line: &str) -> Result<Self, String> {
        let (mut record, metadata) = parse_with_metadata::<Self>(line)?;
        record.metadata = metadata;
        let texts = [
            record.given_id.as_deref(),
            record.source.as_deref(),
            record.former_source.as_deref(),
            Some(record.uri.as_str()),
            record.title.as_deref(),
            record.document_type.as_deref(),
            record.category.as_deref(),
            record.error.as_deref(),
            record.content_hash.as_deref(),
            record.raw_hash.as_deref(),
            record.chunking.as_deref(),
            record.validator.as_deref(),
            record.content.as_deref(),
        ];
        let names = record.anchors.iter().flatten();
        check_texts(names.map(|(_, name)| Some(name.as_str())))?;
        check_texts(texts.into_iter().chain(parts(record.tags.as_ref())))?;
        check_uri(&record.uri)?;
        check_one_of("status", &record.status, &STATES)?;
        check_count("chunk_count", record.chunk_count)?;
        check_time(Some(&record.created_at))?;
        check_time(record.fetched_at.as_deref())?;
        check_time(record.indexed_at.as_deref())?;
        Ok(record)
    }

    fn write(&self, to: &mut Vec<u8>) -> Result<(), String> {
        append_with_metadata(self, &self.metadata, to)
    }
}

impl Record for Chunk {
    fn read(line: &str) -> Result<Self, String> {
        let (mut record, metadata) = parse_with_metadata::<Self>(line)?;
        record.metadata = metadata;
        let texts = [
            record.given_id.as_deref(),
            record.source.as_deref(),
            Some(record.uri.as_str()),
            record.title.as_deref(),
            Some(record.document_type.as_str()),
            record.category.as_deref(),
            record.anchor.as_deref(),
            Some(record.content.as_str()),
        ];
        let lists = parts(record.tags.as_ref()).chain(parts(record.heading_path.as_ref()));
        check_texts(texts.into_iter().chain(lists))?;
        check_uri(&record.uri)?;
        check_count("chunk_index", record.chunk_index)?;
        check_count("start_index", record.start_index)?;
        check_count("head_length", record.head_length)?;
        check_time(Some(&record.fetched_at))?;
        check_time(Some(&record.indexed_at))?;
        Ok(record)
    }

    fn write(&self, to: &mut Vec<u8>) -> Result<(), String> {
        append_with_metadata(self, &self.metadata, to)
    }
}

impl Record for KnowledgeItem {
    fn read(line: &str) -> Result<Self, String> {
        let record = parse::<Self>(line)?;
        check_texts([
            record.title.as_deref(),
            Some(record.uri.as_str()),
            record.category.as_deref(),
            record.tags.as_deref(),
            record.error.as_deref(),
            record.content_hash.as_deref(),
        ])?;
        check_uri(&record.uri)?;
        check_one_of("status", &record.status, &STATES)?;
        let kinds = ["markdown", "website", "folder"];
        check_one_of("document_type", &record.document_type, &kinds)?;
        check_time(Some(&record.created_at))?;
        check_time(record.fetched_at.as_deref())?;
        check_time(record.indexed_at.as_deref())?;
        Ok(record)
    }

    fn write(&self, to: &mut Vec<u8>) -> Result<(), String> {
        append(self, to)?;
        to.push(b'\n');
        Ok(())
    }
}

impl Digest {
    /// Returns the bytes of the digest.
    ///
    /// # Errors
    /// It is not 64 bytes in hexadecimal.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        hex::decode(&self.digest)
            .ok()
            .filter(|bytes| bytes.len() == 64)
            .ok_or_else(|| "digest is not 64 bytes in hexadecimal".into())
    }
}

impl Record for Digest {
    fn read(line: &str) -> Result<Self, String> {
        let record = parse::<Self>(line)?;
        check_texts([
            Some(record.source.as_str()),
            Some(record.uri.as_str()),
            record.content_hash.as_deref(),
        ])?;
        check_count("chunk_count", record.chunk_count)?;
        record.bytes()?;
        Ok(record)
    }

    fn write(&self, to: &mut Vec<u8>) -> Result<(), String> {
        append(self, to)?;
        to.push(b'\n');
        Ok(())
    }
}
