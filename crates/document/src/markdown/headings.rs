//! Headings that are written as HTML: `<h1 align="center">Pump</h1>`.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{Heading, pictures};
use crate::{anchors, title};

/// Maximum length of a heading with its markup, in bytes.
const MAX_BYTES: usize = 4_000;
/// Descriptions of pictures that are no headings.
const NO_HEADINGS: [&str; 4] = ["banner", "header", "image", "logo"];

/// Returns the headings that begin in these pieces of HTML of a text, in order.
pub fn in_html(text: &str, pieces: &[Range<usize>]) -> Vec<Heading> {
    let mut headings: Vec<Heading> = vec![];
    let mut in_comment = false;
    let ends = ends(text);
    for piece in pieces {
        let mut at = piece.start;
        while at < piece.end {
            let rest = &text[at..piece.end];
            if in_comment {
                let Some(end) = rest.find("-->") else { break };
                in_comment = false;
                at += end + 3;
                continue;
            }
            let Some(tag) = rest.find('<') else { break };
            at += tag;
            let rest = &text[at..piece.end];
            in_comment = rest.starts_with("<!--");
            let is_after = headings.last().is_none_or(|last| last.end <= at);
            if let Some(heading) = level(rest, "<h")
                .filter(|_| is_after)
                .and_then(|level| heading(text, at, level, &ends))
            {
                headings.push(heading);
            }
            at += 1;
        }
    }
    headings
}

/// Returns the level of a tag that begins with this.
fn level(tag: &str, begin: &str) -> Option<u8> {
    let is_such = tag.get(..begin.len())?.eq_ignore_ascii_case(begin);
    let bytes = tag.as_bytes();
    let level = bytes
        .get(begin.len())
        .filter(|_| is_such)?
        .wrapping_sub(b'0');
    let after = bytes.get(begin.len() + 1)?;
    let is_end = after.is_ascii_whitespace() || *after == b'>';
    ((1..=6).contains(&level) && is_end).then_some(level)
}

/// Returns the places of closing tags, in order, with their levels.
fn ends(text: &str) -> Vec<(usize, u8)> {
    text.match_indices("</")
        .filter_map(|(at, _)| Some((at, level(&text[at..], "</h")?)))
        .collect()
}

fn heading(text: &str, at: usize, level: u8, ends: &[(usize, u8)]) -> Option<Heading> {
    let next = ends.partition_point(|(end, _)| *end < at);
    let (end, _) = ends.get(next).filter(|(_, closed)| *closed == level)?;
    let inner = text
        .get(at..*end)
        .filter(|inner| inner.len() <= MAX_BYTES)?;
    let (tag, inner) = inner.split_at(inner.find('>')? + 1);
    let closed = text[*end..].find('>')? + end + 1;
    Some(Heading {
        at,
        end: closed,
        level,
        text: title::heading(&words(inner))?,
        name: pictures::attribute(tag, "id").and_then(anchors::name),
    })
}

/// Returns the words of a heading, else the description of its picture.
fn words(inner: &str) -> String {
    let lines: Vec<&str> = inner
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    // A letter before keeps tags from beginning a block.
    let line = format!("x {}", lines.join(" "));
    let (mut words, mut described) = (String::new(), String::new());
    let mut in_picture = false;
    for event in Parser::new(&line) {
        match event {
            Event::Start(Tag::Image { .. }) => in_picture = true,
            Event::End(TagEnd::Image) => in_picture = false,
            Event::Text(piece) | Event::Code(piece) if in_picture => described.push_str(&piece),
            Event::Text(piece) | Event::Code(piece) => words.push_str(&piece),
            Event::InlineHtml(tag) if tag.starts_with("<img") => {
                described.push_str(pictures::attribute(&tag, "alt").unwrap_or_default());
            }
            Event::InlineHtml(tag) if tag.starts_with("<br") => words.push(' '),
            _ => {}
        }
    }
    let words = words.trim_start_matches('x').trim();
    let is_heading = !NO_HEADINGS.contains(&described.trim().to_lowercase().as_str());
    match words {
        "" if is_heading => described,
        words => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::structure;
    use crate::Structure;

    fn headings(text: &str) -> Vec<(u8, String)> {
        let Structure::Sections { headings, .. } = structure(text) else {
            panic!()
        };
        assert!(headings.is_sorted_by_key(|heading| heading.at));
        headings
            .into_iter()
            .map(|heading| (heading.level, heading.text))
            .collect()
    }

    #[test]
    fn headings_of_html_count() {
        for (text, expected) in [
            (
                "<h1 align=\"center\">Pump</h1>\n\n## Install",
                vec![(1, "Pump"), (2, "Install")],
            ),
            (
                "<div align=center>\n  <H1>Pump &amp; <b>tank</b></H1>\n</div>",
                vec![(1, "Pump & tank")],
            ),
            ("<h1>\n\nPump\n\n</h1>\n\ntext", vec![(1, "Pump")]),
            (
                "<h1><img src=x alt=\"Pump\"></h1>\n\n# A",
                vec![(1, "Pump"), (1, "A")],
            ),
            ("<h1><img src=x alt=Logo><br>Pump</h1>", vec![(1, "Pump")]),
            (
                "<h1 align=center><a href=x>Pump</a><br>for tanks</h1>",
                vec![(1, "Pump for tanks")],
            ),
            ("text <h2>inline</h2>", vec![(2, "inline")]),
            (
                "# A\n\n<h2>B</h2>\n\n### C",
                vec![(1, "A"), (2, "B"), (3, "C")],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(l, t)| (l, t.to_owned()))
                .collect();
            assert_eq!(headings(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_heading_does_not_count() {
        for text in [
            "<h1><img src=x alt=logo></h1>",
            "<!-- <h1>A</h1> -->",
            "<!--\n<h1>A</h1>\n-->",
            "```html\n<h1>A</h1>\n```",
            "`<h1>A</h1>`",
            "<h1>A",
            "<h1>A</h2>",
            "<header>A</header>",
            "<h1></h1>",
        ] {
            assert_eq!(headings(text), [], "{text}");
        }
    }

    #[test]
    fn many_tags_take_little_time() {
        headings(&"<h1>".repeat(200_000));
        headings(&"<h1></h2>".repeat(100_000));
        assert_eq!(headings(&"<h1>a</h1>\n".repeat(50_000)).len(), 50_000);
    }
}
