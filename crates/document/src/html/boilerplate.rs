//! What a page is about, without what surrounds it: menus, headers, footers, sidebars, dialogs,
//! requests for consent.
//!
//! | left out | unless |
//! |---|---|
//! | `nav`, and what has the role of one, of a search or a menu | |
//! | `header`, `footer`, and what has the role `banner` or `contentinfo` | it is inside an `article`, `main`, `section`, `blockquote` or `figure`: then it belongs to that |
//! | `aside`, and what has the role `complementary` | it is inside an `article` |
//! | `dialog`, and what has the role of one | |
//! | what is named, by class or id, as a request for consent to cookies | it holds most of the page's text |
//! | what is named as navigation (`nav...`, `docnav`, `page-nav`) or as breadcrumbs | it holds most of the page's text |
//! | what is named as the page's footer or banner (`footer`, `site-footer`) | the same; it is inside an `article`, `main`, ... |
//! | numbers of lines beside code (`linenos`, `lineno`) | |
//!
//! A `header` with the page's only `h1` leaves that heading behind. If a `main` or an `article`
//! holds most of the text that is left, it is the content and the rest is left out too. A page of
//! which nothing would be left is kept whole.

use std::{collections::HashMap, rc::Rc};

use htmd::Node;
use markup5ever_rcdom::NodeData;

use super::{SILENT, html_tag};

/// Elements that the names of furniture are looked for at.
const BLOCKS: [&str; 13] = [
    "center", "div", "dl", "footer", "header", "ol", "p", "section", "table", "tbody", "td", "tr",
    "ul",
];
/// Words that begin as navigation does.
const NO_NAVIGATION: [&str; 4] = ["naval", "navigate", "navigator", "navy"];
/// Whose footer or banner is the page's.
const PAGE: [&str; 8] = [
    "doc", "docs", "global", "main", "page", "site", "top", "web",
];
/// Names of columns with the numbers of lines.
const LINE_NUMBERS: [&str; 6] = [
    "lineno",
    "linenodiv",
    "linenos",
    "linenumber",
    "linenumbers",
    "rougegutter",
];

/// Roles of what is left out wherever it is.
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
/// What `header` and `footer` inside belong to.
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

/// Prunes the tree and gives the part of it that is the page's content.
pub fn content(root: &Rc<Node>) -> Rc<Node> {
    let pruned = prune(root, &Lengths::of(root));
    let left = text_length(root);
    if left == 0 {
        for (parent, children) in pruned.into_iter().rev() {
            *parent.children.borrow_mut() = children;
        }
        return root.clone();
    }
    main_content(root, left).unwrap_or_else(|| root.clone())
}

/// What an element is inside of.
#[derive(Debug, Clone, Copy, Default)]
struct Inside {
    section: bool,
    article: bool,
}

