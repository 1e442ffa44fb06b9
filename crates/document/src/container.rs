//! Files that hold other files: archives, mailboxes, and messages with attachments.
//!
//! ```text
//! bytes ──container──▶ Container ──unpack──▶ Member { path, bytes }, one after another
//! ```
//!
//! A member is a file of its own: its path tells its type, and it may be a container again. What is
//! no document by its name is counted and not unpacked, as far as the format allows that. A message
//! is a document, too: [`crate::extract_alone`] reads it without its attachments.
//!
//! A few kilobytes can unpack to terabytes: see [`Unpacking`].

mod archive;

use rag_protocol::{ingest::Stage, skipped::SkippedFiles};
use serde::{Deserialize, Serialize};

use crate::{DocumentError, kind, mail};

/// Maximum number of members of a container.
const MAX_MEMBERS: usize = 100_000;
/// Maximum length of a member's path, in bytes.
const MAX_PATH: usize = 1_000;

/// A kind of files that hold other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Container {
    Zip,
    Tar,
    /// One compressed file, which may be a tar file.
    Gzip,
    /// A message, or a mailbox of several.
    Mail,
}

impl Container {
    /// Returns true if the file is a document, besides what it holds.
    pub fn is_document(self, bytes: &[u8]) -> bool {
        self == Self::Mail && !mail::is_mailbox(bytes)
    }
}

/// Returns what kind of container a file is by its name and the media type it was served with.
pub fn container(name: &str, media_type: Option<&str>) -> Option<Container> {
    let path = kind::path(name).to_lowercase();
    let file = path.rsplit('/').next().unwrap_or(&path);
    let by_media_type = || match media_type?.split(';').next()?.trim() {
        "application/zip" | "application/x-zip-compressed" => Some(Container::Zip),
        "application/x-tar" => Some(Container::Tar),
        "application/gzip" | "application/x-gzip" => Some(Container::Gzip),
        "message/rfc822" | "application/vnd.ms-outlook" | "application/mbox" => {
            Some(Container::Mail)
        }
        _ => None,
    };
    match file.rsplit_once('.').map(|(_, extension)| extension) {
        Some("zip") => Some(Container::Zip),
        Some("tar") => Some(Container::Tar),
        Some("gz" | "tgz") => Some(Container::Gzip),
        Some("eml" | "msg" | "mbox") => Some(Container::Mail),
        _ if kind::is_type_known(name, None) => None,
        _ => by_media_type(),
    }
}

/// A file in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The path in the container, with `/` between its parts. No two members have the same.
    pub path: String,
    /// The media type that the container declares.
    pub media_type: Option<String>,
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Why it could not be unpacked.
    pub error: Option<DocumentError>,
}

impl Member {
    pub fn new(path: String, bytes: Vec<u8>) -> Self {
        Self {
            path,
            media_type: None,
            bytes,
            error: None,
        }
    }
}

/// What is unpacked of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpacking {
    /// Maximum size of a member, in bytes. A larger one is a member with an error.
    pub member: u64,
    /// Maximum number of bytes of all members, those that are not kept included.
    pub total: u64,
    /// Pictures are documents.
    pub pictures: bool,
}

impl Unpacking {
    /// Returns what is unpacked of a container of this size that is not in another one.
    pub fn of(size: u64, member: u64, pictures: bool) -> Self {
        const LEAST: u64 = 256 << 20;
        const RATIO: u64 = 100;
        Self {
            member,
            total: LEAST.max(size.saturating_mul(RATIO)),
            pictures,
        }
    }
}

/// What is done with a member. False ends the unpacking.
pub type Visit<'a> = dyn FnMut(Member) -> bool + 'a;

