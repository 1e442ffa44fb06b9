//! Mail: messages (`.eml`, `.msg`), mailboxes (`.mbox`) and pages with their parts (`.mhtml`).
//!
//! The text of a message is its plain text, or else its page of HTML. Attachments follow under a
//! heading with their name, each read as a file of that name is. The subject is the title. Who
//! wrote to whom and when is in the metadata, and in a mailbox below the subject of each message.
//!
//! Sources read a message without its attachments, which are documents of their own. So are the
//! messages of a mailbox ([`parts`]).

mod parts;

use std::borrow::Cow;

use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};
use rag_definition::DocumentType;
use rag_protocol::ingest::{Stage, Title, Warning};
use serde_json::{Map, Value};

use crate::{
    DocumentError, ExtractedDocument, PdfReader, Structure,
    blocks::{self, Block},
    compound::{is_compound, message::as_internet_message},
    html, kind,
    package::malformed,
    title, wants_recognition,
};

pub use parts::{extract_alone, unpack};

/// Maximum number of warnings that are kept of an attachment.
const MAX_WARNINGS: usize = 5;
/// Maximum number of messages in a mailbox.
const MAX_MESSAGES: usize = 100_000;
/// Maximum number of attachments that are read of a file.
const MAX_ATTACHMENTS: usize = 500;
/// Maximum number of messages in each other that are read.
const MAX_DEPTH: usize = 3;
/// Maximum number of messages in each other that may be in a file: the library ends each in the
/// one around it.
const MAX_NESTED: usize = 1_000;
/// Maximum size of the texts of all attachments, in bytes.
const MAX_TEXT: usize = 64 << 20;

/// Returns true for a mailbox: a file of messages with a line `From ` before each.
pub fn is_mailbox(bytes: &[u8]) -> bool {
    without_mark(bytes).starts_with(b"From ")
}

/// Returns the bytes of a message or mailbox of the internet, those of Outlook written as one.
fn internet(bytes: &[u8]) -> Result<Cow<'_, [u8]>, DocumentError> {
    Ok(match is_compound(bytes) {
        true => as_internet_message(bytes)?.into(),
        false => without_mark(bytes).into(),
    })
}

fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

fn encrypted() -> DocumentError {
    DocumentError::new(Stage::Extract, "the message is encrypted")
        .hint("Replace the file with a copy that is not encrypted.")
}

/// Reads messages with their attachments.
pub fn extract(
    bytes: &[u8],
    name: &str,
    pdfs: &PdfReader,
) -> Result<ExtractedDocument, DocumentError> {
    let mut reader = Reader {
        pdfs,
        attachments: 0,
        size: 0,
        lost: vec![],
        warnings: vec![],
        may_show_more: false,
    };
    let bytes = internet(bytes)?;
    let messages = mailbox(&bytes);
    let mut unread = messages.len().saturating_sub(MAX_MESSAGES);
    let mut blocks = vec![];
    let mut metadata = Map::new();
    let (mut subject, mut is_encrypted) = (None, false);
    let is_one = messages.len() == 1;
    for bytes in messages.iter().take(MAX_MESSAGES) {
        let message = match parsed(bytes) {
            Err(_) if !is_one => {
                unread += 1;
                continue;
            }
            message => message?,
        };
        is_encrypted |= is_locked(&message);
        if is_one {
            metadata = facts(&message);
            subject = message.subject().and_then(title::own);
        } else {
            blocks.extend(head(&message, 1));
        }
        blocks.extend(reader.read(&message, 1));
    }
    let text = blocks::markdown(&blocks);
    if text.trim().is_empty() && is_encrypted {
        return Err(encrypted());
    }
    // The headings of a message do not name it, as those of a mailbox do not.
    let title = subject.unwrap_or_else(|| title::from_name(name));
    let mut extracted = ExtractedDocument::in_markdown(text, Some::<Title>(title), name);
    extracted.metadata = metadata;
    extracted.may_show_more = reader.may_show_more;
    extracted.warnings = reader.warnings;
    extracted.lost(unread, "message", "messages", "left out");
    if let Some(first) = reader.lost.first() {
        let what = format!("not read: {first}");
        let count = reader.lost.len();
        extracted.lost(count, "attachment", "attachments", &what);
    }
    Ok(extracted)
}

