//! Archives: zip, tar, and files that gzip compressed.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use rag_protocol::ingest::Stage;
use tar::EntryType;
use zip::{ZipArchive, result::ZipError};

use super::{Member, Members, too_much};
use crate::{DocumentError, kind, package::malformed};

const FORMAT: &str = "archive";

pub fn zip(bytes: &[u8], members: &mut Members) -> Result<(), DocumentError> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| malformed(FORMAT, &e))?;
    for place in 0..archive.len() {
        let entry = match archive.by_index_raw(place) {
            Ok(entry) => entry,
            Err(e) => return Err(malformed(FORMAT, &e)),
        };
        let name = entry.name().map(|name| name.into_owned());
        let name = name.unwrap_or_else(|_| String::from_utf8_lossy(entry.name_raw()).into_owned());
        let (is_link, is_directory) = (entry.is_symlink(), entry.is_dir());
        drop(entry);
        if is_directory || is_extra(&name) {
            continue;
        }
        if is_link {
            members.skipped.symbolic_links += 1;
            continue;
        }
        let Some(path) = members.wanted(&name) else {
            continue;
        };
        let member = match archive.by_index(place) {
            Ok(entry) => read(path, entry, members)?,
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => failed(
                path,
                "the file is encrypted",
                "Replace the archive with one without a password.",
            ),
            Err(e) => failed(
                path,
                &format!("the file could not be unpacked: {e}"),
                REPACK,
            ),
        };
        if !members.push(member)? {
            break;
        }
    }
    Ok(())
}

const REPACK: &str = "Pack the archive again, and replace it with the result.";

pub fn tar(bytes: impl Read, members: &mut Members) -> Result<(), DocumentError> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().map_err(|e| malformed(FORMAT, &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| malformed(FORMAT, &e))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {}
            EntryType::Link | EntryType::Symlink => {
                members.skipped.symbolic_links += 1;
                continue;
            }
            EntryType::Block | EntryType::Char | EntryType::Fifo => {
                members.skipped.devices += 1;
                continue;
            }
            _ => continue,
        }
        if is_extra(&name) {
            continue;
        }
        let Some(path) = members.wanted(&name) else {
            continue;
        };
        let member = read(path, entry, members)?;
        if !members.push(member)? {
            break;
        }
    }
    Ok(())
}

/// Reads what gzip compressed: a tar file, or one file.
pub fn gzip(bytes: &[u8], name: &str, members: &mut Members) -> Result<(), DocumentError> {
    const HEADER: usize = 512;
    const MAGIC: std::ops::Range<usize> = 257..262;
    let mut unpacked = MultiGzDecoder::new(bytes).take(members.left.saturating_add(1));
    let mut head = vec![];
    let begin = unpacked.by_ref().take(HEADER as u64).read_to_end(&mut head);
    begin.map_err(|e| malformed(FORMAT, &e))?;
    let file = kind::path(name).rsplit('/').next().unwrap_or(name);
    let is_tar = head.get(MAGIC).is_some_and(|magic| magic == b"ustar");
    let mut whole = Cursor::new(head).chain(unpacked);
    if is_tar {
        let done = tar(&mut whole, members);
        return match whole.into_inner().1.limit() {
            0 => Err(unpacks_to_much(members)),
            _ => done,
        };
    }
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    if let Some(path) = members.wanted(stem) {
        let member = read(path, whole, members)?;
        members.push(member)?;
    }
    Ok(())
}

/// Reads a file of an archive.
fn read(path: String, file: impl Read, members: &mut Members) -> Result<Member, DocumentError> {
    let most = members.unpacking.member;
    let mut bytes = vec![];
    let read = file
        .take(most.min(members.left) + 1)
        .read_to_end(&mut bytes);
    let size = bytes.len() as u64;
    if size > members.left {
        return Err(unpacks_to_much(members));
    }
    if size > most {
        members.left -= size;
        let message = format!("the file has more than the limit of {most} bytes");
        let hint = "Raise rag.max_file_size, or leave the file out with \"excludePaths\".";
        return Ok(failed(path, &message, hint));
    }
    Ok(match read {
        Ok(_) => Member::new(path, bytes),
        Err(e) if e.kind() == io::ErrorKind::OutOfMemory => return Err(malformed(FORMAT, &e)),
        Err(e) => failed(
            path,
            &format!("the file could not be unpacked: {e}"),
            REPACK,
        ),
    })
}

fn unpacks_to_much(members: &Members) -> DocumentError {
    too_much(&format!("more than {} bytes", members.unpacking.total))
}

fn failed(path: String, message: &str, hint: &str) -> Member {
    Member {
        error: Some(DocumentError::new(Stage::Extract, message).hint(hint)),
        ..Member::new(path, vec![])
    }
}

/// Returns true for what a system adds to an archive.
fn is_extra(path: &str) -> bool {
    path.starts_with("__MACOSX/") || path.ends_with("/.DS_Store") || path == "pax_global_header"
}
