//! Ids of headings and of terms, which addresses can name.
//!
//! | where the id is | who writes it so |
//! |---|---|
//! | the heading, or an element in it | most programs; GitHub, MediaWiki |
//! | the section that the heading begins | Sphinx, DocBook |
//! | an empty element just before the heading | Texinfo, Doxygen |
//! | the link of the heading to itself | pages whose ids a script adds |
//!
//! Before a page becomes Markdown, each such place gets a mark: a number between two of Unicode's
//! noncharacters. The marks are removed from the Markdown, line by line.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;
use percent_encoding::percent_decode_str;

use super::{boilerplate::attribute, html_tag};
use crate::anchors::{self, Anchor, MAX_ANCHORS};

/// No text has this sign, and `escape` does not use it.
const MARK: char = '\u{FDDF}';
/// Maximum number of elements around a heading that are looked at.
const MAX_AROUND: usize = 3;
/// Maximum number of elements in a heading that are looked at.
const MAX_INSIDE: usize = 30;

/// Elements with the names of their places.
pub struct Anchors(Vec<(Rc<Node>, String)>);

impl Anchors {
    /// Finds the places of a page, before any element is removed.
    pub fn of(root: &Rc<Node>) -> Self {
        let mut found = vec![];
        let mut stack = vec![root.clone()];
        while let Some(node) = stack.pop() {
            if found.len() == MAX_ANCHORS {
                break;
            }
            let name = match html_tag(&node) {
                Some("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => of_heading(&node),
                Some("dt") => own(&node),
                _ => None,
            };
            found.extend(name.map(|name| (node.clone(), name)));
            stack.extend(node.children.borrow().iter().rev().cloned());
        }
        Self(found)
    }

    /// Marks the places, as far as they still have words.
    pub fn mark(&self) {
        for (number, (node, _)) in self.0.iter().enumerate() {
            let mut stack = vec![node.clone()];
            while let Some(node) = stack.pop() {
                if let NodeData::Text { contents } = &node.data {
                    let text = contents.borrow().to_string();
                    let word = text.trim_start();
                    if !word.is_empty() {
                        let blank = &text[..text.len() - word.len()];
                        let marked = format!("{blank}{MARK}{number}{MARK}{word}");
                        *contents.borrow_mut() = marked.into();
                        break;
                    }
                }
                stack.extend(node.children.borrow().iter().rev().cloned());
            }
        }
    }

    /// Returns a text without marks, and the numbers of its lines that have places, from 0.
    pub fn lines(self, text: String) -> (String, Vec<(usize, String)>) {
        if !text.contains(MARK) {
            return (text, vec![]);
        }
        let (mut plain, mut places) = (String::with_capacity(text.len()), vec![]);
        for (line, words) in text.split_inclusive('\n').enumerate() {
            let mut parts = words.split(MARK);
            plain.extend(parts.next());
            while let (Some(number), rest) = (parts.next(), parts.next()) {
                let number: Option<usize> = number.parse().ok();
                let name = number.and_then(|number| self.0.get(number));
                places.extend(name.map(|(_, name)| (line, name.clone())));
                plain.extend(rest);
            }
        }
        (plain, places)
    }
}

/// Returns the places of a text whose lines have them. The text lacks the first `missing` lines.
pub fn placed(text: &str, lines: Vec<(usize, String)>, missing: usize) -> Vec<Anchor> {
    let mut lines = lines.into_iter().peekable();
    let (mut placed, mut at) = (vec![], 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        while let Some((_, name)) = lines.next_if(|(line, _)| *line <= number + missing) {
            placed.push(Anchor { at, name });
        }
        at += line.len();
    }
    placed
}

fn own(node: &Rc<Node>) -> Option<String> {
    let named = || (html_tag(node) == Some("a")).then(|| attribute(node, "name"))?;
    attribute(node, "id")
        .and_then(|id| anchors::name(&id))
        .or_else(|| anchors::name(&named()?))
}

fn of_heading(heading: &Rc<Node>) -> Option<String> {
    own(heading)
        .or_else(|| inside(heading, own))
        .or_else(|| around(heading))
        .or_else(|| inside(heading, target))
}

/// Looks for something in the elements of a heading.
fn inside(heading: &Rc<Node>, find: impl Fn(&Rc<Node>) -> Option<String>) -> Option<String> {
    let mut stack: Vec<Rc<Node>> = heading.children.borrow().iter().rev().cloned().collect();
    for _ in 0..MAX_INSIDE {
        let node = stack.pop()?;
        if let Some(found) = find(&node) {
            return Some(found);
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    None
}

/// Returns the place of the same page that a link leads to.
fn target(node: &Rc<Node>) -> Option<String> {
    let href = (html_tag(node) == Some("a")).then(|| attribute(node, "href"))??;
    let fragment = href.trim().strip_prefix('#')?;
    anchors::name(&percent_decode_str(fragment).decode_utf8_lossy())
}

/// Returns the id of an empty element just before a heading, or of a section that it begins.
fn around(heading: &Rc<Node>) -> Option<String> {
    let mut node = heading.clone();
    for _ in 0..MAX_AROUND {
        let parent = parent(&node)?;
        let siblings = parent.children.borrow();
        let place = siblings.iter().position(|child| Rc::ptr_eq(child, &node))?;
        for before in siblings[..place].iter().rev() {
            if !is_empty(before) {
                return None;
            }
            let name = own(before).or_else(|| inside(before, own));
            if name.is_some() {
                return name;
            }
        }
        if !matches!(
            html_tag(&parent)?,
            "section" | "div" | "article" | "header" | "hgroup"
        ) {
            return None;
        }
        if let Some(name) = own(&parent) {
            return Some(name);
        }
        drop(siblings);
        node = parent;
    }
    None
}

fn parent(node: &Rc<Node>) -> Option<Rc<Node>> {
    let weak = node.parent.take();
    let parent = weak.as_ref().and_then(std::rc::Weak::upgrade);
    node.parent.set(weak);
    parent
}

/// Returns true for blanks, comments, and elements that show nothing.
fn is_empty(node: &Rc<Node>) -> bool {
    let mut stack = vec![node.clone()];
    for _ in 0..MAX_INSIDE {
        let Some(node) = stack.pop() else { return true };
        let shows = match &node.data {
            NodeData::Text { contents } => !contents.borrow().trim().is_empty(),
            NodeData::Element { .. } => {
                matches!(
                    html_tag(&node),
                    None | Some("img" | "hr" | "table" | "input" | "video")
                )
            }
            _ => false,
        };
        if shows {
            return false;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::html::extract;

    /// The lines that have places, with their names.
    fn places(html: &str) -> Vec<(String, String)> {
        let page = extract(html, "a.html").unwrap();
        assert!(!page.text.contains(super::MARK), "{}", page.text);
        let line = |at: usize| {
            page.text[at..]
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let anchors = page.anchors.iter();
        anchors
            .map(|anchor| (line(anchor.at), anchor.name.clone()))
            .collect()
    }

    #[test]
    fn headings_keep_their_ids() {
        for html in [
            "<h2 id=install>Install it</h2>",
            "<h2><a id='install' class=anchor href='#install'></a>Install it</h2>",
            "<h2><a name=install>Install it</a></h2>",
            "<h2><span class=mw-headline id=install>Install it</span></h2>",
            "<section id=install><h2>Install it<a class=headerlink href='#x'>¶</a></h2></section>",
            "<div class=sect1 id=install><div class=titlepage><div><h2>Install it</h2></div></div>",
            "<p>Before</p><a name=install></a>\n<h2>Install it</h2>",
            "<p>Before<p><span id=install></span></p><!-- x --><h2> Install it</h2>",
            "<h2>Install it <a class=header-anchor id=install href='#install'></a></h2>",
            "<h2>Install it<a class=hash-link href='#install'>#</a></h2>",
        ] {
            let expected = [("## Install it".to_owned(), "install".to_owned())];
            assert_eq!(places(&format!("{html}<p>Text.")), expected, "{html}");
        }
    }

    #[test]
    fn other_ids_are_no_places_of_headings() {
        for html in [
            "<div id=page><p>Before</p><h2>Install</h2></div>",
            "<a name=before>Words</a><h2>Install</h2>",
            "<body id=top><h2>Install</h2>",
            "<h2 id=''>Install</h2>",
            "<h2 id=x></h2><p>Text",
            "<h2><a href='other.html#x'>Install</a></h2>",
            "<h2 id=x style='display: none'>Install</h2><p>Text",
        ] {
            assert_eq!(places(html), [], "{html}");
        }
    }

    #[test]
    fn marks_change_nothing_else() {
        let html = "<h1 id=a> A <b>b</b></h1><p>Text<h2 id=b><code>f_x()</code> of *</h2>\
            <dl><dt id=t># no heading<dd>x</dl><h3 id=c>1. C<br>#</h3><table><tr><td>\
            <h4 id=d>D</h4></table><ul><li><h5 id=e>E_e_</h5></ul><pre><h6 id=f># F</h6></pre>";
        let plain = html.replace(" id=", " data-id=");
        let (page, same) = (extract(html, "a").unwrap(), extract(&plain, "a").unwrap());
        assert_eq!((&page.text, &page.title), (&same.text, &same.title));
        assert_eq!(page.structure, same.structure);
        let names: Vec<&str> = page.anchors.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "t", "c", "d", "e", "f"]);
        assert_eq!(same.anchors, []);
    }

    #[test]
    fn signs_of_marks_in_a_page_do_no_harm() {
        for html in [
            "<h2 id=a>\u{FDDF}</h2>",
            "<p>\u{FDDF}7\u{FDDF}x\u{FDDF}",
            "<h2 id=a>\u{FDDF}0\u{FDDF}B</h2>",
        ] {
            extract(html, "a.html").unwrap();
        }
    }
}
