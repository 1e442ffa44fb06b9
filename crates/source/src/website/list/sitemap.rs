//! Sitemaps: lists of pages, and lists of such lists.

use quick_xml::{Reader, events::Event};

use super::{Date, ListedPage, NO_LIST, PageList, attribute, invalid, text_of};

/// Maximum number of languages of a page.
const MAX_VARIANTS: usize = 100;

/// Reads a `urlset` or a `sitemapindex`.
pub fn in_xml(text: &str, max_addresses: usize) -> Result<PageList, String> {
    let mut reader = Reader::from_str(text);
    let mut list = PageList::default();
    let (mut open, mut entry, mut date): (Vec<String>, _, _) =
        (vec![], ListedPage::default(), String::new());
    loop {
        let event = reader.read_event().map_err(|error| invalid(&error))?;
        match &event {
            Event::Start(tag) | Event::Empty(tag) => {
                let name = tag.local_name().as_ref().to_owned();
                if name == "link" && entry.variants.len() < MAX_VARIANTS {
                    let variant = attribute(tag, "hreflang").zip(attribute(tag, "href"));
                    entry.variants.extend(variant);
                }
                if open.len() == 1 && matches!(name.as_str(), "url" | "sitemap") {
                    (entry, date) = (ListedPage::default(), String::new());
                }
                if matches!(&event, Event::Start(_)) {
                    open.push(name);
                }
            }
            Event::End(_) => {
                let closed = open.pop();
                if open.len() != 1 || entry.address.trim().is_empty() {
                    continue;
                }
                let mut page = std::mem::take(&mut entry);
                page.address = page.address.trim().to_owned();
                match closed.as_deref() {
                    Some("sitemap") => list.lists.push(page.address),
                    Some("url") => {
                        page.modified = Date::parse(&date);
                        list.pages.push(page);
                    }
                    _ => {}
                }
                if list.pages.len() + list.lists.len() >= max_addresses {
                    return Ok(list);
                }
            }
            Event::Eof => return Ok(list),
            // pictures and films of a page have addresses, too
            event if open.len() == 3 => {
                let into = match open[2].as_str() {
                    "loc" => &mut entry.address,
                    "lastmod" => &mut date,
                    _ => continue,
                };
                into.push_str(&text_of(event).unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// Reads a sitemap with an address on each line.
pub fn in_lines(text: &str, max_addresses: usize) -> Result<PageList, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(max_addresses).collect();
    let is_address = |line: &&str| line.starts_with("http://") || line.starts_with("https://");
    if lines.is_empty() || !lines.iter().all(is_address) {
        return Err(NO_LIST.into());
    }
    let pages = lines.into_iter().map(|line| ListedPage {
        address: line.to_owned(),
        ..ListedPage::default()
    });
    Ok(PageList {
        pages: pages.collect(),
        ..PageList::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &PageList) -> Vec<&str> {
        list.pages
            .iter()
            .map(|page| page.address.as_str())
            .collect()
    }

    #[test]
    fn pages_are_listed_with_their_dates() {
        let text = "<?xml version='1.0'?>\n<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
            <url><loc> https://a.example/?a=1&amp;b=&#50; </loc><lastmod>2026-01-01</lastmod></url>
            <url><lastmod>never</lastmod><loc><![CDATA[https://a.example/c&d]]></loc></url></urlset>";
        let list = in_xml(text, 10).unwrap();
        let expected = ["https://a.example/?a=1&b=2", "https://a.example/c&d"];
        assert_eq!(addresses(&list), expected);
        assert!(list.pages[0].modified.is_some() && list.pages[1].modified.is_none());
        assert_eq!(addresses(&in_xml(text, 1).unwrap()), expected[..1]);
    }

    #[test]
    fn an_index_lists_sitemaps() {
        let index = "<s:sitemapindex xmlns:s='x'><s:sitemap><s:loc>https://a.example/1.xml</s:loc>\
            <s:lastmod>2026-01-01</s:lastmod></s:sitemap></s:sitemapindex>";
        let list = in_xml(index, 10).unwrap();
        assert_eq!(list.lists, ["https://a.example/1.xml"]);
        assert!(list.pages.is_empty());
    }

    #[test]
    fn pictures_are_no_pages() {
        let text = "<urlset><url><loc>https://a.example/a</loc><image:image><image:loc>\
            https://a.example/a.png</image:loc></image:image><video:video><video:thumbnail_loc>\
            https://a.example/b.png</video:thumbnail_loc></video:video></url></urlset>";
        assert_eq!(
            addresses(&in_xml(text, 10).unwrap()),
            ["https://a.example/a"]
        );
    }

    #[test]
    fn variants_are_listed() {
        let text = "<urlset><url><loc>/a</loc><xhtml:link rel='alternate' hreflang='de' href='/de/a'/>\
            </url><url><loc>/b</loc></url></urlset>";
        let list = in_xml(text, 10).unwrap();
        assert_eq!(
            list.pages[0].variants,
            [("de".to_owned(), "/de/a".to_owned())]
        );
        assert!(list.pages[1].variants.is_empty());
    }

    #[test]
    fn addresses_may_be_on_lines() {
        let list = in_lines("\nhttps://a.example/1\r\n  https://a.example/2\n", 10).unwrap();
        assert_eq!(
            addresses(&list),
            ["https://a.example/1", "https://a.example/2"]
        );
        assert!(in_lines("https://a.example/1\nNot found", 10).is_err());
    }
}
