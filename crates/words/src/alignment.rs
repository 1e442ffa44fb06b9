//! Where the characters of a normalized text are in the text that it was made of.
//!
//! A text is divided where no character joins the one before it. Each piece is normalized for
//! itself, and all of them together are the normalized text. A piece that normalization changes is
//! not divided: both letters of `ﬁnd` are at the place of the ligature.

use std::{borrow::Cow, iter::once, ops::Range};

use rag_pages::memory::{OutOfMemory, append, push, with_room};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization,
    char::{canonical_combining_class, is_combining_mark},
    is_nfc_quick,
};

use crate::normal::{is_normal, separated};

/// Places in a normalized text, and in the text.
#[derive(Debug, Default)]
pub struct Alignment {
    /// In their order. None if both texts are the same.
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// Where it begins in the normalized text.
    normal: usize,
    /// Where it begins and ends in the text.
    start: usize,
    end: usize,
    /// It was not changed, so that each of its bytes has a place.
    is_same: bool,
}

/// Does what [`normalized`](crate::normalized) does, and returns where the characters were.
///
/// # Errors
/// Memory runs out.
pub fn aligned(text: &str) -> Result<(Cow<'_, str>, Alignment), OutOfMemory> {
    if text.is_ascii() || is_normal(text) {
        return Ok((Cow::Borrowed(text), Alignment::default()));
    }
    let mut aligned = Aligned {
        text,
        normal: with_room(text.len())?,
        alignment: Alignment::default(),
    };
    let mut piece: Vec<char> = vec![];
    let mut place = 0..0;
    for (own, c) in separated(text) {
        if own.start >= place.end && begins_piece(c) {
            aligned.add(&mut piece, place)?;
            place = own;
        } else {
            place.end = own.end;
        }
        push(&mut piece, c)?;
    }
    aligned.add(&mut piece, place)?;
    let normal = String::from_utf8(aligned.normal).unwrap_or_default();
    Ok((Cow::Owned(normal), aligned.alignment))
}

/// Returns true if a character does not change with the one before it, nor what is before it.
fn begins_piece(c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let first = once(c).nfkd().next().unwrap_or(c);
    canonical_combining_class(first) == 0 && is_nfc_quick(once(first)) == IsNormalized::Yes
}

/// A text that is being aligned.
struct Aligned<'t> {
    text: &'t str,
    normal: Vec<u8>,
    alignment: Alignment,
}

impl Aligned<'_> {
    /// Adds a piece, which is at a place of the text, and empties it.
    fn add(&mut self, piece: &mut Vec<char>, place: Range<usize>) -> Result<(), OutOfMemory> {
        if piece.is_empty() {
            return Ok(());
        }
        let normal = self.normal.len();
        let mut bytes = [0; 4];
        for c in piece.drain(..).nfkc() {
            append(&mut self.normal, c.encode_utf8(&mut bytes).as_bytes())?;
        }
        let is_same = self.normal[normal..] == *self.text[place.clone()].as_bytes();
        match self.alignment.pieces.last_mut() {
            Some(last) if is_same && last.is_same && last.end == place.start => {
                last.end = place.end;
                Ok(())
            }
            _ => push(
                &mut self.alignment.pieces,
                Piece {
                    normal,
                    start: place.start,
                    end: place.end,
                    is_same,
                },
            ),
        }
    }
}

impl Alignment {
    /// Returns where characters of the normalized text are in the text that it was made of, with
    /// the marks that belong to the last of them. The range must have one character at least.
    pub fn place(&self, text: &str, normal: Range<usize>) -> Range<usize> {
        let (start, end) = (self.piece(normal.start), self.piece(normal.end - 1));
        let start = start.map_or(normal.start, |piece| match piece.is_same {
            true => piece.start + (normal.start - piece.normal),
            false => piece.start,
        });
        let end = end.map_or(normal.end, |piece| match piece.is_same {
            true => piece.start + (normal.end - piece.normal),
            false => piece.end,
        });
        let marks = text[end..].chars().take_while(|c| is_combining_mark(*c));
        start..end + marks.map(char::len_utf8).sum::<usize>()
    }

    /// Returns the piece that has a byte of the normalized text.
    fn piece(&self, at: usize) -> Option<Piece> {
        let next = self.pieces.partition_point(|piece| piece.normal <= at);
        self.pieces.get(next.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::normal::normalized;

    /// Returns what of a text is at the place of a word of the normalized text.
    fn written<'t>(text: &'t str, word: &str) -> &'t str {
        let (normal, alignment) = aligned(text).unwrap();
        let at = normal.find(word).unwrap();
        &text[alignment.place(text, at..at + word.len())]
    }

    #[test]
    fn words_are_where_they_were_written() {
        for (text, word, place) in [
            ("a plain text", "plain", "plain"),
            ("Gro\u{308}ße", "Größe", "Gro\u{308}ße"),
            ("die Rück\u{AD}gabe\u{AD} der", "Rückgabe", "Rück\u{AD}gabe"),
            ("ＡＢＣ１２ x", "ABC12", "ＡＢＣ１２"),
            ("10⁶ m²", "6", "⁶"),
            ("10⁶ m²", "10", "10"),
            ("ﬁnd", "nd", "nd"),
            ("ﬁnd", "f", "ﬁ"),
            ("ﾊﾟｿｺﾝ", "ソ", "ｿ"),
            ("ﾊﾟｿｺﾝ", "パ", "ﾊﾟ"),
            ("1\u{FE0F}\u{20E3} ﬁ", "1", "1\u{FE0F}\u{20E3}"),
        ] {
            assert_eq!(written(text, word), place, "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_aligned_text_is_the_normalized_one(text in any_text()) {
            let (normal, alignment) = aligned(&text).unwrap();
            prop_assert_eq!(&normal, &normalized(&text).unwrap());
            let mut before = 0..0;
            for (at, c) in normal.char_indices() {
                let place = alignment.place(&text, at..at + c.len_utf8());
                prop_assert!(text.get(place.clone()).is_some_and(|of| !of.is_empty()));
                prop_assert!(before.start <= place.start);
                before = place;
            }
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            any::<char>().prop_map(String::from),
            "[a-z1 ]{1,3}",
            prop::sample::select(vec![
                "\u{301}", "\u{323}", "\u{AD}", "ﬁ", "½", "⁶", "가", "\u{1161}", "\u{11A8}", "ﾊ",
                "ﾞ", "™", "\u{344}", "\u{FB1D}", "\u{0B47}", "\u{0B3E}", "ำ",
            ])
            .prop_map(str::to_owned),
        ];
        prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }
}
