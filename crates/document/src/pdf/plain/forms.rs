//! Reads what was typed into the fields of a form, and notes that are shown on a page.

use pdf_extract::{Dictionary, Document, Object, decode_text_string};

/// Maximum number of fields and notes of a page.
const MAX_FIELDS: usize = 10_000;
/// Maximum number of fields around a field.
const MAX_PARENTS: usize = 8;
const HIDDEN: i64 = 1 << 1;
const NO_VIEW: i64 = 1 << 5;
/// The flag of a field whose text is not shown.
const PASSWORD: i64 = 1 << 13;

/// Returns the texts of a page's fields and notes, in the order of the file.
pub fn texts(document: &Document, number: u32) -> Vec<String> {
    let fields = || {
        let page = document
            .get_dictionary(*document.get_pages().get(&number)?)
            .ok()?;
        let (_, fields) = document.dereference(page.get(b"Annots").ok()?).ok()?;
        fields.as_array().ok()
    };
    let fields = fields().into_iter().flatten().take(MAX_FIELDS);
    fields.filter_map(|field| text(document, field)).collect()
}

fn text(document: &Document, field: &Object) -> Option<String> {
    let (_, field) = document.dereference(field).ok()?;
    let field = field.as_dict().ok()?;
    let number = |key| inherited(document, field, key).and_then(|flags| flags.as_i64().ok());
    let flags = field.get(b"F").and_then(Object::as_i64).unwrap_or_default();
    if flags & (HIDDEN | NO_VIEW) != 0 {
        return None;
    }
    let value = match field.get(b"Subtype").and_then(Object::as_name).ok()? {
        b"Widget" if number(b"Ff").unwrap_or_default() & PASSWORD == 0 => {
            inherited(document, field, b"V")?
        }
        b"FreeText" => field.get(b"Contents").ok()?,
        _ => return None,
    };
    let (_, value) = document.dereference(value).ok()?;
    let texts: Vec<String> = match value {
        Object::Array(values) => values
            .iter()
            .filter_map(|one| decode_text_string(one).ok())
            .collect(),
        one => vec![decode_text_string(one).ok()?],
    };
    let text = texts.join(", ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// Returns the value of a key of a field, or of a field around it.
fn inherited<'a>(document: &'a Document, field: &'a Dictionary, key: &[u8]) -> Option<&'a Object> {
    let mut field = field;
    for _ in 0..MAX_PARENTS {
        if let Ok(value) = field.get(key) {
            return Some(value);
        }
        let (_, parent) = document.dereference(field.get(b"Parent").ok()?).ok()?;
        field = parent.as_dict().ok()?;
    }
    None
}
