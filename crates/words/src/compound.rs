//! A compound: letters and digits that belong together, and its parts.
//!
//! A compound is divided at several levels, from what separates most to what separates least:
//! slashes and colons, dots, hyphens and the like, and last where capitals or digits begin. What
//! lies between two separators of a level, or of the levels above, is a part.

use rag_pages::memory::{OutOfMemory, push};

use crate::{
    Analysis, Purpose,
    class::{Class, class_at},
    splitter::entity_end,
    tokens::{Kind, Token, Tokens, Weight},
};

/// What separates a leaf from the one before, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// It is the first.
    Begin,
    /// `/`, `\`, `:`, `@`.
    Slash,
    Dot,
    /// `-`, `_`, `&`.
    Hyphen,
    /// No sign: a capital or a digit begins.
    Inner,
}

impl Level {
    fn next(self) -> Option<Self> {
        match self {
            Self::Begin => Some(Self::Slash),
            Self::Slash => Some(Self::Dot),
            Self::Dot => Some(Self::Hyphen),
            Self::Hyphen => Some(Self::Inner),
            Self::Inner => None,
        }
    }
}

/// A piece that is not divided any more.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    start: usize,
    end: usize,
    before: Level,
    content: Content,
    /// Which words of the text it is: see [`Token::position`].
    position: u32,
    places: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Letters,
    Digits,
    /// Digits with as many dots.
    Dotted(u32),
    /// Digits with commas between thousands.
    Thousands,
}

impl Content {
    fn is_number(self) -> bool {
        self != Self::Letters
    }
}

/// A run is divided where capitals and digits begin if it has at most so many pieces, or if they
/// are long on average. Others are hashes and the like.
const FEW_PIECES: usize = 3;
/// Digits of numbers that are no parts in a query.
const SHORT_NUMBER: usize = 2;
/// Half bytes that a piece has on average at least.
const LONG_PIECES: usize = 5;

/// The compound at hand.
#[derive(Debug, Default)]
pub struct Compound {
    leaves: Vec<Leaf>,
    /// `++` or `#` follow it, as in names of programming languages.
    suffix: usize,
    /// A whole without its signs.
    joined: String,
}

impl Compound {
    /// Reads the compound that begins at a place of a text. Returns where it ends.
    pub fn read(&mut self, text: &str, start: usize) -> Result<usize, OutOfMemory> {
        self.leaves.clear();
        self.suffix = 0;
        let (mut at, mut before) = (start, Level::Begin);
        loop {
            at = self.read_run(text, at, before)?;
            let Some((level, next)) = separator(text, at) else {
                break;
            };
            (at, before) = (next, level);
        }
        if let [only] = self.leaves.as_slice()
            && only.content == Content::Letters
        {
            let rest = &text[at..];
            let signs =
                usize::from(rest.starts_with('#')) + 2 * usize::from(rest.starts_with("++"));
            let (after, _) = class_at(text, at + signs);
            if signs > 0 && after == Class::Sign {
                self.suffix = signs;
                at += signs;
            }
        }
        Ok(at)
    }

    /// Reads letters and digits without signs between them. Returns where they end.
    fn read_run(&mut self, text: &str, start: usize, before: Level) -> Result<usize, OutOfMemory> {
        let (mut at, mut before) = (start, before);
        loop {
            let (class, _) = class_at(text, at);
            let leaf = match class {
                Class::Digit => number(text, at),
                Class::Lower | Class::Upper => letters(text, at),
                _ => return Ok(at),
            };
            let leaf = Leaf { before, ..leaf };
            push(&mut self.leaves, leaf)?;
            (at, before) = (leaf.end, Level::Inner);
        }
    }