fn parsed<'a>(bytes: &'a [u8]) -> Result<Message<'a>, DocumentError> {
    const NESTED: &[u8] = b"message/rfc822";
    let nested = bytes.windows(NESTED.len());
    if nested
        .filter(|part| part.eq_ignore_ascii_case(NESTED))
        .count()
        > MAX_NESTED
    {
        let why = format!("it has more than {MAX_NESTED} messages in each other");
        return Err(malformed("message", &why));
    }
    let message = MessageParser::default().parse(bytes);
    let message = message.filter(|message| !message.headers().is_empty());
    message.ok_or_else(|| malformed("message", &"it has no headers"))
}

/// Returns the messages of a mailbox, or the one of a file that is none.
fn mailbox(bytes: &[u8]) -> Vec<Vec<u8>> {
    if !is_mailbox(bytes) {
        return vec![bytes.trim_ascii_start().to_vec()];
    }
    let mut messages: Vec<Vec<u8>> = vec![];
    let mut is_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_blank && line.starts_with(b"From ") {
            messages.push(vec![]);
        } else if let Some(message) = messages.last_mut() {
            // Lines that begin so are quoted once more.
            let rest = line.iter().skip_while(|byte| **byte == b'>').count();
            let is_quoted =
                line.starts_with(b">") && line[line.len() - rest..].starts_with(b"From ");
            message.extend(&line[usize::from(is_quoted)..]);
        }
        is_blank = line.trim_ascii().is_empty();
    }
    messages.retain(|message| !message.trim_ascii().is_empty());
    messages
}

/// Returns what the metadata say of a message.
fn facts(message: &Message) -> Map<String, Value> {
    let mut facts = Map::new();
    let date = message.date().map(|date| date.to_rfc3339());
    let id = message.message_id().map(str::to_owned);
    for (key, value) in [
        ("from", people(message.from())),
        ("to", people(message.to())),
        ("cc", people(message.cc())),
        ("date", date),
        ("message_id", id),
    ] {
        facts.extend(value.map(|value| (key.to_owned(), value.into())));
    }
    let attachments = message.attachments();
    let attachments = attachments.filter(|part| !is_decoration(part, &media_type(part)));
    let names = attachments.filter_map(|part| part.attachment_name());
    let names: Vec<Value> = names.take(MAX_ATTACHMENTS).map(Into::into).collect();
    if !names.is_empty() {
        facts.insert("attachments".into(), names.into());
    }
    facts
}

fn people(address: Option<&Address>) -> Option<String> {
    let people =
        address?
            .iter()
            .take(100)
            .filter_map(|person| match (person.name(), person.address()) {
                (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
                (name, address) => name.or(address).map(str::to_owned),
            });
    let people = people.collect::<Vec<_>>().join(", ");
    (!people.is_empty()).then_some(people)
}

/// Returns the subject of a message as a heading, and who wrote it when.
fn head(message: &Message, level: usize) -> Vec<Block> {
    let subject = message
        .subject()
        .filter(|subject| !subject.trim().is_empty());
    let facts = [
        ("From", people(message.from())),
        ("To", people(message.to())),
        ("Date", message.date().map(|date| date.to_rfc3339())),
    ];
    let facts = facts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    vec![
        Block::Heading {
            level,
            text: subject.unwrap_or("no subject").to_owned(),
        },
        Block::Text(facts.collect::<Vec<_>>().join("\n")),
    ]
}

/// Returns true for a message whose content is encrypted.
fn is_locked(message: &Message) -> bool {
    message.content_type().is_some_and(|of| {
        let subtype = of.subtype().unwrap_or_default().to_lowercase();
        let is_signed = of
            .attribute("smime-type")
            .is_some_and(|of| of.contains("signed"));
        subtype == "encrypted" || subtype.ends_with("pkcs7-mime") && !is_signed
    })
}

struct Reader<'a> {
    pdfs: &'a PdfReader,
    attachments: usize,
    size: usize,
    /// The names of attachments that could not be read.
    lost: Vec<String>,
    /// What was lost of others.
    warnings: Vec<Warning>,
    may_show_more: bool,
}

