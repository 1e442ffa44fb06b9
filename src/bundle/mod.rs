//! Export and import of collections as bundles (`crates/bundle`).
//!
//! ```text
//! rows of the catalog ──▶ CollectionExport: blocks of files ──┬▶ a folder of the server
//!                                                             └▶ rows for COPY
//! a folder of the server ──┬▶ BundleSource: files ──▶ import ──▶ rows of the catalog
//! rows of a table ─────────┘
//! ```
//!
//! **Rights.** Only the owner of a collection exports it, and only if no policy hides a document
//! from the caller. The rows are read with the rights of the extension's owner then. Files need the
//! roles of PostgreSQL for files of the server, and a folder in `rag.bundle_folders`. A table is
//! read with the caller's rights. What is imported belongs to the caller.
//!
//! | file | contents |
//! |---|---|
//! | [`export`], [`import`] | the files of a bundle from rows, and rows from them |
//! | [`folder`], [`blocks`] | bundles in folders of the server, and in rows of a table |
//! | [`info`] | what a bundle is of |
//! | [`rename`] | ids under another name |
//! | [`retriever`] | the retriever of a bundle |
//! | [`rows`] | the statements that read and write rows as bundles have them |

mod blocks;
mod export;
mod folder;
mod import;
mod info;
mod rename;
mod retriever;
mod rows;

use std::io::Read;

use rag_bundle::{BundleError, BundleErrorKind, BundleFile};

pub use self::{
    blocks::BlockTable,
    export::{CollectionExport, Exported},
    folder::{export_to_folder, open_folder},
    import::{ImportRequest, import},
    info::{BundleInfo, read_info},
};
use crate::{
    catalog::collections::Collection,
    cluster::operation_stats::{CountedOperation, Operation},
    error::Error,
};

/// Counts an export, or a part of it, by a caller that owns the collection.
pub fn count_export(collection: &Collection) -> CountedOperation {
    CountedOperation::begin(Operation::Export, collection.name.as_str(), 1)
}

/// Where the files of a bundle are read from.
pub trait BundleSource {
    /// Opens a file.
    ///
    /// # Errors
    /// It is missing or cannot be read.
    fn open(&self, file: BundleFile) -> Result<Box<dyn Read>, Error>;
}

impl From<BundleError> for Error {
    fn from(error: BundleError) -> Self {
        use pgrx::PgSqlErrorCode as Code;
        let (code, hint) = match error.kind {
            BundleErrorKind::Invalid => (
                Code::ERRCODE_BAD_COPY_FILE_FORMAT,
                Some("The bundle is damaged or was changed. Export the collection again."),
            ),
            BundleErrorKind::OtherVersion => (
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                Some(
                    "Import it with the version that wrote it, or fill a new collection from its \
                     sources.",
                ),
            ),
            BundleErrorKind::NotFound => (Code::ERRCODE_UNDEFINED_FILE, None),
            BundleErrorKind::Exists => (
                Code::ERRCODE_DUPLICATE_FILE,
                Some("Choose a path that does not exist."),
            ),
            BundleErrorKind::WrongFileType => (
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                Some("Symbolic links and special files are not followed."),
            ),
            BundleErrorKind::PermissionDenied => (
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                Some(
                    "The operating system user that runs PostgreSQL needs permission for the \
                     folder.",
                ),
            ),
            BundleErrorKind::DiskFull => (
                Code::ERRCODE_DISK_FULL,
                Some("Free disk space and try again."),
            ),
            BundleErrorKind::InvalidPath => (Code::ERRCODE_INVALID_PARAMETER_VALUE, None),
            BundleErrorKind::NotAllowed => (
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                Some("A superuser can allow folders: setting rag.bundle_folders."),
            ),
            BundleErrorKind::Io => (Code::ERRCODE_IO_ERROR, None),
        };
        let mut converted = Self::new(code, error.message);
        if let Some(detail) = error.detail {
            converted = converted.detail(detail);
        }
        match hint {
            Some(hint) => converted.hint(hint),
            None => converted,
        }
    }
}
