//! Finds a page's content, without menus, headers, footers, sidebars, dialogs and requests for
//! consent.
//!
//! | dropped | unless |
//! |---|---|
//! | `nav`, `search`, `dialog`, and elements with the role navigation, search, menu or dialog | |
//! | `header`, `footer`, and elements with the role `banner` or `contentinfo` | it belongs to an `article`, `main`, `section`, `blockquote` or `figure` around it |
//! | `aside`, and elements with the role `complementary` | it is inside an `article`; inside a `main` or `section`, unless it is mostly links; elsewhere, if it has sentences and few links |
//! | elements named, by class or id, as a request for consent to cookies | it holds most of the page's text, or a heading of this name |
//! | elements named as navigation (`nav...`, `docnav`, `page-nav`) or as breadcrumbs | it holds most of the page's text, or has sentences and few links, or a heading of this name |
//! | elements named as the page's footer or banner (`footer`, `site-footer`) | it holds most of the page's text, or is inside an `article`, `main`, ... |
//! | elements named like those, but as a part of something (`footer-note`) | it has sentences |
//! | links of a menu, to other pages of a list, to places of the page, and for sharing | its name says so, and it is hardly more than links |
//! | numbers of lines beside code (`linenos`, `lineno`) | |
//!
//! A `header` with the page's only `h1` leaves that heading behind, and the sentences after it. If
//! a `main` or an `article` holds most of the remaining text, the rest is dropped (see
//! [`main_content`]). A page of which nothing would remain is kept whole. Sentences that are
//! dropped are told ([`Content::left_out`]).

mod main_content;
mod measure;
mod names;

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use self::measure::{Measure, Measures};
use super::html_tag;

/// Roles of elements that are always dropped.
const ROLES: [&str; 8] = [
    "navigation",
    "search",
    "menu",
    "menubar",
    "dialog",
    "alertdialog",
    "tablist",
    "toolbar",
];
/// A `header` or `footer` inside one of these belongs to it.
const SECTIONS: [&str; 5] = ["article", "main", "section", "blockquote", "figure"];
const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

/// The content of a page.
pub struct Content {
    /// The part of the tree with the content.
    pub root: Rc<Node>,
    /// The first words of each part with sentences that is not in it.
    pub left_out: Vec<String>,
}

/// Prunes the tree and returns the part of it that is the page's content.
pub fn content(root: &Rc<Node>) -> Content {
    let mut left_out = vec![];
    let pruned = prune(root, &Measures::of(root), &mut left_out);
    let measures = Measures::of(root);
    if measures.get(root).text == 0 {
        for (parent, children) in pruned.into_iter().rev() {
            *parent.children.borrow_mut() = children;
        }
        left_out.clear();
    } else {
        main_content::keep(root, &measures, &mut left_out);
    }
    let root = root.clone();
    Content { root, left_out }
}

/// The context of an element.
#[derive(Debug, Clone, Copy, Default)]
struct Ancestors {
    section: bool,
    article: bool,
}

impl Ancestors {
    /// Returns the context of the children of an element.
    fn and(self, node: &Node) -> Self {
        match html_tag(node) {
            Some("article") => Self {
                section: true,
                article: true,
            },
            Some(tag) if SECTIONS.contains(&tag) => Self {
                section: true,
                ..self
            },
            _ if role(node).as_deref() == Some("main") => Self {
                section: true,
                ..self
            },
            _ => self,
        }
    }
}

/// Removes boilerplate from the tree. Returns the original children of changed parents.
fn prune(
    root: &Rc<Node>,
    measures: &Measures,
    left_out: &mut Vec<String>,
) -> Vec<(Rc<Node>, Vec<Rc<Node>>)> {
    let mut changed = vec![];
    let mut removed_headings = vec![];
    let mut headings = 0;
    let mut stack = vec![(root.clone(), Ancestors::default())];
    while let Some((node, inside)) = stack.pop() {
        headings += usize::from(html_tag(&node) == Some("h1"));
        let inside = inside.and(&node);
        let before = node.children.borrow().clone();
        let (out, kept): (Vec<_>, Vec<_>) = before
            .iter()
            .cloned()
            .partition(|child| is_boilerplate(child, inside, measures));
        if !out.is_empty() {
            for child in &out {
                let heading = first_h1(child, measures).filter(|_| has_page_heading(child, inside));
                match heading {
                    Some(heading) => removed_headings.push((node.clone(), heading, child.clone())),
                    None => tell(child, measures, left_out),
                }
            }
            *node.children.borrow_mut() = kept.clone();
            changed.push((node, before));
        }
        stack.extend(kept.into_iter().map(|child| (child, inside)));
    }
    match &removed_headings[..] {
        [(parent, heading, header)] if headings == 0 => restore(parent, heading, header, measures),
        _ => {
            for (_, _, header) in &removed_headings {
                tell(header, measures, left_out);
            }
        }
    }
    changed
}

/// Returns true if the first heading of an element that is dropped may be that of the page.
fn has_page_heading(node: &Rc<Node>, inside: Ancestors) -> bool {
    html_tag(node) == Some("header")
        || role(node).as_deref() == Some("banner")
        || names::is_around_content(node, inside)
}

