//! Determines the type of a file from its name, its media type and its first bytes.
//!
//! The extensions and media types are in the table of [`crate::format`], those of source code in
//! [`crate::language`].
//!
//! A file is recognized by its extension, else by its first bytes. Something served over HTTP is
//! recognized by its extension too. But a page whose address ends in `.php`, `.png` or `.md` is a
//! page if it is served as `text/html`, and bytes that begin as a PDF are a PDF.

use rag_definition::DocumentType;

use crate::{
    compound::is_compound,
    feed,
    format::{FORMATS, Format, PICTURES},
    language, odf, package,
};

/// Extensions of files without text for people, or with text in a form that is not supported.
#[rustfmt::skip]
const NO_DOCUMENT: &[&str] = &[
    // images
    "ai", "avif", "bmp", "cr2", "dng", "eps", "gif", "heic", "heif", "icns", "ico", "jpe", "jpeg",
    "jpg", "jxl", "nef", "pbm", "pgm", "png", "pnm", "ppm", "psd", "svg", "svgz", "tga", "tif",
    "tiff", "webp", "xcf",
    // Sound and film.
    "3gp", "aac", "aif", "aiff", "amr", "avi", "flac", "flv", "m4a", "m4v", "mid", "midi", "mkv",
    "mov", "mp3", "mp4", "mpeg", "mpg", "oga", "ogg", "ogv", "opus", "wav", "webm", "wma", "wmv",
    // Archives, disk images and packages.
    "7z", "apk", "bz2", "cab", "cpio", "crate", "deb", "dmg", "ear", "egg", "gem", "gz", "img",
    "ipa", "iso", "jar", "lz", "lz4", "lzma", "msi", "nupkg", "qcow2", "rar", "rpm", "tar", "tbz2",
    "tgz", "txz", "vmdk", "war", "whl", "xz", "z", "zip", "zst",
    // fonts
    "eot", "otf", "pfb", "pfm", "ttc", "ttf", "woff", "woff2",
    // Programs and output of compilers.
    "a", "bin", "class", "dex", "dll", "dylib", "elc", "exe", "lib", "o", "obj", "pdb", "pyc",
    "pyd", "pyo", "rlib", "rmeta", "so", "wasm",
    // Office files and books, which are archives.
    "azw3", "key", "mobi", "numbers", "pages", "vsd", "vsdx",
    // Databases, tensors, maps, models, keys.
    "accdb", "arrow", "avro", "blend", "ckpt", "db", "dbf", "dwg", "fbx", "feather", "glb", "gguf",
    "h5", "hdf5", "jks", "joblib", "keystore", "kdbx", "mdb", "mo", "npy", "npz", "onnx", "orc",
    "p12", "parquet", "pfx", "pickle", "pkl", "pt", "pth", "safetensors", "shx", "sqlite",
    "sqlite3", "stl", "tflite", "tfrecord",
    // Files of operating systems and editors.
    "crdownload", "ds_store", "lnk", "pack", "part", "swo", "swp",
];

/// What a name or a media type tells about the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeHint {
    Document(DocumentType),
    /// The file is not a document.
    NoDocument,
    Nothing,
}

/// Returns the type of a file by its name (a path or an address), the media type it was served
/// with, and its content.
///
/// Returns `None` for files that are not documents: images, archives, fonts, programs, media.
pub fn document_type(name: &str, media_type: Option<&str>, content: &[u8]) -> Option<DocumentType> {
    let told = match media_type {
        None => by_name(name),
        Some(media_type) => match (by_name(name), by_media_type(media_type)) {
            // The extension is that of the program that made the page, or a part of its subject.
            (TypeHint::Document(named), TypeHint::Document(DocumentType::Html))
                if named != DocumentType::Code
                    && named != DocumentType::Html
                    && !begins_as_html(content) =>
            {
                TypeHint::Document(named)
            }
            (
                _,
                served @ TypeHint::Document(
                    DocumentType::Html | DocumentType::Pdf | DocumentType::Docx | DocumentType::Rtf,
                ),
            ) => served,
            (TypeHint::NoDocument | TypeHint::Nothing, served @ TypeHint::Document(_)) => served,
            (TypeHint::Nothing, served) => served,
            (named, _) => named,
        },
    };
    match told {
        TypeHint::NoDocument => None,
        TypeHint::Nothing => Some(by_content(content).unwrap_or(DocumentType::Text)),
        TypeHint::Document(_) if media_type.is_some() && content.starts_with(PDF) => {
            Some(DocumentType::Pdf)
        }
        TypeHint::Document(DocumentType::Spreadsheet) => Some(workbook(content)),
        TypeHint::Document(DocumentType::Docx) => Some(word_document(content)),
        TypeHint::Document(DocumentType::Xml) => Some(by_root(content)),
        TypeHint::Document(document_type) => Some(document_type),
    }
}

