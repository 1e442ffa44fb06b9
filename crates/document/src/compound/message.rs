//! Messages of Outlook (`.msg`, [MS-OXMSG]).
//!
//! A message is written as one of the internet (RFC 5322), which [`crate::mail`] reads. Its text is
//! the plain one, else the page of HTML, else the compressed RTF.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use cfb::CompoundFile;

use super::{Compound, in_code_page, u16_at, u32_at, usize_at, utf16};
use crate::{DocumentError, package::malformed, rtf};

const FORMAT: &str = "message";
/// Maximum number of messages in each other.
const MAX_DEPTH: usize = 3;
/// Maximum number of attachments.
const MAX_ATTACHMENTS: usize = 1000;

/// Ids of properties ([MS-OXPROPS]).
mod id {
    pub const SUBJECT: u16 = 0x0037;
    pub const SENT: u16 = 0x0039;
    pub const SENDER_NAME: u16 = 0x0C1A;
    pub const SENDER_ADDRESS: u16 = 0x0C1F;
    pub const SENDER_SMTP_ADDRESS: u16 = 0x5D01;
    pub const CC: u16 = 0x0E03;
    pub const TO: u16 = 0x0E04;
    pub const DELIVERED: u16 = 0x0E06;
    pub const BODY: u16 = 0x1000;
    pub const RTF: u16 = 0x1009;
    pub const HTML: u16 = 0x1013;
    pub const MESSAGE_ID: u16 = 0x1035;
    pub const CODE_PAGE: u16 = 0x3FFD;
    pub const INTERNET_CODE_PAGE: u16 = 0x3FDE;
    pub const DATA: u16 = 0x3701;
    pub const SHORT_NAME: u16 = 0x3704;
    pub const LONG_NAME: u16 = 0x3707;
    pub const MEDIA_TYPE: u16 = 0x370E;
    pub const CONTENT_ID: u16 = 0x3712;
}

/// Returns the message as one of the internet.
///
/// # Errors
/// The file is damaged.
pub fn as_internet_message(bytes: &[u8]) -> Result<Vec<u8>, DocumentError> {
    let mut file = Compound::open(bytes, FORMAT)?;
    Message {
        file: &mut file,
        folder: "/".into(),
        depth: 1,
    }
    .written()
}

/// A message, or an attachment, in a folder of the file.
struct Message<'f, 'a> {
    file: &'f mut Compound<'a>,
    /// With a slash at its end.
    folder: String,
    depth: usize,
}

