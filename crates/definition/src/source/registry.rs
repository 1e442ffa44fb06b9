//! The registry of source kinds.

/// Passes the registry of source kinds to the macro `$macro`.
///
/// A line reads `module::Spec as Variant`. The kind's spec is `source/module.rs` of this crate, its
/// reader is `src/module.rs` of the crate `rag-source`, and `Variant` is its name in
/// [`SourceSpec`](crate::source::SourceSpec). Both files become modules by this line alone. Lists
/// in messages are in the order of the lines.
#[macro_export]
macro_rules! source_kinds {
    ($macro:ident) => {
        $macro! {
            git::GitSpec as Git;
            static_files::StaticSpec as Static;
            website::WebsiteSpec as Website;
            folder::FolderSpec as Folder;
            markdown::MarkdownSpec as Markdown;
            table::TableSpec as Table;
            s3::S3Spec as S3;
            azblob::AzblobSpec as Azblob;
            gcs::GcsSpec as Gcs;
        }
    };
}
