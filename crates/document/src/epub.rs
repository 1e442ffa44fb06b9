//! Books (`.epub`): a ZIP archive of pages. A package file names them in the order of reading.
//!
//! ```text
//! META-INF/container.xml ──▶ content.opf: title, manifest (pages by id), spine (ids in order)
//! ```
//!
//! Each page is read as a page of HTML is. Pages that are not in the order of reading, the table of
//! contents and pictures are left out. Encrypted books are refused.

use std::collections::HashMap;

use quick_xml::{Reader, events::Event};
use rag_protocol::ingest::Stage;

use crate::{
    DocumentError, ExtractedDocument, decode, html,
    package::{Package, resolved},
    title,
    xml::{attribute, text_of},
};

/// Maximum number of pages.
const MAX_PAGES: usize = 10_000;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    let mut package = Package::open(bytes, "book")?;
    let Some(container) = package.text("META-INF/container.xml")? else {
        return Err(package.malformed(&"it has no META-INF/container.xml"));
    };
    let place = first_attribute(&container, "rootfile", "full-path").unwrap_or_default();
    let Some(opf) = package.text(&place)? else {
        return Err(package.malformed(&"it has no package file"));
    };
    let folder = place.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut text = String::new();
    let (mut pages, mut unread) = (0, 0);
    for page in reading_order(&opf).into_iter().take(MAX_PAGES) {
        let address = percent_encoding::percent_decode_str(&page).decode_utf8_lossy();
        let Some(bytes) = package.bytes(&resolved(folder, &address))? else {
            unread += 1;
            continue;
        };
        pages += 1;
        let read =
            decode::text(&bytes, None).and_then(|decoded| html::extract(&decoded.text, &address));
        match read {
            Ok(read) if read.text.trim().is_empty() => {}
            Ok(read) => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(read.text.trim());
            }
            Err(_) => unread += 1,
        }
    }
    if pages > 0 && text.is_empty() && package.bytes("META-INF/encryption.xml")?.is_some() {
        return Err(DocumentError::new(Stage::Extract, "the book is encrypted")
            .hint("Replace the file with a copy without protection."));
    }
    let title = text_of(&opf, "title").as_deref().and_then(title::own);
    let mut extracted = ExtractedDocument::in_markdown(text, title, name);
    if unread > 0 {
        let pages = match unread {
            1 => "1 page of the book".to_owned(),
            count => format!("{count} pages of the book"),
        };
        extracted.warn(Stage::Extract, format!("{pages} could not be read"));
    }
    Ok(extracted)
}

fn first_attribute(xml: &str, element: &str, name: &str) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(found) | Event::Empty(found)
                if found.local_name().into_inner() == element =>
            {
                return attribute(&found, name);
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

/// Returns the addresses of the pages in the order of reading. Each is read once.
fn reading_order(opf: &str) -> Vec<String> {
    let mut pages: HashMap<String, String> = HashMap::new();
    let mut order = vec![];
    let mut reader = Reader::from_str(opf);
    while let Ok(event) = reader.read_event() {
        let element = match event {
            Event::Eof => break,
            Event::Start(element) | Event::Empty(element) => element,
            _ => continue,
        };
        let value = |name| attribute(&element, name).unwrap_or_default();
        match element.local_name().into_inner() {
            "item" => {
                let is_page = value("media-type").contains("html");
                let is_contents = value("properties").split_whitespace().any(|of| of == "nav");
                if is_page && !is_contents {
                    pages.insert(value("id"), value("href"));
                }
            }
            "itemref" if value("linear") != "no" => order.push(value("idref")),
            _ => {}
        }
    }
    order.iter().filter_map(|id| pages.remove(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::packed;

    const CONTAINER: &str = "<container><rootfiles><rootfile full-path=\"OEBPS/content.opf\"/>\
        </rootfiles></container>";

    fn book(opf: &str, pages: &[(&str, &str)]) -> Vec<u8> {
        let mut files: Vec<(&str, &[u8])> = vec![
            ("mimetype", b"application/epub+zip"),
            ("META-INF/container.xml", CONTAINER.as_bytes()),
            ("OEBPS/content.opf", opf.as_bytes()),
        ];
        files.extend(pages.iter().map(|(name, page)| (*name, page.as_bytes())));
        packed(&files)
    }

    fn page(body: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><html xmlns=\"http://www.w3.org/1999/xhtml\"><head><title>x</title>\
             </head><body>{body}</body></html>"
        )
    }

    const OPF: &str = "<package><metadata><dc:title>Tea &amp; time</dc:title></metadata><manifest>\
        <item id=\"nav\" href=\"nav.xhtml\" media-type=\"application/xhtml+xml\" properties=\"nav\"/>\
        <item id=\"two\" href=\"text/chapter%202.xhtml\" media-type=\"application/xhtml+xml\"/>\
        <item id=\"one\" href=\"text/one.xhtml\" media-type=\"application/xhtml+xml\"/>\
        <item id=\"pic\" href=\"a.png\" media-type=\"image/png\"/></manifest>\
        <spine><itemref idref=\"nav\"/><itemref idref=\"one\"/><itemref idref=\"two\"/>\
        <itemref idref=\"one\"/><itemref idref=\"pic\"/></spine></package>";

    #[test]
    fn pages_are_read_in_their_order_once() {
        let (one, two) = (
            page("<h1>One</h1><p>First.</p>"),
            page("<h1>Two</h1><p>Second.</p>"),
        );
        let nav = page("<ol><li>Contents</li></ol>");
        let bytes = book(
            OPF,
            &[
                ("OEBPS/text/chapter 2.xhtml", &two),
                ("OEBPS/text/one.xhtml", &one),
                ("OEBPS/nav.xhtml", &nav),
            ],
        );
        let extracted = extract(&bytes, "a.epub").unwrap();
        assert_eq!(extracted.text, "# One\n\nFirst.\n\n# Two\n\nSecond.");
        assert_eq!(extracted.title.text, "Tea & time");
        let lost = book(OPF, &[("OEBPS/text/one.xhtml", &one)]);
        let extracted = extract(&lost, "a.epub").unwrap();
        assert_eq!(
            extracted.warnings[0].message,
            "1 page of the book could not be read"
        );
    }

    #[test]
    fn damaged_and_encrypted_books_are_errors() {
        let message = |bytes: &[u8]| extract(bytes, "a.epub").unwrap_err().message;
        assert_eq!(
            message(&packed(&[("a", b"x")])),
            "the book is malformed: it has no META-INF/container.xml"
        );
        let noise = "\u{1}\u{2}\u{3}\u{4}\u{5}";
        let locked = book(
            OPF,
            &[
                ("OEBPS/text/one.xhtml", noise),
                ("META-INF/encryption.xml", "<encryption/>"),
            ],
        );
        assert_eq!(message(&locked), "the book is encrypted");
        let whole = book(OPF, &[("OEBPS/text/one.xhtml", &page("<p>x</p>"))]);
        for cut in (0..whole.len()).step_by(5) {
            let _ = extract(&whole[..cut], "a.epub");
            let mut damaged = whole.clone();
            damaged[cut] ^= 0x15;
            let _ = extract(&damaged, "a.epub");
        }
    }
}