/// Unpacks a container, and calls `visit` with each of its members. Returns the numbers of the
/// files that are no documents by their names.
///
/// # Errors
/// The container is damaged, or holds more than the limits allow. Members before that were visited.
pub fn unpack(
    container: Container,
    bytes: &[u8],
    name: &str,
    unpacking: Unpacking,
    visit: &mut Visit,
) -> Result<SkippedFiles, DocumentError> {
    let mut members = Members {
        unpacking,
        left: unpacking.total,
        paths: Paths::default(),
        skipped: SkippedFiles::default(),
        visit,
        is_ended: false,
    };
    match container {
        Container::Zip => archive::zip(bytes, &mut members)?,
        Container::Tar => archive::tar(bytes, &mut members)?,
        Container::Gzip => archive::gzip(bytes, name, &mut members)?,
        Container::Mail => mail::unpack(bytes, &mut members)?,
    }
    Ok(members.skipped)
}

/// The members that are being unpacked.
pub struct Members<'a, 'v> {
    unpacking: Unpacking,
    /// How many bytes may still be unpacked.
    left: u64,
    paths: Paths,
    skipped: SkippedFiles,
    visit: &'a mut Visit<'v>,
    is_ended: bool,
}

impl Members<'_, '_> {
    /// Passes a member on. Returns false if no more are wanted.
    ///
    /// # Errors
    /// There are too many.
    pub fn push(&mut self, member: Member) -> Result<bool, DocumentError> {
        self.left = self.left.saturating_sub(member.bytes.len() as u64);
        let path = self.paths.unused(&member.path);
        if self.paths.count > MAX_MEMBERS {
            return Err(too_much(&format!("more than {MAX_MEMBERS} files")));
        }
        self.is_ended = !(self.visit)(Member { path, ..member });
        Ok(!self.is_ended)
    }

    /// Returns the path of a member in the form that it is reported in. Returns `None`, and counts
    /// the file, if it is no document by its name.
    fn wanted(&mut self, path: &str) -> Option<String> {
        self.wanted_as(path, None)
    }

    /// Returns the path of a member with a declared media type, as [`Self::wanted`] does.
    pub fn wanted_as(&mut self, path: &str, media_type: Option<&str>) -> Option<String> {
        let path = normal(path);
        let is_wanted = !path.is_empty()
            && (container(&path, media_type).is_some()
                || kind::document_type(&path, media_type, &[]).is_some()
                || self.unpacking.pictures && kind::is_picture(&path));
        if !is_wanted {
            self.skipped += SkippedFiles::other(&path);
        }
        is_wanted.then_some(path)
    }
}

fn too_much(what: &str) -> DocumentError {
    DocumentError::new(Stage::Extract, format!("the file holds {what}")).hint(
        "The file may be damaged, or designed to exhaust memory. Unpack it, and leave it out.",
    )
}

/// The paths of members, which are unique.
#[derive(Default)]
struct Paths {
    used: std::collections::HashSet<String>,
    count: usize,
}

impl Paths {
    /// Returns the path, with a number before its extension if another member has it.
    fn unused(&mut self, path: &str) -> String {
        self.count += 1;
        let mut unused = path.to_owned();
        let name = path.rfind('/').map_or(0, |slash| slash + 1);
        let dot = path[name..].rfind('.').filter(|dot| *dot > 0);
        let (stem, extension) = path.split_at(dot.map_or(path.len(), |dot| name + dot));
        let mut number = 1;
        while !self.used.insert(unused.clone()) {
            number += 1;
            unused = format!("{stem} ({number}){extension}");
        }
        unused
    }
}

/// Returns a path without parts that are empty or lead elsewhere.
fn normal(path: &str) -> String {
    let path = path.replace('\\', "/").replace('\0', "");
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !matches!(part.trim(), "" | "." | ".."))
        .collect();
    let path = parts.join("/");
    match path.len() {
        0..=MAX_PATH => path,
        // The extension tells the type.
        length => {
            let from = (length - MAX_PATH..).find(|at| path.is_char_boundary(*at));
            path[from.unwrap_or(length)..].to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
