use rag_definition::retriever::Weights;

/// The weight of the keyword score for prose.
const PROSE: f64 = 0.3;
/// The weight of the keyword score for codes.
const CODES: f64 = 0.7;
/// A query of prose may have that many codes.
const FROM: f64 = 0.1;
/// A query with that many codes is for them.
const TO: f64 = 0.6;

/// What the words of a query have found. Stop words do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoundWords {
    /// Number of words.
    pub words: usize,
    /// Number of those that the best keyword hit has.
    pub found: usize,
    /// Number of those that it has and that are [codes](super::WrittenWord::is_code).
    pub codes: usize,
}

/// Returns the weights for a query that comes without any.
///
/// The keyword score counts 0.3, and up to 0.7 the more of the words are codes that the best
/// keyword hit has, if it has the other words, too. Codes say nothing to a model: their vectors are
/// all alike. A text that has some codes but few of the other words is about something else.
///
/// The weight of the keyword score has two decimal places. It never falls if more words are found,
/// or if more of these are codes.
pub fn weights(words: FoundWords) -> Weights {
    let share = |part: usize| part as f64 / words.words.max(1) as f64;
    let evidence = share(words.codes) * share(words.found);
    let rise = ((evidence - FROM) / (TO - FROM)).clamp(0.0, 1.0);
    let hundredths = (100.0 * (PROSE + (CODES - PROSE) * rise)).round();
    Weights {
        vector: (100.0 - hundredths) / 100.0,
        keyword: hundredths / 100.0,
    }
}
