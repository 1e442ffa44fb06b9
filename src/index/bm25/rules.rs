//! How an index makes terms of texts: its text search configuration, and its analysis.
//!
//! The index file tells what it was filled with. Options that were changed later apply after a
//! REINDEX. Files of versions without analyses were filled with the words of PostgreSQL's parser,
//! which is the analysis `exact`.

use std::ffi::CStr;

use rag_bm25::Description;
use rag_words::Analysis;

use super::config::ConfigName;
use crate::{error::Error, pg::words::Analyzer};

/// The bits of an analysis in what an index file stores. Other bits are accents.
const ANALYSIS: u8 = 3;
const FOLDS_ACCENTS: u8 = 4;

/// How an index makes terms of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextRules {
    pub config: ConfigName,
    pub analysis: Analysis,
    pub folds_accents: bool,
}

impl TextRules {
    /// Returns what an index file was filled with, or `None` if this version does not know that.
    pub fn of_file(description: &Description) -> Option<Self> {
        let variant = description.variant;
        let analysis = match variant & ANALYSIS {
            0 => Analysis::Exact,
            1 => Analysis::Words,
            2 => Analysis::Code,
            _ => return None,
        };
        if variant & !(ANALYSIS | FOLDS_ACCENTS) != 0 {
            return None;
        }
        Some(Self {
            config: ConfigName::of_label(&description.label)?,
            analysis,
            folds_accents: variant & FOLDS_ACCENTS != 0,
        })
    }

    /// Returns the byte that an index file stores beside the name of the configuration.
    pub fn variant(&self) -> u8 {
        let analysis = match self.analysis {
            Analysis::Exact => 0,
            Analysis::Words => 1,
            Analysis::Code => 2,
        };
        analysis | if self.folds_accents { FOLDS_ACCENTS } else { 0 }
    }

    /// Returns true if parts of compounds count half.
    pub fn has_parts(&self) -> bool {
        self.analysis != Analysis::Exact
    }

    /// Returns the analyzer, which does not count positions.
    ///
    /// # Errors
    /// The configuration was dropped or renamed.
    pub fn analyzer(&self) -> Result<Analyzer, Error> {
        Ok(Analyzer {
            config: self.config.find()?,
            analysis: self.analysis,
            folds_accents: self.folds_accents,
            counts_positions: false,
        })
    }
}

/// Reads the option `analysis`.
///
/// # Errors
/// There is no such analysis.
pub fn analysis(option: Option<&CStr>) -> Result<Analysis, Error> {
    let Some(name) = option else {
        return Ok(Analysis::default());
    };
    let name = name.to_string_lossy();
    Analysis::parse(&name).ok_or_else(|| {
        Error::invalid_parameter(format!("invalid value for option \"analysis\": \"{name}\""))
            .hint("Use words, code or exact.")
    })
}

/// Reads the option `accents`. Returns true if they are folded.
///
/// # Errors
/// The value is another one.
pub fn folds_accents(option: Option<&CStr>) -> Result<bool, Error> {
    match option.map(CStr::to_bytes) {
        None | Some(b"keep") => Ok(false),
        Some(b"fold") => Ok(true),
        Some(other) => Err(Error::invalid_parameter(format!(
            "invalid value for option \"accents\": \"{}\"",
            String::from_utf8_lossy(other)
        ))
        .hint("Use keep or fold.")),
    }
}
