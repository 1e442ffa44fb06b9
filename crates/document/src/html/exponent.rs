//! Writes superscripts and subscripts in a line: `10^6`, `x_(n+1)`. Without a sign, 10⁶ would read
//! 106.
//!
//! | is | becomes |
//! |---|---|
//! | a power, an index | `10^6`, `x_2`, `x^(n+1)` |
//! | the mark of a note | `note[1]` if it is a link to the note, else `note^1` |
//! | the end of an ordinal or an abbreviation, a sign | as it is: `1st`, `No`, `X™` |
//! | the number of atoms | as it is: `CO2` |
//! | a word above another one | a word: `Pump new` |

use std::{cell::RefCell, rc::Rc};

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{boilerplate::attribute, html_tag, short_text_below};

/// Ends of ordinals and abbreviations, which are read as a part of the word.
const ENDINGS: [&str; 24] = [
    "st", "nd", "rd", "th", "er", "re", "ère", "e", "ème", "eme", "è", "o", "os", "a", "as", "rs",
    "lle", "me", "mo", "tm", "sm", "ter", "te", "de",
];
/// Symbols of elements with two letters. Those with one are in [`is_compound`].
const ELEMENTS: &str = "He Li Be Ne Na Mg Al Si Cl Ar Ca Sc Ti Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br \
    Kr Rb Sr Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er \
    Tm Yb Lu Hf Ta Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa Np Pu Am ";

/// Maximum number of exponents around an exponent.
const MAX_LEVELS: usize = 3;
/// Number of characters that are remembered of the text before.
const REMEMBERED: usize = 64;

/// Changes the texts of all superscripts and subscripts.
pub fn to_line(root: &Rc<Node>) {
    let mut before = String::new();
    let mut stack = vec![(root.clone(), false, 0)];
    while let Some((node, in_link, level)) = stack.pop() {
        if let NodeData::Text { contents } = &node.data {
            remember(&mut before, &contents.borrow());
        }
        let tag = html_tag(&node);
        if matches!(tag, Some(tag) if super::SILENT.contains(&tag)) {
            continue;
        }
        let in_link = in_link || is_link_to_place(&node);
        let mut level_below = level;
        match tag {
            Some(tag @ ("sup" | "sub")) if level < MAX_LEVELS => {
                level_below += 1;
                let text = short_text_below(&node).unwrap_or_default();
                let is_note = tag == "sup" && (in_link || has_link_to_place(&node));
                let (left, right) = marks(tag, text.trim(), &before, is_note);
                insert(&node, left, right);
            }
            Some(tag) if !super::INLINE.contains(&tag) => before.clear(),
            _ => {}
        }
        let children = node.children.borrow();
        let below = children.iter().rev();
        stack.extend(below.map(|child| (child.clone(), in_link, level_below)));
    }
}

fn remember(before: &mut String, text: &str) {
    let from = text
        .char_indices()
        .rev()
        .nth(REMEMBERED)
        .map_or(0, |(at, _)| at);
    before.push_str(&text[from..]);
    if let Some((at, _)) = before.char_indices().rev().nth(REMEMBERED) {
        before.drain(..at);
    }
}

/// Returns what goes before and after the text of a superscript or a subscript.
fn marks(tag: &str, text: &str, before: &str, is_note: bool) -> (&'static str, &'static str) {
    let plain = ("", "");
    let is_glued = before
        .chars()
        .next_back()
        .is_some_and(|c| !c.is_whitespace());
    if !is_glued || !text.contains(char::is_alphanumeric) || text.starts_with(['[', '(', '^', '_'])
    {
        return plain;
    }
    let word = &before[before.trim_end_matches(|c: char| c.is_alphanumeric()).len()..];
    let is_word = text.chars().all(char::is_alphabetic) && text.chars().count() > 1;
    if is_note {
        return ("[", "]");
    }
    if tag == "sub" && is_compound(before) && text.chars().all(|c| c.is_ascii_digit()) {
        return plain;
    }
    if tag == "sup" && (!word.is_empty() || before.ends_with('.')) {
        let is_number = word.chars().all(char::is_numeric);
        // `No` and `Mme`, but not a variable and its power.
        let is_abbreviated = word.chars().count() <= 2 && word.chars().all(char::is_alphabetic);
        let ending = text.trim_end_matches('.').to_lowercase();
        let is_mark = matches!(ending.as_str(), "tm" | "sm");
        if ENDINGS.contains(&ending.as_str())
            && (is_number != is_mark || is_abbreviated && (is_word || ending == "o"))
        {
            return plain;
        }
        if is_word && word.chars().count() > 1 && !is_number {
            return (" ", "");
        }
    }
    let is_one = text
        .trim_start_matches(['-', '+', '−', '–'])
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '.' | ','));
    match (tag, is_one) {
        ("sup", true) => ("^", ""),
        ("sup", false) => ("^(", ")"),
        (_, true) => ("_", ""),
        (_, false) => ("_(", ")"),
    }
}

