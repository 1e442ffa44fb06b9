//! Office files and books: ZIP archives of XML files, the parts.
//!
//! A few kilobytes can unpack to gigabytes, so a part is unpacked up to [`MAX_PART`] bytes, and all
//! parts together up to [`MAX_TOTAL`]. Names are compared without their case, and with `/` for `\`,
//! which some programs write.

use std::{
    collections::HashMap,
    io::{Cursor, Read},
};

use quick_xml::{Reader, events::Event};
use rag_protocol::ingest::Stage;
use zip::{ZipArchive, result::ZipError};

use crate::{DocumentError, compound::is_compound, decode, xml};

/// Maximum size of one unpacked part, in bytes.
pub const MAX_PART: u64 = 128 << 20;
/// Maximum size of all parts that are read of one file, in bytes.
const MAX_TOTAL: u64 = 256 << 20;

/// An archive that is being read.
pub struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// The number of the part with a name.
    places: HashMap<String, usize>,
    /// How many bytes may still be unpacked.
    left: u64,
    /// What the file is, for messages: "Word document".
    format: &'static str,
}

/// A reference from one part to another.
#[derive(Debug)]
pub struct Relation {
    pub id: String,
    /// The last part of its type, such as `styles`.
    pub kind: String,
    /// The name of the part that is meant.
    pub target: String,
}

/// Returns the name of the first part of a kind that others refer to.
pub fn target<'a>(relations: &'a [Relation], kind: &str) -> Option<&'a str> {
    let found = relations.iter().find(|relation| relation.kind == kind)?;
    Some(&found.target)
}

/// Returns the error of a file that does not have the format that it should.
pub fn malformed(format: &str, why: &dyn std::fmt::Display) -> DocumentError {
    let why: String = why
        .to_string()
        .replace('\0', "\u{FFFD}")
        .chars()
        .take(200)
        .collect();
    let program = match format.ends_with("document") {
        true => "a word processor",
        false => "its program",
    };
    let message = format!("the {format} is malformed: {why}");
    DocumentError::new(Stage::Extract, message).hint(format!(
        "Open the file with {program}, save it again, and replace the file with the result."
    ))
}

pub fn encrypted(format: &str) -> DocumentError {
    DocumentError::new(Stage::Extract, format!("the {format} is encrypted"))
        .hint("Replace the file with a copy without a password.")
}

/// Returns true for a file that was encrypted by a program of Office.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    const STREAM: &[u8] = b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e\0";
    is_compound(bytes) && bytes.windows(STREAM.len()).any(|part| part == STREAM)
}

