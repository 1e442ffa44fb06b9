//! Finds a page's content, without menus, headers, footers, sidebars, dialogs and requests for
//! consent.
//!
//! | dropped | unless |
//! |---|---|
//! | `nav`, and elements with the role navigation, search or menu | |
//! | `header`, `footer`, and elements with the role `banner` or `contentinfo` | it belongs to an `article`, `main`, `section`, `blockquote` or `figure` around it |
//! | `aside`, and elements with the role `complementary` | it is inside an `article` |
//! | `dialog`, and elements with that role | |
//! | elements named, by class or id, as a request for consent to cookies | it holds most of the page's text |
//! | elements named as navigation (`nav...`, `docnav`, `page-nav`) or as breadcrumbs | it holds most of the page's text |
//! | elements named as the page's footer or banner (`footer`, `site-footer`) | it holds most of the page's text, or is inside an `article`, `main`, ... |
//! | numbers of lines beside code (`linenos`, `lineno`) | |
//!
//! A `header` with the page's only `h1` leaves that heading behind. If a `main` or an `article`
//! holds most of the remaining text, it is the content and the rest is dropped. A page of which
//! nothing would remain is kept whole.

use std::{collections::HashMap, rc::Rc};

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{SILENT, html_tag};

/// Elements whose names may mark them as boilerplate.
const BLOCKS: [&str; 13] = [
    "center", "div", "dl", "footer", "header", "ol", "p", "section", "table", "tbody", "td", "tr",
    "ul",
];
/// Prefixes of names of navigation.
const NO_NAVIGATION: [&str; 4] = ["naval", "navigate", "navigator", "navy"];
/// The footer or banner of these is the page's.
const PAGE: [&str; 8] = [
    "doc", "docs", "global", "main", "page", "site", "top", "web",
];
/// Names of columns with line numbers.
const LINE_NUMBERS: [&str; 6] = [
    "lineno",
    "linenodiv",
    "linenos",
    "linenumber",
    "linenumbers",
    "rougegutter",
];

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
/// Names that consent managers give their elements, without hyphens and underscores.
const CONSENT_MANAGERS: [&str; 10] = [
    "onetrust",
    "cookiebot",
    "cybotcookiebot",
    "usercentrics",
    "didomi",
    "qccmp",
    "osanocm",
    "truste",
    "cookieyes",
    "klaro",
];
const CONSENT: [&str; 6] = ["cookie", "cookies", "consent", "gdpr", "ccpa", "cc"];
const BANNER: [&str; 17] = [
    "banner",
    "bar",
    "notice",
    "popup",
    "modal",
    "overlay",
    "dialog",
    "message",
    "law",
    "alert",
    "warning",
    "wall",
    "consent",
    "toast",
    "disclaimer",
    "prompt",
    "window",
];

/// Prunes the tree and returns the part of it that is the page's content.
pub fn content(root: &Rc<Node>) -> Rc<Node> {
    let pruned = prune(root, &TextLengths::of(root));
    let left = text_length(root);
    if left == 0 {
        for (parent, children) in pruned.into_iter().rev() {
            *parent.children.borrow_mut() = children;
        }
        return root.clone();
    }
    main_content(root, left).unwrap_or_else(|| root.clone())
}

/// The context of an element.
#[derive(Debug, Clone, Copy, Default)]
struct Ancestors {
    section: bool,
    article: bool,
}

