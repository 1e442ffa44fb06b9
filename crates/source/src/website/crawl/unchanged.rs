//! Pages that are not fetched again, because the sitemap says that they have not changed since.
//!
//! Sitemaps lie: many have the time of the last build for all pages, and many a time that never
//! changes. The first kind costs only requests. Against the second one:
//!
//! * Each page is fetched at least once a week ([`MAX_AGE`]). If more than a tenth of the pages are
//!   that old, all are fetched.
//! * A page that has changed although its `lastmod` is older than the last fetch is noted as
//!   *stale* and always fetched, until it changes with a new `lastmod`.
//! * If more than a tenth of the pages are stale, no `lastmod` of the site counts.
//! * A page that changed less than an hour before it was fetched may have come from a cache
//!   ([`MARGIN`]). A day without a time ends in the last time zone.
//!
//! The links of a page that is not fetched are those of its last version. So stored documents that
//! nothing else leads to are visited at the end, and are only removed if they are gone.

use std::{
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Map;
use url::Url;

use super::Crawl;
use crate::website::{
    found::{FoundPage, PageVersion},
    list::ListedPage,
};

/// The longest time between two fetches of a page, in seconds.
const MAX_AGE: i64 = 7 * 24 * 3600;
/// The time by which a change must be older than the last fetch, in seconds.
const MARGIN: i64 = 3600;
/// At most one page in this number may be stale, or old.
const SHARE: usize = 10;

/// What is known of the times of changes.
pub(super) struct LastChanges {
    /// In seconds since 1970.
    now: i64,
    /// The sitemap has times.
    has_times: bool,
    /// These times count.
    are_trusted: bool,
    /// A page was not fetched whose links would be followed.
    pub has_unread_links: bool,
}

impl LastChanges {
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            now: since.map_or(0, |since| {
                i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
            }),
            has_times: false,
            are_trusted: false,
            has_unread_links: false,
        }
    }

    /// Decides whether the times of a sitemap count.
    pub fn judge(
        &mut self,
        listed: &HashMap<String, ListedPage>,
        known: &HashMap<String, PageVersion>,
    ) {
        self.has_times = listed.values().any(|page| page.modified.is_some());
        let timed = |(uri, version): &(&String, &PageVersion)| {
            version.fetched.is_some()
                && listed.get(*uri).is_some_and(|page| page.modified.is_some())
        };
        let timed: Vec<&PageVersion> = known
            .iter()
            .filter(timed)
            .map(|(_, version)| version)
            .collect();
        let few = |number: usize| number * SHARE <= timed.len();
        let stale = timed.iter().filter(|version| version.is_stale);
        let old = timed.iter().filter(|version| !self.is_recent(version));
        self.are_trusted = !timed.is_empty() && few(stale.count()) && few(old.count());
    }

    /// Returns true if a page was fetched within a week.
    fn is_recent(&self, version: &PageVersion) -> bool {
        version
            .fetched
            .is_some_and(|fetched| (0..MAX_AGE).contains(&self.now.saturating_sub(fetched)))
    }
}

impl Crawl<'_> {
    /// Returns true if a page need not be fetched.
    pub(super) fn is_unchanged(&mut self, url: &Url, depth: u32) -> bool {
        let stored = self.website.known.get(url.as_str());
        let is_unchanged = self.changes.are_trusted
            && stored.is_some_and(|stored| {
                !stored.is_stale
                    && stored.text.is_some()
                    && self.changes.is_recent(stored)
                    && self.claims_same(url, stored)
            });
        self.changes.has_unread_links |= is_unchanged && !self.is_leaf(depth);
        is_unchanged
    }

    /// Returns true if the sitemap says that a page has not changed since it was fetched.
    fn claims_same(&self, url: &Url, stored: &PageVersion) -> bool {
        let listed = self.listed.get(url.as_str());
        let changed = listed.and_then(|page| page.modified.as_ref());
        let times = changed.zip(stored.fetched);
        // a time in the future says nothing
        times.is_some_and(|(changed, fetched)| {
            changed.latest <= self.changes.now && changed.latest + MARGIN <= fetched
        })
    }

    /// Adds a stored document whose page was not fetched.
    pub(super) fn keep_stored(&mut self, uri: Url, depth: u32) {
        let mut version = self.stored_version(&uri);
        self.note_depth(&mut version, depth);
        self.add(FoundPage {
            uri,
            is_known: true,
            is_canonical: false,
            file: None,
            size: 0,
            version,
            media_type: None,
            metadata: Map::new(),
            aliases: vec![],
        });
    }

    /// Adds a stored document whose page is the same.
    pub(super) fn confirm_stored(&mut self, uri: Url, depth: u32) {
        let mut version = self.stored_version(&uri);
        self.note_fetch(&uri, &mut version, depth);
        self.add(FoundPage {
            uri,
            is_known: true,
            is_canonical: false,
            file: None,
            size: 0,
            version,
            media_type: None,
            metadata: Map::new(),
            aliases: vec![],
        });
    }

    fn stored_version(&self, uri: &Url) -> PageVersion {
        let stored = self.website.known.get(uri.as_str());
        stored.cloned().unwrap_or_default()
    }

    /// Notes in the version of a page that was fetched now what later runs compare.
    pub(super) fn note_fetch(&self, uri: &Url, version: &mut PageVersion, depth: u32) {
        self.note_depth(version, depth);
        let listed = self.listed.get(uri.as_str());
        version.entry = listed
            .and_then(|page| page.published.as_ref())
            .map(|date| date.latest)
            .or_else(|| self.website.known.get(uri.as_str())?.entry);
        version.fetched = listed
            .and_then(|page| page.modified.as_ref())
            .map(|_| self.changes.now);
        version.is_stale = match self.website.known.get(uri.as_str()) {
            Some(stored) if stored.fetched.is_some() && version.fetched.is_some() => {
                let has_changed = stored.text != version.text;
                match self.claims_same(uri, stored) {
                    true => has_changed || stored.is_stale,
                    false => stored.is_stale && !has_changed,
                }
            }
            _ => false,
        };
    }

    /// Notes how far a page is from a first page, if a later run may not fetch those before it.
    fn note_depth(&self, version: &mut PageVersion, depth: u32) {
        version.depth = self.changes.has_times.then_some(depth);
    }
}
