//! Reads the text of code as written, with its line ends.
//!
//! Some highlighters end a line by a line end, some by an element around each line, some by both.
//! So an element ends its line, and a line end right after it is the same one.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::super::{
    SILENT,
    boilerplate::{attribute, has_class},
    html_tag,
};

/// Classes that highlighters give to lines.
const LINE: [&str; 8] = [
    "line",
    "code-line",
    "codeline",
    "ec-line",
    "token-line",
    "view-line",
    "CodeMirror-line",
    "react-code-line",
];

pub fn verbatim(root: &Rc<Node>) -> String {
    let mut lines = Lines::default();
    let mut stack = steps(root);
    while let Some(step) = stack.pop() {
        match step {
            Step::Begin(node) => {
                if let Some(end) = lines.read(&node) {
                    stack.extend(end);
                    stack.extend(steps(&node));
                }
            }
            Step::End {
                from,
                is_never_empty,
            } => lines.end(from, is_never_empty),
        }
    }
    lines.text
}

enum Step {
    Begin(Rc<Node>),
    /// The end of a line that began at byte `from`.
    End {
        from: usize,
        is_never_empty: bool,
    },
}

fn steps(node: &Rc<Node>) -> Vec<Step> {
    let children = node.children.borrow();
    children.iter().rev().cloned().map(Step::Begin).collect()
}

#[derive(Default)]
struct Lines {
    text: String,
    /// The line end of an element that ended.
    is_due: bool,
}

impl Lines {
    /// Reads the start of a node. Returns the step at its end if it has one, or `None` if what is
    /// below the node is not text.
    fn read(&mut self, node: &Rc<Node>) -> Option<Option<Step>> {
        if let NodeData::Text { contents } = &node.data {
            self.push(&contents.borrow());
        }
        match html_tag(node) {
            Some(tag) if SILENT.contains(&tag) => return None,
            Some("br") => self.push("\n"),
            Some("img") => self.push(&attribute(node, "alt").unwrap_or_default()),
            Some(tag) => return Some(self.begin(node, tag)),
            None => {}
        }
        Some(None)
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.is_due && !text.starts_with('\n') {
            self.text.push('\n');
        }
        self.is_due = false;
        self.text.push_str(text);
    }

    fn begin(&mut self, node: &Node, tag: &str) -> Option<Step> {
        let is_marked = tag == "li" || has_class(node, |class| LINE.contains(&class));
        let is_line = is_marked
            || matches!(tag, "div" | "ol" | "ul" | "p" | "tr" | "table")
            || attribute(node, "style").is_some_and(|style| is_block(&style));
        if !is_line {
            return None;
        }
        if self.is_due || !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.is_due = false;
        Some(Step::End {
            from: self.text.len(),
            is_never_empty: is_marked,
        })
    }

    fn end(&mut self, from: usize, is_never_empty: bool) {
        if self.text.len() > from {
            self.is_due |= !self.text.ends_with('\n');
        } else {
            self.is_due |= is_never_empty;
        }
    }
}

fn is_block(style: &str) -> bool {
    style.split(';').any(|declaration| {
        declaration
            .split_once(':')
            .is_some_and(|(name, value)| name.trim() == "display" && value.trim() == "block")
    })
}

#[cfg(test)]
mod tests {
    fn code(html: &str) -> String {
        let text = crate::html::extract(&format!("<pre>{html}</pre>"), "a.html")
            .unwrap()
            .text;
        let code = text
            .strip_prefix("```\n")
            .and_then(|code| code.strip_suffix("\n```"));
        code.unwrap_or(&text).to_owned()
    }

    #[test]
    fn every_form_of_lines_is_read() {
        let expected = "cd /srv\n\nmake all";
        for html in [
            "cd /srv\n\nmake all",
            "cd /srv<br><br>make all",
            "<code><div class=ec-line><div class=code>cd /srv</div></div><div class=ec-line><div \
                class=code>\n</div></div><div class=ec-line><div class=code>make all</div></div>",
            "<ol class=linenums><li>cd /srv</li><li></li><li>make all</li></ol>",
            "<span class=line>cd /srv</span>\n<span class=line></span>\n<span class=line>make \
                all</span>",
            "<span class=line>cd /srv\n</span><span class=line>\n</span><span class=line>make \
                all\n</span>",
            "<span class=line>cd /srv</span><span class=line></span><span class=line>make all</span>",
            "<span class=token-line>cd /srv<br></span><span class=token-line><br></span><span \
                class=token-line>make all<br></span>",
            "<span style='display: block'>cd /srv</span><span style='display:block'>\n</span><span \
                style='display:block'>make all</span>",
            "<table><tr><td></td><td>cd /srv</td></tr><tr><td></td><td>\n</td></tr><tr><td>make \
                all</td></tr></table>",
            "<div>cd /srv</div>\n\n<div>make all</div>",
        ] {
            assert_eq!(code(html), expected, "{html}");
        }
    }

    #[test]
    fn elements_without_text_are_no_lines() {
        assert_eq!(code("<div></div>a<div><div></div></div>b"), "a\nb");
        assert_eq!(code("a <b>b</b><span>c</span>\n d"), "a bc\n d");
    }
}