/// Returns the type of a file that should be a workbook. Programs write tables of HTML and CSV
/// under that name, too.
fn workbook(content: &[u8]) -> DocumentType {
    let begins = content.trim_ascii_start();
    if content.is_empty()
        || content.starts_with(b"PK")
        || is_compound(content)
        || odf::is_open_document(content)
    {
        DocumentType::Spreadsheet
    } else if begins_as_html(content) || begins.starts_with(b"<") {
        DocumentType::Html
    } else if begins.is_ascii() || std::str::from_utf8(begins).is_ok() {
        DocumentType::Csv
    } else {
        DocumentType::Spreadsheet
    }
}

/// Returns the type of a file that should be a document of Word. Programs write RTF, HTML and plain
/// text under that name, too.
fn word_document(content: &[u8]) -> DocumentType {
    match by_content(content) {
        Some(found @ (DocumentType::Rtf | DocumentType::Html | DocumentType::Pdf)) => found,
        _ if content.is_empty() || content.starts_with(b"PK") || is_compound(content) => {
            DocumentType::Docx
        }
        _ if content.trim_ascii_start().starts_with(b"<") => DocumentType::Html,
        _ if str::from_utf8(content).is_ok() => DocumentType::Text,
        _ => DocumentType::Docx,
    }
}

/// Returns the type of a file in XML by its first element.
fn by_root(content: &[u8]) -> DocumentType {
    let head = String::from_utf8_lossy(&content[..content.len().min(4096)]);
    let mut rest = &*head;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
        } else if !rest.starts_with(['?', '!']) {
            break;
        }
    }
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/'));
    match &rest[..end.unwrap_or(rest.len())] {
        name if feed::is_root(name) => DocumentType::Feed,
        "html" => DocumentType::Html,
        _ => DocumentType::Xml,
    }
}

/// Returns true for a picture by its name. [`document_type`] does not return it: few pictures are
/// documents, and recognizing their text takes seconds.
pub fn is_picture(name: &str) -> bool {
    let extension = path(name).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| PICTURES.contains(&&*extension.to_lowercase()))
}

/// Returns true if the name or the media type of a file determines its type. Any other file counts
/// as text unless its first bytes say otherwise.
pub fn is_type_known(name: &str, media_type: Option<&str>) -> bool {
    [
        by_name(name),
        media_type.map_or(TypeHint::Nothing, by_media_type),
    ]
    .iter()
    .any(|told| *told != TypeHint::Nothing)
}

/// Returns true if a file is a page in HTML that shows no pictures, films, frames or drawings: one
/// without a text has no content.
pub fn is_blank_page(name: &str, media_type: Option<&str>, bytes: &[u8]) -> bool {
    const MEDIA: [&[u8]; 10] = [
        b"<img",
        b"<picture",
        b"<video",
        b"<audio",
        b"<svg",
        b"<canvas",
        b"<object",
        b"<embed",
        b"<iframe",
        b"<frame",
    ];
    document_type(name, media_type, bytes) == Some(DocumentType::Html)
        && !MEDIA.iter().any(|tag| {
            bytes
                .windows(tag.len())
                .any(|part| part.eq_ignore_ascii_case(tag))
        })
}

const PDF: &[u8] = b"%PDF-";

fn by_name(name: &str) -> TypeHint {
    by_path(path(name))
}

/// Returns the path of an address, and any other name unchanged.
pub fn path(name: &str) -> &str {
    let Some((_, after)) = name.split_once("://") else {
        return name;
    };
    let after = after.split(['?', '#']).next().unwrap_or(after);
    after.split_once('/').map_or("", |(_, path)| path)
}

fn by_path(path: &str) -> TypeHint {
    let file = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let extension = file
        .rsplit_once('.')
        .map(|(_, extension)| extension)
        .unwrap_or_default();
    let has_extension = |format: &&Format| format.extensions.contains(&extension);
    // Pictures are documents where the caller says so.
    let is_picture = PICTURES.contains(&extension);
    if let Some(format) = FORMATS.iter().find(has_extension)
        && !is_picture
    {
        TypeHint::Document(format.document_type)
    } else if NO_DOCUMENT.contains(&extension) {
        TypeHint::NoDocument
    } else if language::of(&file).is_some() {
        TypeHint::Document(DocumentType::Code)
    } else {
        TypeHint::Nothing
    }
}