    /// Adds the compound and its parts to the tokens.
    pub fn write(
        &mut self,
        text: &str,
        analysis: Analysis,
        purpose: Purpose,
        tokens: &mut Tokens,
    ) -> Result<(), OutOfMemory> {
        let mut leaves = std::mem::take(&mut self.leaves);
        count_words(&mut leaves, tokens);
        let (position, places) = leaves
            .first()
            .map_or((0, 1), |leaf| (leaf.position, leaf.places));
        let mut writer = Writer {
            text,
            analysis,
            purpose,
            at: leaves.first().map_or(0, |leaf| leaf.start),
            end: leaves.last().map_or(0, |leaf| leaf.end) + self.suffix,
            position,
            places,
            is_compound: leaves.len() > 1,
            is_needed: true,
            joined: &mut self.joined,
            tokens,
        };
        if let (Some(leaf), 1..) = (leaves.first(), self.suffix) {
            let end = leaf.end + self.suffix;
            writer.push(&text[leaf.start..end], Kind::Mixed, Weight::Whole)?;
            (writer.is_needed, writer.end) = (false, leaf.end);
            writer.push(&text[leaf.start..leaf.end], Kind::Ascii, Weight::Part)?;
        } else {
            writer.group(&leaves, Weight::Whole)?;
            writer.is_needed = false;
            writer.parts(&leaves, Level::Begin)?;
        }
        self.leaves = leaves;
        Ok(())
    }
}

/// Writes the parts of a compound.
struct Writer<'w> {
    text: &'w str,
    analysis: Analysis,
    purpose: Purpose,
    /// Where the word begins and ends that is being written, and which words of the text it is.
    at: usize,
    end: usize,
    position: u32,
    places: u32,
    is_compound: bool,
    /// The whole is being written.
    is_needed: bool,
    joined: &'w mut String,
    tokens: &'w mut Tokens,
}

