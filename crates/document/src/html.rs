//! Converts HTML to Markdown. Headings, lists, tables and code stay as structure that people and
//! models can read.
//!
//! Elements that a browser does not show are dropped and counted (see [`hidden`]). Content that is
//! the same on every page of a site is dropped (see [`boilerplate`]).
//!
//! `htmd` does the conversion, with these changes. `head`, scripts, styles and templates are
//! dropped, and so are buttons (see [`button`]). Pictures are reduced to their description. Links
//! keep their words, and their targets become metadata (see [`links`]). Code stays as written (see
//! [`code`]). Ids of headings become places of the text (see [`anchors`]). Powers and formulas are
//! written in a line (see [`exponent`] and [`formula`]). Tables are converted here, because `htmd`
//! drops cells of rows that mix `<th>` and `<td>`. Signs of prose are escaped here as well (see
//! [`escape`]).
//!
//! `htmd` recurses over the tree. So a page that is nested deeper than [`MAX_DEPTH`], which no
//! person wrote, is reduced to its plain text: a stack overflow would end the process.

mod anchors;
mod boilerplate;
mod button;
mod code;
mod escape;
mod exponent;
mod formula;
mod hidden;
mod links;
mod table;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use htmd::{Element, HtmlToMarkdown, Node, element_handler::Handlers};
use markup5ever_rcdom::NodeData;
use rag_protocol::ingest::{LINK_TARGETS, Stage, Title};

use self::{anchors::Anchors, boilerplate::Content};
use crate::{DocumentError, ExtractedDocument, markdown, title};

/// Maximum nesting that is converted to Markdown. Browsers stop at 512.
const MAX_DEPTH: usize = 200;
/// Elements whose content is not for readers.
const SILENT: [&str; 6] = ["head", "noscript", "script", "style", "template", "title"];
/// Elements that do not end the line before them.
const INLINE: [&str; 22] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "dfn", "em", "font", "i", "ins", "kbd",
    "mark", "q", "s", "small", "span", "strong", "sub", "sup",
];

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let unreadable = || DocumentError::new(Stage::Extract, "the HTML cannot be converted to text");
    match catch_unwind(AssertUnwindSafe(|| read(file, name))) {
        Ok(Ok(extracted)) => Ok(extracted),
        Ok(Err(_)) | Err(_) => Err(unreadable()),
    }
}

/// Returns the first formula of a text in MathML, in a line, or `None` for a text without one. The
/// names of its elements may have a prefix.
pub fn formula_of(xml: &str) -> Option<String> {
    let begin = xml.find("<math")?;
    let plain = xml[begin..].replace("<math:", "<").replace("</math:", "</");
    let html = plain.split("</math>").next()?;
    let page = extract(&format!("<p>{html}</math>"), "formula").ok()?;
    Some(page.text).filter(|line| !line.is_empty())
}

fn read(file: &str, name: &str) -> std::io::Result<ExtractedDocument> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(SILENT.to_vec())
        .add_handler(vec!["img"], |_: &dyn Handlers, element: Element| {
            boilerplate::attribute(element.node, "alt").map(Into::into)
        })
        .add_handler(vec!["a"], |handlers: &dyn Handlers, element: Element| {
            Some(handlers.walk_children(element.node))
        })
        .add_handler(vec!["pre"], code::block)
        .add_handler(vec!["code"], code::span)
        .add_handler(vec!["b", "strong", "i", "em"], code::emphasis)
        .add_handler(vec!["table"], table::to_markdown)
        .build();
    let root = converter.html_to_tree(file)?;
    let anchors = Anchors::of(&root);
    formula::to_text(&root);
    let hidden = hidden::remove(&root);
    links::remove_permalinks(&root);
    button::remove(&root);
    exponent::to_line(&root);
    let Survey { title, base, depth } = survey(&root);
    let Content {
        root: content,
        left_out,
    } = boilerplate::content(&root);
    escape::protect(&content);
    anchors.mark();
    let text = if depth > MAX_DEPTH {
        plain_text(&content)
    } else {
        converter.tree_to_markdown(&content)
    };
    let (text, places) = anchors.lines(text);
    let whole = escape::restore(&text);
    let text = whole.trim_start();
    let missing = whole[..whole.len() - text.len()].matches('\n').count();
    let text = text.trim_end().to_owned();
    let structure = markdown::structure(&text);
    let title = title.unwrap_or_else(|| title::from_name(name));
    let mut extracted = ExtractedDocument {
        anchors: anchors::placed(&text, places, missing),
        ..ExtractedDocument::new(text, title, structure)
    };
    let targets = links::targets(&content, base.as_deref(), name);
    if !targets.is_empty() {
        extracted
            .metadata
            .insert(LINK_TARGETS.into(), targets.into());
    }
    extracted.lost(
        hidden,
        "hidden element with text",
        "hidden elements with text",
        "removed",
    );
    if let Some(first) = left_out.first() {
        extracted.lost(
            left_out.len(),
            "part beside the page's content",
            "parts beside the page's content",
            &format!("left out: \"{first}\""),
        );
    }
    Ok(extracted)
}

/// Properties of a page.
struct Survey {
    title: Option<Title>,
    /// The base of its relative links, if the page declares one.
    base: Option<String>,
    /// Depth of its deepest element.
    depth: usize,
}