/// Removes boilerplate from the tree. Returns the original children of changed parents.
fn prune(root: &Rc<Node>, lengths: &TextLengths) -> Vec<(Rc<Node>, Vec<Rc<Node>>)> {
    let mut changed = vec![];
    let mut removed_headings = vec![];
    let mut headings = 0;
    let mut stack = vec![(root.clone(), Ancestors::default())];
    while let Some((node, inside)) = stack.pop() {
        let inside = match html_tag(&node) {
            Some("article") => Ancestors {
                section: true,
                article: true,
            },
            Some(tag) if SECTIONS.contains(&tag) => Ancestors {
                section: true,
                ..inside
            },
            Some("h1") => {
                headings += 1;
                inside
            }
            _ if role(&node).as_deref() == Some("main") => Ancestors {
                section: true,
                ..inside
            },
            _ => inside,
        };
        let before = node.children.borrow().clone();
        let (out, kept): (Vec<_>, Vec<_>) = before
            .iter()
            .cloned()
            .partition(|child| is_boilerplate(child, inside, lengths));
        if !out.is_empty() {
            for header in out
                .iter()
                .filter(|child| is_header(child) || has_boilerplate_name(child, inside))
            {
                removed_headings.extend(first_h1(header).map(|heading| (node.clone(), heading)));
            }
            *node.children.borrow_mut() = kept.clone();
            changed.push((node, before));
        }
        stack.extend(kept.into_iter().map(|child| (child, inside)));
    }
    if headings == 0
        && let [(parent, heading)] = &removed_headings[..]
    {
        // Dropping the header would empty all that is below it.
        if let Some(old) = heading
            .parent
            .replace(Some(Rc::downgrade(parent)))
            .and_then(|old| old.upgrade())
        {
            old.children
                .borrow_mut()
                .retain(|child| !Rc::ptr_eq(child, heading));
        }
        parent.children.borrow_mut().insert(0, heading.clone());
    }
    changed
}

fn is_header(node: &Rc<Node>) -> bool {
    html_tag(node) == Some("header") || role(node).as_deref() == Some("banner")
}

fn is_boilerplate(node: &Rc<Node>, inside: Ancestors, lengths: &TextLengths) -> bool {
    let Some(tag) = html_tag(node) else {
        return false;
    };
    if matches!(tag, "html" | "body" | "main" | "article") {
        return false;
    }
    let role = role(node);
    let role = role.as_deref().unwrap_or_default();
    match tag {
        "nav" | "dialog" => return true,
        "header" | "footer" if !inside.section => return true,
        "aside" if !inside.article => return true,
        _ => {}
    }
    ROLES.contains(&role)
        || (matches!(role, "banner" | "contentinfo") && !inside.section)
        || (role == "complementary" && !inside.article)
        || ((asks_for_consent(node) || has_boilerplate_name(node, inside) || is_line_numbers(node))
            && !lengths.is_most(node))
}

/// Returns true if a class or the id names a typical element around a site's content.
fn has_boilerplate_name(node: &Node, inside: Ancestors) -> bool {
    html_tag(node).is_some_and(|tag| BLOCKS.contains(&tag))
        && is_named(node, |name| {
            let words = words(name);
            let [first, .., last] = words.as_slice() else {
                return words.first().is_some_and(|word| is_one(word, inside));
            };
            let is_of_page = words
                .iter()
                .filter(|word| PAGE.contains(&word.as_str()))
                .count()
                + 1
                == words.len();
            is_navigation(first)
                || is_navigation(last)
                || words.iter().any(|word| word.starts_with("breadcrumb"))
                || (first == "footer" || is_of_page)
                    && is_one(if is_of_page { last } else { first }, inside)
        })
}

fn is_line_numbers(node: &Node) -> bool {
    matches!(html_tag(node), Some("td" | "th" | "pre" | "span" | "div"))
        && is_named(node, |name| LINE_NUMBERS.contains(&joined(name).as_str()))
}

fn is_one(word: &str, inside: Ancestors) -> bool {
    is_navigation(word)
        || word.starts_with("breadcrumb")
        || (matches!(word, "footer" | "banner") && !inside.section)
}

/// `nav`, `navbar`, `navheader`, `navigation`; `docnav`, `sidenav`.
fn is_navigation(word: &str) -> bool {
    (word.starts_with("nav") && !NO_NAVIGATION.iter().any(|other| word.starts_with(other)))
        || word.ends_with("nav")
}

