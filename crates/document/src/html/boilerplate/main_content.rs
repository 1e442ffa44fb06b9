//! Drops what is beside a page's `main`, or beside its `article`.
//!
//! A `main` with more than half of the text is the content. What is beside it is dropped, but for
//! the block before it with the page's only first heading.
//!
//! An `article` with more than half of the text is often only the longest part of the content: the
//! first post of a thread, the description of an article in a shop. So what is beside it is kept if
//! it has an article, a heading or a sentence, and is neither mostly links nor named as something
//! else.

use std::rc::Rc;

use htmd::Node;

use super::{Measures, html_tag, names, parent_of, role, tell};

/// Drops what is not content, if a `main` or an `article` holds most of the text.
pub fn keep(root: &Rc<Node>, measures: &Measures, left_out: &mut Vec<String>) {
    let Some((content, is_main)) = find(root, measures) else {
        return;
    };
    let whole = measures.get(root);
    let inside = measures.get(&content);
    let lacks_heading = inside.first_headings == 0 && whole.first_headings == 1;
    let mut node = content;
    while let Some(above) = parent_of(&node) {
        let mut is_before = true;
        above.children.borrow_mut().retain(|sibling| {
            if Rc::ptr_eq(sibling, &node) {
                is_before = false;
                return true;
            }
            let has_heading = measures.get(sibling).first_headings > 0;
            let is_kept = html_tag(sibling) == Some("head")
                || lacks_heading && has_heading && is_before
                || !is_main && is_content(sibling, measures);
            if !is_kept {
                tell(sibling, measures, left_out);
            }
            is_kept
        });
        node = above;
    }
}

fn is_content(node: &Rc<Node>, measures: &Measures) -> bool {
    let measure = measures.get(node);
    measure.articles > 0
        || measure.first_headings > 0 && !measure.is_mostly_links()
        || (measure.headings > 0 || measure.has_sentence())
            && !measure.is_mostly_links()
            && !measure.is_legal
            && !names::is_beside(node)
}

/// Returns the one `main` or `article` that holds more than half of the text, and whether it is a
/// `main`.
fn find(root: &Rc<Node>, measures: &Measures) -> Option<(Rc<Node>, bool)> {
    let (mut mains, mut articles) = (vec![], vec![]);
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        match html_tag(&node) {
            Some("main") => mains.push((node, true)),
            Some("article") => articles.push((node, false)),
            Some(_) if role(&node).as_deref() == Some("main") => mains.push((node, true)),
            // An element inside a candidate is not a better one.
            _ => stack.extend(node.children.borrow().iter().rev().cloned()),
        }
    }
    let whole = measures.get(root).text;
    let is_most = |node: &Rc<Node>| measures.get(node).text * 2 > whole;
    mains
        .into_iter()
        .chain(articles)
        .find(|(node, _)| is_most(node))
}
