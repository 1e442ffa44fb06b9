//! The script of a text: which one counts most, where several are mixed.

/// Scripts whose languages are told apart. A script that is not here has none that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    Latin,
    Cyrillic,
    Arabic,
    Devanagari,
    Hebrew,
    /// Han characters and kana: Chinese and Japanese.
    Han,
    /// A script of one language: its code.
    Of(&'static str),
}

/// What a letter of an ordinary alphabet counts.
const LETTER: usize = 4;
/// Han characters, kana and Hangul syllables stand for several letters of an alphabet.
const SYLLABLE: usize = 3 * LETTER;
/// Latin words with a capital or a digit are names and codes, in texts of every script.
const NAME: usize = 1;

/// Ranges of characters, in their order. Those of `Of` are alphabets or syllabaries of a language.
const RANGES: [(u32, u32, Script, usize); 34] = [
    (0x41, 0x5A, Script::Latin, LETTER),
    (0x61, 0x7A, Script::Latin, LETTER),
    (0xC0, 0x24F, Script::Latin, LETTER),
    (0x370, 0x3FF, Script::Of("el"), LETTER),
    (0x400, 0x52F, Script::Cyrillic, LETTER),
    (0x531, 0x58F, Script::Of("hy"), LETTER),
    (0x591, 0x5F4, Script::Hebrew, LETTER),
    (0x620, 0x77F, Script::Arabic, LETTER),
    (0x900, 0x97F, Script::Devanagari, LETTER),
    (0x980, 0x9FF, Script::Of("bn"), LETTER),
    (0xA00, 0xA7F, Script::Of("pa"), LETTER),
    (0xA80, 0xAFF, Script::Of("gu"), LETTER),
    (0xB00, 0xB7F, Script::Of("or"), LETTER),
    (0xB80, 0xBFF, Script::Of("ta"), LETTER),
    (0xC00, 0xC7F, Script::Of("te"), LETTER),
    (0xC80, 0xCFF, Script::Of("kn"), LETTER),
    (0xD00, 0xD7F, Script::Of("ml"), LETTER),
    (0xD80, 0xDFF, Script::Of("si"), LETTER),
    (0xE00, 0xE7F, Script::Of("th"), LETTER),
    (0x1000, 0x109F, Script::Of("my"), LETTER),
    (0x10A0, 0x10FF, Script::Of("ka"), LETTER),
    (0x1100, 0x11FF, Script::Of("ko"), SYLLABLE),
    (0x1200, 0x139F, Script::Of("am"), SYLLABLE),
    (0x1780, 0x17FF, Script::Of("km"), LETTER),
    (0x1E00, 0x1EFF, Script::Latin, LETTER),
    (0x1F00, 0x1FFF, Script::Of("el"), LETTER),
    (0x3005, 0x3007, Script::Han, SYLLABLE),
    (0x3041, 0x30FF, Script::Han, SYLLABLE),
    (0x3130, 0x318F, Script::Of("ko"), SYLLABLE),
    (0x3400, 0x4DBF, Script::Han, SYLLABLE),
    (0x4E00, 0x9FFF, Script::Han, SYLLABLE),
    (0xAC00, 0xD7AF, Script::Of("ko"), SYLLABLE),
    (0xF900, 0xFAFF, Script::Han, SYLLABLE),
    (0xFF66, 0xFF9D, Script::Han, SYLLABLE),
];

/// Returns the script of a letter, and what the letter counts.
pub fn of_letter(letter: char) -> Option<(Script, usize)> {
    // the signs for multiplication and division, and the middle dot of katakana
    if matches!(letter, '×' | '÷' | '・') || letter.is_numeric() {
        return None;
    }
    let code = u32::from(letter);
    let range = RANGES.partition_point(|(_, last, ..)| *last < code);
    let (first, _, script, weight) = *RANGES.get(range)?;
    (first <= code).then_some((script, weight))
}