impl Message<'_, '_> {
    fn written(&mut self) -> Result<Vec<u8>, DocumentError> {
        let fixed = self.stream("__properties_version1.0")?.unwrap_or_default();
        // The head of the properties is shorter in an attached message.
        let head = if self.depth == 1 { 32 } else { 24 };
        let property = |id: u16| {
            let entries = fixed.get(head..).unwrap_or_default().chunks_exact(16);
            let mut of_id = entries.filter(|entry| u16_at(entry, 2) == Some(id));
            of_id.next().map(|entry| entry[8..].to_vec())
        };
        let page = |id: u16| {
            let page = property(id).and_then(|value| u16_at(&value, 0));
            page.filter(|page| *page != 0)
        };
        let narrow = page(id::CODE_PAGE).unwrap_or(1252);
        let mut text = |id: u16| self.text(id, narrow);
        let mut sender = text(id::SENDER_NAME)?.unwrap_or_default();
        let smtp = text(id::SENDER_SMTP_ADDRESS)?;
        let address = match smtp {
            Some(address) => Some(address),
            None => text(id::SENDER_ADDRESS)?.filter(|address| address.contains('@')),
        };
        if let Some(address) = address.filter(|address| *address != sender) {
            sender = format!("{} <{address}>", word(&sender));
        } else if !sender.contains('@') {
            sender = word(&sender);
        }
        let mut written = String::new();
        let people = |names: &str| {
            let names = names
                .split(';')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            let names: Vec<String> = names
                .map(|name| match name.contains('@') {
                    true => one_line(name),
                    false => word(name),
                })
                .collect();
            names.join(", ")
        };
        let (to, cc) = (text(id::TO)?, text(id::CC)?);
        let sent = [id::SENT, id::DELIVERED].into_iter().find_map(property);
        for (name, value) in [
            ("From", Some(sender)),
            ("To", to.map(|to| people(&to))),
            ("Cc", cc.map(|cc| people(&cc))),
            ("Subject", text(id::SUBJECT)?.map(|subject| word(&subject))),
            ("Message-ID", text(id::MESSAGE_ID)?.map(|id| one_line(&id))),
            ("Date", sent.and_then(|time| date(&time))),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let _ = write!(written, "{name}: {value}\r\n");
            }
        }
        let boundary = format!("=_{}", self.depth);
        let _ = write!(
            written,
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n"
        );
        let html_page = page(id::INTERNET_CODE_PAGE).unwrap_or(65001);
        if let Some((media_type, body)) = self.body(narrow, html_page)? {
            part(
                &mut written,
                &boundary,
                &format!("{media_type}; charset=utf-8"),
                "",
                body.as_bytes(),
            );
        }
        self.write_attachments(&mut written, &boundary, narrow)?;
        let _ = write!(written, "--{boundary}--\r\n");
        Ok(written.into_bytes())
    }

    /// Returns the text of the message, and its media type.
    fn body(
        &mut self,
        narrow: u16,
        html_page: u16,
    ) -> Result<Option<(&'static str, String)>, DocumentError> {
        if let Some(body) = self
            .text(id::BODY, narrow)?
            .filter(|body| !body.trim().is_empty())
        {
            return Ok(Some(("text/plain", body)));
        }
        if let Some(page) = self.text(id::HTML, html_page)? {
            return Ok(Some(("text/html", page)));
        }
        if let Some(bytes) = self.bytes(id::HTML)? {
            return Ok(Some(("text/html", in_code_page(&bytes, html_page))));
        }
        let Some(compressed) = self.bytes(id::RTF)? else {
            return Ok(None);
        };
        let rtf = rtf_of(&compressed).ok_or_else(|| malformed(FORMAT, &"its RTF is damaged"))?;
        // A message without words has an empty one.
        let read = rtf::extract(&rtf, "message").ok();
        Ok(read.map(|read| ("text/plain", read.text)))
    }

    fn write_attachments(
        &mut self,
        written: &mut String,
        boundary: &str,
        narrow: u16,
    ) -> Result<(), DocumentError> {
        for folder in self.folders("__attach_version1.0_#") {
            let mut attachment = Message {
                file: &mut *self.file,
                folder: format!("{}{folder}/", self.folder),
                depth: self.depth,
            };
            let inner = format!("{}__substg1.0_{:04X}000D/", attachment.folder, id::DATA);
            if attachment.file.file.is_storage(&inner) {
                if self.depth < MAX_DEPTH {
                    let message = Message {
                        file: &mut *self.file,
                        folder: inner,
                        depth: self.depth + 1,
                    }
                    .written()?;
                    let message = String::from_utf8_lossy(&message);
                    let _ = write!(
                        written,
                        "--{boundary}\r\nContent-Type: message/rfc822\r\n\r\n{message}\r\n"
                    );
                }
                continue;
            }
            let Some(bytes) = attachment.bytes(id::DATA)? else {
                continue;
            };
            let long = attachment.text(id::LONG_NAME, narrow)?;
            let name = match long {
                Some(name) => name,
                None => attachment.text(id::SHORT_NAME, narrow)?.unwrap_or_default(),
            };
            let name = match one_line(&name).replace('"', "'") {
                name if name.is_empty() => "attachment".to_owned(),
                name => word(&name),
            };
            let media_type = attachment.text(id::MEDIA_TYPE, narrow)?;
            let media_type = media_type
                .map(|of| one_line(&of))
                .filter(|of| of.contains('/'));
            let media_type = media_type.as_deref().unwrap_or("application/octet-stream");
            let content_id = attachment.text(id::CONTENT_ID, narrow)?;
            let content_id = content_id.filter(|id| !id.trim().is_empty());
            let content_id = content_id.map(|id| format!("Content-ID: <{}>\r\n", one_line(&id)));
            let head = format!(
                "Content-Disposition: attachment; filename=\"{name}\"\r\n{}",
                content_id.unwrap_or_default()
            );
            part(written, boundary, media_type, &head, &bytes);
        }
        Ok(())
    }

    /// Returns the names of the folders in this one that begin so, in order.
    fn folders(&self, begin: &str) -> Vec<String> {
        let entries: &CompoundFile<_> = &self.file.file;
        let entries = entries.read_storage(&self.folder).into_iter().flatten();
        let names = entries.map(|entry| entry.name().to_owned());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(begin)).collect();
        names.sort();
        names.truncate(MAX_ATTACHMENTS);
        names
    }

    fn stream(&mut self, name: &str) -> Result<Option<Vec<u8>>, DocumentError> {
        self.file.stream(format!("{}{name}", self.folder))
    }

    fn bytes(&mut self, id: u16) -> Result<Option<Vec<u8>>, DocumentError> {
        self.stream(&format!("__substg1.0_{id:04X}0102"))
    }

    /// Returns a property that is a text: in UTF-16, or in a code page.
    fn text(&mut self, id: u16, page: u16) -> Result<Option<String>, DocumentError> {
        if let Some(bytes) = self.stream(&format!("__substg1.0_{id:04X}001F"))? {
            return Ok(Some(trimmed(utf16(&bytes))));
        }
        let bytes = self.stream(&format!("__substg1.0_{id:04X}001E"))?;
        Ok(bytes.map(|bytes| trimmed(in_code_page(&bytes, page))))
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('\0').to_owned()
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Returns a text as the header of a message has it.
fn word(text: &str) -> String {
    let text = one_line(text);
    match text.is_empty() {
        true => text,
        false => format!("=?utf-8?B?{}?=", BASE64_STANDARD.encode(text)),
    }
}

fn part(written: &mut String, boundary: &str, media_type: &str, head: &str, bytes: &[u8]) {
    let _ = write!(
        written,
        "--{boundary}\r\nContent-Type: {media_type}\r\nContent-Transfer-Encoding: base64\r\n\
         {head}\r\n"
    );
    BASE64_STANDARD.encode_string(bytes, written);
    written.push_str("\r\n");
}

/// Returns a time of Windows as the header of a message has it.
fn date(value: &[u8]) -> Option<String> {
    const PER_SECOND: u64 = 10_000_000;
    /// Seconds from 1601 to 1970.
    const EPOCH: i64 = 11_644_473_600;
    let low = u64::from(u32_at(value, 0)?);
    let ticks = low | u64::from(u32_at(value, 4)?) << 32;
    let seconds = i64::try_from(ticks / PER_SECOND).ok()? - EPOCH;
    let date = mail_parser::DateTime::from_timestamp(seconds);
    (1970..=9999).contains(&date.year).then(|| date.to_rfc822())
}

/// Returns the RTF of a compressed one ([MS-OXRTFCP]).
fn rtf_of(compressed: &[u8]) -> Option<Vec<u8>> {
    const HEAD: usize = 16;
    const WINDOW: usize = 4096;
    const COMPRESSED: u32 = 0x7546_5A4C;
    const BEFORE: &[u8] = b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \
        \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier\
        {\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";
    let size = usize_at(compressed, 4)?;
    let rest = compressed.get(HEAD..)?;
    if u32_at(compressed, 8)? != COMPRESSED {
        return Some(rest[..size.min(rest.len())].to_vec());
    }
    let mut window = [b' '; WINDOW];
    window[..BEFORE.len()].copy_from_slice(BEFORE);
    let mut at = BEFORE.len();
    let mut unpacked = vec![];
    let mut bytes = rest.iter().copied();
    let mut push = |byte: u8, at: &mut usize, window: &mut [u8; WINDOW]| {
        unpacked.push(byte);
        window[*at] = byte;
        *at = (*at + 1) % WINDOW;
    };
    'all: while let Some(control) = bytes.next() {
        for bit in 0..8 {
            if control & (1 << bit) == 0 {
                let Some(byte) = bytes.next() else { break 'all };
                push(byte, &mut at, &mut window);
                continue;
            }
            let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else {
                break 'all;
            };
            let reference = usize::from(high) << 8 | usize::from(low);
            let (from, length) = (reference >> 4, (reference & 0xF) + 2);
            if from == at {
                break 'all;
            }
            for n in 0..length {
                let byte = window[(from + n) % WINDOW];
                push(byte, &mut at, &mut window);
            }
        }
    }
    unpacked.truncate(size);
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtf_is_unpacked() {
        // The examples of [MS-OXRTFCP], 3.1.
        let simple = [
            0x2d, 0x00, 0x00, 0x00, 0x2b, 0x00, 0x00, 0x00, 0x4c, 0x5a, 0x46, 0x75, 0xf1, 0xc5,
            0xc7, 0xa7, 0x03, 0x00, 0x0a, 0x00, 0x72, 0x63, 0x70, 0x67, 0x31, 0x32, 0x35, 0x42,
            0x32, 0x0a, 0xf3, 0x20, 0x68, 0x65, 0x6c, 0x09, 0x00, 0x20, 0x62, 0x77, 0x05, 0xb0,
            0x6c, 0x64, 0x7d, 0x0a, 0x80, 0x0f, 0xa0,
        ];
        let text = String::from_utf8(rtf_of(&simple).unwrap()).unwrap();
        assert_eq!(text, "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n");
        let crossing = [
            0x1a, 0x00, 0x00, 0x00, 0x1c, 0x00, 0x00, 0x00, 0x4c, 0x5a, 0x46, 0x75, 0xe2, 0xd4,
            0x4b, 0x51, 0x41, 0x00, 0x04, 0x20, 0x57, 0x58, 0x59, 0x5a, 0x0d, 0x6e, 0x7d, 0x01,
            0x0e, 0xb0,
        ];
        let text = String::from_utf8(rtf_of(&crossing).unwrap()).unwrap();
        assert_eq!(text, "{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}");
    }

    #[test]
    fn times_are_dates() {
        let ticks = (1_714_543_200_u64 + 11_644_473_600) * 10_000_000;
        let date = date(&ticks.to_le_bytes()).unwrap();
        assert_eq!(date, "Wed, 1 May 2024 06:00:00 +0000");
    }
}
