//! Markdown: the front matter goes into the metadata, the rest is the text as written, but for
//! pictures whose data are in the file (see [`pictures`]).

mod headings;
mod pictures;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use rag_protocol::ingest::{Stage, Title};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ExtractedDocument, Structure,
    anchors::{self, Slugs},
    front_matter, title,
};

/// A heading of a Markdown text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// Byte at which the heading begins.
    pub at: usize,
    /// Byte at which the heading ends, or the line end after it.
    pub end: usize,
    /// From 1, the outermost, to 6.
    pub level: u8,
    /// One line, without markup, at most 200 characters.
    pub text: String,
    /// What follows `#` in an address of the heading: its id, or the name that GitHub gives it.
    #[serde(default)]
    pub name: Option<String>,
}

pub fn extract(file: &str, name: &str) -> ExtractedDocument {
    let front_matter::MarkdownFile { metadata, body } = front_matter::separate(file);
    let declared = match metadata.get("title") {
        Some(Value::String(text)) => title::own(text),
        Some(Value::Number(number)) => title::own(&number.to_string()),
        _ => None,
    };
    let is_whole = body == file;
    let begin = file.len() - body.trim_start_matches(['\r', '\n']).len();
    let text = pictures::described(&file[begin..]).into_owned();
    let before = &file[..begin];
    let lines_before = u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX);
    let mut extracted = ExtractedDocument {
        metadata,
        lines_before,
        ..ExtractedDocument::in_markdown(text, declared, name)
    };
    extracted.anchors = anchors::of_headings(&extracted.structure);
    if let (true, Some(Value::String(why))) =
        (is_whole, extracted.metadata.get("front_matter_error"))
    {
        let warning = format!("the front matter was left in the text: {why}");
        extracted.warn(Stage::Extract, warning);
    }
    extracted
}

/// Returns the first heading of level 1, else the first heading.
pub fn heading(structure: &Structure) -> Option<Title> {
    let Structure::Sections { headings, .. } = structure else {
        return None;
    };
    let first = headings
        .iter()
        .find(|heading| heading.level == 1)
        .or_else(|| headings.first());
    first.map(|heading| Title {
        text: heading.text.clone(),
        own: true,
    })
}

