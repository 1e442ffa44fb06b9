//! A message without its attachments, and the files that a message or a mailbox holds.

use mail_parser::{MimeHeaders, PartType};
use serde_json::Value;

use super::{
    encrypted, facts, internet, is_decoration, is_locked, is_mailbox, mailbox, media_type, parsed,
    text,
};
use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    container::{Member, Members},
    title,
};

/// Maximum length of the name of a message in a mailbox, in characters.
const MAX_NAME: usize = 200;

/// Reads a message without its attachments, which are named below its text.
pub fn extract_alone(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let bytes = internet(bytes)?;
    let message = parsed(bytes.trim_ascii_start())?;
    let mut blocks = text(&message);
    if blocks::markdown(&blocks).trim().is_empty() && is_locked(&message) {
        return Err(encrypted());
    }
    let metadata = facts(&message);
    if let Some(Value::Array(names)) = metadata.get("attachments") {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        blocks.push(Block::Text(format!("Attachments: {}", names.join(", "))));
    }
    let title = message.subject().and_then(title::own);
    let title = title.unwrap_or_else(|| title::from_name(name));
    let text = blocks::markdown(&blocks);
    let mut extracted = ExtractedDocument::in_markdown(text, Some(title), name);
    extracted.metadata = metadata;
    Ok(extracted)
}

/// Passes on the messages of a mailbox, or the attachments of a message.
///
/// # Errors
/// The message is damaged.
pub fn unpack(bytes: &[u8], members: &mut Members) -> Result<(), DocumentError> {
    if is_mailbox(bytes) {
        for bytes in mailbox(bytes) {
            // Its id stays the same when others are deleted.
            let id = parsed(&bytes).ok();
            let id = id.and_then(|message| message.message_id().map(str::to_owned));
            let name = id.unwrap_or_else(|| "message".into()).replace('/', "_");
            let path = format!("{}.eml", name.chars().take(MAX_NAME).collect::<String>());
            if !members.push(Member::new(path, bytes))? {
                break;
            }
        }
        return Ok(());
    }
    let bytes = internet(bytes)?;
    let message = parsed(bytes.trim_ascii_start())?;
    for part in message.attachments() {
        let media_type = media_type(part);
        let name = match &part.body {
            PartType::Message(inner) => {
                let subject = inner.subject().unwrap_or("message").replace('/', "_");
                format!("{}.eml", subject.chars().take(MAX_NAME).collect::<String>())
            }
            _ if is_decoration(part, &media_type) => continue,
            _ => part.attachment_name().unwrap_or("attachment").to_owned(),
        };
        let Some(path) = members.wanted_as(&name, Some(&media_type)) else {
            continue;
        };
        let member = Member {
            media_type: Some(media_type),
            ..Member::new(path, part.contents().to_vec())
        };
        if !members.push(member)? {
            break;
        }
    }
    Ok(())
}