/// Takes boilerplate out of the tree; gives the children that changed parents had before.
fn prune(root: &Rc<Node>, lengths: &Lengths) -> Vec<(Rc<Node>, Vec<Rc<Node>>)> {
    let mut changed = vec![];
    let mut removed_headings = vec![];
    let mut headings = 0;
    let mut stack = vec![(root.clone(), Inside::default())];
    while let Some((node, inside)) = stack.pop() {
        let inside = match html_tag(&node) {
            Some("article") => Inside {
                section: true,
                article: true,
            },
            Some(tag) if SECTIONS.contains(&tag) => Inside {
                section: true,
                ..inside
            },
            Some("h1") => {
                headings += 1;
                inside
            }
            _ if role(&node).as_deref() == Some("main") => Inside {
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
                .filter(|child| is_header(child) || is_furniture(child, inside))
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

fn is_boilerplate(node: &Rc<Node>, inside: Inside, lengths: &Lengths) -> bool {
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
        || ((asks_for_consent(node) || is_furniture(node, inside) || is_line_numbers(node))
            && !lengths.is_most(node))
}

/// Whether a class or the id is a name of what the pages of a site have around their content.
fn is_furniture(node: &Node, inside: Inside) -> bool {
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

fn is_one(word: &str, inside: Inside) -> bool {
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

/// Whether a class or the id names a cookie banner.
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

/// The one `main` or `article` that holds more than half of the text.
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
        // What is inside of a candidate is no better one.
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

/// The length of the text in each element of a page, as [`text_length`] has it. One after another
/// they would take long where elements are nested deeply.
struct Lengths {
    of: HashMap<*const Node, usize>,
    whole: usize,
}

impl Lengths {
    fn of(root: &Rc<Node>) -> Self {
        // parents before their children
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

    /// Whether half of the page's text or more is in a node.
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

/// Bytes of text that readers see, without white space.
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
mod tests {
    fn text(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn what_surrounds_the_content_is_left_out() {
        let page = "<body><header><a href=/>Site</a><nav>Menu</nav></header><div role=navigation>More</div>\
                    <div id=content><h1>Keys</h1><p>They are rotated at night, by the watch.</p></div>\
                    <aside>Related</aside><div role='dialog'>Sign up</div><footer>Imprint</footer></body>";
        assert_eq!(
            text(page),
            "# Keys\n\nThey are rotated at night, by the watch."
        );
    }

    #[test]
    fn requests_for_consent_are_left_out_by_their_names() {
        for name in [
            "id=cookie-banner",
            "class='box cookieConsent visible'",
            "class=cookie_notice__wrap",
            "id=onetrust-consent-sdk",
            "id=CybotCookiebotDialog",
            "class=gdpr-popup",
            "class=cookiebar",
            "class=consent-modal",
            "class=cc-window",
        ] {
            let page = format!(
                "<div {name}>We value your privacy</div><p>All about keys and how to rotate them</p>"
            );
            assert_eq!(
                text(&page),
                "All about keys and how to rotate them",
                "{name}"
            );
        }
        for name in [
            "class=cookiecutter-sidebar",
            "class=recipe-cookies",
            "id=consent",
            "class=modal",
            "id=cookie-policy",
        ] {
            let page =
                format!("<div {name}>A page</div><p>All about keys and how to rotate them</p>");
            assert!(text(&page).starts_with("A page"), "{name}");
        }
        assert!(
            text("<div class=cookie-notice>Our policy on cookies, at length</div><p>end</p>")
                .contains("policy")
        );
        assert!(text("<body class=cookie-banner-open><p>Text</body>").contains("Text"));
    }

    #[test]
    fn furniture_is_left_out_by_its_names() {
        for furniture in [
            "<div class=navheader><table><tr><td>Prev<td>Next</table></div>",
            "<table class=navfooter><tr><td>Prev<td>Next</table>",
            "<ul class='docnav top'><li>Prev<li>Next</ul>",
            "<div id=nav>Menu</div>",
            "<div class='navbar navbar-default'>Menu</div>",
            "<div class=site-nav>Menu</div>",
            "<div class=nav-links>Menu</div>",
            "<ol class=breadcrumb><li>Home</ol>",
            "<div class=page-breadcrumbs>Home</div>",
            "<div id=banner>Download the book</div>",
            "<div class=footer>Imprint</div>",
            "<div id=site-footer>Imprint</div>",
        ] {
            let page =
                format!("{furniture}<p>All about keys and how to rotate them</p>{furniture}");
            assert_eq!(
                text(&page),
                "All about keys and how to rotate them",
                "{furniture}"
            );
        }
        for content in [
            "<div class=navy>A page</div>",
            "<div class=navigator-api>A page</div>",
            "<div class=footnotes>A page</div>",
            "<div class=card-footer>A page</div>",
            "<h2 class=nav-title>A page</h2>",
            "<div class=banner-history>A page</div>",
            "<article><div class=footer>A page</div></article>",
        ] {
            let page = format!("<p>All about keys and how to rotate them</p>{content}");
            assert!(text(&page).ends_with("A page"), "{content}");
        }
        let deep = format!("{}<p>All about keys</p>", "<div class=nav>".repeat(20_000));
        assert_eq!(text(&deep), "All about keys");
        let most = "<div class=nav-wrapper><p>All about keys</p></div><p>end</p>";
        assert_eq!(text(most), "All about keys\n\nend");
    }

    #[test]
    fn numbers_of_lines_are_no_part_of_code() {
        let page = "<table class=highlighttable><tr><td class=linenos><pre>1\n2</pre><td class=code><pre>one = 1\n\
                    two = 2</pre></table><pre><span class=linenos>1</span>three = 3</pre>";
        assert_eq!(
            text(page),
            "```\none = 1\ntwo = 2\n```\n\n```\nthree = 3\n```"
        );
    }

    #[test]
    fn what_belongs_to_an_article_stays() {
        let article = "<article><header><h1>Keys</h1></header><p>Text</p><aside>Mind the gap</aside><footer>By Ann</footer></article>";
        assert_eq!(text(article), "# Keys\n\nText\n\nMind the gap\n\nBy Ann");
    }

    #[test]
    fn main_is_the_content_where_it_holds_most_of_the_text() {
        let long = "They are rotated at night. ".repeat(5);
        assert_eq!(
            text(&format!(
                "<div>Menu</div><main><p>{long}</main><div>Ads</div>"
            )),
            long.trim()
        );
        assert_eq!(
            text(&format!(
                "<div>Menu</div><article><p>{long}</article><div>Ads</div>"
            )),
            long.trim()
        );
        assert_eq!(
            text(&format!("<main>Loading</main><div>{long}</div>")),
            format!("Loading\n\n{}", long.trim())
        );
        let two = format!("<article>{long}</article><article>{long}</article>");
        assert_eq!(text(&two).matches("at night").count(), 10);
    }

    #[test]
    fn the_only_first_heading_stays_wherever_it_is() {
        assert_eq!(
            text("<header>Site <h1>Keys</h1></header><p>Text</p>"),
            "# Keys\n\nText"
        );
        assert_eq!(
            text("<header><h1>Site</h1></header><h1>Keys</h1><p>Text</p>"),
            "# Keys\n\nText"
        );
    }

    #[test]
    fn a_page_that_is_all_boilerplate_is_kept() {
        assert_eq!(text("<nav><a href=/a>A</a></nav>"), "A");
        assert_eq!(text("<header><p>All</header>"), "All");
    }
}
