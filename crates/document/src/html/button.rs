//! Removes buttons: "Copy" in a block of code, "Add to cart". A button is text where it is a
//! heading that opens what is below it, or a word in a sentence about it.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{
    boilerplate::{attribute, has_class},
    html_tag, short_text_below,
};

/// Maximum number of words on a button. Longer ones are text that can be clicked.
const MAX_WORDS: usize = 5;
/// Elements whose words are those of a button in them.
const NAMES: [&str; 11] = [
    "h1", "h2", "h3", "h4", "h5", "h6", "summary", "dt", "legend", "label", "th",
];
/// Attributes of buttons that open a part of the page.
const OPENING: [&str; 4] = [
    "aria-expanded",
    "aria-controls",
    "data-bs-toggle",
    "data-toggle",
];
/// Classes of buttons that copy a block of code, without hyphens and underscores.
const COPYING: [&str; 5] = [
    "copybtn",
    "copybutton",
    "copycode",
    "codecopy",
    "btnclipboard",
];

pub fn remove(root: &Rc<Node>) {
    let mut stack = vec![(root.clone(), false)];
    while let Some((node, in_code)) = stack.pop() {
        let in_code = in_code || html_tag(&node) == Some("pre");
        let is_text =
            html_tag(&node).is_some_and(|tag| NAMES.contains(&tag)) || has_own_text(&node);
        let is_removed = |child: &Rc<Node>| {
            is_copying(child)
                || html_tag(child) == Some("button") && (in_code || !is_text && is_label(child))
        };
        if node.children.borrow().iter().any(is_removed) {
            let kept = node
                .children
                .take()
                .into_iter()
                .filter(|child| !is_removed(child));
            let kept: Vec<_> = kept.collect();
            node.children.replace(kept);
        }
        let children = node.children.borrow();
        stack.extend(children.iter().map(|child| (child.clone(), in_code)));
    }
}

/// Returns true if an element has words beside its elements.
fn has_own_text(node: &Node) -> bool {
    node.children
        .borrow()
        .iter()
        .any(|child| match &child.data {
            NodeData::Text { contents } => !contents.borrow().trim().is_empty(),
            _ => false,
        })
}

fn is_label(button: &Rc<Node>) -> bool {
    let opens = OPENING.iter().any(|name| attribute(button, name).is_some());
    let Some(text) = short_text_below(button) else {
        return false;
    };
    !opens && !text.trim_end().ends_with('?') && text.split_whitespace().count() <= MAX_WORDS
}

fn is_copying(node: &Rc<Node>) -> bool {
    const MAX_COPY_WORDS: usize = 3;
    matches!(html_tag(node), Some("a" | "div" | "span" | "button"))
        && has_class(node, |class| {
            COPYING.contains(&class.to_lowercase().replace(['-', '_'], "").as_str())
        })
        && short_text_below(node)
            .is_some_and(|text| text.split_whitespace().count() <= MAX_COPY_WORDS)
}

#[cfg(test)]
mod tests {
    fn text(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn buttons_are_no_text() {
        for html in [
            "<div><pre>make all<button class=copybtn>Copy</button></pre></div>",
            "<div><pre><code>make all</code><button>Copy to clipboard now please thanks</button></pre></div>",
            "<div><pre>make all</pre><button>Copy</button></div>",
            "<div><pre>make all</pre><div class=copy-btn><span>Copied!</span></div></div>",
            "<div><a class=code-copy href=#>Copy code</a><pre>make all</pre></div>",
        ] {
            assert_eq!(text(html), "```\nmake all\n```", "{html}");
        }
        assert_eq!(
            text("<p>Price 9<form><button><b>Add</b> to cart</button></form>"),
            "Price 9"
        );
    }

    #[test]
    fn buttons_that_are_read_are_kept() {
        for (html, expected) in [
            ("<h2><button>Who pays?</button></h2>", "## Who pays?"),
            ("<h2><button>Postage</button></h2>", "## Postage"),
            (
                "<div><button aria-expanded=false>Postage</button></div>",
                "Postage",
            ),
            (
                "<div><button>Who pays the postage?</button></div>",
                "Who pays the postage?",
            ),
            ("<p>Press <button>Save</button> twice.", "Press Save twice."),
            (
                "<details><summary><button>More</button></summary>x",
                "More\n\nx",
            ),
            ("<div class=copy>Our copy</div>", "Our copy"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }
}
