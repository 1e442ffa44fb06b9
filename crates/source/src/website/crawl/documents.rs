//! Pages that become documents.

use std::fs;

use rag_protocol::{EngineError, skipped::SkippedPage};
use serde_json::Map;
use url::Url;

use super::{Crawl, page};
use crate::{
    fetcher::Resource,
    website::{
        address::normalized,
        found::{FoundPage, PageVersion},
        page::Page,
        site::path,
        text::TextHash,
        unwritable,
    },
};

/// The metadata key with the date of a feed's entry.
pub const PUBLISHED: &str = "published";

impl Crawl<'_> {
    pub(super) fn take_page(
        &mut self,
        resource: Resource,
        page: Page,
        url: &Url,
        depth: u32,
        redirects: usize,
    ) -> Result<(), EngineError> {
        let is_other_variant = self.is_other_variant(&page, url, depth, redirects)?;
        // the first page may be in another language than those that are wanted
        if !self.is_leaf(depth) && !page.nofollow && (!is_other_variant || depth == 0) {
            for link in page.links {
                self.enqueue(link, depth + 1);
            }
        }
        if is_other_variant {
            self.skip_page(SkippedPage::OtherLanguage);
            return Ok(());
        }
        let canonical = page.canonical.map(normalized).filter(|canonical| {
            self.has(canonical) && self.website.filter.selects(&path(canonical))
        });
        let (uri, is_canonical) = match canonical {
            Some(canonical) if self.allows(&canonical) => (canonical, true),
            _ => (url.clone(), false),
        };
        let skipped = if page.noindex {
            Some(SkippedPage::NotIndexed)
        } else if !self.website.filter.selects(&path(&uri)) {
            Some(SkippedPage::Unselected)
        } else if self.found.has(&uri) {
            Some(SkippedPage::OtherAddress)
        } else {
            None
        };
        if let Some(why) = skipped {
            self.skip_page(why);
            return Ok(());
        }
        self.seen.insert(uri.as_str().into());
        let mut found = FoundPage {
            is_known: self.website.known.contains_key(uri.as_str()),
            uri,
            is_canonical,
            file: None,
            size: 0,
            version: PageVersion::default(),
            media_type: None,
            metadata: Map::new(),
            aliases: vec![],
        };
        self.keep(resource, page.text, &mut found, depth)?;
        self.add(found);
        Ok(())
    }

    /// Keeps the content of a page on disk.
    fn keep(
        &mut self,
        resource: Resource,
        text: Option<TextHash>,
        page: &mut FoundPage,
        depth: u32,
    ) -> Result<(), EngineError> {
        let file = self.website.folder.join(self.files.to_string());
        fs::write(&file, &resource.bytes).map_err(|error| unwritable(&file, &error))?;
        self.files += 1;
        page.file = Some(file);
        page.size = resource.bytes.len() as u64;
        page.version.response = resource.validator;
        page.version.text = text;
        self.note_fetch(&page.uri, &mut page.version, depth);
        page.media_type = resource.media_type;
        if let Some(time) = resource.last_modified {
            page.metadata.insert("last_modified".into(), time.into());
        }
        let listed = self.listed.get(page.uri.as_str());
        if let Some(date) = listed.and_then(|listed| listed.published.as_ref()) {
            page.metadata
                .insert(PUBLISHED.into(), date.text.clone().into());
        }
        Ok(())
    }

    pub(super) fn add(&mut self, page: FoundPage) {
        if !self.found.add(page) {
            self.skip_page(SkippedPage::OtherAddress);
        }
    }

    /// Fetches a page that was not sent again, if it has got other aliases: its metadata has them.
    /// If this fails, the next run tries again.
    pub(super) fn renew(&mut self, page: &mut FoundPage) -> Result<(), EngineError> {
        let stored = self.website.known.get(page.uri.as_str());
        let has_same = stored.is_some_and(|stored| stored.aliases == page.version.aliases);
        if page.file.is_some() || has_same {
            return Ok(());
        }
        // as a page whose links are followed, without conditions
        let fetched = self.get_again(&page.uri).filter(|resource| {
            resource.is_accepted && normalized(resource.url.clone()) == page.uri
        });
        match fetched {
            Some(resource) => {
                let text = self::page(&resource).text;
                let depth = page.version.depth.unwrap_or_default();
                self.keep(resource, text, page, depth)
            }
            None => {
                page.version = stored.cloned().unwrap_or_default();
                Ok(())
            }
        }
    }
}