fn survey(root: &Rc<Node>) -> Survey {
    let (mut title, mut heading, mut base, mut deepest) = (None, None, None, 0);
    let mut stack = vec![(root.clone(), 0)];
    while let Some((node, depth)) = stack.pop() {
        deepest = deepest.max(depth);
        match html_tag(&node) {
            Some("title") if title.is_none() => title = title::own(&plain_text_below(&node)),
            Some("h1") if heading.is_none() => heading = title::own(&plain_text_below(&node)),
            Some("base") if base.is_none() => base = boilerplate::attribute(&node, "href"),
            _ => {}
        }
        stack.extend(
            node.children
                .borrow()
                .iter()
                .rev()
                .map(|child| (child.clone(), depth + 1)),
        );
    }
    Survey {
        title: title.or(heading),
        base,
        depth: deepest,
    }
}

/// Returns the element's name. Returns `None` for text and for elements of drawings, which have
/// titles of their own.
fn html_tag(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } if &*name.ns == "http://www.w3.org/1999/xhtml" => {
            Some(&name.local)
        }
        _ => None,
    }
}

/// Returns all readable text without markup, with each block on a line.
fn plain_text(root: &Rc<Node>) -> String {
    match html_tag(root) {
        Some(tag) if SILENT.contains(&tag) => String::new(),
        _ => plain_text_below(root),
    }
}

fn plain_text_below(root: &Rc<Node>) -> String {
    text_below(root, |text, tag, _| {
        if !INLINE.contains(&tag) && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    })
}

/// Returns the text below a node that has few nodes below it, else `None`. So the text of each of
/// many nested elements can be read in time.
fn short_text_below(root: &Rc<Node>) -> Option<String> {
    const MAX_NODES: usize = 100;
    let mut count = 0;
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        count += 1 + node.children.borrow().len();
        if count > MAX_NODES {
            return None;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    Some(plain_text_below(root))
}

/// Returns the text of all nodes below this one, without [`SILENT`] elements. `begin` is called at
/// the start of each other element with the text before it, and may add to that.
fn text_below(root: &Rc<Node>, begin: impl Fn(&mut String, &str, &Rc<Node>)) -> String {
    let mut text = String::new();
    let mut stack: Vec<Rc<Node>> = root.children.borrow().iter().rev().cloned().collect();
    while let Some(node) = stack.pop() {
        if let NodeData::Text { contents } = &node.data {
            text.push_str(&contents.borrow());
        }
        match html_tag(&node) {
            Some(tag) if SILENT.contains(&tag) => continue,
            Some(tag) => begin(&mut text, tag, &node),
            None => {}
        }
        stack.extend(node.children.borrow().iter().rev().cloned());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> ExtractedDocument {
        extract(html, "pages/index.html").unwrap()
    }

    #[test]
    fn structure_becomes_markdown() {
        let html = "<h1>Keys</h1><p>Rotate <b>them</b> at <a \
            href='/x'>night</a>.</p><ul><li>one<li>two</ul>\
                    <pre><code class='language-sh'>ls -l\n</code></pre>";
        assert_eq!(
            page(html).text,
            "# Keys\n\nRotate **them** at night.\n\n*   one\n*   two\n\n```sh\nls -l\n```"
        );
    }

    #[test]
    fn scripts_styles_and_templates_are_dropped() {
        let html = "<html><head><title>T</title><style>p{}</style></head><body><script>var \
            x</script><p>Text</p>\
                    <noscript>enable</noscript><template><p>hidden</p></template><style>q{}</style></body></html>";
        assert_eq!(page(html).text, "Text");
    }

    #[test]
    fn the_title_element_names_the_page_else_the_first_h1() {
        let title = |html| page(html).title;
        let own = |text: &str| Title {
            text: text.into(),
            own: true,
        };
        assert_eq!(title("<title> A\n&amp; B </title><h1>C</h1>"), own("A & B"));
        assert_eq!(
            title("<svg><title>icon</title></svg><h1>The <i>page</i></h1><h1>2</h1>"),
            own("The page")
        );
        assert_eq!(
            title("<title></title><p>x"),
            Title {
                text: "pages/index".into(),
                own: false
            }
        );
    }

    #[test]
    fn pictures_keep_their_description_only() {
        let html = "<p>a <img src='data:image/png;base64,AAAA' alt='chart'> b <img src='c.png' \
            alt='d' title='e'></p>";
        assert_eq!(page(html).text, "a chart b d");
    }

    #[test]
    fn a_page_that_is_nested_too_deeply_is_still_read() {
        for depth in [150, 1_000, 20_000] {
            let html = format!(
                "{}deep <b>text</b>{}<p>end",
                "<div>".repeat(depth),
                "</div>".repeat(depth)
            );
            let text = page(&html).text;
            assert!(
                text.contains("deep") && text.ends_with("end"),
                "{depth}: {}",
                text.len()
            );
        }
    }

    #[test]
    fn tag_soup_never_panics() {
        for html in [
            "",
            "<",
            "<!--",
            "<![CDATA[",
            "<?php ?>",
            "</p></p>",
            "<table><b><tr><td>x",
            "<p\0>",
            "&#0;&#xD800;",
        ] {
            page(html);
        }
    }
}
