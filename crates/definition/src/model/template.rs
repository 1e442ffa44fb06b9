//! Templates of prompts: a setting of chat models.

use std::fmt;

/// Stands for the quoted documents.
pub const PLACEHOLDER: &str = "{context}";

/// The template of models that have none of their own.
pub const DEFAULT_TEMPLATE: &str = "\
You answer questions with the documents below, and with nothing else. Cite each document that you \
use by its number in brackets, such as [1]. If the documents do not answer the question, say so. \
Answer in the language of the question.

{context}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateProblem {
    NoPlaceholder,
    Repeated,
}

impl fmt::Display for TemplateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPlaceholder => "must contain {context}, the place of the documents",
            Self::Repeated => "must contain {context} once, not several times",
        })
    }
}

/// # Errors
/// There is not exactly one place for the documents.
pub fn check_template(template: &str) -> Result<(), TemplateProblem> {
    match template.matches(PLACEHOLDER).count() {
        0 => Err(TemplateProblem::NoPlaceholder),
        1 => Ok(()),
        _ => Err(TemplateProblem::Repeated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_a_template() {
        assert_eq!(check_template(DEFAULT_TEMPLATE), Ok(()));
    }

    #[test]
    fn one_place_is_needed() {
        assert_eq!(check_template("x"), Err(TemplateProblem::NoPlaceholder));
        assert_eq!(
            check_template("{context} {context}"),
            Err(TemplateProblem::Repeated)
        );
    }
}
