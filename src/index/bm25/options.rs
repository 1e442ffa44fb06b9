//! `WITH (text_config = ..., analysis = ..., accents = ..., positions = ..., k1 = ..., b = ...)`.

use rag_bm25::Parameters;

use super::{
    config::{self, ConfigName},
    rules::{self, TextRules},
};
use crate::{
    error::Error,
    index::am::{
        options::{IndexOption, OptionSet, OptionType, OptionValues},
        relation::Index,
    },
};

const TEXT_CONFIG: usize = 0;
const K1: usize = 1;
const B: usize = 2;
const ANALYSIS: usize = 3;
const ACCENTS: usize = 4;
const POSITIONS: usize = 5;

const DEFAULT_K1: f64 = 1.2;
const DEFAULT_B: f64 = 0.75;

pub static OPTIONS: OptionSet = OptionSet::new(&[
    IndexOption {
        name: c"text_config",
        description: c"Text search configuration that makes words of the texts",
        values: OptionType::Text,
    },
    IndexOption {
        name: c"k1",
        description: c"How much repetitions of a word add to the score",
        values: OptionType::Real {
            default: DEFAULT_K1,
            min: 0.0,
            max: 10.0,
        },
    },
    IndexOption {
        name: c"b",
        description: c"How much the score of long documents is reduced, from 0 to 1",
        values: OptionType::Real {
            default: DEFAULT_B,
            min: 0.0,
            max: 1.0,
        },
    },
    IndexOption {
        name: c"analysis",
        description: c"How texts become words: words, code or exact",
        values: OptionType::Text,
    },
    IndexOption {
        name: c"accents",
        description: c"Whether words with and without accents are the same: keep or fold",
        values: OptionType::Text,
    },
    IndexOption {
        name: c"positions",
        description: c"Whether the index keeps where in the texts words are, for phrases",
        values: OptionType::Boolean { default: false },
    },
]);

/// Options of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Bm25Options {
    pub rules: TextRules,
    pub parameters: Parameters,
    /// The index keeps where in the texts words are.
    pub has_positions: bool,
}

impl Bm25Options {
    /// # Errors
    /// The text search configuration is not given, or does not exist. A value is not known.
    pub fn of(index: Index<'_>) -> Result<Self, Error> {
        let given = index.options().unwrap_or_default();
        let rules = rules_of(&given)?;
        Ok(Self {
            parameters: Parameters {
                k1: given.real(K1).unwrap_or(DEFAULT_K1) as f32,
                b: given.real(B).unwrap_or(DEFAULT_B) as f32,
                has_parts: rules.has_parts(),
            },
            rules,
            has_positions: given.boolean(POSITIONS).unwrap_or(false),
        })
    }
}

/// # Errors
/// The text search configuration is not given, or does not exist. A value is not known.
pub fn check(values: &OptionValues) -> Result<(), Error> {
    rules_of(values).map(drop)
}

fn rules_of(values: &OptionValues) -> Result<TextRules, Error> {
    let config = values.text(TEXT_CONFIG).ok_or_else(config::not_given)?;
    Ok(TextRules {
        config: ConfigName::parse(config)?,
        analysis: rules::analysis(values.text(ANALYSIS))?,
        folds_accents: rules::folds_accents(values.text(ACCENTS))?,
    })
}
