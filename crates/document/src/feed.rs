//! Feeds: RSS and Atom. Each entry is a section with its title, its date, its author and its text,
//! which is read as a page of HTML is.

use quick_xml::{Reader, errors::Error, events::Event};
use rag_protocol::ingest::LINK_TARGETS;

use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    html,
    package::malformed,
    title,
    xml::{self, attribute},
};

/// Maximum number of entries.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of links in the metadata.
const MAX_LINKS: usize = 1_000;

/// An entry, or the feed itself.
#[derive(Default)]
struct Entry {
    title: String,
    date: String,
    author: String,
    link: String,
    /// The whole text, or else the summary.
    content: String,
    summary: String,
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut entries = vec![];
    let mut feed = Entry::default();
    read(file, &mut feed, &mut entries).map_err(|e| malformed("feed", &e))?;
    let mut blocks = vec![
        Block::Heading {
            level: 1,
            text: words(&feed.title),
        },
        page(&feed.summary),
    ];
    let mut links = vec![];
    for entry in entries {
        blocks.push(Block::Heading {
            level: 2,
            text: words(&entry.title),
        });
        let facts = [words(&entry.date), words(&entry.author)];
        let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        blocks.push(Block::Text(facts.join(", ")));
        let is_whole = !entry.content.trim().is_empty();
        blocks.push(page(if is_whole {
            &entry.content
        } else {
            &entry.summary
        }));
        let link = entry.link.trim();
        if !link.is_empty() && links.len() < MAX_LINKS {
            links.push(serde_json::Value::from(link));
        }
    }
    blocks.retain(|block| !block.is_blank());
    let declared = title::own(&words(&feed.title));
    let text = blocks::markdown(&blocks);
    let mut extracted = ExtractedDocument::in_markdown(text, declared, name);
    extracted.set_author(Some(&words(&feed.author)));
    if !links.is_empty() {
        extracted.metadata.insert(LINK_TARGETS.into(), links.into());
    }
    Ok(extracted)
}

fn read(file: &str, feed: &mut Entry, entries: &mut Vec<Entry>) -> Result<(), Error> {
    let mut reader = Reader::from_str(file);
    reader.config_mut().expand_empty_elements = true;
    // The open entry, and what its elements are in.
    let mut entry: Option<Entry> = None;
    let mut open: Vec<String> = vec![];
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Start(element) => {
                let name = element.local_name().into_inner();
                let is_page = attribute(element, "type").is_some_and(|of| of == "xhtml");
                let into = entry.as_mut().unwrap_or(feed);
                if is_page && matches!(name, "content" | "summary" | "title" | "subtitle") {
                    let from = reader.buffer_position() as usize;
                    let field = field(into, name, element.name().into_inner(), &open);
                    reader.read_to_end(element.name())?;
                    let to = reader.buffer_position() as usize;
                    let inner = file.get(from..to).unwrap_or_default();
                    let end = inner.rfind("</").unwrap_or(inner.len());
                    if let Some(field) = field {
                        field.push_str(&inner[..end]);
                    }
                    continue;
                }
                if matches!(name, "image" | "textInput" | "source" | "thumbnail") {
                    reader.read_to_end(element.name())?;
                    continue;
                }
                if name == "link"
                    && into.link.is_empty()
                    && attribute(element, "rel").is_none_or(|of| of == "alternate")
                {
                    into.link = attribute(element, "href").unwrap_or_default();
                }
                if matches!(name, "item" | "entry") && entry.is_none() {
                    entry = Some(Entry::default());
                }
                open.push(element.name().into_inner().to_owned());
            }
            Event::End(element) => {
                open.pop();
                if matches!(element.local_name().into_inner(), "item" | "entry") {
                    entries.extend(entry.take().filter(|_| entries.len() < MAX_ENTRIES));
                }
            }
            Event::Eof if !open.is_empty() => {
                let missing = quick_xml::errors::IllFormedError::MissingEndTag(open.swap_remove(0));
                return Err(missing.into());
            }
            Event::Eof => return Ok(()),
            event => {
                let into = entry.as_mut().unwrap_or(feed);
                if let (Some(name), Some(piece)) = (open.last(), xml::text(event)) {
                    let local = name.rsplit(':').next().unwrap_or(name);
                    let above = &open[..open.len() - 1];
                    if let Some(field) = field(into, local, name, above) {
                        field.push_str(&piece);
                    }
                }
            }
        }
    }
}

