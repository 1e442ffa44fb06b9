//! Markdown: the front matter goes into the metadata, the rest is the text as written.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use rag_protocol::ingest::Title;
use serde_json::Value;

use crate::{Extracted, front_matter, title};

pub fn extract(file: &str, name: &str) -> Extracted {
    let front_matter::Parted { metadata, body } = front_matter::part(file);
    let declared = match metadata.get("title") {
        Some(Value::String(text)) => title::own(text),
        Some(Value::Number(number)) => title::own(&number.to_string()),
        _ => None,
    };
    let title = declared.or_else(|| heading(body)).unwrap_or_else(|| title::from_name(name));
    Extracted { text: body.trim_start_matches(['\r', '\n']).to_owned(), title, metadata }
}

/// The first heading of level 1, else the first heading, without its markup.
fn heading(text: &str) -> Option<Title> {
    let mut first: Option<Title> = None;
    let mut open: Option<(HeadingLevel, String)> = None;
    for event in Parser::new_ext(text, Options::ENABLE_HEADING_ATTRIBUTES) {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { level, .. }), _) => open = Some((level, String::new())),
            (Event::Text(piece) | Event::Code(piece), Some((_, words))) => words.push_str(&piece),
            (Event::SoftBreak | Event::HardBreak, Some((_, words))) => words.push(' '),
            (Event::End(TagEnd::Heading(_)), Some((level, words))) => {
                let found = title::own(words);
                if *level == HeadingLevel::H1 && found.is_some() {
                    return found;
                }
                first = first.or(found);
                open = None;
            }
            _ => {}
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(file: &str) -> Title {
        extract(file, "docs/guide.md").title
    }

    fn own(text: &str) -> Title {
        Title { text: text.into(), own: true }
    }

    #[test]
    fn front_matter_names_the_document_before_any_heading() {
        assert_eq!(title("---\ntitle: From above\n---\n# Heading"), own("From above"));
        assert_eq!(title("---\ntitle: 1984\n---\n# Heading"), own("1984"));
        assert_eq!(title("---\ntitle: ''\n---\n# Heading"), own("Heading"));
        assert_eq!(title("---\ntitle: [a]\n---\n# Heading"), own("Heading"));
    }

    #[test]
    fn the_first_heading_of_level_one_names_it_else_the_first() {
        assert_eq!(title("## Before\n\n# The *real* `title` [link](x) #\n\n# Later"), own("The real title link"));
        assert_eq!(title("text\n\nUnderlined\ntwice\n=====\n"), own("Underlined twice"));
        assert_eq!(title("text\n\n### Small\n\n## Larger"), own("Small"));
        assert_eq!(title("# Title {#anchor}"), own("Title"));
    }

    #[test]
    fn a_comment_in_a_code_block_is_no_heading() {
        assert_eq!(title("```sh\n# not this\n```\n\n    # nor this\n\n# This"), own("This"));
        assert_eq!(title("~~~\n# no\n~~~\n#hashtag"), Title { text: "guide".into(), own: false });
    }

    #[test]
    fn front_matter_is_no_part_of_the_text() {
        let extracted = extract("---\ntitle: T\n---\n\n\n  Text\n", "a.md");
        assert_eq!(extracted.text, "  Text\n");
        assert_eq!(extracted.metadata["title"], "T");
    }
}
