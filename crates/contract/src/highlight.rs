//! How words of a query are marked in texts.

use rag_definition::Fields;
use serde_json::Value;

use crate::request::{Result, parse};

/// The maximum number of characters of a mark.
const MAX_MARK: usize = 100;
/// The numbers of characters that a part of a text may have.
const PART: std::ops::RangeInclusive<i64> = 20..=10_000;

/// The numbers of texts whose sentences may be compared with the query.
const SENTENCES: std::ops::RangeInclusive<i64> = 0..=1000;

/// What a request says of marks. None means the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HighlightSettings {
    /// What stands before a word that is marked, and behind it.
    pub start: Option<String>,
    pub stop: Option<String>,
    /// What stands where text was left out.
    pub ellipsis: Option<String>,
    /// The signs of the text are no HTML. None means true.
    pub escape_html: Option<bool>,
    /// The maximum number of characters of the text that are shown.
    pub max_characters: Option<usize>,
    /// Number of texts without words of the query that show the sentence that is nearest to it in
    /// meaning. None means a few for models of this server, and 0 for others.
    pub nearest_sentences: Option<usize>,
}

impl HighlightSettings {
    pub(crate) const FIELDS: [&str; 6] = [
        "start",
        "stop",
        "ellipsis",
        "escape_html",
        "max_characters",
        "nearest_sentences",
    ];

    /// Reads an object of settings.
    ///
    /// # Errors
    /// A field is unknown, of another type, or out of range.
    pub fn parse(settings: &Value) -> Result<Self> {
        parse(settings, &Self::FIELDS, |fields| Some(Self::read(fields)))
    }

    pub(crate) fn read(fields: &Fields<'_>) -> Self {
        let characters = fields.integer("max_characters", PART);
        let sentences = fields.integer("nearest_sentences", SENTENCES);
        Self {
            start: mark(fields, "start"),
            stop: mark(fields, "stop"),
            ellipsis: mark(fields, "ellipsis"),
            escape_html: fields.boolean("escape_html"),
            max_characters: characters.and_then(|count| usize::try_from(count).ok()),
            nearest_sentences: sentences.and_then(|count| usize::try_from(count).ok()),
        }
    }
}

/// Reads a mark, which may be empty.
fn mark(fields: &Fields<'_>, name: &str) -> Option<String> {
    let mark = fields.any_text(name)?;
    let length = mark.chars().count();
    if length > MAX_MARK {
        fields.problem(
            name,
            format!("must have at most {MAX_MARK} characters, not {length}"),
        );
        return None;
    }
    Some(mark.to_owned())
}