/// Finds headings, `#`, underlined and in HTML, and code blocks.
pub fn structure(text: &str) -> Structure {
    let (mut headings, mut code, mut html) = (vec![], vec![], vec![]);
    // The end of a block that looks like a heading that is underlined.
    let begin = front_matter::end(text);
    let mut open: Option<(usize, String)> = None;
    let mut id = None;
    for (event, range) in
        Parser::new_ext(text, Options::ENABLE_HEADING_ATTRIBUTES).into_offset_iter()
    {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { id: own, .. }), _) => {
                id = own.and_then(|own| anchors::name(&own));
                open = Some((range.start, String::new()));
            }
            (Event::Text(piece) | Event::Code(piece), Some((_, words))) => words.push_str(&piece),
            (Event::SoftBreak | Event::HardBreak, Some((_, words))) => words.push(' '),
            (Event::End(TagEnd::Heading(level)), Some((at, words))) => {
                if let Some(text) = title::heading(words).filter(|_| *at >= begin) {
                    headings.push(Heading {
                        at: *at,
                        end: range.end,
                        level: level as u8,
                        text,
                        name: id.take(),
                    });
                }
                open = None;
            }
            (Event::Start(Tag::CodeBlock(_)), _) => code.push((range.start, range.end)),
            (Event::Html(_) | Event::InlineHtml(_), None) => html.push(range),
            _ => {}
        }
    }
    if !html.is_empty() {
        headings.extend(headings::in_html(text, &html));
        headings.sort_by_key(|heading| heading.at);
    }
    let mut slugs = Slugs::default();
    for heading in &mut headings {
        let slug = slugs.next(&heading.text);
        heading.name = heading.name.take().or(slug);
    }
    Structure::Sections { headings, code }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(file: &str) -> Title {
        extract(file, "docs/guide.md").title
    }

    fn own(text: &str) -> Title {
        Title {
            text: text.into(),
            own: true,
        }
    }

    #[test]
    fn front_matter_names_the_document_before_any_heading() {
        assert_eq!(
            title("---\ntitle: From above\n---\n# Heading"),
            own("From above")
        );
        assert_eq!(title("---\ntitle: 1984\n---\n# Heading"), own("1984"));
        assert_eq!(title("---\ntitle: ''\n---\n# Heading"), own("Heading"));
        assert_eq!(title("---\ntitle: [a]\n---\n# Heading"), own("Heading"));
    }

    #[test]
    fn the_first_heading_of_level_one_names_it_else_the_first() {
        assert_eq!(
            title("## Before\n\n# The *real* `title` [link](x) #\n\n# Later"),
            own("The real title link")
        );
        assert_eq!(
            title("text\n\nUnderlined\ntwice\n=====\n"),
            own("Underlined twice")
        );
        assert_eq!(title("text\n\n### Small\n\n## Larger"), own("Small"));
        assert_eq!(title("# Title {#anchor}"), own("Title"));
    }

    #[test]
    fn a_comment_in_a_code_block_is_not_a_heading() {
        assert_eq!(
            title("```sh\n# not this\n```\n\n    # nor this\n\n# This"),
            own("This")
        );
        assert_eq!(
            title("~~~\n# no\n~~~\n#hashtag"),
            Title {
                text: "guide".into(),
                own: false
            }
        );
    }

    #[test]
    fn front_matter_is_not_part_of_the_text() {
        let extracted = extract("---\ntitle: T\n---\n\n\n  Text\n", "a.md");
        assert_eq!(extracted.text, "  Text\n");
        assert_eq!(extracted.metadata["title"], "T");
    }

    #[test]
    fn lines_before_the_text_are_counted() {
        for (file, lines) in [
            ("Text\n", 0),
            ("\n\nText\n", 2),
            ("\r\nText", 1),
            ("---\na: 1\n---\n\n# Text", 4),
            ("---\na\n---\n", 0),
        ] {
            assert_eq!(extract(file, "a.md").lines_before, lines, "{file}");
        }
    }

    #[test]
    fn headings_have_names() {
        let text = "# The *Pump*\n\n## Use {#usage .x}\n\n<h2 id=\"old\">Install</h2>\n\n## Use\n\n\
            <h3>Use</h3>\n";
        let Structure::Sections { headings, .. } = structure(text) else {
            panic!()
        };
        let names: Vec<_> = headings
            .iter()
            .filter_map(|it| it.name.as_deref())
            .collect();
        assert_eq!(names, ["the-pump", "usage", "old", "use-1", "use-2"]);
        let page = extract(&format!("---\na: 1\n---\n{text}"), "a.md");
        let place = |name: &str| page.anchors.iter().find(|it| it.name == name).unwrap().at;
        assert!(page.text[place("usage")..].starts_with("## Use {"));
        assert!(page.text[place("old")..].starts_with("<h2"));
    }

    #[test]
    fn headings_are_those_outside_of_code_in_either_form() {
        let text = "# A\n\n```\n# no\n\n# no\n```\n\nB *b*\n===\n\n- ### C\n\n> ## D\n";
        let Structure::Sections { headings, code } = structure(text) else {
            panic!()
        };
        let found: Vec<_> = headings
            .iter()
            .map(|h| (&text[h.at..h.at + 1], h.level, h.text.as_str()))
            .collect();
        assert_eq!(
            found,
            [("#", 1, "A"), ("B", 1, "B b"), ("#", 3, "C"), ("#", 2, "D")]
        );
        assert_eq!(
            code.iter()
                .map(|(from, to)| text[*from..*to].trim())
                .collect::<Vec<_>>(),
            ["```\n# no\n\n# no\n```"]
        );
    }
}
