use std::collections::BTreeSet;

/// Larger numbers in brackets are years and the like, not citations.
const MAX_NUMBER: usize = 999;
/// The maximum length of numbers in brackets, in bytes.
const MAX_BRACKETS: usize = 64;
/// The number of backticks of a fence. Fewer enclose code within a line.
const FENCE: usize = 3;

/// The numbers that an answer cites.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CitedNumbers {
    /// Of documents in the context.
    pub known: BTreeSet<usize>,
    /// Of documents that do not exist.
    pub unknown: BTreeSet<usize>,
}

/// Finds citations such as `[1]` and `[1, 3]` in an answer that arrives in pieces, and marks those
/// of documents that do not exist: `[7?]`. Brackets in code are no citations.
#[derive(Debug)]
pub struct CitationCheck {
    /// The number of documents.
    documents: usize,
    cited: CitedNumbers,
    /// An opened bracket with what followed it.
    opened: String,
    /// The number of backticks that opened code.
    code: Option<usize>,
    /// The number of backticks just before.
    backticks: usize,
    was_line_end: bool,
}

impl CitationCheck {
    pub fn new(documents: usize) -> Self {
        Self {
            documents,
            cited: CitedNumbers::default(),
            opened: String::new(),
            code: None,
            backticks: 0,
            was_line_end: false,
        }
    }

    /// Returns what can be shown now. An opened bracket is kept back until its end.
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        for c in piece.chars() {
            self.next(c, &mut shown);
        }
        shown
    }

    /// Returns the rest of the answer.
    pub fn finish(mut self) -> (String, CitedNumbers) {
        (std::mem::take(&mut self.opened), self.cited)
    }

    fn next(&mut self, c: char, shown: &mut String) {
        if c == '`' {
            shown.push_str(&std::mem::take(&mut self.opened));
            self.backticks += 1;
            self.was_line_end = false;
            return shown.push(c);
        }
        self.end_backticks();
        if c == '\n' {
            // code within a line does not go beyond a paragraph
            if self.was_line_end && self.code.is_some_and(|backticks| backticks < FENCE) {
                self.code = None;
            }
            self.was_line_end = true;
        } else if !c.is_whitespace() {
            self.was_line_end = false;
        }
        match c {
            _ if self.code.is_some() => shown.push(c),
            '[' => {
                shown.push_str(&std::mem::take(&mut self.opened));
                self.opened.push(c);
            }
            ']' if !self.opened.is_empty() => {
                let numbers = std::mem::take(&mut self.opened);
                match self.marked(&numbers[1..]) {
                    Some(marked) => shown.push_str(&format!("[{marked}]")),
                    None => shown.push_str(&format!("{numbers}]")),
                }
            }
            '0'..='9' | ',' | ' '
                if !self.opened.is_empty() && self.opened.len() < MAX_BRACKETS =>
            {
                self.opened.push(c);
            }
            _ => {
                shown.push_str(&std::mem::take(&mut self.opened));
                shown.push(c);
            }
        }
    }

    fn end_backticks(&mut self) {
        let backticks = std::mem::take(&mut self.backticks);
        match self.code {
            _ if backticks == 0 => {}
            None => self.code = Some(backticks),
            Some(opened) if opened == backticks => self.code = None,
            Some(_) => {}
        }
    }

    /// Returns the numbers of a citation, those that are unknown with a question mark. Returns None
    /// if the text is no citation.
    fn marked(&mut self, numbers: &str) -> Option<String> {
        let number = |text: &str| {
            let number: Option<usize> = text.parse().ok();
            number.filter(|number| *number <= MAX_NUMBER)
        };
        let texts = numbers.split(',').map(str::trim);
        let cited: Option<Vec<(&str, usize)>> =
            texts.map(|text| Some((text, number(text)?))).collect();
        let mut marked = vec![];
        for (text, number) in cited? {
            if (1..=self.documents).contains(&number) {
                self.cited.known.insert(number);
                marked.push(text.to_owned());
            } else {
                self.cited.unknown.insert(number);
                marked.push(format!("{text}?"));
            }
        }
        Some(marked.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(documents: usize, text: &str) -> (String, Vec<usize>, Vec<usize>) {
        let mut check = CitationCheck::new(documents);
        let mut shown = check.push(text);
        let (rest, cited) = check.finish();
        shown.push_str(&rest);
        let list = |numbers: BTreeSet<usize>| numbers.into_iter().collect();
        (shown, list(cited.known), list(cited.unknown))
    }

    #[test]
    fn unknown_numbers_are_marked() {
        assert_eq!(
            checked(2, "Red [1], blue[2] and [1, 7] or [0]."),
            (
                "Red [1], blue[2] and [1, 7?] or [0?].".into(),
                vec![1, 2],
                vec![0, 7]
            )
        );
    }

    #[test]
    fn other_brackets_stay() {
        for text in [
            "in [2024] and [a] and [] and [1",
            "see [^1] or [[x]]",
            "`list[9]` and ```\nx[9]\n``` end",
            "``a ` [9]`` b",
        ] {
            assert_eq!(checked(2, text), (text.into(), vec![], vec![]), "{text}");
        }
    }

    #[test]
    fn one_backtick_does_not_hide_the_rest() {
        let (_, known, unknown) = checked(1, "it`s red.\n\nAnd blue [1] [5].");
        assert_eq!((known, unknown), (vec![1], vec![5]));
    }

    #[test]
    fn a_second_bracket_begins_again() {
        assert_eq!(checked(1, "[[1]").0, "[[1]");
        assert_eq!(checked(1, "[[3]").0, "[[3?]");
    }

    proptest::proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[\\[\\]0-9, a`\n]{0,60}", cut in 0usize..60) {
            let cut = cut.min(text.len());
            let whole = checked(3, &text);
            let mut check = CitationCheck::new(3);
            let mut shown = check.push(&text[..cut]);
            shown.push_str(&check.push(&text[cut..]));
            let (rest, cited) = check.finish();
            shown.push_str(&rest);
            proptest::prop_assert_eq!(&shown, &whole.0);
            proptest::prop_assert_eq!(cited.known.into_iter().collect::<Vec<_>>(), whole.1);
            let bare = |text: &str| text.replace(['?', ' '], "");
            proptest::prop_assert_eq!(bare(&shown), bare(&text));
        }
    }
}
