//! Removes elements that a browser does not show. Their text is for programs, or meant to deceive.
//!
//! | an element is hidden by | |
//! |---|---|
//! | its tag | `template` |
//! | its attributes | `hidden`, unless it is `until-found`; `aria-hidden=true` |
//! | its own `style` | `display: none`; `visibility: hidden` or `collapse`; `opacity` and `font-size` of nothing; `color: transparent`, or its own background's color; a place far outside of the page |
//!
//! The panels of tabs are shown: a reader chooses the tab.
//!
//! Style sheets and scripts are not evaluated, so elements that they hide or show are unknown. The
//! page's `html` and `body` always count as shown, because scripts show them.

use std::rc::Rc;

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{boilerplate::attribute, html_tag, plain_text};

/// Removes hidden elements from the tree. Returns the number of them that have words.
pub fn remove(root: &Rc<Node>) -> usize {
    let has_tabs = has_tabs(root);
    let is_panel = |node: &Rc<Node>| has_tabs && has_role(node, "tabpanel");
    let mut count = 0;
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        let children = node.children.borrow().clone();
        let (hidden, shown): (Vec<_>, Vec<_>) = children
            .into_iter()
            .partition(|child| is_hidden(child) && !is_panel(child));
        if !hidden.is_empty() {
            count += hidden.iter().filter(|element| has_words(element)).count();
            *node.children.borrow_mut() = shown.clone();
        }
        stack.extend(shown);
    }
    count
}

