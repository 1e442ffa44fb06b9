//! Numbers of the files that a run skipped, by what they are.

use std::{cmp::Reverse, collections::BTreeMap, ops::AddAssign};

use serde::{Deserialize, Serialize};

/// The maximum length of an extension in bytes. What follows a dot of a longer one is a name.
const MAX_EXTENSION: usize = 10;
/// The maximum number of extensions that are counted, and that a note names.
const MAX_COUNTED: usize = 1000;
const MAX_NAMED: usize = 12;

/// The files of a source that are no documents. Each file is counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFiles {
    pub lfs_pointers: u64,
    pub submodules: u64,
    pub symbolic_links: u64,
    /// Files that hold keys or passwords.
    pub keys: u64,
    /// Devices, pipes and sockets.
    pub devices: u64,
    /// Images, archives, empty and binary files.
    pub others: u64,
    /// How many of the others have each extension, in lower case without its dot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, u64>,
    /// Addresses of a website that are no documents, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pages: BTreeMap<SkippedPage, u64>,
}

/// Why an address of a website is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkippedPage {
    /// robots.txt does not allow it.
    Forbidden,
    /// The page asks not to be indexed.
    NotIndexed,
    /// 404, 410, or no content.
    Missing,
    /// Neither HTML nor text nor PDF.
    OtherType,
    /// A document has its address or its text.
    OtherAddress,
    /// A redirect leads to another site.
    OtherSite,
    OtherLanguage,
    /// The patterns do not select the address that it redirects to or calls its own.
    Unselected,
    /// The crawl has reached a limit before.
    Unvisited,
}

impl SkippedPage {
    /// Returns what such an address is called, in the singular and in the plural.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Forbidden => (
                "page that robots.txt forbids",
                "pages that robots.txt forbids",
            ),
            Self::NotIndexed => ("page with noindex", "pages with noindex"),
            Self::Missing => ("missing page", "missing pages"),
            Self::OtherType => ("page of another type", "pages of other types"),
            Self::OtherAddress => ("other address of a page", "other addresses of pages"),
            Self::OtherSite => ("redirect to another site", "redirects to other sites"),
            Self::OtherLanguage => ("page in another language", "pages in other languages"),
            Self::Unselected => (
                "page whose address is left out",
                "pages whose addresses are left out",
            ),
            Self::Unvisited => ("page beyond maxPages", "pages beyond maxPages"),
        }
    }
}

