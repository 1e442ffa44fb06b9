//! What the class and the id of an element say about it.

use std::rc::Rc;

use htmd::Node;

use super::{
    super::{html_tag, short_text_below},
    Ancestors, HEADINGS, attribute,
};

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

/// Names of lists of links: to other pages of a series, to places of the page, of a menu.
const LISTS: [&str; 9] = [
    "pagination",
    "paginator",
    "pager",
    "paginav",
    "prevnext",
    "toc",
    "tableofcontents",
    "sidebar",
    "menu",
];
const SHARING: [&str; 4] = ["share", "sharing", "sharedaddy", "social"];
/// Names of what stands beside an article and is not about it.
const BESIDE: [&str; 16] = [
    "ad",
    "ads",
    "advert",
    "advertisement",
    "newsletter",
    "popup",
    "promo",
    "recommended",
    "related",
    "share",
    "sharing",
    "sidebar",
    "social",
    "sponsor",
    "subscribe",
    "widget",
];

/// Returns true if a class or the id names a typical element around a site's content: navigation,
/// breadcrumbs, or the footer or banner of the page or a part of it.
pub fn is_around_content(node: &Node, inside: Ancestors) -> bool {
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

/// Returns true for an element that is named as a `footer` is: not as a part of one.
pub fn is_page_footer(node: &Node, inside: Ancestors) -> bool {
    !inside.section
        && html_tag(node).is_some_and(|tag| BLOCKS.contains(&tag))
        && is_named(node, |name| {
            let words = words(name);
            let is_of_page = |word: &String| PAGE.contains(&word.as_str());
            words
                .split_last()
                .is_some_and(|(last, before)| last == "footer" && before.iter().all(is_of_page))
        })
}

pub fn is_line_numbers(node: &Node) -> bool {
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
pub fn asks_for_consent(node: &Node) -> bool {
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

/// Returns true if an element is named as a list of links.
pub fn is_list_of_links(node: &Node) -> bool {
    html_tag(node).is_some_and(|tag| BLOCKS.contains(&tag))
        && is_named(node, |name| {
            LISTS.contains(&joined(name).as_str())
                || words(name)
                    .iter()
                    .any(|word| LISTS.contains(&word.as_str()))
        })
}

/// Returns true if an element is named as one of links to share the page.
pub fn is_sharing(node: &Node) -> bool {
    html_tag(node).is_some_and(|tag| BLOCKS.contains(&tag)) && has_word(node, &SHARING)
}

/// Returns true if an element is named as something beside an article.
pub fn is_beside(node: &Node) -> bool {
    has_word(node, &BESIDE)
}

fn has_word(node: &Node, list: &[&str]) -> bool {
    is_named(node, |name| {
        words(name).iter().any(|word| list.contains(&word.as_str()))
    })
}

/// Returns true for a link that skips the menu, or edits a section.
pub fn is_skip_link(node: &Node) -> bool {
    match html_tag(node) {
        Some("a") => {
            attribute(node, "href").is_some_and(|href| href.contains('#'))
                && is_named(node, |name| {
                    words(name)
                        .iter()
                        .any(|word| matches!(&**word, "skip" | "skiplink" | "jump"))
                })
        }
        Some("span") => is_named(node, |name| name == "mw-editsection"),
        _ => false,
    }
}

/// Returns true if an element begins with the heading that its id is made of.
pub fn holds_its_heading(node: &Rc<Node>) -> bool {
    /// Number of nodes to look at.
    const MAX_NODES: usize = 30;
    let Some(id) = attribute(node, "id") else {
        return false;
    };
    let letters = |text: &str| -> String {
        let letters = text.chars().filter(|c| c.is_alphabetic());
        letters.flat_map(char::to_lowercase).collect()
    };
    let id = letters(&id);
    let mut stack = vec![node.clone()];
    for _ in 0..MAX_NODES {
        let Some(node) = stack.pop() else { break };
        if html_tag(&node).is_some_and(|tag| HEADINGS.contains(&tag)) {
            let heading = letters(&short_text_below(&node).unwrap_or_default());
            return !heading.is_empty() && (id.contains(&heading) || heading.contains(&id));
        }
        stack.extend(node.children.borrow().iter().take(MAX_NODES).rev().cloned());
    }
    false
}