fn by_media_type(media_type: &str) -> TypeHint {
    let essence = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let has_media_type = |format: &&Format| format.media_types.contains(&&*essence);
    if let Some(format) = FORMATS.iter().find(has_media_type) {
        return TypeHint::Document(format.document_type);
    }
    match essence.as_str() {
        json if json.ends_with("+json") => TypeHint::Document(DocumentType::Json),
        media
            if ["image/", "audio/", "video/", "font/"]
                .iter()
                .any(|kind| media.starts_with(kind)) =>
        {
            TypeHint::NoDocument
        }
        "application/zip" | "application/gzip" | "application/x-gzip" | "application/x-tar"
        | "application/wasm" => TypeHint::NoDocument,
        // Servers use `text/plain` and `application/octet-stream` for files that they do not know.
        _ => TypeHint::Nothing,
    }
}

fn by_content(content: &[u8]) -> Option<DocumentType> {
    const RTF: &[u8] = b"{\\rtf";
    const ARCHIVE: &[u8] = b"PK\x03\x04";
    if content.starts_with(PDF) {
        Some(DocumentType::Pdf)
    } else if content.starts_with(RTF) {
        Some(DocumentType::Rtf)
    } else if content.starts_with(ARCHIVE) {
        by_parts(content)
    } else {
        begins_as_html(content).then_some(DocumentType::Html)
    }
}

/// Returns the type of an archive by its files. One that is damaged may still name them.
fn by_parts(archive: &[u8]) -> Option<DocumentType> {
    const WORD: &[u8] = b"word/document.xml";
    // OpenDocument begins with a file that has nothing but its type.
    if let Some(rest) = archive
        .get(30..)
        .and_then(|rest| rest.strip_prefix(b"mimetype"))
    {
        let is_name = |byte: &u8| byte.is_ascii_lowercase() || b"/.-+".contains(byte);
        let end = rest
            .iter()
            .position(|byte| !is_name(byte))
            .unwrap_or(rest.len());
        let media_type = str::from_utf8(&rest[..end.min(100)]).unwrap_or_default();
        if let TypeHint::Document(document_type) = by_media_type(media_type) {
            return Some(document_type);
        }
    }
    let Some(names) = package::names(archive) else {
        let is_word = archive.windows(WORD.len()).any(|window| window == WORD);
        return is_word.then_some(DocumentType::Docx);
    };
    let folders = [
        ("word/", DocumentType::Docx),
        ("xl/", DocumentType::Spreadsheet),
        ("ppt/", DocumentType::Presentation),
        ("meta-inf/container.xml", DocumentType::Epub),
    ];
    let mut types = folders.into_iter().filter_map(|(folder, document_type)| {
        let has_folder = names.iter().any(|name| name.starts_with(folder));
        has_folder.then_some(document_type)
    });
    types.next()
}

