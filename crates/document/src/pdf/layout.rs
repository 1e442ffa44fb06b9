//! Arranges characters with positions into lines of text.
//!
//! Characters come in reading order. Their positions are in a frame along their direction: `u` runs
//! along the text, `v` upwards from it. So a rotated page needs no special treatment.
//!
//! * A *line* has one baseline. It includes superscripts and subscripts.
//! * A *piece* of a line has no wide gaps. The pieces of a table row may be drawn in any order.
//!   They are sorted and separated by tabs.
//! * A *word* ends at a drawn space or at a gap. Letter-spaced text is recognized by its equal
//!   gaps.
//!
//! Text that is drawn twice to look bold is read once. Columns are read in the order in which they
//! are drawn: a table that is drawn by column looks like columns of prose.
//!
//! Lengths are multiples of the character size (em) unless stated otherwise.

use std::{collections::HashMap, f32::consts::PI};

use super::pages::{Line, Page};

/// Minimum gap between words: the value of poppler.
const WORD: f32 = 0.1;
/// Minimum gap between cells.
const CELL: f32 = 1.5;
/// Maximum distance between baselines of one line.
const BASELINE: f32 = 0.2;
/// Maximum distance of a superscript or subscript from its line's baseline.
const SCRIPT: f32 = 0.6;
/// Maximum gap between a character and its superscript.
const SCRIPT_GAP: f32 = 0.5;
/// Maximum gap between letters of letter-spaced text.
const LETTER: f32 = 0.4;
/// Maximum distance between a character and its duplicate.
const DUPLICATE: f32 = 0.1;
/// A paragraph begins where the distance between lines is this multiple of the usual one.
const PARAGRAPH: f32 = 1.35;

#[derive(Debug, Clone, Copy)]
pub struct Glyph {
    pub c: char,
    pub frame: Frame,
    /// In points.
    pub size: f32,
    /// The text object that draws it. The letters of a ligature share their position and this.
    pub object: usize,
    /// True if the reader saw a line end before the character.
    pub new_line: bool,
}

/// The position of a character in points, along its direction.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Degrees, counter-clockwise, 0 to 359.
    pub angle: i16,
    pub u: f32,
    pub end: f32,
    pub v: f32,
}

impl Frame {
    /// The frame of a character at `(x, y)` with this width and this direction in radians.
    pub fn of(x: f32, y: f32, angle: f32, width: f32) -> Self {
        let degrees = (angle * 180.0 / PI).round().rem_euclid(360.0);
        let (sin, cos) = (degrees * PI / 180.0).sin_cos();
        let u = x * cos + y * sin;
        Self {
            angle: degrees as i16,
            u,
            end: u + width.max(0.0),
            v: y * cos - x * sin,
        }
    }

    /// Returns the gap between two characters of a line, in either order. It is negative if they
    /// overlap.
    fn gap(&self, other: &Self) -> f32 {
        (other.u - self.end).max(self.u - other.end)
    }
}

/// Builds a page from its characters. Characters of pictures join the lines that they stand in.
pub fn page(glyphs: Vec<Glyph>, pictures: Vec<Glyph>) -> Page {
    let mut rows: Vec<Row> = vec![];
    let mut space = false;
    for glyph in once(glyphs) {
        if glyph.c.is_whitespace() || glyph.c.is_control() {
            space = true;
            continue;
        }
        let space = std::mem::take(&mut space);
        match rows.last_mut().filter(|row| row.takes(&glyph)) {
            Some(row) => row.push(glyph, space),
            None => rows.push(Row::new(glyph)),
        }
    }
    for glyph in pictures {
        match rows.iter_mut().find(|row| row.is_beside(&glyph)) {
            Some(row) => row.pieces.push(Piece::new(&glyph)),
            None => rows.push(Row::new(glyph)),
        }
    }
    Page {
        lines: lines(rows),
        is_whole: true,
        ..Page::default()
    }
}

