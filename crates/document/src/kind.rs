//! What type a file is, told by its name and, where the name does not say, by its first bytes.

use rag_protocol::ingest::DocumentType;

const MARKDOWN: &[&str] = &["md", "markdown", "mdown", "mdtext", "mdwn", "mdx", "mkd", "mkdn", "qmd", "rmd"];
const HTML: &[&str] = &["html", "htm", "xhtml", "xht", "shtml"];

/// Extensions of files that hold no text for people, or hold it in a form that is not read.
#[rustfmt::skip]
const NO_DOCUMENT: &[&str] = &[
    // images
    "ai", "avif", "bmp", "cr2", "dng", "eps", "gif", "heic", "heif", "icns", "ico", "jpe", "jpeg", "jpg", "jxl", "nef", "pbm", "pgm",
    "png", "pnm", "ppm", "psd", "svg", "svgz", "tga", "tif", "tiff", "webp", "xcf",
    // sound and film
    "3gp", "aac", "aif", "aiff", "amr", "avi", "flac", "flv", "m4a", "m4v", "mid", "midi", "mkv", "mov", "mp3", "mp4", "mpeg", "mpg",
    "oga", "ogg", "ogv", "opus", "wav", "webm", "wma", "wmv",
    // archives, disk images and packages
    "7z", "apk", "bz2", "cab", "cpio", "crate", "deb", "dmg", "ear", "egg", "gem", "gz", "img", "ipa", "iso", "jar", "lz", "lz4", "lzma",
    "msi", "nupkg", "qcow2", "rar", "rpm", "tar", "tbz2", "tgz", "txz", "vmdk", "war", "whl", "xz", "z", "zip", "zst",
    // fonts
    "eot", "otf", "pfb", "pfm", "ttc", "ttf", "woff", "woff2",
    // programs and what compilers leave behind
    "a", "bin", "class", "dex", "dll", "dylib", "elc", "exe", "lib", "o", "obj", "pdb", "pyc", "pyd", "pyo", "rlib",
    "rmeta", "so", "wasm",
    // office files and books, which are archives inside
    "azw3", "doc", "docm", "docx", "dotx", "epub", "key", "mobi", "numbers", "odg", "odp", "ods", "odt", "pages", "ppt", "pptm",
    "pptx", "vsd", "vsdx", "xls", "xlsb", "xlsm", "xlsx",
    // databases, tensors, maps, models, keys
    "accdb", "arrow", "avro", "blend", "ckpt", "db", "dbf", "dwg", "fbx", "feather", "glb", "gguf", "h5", "hdf5", "jks", "joblib",
    "keystore", "kdbx", "mdb", "mo", "npy", "npz", "onnx", "orc", "p12", "parquet", "pfx", "pickle", "pkl", "pt", "pth", "safetensors",
    "shx", "sqlite", "sqlite3", "stl", "tflite", "tfrecord",
    // what systems and editors leave behind
    "crdownload", "ds_store", "lnk", "pack", "part", "swo", "swp",
];

/// The type of a file: by its extension, whatever the case, else by its first bytes (`%PDF-`), else text.
///
/// `None` for what is known not to be a document: images, archives, fonts, programs, media.
pub fn document_type(name: &str, head: &[u8]) -> Option<DocumentType> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).unwrap_or_default();
    let is = |extensions: &[&str]| extensions.contains(&extension.as_str());
    if is(NO_DOCUMENT) {
        None
    } else if is(MARKDOWN) {
        Some(DocumentType::Markdown)
    } else if is(HTML) {
        Some(DocumentType::Html)
    } else if extension == "pdf" || head.starts_with(b"%PDF-") {
        Some(DocumentType::Pdf)
    } else {
        Some(DocumentType::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_whatever_its_case() {
        for (name, expected) in [
            ("README.md", Some(DocumentType::Markdown)),
            ("docs/GUIDE.MarkDown", Some(DocumentType::Markdown)),
            ("index.HTM", Some(DocumentType::Html)),
            ("paper.PDF", Some(DocumentType::Pdf)),
            ("notes.txt", Some(DocumentType::Text)),
            ("main.rs", Some(DocumentType::Text)),
            ("LICENSE", Some(DocumentType::Text)),
            ("v1.2/CHANGES", Some(DocumentType::Text)),
            ("logo.PNG", None),
            ("backup.tar.gz", None),
            (".DS_Store", None),
            ("libfoo.so", None),
        ] {
            assert_eq!(document_type(name, b""), expected, "{name}");
        }
    }

    #[test]
    fn a_pdf_without_an_extension_is_known_by_its_first_bytes() {
        assert_eq!(document_type("paper", b"%PDF-1.7"), Some(DocumentType::Pdf));
        assert_eq!(document_type("paper.md", b"%PDF-1.7"), Some(DocumentType::Markdown));
    }
}