/// Returns where the text of an element belongs.
fn field<'a>(
    entry: &'a mut Entry,
    local: &str,
    name: &str,
    above: &[String],
) -> Option<&'a mut String> {
    let in_media = name.starts_with("media:");
    let in_author = above.last().is_some_and(|above| above.ends_with("author"));
    match local {
        "title" if !in_media => Some(&mut entry.title),
        "pubDate" | "published" | "date" => Some(&mut entry.date),
        // Atom has it in each entry, and the other one may be missing.
        "updated" if entry.date.is_empty() => Some(&mut entry.date),
        "name" if in_author => Some(&mut entry.author),
        "creator" => Some(&mut entry.author),
        "author" if !above.is_empty() && !name.contains(':') => Some(&mut entry.author),
        "encoded" | "content" if !in_media => Some(&mut entry.content),
        "description" | "subtitle" if !name.starts_with("itunes:") => Some(&mut entry.summary),
        "summary" if entry.summary.trim().is_empty() || !name.contains(':') => {
            Some(&mut entry.summary)
        }
        "link" => Some(&mut entry.link),
        _ => None,
    }
}

/// Returns a text that may be HTML as Markdown.
fn page(text: &str) -> Block {
    if !text.contains(['<', '&']) {
        return Block::Text(text.trim().to_owned());
    }
    match html::extract(&format!("<article>{text}</article>"), "entry") {
        Ok(page) => Block::Markdown(page.text),
        Err(_) => Block::Text(text.to_owned()),
    }
}

/// Returns the words of a text that may have tags and entities, in one line.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        words.push_str(&rest[..at]);
        let tag = &rest[at + 1..];
        let is_tag = tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        rest = match tag.find('>').filter(|_| is_tag) {
            Some(end) => &tag[end + 1..],
            None => {
                words.push('<');
                tag
            }
        };
    }
    words.push_str(rest);
    let words = words.replace("&nbsp;", " ");
    let plain = quick_xml::escape::unescape(&words).unwrap_or_else(|_| words.as_str().into());
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true for the root element of a feed.
pub fn is_root(name: &str) -> bool {
    matches!(name, "rss" | "feed" | "rdf:RDF")
}

#[cfg(test)]
mod tests {
    use rag_protocol::ingest::Stage;

    use super::*;

    #[test]
    fn entries_of_rss_are_sections() {
        let file = "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>News &amp; \
            more</title><link>https://example.org/</link><description>About tea</description>\
            <image><title>no</title></image><item><title>Green &lt;b&gt;tea&lt;/b&gt;</title>\
            <link>https://example.org/1</link><pubDate>Wed, 01 May 2024 08:00:00 GMT</pubDate>\
            <dc:creator>Ann</dc:creator><description>Short</description><content:encoded>\
            <![CDATA[<p>Long <em>text</em>.</p><ul><li>One</li></ul>]]></content:encoded>\
            <media:title>no</media:title></item><item><title>Second</title><description>\
            &lt;p&gt;A &amp;amp; B&lt;/p&gt;</description></item></channel></rss>";
        let read = extract(file, "feed.xml").unwrap();
        assert_eq!(
            read.text,
            "# News & more\n\nAbout tea\n\n## Green tea\n\nWed, 01 May 2024 08:00:00 GMT, Ann\n\n\
             Long *text*.\n\n*   One\n\n## Second\n\nA & B"
        );
        assert_eq!(read.title.text, "News & more");
        assert_eq!(read.metadata["link_targets"][0], "https://example.org/1");
    }

    #[test]
    fn entries_of_atom_are_sections() {
        let file = "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>Log</title><author>\
            <name>Bob</name></author><entry><title type=\"html\">A &amp;amp; B</title>\
            <link href=\"https://example.org/a\"/><updated>2024-05-01T00:00:00Z</updated>\
            <summary>no</summary><content type=\"xhtml\"><div><p>Hello <b>there</b></p></div>\
            </content></entry><entry><title>Two</title><updated>2024</updated><summary>Sum\
            </summary></entry></feed>";
        let read = extract(file, "feed.atom").unwrap();
        assert_eq!(
            read.text,
            "# Log\n\n## A & B\n\n2024-05-01T00:00:00Z\n\nHello **there**\n\n## Two\n\n2024\n\nSum"
        );
        assert_eq!(read.metadata["author"], "Bob");
    }

    #[test]
    fn damaged_and_hostile_feeds_are_errors_or_read() {
        for file in ["<rss><channel><item>", "<rss></feed>"] {
            let problem = extract(file, "a.rss").unwrap_err();
            assert_eq!(problem.stage, Stage::Extract);
            assert!(problem.message.starts_with("the feed is malformed"));
        }
        let deep = format!("{}x{}", "<item>".repeat(50_000), "</item>".repeat(50_000));
        let _ = extract(&format!("<rss>{deep}</rss>"), "a.rss");
        let bomb = "<!DOCTYPE rss [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;\">]><rss><channel><title>\
            &b;</title></channel></rss>";
        assert_eq!(extract(bomb, "a.rss").unwrap().text, "");
    }
}
