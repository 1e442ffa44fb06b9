//! The formats that are read: how a file of each is recognized, what reads it, and what the guide
//! says of it.
//!
//! `tests/guide.rs` writes the table of the guide from this one.

use rag_definition::DocumentType;

use crate::{
    DocumentError, ExtractedDocument, PdfReader, Structure, Syntax, code, docx, epub, feed, html,
    mail, markdown, markup, notebook, odf, pdf, picture, records, rtf, slides, subtitles, title,
    xml_file,
};

/// What there is to know of a type. Each type has one.
pub struct Format {
    pub document_type: DocumentType,
    /// In small letters.
    pub extensions: &'static [&'static str],
    pub media_types: &'static [&'static str],
    pub reader: Reader,
    pub shape: Shape,
    /// What the text is, for the guide.
    pub text: &'static str,
    /// Where the title is from, for the guide.
    pub title: &'static str,
}

/// What reads the files of a format. The name is that of the file.
pub enum Reader {
    Bytes(fn(&[u8], &str) -> Result<ExtractedDocument, DocumentError>),
    /// Reads what the bytes say in their encoding.
    Text(TextReader),
    /// Reads files that may hold PDFs.
    WithPdfs(fn(&[u8], &str, &PdfReader) -> Result<ExtractedDocument, DocumentError>),
}

pub type TextReader = fn(&str, &str) -> Result<ExtractedDocument, DocumentError>;

/// The structure of the texts of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Prose,
    Pages,
    Markdown,
    Code,
    Records,
}

impl Shape {
    /// Returns the structure of a text. For source code it is that without a grammar.
    pub fn of(self, text: &str) -> Structure {
        match self {
            Self::Prose => Structure::Prose,
            Self::Pages => Structure::Pages,
            Self::Markdown => markdown::structure(text),
            Self::Code => Structure::Code(Syntax::default()),
            Self::Records => Structure::Records,
        }
    }

    /// Where texts are cut, for the guide.
    pub fn cut_at(self) -> &'static str {
        match self {
            Self::Prose | Self::Pages => "paragraphs, sentences",
            Self::Markdown => "headings, paragraphs, sentences",
            Self::Code => "functions, types, statements; else lines",
            Self::Records => "records",
        }
    }
}

/// Extensions of pictures whose text can be recognized.
pub const PICTURES: &[&str] = &["png", "jpg", "jpeg", "tif", "tiff"];
const PROPERTIES: &str = "document properties, first heading";
const FIRST_HEADING: &str = "first heading";
const NONE: &str = "none";