impl<'a> Package<'a> {
    /// # Errors
    /// The bytes are no archive, or one in the format of Office before 2007.
    pub fn open(bytes: &'a [u8], format: &'static str) -> Result<Self, DocumentError> {
        if is_encrypted(bytes) {
            return Err(encrypted(format));
        }
        if is_compound(bytes) {
            let why = "it has the format of Office before 2007";
            return Err(malformed(format, &why));
        }
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| malformed(format, &e))?;
        let mut places = HashMap::new();
        for (place, name) in archive.file_names().enumerate() {
            // A name that cannot be read is not asked for.
            if let Ok(name) = name {
                places.entry(normal(&name)).or_insert(place);
            }
        }
        Ok(Self {
            archive,
            places,
            left: MAX_TOTAL,
            format,
        })
    }

    /// Returns the names of the parts that end so, in small letters and in order.
    pub fn names_with_end(&self, end: &str) -> Vec<String> {
        let names = self.places.keys().filter(|name| name.ends_with(end));
        let mut names: Vec<String> = names.cloned().collect();
        names.sort();
        names
    }

    pub fn malformed(&self, why: &dyn std::fmt::Display) -> DocumentError {
        malformed(self.format, why)
    }

    /// Returns the bytes of a part, or `None` if the archive has no such part.
    ///
    /// # Errors
    /// The part is damaged, encrypted or too large.
    pub fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>, DocumentError> {
        let Some(place) = self.places.get(&normal(name)) else {
            return Ok(None);
        };
        let format = self.format;
        let file = match self.archive.by_index(*place) {
            Ok(file) => file,
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                return Err(encrypted(format));
            }
            Err(e) => return Err(malformed(format, &e)),
        };
        let most = MAX_PART.min(self.left);
        let mut bytes = vec![];
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| malformed(format, &e))?;
        if bytes.len() as u64 > most {
            let name: String = name.chars().take(100).collect();
            return Err(DocumentError::new(
                Stage::Extract,
                format!("the {format}'s {name} unpacks to more than {most} bytes"),
            )
            .hint("The file may be damaged, or designed to exhaust memory."));
        }
        self.left -= bytes.len() as u64;
        Ok(Some(bytes))
    }

    /// Unpacks each part whose name ends so, and keeps none: for libraries that unpack without a
    /// limit.
    ///
    /// # Errors
    /// Those of [`Self::bytes`].
    pub fn check(&mut self, ends: &[&str]) -> Result<(), DocumentError> {
        let mut left = MAX_TOTAL;
        for place in self.places.clone().into_values() {
            let format = self.format;
            let mut file = match self.archive.by_index(place) {
                Ok(file) => file,
                Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                    return Err(encrypted(format));
                }
                Err(e) => return Err(malformed(format, &e)),
            };
            let name = file.name().map(|name| normal(&name)).unwrap_or_default();
            if !ends.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            let read = std::io::copy(&mut file.by_ref().take(left + 1), &mut std::io::sink());
            let read = read.map_err(|e| malformed(format, &e))?;
            if read > left {
                return Err(DocumentError::new(
                    Stage::Extract,
                    format!("the {format} unpacks to more than {MAX_TOTAL} bytes"),
                )
                .hint("The file may be damaged, or designed to exhaust memory."));
            }
            left -= read;
        }
        Ok(())
    }

    /// Returns a part as text, or `None` if the archive has no such part.
    ///
    /// # Errors
    /// Those of [`Self::bytes`], or the part is not text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, DocumentError> {
        match self.bytes(name)? {
            Some(bytes) => Ok(Some(decode::text(&bytes, None)?.text.into_owned())),
            None => Ok(None),
        }
    }

    /// Returns the references of a part, or of the whole file for an empty name. Damaged ones are
    /// left out. So are those to other files.
    ///
    /// # Errors
    /// Those of [`Self::text`].
    pub fn relations(&mut self, part: &str) -> Result<Vec<Relation>, DocumentError> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let place = format!("{folder}/_rels/{file}.rels");
        let Some(text) = self.text(&place)? else {
            return Ok(vec![]);
        };
        let mut found = vec![];
        let mut reader = Reader::from_str(&text);
        while let Ok(event) = reader.read_event() {
            let element = match event {
                Event::Eof => break,
                Event::Start(element) | Event::Empty(element) => element,
                _ => continue,
            };
            let value = |name| xml::attribute(&element, name).unwrap_or_default();
            if element.local_name().into_inner() == "Relationship"
                && !value("TargetMode").eq_ignore_ascii_case("external")
            {
                found.push(Relation {
                    id: value("Id"),
                    kind: value("Type").rsplit('/').next().unwrap_or_default().into(),
                    target: resolved(folder, &value("Target")),
                });
            }
        }
        Ok(found)
    }
}

/// Returns the names of the parts of an archive, in small letters, or `None` if it is damaged.
pub fn names(bytes: &[u8]) -> Option<Vec<String>> {
    let archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let names = archive.file_names().flatten();
    Some(names.map(|name| normal(&name)).collect())
}

/// The form in which names are compared.
fn normal(name: &str) -> String {
    name.replace('\\', "/")
        .trim_start_matches('/')
        .to_lowercase()
}

/// Returns the name that a reference from a folder means.
pub fn resolved(folder: &str, target: &str) -> String {
    let target = target.replace('\\', "/");
    let mut parts: Vec<&str> = if target.starts_with('/') {
        vec![]
    } else {
        folder.split('/').collect()
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/").trim_start_matches('/').to_owned()
}

#[cfg(test)]
pub mod tests {
    use std::io::Write;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    /// Returns an archive of these files.
    pub fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(vec![]));
        for (name, content) in files {
            writer
                .start_file(*name, SimpleFileOptions::default())
                .unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn parts_are_found_in_every_spelling() {
        let bytes = packed(&[("Word\\Styles.XML", b"<a/>"), ("b.xml", b"<b/>")]);
        let mut package = Package::open(&bytes, "book").unwrap();
        for name in ["word/styles.xml", "/word/styles.xml", "word\\styles.xml"] {
            assert_eq!(package.text(name).unwrap().unwrap(), "<a/>");
        }
        assert_eq!(package.text("word/b.xml").unwrap(), None);
    }

    #[test]
    fn references_are_resolved() {
        for (folder, target, expected) in [
            ("word", "styles.xml", "word/styles.xml"),
            ("word", "/styles.xml", "styles.xml"),
            ("word", "../docProps/core.xml", "docProps/core.xml"),
            ("", "word\\document.xml", "word/document.xml"),
            ("a/b", "../../../../x", "x"),
        ] {
            assert_eq!(resolved(folder, target), expected);
        }
    }

    #[test]
    fn files_of_other_formats_are_named() {
        let mut old = crate::compound::COMPOUND_FILE.to_vec();
        let message = |bytes: &[u8]| Package::open(bytes, "book").err().unwrap().message;
        assert_eq!(
            message(&old),
            "the book is malformed: it has the format of Office before 2007"
        );
        old.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(message(&old), "the book is encrypted");
    }
}
