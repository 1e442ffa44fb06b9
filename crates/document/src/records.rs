//! Records as text: a line of `name: value` for each field, an empty line between two records.
//!
//! ```text
//! name,price,stock                 name: Tea          [{"name": "Tea", "price": 2.5, "tags": ["hot", "green"]},
//! Tea,2.5,            ──────▶      price: 2.5    ◀──   {"name": "Coffee", "price": 3}]
//! Coffee,3,12
//!                                  name: Coffee
//!                                  price: 3
//!                                  stock: 12
//! ```
//!
//! So each chunk of many records names its fields, which a search for "the price of coffee" needs.
//! Fields without a value are dropped. So are empty lines inside a value, which would look like the
//! end of the record.
//!
//! Names are repeated with every record, so the text is longer than the file. A file whose text
//! would grow beyond [`MAX_GROWTH`], and one that is not valid, is kept as written, with a warning.

pub mod csv;
pub mod json;
pub mod spreadsheet;

use rag_protocol::ingest::Stage;

use crate::{ExtractedDocument, Structure, data_uri, title};

/// Maximum ratio of text size to file size.
const MAX_GROWTH: usize = 16;
/// Maximum size of a text in any case: what a document's message to the database may hold, with
/// room to spare.
const MAX_TEXT: usize = 128 << 20;
/// Maximum length of a field's name, in characters.
const MAX_NAME: usize = 200;

fn records(text: String, name: &str) -> ExtractedDocument {
    ExtractedDocument::new(text, title::from_name(name), Structure::Records)
}

/// Returns the file as written, with the reason as a warning.
fn as_written(file: &str, name: &str, why: String) -> ExtractedDocument {
    let mut extracted = records(file.to_owned(), name);
    extracted.warn(Stage::Extract, why);
    extracted
}

/// A text with a maximum size.
struct Writer {
    text: String,
    most: usize,
    /// True if the record has a field.
    begun: bool,
}

/// The text would exceed its maximum size.
#[derive(Debug)]
struct TooLong;

impl Writer {
    fn new(file: &str) -> Self {
        let most = (file.len().saturating_mul(MAX_GROWTH) + (64 << 10)).min(MAX_TEXT);
        Self {
            text: String::new(),
            most,
            begun: false,
        }
    }

    /// A text of a file that is not text: only its own size is limited.
    fn unrelated() -> Self {
        Self {
            text: String::new(),
            most: MAX_TEXT,
            begun: false,
        }
    }

    fn end_record(&mut self) {
        self.begun = false;
    }

    /// Begins a field's line. A record without a name for its value has no prefix.
    fn field(&mut self, name: &str) -> Result<(), TooLong> {
        if !self.text.is_empty() {
            self.text.push_str(if self.begun { "\n" } else { "\n\n" });
        }
        self.begun = true;
        if !name.is_empty() {
            self.push(name)?;
            self.text.push_str(": ");
        }
        Ok(())
    }

    /// Adds a value without its empty lines. Files inside of it are only named.
    fn value(&mut self, value: &str) -> Result<(), TooLong> {
        let value = &*data_uri::named(value);
        if !value.contains(['\n', '\r']) {
            return self.push(value.trim());
        }
        let lines = value
            .split(['\n', '\r'])
            .map(str::trim_end)
            .filter(|line| !line.trim().is_empty());
        for (i, line) in lines.enumerate() {
            if i > 0 {
                self.text.push('\n');
            }
            self.push(line)?;
        }
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), TooLong> {
        if self.text.len() + text.len() > self.most {
            return Err(TooLong);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Returns the name in one line of at most [`MAX_NAME`] characters.
fn field_name(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").chars().take(MAX_NAME).collect()
}