fn is_named(node: &Node, is_such: impl Fn(&str) -> bool) -> bool {
    let names = ["class", "id"]
        .into_iter()
        .filter_map(|name| attribute(node, name));
    names
        .into_iter()
        .any(|names| names.split_whitespace().any(&is_such))
}

fn joined(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], "")
}

/// Returns true if a class or the id names a cookie banner.
fn asks_for_consent(node: &Node) -> bool {
    is_named(node, |name| {
        let joined = joined(name);
        let words = words(name);
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        CONSENT_MANAGERS
            .iter()
            .any(|manager| joined.starts_with(manager))
            || (has(&CONSENT) && has(&BANNER) && words.len() > 1)
            || ["cookie", "cookies", "gdpr"]
                .iter()
                .filter_map(|about| joined.strip_prefix(about))
                .any(|rest| BANNER.iter().any(|banner| rest.starts_with(banner)))
    })
}

/// `cookie-banner`, `cookie_banner` and `cookieBanner` are two words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the one `main` or `article` that holds more than half of the text.
fn main_content(root: &Rc<Node>, whole: usize) -> Option<Rc<Node>> {
    let (mut mains, mut articles) = (vec![], vec![]);
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        match html_tag(&node) {
            Some("main") => mains.push(node.clone()),
            Some("article") => articles.push(node.clone()),
            Some(_) if role(&node).as_deref() == Some("main") => mains.push(node.clone()),
            _ => {}
        }
        // An element inside a candidate is not a better one.
        if !mains
            .iter()
            .chain(&articles)
            .any(|candidate| Rc::ptr_eq(candidate, &node))
        {
            stack.extend(node.children.borrow().iter().rev().cloned());
        }
    }
    mains
        .into_iter()
        .chain(articles)
        .find(|candidate| text_length(candidate) * 2 > whole)
}

fn first_h1(root: &Rc<Node>) -> Option<Rc<Node>> {
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if html_tag(&node) == Some("h1") && text_length(&node) > 0 {
            return Some(node);
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    None
}

/// Returns the text length of each element of a page, as [`text_length`] defines it. Computing them
/// one by one would be slow for deeply nested elements.
struct TextLengths {
    of: HashMap<*const Node, usize>,
    whole: usize,
}

impl TextLengths {
    fn of(root: &Rc<Node>) -> Self {
        // Parents before their children.
        let mut order: Vec<(Rc<Node>, usize, usize)> = vec![(root.clone(), 0, 0)];
        let mut next = 0;
        while next < order.len() {
            let node = order[next].0.clone();
            if !html_tag(&node).is_some_and(|tag| SILENT.contains(&tag)) {
                order[next].2 = own_length(&node);
                order.extend(
                    node.children
                        .borrow()
                        .iter()
                        .map(|child| (child.clone(), next, 0)),
                );
            }
            next += 1;
        }
        for i in (1..order.len()).rev() {
            let (_, parent, length) = order[i];
            order[parent].2 += length;
        }
        let whole = order[0].2;
        Self {
            of: order
                .into_iter()
                .map(|(node, _, length)| (Rc::as_ptr(&node), length))
                .collect(),
            whole,
        }
    }

    /// Returns true if a node holds at least half of the page's text.
    fn is_most(&self, node: &Rc<Node>) -> bool {
        self.of
            .get(&Rc::as_ptr(node))
            .is_some_and(|length| length * 2 >= self.whole)
    }
}

fn own_length(node: &Node) -> usize {
    match &node.data {
        NodeData::Text { contents } => contents
            .borrow()
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .count(),
        _ => 0,
    }
}

/// Returns the number of bytes of visible text, without white space.
fn text_length(root: &Rc<Node>) -> usize {
    let mut length = 0;
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if html_tag(&node).is_some_and(|tag| SILENT.contains(&tag)) {
            continue;
        }
        length += own_length(&node);
        stack.extend(node.children.borrow().iter().cloned());
    }
    length
}

fn role(node: &Node) -> Option<String> {
    attribute(node, "role").map(|role| role.trim().to_lowercase())
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
