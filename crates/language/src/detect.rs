//! The language of a text: by its script, its frequent words, and its trigrams.

use std::collections::HashMap;

use whatlang::{Detector, Lang};

use crate::{
    UNDETERMINED,
    script::{self, Script, Written, is_kana},
    words::{self, LANGUAGES},
};

/// Number of bytes of a text that are read. More do not change the answer.
const READ_BYTES: usize = 8 << 10;
/// Number of Han characters that a Japanese sentence does not have without kana.
const HAN_SENTENCE: usize = 12;
/// Han characters that only Japanese has.
const JAPANESE: &str = "込働駅円図読売変発対続験済経権戦帰県価広仮伝労圧囲応気検険実収転鉄単壊拡\
    総緑薬関黒歩毎様桜悪帯庁戻択払仏両乗訳証";
/// Han characters that only Chinese has, in the People's Republic.
const CHINESE: &str = "这们时说对发问题请为无开关电设备错误显应该与从东车长门见现线经给让还进过运\
    连选软载边样么没吗呢你她它哪";
/// The lead of frequent words over the next language that needs no trigrams beside it.
const CLEAR_LEAD: usize = 2;
/// The lead that counts if the trigrams are not certain.
const LEAD: usize = 1;
/// Languages with this part of the most frequent words, in percent, are told apart by trigrams.
const NEAR: usize = 80;
/// Answers of `whatlang` with less confidence are guesses, 0 to 1. For long texts it is 1.
const CONFIDENCE: f64 = 0.3;

/// What a text says of its language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Guess {
    /// The code of the most likely language.
    language: &'static str,
    /// False if the text is too short to tell.
    is_certain: bool,
}

/// Returns the language of a text: a code of ISO 639-1 such as `de`, or [`UNDETERMINED`] if the
/// text is too short to tell. Of a text in several languages it is the one that has the most of the
/// beginning.
pub fn detect(text: &str) -> &'static str {
    match guess(text) {
        Some(guess) if guess.is_certain => guess.language,
        _ => UNDETERMINED,
    }
}

/// Returns the language of a document. The title counts where the text is short. What is too short
/// with its title, too, has the usual language of the documents around it, if that language is
/// written with the same letters.
pub fn of_document(title: &str, text: &str, usual: Option<&str>) -> String {
    let language = detect(text);
    if language != UNDETERMINED {
        return language.into();
    }
    let both = format!("{title}\n{text}");
    match (guess(&both), usual) {
        (Some(guess), _) if guess.is_certain => guess.language.into(),
        (_, Some(usual)) if can_be(&both, usual) => usual.into(),
        _ => UNDETERMINED.into(),
    }
}

/// Number of documents from which on their usual language is known.
const FEW: u64 = 3;

/// Returns the language that more than half of some documents have, from the number of documents
/// of each language. `None` if there are too few of them.
pub fn most_usual(counts: HashMap<String, u64>) -> Option<String> {
    let all: u64 = counts.values().sum();
    let (language, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (all >= FEW && count * 2 > all).then_some(language)
}

/// Returns true if a language is written with the letters that a text has. Names and codes in Latin
/// letters are in texts of all languages.
fn can_be(text: &str, language: &str) -> bool {
    match script::of_text(beginning(text)).map(|written| written.script) {
        None | Some(Script::Latin) => true,
        Some(Script::Han) => ["ja", "zh", "ko"].contains(&language),
        Some(Script::Of(code)) => code == language,
        Some(script) => LANGUAGES
            .iter()
            .any(|known| known.code == language && known.script() == script),
    }
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(READ_BYTES)]
}

/// Returns the most likely language, or `None` for a text without letters.
fn guess(text: &str) -> Option<Guess> {
    let written = script::of_text(beginning(text))?;
    Some(match written.script {
        Script::Of(language) => Guess {
            language,
            is_certain: written.letters > 1,
        },
        Script::Han => of_han(&written),
        script => of_words(&written, script),
    })
}

/// Kana are Japanese. Where there are none, some characters tell Japanese from Chinese.
fn of_han(written: &Written) -> Guess {
    let count = |is: &dyn Fn(char) -> bool| written.words.chars().filter(|c| is(*c)).count();
    let kana = count(&is_kana);
    let japanese = count(&|c| JAPANESE.contains(c));
    let chinese = count(&|c| CHINESE.contains(c));
    let is_japanese = kana * 20 > written.letters || japanese > chinese;
    Guess {
        language: if is_japanese { "ja" } else { "zh" },
        is_certain: written.letters > 1
            && (is_japanese || chinese > 0 || written.letters >= HAN_SENTENCE),
    }
}

/// Frequent words decide if they are clear, and else trigrams.
fn of_words(written: &Written, script: Script) -> Guess {
    let counts = words::counts(&written.words);
    let most = |of: &dyn Fn(&str) -> bool| {
        let counts = LANGUAGES.iter().zip(counts).filter(|(it, _)| of(it.code));
        counts.map(|(_, count)| count).max().unwrap_or(0)
    };
    let best = by_words(written, script, &counts);
    let lead = most(&|code| code == best).saturating_sub(most(&|code| code != best));
    if lead < CLEAR_LEAD
        && let Some(trigrams) = whatlang::detect(&written.words)
        && trigrams.confidence() >= CONFIDENCE
    {
        return Guess {
            language: code(trigrams.lang()),
            is_certain: true,
        };
    }
    Guess {
        language: best,
        is_certain: lead >= LEAD,
    }
}

/// Returns the language that has most of the frequent words. Trigrams choose where several have
/// about as many.
fn by_words(written: &Written, script: Script, counts: &[usize; LANGUAGES.len()]) -> &'static str {
    let most = counts.iter().copied().max().unwrap_or(0);
    let of_script = LANGUAGES.iter().zip(counts);
    let of_script = of_script.filter(|(known, _)| known.script() == script);
    let near: Vec<Lang> = of_script
        .clone()
        .filter(|(_, count)| **count * 100 >= most * NEAR)
        .filter_map(|(known, _)| known.trigrams)
        .collect();
    let best = match near[..] {
        [] => None,
        [only] => Some(only),
        _ => Detector::with_allowlist(near).detect_lang(&written.words),
    };
    let of_best = of_script.clone().find(|(known, _)| known.trigrams == best);
    let least = of_best.map_or(0, |(_, count)| *count);
    let other = of_script
        .filter(|(known, count)| known.trigrams.is_none() && **count > least)
        .max_by_key(|(_, count)| **count);
    match (other, best) {
        (Some((known, _)), _) => known.code,
        (None, Some(best)) => code(best),
        (None, None) => UNDETERMINED,
    }
}

fn code(language: Lang) -> &'static str {
    let known = LANGUAGES
        .iter()
        .find(|known| known.trigrams == Some(language));
    known.map_or(UNDETERMINED, |known| known.code)
}

#[cfg(test)]
mod tests;
