//! Measures the elements of a page: their text, links and sentences.

use std::{collections::HashMap, ops::AddAssign, rc::Rc};

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{super::SILENT, HEADINGS, attribute, html_tag};

/// What is below a node, and the node itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measure {
    /// Number of bytes of visible text, without white space.
    pub text: usize,
    /// Number of these in links.
    pub linked: usize,
    /// Number of words outside of links.
    pub words: usize,
    /// Number of words that end a sentence, outside of links.
    pub sentence_ends: usize,
    pub headings: usize,
    pub first_headings: usize,
    pub articles: usize,
    /// The text claims a copyright.
    pub is_legal: bool,
}

impl AddAssign for Measure {
    fn add_assign(&mut self, below: Self) {
        self.text += below.text;
        self.linked += below.linked;
        self.words += below.words;
        self.sentence_ends += below.sentence_ends;
        self.headings += below.headings;
        self.first_headings += below.first_headings;
        self.articles += below.articles;
        self.is_legal |= below.is_legal;
    }
}

impl Measure {
    pub fn has_sentence(&self) -> bool {
        self.sentence_ends >= 1 && self.words >= 3
    }

    /// Returns true for more than a sentence.
    pub fn has_sentences(&self) -> bool {
        const MANY_WORDS: usize = 25;
        self.sentence_ends >= 2 && self.words >= 6 || self.words >= MANY_WORDS
    }

    pub fn is_mostly_links(&self) -> bool {
        self.linked > 0 && self.linked * 5 >= self.text * 2
    }

    pub fn is_only_links(&self) -> bool {
        self.linked > 0 && self.linked * 5 >= self.text * 4
    }

    fn of_text(text: &str) -> Self {
        let mut measure = Self {
            is_legal: claims_copyright(text),
            ..Self::default()
        };
        for word in text.split_ascii_whitespace() {
            measure.text += word.len();
            // Spaces of other kinds separate words, too.
            for word in word.split_whitespace() {
                measure.sentence_ends += usize::from(ends_sentence(word, measure.words));
                measure.words += 1;
            }
        }
        if !text.is_ascii() {
            // Chinese and Japanese have no spaces.
            let unspaced = text.chars();
            let unspaced = unspaced.filter(|c| ('\u{3040}'..='\u{9FFF}').contains(c));
            measure.words += unspaced.count() / 2;
            measure.sentence_ends += text.matches(['。', '！', '？']).count();
        }
        measure
    }
}

/// Returns true if the word `i` of a text ends a sentence. The first word is a number or a name.
fn ends_sentence(word: &str, i: usize) -> bool {
    let word = word.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»']);
    let is_end = word.ends_with(['.', '!', '?', '…']);
    is_end && (i > 0 || !word.contains(char::is_alphanumeric))
}

fn claims_copyright(text: &str) -> bool {
    /// Longer texts are about it.
    const MAX_BYTES: usize = 300;
    text.len() <= MAX_BYTES && {
        let text = text.to_lowercase();
        ["©", "(c) 19", "(c) 20", "copyright", "all rights reserved"]
            .iter()
            .any(|sign| text.contains(sign))
    }
}

/// The measures of all nodes of a page. Measuring them one by one would be slow for deeply nested
/// elements.
pub struct Measures {
    of: HashMap<*const Node, Measure>,
    whole: usize,
}

impl Measures {
    pub fn of(root: &Rc<Node>) -> Self {
        // Parents before their children.
        let mut order = vec![Entry {
            node: root.clone(),
            parent: 0,
            in_link: false,
            measure: Measure::default(),
        }];
        let mut next = 0;
        while next < order.len() {
            let node = order[next].node.clone();
            if !html_tag(&node).is_some_and(|tag| SILENT.contains(&tag)) {
                let in_link = order[next].in_link || is_link(&node);
                order[next].measure = own(&node, in_link);
                order.extend(node.children.borrow().iter().map(|child| Entry {
                    node: child.clone(),
                    parent: next,
                    in_link,
                    measure: Measure::default(),
                }));
            }
            next += 1;
        }
        for i in (1..order.len()).rev() {
            let Entry {
                parent, measure, ..
            } = order[i];
            order[parent].measure += measure;
        }
        let whole = order[0].measure.text;
        let of = order
            .into_iter()
            .map(|entry| (Rc::as_ptr(&entry.node), entry.measure));
        Self {
            of: of.collect(),
            whole,
        }
    }

    pub fn get(&self, node: &Rc<Node>) -> Measure {
        self.of.get(&Rc::as_ptr(node)).copied().unwrap_or_default()
    }

    /// Returns true if a node holds at least half of the page's text.
    pub fn is_most(&self, node: &Rc<Node>) -> bool {
        self.get(node).text * 2 >= self.whole
    }
}

struct Entry {
    node: Rc<Node>,
    parent: usize,
    in_link: bool,
    measure: Measure,
}

fn is_link(node: &Node) -> bool {
    match html_tag(node) {
        Some("a") => attribute(node, "href").is_some(),
        Some(tag) => tag == "button",
        None => false,
    }
}

fn own(node: &Node, in_link: bool) -> Measure {
    if let NodeData::Text { contents } = &node.data {
        let measure = Measure::of_text(&contents.borrow());
        if in_link {
            return Measure {
                linked: measure.text,
                words: 0,
                sentence_ends: 0,
                ..measure
            };
        }
        return measure;
    }
    let is = |tag: &str| usize::from(html_tag(node) == Some(tag));
    Measure {
        headings: usize::from(html_tag(node).is_some_and(|tag| HEADINGS.contains(&tag))),
        first_headings: is("h1"),
        articles: is("article"),
        ..Measure::default()
    }
}
