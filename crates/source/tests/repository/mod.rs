//! A repository for the tests of git sources.

use std::{fs, path::Path};

use git2::{Oid, Repository, RepositoryInitOptions, Signature};
use rag_definition::source::{GitSpec, PathFilter, Repository as Named};
use rag_source::Listing;
use tempfile::TempDir;

/// A repository in a folder, whose branch is main.
pub struct Made {
    pub folder: TempDir,
    pub repository: Repository,
}

impl Made {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = &mut RepositoryInitOptions::new();
        let repository =
            Repository::init_opts(folder.path(), options.initial_head("main")).unwrap();
        Self { folder, repository }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, file: &str, bytes: &[u8]) -> &Self {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    /// Commits everything in the folder to the branch that is checked out.
    pub fn commit(&self) -> Oid {
        let mut index = self.repository.index().unwrap();
        index
            .add_all(["*"], git2::IndexAddOption::DEFAULT, None)
            .unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = self
            .repository
            .find_tree(index.write_tree().unwrap())
            .unwrap();
        let parent = self
            .repository
            .head()
            .ok()
            .map(|head| head.peel_to_commit().unwrap());
        let author = Signature::now("Tester", "tester@example.org").unwrap();
        let parents: Vec<_> = parent.iter().collect();
        self.repository
            .commit(Some("HEAD"), &author, &author, "change", &tree, &parents)
            .unwrap()
    }

    pub fn spec(&self) -> GitSpec {
        GitSpec {
            repository: Named::Local(self.path().into()),
            branch: "main".into(),
            commit: None,
            filter: PathFilter::default(),
            lfs: true,
            submodules: false,
        }
    }
}

pub fn names(listing: &Listing) -> Vec<&str> {
    listing
        .items
        .iter()
        .map(|item| item.name.as_str())
        .collect()
}