/// Returns true for hiragana and katakana.
pub fn is_kana(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{30FF}' | '\u{FF66}'..='\u{FF9D}') && letter != '・'
}

/// The script of a text, and its words.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub script: Script,
    /// The words of that script, in lower case, each between blanks. Codes in Latin letters are
    /// left out where there are other words.
    pub words: String,
    /// Number of letters in `words`.
    pub letters: usize,
}

/// Returns the script that counts most in a text, or `None` if there are no letters.
pub fn of_text(text: &str) -> Option<Written> {
    let runs: Vec<Run<'_>> = text.split_whitespace().flat_map(runs).collect();
    let mut weights: Vec<(Script, usize)> = vec![];
    for run in &runs {
        let known = weights.iter_mut().find(|(script, _)| *script == run.script);
        match known {
            Some((_, weight)) => *weight += run.weight,
            None => weights.push((run.script, run.weight)),
        }
    }
    // of scripts that count the same, the first one
    let (script, _) = weights
        .into_iter()
        .rev()
        .max_by_key(|(_, weight)| *weight)?;
    let of_script = || runs.iter().filter(|run| run.script == script);
    let has_words = of_script().any(|run| !run.is_code);
    let mut written = Written {
        script,
        words: " ".into(),
        letters: 0,
    };
    for run in of_script().filter(|run| !(run.is_code && has_words)) {
        written.letters += run.text.chars().count();
        let letters = run.text.chars().flat_map(char::to_lowercase);
        written.words.extend(letters);
        written.words.push(' ');
    }
    Some(written)
}

/// Letters of one script, without others between them.
struct Run<'a> {
    script: Script,
    text: &'a str,
    weight: usize,
    /// A part of a code, a path or an address in Latin letters.
    is_code: bool,
}

/// Returns the runs of letters of a text without white space.
fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = vec![];
    let is_path = is_path(text);
    for word in text.split(|c: char| !(c.is_alphanumeric() || is_mark(c))) {
        let has_digit = word.contains(|c: char| c.is_numeric());
        let mut rest = word;
        while let Some((start, script)) = first_letter(rest) {
            rest = &rest[start..];
            let is_other =
                |c: char| c.is_numeric() || of_letter(c).is_some_and(|(other, _)| other != script);
            let (run, after) = rest.split_at(rest.find(is_other).unwrap_or(rest.len()));
            rest = after;
            runs.push(Run::new(script, run, is_path || has_digit));
        }
    }
    runs
}

fn first_letter(text: &str) -> Option<(usize, Script)> {
    let mut letters = text.char_indices();
    letters.find_map(|(at, c)| Some((at, of_letter(c)?.0)))
}

impl<'a> Run<'a> {
    fn new(script: Script, text: &'a str, is_in_code: bool) -> Self {
        let is_latin = script == Script::Latin;
        let has_capital = |text: &str| text.contains(|c: char| c.is_uppercase());
        let after_first = text.chars().next().map_or(0, char::len_utf8);
        let is_code = is_latin && (is_in_code || has_capital(&text[after_first..]));
        let weight = |c: char| of_letter(c).map_or(0, |(_, weight)| weight);
        let weight = match is_code || is_latin && has_capital(text) {
            true => text.chars().count() * NAME,
            false => text.chars().map(weight).sum(),
        };
        Self {
            script,
            text,
            weight,
            is_code,
        }
    }
}

/// Returns true for an address, a path, or what has the signs of one.
fn is_path(text: &str) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let mut signs = bytes.iter().enumerate();
    text.contains("://")
        || signs.any(|(at, byte)| {
            b"./\\_@=".contains(byte)
                && at > 0
                && is_letter(bytes.get(at - 1))
                && is_letter(bytes.get(at + 1))
        })
}

/// Returns true for what stands in words and is no letter: marks of vowels, and apostrophes.
fn is_mark(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{300}'..='\u{36F}' | '\u{64B}'..='\u{652}')
        || matches!(c, '\u{900}'..='\u{E7F}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}')
}