/// All formats, in the order of the guide.
pub const FORMATS: &[Format] = &[
    Format {
        document_type: DocumentType::Markdown,
        extensions: &[
            "md", "markdown", "mdx", "qmd", "rmd", "mdown", "mdtext", "mdwn", "mkd", "mkdn",
        ],
        media_types: &["text/markdown", "text/x-markdown"],
        reader: Reader::Text(|file, name| Ok(markdown::extract(file, name))),
        shape: Shape::Markdown,
        text: "as written, without front matter",
        title: "`title` of the front matter, first heading of level 1, first heading",
    },
    Format {
        document_type: DocumentType::Html,
        extensions: &["html", "htm", "xhtml", "xht", "shtml"],
        media_types: &["text/html", "application/xhtml+xml"],
        reader: Reader::Text(html::extract),
        shape: Shape::Markdown,
        text: "the page's content as Markdown",
        title: "`<title>`, first `<h1>`",
    },
    Format {
        document_type: DocumentType::Docx,
        extensions: &["docx", "docm", "dotx", "dotm", "doc"],
        media_types: &[
            "application/msword",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
            "application/vnd.ms-word.document.macroenabled.12",
            "application/vnd.ms-word.template.macroenabled.12",
        ],
        reader: Reader::Bytes(docx::extract),
        shape: Shape::Markdown,
        text: "headings, lists, tables and notes as Markdown",
        title: PROPERTIES,
    },
    Format {
        document_type: DocumentType::Odt,
        extensions: &["odt", "ott", "fodt", "odm"],
        media_types: &[
            "application/vnd.oasis.opendocument.text",
            "application/vnd.oasis.opendocument.text-template",
            "application/vnd.oasis.opendocument.text-master",
            "application/vnd.oasis.opendocument.text-flat-xml",
        ],
        reader: Reader::Bytes(odf::extract),
        shape: Shape::Markdown,
        text: "headings, lists, tables and notes as Markdown",
        title: PROPERTIES,
    },
    Format {
        document_type: DocumentType::Notebook,
        extensions: &["ipynb"],
        media_types: &["application/x-ipynb+json"],
        reader: Reader::Text(notebook::extract),
        shape: Shape::Markdown,
        text: "cells as Markdown and blocks of code",
        title: "its metadata, first heading",
    },
    Format {
        document_type: DocumentType::Rtf,
        extensions: &["rtf"],
        media_types: &["application/rtf", "text/rtf", "text/richtext"],
        reader: Reader::Bytes(rtf::extract),
        shape: Shape::Markdown,
        text: "headings, lists, tables and notes as Markdown",
        title: PROPERTIES,
    },
    Format {
        document_type: DocumentType::Presentation,
        extensions: &[
            "pptx", "pptm", "ppsx", "potx", "ppt", "pps", "odp", "otp", "fodp", "odg", "otg",
            "fodg",
        ],
        media_types: &[
            "application/vnd.ms-powerpoint",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
            "application/vnd.ms-powerpoint.presentation.macroenabled.12",
            "application/vnd.oasis.opendocument.presentation",
            "application/vnd.oasis.opendocument.presentation-template",
            "application/vnd.oasis.opendocument.graphics",
        ],
        reader: Reader::Bytes(slides::extract),
        shape: Shape::Markdown,
        text: "a section for each slide",
        title: "document properties, first slide",
    },
    Format {
        document_type: DocumentType::Epub,
        extensions: &["epub"],
        media_types: &["application/epub+zip"],
        reader: Reader::Bytes(epub::extract),
        shape: Shape::Markdown,
        text: "pages as Markdown",
        title: "its package, first heading",
    },
    Format {
        document_type: DocumentType::Pdf,
        extensions: &["pdf"],
        media_types: &["application/pdf", "application/x-pdf"],
        reader: Reader::WithPdfs(pdf::extract),
        shape: Shape::Pages,
        text: "pages with a form feed between them",
        title: "Info dictionary, unless a program filled it in",
    },
    Format {
        document_type: DocumentType::Image,
        extensions: PICTURES,
        media_types: &[],
        reader: Reader::WithPdfs(picture::extract),
        shape: Shape::Pages,
        text: "what text recognition reads, if `rag.ocr` is `all`",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Rst,
        extensions: &["rst", "rest"],
        media_types: &["text/x-rst", "text/prs.fallenstein.rst"],
        reader: Reader::Text(markup::rst::extract),
        shape: Shape::Markdown,
        text: "sections, lists, tables and code as Markdown",
        title: FIRST_HEADING,
    },
    Format {
        document_type: DocumentType::Asciidoc,
        extensions: &["adoc", "asciidoc", "asc"],
        media_types: &["text/asciidoc", "text/x-asciidoc"],
        reader: Reader::Text(markup::asciidoc::extract),
        shape: Shape::Markdown,
        text: "sections, lists, tables and code as Markdown",
        title: "title of the file, first heading",
    },
    Format {
        document_type: DocumentType::Org,
        extensions: &["org"],
        media_types: &["text/org", "text/x-org"],
        reader: Reader::Text(markup::org::extract),
        shape: Shape::Markdown,
        text: "sections, lists, tables and code as Markdown",
        title: "`#+title`, first heading",
    },
    Format {
        document_type: DocumentType::Tex,
        extensions: &["tex", "latex", "ltx"],
        media_types: &["text/x-tex", "application/x-tex", "application/x-latex"],
        reader: Reader::Text(markup::tex::extract),
        shape: Shape::Markdown,
        text: "sections, lists, tables, formulas and code as Markdown",
        title: "`\\title`, first heading",
    },
    Format {
        document_type: DocumentType::Subtitles,
        extensions: &["srt", "vtt", "sbv"],
        media_types: &["text/vtt", "application/x-subrip"],
        reader: Reader::Text(subtitles::extract),
        shape: Shape::Prose,
        text: "cues as lines, without times",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Xml,
        extensions: &["xml"],
        media_types: &["application/xml", "text/xml"],
        reader: Reader::Text(xml_file::extract),
        shape: Shape::Markdown,
        text: "paragraphs, or records",
        title: "first title in it",
    },
    Format {
        document_type: DocumentType::Feed,
        extensions: &["rss", "atom"],
        media_types: &["application/rss+xml", "application/atom+xml"],
        reader: Reader::Text(feed::extract),
        shape: Shape::Markdown,
        text: "a section for each entry",
        title: "title of the feed",
    },
    Format {
        document_type: DocumentType::Mail,
        extensions: &["eml", "msg", "mbox", "mht", "mhtml"],
        media_types: &[
            "message/rfc822",
            "application/vnd.ms-outlook",
            "application/mbox",
            "multipart/related",
        ],
        reader: Reader::WithPdfs(mail::extract),
        shape: Shape::Markdown,
        text: "its text and its attachments as Markdown",
        title: "subject",
    },
    Format {
        document_type: DocumentType::Text,
        extensions: &["txt", "text", "log", "textile"],
        media_types: &[],
        reader: Reader::Text(|file, name| {
            let title = title::from_name(name);
            Ok(ExtractedDocument::new(
                file.to_owned(),
                title,
                Structure::Prose,
            ))
        }),
        shape: Shape::Prose,
        text: "as written",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Code,
        // See `language`.
        extensions: &[],
        media_types: &[],
        reader: Reader::Text(|file, name| Ok(code::extract(file, name))),
        shape: Shape::Code,
        text: "as written",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Csv,
        extensions: &["csv"],
        media_types: &["text/csv", "application/csv"],
        reader: Reader::Text(|file, name| Ok(records::csv::extract(file, name, None))),
        shape: Shape::Records,
        text: "records",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Tsv,
        extensions: &["tsv", "tab"],
        media_types: &["text/tab-separated-values"],
        reader: Reader::Text(|file, name| Ok(records::csv::extract(file, name, Some(b'\t')))),
        shape: Shape::Records,
        text: "records",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Spreadsheet,
        extensions: &[
            "xlsx", "xlsm", "xlsb", "xls", "xltx", "xltm", "ods", "ots", "fods",
        ],
        media_types: &[
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "application/vnd.ms-excel",
            "application/vnd.ms-excel.sheet.macroenabled.12",
            "application/vnd.ms-excel.sheet.binary.macroenabled.12",
            "application/vnd.oasis.opendocument.spreadsheet",
            "application/vnd.oasis.opendocument.spreadsheet-template",
        ],
        reader: Reader::Bytes(records::spreadsheet::extract),
        shape: Shape::Records,
        text: "records",
        title: "document properties, except of `.xls`",
    },
    Format {
        document_type: DocumentType::Json,
        extensions: &["json", "geojson", "jsonld", "webmanifest"],
        media_types: &["application/json", "text/json"],
        reader: Reader::Text(|file, name| Ok(records::json::extract(file, name))),
        shape: Shape::Records,
        text: "records",
        title: NONE,
    },
    Format {
        document_type: DocumentType::Jsonl,
        extensions: &["jsonl", "ndjson"],
        media_types: &[
            "application/jsonl",
            "application/x-jsonl",
            "application/x-ndjson",
            "application/jsonlines",
        ],
        reader: Reader::Text(|file, name| Ok(records::json::extract_lines(file, name))),
        shape: Shape::Records,
        text: "records",
        title: NONE,
    },
];

/// Returns the format of a document of a type. Each has one.
pub fn of(document_type: DocumentType) -> &'static Format {
    let found = FORMATS
        .iter()
        .find(|format| format.document_type == document_type);
    // A test looks for each type.
    found.unwrap_or(&FORMATS[0])
}
