//! Links: their words stay in the text, and their targets become metadata.
//!
//! A target or a tooltip in the text would be embedded with it, and a relative target tells nothing
//! to a reader who has only the chunk. So both are removed from the text. A link whose only content
//! is a sign, such as the `¶` beside a heading, is removed as a whole.

use std::{collections::HashSet, rc::Rc};

use htmd::Node;
use url::Url;

use super::{boilerplate::attribute, html_tag, plain_text_below};
use crate::kind;

/// Maximum number of targets of a page, and maximum size of a target in bytes.
const MAX_TARGETS: usize = 1_000;
const MAX_TARGET: usize = 2_000;
/// Classes of links from a heading to itself, without hyphens and underscores.
const PERMALINKS: [&str; 3] = ["headerlink", "permalink", "hashlink"];
const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];
/// The base of relative addresses in a file whose own address is unknown.
const UNKNOWN_BASE: &str = "file:///";

/// Removes links without words to places of the same page, and links of headings to themselves.
pub fn remove_permalinks(root: &Rc<Node>) {
    let mut stack = vec![(root.clone(), false)];
    while let Some((node, in_heading)) = stack.pop() {
        let in_heading = in_heading || html_tag(&node).is_some_and(|tag| HEADINGS.contains(&tag));
        node.children
            .borrow_mut()
            .retain(|child| !is_permalink(child, in_heading));
        stack.extend(
            node.children
                .borrow()
                .iter()
                .map(|child| (child.clone(), in_heading)),
        );
    }
}

fn is_permalink(node: &Rc<Node>, in_heading: bool) -> bool {
    if html_tag(node) != Some("a")
        || !attribute(node, "href").is_some_and(|href| href.contains('#'))
    {
        return false;
    }
    let is_named = || {
        attribute(node, "class")
            .unwrap_or_default()
            .split_whitespace()
            .any(|class| {
                let class = class.to_lowercase().replace(['-', '_'], "");
                PERMALINKS.iter().any(|name| class.contains(name))
            })
    };
    (in_heading && is_named()) || is_sign(node)
}

/// Returns true if a link shows no words and no picture, only a few signs.
fn is_sign(link: &Rc<Node>) -> bool {
    const MAX_SIGNS: usize = 3;
    let text = plain_text_below(link);
    let text = text.trim();
    let mut stack = vec![link.clone()];
    while let Some(node) = stack.pop() {
        if html_tag(&node) == Some("img") {
            return false;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    !text.chars().any(char::is_alphanumeric) && text.chars().count() <= MAX_SIGNS
}

/// Returns the targets of the links below a node, in order, each once: absolute, without the
/// fragment. If a file's name is not an address, its relative targets are relative to the root of
/// that name.
pub fn targets(root: &Rc<Node>, base: Option<&str>, name: &str) -> Vec<String> {
    let is_address = name.contains("://");
    let own = Url::parse(if is_address { name } else { UNKNOWN_BASE }).ok();
    let own = own.and_then(|own| {
        if is_address {
            Some(own)
        } else {
            own.join(kind::path(name)).ok()
        }
    });
    let Some(own) = own else { return vec![] };
    let base = base
        .and_then(|base| own.join(base).ok())
        .unwrap_or_else(|| own.clone());
    let (mut targets, mut seen) = (vec![], HashSet::new());
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if targets.len() == MAX_TARGETS {
            break;
        }
        if let Some(target) = target(&node, &base).filter(|target| *target != without_place(&own)) {
            let text = target
                .strip_prefix(UNKNOWN_BASE)
                .filter(|_| !is_address)
                .unwrap_or(&target)
                .to_owned();
            if !text.is_empty() && seen.insert(text.clone()) {
                targets.push(text);
            }
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    targets
}

fn target(node: &Rc<Node>, base: &Url) -> Option<String> {
    let href = if html_tag(node)? == "a" {
        attribute(node, "href")?
    } else {
        return None;
    };
    let url = base.join(href.trim()).ok()?;
    let text = without_place(&url);
    (matches!(url.scheme(), "http" | "https" | "ftp" | "file") && text.len() <= MAX_TARGET)
        .then_some(text)
}

fn without_place(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::html::extract;

    #[test]
    fn targets_and_tooltips_are_metadata_and_not_text() {
        let html = "<p>See <a href='../glossary.html#x' title='GLOSSARY'>the glossary</a>, <a \
            href=/a?b=c>A</a>, <a href='../glossary.html'>\
                    again</a>, <a href='https://other.example/'>other</a>, <a \
                    href='mailto:a@b.c'>mail</a>, \
                    <a href='javascript:x()'>script</a>, <a href=#here>here</a>, <a>none</a>.";
        let page = extract(html, "https://example.org/docs/ref/keys.html").unwrap();
        assert_eq!(
            page.text,
            "See the glossary, A, again, other, mail, script, here, none."
        );
        assert_eq!(
            page.metadata["link_targets"],
            json!([
                "https://example.org/docs/glossary.html",
                "https://example.org/a?b=c",
                "https://other.example/"
            ])
        );
        assert!(
            extract("<p>none", "a.html")
                .unwrap()
                .metadata
                .get("link_targets")
                .is_none()
        );
    }

    #[test]
    fn targets_of_files_are_relative_to_their_root() {
        let html = "<p><a href='../b.html'>b</a> <a href=https://example.org/>c</a> <a \
            href='ref/d e.html'>d</a>";
        let page = extract(html, "docs/guide/a.html").unwrap();
        assert_eq!(
            page.metadata["link_targets"],
            json!([
                "docs/b.html",
                "https://example.org/",
                "docs/guide/ref/d%20e.html"
            ])
        );
        let based = format!("<head><base href='https://example.org/x/'></head>{html}");
        let page = extract(&based, "docs/guide/a.html").unwrap();
        assert_eq!(
            page.metadata["link_targets"][0],
            "https://example.org/b.html"
        );
    }

    #[test]
    fn permalinks_are_dropped() {
        let html = "<title></title><h1>Keys<a class=headerlink href=#keys title='Permalink to \
            this heading'>¶</a></h1>\
                    <h2><a href=#a>#</a> A <a class='permalink' href=#a>Link to this \
                    section</a></h2><p>Text.<a href=#t>§</a> <a href=#b>B</a>\
                    <h2><a class=anchor href=#c>C</a></h2>";
        let page = extract(html, "a.html").unwrap();
        assert_eq!(
            (page.text.as_str(), page.title.text.as_str()),
            ("# Keys\n\n## A\n\nText. B\n\n## C", "Keys")
        );
    }
}
