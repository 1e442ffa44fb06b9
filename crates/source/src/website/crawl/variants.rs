//! Pages in several languages: which of the variants that a page names (`hreflang`) is indexed.
//!
//! A variant is left out only if the one in its place is there. What a page calls a variant in
//! another language is then not fetched at all.

use std::collections::HashSet;

use rag_definition::source::Languages;
use rag_protocol::EngineError;
use url::Url;

use super::{Crawl, MAX_ADDRESSES};
use crate::{
    http::MAX_REDIRECTS,
    website::{
        address::normalized,
        language::{is_of, primary},
        page::Page,
        site::path,
    },
};

/// What the pages of a site have said of their languages.
#[derive(Default)]
pub(super) struct Variants {
    /// The tag of the first page's language.
    first: Option<String>,
    /// Addresses of variants of indexed pages in other languages.
    unwanted: HashSet<String>,
}

impl Variants {
    pub fn begin_with(&mut self, first: &Page, url: &Url) {
        if self.first.is_none() {
            self.first = own_tag(first, url);
        }
    }

    pub fn is_unwanted(&self, url: &Url) -> bool {
        self.unwanted.contains(url.as_str())
    }
}

/// Returns the tag of a page's language: the one by which it names itself, or which it declares.
fn own_tag(page: &Page, url: &Url) -> Option<String> {
    let variants = page.variants.iter();
    let own = variants
        .filter(|(tag, address)| tag != X_DEFAULT && normalized(address.clone()) == *url)
        .map(|(tag, _)| tag);
    let own: Vec<&String> = own.collect();
    // one address for several regions
    match own.as_slice() {
        [own] => Some((*own).clone()),
        _ => page
            .language
            .clone()
            .or_else(|| own.first().map(|tag| (*tag).clone())),
    }
}

const X_DEFAULT: &str = "x-default";

impl Crawl<'_> {
    /// Returns true if a page is not indexed, because of its language. Visits the variant that is
    /// indexed in its place.
    pub(super) fn is_other_variant(
        &mut self,
        page: &Page,
        url: &Url,
        depth: u32,
        redirects: usize,
    ) -> Result<bool, EngineError> {
        let Some(own) = own_tag(page, url) else {
            return Ok(false);
        };
        match self.website.spec.languages.clone() {
            Languages::All => Ok(false),
            Languages::Only(wanted) => {
                let is_wanted = |tag: &str| wanted.iter().any(|it| is_of(tag, it));
                self.note_variants(page, url, is_wanted);
                if is_wanted(&own) {
                    return Ok(false);
                }
                for (_, address) in page.variants.iter().filter(|(tag, _)| is_wanted(tag)) {
                    self.enqueue(address.clone(), depth);
                }
                Ok(true)
            }
            Languages::OfFirstPage => {
                let Some(first) = self.variants.first.clone() else {
                    return Ok(false);
                };
                let same = |tag: &str| primary(tag) == primary(&first);
                let exact = |tag: &str| tag == first;
                let variant = page.variants.iter().find(|(tag, _)| exact(tag));
                let is_wanted = match variant {
                    Some(_) => exact(&own),
                    None => same(&own),
                };
                if is_wanted {
                    self.note_variants(page, url, same);
                    return Ok(false);
                }
                let variant = variant.or_else(|| page.variants.iter().find(|(tag, _)| same(tag)));
                match variant {
                    Some((_, variant)) => {
                        self.is_there(&normalized(variant.clone()), url, depth, redirects)
                    }
                    None => Ok(false),
                }
            }
        }
    }

    /// Returns true if the variant of a page is indexed, after a visit.
    fn is_there(
        &mut self,
        variant: &Url,
        url: &Url,
        depth: u32,
        redirects: usize,
    ) -> Result<bool, EngineError> {
        let is_candidate = variant != url
            && redirects < MAX_REDIRECTS
            && self.has(variant)
            && self.website.filter.selects(&path(variant));
        if !is_candidate {
            return Ok(false);
        }
        // a page that two name in each other's place is not visited without an end
        self.seen.insert(variant.as_str().into());
        self.visit(variant, depth, redirects + 1)?;
        Ok(self.found.has(variant))
    }

    /// Keeps the addresses of a page in other languages, which need not be fetched.
    fn note_variants(&mut self, page: &Page, url: &Url, is_wanted: impl Fn(&str) -> bool) {
        let wanted: HashSet<Url> = page
            .variants
            .iter()
            .filter(|(tag, _)| tag == X_DEFAULT || is_wanted(tag))
            .map(|(_, address)| normalized(address.clone()))
            .collect();
        for (_, address) in &page.variants {
            let address = normalized(address.clone());
            let is_new = address != *url && !wanted.contains(&address);
            if is_new && self.variants.unwanted.len() < MAX_ADDRESSES {
                self.variants.unwanted.insert(address.into());
            }
        }
    }
}