/// Returns the characters without those that are drawn a second time in the same place.
fn once(glyphs: Vec<Glyph>) -> Vec<Glyph> {
    /// Side of a grid square in points. Duplicates are at most this far apart.
    const SIDE: f32 = 2.0;
    let square = |glyph: &Glyph| {
        (
            (glyph.frame.u / SIDE).floor() as i32,
            (glyph.frame.v / SIDE).floor() as i32,
        )
    };
    let is_same = |a: &Glyph, b: &Glyph| {
        let near = (DUPLICATE * b.size).min(SIDE);
        a.c == b.c
            && a.frame.angle == b.frame.angle
            && (a.frame.u - b.frame.u).abs() <= near
            && (a.frame.v - b.frame.v).abs() <= near
    };
    let mut seen: HashMap<(char, i32, i32), usize> = HashMap::with_capacity(glyphs.len());
    let mut kept: Vec<Glyph> = Vec::with_capacity(glyphs.len());
    let mut before: Option<(Glyph, bool)> = None;
    for glyph in glyphs {
        let ligature = |(previous, _): &(Glyph, bool)| {
            previous.object == glyph.object
                && previous.frame.u == glyph.frame.u
                && previous.frame.v == glyph.frame.v
                && !glyph.c.is_whitespace()
        };
        let again = match before.filter(ligature) {
            Some((_, again)) => again,
            None if glyph.c.is_whitespace() => false,
            None => {
                let near = (DUPLICATE * glyph.size).min(SIDE);
                let squares = |at: f32| {
                    ((at - near) / SIDE).floor() as i32..=((at + near) / SIDE).floor() as i32
                };
                let mut keys = squares(glyph.frame.u)
                    .flat_map(|x| squares(glyph.frame.v).map(move |y| (glyph.c, x, y)));
                keys.any(|key| {
                    seen.get(&key)
                        .and_then(|at| kept.get(*at))
                        .is_some_and(|there| is_same(there, &glyph))
                })
            }
        };
        before = Some((glyph, again));
        if !again {
            let (column, row) = square(&glyph);
            seen.insert((glyph.c, column, row), kept.len());
            kept.push(glyph);
        }
    }
    kept
}

/// A line under construction.
#[derive(Debug)]
struct Row {
    pieces: Vec<Piece>,
    /// Its baseline.
    v: f32,
    /// Its largest.
    size: f32,
    last: Glyph,
    is_rtl: bool,
}

#[derive(Debug)]
struct Piece {
    words: Vec<Word>,
    u: f32,
    end: f32,
}

#[derive(Debug)]
struct Word {
    text: String,
    /// The gap before the word; infinite after a drawn space.
    gap: f32,
}

impl Row {
    fn new(glyph: Glyph) -> Self {
        Self {
            pieces: vec![Piece::new(&glyph)],
            v: glyph.frame.v,
            size: glyph.size,
            last: glyph,
            is_rtl: is_rtl(glyph.c),
        }
    }

    fn takes(&self, glyph: &Glyph) -> bool {
        let (last, next) = (&self.last.frame, &glyph.frame);
        if last.angle != next.angle {
            return false;
        }
        let size = self.size.max(glyph.size);
        let rise = (next.v - self.v).abs();
        if rise <= BASELINE * size.min(2.0 * self.size.min(glyph.size)) {
            return true;
        }
        let gap = last.gap(next);
        if rise <= SCRIPT * size && gap <= SCRIPT_GAP * size && gap > -0.5 * size {
            return true;
        }
        // Vertical text.
        !glyph.new_line
            && is_ideograph(self.last.c)
            && is_ideograph(glyph.c)
            && (next.u - last.u).abs() < 0.3 * size
    }

    /// Returns true if a picture stands in the line.
    fn is_beside(&self, picture: &Glyph) -> bool {
        self.last.frame.angle == picture.frame.angle
            && (self.v - picture.frame.v).abs() < 2.0 * BASELINE * self.size
    }

    fn push(&mut self, glyph: Glyph, space: bool) {
        let (last, next) = (self.last.frame, glyph.frame);
        let size = self.size.max(glyph.size).min(2.0 * glyph.size);
        let gap = last.gap(&next) / size.max(f32::MIN_POSITIVE);
        let is_back = next.end < last.u;
        self.is_rtl |= is_rtl(glyph.c);
        let is_number_of_note = self.last.c.is_ascii_digit()
            && glyph.c.is_ascii_digit()
            && (next.v - last.v).abs() > BASELINE * self.size.max(glyph.size);
        let is_ideographs = is_ideograph(self.last.c) && is_ideograph(glyph.c);
        if gap >= CELL || (is_back && gap > WORD && !self.is_rtl) {
            self.pieces.push(Piece::new(&glyph));
        } else if let Some(piece) = self.pieces.last_mut() {
            let apart = if is_ideographs {
                gap > 2.0 * LETTER
            } else {
                gap > WORD
            };
            let gap = if space || is_number_of_note {
                f32::INFINITY
            } else {
                gap
            };
            piece.push(&glyph, (apart || gap.is_infinite()).then_some(gap));
        }
        // A superscript or subscript does not move the baseline.
        if glyph.size > 1.2 * self.size && (next.v - self.v).abs() < SCRIPT * glyph.size {
            self.v = next.v;
        }
        self.size = self.size.max(glyph.size);
        self.last = glyph;
    }

