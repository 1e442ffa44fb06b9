//! Words of a paragraph. Superscripts and subscripts are written in a line, 10^6 and x_2.

use crate::formula::grouped;

/// Where characters stand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    #[default]
    Line,
    Super,
    Sub,
}

impl Script {
    /// Returns the script with a name of `ST_VerticalAlignRun`.
    pub fn named(name: &str) -> Self {
        match name {
            "superscript" => Self::Super,
            "subscript" => Self::Sub,
            _ => Self::Line,
        }
    }
}

/// A text that is being put together.
#[derive(Debug, Default)]
pub struct Words {
    text: String,
    script: Script,
    /// Where characters with the present script begin.
    start: usize,
}

impl Words {
    pub fn push(&mut self, piece: &str, script: Script) {
        if script != self.script {
            self.end_script();
            self.script = script;
            self.start = self.text.len();
        }
        self.text.push_str(piece);
    }

    pub fn finish(mut self) -> String {
        self.end_script();
        self.text
    }

    fn end_script(&mut self) {
        let sign = match self.script {
            Script::Line => return,
            Script::Super => '^',
            Script::Sub => '_',
        };
        let piece = self.text.split_off(self.start);
        let words = piece.trim();
        let base = self.text.chars().next_back();
        // A sign without a base is the mark of a note, and ® or ° are signs of their own.
        let is_plain = base.is_none_or(|base| !(base.is_alphanumeric() || base == ')'))
            || !words.chars().any(char::is_alphanumeric)
            || sign == '^' && is_end_of_word(base, words);
        if is_plain {
            self.text.push_str(&piece);
            return;
        }
        let (before, after) = piece.split_once(words).unwrap_or_default();
        // The base is the character before, so a space in between belongs behind.
        self.text.push(sign);
        self.text.push_str(&grouped(words));
        self.text.push_str(before);
        self.text.push_str(after);
    }
}

/// Returns true for raised letters that belong to the word before: 1st, 2e, 3º, trademarks.
fn is_end_of_word(base: Option<char>, words: &str) -> bool {
    let lower = words.to_lowercase();
    match lower.as_str() {
        "tm" | "sm" => true,
        "st" | "nd" | "rd" | "th" | "er" | "re" | "e" | "ème" | "eme" | "nde" | "o" | "a"
        | "os" | "as" | "º" | "ª" => base.is_some_and(|base| base.is_ascii_digit()),
        "lle" | "me" | "mme" | "mlle" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_written_in_a_line() {
        use Script::{Line, Sub, Super};
        for (pieces, expected) in [
            (&[("10", Line), ("6", Super), (" N", Line)][..], "10^6 N"),
            (&[("10", Line), ("-", Super), ("6", Super)], "10^-6"),
            (&[("H", Line), ("2", Sub), ("O", Line)], "H_2O"),
            (&[("x", Line), ("n+1", Super)], "x^(n+1)"),
            (&[("Ca", Line), ("2+", Super)], "Ca^(2+)"),
            (
                &[("the 1", Line), ("st", Super), (" of", Line)],
                "the 1st of",
            ),
            (&[("Acme", Line), ("®", Super)], "Acme®"),
            (&[("Acme", Line), ("TM", Super)], "AcmeTM"),
            (&[("20", Line), ("°", Super), ("C", Line)], "20°C"),
            (&[("1", Super), (" See page 4.", Line)], "1 See page 4."),
            (&[("m", Line), ("2 ", Super), ("each", Line)], "m^2 each"),
            (&[("x", Line), (" ", Super), ("y", Line)], "x y"),
            (&[("x", Line), ("i", Sub), ("2", Super)], "x_i^2"),
            (&[("a", Line), ("i,j", Sub)], "a_(i,j)"),
        ] {
            let mut words = Words::default();
            for (piece, script) in pieces {
                words.push(piece, *script);
            }
            assert_eq!(words.finish(), expected);
        }
    }
}