fn begins_as_html(content: &[u8]) -> bool {
    let content = content
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(content)
        .trim_ascii_start();
    let begins = |with: &[u8]| {
        content
            .get(..with.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(with))
    };
    begins(b"<!doctype html") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::packed;

    #[test]
    fn the_extension_decides_in_any_case() {
        for (name, expected) in [
            ("README.md", Some(DocumentType::Markdown)),
            ("docs/GUIDE.MarkDown", Some(DocumentType::Markdown)),
            ("index.HTM", Some(DocumentType::Html)),
            ("paper.PDF", Some(DocumentType::Pdf)),
            ("notes.txt", Some(DocumentType::Text)),
            ("main.rs", Some(DocumentType::Code)),
            ("Dockerfile", Some(DocumentType::Code)),
            ("prices.CSV", Some(DocumentType::Csv)),
            ("prices.tsv", Some(DocumentType::Tsv)),
            ("package.json", Some(DocumentType::Json)),
            ("events.ndjson", Some(DocumentType::Jsonl)),
            ("letter.docx", Some(DocumentType::Docx)),
            ("form.dotm", Some(DocumentType::Docx)),
            ("prices.xlsx", Some(DocumentType::Spreadsheet)),
            ("plan.pptx", Some(DocumentType::Presentation)),
            ("book.epub", Some(DocumentType::Epub)),
            ("letter.RTF", Some(DocumentType::Rtf)),
            ("sales.ipynb", Some(DocumentType::Notebook)),
            ("LICENSE", Some(DocumentType::Text)),
            ("v1.2/CHANGES", Some(DocumentType::Text)),
            ("why?.md", Some(DocumentType::Markdown)),
            ("logo.PNG", None),
            ("backup.tar.gz", None),
            (".DS_Store", None),
            ("libfoo.so", None),
        ] {
            assert_eq!(document_type(name, None, b""), expected, "{name}");
        }
    }

    #[test]
    fn a_file_without_an_extension_is_known_by_its_first_bytes() {
        assert_eq!(
            document_type("paper", None, b"%PDF-1.7"),
            Some(DocumentType::Pdf)
        );
        assert_eq!(
            document_type("paper.md", None, b"%PDF-1.7"),
            Some(DocumentType::Markdown)
        );
        assert_eq!(
            document_type("page", None, b"\xEF\xBB\xBF\n<!DOCTYPE HTML><p>"),
            Some(DocumentType::Html)
        );
        assert_eq!(
            document_type("a", None, b"PK\x03\x04....word/document.xml"),
            Some(DocumentType::Docx)
        );
        let archive = packed(&[("Word\\Main.xml", b"<x/>")]);
        assert_eq!(document_type("a", None, &archive), Some(DocumentType::Docx));
        let of_text = &b"application/vnd.oasis.opendocument.text"[..];
        let archive = packed(&[("mimetype", of_text), ("content.xml", b"<x/>")]);
        // The library compresses it.
        assert_eq!(document_type("a", None, &archive), Some(DocumentType::Text));
        let stored = [&b"PK\x03\x04"[..], &[0; 26], b"mimetype", of_text, b"PK"].concat();
        assert_eq!(document_type("a", None, &stored), Some(DocumentType::Odt));
        let archive = packed(&[("password/main.xml", b"<x/>")]);
        assert_eq!(document_type("a", None, &archive), Some(DocumentType::Text));
        for (content, expected) in [
            (&b"<table><tr><td>a"[..], DocumentType::Html),
            (b"a;b\n1;2\n", DocumentType::Csv),
            (b"\xD0\xCF\x11\xE0", DocumentType::Spreadsheet),
            (b"\x09\x08\xFF\x00", DocumentType::Spreadsheet),
        ] {
            assert_eq!(document_type("export.xls", None, content), Some(expected));
        }
        assert_eq!(document_type("a", None, b"<p>"), Some(DocumentType::Text));
    }

    #[test]
    fn served_files_are_recognized_by_their_media_type() {
        const HTML: &str = "text/html; charset=utf-8";
        for (name, media_type, content, expected) in [
            ("https://example.com", HTML, "", Some(DocumentType::Html)),
            (
                "https://example.com/v1.2",
                HTML,
                "",
                Some(DocumentType::Html),
            ),
            (
                "https://example.com/index.php?page=a.md",
                HTML,
                "",
                Some(DocumentType::Html),
            ),
            (
                "https://example.com/File:Map.png",
                HTML,
                "",
                Some(DocumentType::Html),
            ),
            (
                "https://example.com/README.md",
                HTML,
                "<!doctype html>",
                Some(DocumentType::Html),
            ),
            (
                "https://example.com/README.md",
                HTML,
                "# Read me",
                Some(DocumentType::Markdown),
            ),
            (
                "https://example.com/a.md?raw=true#top",
                "text/plain",
                "",
                Some(DocumentType::Markdown),
            ),
            (
                "https://example.com/a?file=b.pdf",
                "application/octet-stream",
                "%PDF-1.7",
                Some(DocumentType::Pdf),
            ),
            (
                "https://example.com/a.html",
                "text/html",
                "%PDF-1.7",
                Some(DocumentType::Pdf),
            ),
            (
                "https://example.com/paper.txt",
                "application/pdf",
                "",
                Some(DocumentType::Pdf),
            ),
            (
                "https://example.com/api/posts",
                "application/vnd.api+json",
                "",
                Some(DocumentType::Json),
            ),
            (
                "https://example.com/export",
                "text/csv",
                "",
                Some(DocumentType::Csv),
            ),
            (
                "https://example.com/main.rs",
                "text/plain",
                "",
                Some(DocumentType::Code),
            ),
            (
                "https://example.com/robots",
                "text/plain",
                "",
                Some(DocumentType::Text),
            ),
            ("https://example.com/chart", "image/svg+xml", "", None),
            ("https://example.com/chart.png", "image/png", "", None),
        ] {
            assert_eq!(
                document_type(name, Some(media_type), content.as_bytes()),
                expected,
                "{name} {media_type}"
            );
        }
    }
}