/// Puts the header back with the page's heading, and the sentences that follow it there.
fn restore(parent: &Rc<Node>, heading: &Rc<Node>, header: &Rc<Node>, measures: &Measures) {
    let mut kept = vec![heading.clone()];
    let mut node = heading.clone();
    while !Rc::ptr_eq(&node, header) {
        let Some(above) = parent_of(&node) else { break };
        let siblings = above.children.borrow();
        let after = siblings
            .iter()
            .skip_while(|sibling| !Rc::ptr_eq(sibling, &node))
            .skip(1);
        kept.extend(after.filter(|sibling| is_prose(sibling, measures)).cloned());
        drop(siblings);
        node = above;
    }
    /// Maximum number of elements that are moved: each move looks at the others.
    const MAX: usize = 100;
    kept.truncate(MAX);
    for node in &kept {
        // Dropping their old parent would empty all that is below them.
        if let Some(old) = node
            .parent
            .replace(Some(Rc::downgrade(header)))
            .and_then(|old| old.upgrade())
        {
            old.children
                .borrow_mut()
                .retain(|child| !Rc::ptr_eq(child, node));
        }
    }
    header.children.replace(kept);
    parent.children.borrow_mut().insert(0, header.clone());
}

fn is_prose(node: &Rc<Node>, measures: &Measures) -> bool {
    let measure = measures.get(node);
    measure.has_sentence() && !measure.is_mostly_links() && html_tag(node) != Some("nav")
}

fn parent_of(node: &Rc<Node>) -> Option<Rc<Node>> {
    super::code::parent(node)
}

/// Notes a part that is dropped although it has sentences.
fn tell(node: &Rc<Node>, measures: &Measures, left_out: &mut Vec<String>) {
    const MAX: usize = 100;
    let measure = measures.get(node);
    let is_known = matches!(html_tag(node), Some("nav" | "dialog" | "search"))
        || role(node).is_some_and(|role| ROLES.contains(&role.as_str()))
        || measure.is_legal
        || names::asks_for_consent(node)
        || names::is_line_numbers(node);
    if !is_known && measure.has_sentences() && !measure.is_mostly_links() && left_out.len() < MAX {
        left_out.push(first_words(node));
    }
}

fn first_words(node: &Rc<Node>) -> String {
    const WORDS: usize = 8;
    let text = super::plain_text(node);
    let mut words = text.split_whitespace();
    let first: Vec<&str> = words.by_ref().take(WORDS).collect();
    let more = if words.next().is_some() { " ..." } else { "" };
    format!("{}{more}", first.join(" "))
}

fn is_boilerplate(node: &Rc<Node>, inside: Ancestors, measures: &Measures) -> bool {
    let Some(tag) = html_tag(node) else {
        return false;
    };
    if matches!(tag, "html" | "body" | "main" | "article") {
        return false;
    }
    let role = role(node);
    let role = role.as_deref().unwrap_or_default();
    let measure = measures.get(node);
    match tag {
        "nav" | "dialog" | "search" => return true,
        "header" | "footer" if !inside.section => return true,
        _ => {}
    }
    ROLES.contains(&role)
        || (matches!(role, "banner" | "contentinfo") && !inside.section)
        || ((tag == "aside" || role == "complementary") && is_beside(&measure, inside))
        || names::is_line_numbers(node) && !measures.is_most(node)
        || names::is_skip_link(node)
        || is_named_boilerplate(node, inside, &measure) && !measures.is_most(node)
}

/// Returns true if an `aside` is not a part of the content.
fn is_beside(measure: &Measure, inside: Ancestors) -> bool {
    if inside.article {
        false
    } else if inside.section {
        measure.is_mostly_links()
    } else {
        !measure.has_sentence() || measure.linked * 3 > measure.text
    }
}

fn is_named_boilerplate(node: &Rc<Node>, inside: Ancestors, measure: &Measure) -> bool {
    /// Maximum number of words of navigation without links.
    const FEW: usize = 30;
    let has_own_heading = || !measure.is_mostly_links() && names::holds_its_heading(node);
    let is_short = !measure.has_sentence() && measure.words <= FEW;
    let is_furniture = names::asks_for_consent(node)
        || names::is_page_footer(node, inside)
        || names::is_around_content(node, inside)
            && (measure.is_mostly_links() || is_short || measure.is_legal)
        || names::is_list_of_links(node) && measure.is_only_links()
        || names::is_sharing(node) && measure.is_mostly_links() && !measure.has_sentence();
    is_furniture && !has_own_heading()
}

fn first_h1(root: &Rc<Node>, measures: &Measures) -> Option<Rc<Node>> {
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if html_tag(&node) == Some("h1") && measures.get(&node).text > 0 {
            return Some(node);
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    None
}

fn role(node: &Node) -> Option<String> {
    attribute(node, "role").map(|role| role.trim().to_lowercase())
}

/// Returns true if one of an element's classes is such.
pub fn has_class(node: &Node, is_such: impl Fn(&str) -> bool) -> bool {
    attribute(node, "class").is_some_and(|names| names.split_whitespace().any(is_such))
}

pub fn attribute(node: &Node, name: &str) -> Option<String> {
    let NodeData::Element { attrs, .. } = &node.data else {
        return None;
    };
    attrs
        .borrow()
        .iter()
        .find(|attribute| &*attribute.name.local == name)
        .map(|a| a.value.to_string())
}

#[cfg(test)]
mod tests;
