//! Writes formulas once, in a line: in the notation of TeX if the page has it, else from MathML.
//!
//! | a formula by | is read from |
//! |---|---|
//! | KaTeX, MediaWiki, LaTeXML | the annotation of its MathML |
//! | MathJax 2 | the script with the TeX |
//! | MathJax 3, plain MathML | the MathML: `(a + b)/2`, `√(x)`, `x_1^2` |
//! | generators for MathJax in the browser | the text, without `\(` and `\)` |
//!
//! This precedes the removal of hidden elements: most of these write each formula twice, once for
//! the eye and once for programs, and hide one of them.

use std::{cell::RefCell, rc::Rc};

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{
    boilerplate::{attribute, has_class},
    code::parent,
    escape, html_tag, text_below,
};
use crate::formula::{base, fraction, root, with_scripts};

/// Classes and tags of the elements around a formula in all of its forms.
const CONTAINERS: [&str; 8] = [
    "katex",
    "katex-display",
    "katex-mathml",
    "mwe-math-element",
    "mwe-math-mathml-inline",
    "mwe-math-mathml-display",
    "mjx-container",
    "mjx-assistive-mml",
];
/// Classes of what MathJax 2 puts before its script.
const DRAWN: [&str; 5] = [
    "MathJax_Preview",
    "MathJax",
    "MathJax_Display",
    "MathJax_SVG",
    "MathJax_CHTML",
];
/// Maximum depth of MathML that is read. Deeper formulas are their signs, one after another.
const MAX_DEPTH: usize = 50;
/// Operators that are set off by spaces.
const SPACED: &str = "=+−-±<>≤≥≠≈≡∼→←⇒⇔↦∈∉⊂⊆∪∩∧∨×";

/// Replaces each formula by a text.
pub fn to_text(root: &Rc<Node>) {
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        replace_scripts(&node);
        if !replace(&node) {
            stack.extend(node.children.borrow().iter().cloned());
        }
    }
}

fn replace(node: &Rc<Node>) -> bool {
    match local(node) {
        Some("math") => {
            let text = tex(node).unwrap_or_else(|| linear(node, 0));
            put(&container(node), &text);
            true
        }
        Some("span" | "div") if has_class(node, |class| matches!(class, "math" | "arithmatex")) => {
            let is_text = |child: &Rc<Node>| matches!(child.data, NodeData::Text { .. });
            let is_plain = node.children.borrow().iter().all(is_text);
            if is_plain {
                put(node, &text_of(node));
            }
            is_plain
        }
        _ => false,
    }
}

/// Replaces scripts with TeX by it, and removes what MathJax 2 drew from them.
fn replace_scripts(node: &Rc<Node>) {
    if !node
        .children
        .borrow()
        .iter()
        .any(|child| is_tex_script(child))
    {
        return;
    }
    let is_drawn = |node: &Rc<Node>| has_class(node, |class| DRAWN.contains(&class));
    let mut children = vec![];
    for child in node.children.take() {
        if is_tex_script(&child) {
            while children.last().is_some_and(is_drawn) {
                children.pop();
            }
            children.push(text_node(&text_of(&child)));
        } else {
            children.push(child);
        }
    }
    node.children.replace(children);
}

/// The name of any element, that of a formula included.
fn local(node: &Node) -> Option<&str> {
    match &node.data {
        NodeData::Element { name, .. } => Some(&name.local),
        _ => None,
    }
}

fn is_tex_script(node: &Node) -> bool {
    html_tag(node) == Some("script")
        && attribute(node, "type").is_some_and(|media_type| media_type.starts_with("math/tex"))
}

fn text_of(node: &Rc<Node>) -> String {
    text_below(node, |_, _, _| {})
}

/// Returns the outermost element that holds nothing but this formula.
fn container(math: &Rc<Node>) -> Rc<Node> {
    const LEVELS: usize = 4;
    let mut found = math.clone();
    let mut node = math.clone();
    for _ in 0..LEVELS {
        let Some(above) = parent(&node) else { break };
        let is_container = local(&above).is_some_and(|tag| CONTAINERS.contains(&tag))
            || has_class(&above, |class| CONTAINERS.contains(&class));
        if is_container {
            found = above.clone();
        }
        node = above;
    }
    found
}

/// Replaces the content of an element by the text of a formula.
fn put(node: &Rc<Node>, tex: &str) {
    node.children.replace(vec![text_node(tex)]);
}

fn text_node(tex: &str) -> Rc<Node> {
    let mut text = tex.trim();
    for (open, close) in [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$")] {
        if let Some(inner) = text
            .strip_prefix(open)
            .and_then(|text| text.strip_suffix(close))
        {
            text = inner.trim();
        }
    }
    for style in ["{\\displaystyle ", "{\\textstyle "] {
        if let Some(inner) = text
            .strip_prefix(style)
            .and_then(|text| text.strip_suffix('}'))
        {
            text = inner.trim();
        }
    }
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let contents = RefCell::new(escape::raw(&line).into());
    Node::new(NodeData::Text { contents })
}