/// Returns true if a text ends with the formula of a compound: `CO`, `Ca(OH)`.
fn is_compound(before: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '(' | ')');
    let mut rest = &before[before.trim_end_matches(is_part).len()..];
    let mut has_element = false;
    while let Some(c) = rest.chars().next() {
        let two = rest.get(..2).unwrap_or_default();
        let length = if !c.is_ascii_alphabetic() {
            1
        } else if two.chars().count() == 2 && ELEMENTS.contains(&format!("{two} ")) {
            2
        } else if "HBCNOFPSKVYIWU".contains(c) {
            1
        } else {
            return false;
        };
        has_element |= c.is_ascii_alphabetic();
        rest = &rest[length..];
    }
    has_element
}

fn is_link_to_place(node: &Rc<Node>) -> bool {
    html_tag(node) == Some("a") && attribute(node, "href").is_some_and(|href| href.contains('#'))
}

fn has_link_to_place(root: &Rc<Node>) -> bool {
    let children = root.children.borrow();
    children.iter().any(|child| {
        is_link_to_place(child) || child.children.borrow().iter().any(is_link_to_place)
    })
}

fn insert(node: &Rc<Node>, left: &str, right: &str) {
    let mut children = node.children.borrow_mut();
    for (text, at) in [(left, 0), (right, usize::MAX)] {
        if !text.is_empty() {
            let contents = RefCell::new(text.into());
            let at = at.min(children.len());
            children.insert(at, Node::new(NodeData::Text { contents }));
        }
    }
}

#[cfg(test)]
mod tests {
    fn text(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn powers_and_indexes_are_told_from_numbers() {
        for (html, expected) in [
            (
                "The area is 10<sup>6</sup> m<sup>2</sup>",
                "The area is 10^6 m^2",
            ),
            ("x<sub>2</sub> and x<sub>n+1</sub>", "x_2 and x_(n+1)"),
            (
                "e<sup>ix</sup>, 10<sup>-3</sup>, 10<sup>−3</sup>",
                "e^ix, 10^-3, 10^−3",
            ),
            ("(a+b)<sup>2</sup>", "(a+b)^2"),
            ("x<sup><i>n</i></sup>, A<sup>T</sup>", "x^*n*, A^T"),
            ("<code>2<sup>n</sup></code>", "`2^n`"),
            ("<pre>2<sup>10</sup></pre>", "```\n2^10\n```"),
            ("a<sub>i</sub><sup>2</sup>", "a_i^2"),
        ] {
            assert_eq!(text(&format!("<p>{html}</p>")), expected, "{html}");
        }
    }

    #[test]
    fn ordinals_signs_notes_and_compounds_are_read_as_such() {
        for (html, expected) in [
            (
                "the 1<sup>st</sup> of May, le 2<sup>e</sup>",
                "the 1st of May, le 2e",
            ),
            ("N<sup>o</sup> 5, M<sup>me</sup> Curie", "No 5, Mme Curie"),
            ("Pump<sup>TM</sup>, Pump<sup>®</sup>", "PumpTM, Pump®"),
            ("text<sup><a href=#n1>1</a></sup>", "text[1]"),
            ("text<a href=#n1><sup>1</sup></a>", "text[1]"),
            ("text<sup><a href=#n1>[1]</a></sup>", "text[1]"),
            ("text<sup>1</sup>", "text^1"),
            ("<sup>1</sup> See above", "1 See above"),
            ("CO<sub>2</sub>, H<sub>2</sub>SO<sub>4</sub>", "CO2, H2SO4"),
            ("Ca(OH)<sub>2</sub>, T<sub>1</sub>", "Ca(OH)2, T_1"),
            ("Pump<sup>new</sup>", "Pump new"),
        ] {
            assert_eq!(text(&format!("<p>{html}</p>")), expected, "{html}");
        }
    }

    #[test]
    fn many_of_them_take_little_time() {
        let html = format!("<p>{}", "x<sup>2</sup>".repeat(100_000));
        assert_eq!(text(&html).matches("x^2").count(), 100_000);
        let deep = format!("<p>x{}2", "<sup>".repeat(50_000));
        assert!(text(&deep).ends_with('2'));
    }
}