impl Reader<'_> {
    fn read(&mut self, message: &Message, depth: usize) -> Vec<Block> {
        let mut blocks = text(message);
        for part in message.attachments() {
            blocks.extend(self.attachment(part, depth));
        }
        blocks
    }

    fn attachment(&mut self, part: &MessagePart, depth: usize) -> Vec<Block> {
        if let PartType::Message(inner) = &part.body
            && depth < MAX_DEPTH
        {
            return [head(inner, 2), self.read(inner, depth + 1)].concat();
        }
        let name = part.attachment_name().unwrap_or("attachment");
        let media_type = media_type(part);
        if is_decoration(part, &media_type) {
            return vec![];
        }
        self.attachments += 1;
        let read = match self.attachments <= MAX_ATTACHMENTS && self.size < MAX_TEXT {
            true => self.document(name, &media_type, part.contents()),
            false => None,
        };
        let Some(read) = read else {
            self.lost.push(name.chars().take(100).collect());
            return vec![];
        };
        self.size += read.text.len();
        let heading = Block::Heading {
            level: 2,
            text: name.to_owned(),
        };
        let text = read.text.replace('\u{C}', "\n\n");
        vec![
            heading,
            match read.structure {
                Structure::Sections { .. } => Block::Markdown(text),
                Structure::Code(_) => Block::Code {
                    language: String::new(),
                    text,
                },
                _ => Block::Text(text),
            },
        ]
    }

    fn document(
        &mut self,
        name: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Option<ExtractedDocument> {
        let document_type = kind::document_type(name, Some(media_type), bytes)?;
        if document_type == DocumentType::Mail {
            // The library reads those that are declared as messages.
            return None;
        }
        let read = crate::extract_with(self.pdfs, bytes, document_type, name, None);
        self.may_show_more |= wants_recognition(&read);
        let read = read.ok()?;
        let warnings = read.warnings.iter().take(MAX_WARNINGS);
        self.warnings.extend(warnings.map(|warning| Warning {
            message: format!("{name}: {}", warning.message),
            ..warning.clone()
        }));
        Some(read)
    }
}

fn media_type(part: &MessagePart) -> String {
    let declared = part.content_type().map(|of| {
        let subtype = of.subtype().unwrap_or("octet-stream");
        format!("{}/{subtype}", of.ctype()).to_lowercase()
    });
    declared.unwrap_or_else(|| "application/octet-stream".into())
}

/// Returns true for pictures of the page, and for signatures.
fn is_decoration(part: &MessagePart, media_type: &str) -> bool {
    let is_picture = part.content_id().is_some() && media_type.starts_with("image/");
    is_picture || media_type.ends_with("-signature")
}

/// Returns the text of a message without its attachments.
fn text(message: &Message) -> Vec<Block> {
    let mut blocks = vec![];
    for part in message.text_bodies() {
        match &part.body {
            PartType::Text(text) => blocks.extend(paragraphs(text)),
            PartType::Html(page) => blocks.extend(self::page(page)),
            _ => {}
        }
    }
    blocks
}

/// Returns the paragraphs of a plain text.
fn paragraphs(text: &str) -> Vec<Block> {
    let text = text.replace("\r\n", "\n");
    let parts = text.split("\n\n").map(|part| part.trim_matches('\n'));
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.map(|part| Block::Text(part.to_owned())).collect()
}