impl Writer<'_> {
    /// Writes the parts of leaves that the levels below `level` divide.
    fn parts(&mut self, leaves: &[Leaf], level: Level) -> Result<(), OutOfMemory> {
        let Some(level) = level.next().filter(|_| leaves.len() > 1) else {
            return Ok(());
        };
        if level == Level::Inner && !is_divided(leaves) {
            return Ok(());
        }
        for part in leaves.chunk_by(|_, next| next.before > level) {
            if part.len() < leaves.len() && self.is_wanted(part, level) {
                self.group(part, self.weight(level))?;
            }
            self.parts(part, level)?;
        }
        Ok(())
    }

    fn weight(&self, level: Level) -> Weight {
        if self.analysis == Analysis::Code && level <= Level::Dot {
            Weight::Whole
        } else {
            Weight::Part
        }
    }

    /// A letter alone says little: it is no part if no sign sets it apart, nor in a query. Nor are
    /// short numbers in a query.
    fn is_wanted(&self, part: &[Leaf], level: Level) -> bool {
        let [leaf] = part else {
            return true;
        };
        if leaf.content == Content::Digits {
            return self.purpose == Purpose::Text || leaf.end - leaf.start > SHORT_NUMBER;
        }
        let mut characters = self.text[leaf.start..leaf.end].chars();
        let is_letter = leaf.content == Content::Letters
            && characters.next().is_some()
            && characters.next().is_none();
        !is_letter || (level < Level::Inner && self.purpose == Purpose::Text)
    }

    /// Writes leaves as one word.
    fn group(&mut self, leaves: &[Leaf], weight: Weight) -> Result<(), OutOfMemory> {
        let last = leaves[leaves.len() - 1];
        (self.at, self.end) = (leaves[0].start, last.end);
        self.position = leaves[0].position;
        self.places = last.position + last.places - self.position;
        if let [leaf] = leaves {
            return self.leaf(*leaf, weight);
        }
        let mut joined = std::mem::take(self.joined);
        joined.clear();
        let mut before: Option<&Leaf> = None;
        for leaf in leaves {
            let is_between_numbers =
                before.is_some_and(|before| before.content.is_number() && leaf.content.is_number());
            if is_between_numbers {
                joined.push('.');
            }
            push_lowercase(&mut joined, self.text, *leaf);
            before = Some(leaf);
        }
        let kind = if leaves.iter().any(|leaf| leaf.content.is_number()) {
            Kind::Mixed
        } else {
            letters_kind(&joined)
        };
        let written = self.push(&joined, kind, weight);
        *self.joined = joined;
        written
    }

    fn leaf(&mut self, leaf: Leaf, weight: Weight) -> Result<(), OutOfMemory> {
        let text = &self.text[leaf.start..leaf.end];
        match leaf.content {
            Content::Letters => self.letters(text, weight),
            Content::Digits => self.push(text, Kind::Integer, weight),
            Content::Dotted(1) => self.push(text, Kind::Decimal, weight),
            Content::Dotted(_) => {
                self.push(text, Kind::Version, weight)?;
                self.numbers(text)
            }
            Content::Thousands => {
                let digits = text.replace(',', "");
                self.push(&digits, Kind::Integer, weight)
            }
        }
    }

    fn letters(&mut self, text: &str, weight: Weight) -> Result<(), OutOfMemory> {
        if text.is_ascii() && self.analysis == Analysis::Words {
            return self.push(text, Kind::Ascii, weight);
        }
        // PostgreSQL's dictionaries know capitals of the database's locale only
        let lower = text.to_lowercase();
        if self.analysis == Analysis::Code {
            self.push(&lower, Kind::Term, weight)?;
            return self.push_stem(&lower);
        }
        self.push(&lower, Kind::Letters, weight)
    }

    /// Writes what a version begins with, and its numbers.
    fn numbers(&mut self, version: &str) -> Result<(), OutOfMemory> {
        let start = self.at;
        for (numbers, (dot, _)) in (1..).zip(version.match_indices('.')).skip(1) {
            let kind = if numbers == 2 {
                Kind::Decimal
            } else {
                Kind::Version
            };
            (self.places, self.end) = (numbers, start + dot);
            self.push_part(&version[..dot], kind)?;
        }
        let is_text = self.purpose == Purpose::Text;
        self.places = 1;
        let mut at = start;
        for (position, number) in (self.position..).zip(version.split('.')) {
            (self.position, self.at, self.end) = (position, at, at + number.len());
            at = self.end + 1; // after the dot
            if is_text || number.len() > SHORT_NUMBER {
                self.push_part(number, Kind::Integer)?;
            }
        }
        Ok(())
    }

    fn push_part(&mut self, text: &str, kind: Kind) -> Result<(), OutOfMemory> {
        self.tokens.push(Token {
            is_compound: true,
            is_needed: false,
            ..self.token(text, kind, Weight::Part)
        })
    }

    fn push_stem(&mut self, text: &str) -> Result<(), OutOfMemory> {
        self.tokens.push(Token {
            is_stem: true,
            is_needed: false,
            ..self.token(text, letters_kind(text), Weight::Part)
        })
    }

    fn push(&mut self, text: &str, kind: Kind, weight: Weight) -> Result<(), OutOfMemory> {
        self.tokens.push(self.token(text, kind, weight))
    }

    fn token<'a>(&self, text: &'a str, kind: Kind, weight: Weight) -> Token<'a> {
        Token {
            text,
            kind,
            weight,
            is_compound: self.is_compound,
            is_stem: false,
            is_needed: self.is_needed,
            at: self.at,
            end: self.end,
            position: self.position,
            places: self.places,
        }
    }
}

/// Counts the words of a compound. A run that is not divided is one, and each number of a version.
fn count_words(leaves: &mut [Leaf], tokens: &mut Tokens) {
    for run in leaves.chunk_by_mut(|_, next| next.before == Level::Inner) {
        if run.len() > 1 && !is_divided(run) {
            let position = tokens.take_positions(1);
            run.iter_mut().for_each(|leaf| leaf.position = position);
            continue;
        }
        for leaf in run {
            if let Content::Dotted(dots @ 2..) = leaf.content {
                leaf.places = dots + 1;
            }
            leaf.position = tokens.take_positions(leaf.places);
        }
    }
}

fn letters_kind(text: &str) -> Kind {
    if text.is_ascii() {
        Kind::Ascii
    } else {
        Kind::Letters
    }
}