/// Returns the TeX that a formula in MathML has beside it.
fn tex(math: &Rc<Node>) -> Option<String> {
    let mut stack = vec![math.clone()];
    while let Some(node) = stack.pop() {
        let is_tex = || {
            attribute(&node, "encoding").is_some_and(|encoding| {
                matches!(
                    &*encoding.to_lowercase(),
                    "application/x-tex" | "tex" | "latex"
                )
            })
        };
        if local(&node) == Some("annotation") && is_tex() {
            return Some(text_of(&node)).filter(|tex| !tex.trim().is_empty());
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    attribute(math, "alttext").filter(|tex| !tex.trim().is_empty())
}

/// Returns a formula of MathML in a line.
fn linear(node: &Rc<Node>, depth: usize) -> String {
    if let NodeData::Text { contents } = &node.data {
        return contents.borrow().trim().to_owned();
    }
    if depth > MAX_DEPTH {
        return text_of(node);
    }
    let parts: Vec<(Rc<Node>, String)> = node
        .children
        .borrow()
        .iter()
        .map(|child| (child.clone(), linear(child, depth + 1)))
        .filter(|(child, text)| local(child).is_some() || !text.is_empty())
        .collect();
    let part = |i: usize| parts.get(i).map_or("", |(_, text)| text);
    let tag = local(node).unwrap_or_default();
    match tag {
        "annotation" | "annotation-xml" | "mphantom" => String::new(),
        "mspace" => " ".into(),
        "mfrac" => fraction(part(0), part(1)),
        "msqrt" => root(&row(&parts), ""),
        "mroot" => root(part(0), part(1)),
        "msup" | "mover" => with_scripts(&base(part(0)), "", part(1)),
        "msub" | "munder" => with_scripts(&base(part(0)), part(1), ""),
        "msubsup" | "munderover" => with_scripts(&base(part(0)), part(1), part(2)),
        "mtable" => joined(&parts, "; "),
        "mtr" => joined(&parts, ", "),
        "mfenced" => format!("({})", joined(&parts, ", ")),
        _ => row(&parts),
    }
}

fn joined(parts: &[(Rc<Node>, String)], separator: &str) -> String {
    let texts: Vec<&str> = parts.iter().map(|(_, text)| text.trim()).collect();
    texts.join(separator)
}

/// Returns parts one after another, with spaces around operators between two of them.
fn row(parts: &[(Rc<Node>, String)]) -> String {
    let mut text = String::new();
    for (i, (node, part)) in parts.iter().enumerate() {
        let is_between = i > 0 && i + 1 < parts.len();
        let is_spaced = local(node) == Some("mo") && SPACED.contains(part.as_str());
        if is_between && is_spaced && !part.is_empty() {
            text.push_str(&format!(" {part} "));
        } else {
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::html::extract;

    fn text(html: &str) -> String {
        let page = extract(&format!("<p>Energy {html} holds."), "a.html").unwrap();
        assert!(page.warnings.is_empty(), "{html}");
        page.text
    }

    #[test]
    fn a_formula_that_is_written_twice_is_read_once() {
        let math = "<math alttext='{\\displaystyle E=mc^{2}}'><semantics><mrow><mi>E</mi><mo>=</mo>\
            <mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></mrow>\
            <annotation encoding='application/x-tex'>{\\displaystyle E = mc^2}</annotation>\
            </semantics></math>";
        for html in [
            format!(
                "<span class=katex><span class=katex-mathml>{math}</span><span class=katex-html \
                    aria-hidden=true>E=mc2</span></span>"
            ),
            format!(
                "<span class='mwe-math-element'><span class='mwe-math-mathml-inline' \
                    style='display: none;'>{math}</span><img aria-hidden=true alt='E = mc^2'></span>"
            ),
            "<span class=MathJax_Preview>E</span><span class=MathJax><nobr>E=mc2</nobr></span>\
             <script type='math/tex'>E = mc^2</script>"
                .into(),
            "<span class='math inline'>\\(E = mc^2\\)</span>".into(),
        ] {
            assert_eq!(text(&html), "Energy E = mc^2 holds.", "{html}");
        }
    }

    #[test]
    fn mathml_without_tex_is_written_in_a_line() {
        for (mathml, expected) in [
            (
                "<mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup>",
                "E = mc^2",
            ),
            (
                "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>",
                "(a + b)/2",
            ),
            ("<msqrt><mn>2</mn><mi>g</mi><mi>h</mi></msqrt>", "√(2gh)"),
            ("<mroot><mi>x</mi><mn>3</mn></mroot>", "∛(x)"),
            (
                "<mfrac><mi>a</mi><mrow><mn>2</mn><mi>c</mi></mrow></mfrac>",
                "a/(2c)",
            ),
            (
                "<msup><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></msup>",
                "(a + b)^2",
            ),
            (
                "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi>\
                    </munderover><msub><mi>x</mi><mi>i</mi></msub>",
                "∑_(i = 1)^nx_i",
            ),
            (
                "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>\
                    <mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable>",
                "1, 2; 3, 4",
            ),
        ] {
            let html = format!("<math>\n {mathml}\n</math>");
            assert_eq!(text(&html), format!("Energy {expected} holds."), "{mathml}");
        }
    }

    #[test]
    fn hostile_formulas_are_read() {
        let deep = format!("<p><math>{}x", "<mrow>".repeat(100_000));
        assert_eq!(extract(&deep, "a.html").unwrap().text, "x");
        let many = "<script type='math/tex'>x</script>".repeat(50_000);
        assert!(extract(&format!("<p>{many}"), "a.html").unwrap().text.len() >= 50_000);
    }
}
