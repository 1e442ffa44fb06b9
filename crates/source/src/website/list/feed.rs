//! Feeds as lists of pages: RSS, Atom and JSON Feed.

use quick_xml::{Reader, events::Event};
use serde_json::Value;

use super::{Date, ListedPage, PageList, attribute, invalid, text_of};

/// What is being read of an entry, or of the feed itself.
#[derive(Default)]
struct Entry {
    link: String,
    /// The address that a service has replaced by one of its own.
    original: String,
    /// The address of the page if there is no link.
    id: String,
    /// The id is no address.
    is_opaque: bool,
    published: String,
    updated: String,
    /// What relative addresses of Atom are relative to.
    base: String,
}

impl Entry {
    fn page(self, base: &str) -> Option<ListedPage> {
        let is_address = |text: &str| text.starts_with("http://") || text.starts_with("https://");
        let original = Some(self.original.trim()).filter(|link| is_address(link));
        let link = original.unwrap_or(self.link.trim());
        let id = Some(self.id.trim()).filter(|id| !self.is_opaque && is_address(id));
        let address = Some(link).filter(|link| !link.is_empty()).or(id)?;
        let base = match self.base.is_empty() {
            true => base,
            false => &self.base,
        };
        let address = match url::Url::parse(base).map(|base| base.join(address)) {
            Ok(Ok(address)) => address.into(),
            _ => address.to_owned(),
        };
        let (published, updated) = (Date::parse(&self.published), Date::parse(&self.updated));
        Some(ListedPage {
            address,
            modified: updated.clone(),
            published: published.or(updated),
            variants: vec![],
        })
    }
}

/// Reads RSS or Atom.
pub fn in_xml(text: &str, max_addresses: usize) -> Result<PageList, String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut list = PageList {
        is_feed: true,
        ..PageList::default()
    };
    let (mut feed, mut entry): (Entry, Option<Entry>) = Default::default();
    let mut open: Vec<String> = vec![];
    loop {
        let event = reader.read_event().map_err(|error| invalid(&error))?;
        match &event {
            Event::Start(element) => {
                let name = element.local_name().into_inner().to_owned();
                if matches!(name.as_str(), "image" | "textInput" | "source" | "content") {
                    let end = element.to_end().into_owned();
                    reader
                        .read_to_end(end.name())
                        .map_err(|error| invalid(&error))?;
                    continue;
                }
                if matches!(name.as_str(), "item" | "entry") && entry.is_none() {
                    entry = Some(Entry {
                        id: attribute(element, "about").unwrap_or_default(),
                        ..Entry::default()
                    });
                }
                let is_feed = entry.is_none();
                let into = entry.as_mut().unwrap_or(&mut feed);
                if let Some(base) = attribute(element, "base")
                    && matches!(name.as_str(), "feed" | "entry" | "rss")
                {
                    into.base = base;
                }
                if name == "guid" {
                    into.is_opaque =
                        attribute(element, "isPermaLink").is_some_and(|is| is == "false");
                }
                if let Some(href) = attribute(element, "href").filter(|_| name == "link") {
                    match attribute(element, "rel").as_deref() {
                        None | Some("alternate") if into.link.is_empty() => into.link = href,
                        Some("next" | "prev-archive") if is_feed => list.lists.push(href),
                        _ => {}
                    }
                }
                open.push(name);
            }
            Event::End(_) => {
                let closed = open.pop();
                if !matches!(closed.as_deref(), Some("item" | "entry")) {
                    continue;
                }
                let page = entry.take().and_then(|entry| entry.page(&feed.base));
                list.pages.extend(page);
                if list.pages.len() >= max_addresses {
                    break;
                }
            }
            Event::Eof => break,
            event => {
                let (Some(name), Some(piece)) = (open.last(), text_of(event)) else {
                    continue;
                };
                // <link> of the image, the author and the like
                let is_own = match entry {
                    Some(_) => {
                        open.len() >= 2 && matches!(open[open.len() - 2].as_str(), "item" | "entry")
                    }
                    None => open.len() <= 3,
                };
                let into = entry.as_mut().unwrap_or(&mut feed);
                let field = match name.as_str() {
                    _ if !is_own => continue,
                    "link" => &mut into.link,
                    "origLink" => &mut into.original,
                    "guid" | "id" => &mut into.id,
                    "pubDate" | "published" | "date" | "issued" => &mut into.published,
                    "updated" | "modified" => &mut into.updated,
                    _ => continue,
                };
                field.push_str(&piece);
            }
        }
    }
    let home = feed.link.trim();
    list.home = (!home.is_empty()).then(|| home.to_owned());
    Ok(list)
}

