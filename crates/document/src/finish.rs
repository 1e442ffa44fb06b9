//! What is done with every document after its reader: characters that nobody sees are removed, and
//! warnings become metadata.

use std::mem;

use rag_definition::DocumentType;
use rag_protocol::ingest::{Stage, Title};
use serde_json::Value;

use crate::{
    DocumentError, ExtractedDocument, Structure, anchors, decode, invisible, markdown, title, words,
};

/// Cleans what a format's reader has read.
pub fn finished(
    mut extracted: ExtractedDocument,
    document_type: DocumentType,
) -> Result<ExtractedDocument, DocumentError> {
    // Formats with escapes can write NUL in other ways than as a byte.
    if let Some(text) = decode::without_nul(&extracted.text) {
        extracted.warn(
            Stage::Decode,
            decode::nul_warning(extracted.text.len() - text.len()),
        );
        extracted.replace(text);
    }
    if let Some((text, count)) = invisible::removed(&extracted.text) {
        extracted.invisible(count);
        extracted.replace(text);
    }
    extracted.clean_names();
    if extracted.text.trim().is_empty() {
        // Markdown may have front matter and no text.
        return Err(if document_type == DocumentType::Markdown {
            DocumentError::empty()
        } else {
            DocumentError::no_text()
        });
    }
    if let Some(warning) = words::warning(&extracted.text, &extracted.structure) {
        extracted.warn(Stage::Extract, warning);
    }
    // This replaces a key of that name in the document's own metadata.
    if !extracted.warnings.is_empty() {
        let messages: Vec<Value> = extracted
            .warnings
            .iter()
            .map(|warning| warning.message.clone().into())
            .collect();
        extracted
            .metadata
            .insert("warnings".into(), messages.into());
    }
    Ok(extracted)
}

impl ExtractedDocument {
    /// Replaces the text by one from which characters were removed.
    fn replace(&mut self, text: String) {
        self.anchors = anchors::moved(mem::take(&mut self.anchors), &self.text, &text);
        self.text = text;
        if let Structure::Sections { .. } = self.structure {
            self.structure = markdown::structure(&self.text);
        }
    }

    pub fn invisible(&mut self, count: usize) {
        self.lost(
            count,
            "invisible character",
            "invisible characters",
            "removed (tags, bidirectional or zero-width controls)",
        );
    }

    /// Removes invisible characters from the title and the metadata as well.
    fn clean_names(&mut self) {
        if let Some((title, _)) = invisible::removed(&self.title.text) {
            self.title = title::own(&title).map_or_else(
                || Title {
                    text: "untitled".into(),
                    own: false,
                },
                |cleaned| Title {
                    own: self.title.own,
                    ..cleaned
                },
            );
        }
        self.metadata.values_mut().for_each(clean_value);
    }
}

fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((cleaned, _)) = invisible::removed(text) {
                *text = cleaned;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(clean_value),
        Value::Object(values) => values.values_mut().for_each(clean_value),
        _ => {}
    }
}
