//! The widths of glyphs in composite fonts, which decide where a word ends.
//!
//! A font's `W` array (PDF 32000-1, 9.7.4.3) gives widths in two forms: `first [w1 w2 ...]`, and
//! `first last w` for a range. `pdf-extract` 0.12 misreads the second, uses the default width and
//! puts spaces inside words. Nearly all PDFs from browsers and Google Docs use that form. So ranges
//! are rewritten in the first form.

use pdf_extract::{Document, Object};

/// Maximum number of widths of a font: glyph numbers have 16 bits.
const MAX_GLYPHS: usize = 1 << 16;

pub fn spell_out(document: &mut Document) {
    let fonts: Vec<_> = document
        .objects
        .iter()
        .filter_map(|(id, object)| {
            let font = object.as_dict().ok()?;
            let kind = font.get(b"Subtype").and_then(Object::as_name).ok()?;
            if !kind.starts_with(b"CIDFontType") {
                return None;
            }
            let (_, widths) = document.dereference(font.get(b"W").ok()?).ok()?;
            Some((*id, spelt_out(widths.as_array().ok()?)))
        })
        .collect();
    for (id, widths) in fonts {
        if let Ok(font) = document.get_object_mut(id).and_then(Object::as_dict_mut) {
            font.set("W", widths);
        }
    }
}

/// Returns the widths in the first form only, up to the first malformed entry.
fn spelt_out(mut widths: &[Object]) -> Vec<Object> {
    let mut spelt = vec![];
    let mut glyphs = 0;
    loop {
        match widths {
            [first @ Object::Integer(_), Object::Array(list), rest @ ..] => {
                spelt.extend([first.clone(), Object::Array(list.clone())]);
                widths = rest;
            }
            [
                Object::Integer(first),
                Object::Integer(last),
                width,
                rest @ ..,
            ] if width.as_float().is_ok() => {
                let count =
                    usize::try_from(last.saturating_sub(*first)).map_or(0, |n| n.saturating_add(1));
                if count > MAX_GLYPHS - glyphs {
                    return spelt;
                }
                glyphs += count;
                spelt.extend([
                    Object::Integer(*first),
                    Object::Array(vec![width.clone(); count]),
                ]);
                widths = rest;
            }
            _ => return spelt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_expanded_and_a_malformed_entry_ends_the_array() {
        let list =
            |widths: &[i64]| Object::Array(widths.iter().map(|w| Object::Integer(*w)).collect());
        let int = Object::Integer;
        assert_eq!(
            spelt_out(&[
                int(0),
                list(&[7, 8]),
                int(10),
                int(12),
                int(5),
                int(20),
                list(&[9]),
                int(30)
            ]),
            [
                int(0),
                list(&[7, 8]),
                int(10),
                list(&[5, 5, 5]),
                int(20),
                list(&[9])
            ]
        );
        assert_eq!(spelt_out(&[int(3), int(1), int(5)]), [int(3), list(&[])]);
        assert_eq!(spelt_out(&[int(0), int(i64::MAX), int(5)]), []);
    }
}
