//! Sitemaps (sitemaps.org): lists of pages, and lists of such lists, plain or compressed.

use std::{borrow::Cow, io::Read};

use flate2::read::MultiGzDecoder;
use quick_xml::{Reader, events::Event};

/// The contents of a sitemap.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    pub pages: Vec<String>,
    pub sitemaps: Vec<String>,
}

/// Reads a sitemap of at most `max_bytes` bytes after decompression, up to `max_addresses`
/// addresses.
///
/// # Errors
/// Says why it is not a valid sitemap.
pub fn read(bytes: &[u8], max_bytes: u64, max_addresses: usize) -> Result<Sitemap, String> {
    let xml = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = vec![];
        let read = MultiGzDecoder::new(bytes)
            .take(max_bytes.saturating_add(1))
            .read_to_end(&mut plain);
        read.map_err(|error| format!("the compressed sitemap is corrupted: {error}"))?;
        if plain.len() as u64 > max_bytes {
            return Err(format!("the sitemap has more than {max_bytes} bytes"));
        }
        Cow::Owned(plain)
    } else {
        Cow::Borrowed(bytes)
    };
    let text = String::from_utf8_lossy(&xml);
    let mut reader = Reader::from_str(&text);
    let mut sitemap = Sitemap::default();
    let (mut root, mut inside, mut address) = (None, false, String::new());
    loop {
        match reader
            .read_event()
            .map_err(|error| format!("the sitemap is not valid XML: {error}"))?
        {
            Event::Start(tag) => {
                let name = tag.local_name().as_ref().to_owned();
                let is_index = *root.get_or_insert_with(|| name.clone()) == "sitemapindex";
                if !is_index && root.as_deref() != Some("urlset") {
                    return Err("it is not a sitemap".into());
                }
                inside = name == "loc";
                address.clear();
            }
            Event::Text(text) if inside => address.push_str(&text),
            Event::CData(text) if inside => address.push_str(&text),
            Event::GeneralRef(reference) if inside => match &*reference {
                "amp" => address.push('&'),
                "lt" => address.push('<'),
                "gt" => address.push('>'),
                "quot" => address.push('"'),
                "apos" => address.push('\''),
                _ => address.extend(reference.resolve_char_ref().ok().flatten()),
            },
            Event::End(_) if inside => {
                inside = false;
                let list = if root.as_deref() == Some("sitemapindex") {
                    &mut sitemap.sitemaps
                } else {
                    &mut sitemap.pages
                };
                list.push(address.trim().to_owned());
                if list.len() >= max_addresses {
                    return Ok(sitemap);
                }
            }
            Event::Eof if root.is_none() => return Err("it is not a sitemap".into()),
            Event::Eof => return Ok(sitemap),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const PAGES: &str =
        "<?xml version='1.0'?>\n<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>
        <url><loc> https://a.example/?a=1&amp;b=&#50; </loc><lastmod>2026-01-01</lastmod></url>
        <url><loc><![CDATA[https://a.example/c&d]]></loc></url></urlset>";

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn pages_are_listed_plain_and_compressed() {
        let expected = ["https://a.example/?a=1&b=2", "https://a.example/c&d"];
        assert_eq!(read(PAGES.as_bytes(), 1000, 10).unwrap().pages, expected);
        assert_eq!(read(&gzip(PAGES), 1000, 10).unwrap().pages, expected);
        assert_eq!(
            read(PAGES.as_bytes(), 1000, 1).unwrap().pages,
            expected[..1]
        );
    }

    #[test]
    fn an_index_lists_sitemaps() {
        let index = "<s:sitemapindex xmlns:s='x'><s:sitemap><s:loc>https://a.example/1.xml</s:loc></s:sitemap></s:sitemapindex>";
        let sitemap = read(index.as_bytes(), 1000, 10).unwrap();
        assert_eq!(
            (sitemap.sitemaps, sitemap.pages),
            (vec!["https://a.example/1.xml".to_owned()], vec![])
        );
    }

    #[test]
    fn other_files_are_refused() {
        let bomb = gzip(&" ".repeat(100_000));
        for (bytes, expected) in [
            (&b""[..], "it is not a sitemap"),
            (
                b"<html><body>Not found</body></html>",
                "it is not a sitemap",
            ),
            (
                b"<urlset><url></loc></urlset>",
                "the sitemap is not valid XML",
            ),
            (&bomb, "the sitemap has more than 1000 bytes"),
            (&gzip(PAGES)[..40], "the compressed sitemap is corrupted"),
        ] {
            let error = read(bytes, 1000, 10).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