impl SkippedFiles {
    /// Returns the numbers for one file that is none of the kinds with a name. `name` is its name,
    /// path or address.
    pub fn other(name: &str) -> Self {
        let extension = extension(name).map(|extension| (extension, 1));
        Self {
            others: 1,
            extensions: extension.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn total(&self) -> u64 {
        let kinds = self.named().map(|(number, ..)| number);
        kinds.iter().sum::<u64>() + self.others + self.pages.values().sum::<u64>()
    }

    /// Counts an address of a website.
    pub fn add_page(&mut self, why: SkippedPage, number: u64) {
        if number > 0 {
            *self.pages.entry(why).or_default() += number;
        }
    }

    /// Returns a text such as "3 pointers of Git LFS, 1 submodule, 12 .png", or `None` if all are
    /// files without a kind and an extension.
    pub fn described(&self) -> Option<String> {
        let mut named: Vec<String> = self
            .named()
            .into_iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, one, several)| {
                let noun = if number == 1 { one } else { several };
                format!("{number} {noun}")
            })
            .collect();
        named.extend(self.pages.iter().map(|(why, number)| {
            let (one, several) = why.names();
            format!("{number} {}", if *number == 1 { one } else { several })
        }));
        let mut extensions: Vec<(&String, &u64)> = self.extensions.iter().collect();
        extensions.sort_by_key(|(_, number)| Reverse(**number));
        let (first, rest) = extensions.split_at(extensions.len().min(MAX_NAMED));
        named.extend(
            first
                .iter()
                .map(|(extension, number)| format!("{number} .{extension}")),
        );
        if !rest.is_empty() {
            let number: u64 = rest.iter().map(|(_, number)| **number).sum();
            named.push(format!("{number} of other types"));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }

    /// Returns the number of each kind with its name in the singular and in the plural.
    fn named(&self) -> [(u64, &'static str, &'static str); 5] {
        [
            (
                self.lfs_pointers,
                "pointer of Git LFS",
                "pointers of Git LFS",
            ),
            (self.submodules, "submodule", "submodules"),
            (self.symbolic_links, "symbolic link", "symbolic links"),
            (
                self.keys,
                "file of keys or passwords",
                "files of keys or passwords",
            ),
            (
                self.devices,
                "device, pipe or socket",
                "devices, pipes or sockets",
            ),
        ]
    }
}

impl AddAssign for SkippedFiles {
    fn add_assign(&mut self, more: Self) {
        self.lfs_pointers += more.lfs_pointers;
        self.submodules += more.submodules;
        self.symbolic_links += more.symbolic_links;
        self.keys += more.keys;
        self.devices += more.devices;
        self.others += more.others;
        for (why, number) in more.pages {
            self.add_page(why, number);
        }
        for (extension, number) in more.extensions {
            if self.extensions.len() < MAX_COUNTED || self.extensions.contains_key(&extension) {
                *self.extensions.entry(extension).or_default() += number;
            }
        }
    }
}

/// Returns the extension of a file in lower case.
fn extension(name: &str) -> Option<String> {
    let path = name.split(['?', '#']).next()?;
    let file = path.rsplit(['/', '\\']).next()?;
    let (stem, extension) = file.rsplit_once('.')?;
    let is_extension = !stem.is_empty()
        && (1..=MAX_EXTENSION).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_extension.then(|| extension.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_named_with_its_number() {
        let mut skipped = SkippedFiles {
            others: 7,
            ..SkippedFiles::default()
        };
        assert_eq!(skipped.described(), None);
        skipped += SkippedFiles {
            lfs_pointers: 3,
            submodules: 1,
            symbolic_links: 5,
            ..SkippedFiles::default()
        };
        let text = "3 pointers of Git LFS, 1 submodule, 5 symbolic links";
        assert_eq!(skipped.described().as_deref(), Some(text));
        assert_eq!(skipped.total(), 16);
    }

    #[test]
    fn pages_are_named_by_the_reason() {
        let mut skipped = SkippedFiles::default();
        skipped.add_page(SkippedPage::Missing, 2);
        skipped.add_page(SkippedPage::Forbidden, 1);
        skipped.add_page(SkippedPage::Unvisited, 0);
        let text = "1 page that robots.txt forbids, 2 missing pages";
        assert_eq!(skipped.described().as_deref(), Some(text));
        assert_eq!(skipped.total(), 3);
        let json = serde_json::to_string(&skipped).unwrap();
        assert_eq!(
            serde_json::from_str::<SkippedFiles>(&json).unwrap(),
            skipped
        );
    }

    #[test]
    fn others_are_named_by_their_extensions() {
        let mut skipped = SkippedFiles::default();
        for name in [
            "a/b.PNG",
            "https://example.org/x.png?width=3",
            "talk.pptx",
            "c.png",
            ".hidden",
            "no-extension",
            "v1.2-final version",
            "a.b/c",
        ] {
            skipped += SkippedFiles::other(name);
        }
        assert_eq!(skipped.total(), 8);
        assert_eq!(skipped.described().as_deref(), Some("3 .png, 1 .pptx"));
        for n in 0..2000 {
            skipped += SkippedFiles::other(&format!("x.a{n}"));
        }
        assert_eq!(skipped.extensions.len(), MAX_COUNTED);
        let text = skipped.described().unwrap();
        assert!(text.starts_with("3 .png, 1 .a0, 1 .a1, "), "{text}");
        assert!(text.ends_with(" of other types"), "{text}");
        assert_eq!(skipped.total(), 2008);
    }
}
