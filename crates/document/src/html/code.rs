//! Keeps code as written: `pre` becomes one fenced block and `code` one span, whatever markup is
//! inside.
//!
//! Highlighters put an element around each word, and authors write `<code>apt install
//! <em>package</em></code>`. As Markdown such markup would be part of the code. So the content is
//! read as plain text.

mod lines;

use std::rc::Rc;

use htmd::{
    Element, Node,
    element_handler::{HandlerResult, Handlers},
};

use self::lines::verbatim;
use super::{boilerplate::attribute, html_tag};

/// Prefixes of classes that name the language of a block: `language-sql`, `lang-sql`, and Sphinx's
/// `highlight-sql`.
const LANGUAGE: [&str; 3] = ["language-", "lang-", "highlight-"];
/// Values that do not name a language.
const NO_LANGUAGE: [&str; 4] = ["default", "none", "text", "source"];
/// Number of elements above a block that are checked for a language. Sphinx puts two around it.
const LEVELS: usize = 2;

/// Converts a block of code to a fenced block.
pub fn block(_: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    let text = verbatim(element.node);
    let code = text.trim_start_matches('\n').trim_end();
    if code.trim().is_empty() {
        return None;
    }
    let fence = "`".repeat(3.max(longest_run(code) + 1));
    let language = language(element.node).unwrap_or_default();
    Some(format!("\n\n{fence}{language}\n{code}\n{fence}\n\n").into())
}

/// Converts code to a span on one line.
pub fn span(_: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    let text = verbatim(element.node);
    let is_space = |c: Option<char>| c.is_some_and(char::is_whitespace);
    let (before, after) = (
        is_space(text.chars().next()),
        is_space(text.chars().next_back()),
    );
    let code = inline(&text)?;
    // White space at the edge of the span separates it from the words beside it.
    let space = |is_there: bool| if is_there { " " } else { "" };
    Some(format!("{}{code}{}", space(before), space(after)).into())
}

/// Converts bold or italic text. Around a block of code the marks would be beside the fences.
pub fn emphasis(handlers: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    if has_block(element.node) {
        Some(handlers.walk_children(element.node))
    } else {
        handlers.fallback(element)
    }
}

/// Returns the blocks of a converted text as spans on one line, for the cell of a table.
pub fn blocks_as_spans(markdown: &str) -> String {
    let mut line = String::new();
    let mut lines = markdown.lines();
    while let Some(next) = lines.next() {
        let fence = &next[..next.len() - next.trim_start_matches('`').len()];
        let piece = if fence.len() < 3 || next[fence.len()..].contains('`') {
            Some(next.split_whitespace().collect::<Vec<_>>().join(" "))
        } else {
            inline(
                &lines
                    .by_ref()
                    .take_while(|line| *line != fence)
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&piece);
        }
    }
    line
}

/// Returns a span of code, or `None` for white space.
fn inline(text: &str) -> Option<String> {
    let code = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if code.is_empty() {
        return None;
    }
    let mark = "`".repeat(longest_run(&code) + 1);
    let space = if code.starts_with('`') || code.ends_with('`') {
        " "
    } else {
        ""
    };
    Some(format!("{mark}{space}{code}{space}{mark}"))
}

/// Returns the length of the longest run of backticks.
fn longest_run(code: &str) -> usize {
    code.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn has_block(root: &Rc<Node>) -> bool {
    let mut stack: Vec<Rc<Node>> = root.children.borrow().iter().cloned().collect();
    while let Some(node) = stack.pop() {
        if html_tag(&node) == Some("pre") {
            return true;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    false
}

/// Returns the language from a class of the block, of the `code` in it, or of an element near above
/// it.
fn language(pre: &Rc<Node>) -> Option<String> {
    let code = pre
        .children
        .borrow()
        .iter()
        .find(|child| html_tag(child) == Some("code"))
        .cloned();
    let mut candidates: Vec<Rc<Node>> = code.into_iter().chain([pre.clone()]).collect();
    let mut node = pre.clone();
    for _ in 0..LEVELS {
        let Some(parent) = parent(&node) else { break };
        candidates.push(parent.clone());
        node = parent;
    }
    candidates.iter().find_map(|node| {
        let classes = attribute(node, "class")?;
        classes.split_whitespace().find_map(|class| {
            let name = LANGUAGE
                .iter()
                .find_map(|prefix| class.strip_prefix(prefix))?;
            let is_name = !name.is_empty() && !name.contains('`') && !NO_LANGUAGE.contains(&name);
            is_name.then(|| name.to_owned())
        })
    })
}

pub fn parent(node: &Rc<Node>) -> Option<Rc<Node>> {
    let weak = node.parent.take();
    let parent = weak.as_ref().and_then(std::rc::Weak::upgrade);
    node.parent.set(weak);
    parent
}

#[cfg(test)]
mod tests {
    fn text(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn every_pre_is_one_fence_with_its_plain_text() {
        for (html, expected) in [
            (
                "<pre>int a;\n# not a heading\n</pre>",
                "```\nint a;\n# not a heading\n```",
            ),
            (
                "<pre><code>$ </code><strong><code>apt-cache show \
                    apt</code></strong><code>\nPackage: apt</code></pre>",
                "```\n$ apt-cache show apt\nPackage: apt\n```",
            ),
            (
                "<pre>\n\n  a_b * [c]<br>&lt;d&gt;\n\n\n  e  </pre>",
                "```\n  a_b * [c]\n<d>\n\n\n  e\n```",
            ),
            ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
            ("<b>Bold <pre>a\nb</pre></b>", "Bold\n\n```\na\nb\n```"),
            ("<p>a</p><pre> \n </pre><p>b</p>", "a\n\nb"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn a_comment_in_a_pre_is_not_a_heading() {
        let page =
            crate::html::extract("<h1>A</h1><pre># b\n\n# c</pre><h2>D</h2>", "a.html").unwrap();
        let crate::Structure::Sections { headings, code } = &page.structure else {
            panic!()
        };
        assert_eq!(
            headings
                .iter()
                .map(|heading| heading.text.as_str())
                .collect::<Vec<_>>(),
            ["A", "D"]
        );
        assert_eq!(code.len(), 1);
    }

    #[test]
    fn the_language_is_that_of_a_class_at_the_block_or_near_it() {
        for (html, language) in [
            ("<pre class='language-sh'>ls</pre>", "sh"),
            ("<pre><code class='hljs lang-sql'>ls</code></pre>", "sql"),
            (
                "<div class='highlight-python3 notranslate'><div \
                    class=highlight><pre>ls</pre></div></div>",
                "python3",
            ),
            (
                "<div class='highlight-default'><div class=highlight><pre>ls</pre></div></div>",
                "",
            ),
        ] {
            assert_eq!(text(html), format!("```{language}\nls\n```"), "{html}");
        }
    }

    #[test]
    fn markup_inside_code_does_not_leak() {
        for (html, expected) in [
            (
                "<p>Run <code>apt install <em>package</em></code> now",
                "Run `apt install package` now",
            ),
            ("<p>a<code> b </code>c", "a `b` c"),
            (
                "<p><code>a `b` c</code>, <code>`</code>",
                "``a `b` c``, `` ` ``",
            ),
            ("<p><code>x_y</code> <code> </code>z", "`x_y` z"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn a_block_in_a_table_is_a_span() {
        let table = "<table><tr><td>a<td><p>Result:<pre>1\n  2 | 3</pre><tr><td>b<td>c</table>";
        assert_eq!(
            text(table),
            "| a | Result: `1 2 \\| 3` |\n| --- | --- |\n| b | c |"
        );
    }
}