fn page(page: &str) -> Vec<Block> {
    match html::extract(page, "message") {
        Ok(read) => vec![Block::Markdown(read.text)],
        Err(_) => vec![Block::Text(page.to_owned())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> ExtractedDocument {
        extract(file.as_bytes(), "mail/a.eml", &PdfReader::PDF_EXTRACT).unwrap()
    }

    #[test]
    fn a_message_is_its_plain_text_with_its_attachments() {
        let file = "From: =?utf-8?Q?J=C3=B6rg?= <j@example.org>\r\nTo: a@example.org, Bob <b@x.org>\
            \r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\nDate: Wed, 1 May 2024 08:00:00 +0200\r\n\
            Message-ID: <1@x>\r\nmsip_labels: a=b\r\nMIME-Version: 1.0\r\n\
            Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\n\
            Content-Type: multipart/alternative; boundary=a\r\n\r\n--a\r\n\
            Content-Type: text/plain; charset=iso-8859-1\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\nSch=F6n =\r\ndich zu h=F6ren\r\n\
            # 1\r\n\r\n> quoted\r\n--a\r\nContent-Type: text/html\r\n\r\n<p>no</p>\r\n--a--\r\n\
            --m\r\nContent-Type: text/csv; name=p.csv\r\nContent-Disposition: attachment\r\n\
            Content-Transfer-Encoding: base64\r\n\r\nbmFtZSxwcmljZQpUZWEsMi41Cg==\r\n--m\r\n\
            Content-Type: image/png; name=a.png\r\nContent-Disposition: attachment\r\n\r\nx\r\n\
            --m\r\nContent-Type: message/rfc822\r\n\r\nSubject: Inner\r\nFrom: c@x.org\r\n\r\n\
            Forwarded.\r\n--m--\r\n";
        let read = read(file);
        assert_eq!(
            read.text,
            "Schön dich zu hören\n\\# 1\n\n> quoted\n\n## p.csv\n\nname: Tea\nprice: 2.5\n\n\
             ## Inner\n\nFrom: c@x.org\n\nForwarded."
        );
        assert_eq!(read.title.text, "Grüße");
        assert_eq!(read.metadata["from"], "Jörg <j@example.org>");
        assert_eq!(read.metadata["to"], "a@example.org, Bob <b@x.org>");
        assert_eq!(read.metadata["date"], "2024-05-01T08:00:00+02:00");
        assert_eq!(read.metadata["attachments"][0], "p.csv");
        assert_eq!(read.warnings[0].message, "1 attachment was not read: a.png");
    }

    #[test]
    fn a_page_is_read_where_there_is_no_plain_text() {
        let file = "Subject: Hi\nContent-Type: text/html; charset=utf-8\n\n<h1>Offer</h1>\
            <p>Tea &amp; <b>more</b></p><img src=\"cid:1\">";
        assert_eq!(read(file).text, "# Offer\n\nTea & **more**");
    }

    #[test]
    fn a_message_without_a_head_does_not_cost_its_mailbox() {
        let file = "From a@x Wed May  1 08:00:00 2024\nSubject: One\n\nHello\n\n\
            From b@x Wed May  1 09:00:00 2024\n\nno head\n\n\
            From c@x Wed May  1 10:00:00 2024\nSubject: Two\n\nBye\n";
        let read = read(file);
        assert!(read.text.contains("Hello") && read.text.contains("Bye"));
        assert_eq!(read.warnings[0].message, "1 message was left out");
    }

    #[test]
    fn what_an_attachment_loses_is_told() {
        let file = "Subject: Hi\nContent-Type: multipart/mixed; boundary=m\n\n--m\n\
            Content-Type: text/plain\n\nSee the list.\n--m\n\
            Content-Type: text/csv; name=p.csv\nContent-Disposition: attachment\n\n\
            name,price\n\"Tea,2\n--m--\n";
        let warnings = read(file).warnings;
        assert!(warnings[0].message.starts_with("p.csv: "), "{warnings:?}");
    }

    #[test]
    fn messages_of_a_mailbox_are_sections() {
        let file = "From a@x Wed May  1 08:00:00 2024\nFrom: a@x.org\nSubject: One\n\nHello\n\
            >From here\n>>From there\n\nFrom b@x Wed May  1 09:00:00 2024\nSubject: Two\n\nBye\n";
        assert_eq!(
            read(file).text,
            "# One\n\nFrom: a@x.org\n\nHello\nFrom here\n>From there\n\n# Two\n\nBye"
        );
    }

    #[test]
    fn encrypted_damaged_and_hostile_messages_are_errors_or_read() {
        let problem = |file: &str| {
            let bytes = file.as_bytes();
            extract(bytes, "a.eml", &PdfReader::PDF_EXTRACT)
                .unwrap_err()
                .message
        };
        let locked = "Subject: x\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data; \
            name=smime.p7m\nContent-Transfer-Encoding: base64\n\nAAAA\n";
        assert_eq!(problem(locked), "the message is encrypted");
        let nested = "Subject: x\nContent-Type: message/rfc822\n\n".repeat(900) + "\nend";
        let _ = extract(nested.as_bytes(), "a.eml", &PdfReader::PDF_EXTRACT);
        assert!(problem(&nested.repeat(2)).contains("messages in each other"));
        let parts = "Content-Type: multipart/mixed; boundary=b\n\n--b\n".repeat(20_000);
        let _ = extract(parts.as_bytes(), "a.eml", &PdfReader::PDF_EXTRACT);
        let whole = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b--";
        for cut in 0..whole.len() {
            let _ = extract(&whole.as_bytes()[..cut], "a.eml", &PdfReader::PDF_EXTRACT);
        }
    }
}