fn has_tabs(root: &Rc<Node>) -> bool {
    let mut stack = vec![root.clone()];
    while let Some(node) = stack.pop() {
        if has_role(&node, "tab") {
            return true;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    false
}

fn has_role(node: &Node, role: &str) -> bool {
    attribute(node, "role").is_some_and(|own| own.trim().eq_ignore_ascii_case(role))
}

/// A sign or a symbol does not count as a word.
fn has_words(element: &Rc<Node>) -> bool {
    const LETTERS: usize = 3;
    let text = match &element.data {
        NodeData::Element {
            template_contents, ..
        } => match &*template_contents.borrow() {
            Some(contents) => plain_text(contents),
            None => plain_text(element),
        },
        _ => return false,
    };
    text.chars()
        .filter(|c| c.is_alphabetic())
        .nth(LETTERS - 1)
        .is_some()
}

fn is_hidden(node: &Rc<Node>) -> bool {
    let is = |name: &str, value: &str| {
        attribute(node, name).is_some_and(|v| v.trim().eq_ignore_ascii_case(value))
    };
    match html_tag(node) {
        None | Some("html" | "head" | "body") => false,
        Some("template") => true,
        Some(_) => {
            attribute(node, "hidden").is_some() && !is("hidden", "until-found")
                || is("aria-hidden", "true")
                || attribute(node, "style").is_some_and(|style| hides(&style))
        }
    }
}

/// Returns true if an element's own declarations hide it.
fn hides(style: &str) -> bool {
    let style = without_comments(style).to_lowercase();
    let declared: Vec<(&str, String)> = style
        .split(';')
        .filter_map(|declaration| declaration.split_once(':'))
        .map(|(property, value)| {
            (
                property.trim(),
                value.replace("!important", "").trim().to_owned(),
            )
        })
        .collect();
    // The last declaration of a property counts.
    let value = |name: &str| {
        declared
            .iter()
            .rev()
            .find(|(property, _)| *property == name)
            .map(|(_, value)| &**value)
    };
    let is = |name: &str, values: &[&str]| value(name).is_some_and(|value| values.contains(&value));
    let is_nothing = |name: &str, least: f64| {
        value(name)
            .and_then(length)
            .is_some_and(|length| length < least)
    };
    let is_placed = is("position", &["absolute", "fixed"]);
    let is_far = |name: &str| {
        value(name)
            .and_then(length)
            .is_some_and(|length| length <= FAR)
    };
    is("display", &["none"])
        || is("visibility", &["hidden", "collapse"])
        || is_nothing("opacity", 0.01)
        || is_nothing("font-size", 1.0)
        || is_far("text-indent")
        || is_placed
            && (is_far("left") || is_far("top") || is_far("margin-left") || is_far("margin-top"))
        || value("color").is_some_and(|color| {
            let background = value("background-color").or_else(|| value("background"));
            color == "transparent"
                || background.is_some_and(|background| same_color(color, background))
        })
}

/// Nobody scrolls there.
const FAR: f64 = -900.0;

fn without_comments(style: &str) -> String {
    let mut rest = style;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Parses a number, or a length as an approximate number of pixels.
fn length(value: &str) -> Option<f64> {
    let end = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let unit = match value[end..].trim() {
        "" | "px" => 1.0,
        "em" | "rem" => 16.0,
        "%" => 0.16,
        "pt" => 4.0 / 3.0,
        "vw" | "vh" => 10.0,
        _ if number == 0.0 => 1.0,
        _ => return None,
    };
    Some(number * unit)
}

fn same_color(one: &str, other: &str) -> bool {
    let plain = |color: &str| -> String {
        let color = match color.trim() {
            "white" => "#ffffff",
            "black" => "#000000",
            "rgb(255,255,255)" | "rgb(255, 255, 255)" => "#ffffff",
            "rgb(0,0,0)" | "rgb(0, 0, 0)" => "#000000",
            color => color,
        };
        match color.strip_prefix('#') {
            Some(digits) if digits.len() == 3 => digits
                .chars()
                .fold("#".into(), |all, c| all + &c.to_string().repeat(2)),
            _ => color.into(),
        }
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use crate::html::extract;

    #[test]
    fn elements_that_a_browser_does_not_show_are_dropped_and_counted() {
        for hidden in [
            "<div hidden>Secret orders</div>",
            "<div aria-hidden=' TRUE '>Secret orders</div>",
            "<div style='display:none'>Secret orders</div>",
            "<div style='color:red; DISPLAY : None !important'>Secret orders</div>",
            "<div style='dis/* x */play:none'>Secret orders</div>",
            "<span style='visibility: hidden'>Secret orders</span>",
            "<span style='opacity:0.0'>Secret orders</span>",
            "<span style='font-size:0px'>Secret orders</span>",
            "<span style='font-size:.01em'>Secret orders</span>",
            "<p style='text-indent:-9999px'>Secret orders</p>",
            "<p style='position:absolute; left:-999em'>Secret orders</p>",
            "<p style='color:transparent'>Secret orders</p>",
            "<p style='color:#fff; background: white'>Secret orders</p>",
            "<template><p>Secret orders</p></template>",
            "<div style='display:none'><p>Secret <b>orders</b></p></div>",
        ] {
            let page = extract(&format!("<p>Keys are rotated.</p>{hidden}"), "a.html").unwrap();
            assert_eq!(page.text, "Keys are rotated.", "{hidden}");
            assert_eq!(page.warnings.len(), 1, "{hidden}");
            assert_eq!(
                page.warnings[0].message, "1 hidden element with text was removed",
                "{hidden}"
            );
        }
    }

    #[test]
    fn visible_elements_are_kept() {
        for shown in [
            "<div hidden=until-found>Keys</div>",
            "<div aria-hidden=false>Keys</div>",
            "<p style='opacity:0.5; font-size: 12px; color: white'>Keys</p>",
            "<p style='font-size:0.8em; left:-9999px'>Keys</p>",
            "<p style='display:none; display:block'>Keys</p>",
            "<p style='color:#fff; background:#000'>Keys</p>",
        ] {
            let page = extract(shown, "a.html").unwrap();
            assert_eq!(
                (page.text.as_str(), page.warnings.len()),
                ("Keys", 0),
                "{shown}"
            );
        }
        let page = extract("<body style='visibility:hidden'><p>Keys</body>", "a.html").unwrap();
        assert_eq!(page.text, "Keys");
    }

    #[test]
    fn the_panels_of_tabs_are_kept() {
        let panel = "<div role=tabpanel hidden><p>yarn add agent</p></div>";
        let tabs = format!("<ul role=tablist><li role=tab>yarn</ul><p>Keys.</p>{panel}");
        let page = extract(&tabs, "a.html").unwrap();
        assert_eq!(page.text, "Keys.\n\nyarn add agent");
        let page = extract(&format!("<p>Keys.</p>{panel}"), "a.html").unwrap();
        assert_eq!((page.text.as_str(), page.warnings.len()), ("Keys.", 1));
    }

    #[test]
    fn a_hidden_sign_causes_no_warning() {
        let page = extract(
            "<h1>Keys<a aria-hidden=true href=#keys>#</a></h1><p>Text",
            "a.html",
        )
        .unwrap();
        assert_eq!(
            (page.text.as_str(), page.warnings.len()),
            ("# Keys\n\nText", 0)
        );
    }
}
