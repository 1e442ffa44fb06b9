//! Files of Office before 2007 and of Outlook: compound files, which hold streams in folders.
//!
//! | file | read by |
//! |---|---|
//! | Word, `.doc` | [`word`] |
//! | PowerPoint, `.ppt` | [`slides`] |
//! | Outlook, `.msg` | [`message`] |
//!
//! Excel's `.xls` is read by [`crate::records`]. Words of Word and PowerPoint are recovered without
//! their format.

pub mod message;
pub mod slides;
pub mod word;

use std::{
    io::{Cursor, Read},
    path::Path,
};

use cfb::CompoundFile;

use crate::{DocumentError, package::malformed, rtf};

/// How a compound file begins.
pub const COMPOUND_FILE: &[u8] = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";

pub fn is_compound(bytes: &[u8]) -> bool {
    bytes.starts_with(COMPOUND_FILE)
}

/// A compound file that is being read.
pub struct Compound<'a> {
    file: CompoundFile<Cursor<&'a [u8]>>,
    /// What the file is, for messages: "Word document".
    format: &'static str,
}

impl<'a> Compound<'a> {
    /// # Errors
    /// The bytes are no compound file.
    pub fn open(bytes: &'a [u8], format: &'static str) -> Result<Self, DocumentError> {
        let file = CompoundFile::open(Cursor::new(bytes)).map_err(|e| malformed(format, &e))?;
        Ok(Self { file, format })
    }

    pub fn malformed(&self, why: &str) -> DocumentError {
        malformed(self.format, &why)
    }

    /// Returns a stream, or `None` if the file has no such stream.
    ///
    /// # Errors
    /// The stream is damaged.
    pub fn stream(&mut self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, DocumentError> {
        let path = path.as_ref();
        if !self.file.is_stream(path) {
            return Ok(None);
        }
        let format = self.format;
        let mut bytes = vec![];
        let mut stream = self
            .file
            .open_stream(path)
            .map_err(|e| malformed(format, &e))?;
        stream
            .read_to_end(&mut bytes)
            .map_err(|e| malformed(format, &e))?;
        Ok(Some(bytes))
    }

    /// Returns a stream.
    ///
    /// # Errors
    /// The stream is missing or damaged.
    pub fn required(&mut self, name: &str) -> Result<Vec<u8>, DocumentError> {
        let stream = self.stream(format!("/{name}"))?;
        stream.ok_or_else(|| self.malformed(&format!("it has no stream {name}")))
    }

    /// Returns the title among the properties of the file.
    pub fn title(&mut self) -> Option<String> {
        const TITLE: u32 = 2;
        const CODE_PAGE: u32 = 1;
        let bytes = self.stream("/\u{5}SummaryInformation").ok()??;
        let section = usize_at(&bytes, 44)?;
        let count = usize_at(&bytes, section + 4)?;
        let place = |id: u32| {
            let entry = (0..count.min(100)).map(|n| section + 8 + 8 * n);
            let found = entry
                .into_iter()
                .find(|at| u32_at(&bytes, *at) == Some(id))?;
            Some(section + usize_at(&bytes, found + 4)?)
        };
        let at = place(TITLE)?;
        let length = usize_at(&bytes, at + 4)?;
        // A text in the code page of the file, or in UTF-16.
        let text = match u32_at(&bytes, at)? {
            30 => {
                let text = bytes.get(at + 8..at + 8 + length)?;
                let page = place(CODE_PAGE).and_then(|at| u16_at(&bytes, at + 4));
                in_code_page(text, page.unwrap_or(1252))
            }
            31 => utf16(bytes.get(at + 8..at + 8 + length.checked_mul(2)?)?),
            _ => return None,
        };
        Some(text.trim_end_matches('\0').to_owned())
    }
}

/// Returns a text in a code page of Windows.
pub fn in_code_page(bytes: &[u8], page: u16) -> String {
    const UTF_16: u16 = 1200;
    if page == UTF_16 {
        return utf16(bytes);
    }
    let encoding = rtf::encoding(page.into()).unwrap_or(encoding_rs::WINDOWS_1252);
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

pub fn utf16(bytes: &[u8]) -> String {
    encoding_rs::UTF_16LE
        .decode_without_bom_handling(bytes)
        .0
        .into_owned()
}

pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

pub fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    u32_at(bytes, at)?.try_into().ok()
}
