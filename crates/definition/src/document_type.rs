//! Types of documents.

use serde::{Deserialize, Serialize};

/// What the text of a document is extracted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentType {
    Markdown,
    Text,
    Html,
    Pdf,
    Code,
    Csv,
    Tsv,
    Json,
    /// One JSON value per line.
    Jsonl,
    Docx,
    /// A Jupyter notebook.
    Notebook,
    Rtf,
    /// A workbook of Excel.
    Spreadsheet,
    /// Slides of PowerPoint.
    Presentation,
    Epub,
}

impl DocumentType {
    pub const ALL: [Self; 15] = [
        Self::Markdown,
        Self::Text,
        Self::Html,
        Self::Pdf,
        Self::Code,
        Self::Csv,
        Self::Tsv,
        Self::Json,
        Self::Jsonl,
        Self::Docx,
        Self::Notebook,
        Self::Rtf,
        Self::Spreadsheet,
        Self::Presentation,
        Self::Epub,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Html => "html",
            Self::Pdf => "pdf",
            Self::Code => "code",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Docx => "docx",
            Self::Notebook => "notebook",
            Self::Rtf => "rtf",
            Self::Spreadsheet => "spreadsheet",
            Self::Presentation => "presentation",
            Self::Epub => "epub",
        }
    }

    /// Returns true if the bytes of a document of this type are not text.
    pub fn is_binary(self) -> bool {
        matches!(
            self,
            Self::Pdf
                | Self::Docx
                | Self::Rtf
                | Self::Spreadsheet
                | Self::Presentation
                | Self::Epub
        )
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}
