//! Numbers of the files that a run skipped, by what they are.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The files of a source that are no documents. Each file is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFiles {
    pub lfs_pointers: u64,
    pub submodules: u64,
    pub symbolic_links: u64,
    /// Files that hold keys or passwords.
    pub keys: u64,
    /// Devices, pipes and sockets.
    pub devices: u64,
    /// Images, archives, empty and binary files, pages that are not to be indexed.
    pub others: u64,
}

impl SkippedFiles {
    /// Returns the numbers for one file that is none of the kinds with a name.
    pub fn other() -> Self {
        Self {
            others: 1,
            ..Self::default()
        }
    }

    pub fn total(&self) -> u64 {
        let kinds = self.named().map(|(number, ..)| number);
        kinds.iter().sum::<u64>() + self.others
    }

    /// Returns a text such as "3 pointers of Git LFS, 1 submodule", or `None` if all are others.
    pub fn described(&self) -> Option<String> {
        let named: Vec<String> = self
            .named()
            .into_iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, one, several)| {
                let noun = if number == 1 { one } else { several };
                format!("{number} {noun}")
            })
            .collect();
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
    }
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
}
