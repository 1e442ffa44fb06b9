//! Types of documents.

use serde::{Deserialize, Serialize};

/// Declares [`DocumentType`]: a line for each type with its name, and whether its bytes are text.
macro_rules! document_types {
    ($($(#[$doc:meta])* $value:ident = $name:literal, $bytes:ident;)*) => {
        /// What the text of a document is extracted from.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum DocumentType {
            $($(#[$doc])* $value,)*
        }

        impl DocumentType {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }

            fn bytes(self) -> Bytes {
                match self {
                    $(Self::$value => Bytes::$bytes,)*
                }
            }
        }
    };
}

document_types! {
    Markdown = "markdown", Text;
    Text = "text", Text;
    Html = "html", Text;
    Pdf = "pdf", Binary;
    Code = "code", Text;
    Csv = "csv", Text;
    Tsv = "tsv", Text;
    Json = "json", Text;
    /// One JSON value per line.
    Jsonl = "jsonl", Text;
    /// A document of Word.
    Docx = "docx", Binary;
    /// A text of LibreOffice.
    Odt = "odt", Binary;
    /// A Jupyter notebook.
    Notebook = "notebook", Text;
    Rtf = "rtf", Binary;
    /// A workbook of Excel or LibreOffice.
    Spreadsheet = "spreadsheet", Binary;
    /// Slides of PowerPoint or LibreOffice.
    Presentation = "presentation", Binary;
    Epub = "epub", Binary;
    /// reStructuredText.
    Rst = "rst", Text;
    Asciidoc = "asciidoc", Text;
    /// The format of Emacs.
    Org = "org", Text;
    /// LaTeX.
    Tex = "tex", Text;
    Subtitles = "subtitles", Text;
    Xml = "xml", Text;
    /// RSS or Atom.
    Feed = "feed", Text;
    /// A message, or a mailbox of them.
    Mail = "mail", Binary;
    /// A picture whose text is recognized.
    Image = "image", Binary;
}

/// What the bytes of a file are.
#[derive(PartialEq)]
enum Bytes {
    Text,
    Binary,
}

impl DocumentType {
    /// Returns true if the bytes of a document of this type are not text.
    pub fn is_binary(self) -> bool {
        self.bytes() == Bytes::Binary
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}