    fn text(mut self) -> String {
        if !self.is_rtl {
            self.pieces.sort_by(|a, b| a.u.total_cmp(&b.u));
        }
        let mut text = String::new();
        let mut end = f32::NEG_INFINITY;
        for piece in &mut self.pieces {
            if !text.is_empty() {
                let gap = (piece.u - end) / self.size;
                let is_cut = !self.is_rtl && (-WORD..=WORD).contains(&gap);
                text.push_str(if is_cut {
                    ""
                } else if self.is_rtl || gap < CELL {
                    " "
                } else {
                    "\t"
                });
            }
            end = piece.end;
            piece.write(&mut text);
        }
        text
    }
}

impl Piece {
    fn new(glyph: &Glyph) -> Self {
        let word = Word {
            text: glyph.c.into(),
            gap: f32::INFINITY,
        };
        Self {
            words: vec![word],
            u: glyph.frame.u,
            end: glyph.frame.end,
        }
    }

    /// Adds a character: to a new word after the given gap, or to the last word.
    fn push(&mut self, glyph: &Glyph, gap: Option<f32>) {
        self.u = self.u.min(glyph.frame.u);
        self.end = self.end.max(glyph.frame.end);
        match (gap, self.words.last_mut()) {
            (None, Some(word)) => word.text.push(glyph.c),
            (gap, _) => self.words.push(Word {
                text: glyph.c.into(),
                gap: gap.unwrap_or(f32::INFINITY),
            }),
        }
    }

    fn write(&self, text: &mut String) {
        let together = self.gap_of_letters();
        for (i, word) in self.words.iter().enumerate() {
            if i > 0 && word.gap > together {
                text.push(' ');
            }
            text.push_str(&word.text);
        }
    }

    /// Returns the maximum gap within a word of letter-spaced text, or 0 for other text.
    fn gap_of_letters(&self) -> f32 {
        const MIN_LETTERS: usize = 4;
        let is_letter = |word: &Word| {
            let mut characters = word.text.chars();
            characters.next().is_some_and(char::is_alphabetic)
                && characters.all(|c| !c.is_alphanumeric())
        };
        if self.words.len() < MIN_LETTERS || !self.words.iter().all(is_letter) {
            return 0.0;
        }
        let least = self
            .words
            .iter()
            .skip(1)
            .map(|word| word.gap)
            .fold(f32::INFINITY, f32::min);
        if least <= LETTER { least * 1.5 } else { 0.0 }
    }
}

fn is_rtl(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}'
        | '\u{10800}'..='\u{10FFF}')
}

/// Returns true for characters of scripts that put no spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Returns the lines in order. A paragraph begins where the distance to the line above is larger
/// than usual on the page.
fn lines(rows: Vec<Row>) -> Vec<Line> {
    let main = main_angle(&rows);
    let drop = |above: &Row, below: &Row| {
        (above.v - below.v) / above.size.min(below.size).max(f32::MIN_POSITIVE)
    };
    let mut drops: Vec<f32> = rows
        .windows(2)
        .map(|pair| drop(&pair[0], &pair[1]))
        .filter(|drop| (0.5..3.0).contains(drop))
        .collect();
    drops.sort_by(f32::total_cmp);
    let usual = drops
        .get(drops.len() / 2)
        .copied()
        .unwrap_or(1.2)
        .clamp(1.0, 2.2);
    let begins = |above: &Row, below: &Row| {
        // Rows of a table are set apart and belong together.
        let is_table = above.pieces.len() > 1 && below.pieces.len() > 1;
        drop(above, below) > usual * if is_table { 2.0 * PARAGRAPH } else { PARAGRAPH }
    };
    let begins: Vec<bool> = rows
        .windows(2)
        .map(|pair| begins(&pair[0], &pair[1]))
        .collect();
    rows.into_iter()
        .enumerate()
        .map(|(i, row)| Line {
            level: (row.last.frame.angle == main).then_some(row.v),
            begins: i > 0 && begins.get(i - 1).copied().unwrap_or_default(),
            text: row.text(),
        })
        .collect()
}

fn main_angle(rows: &[Row]) -> i16 {
    let mut of_angle: HashMap<i16, usize> = HashMap::new();
    for row in rows {
        *of_angle.entry(row.last.frame.angle).or_default() += row.pieces.len();
    }
    of_angle
        .into_iter()
        .max_by_key(|(angle, count)| (*count, -angle))
        .map_or(0, |(angle, _)| angle)
}

#[cfg(test)]
mod tests;