/// Returns true if a run is to be divided where capitals and digits begin.
fn is_divided(leaves: &[Leaf]) -> bool {
    let bytes = leaves[leaves.len() - 1].end - leaves[0].start;
    leaves.len() <= FEW_PIECES || 2 * bytes >= LONG_PIECES * leaves.len()
}

fn push_lowercase(joined: &mut String, text: &str, leaf: Leaf) {
    let text = &text[leaf.start..leaf.end];
    if text.is_ascii() {
        let letters = text.bytes().filter(|byte| *byte != b',');
        joined.extend(letters.map(|byte| char::from(byte.to_ascii_lowercase())));
    } else {
        joined.push_str(&text.to_lowercase());
    }
}

/// Returns the level of the signs at a place, and where they end, if the compound goes on after
/// them.
fn separator(text: &str, at: usize) -> Option<(Level, usize)> {
    let rest = &text.as_bytes()[at..];
    let first = *rest.first()?;
    let run = |signs: &[u8], most: usize| {
        let others = rest
            .iter()
            .take(most + 1)
            .take_while(|byte| signs.contains(byte));
        Some(others.count()).filter(|count| *count <= most)
    };
    let (level, signs) = match first {
        b'/' | b'\\' | b':' => (Level::Slash, run(b"/\\:", 3)?),
        b'@' => (Level::Slash, 1),
        b'.' => (Level::Dot, 1),
        b'-' => (Level::Hyphen, 1),
        b'_' => (Level::Hyphen, run(b"_", 2)?),
        b'&' if entity_end(text, at).is_none() => (Level::Hyphen, 1),
        _ if rest.starts_with("\u{2010}".as_bytes()) => (Level::Hyphen, 3),
        _ => return None,
    };
    let (next, _) = class_at(text, at + signs);
    next.is_spaced().then_some((level, at + signs))
}

/// Reads letters until a digit, a sign, or a capital that begins a word.
fn letters(text: &str, start: usize) -> Leaf {
    let (mut at, mut capitals) = (start, 0);
    // the class of the letter before, and where it begins
    let mut before = (Class::Sign, start);
    let end = loop {
        let (class, bytes) = class_at(text, at);
        match class {
            Class::Mark => {}
            Class::Upper if before.0 == Class::Lower => break at,
            Class::Upper => {
                capitals += 1;
                before = (class, at);
            }
            // `XMLHttp` is XML and Http, but `URLs` is one word
            Class::Lower if capitals > 1 && before.0 == Class::Upper && !is_plural(text, at) => {
                break before.1;
            }
            Class::Lower => before = (class, at),
            _ => break at,
        }
        at += bytes;
    };
    Leaf {
        start,
        end,
        before: Level::Begin,
        content: Content::Letters,
        position: 0,
        places: 1,
    }
}

/// Returns true if an `s` at a place ends a word.
fn is_plural(text: &str, at: usize) -> bool {
    text.as_bytes()[at] == b's' && class_at(text, at + 1).0 != Class::Lower
}

/// Reads a number, with dots or commas in it.
fn number(text: &str, start: usize) -> Leaf {
    let digits = |mut at: usize| {
        while let (Class::Digit, bytes) | (Class::Mark, bytes @ 1..) = class_at(text, at) {
            at += bytes;
        }
        at
    };
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = digits(start);
    let mut content = Content::Digits;
    let mut dots = 0;
    while bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
        end = digits(end + 1);
        dots += 1;
        content = Content::Dotted(dots);
    }
    if dots == 0 && end - start <= 3 {
        let is_thousand = |at: usize| {
            bytes.get(at) == Some(&b',') && (1..4).all(|i| is_digit(at + i)) && !is_digit(at + 4)
        };
        while is_thousand(end) {
            end += 4;
            content = Content::Thousands;
        }
    }
    Leaf {
        start,
        end,
        before: Level::Begin,
        content,
        position: 0,
        places: 1,
    }
}