/// Reads a JSON Feed.
pub fn in_json(text: &str, max_addresses: usize) -> Result<PageList, String> {
    let json: Value = serde_json::from_str(text).map_err(|_| "it is not a feed")?;
    let items = json
        .get("items")
        .and_then(Value::as_array)
        .ok_or("it is not a feed")?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let date = |value: &Value, key: &str| text(value, key).as_deref().and_then(Date::parse);
    let pages = items.iter().filter_map(|item| {
        let modified = date(item, "date_modified");
        Some(ListedPage {
            address: text(item, "url")?,
            published: date(item, "date_published").or_else(|| modified.clone()),
            modified,
            variants: vec![],
        })
    });
    Ok(PageList {
        pages: pages.take(max_addresses).collect(),
        lists: text(&json, "next_url").into_iter().collect(),
        is_feed: true,
        home: text(&json, "home_page_url"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(list: &PageList) -> Vec<(&str, Option<&str>)> {
        let pages = list.pages.iter();
        pages
            .map(|page| {
                let date = page.published.as_ref().map(|date| date.text.as_str());
                (page.address.as_str(), date)
            })
            .collect()
    }

    #[test]
    fn rss_names_pages() {
        let feed = "<rss version='2.0'><channel><title>T</title><link>https://a.example/blog/</link>
            <image><link>https://a.example/logo</link></image>
            <item><title>1</title><link> https://a.example/1?a=1&amp;b </link>
              <pubDate>Sat, 31 Jan 2026 01:00:00 GMT</pubDate><guid isPermaLink='false'>7</guid></item>
            <item><guid>https://a.example/2</guid><dc:date>2026-01-30</dc:date></item>
            <item><link/><guid isPermaLink='false'>https://a.example/no</guid></item>
            <item><link>https://feeds.example/~r/4</link>
              <feedburner:origLink>https://a.example/4</feedburner:origLink></item>
            <item><title>only words</title></item>
            <item><link><![CDATA[
              /3
            ]]></link><pubDate>Wed, 11 Sep 2019 22:52:30+5:30</pubDate><author><link>https://b.example</link></author></item>
            </channel></rss>";
        let list = in_xml(feed, 10).unwrap();
        assert_eq!(
            pages(&list),
            [
                ("https://a.example/1?a=1&b", Some("2026-01-31T01:00:00Z")),
                ("https://a.example/2", Some("2026-01-30")),
                ("https://a.example/4", None),
                ("/3", None),
            ]
        );
        assert_eq!(list.home.as_deref(), Some("https://a.example/blog/"));
        assert!(list.is_feed && list.pages[0].modified.is_none());
        assert_eq!(in_xml(feed, 1).unwrap().pages.len(), 1);
    }

    #[test]
    fn atom_names_pages() {
        let feed = "<feed xmlns='http://www.w3.org/2005/Atom' xml:base='https://a.example/x/'>
            <link rel='self' href='/feed'/><link href='/'/><link rel='next' href='/feed?page=2'/>
            <entry><link rel='enclosure' href='/a.mp3'/><link rel='alternate' href='a'/>
              <id>tag:a.example,2026:1</id><published>2026-01-01T00:00:00Z</published>
              <updated>2026-01-02T00:00:00Z</updated><content type='html'>&lt;p></content></entry>
            <entry><id>https://a.example/b</id><updated>2026-01-03T00:00:00Z</updated>
              <author><name>x</name><uri>https://c.example</uri></author></entry>
            <entry><id>urn:uuid:1</id></entry></feed>";
        let list = in_xml(feed, 10).unwrap();
        assert_eq!(
            pages(&list),
            [
                ("https://a.example/x/a", Some("2026-01-01T00:00:00Z")),
                ("https://a.example/b", Some("2026-01-03T00:00:00Z")),
            ]
        );
        assert_eq!(
            list.pages[0].modified.as_ref().unwrap().text,
            "2026-01-02T00:00:00Z"
        );
        assert_eq!(list.lists, ["/feed?page=2"]);
        assert_eq!(list.home.as_deref(), Some("/"));
    }

    #[test]
    fn rdf_and_json_name_pages() {
        let rdf = "<rdf:RDF xmlns:rdf='x'><channel rdf:about='https://a.example/'><link>https://a.example/</link>
            </channel><item rdf:about='https://a.example/1'><dc:date>2026-01-01</dc:date></item></rdf:RDF>";
        assert_eq!(
            pages(&in_xml(rdf, 9).unwrap()),
            [("https://a.example/1", Some("2026-01-01"))]
        );
        let json = r#"{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "https://a.example",
            "next_url": "/2.json", "items": [{"id": "1", "url": "https://a.example/1",
            "date_published": "2026-01-01T00:00:00+01:00"}, {"id": "2"}, 3]}"#;
        let list = in_json(json, 9).unwrap();
        assert_eq!(
            pages(&list),
            [("https://a.example/1", Some("2025-12-31T23:00:00Z"))]
        );
        assert_eq!(list.lists, ["/2.json"]);
    }
}
