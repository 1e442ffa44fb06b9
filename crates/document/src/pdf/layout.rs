//! From characters with their places to lines of text.
//!
//! Characters come in the order in which they are read. They are seen in a frame of their
//! direction: `u` runs along the text, `v` upwards from it; so a page that is turned is a page like
//! any other.
//!
//! * A *line* is what shares a baseline, superscripts and subscripts included.
//! * A *piece* of a line has no wide gaps. Pieces of a row of a table may be drawn in any order;
//!   they are put in order and parted by tabs.
//! * A *word* ends where a space is drawn or where there is a gap. A text with letters set far
//!   apart is seen by its equal gaps.
//!
//! What is drawn twice to look bold is read once.
//!
//! Lengths are in multiples of the size of the characters (em) unless something else is said.

use std::{collections::HashMap, f32::consts::PI};

use super::pages::{Line, Page};

/// Between words there is at least this gap. It is poppler's, and good.
const WORD: f32 = 0.1;
/// Between cells there is at least this gap.
const CELL: f32 = 1.5;
/// How far baselines of one line may be apart.
const BASELINE: f32 = 0.2;
/// How far that of a superscript or subscript may be from its line's.
const SCRIPT: f32 = 0.6;
/// The widest gap between a character and its superscript.
const SCRIPT_GAP: f32 = 0.5;
/// The widest gap between letters that are set apart.
const LETTER: f32 = 0.4;
/// What is drawn again no further away is the same.
const TWICE: f32 = 0.1;
/// A paragraph begins where lines are so many times further apart than elsewhere on the page.
const PARAGRAPH: f32 = 1.35;

#[derive(Debug, Clone, Copy)]
pub struct Glyph {
    pub c: char,
    pub frame: Frame,
    /// In points.
    pub size: f32,
    /// What it is drawn with; a ligature's letters share their place and this.
    pub object: usize,
    /// Whether the reader saw a line end before it.
    pub new_line: bool,
}

/// Where a character is, in points, seen along its direction.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Degrees, counter-clockwise, 0 to 359.
    pub angle: i16,
    pub u: f32,
    pub end: f32,
    pub v: f32,
}

impl Frame {
    /// That of a character at `(x, y)`, so wide and with its direction in radians.
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

    /// The empty room between two characters of a line, whichever is first; negative where they
    /// overlap.
    fn gap(&self, other: &Self) -> f32 {
        (other.u - self.end).max(self.u - other.end)
    }
}

/// Puts the characters of a page together, and those of pictures in the lines that they stand in.
/// The result is a page that is whole.
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

/// Without what is drawn a second time in the same place.
fn once(glyphs: Vec<Glyph>) -> Vec<Glyph> {
    /// The side of a square of the grid, in points. No more than [`TWICE`] of the largest size
    /// looked for.
    const SIDE: f32 = 2.0;
    let square = |glyph: &Glyph| {
        (
            (glyph.frame.u / SIDE).floor() as i32,
            (glyph.frame.v / SIDE).floor() as i32,
        )
    };
    let is_same = |a: &Glyph, b: &Glyph| {
        let near = (TWICE * b.size).min(SIDE);
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
                let near = (TWICE * glyph.size).min(SIDE);
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
    /// The gap before it; infinite where a space is drawn.
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
        // set from top to bottom
        !glyph.new_line
            && is_ideograph(self.last.c)
            && is_ideograph(glyph.c)
            && (next.u - last.u).abs() < 0.3 * size
    }

    /// Whether a picture stands in the line.
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
        // a script does not move the line
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

    /// Adds a character after the given gap, or to the last word.
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

    /// The gap up to which letters make a word, where all are set apart: else 0.
    fn gap_of_letters(&self) -> f32 {
        const FEWEST: usize = 4;
        let is_letter = |word: &Word| {
            let mut characters = word.text.chars();
            characters.next().is_some_and(char::is_alphabetic)
                && characters.all(|c| !c.is_alphanumeric())
        };
        if self.words.len() < FEWEST || !self.words.iter().all(is_letter) {
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
    matches!(c, '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}' | '\u{10800}'..='\u{10FFF}')
}

/// A character of a script that puts no spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
}

/// The lines in order. A paragraph begins where there is more room above a line than is usual on
/// the page.
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
        // rows of a table are set apart and belong together
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
mod tests {
    use super::*;

    /// Characters half an em wide, at (x, y) in points, 10 points high.
    fn text(x: f32, y: f32, text: &str) -> Vec<Glyph> {
        let place = |(i, c)| Glyph {
            c,
            frame: Frame::of(x + 5.0 * i as f32, y, 0.0, 5.0),
            size: 10.0,
            object: (x * 7.0 + y * 1000.0) as usize,
            new_line: false,
        };
        text.chars().enumerate().map(place).collect()
    }

    fn read(glyphs: &[Vec<Glyph>]) -> Vec<String> {
        page(glyphs.concat(), vec![])
            .lines
            .into_iter()
            .map(|line| line.text)
            .collect()
    }

    #[test]
    fn cells_of_a_row_are_put_in_order_and_parted() {
        let row = [
            text(300.0, 700.0, "2.50"),
            text(72.0, 700.0, "Green tea"),
            text(72.0, 680.0, "Coffee"),
        ];
        assert_eq!(read(&row), ["Green tea\t2.50", "Coffee"]);
    }

    #[test]
    fn a_picture_that_is_text_stands_in_its_line() {
        let rows = [text(72.0, 700.0, "Green tea"), text(72.0, 680.0, "Coffee")].concat();
        let lines = page(rows, text(150.0, 701.0, "\u{1F375}!")).lines;
        assert_eq!(lines[0].text, "Green tea\t\u{1F375}!");
    }

    #[test]
    fn what_is_drawn_twice_is_read_once() {
        assert_eq!(
            read(&[
                text(72.0, 700.0, "Bold bells"),
                text(72.3, 700.2, "Bold bells")
            ]),
            ["Bold bells"]
        );
    }

    #[test]
    fn the_number_of_a_note_is_no_part_of_a_number() {
        let mut note = text(92.0, 704.0, "1");
        note[0].size = 6.0;
        assert_eq!(read(&[text(72.0, 700.0, "8935"), note.clone()]), ["8935 1"]);
        assert_eq!(read(&[text(72.0, 700.0, "word"), note]), ["word1"]);
    }

    #[test]
    fn letters_set_apart_are_words() {
        let apart = |text: &str| -> Vec<Glyph> {
            let place = |(i, c)| Glyph {
                c,
                frame: Frame::of(72.0 + 8.0 * i as f32, 700.0, 0.0, 5.0),
                size: 10.0,
                object: 1,
                new_line: false,
            };
            text.chars()
                .enumerate()
                .filter(|(_, c)| *c != '_')
                .map(place)
                .collect()
        };
        assert_eq!(read(&[apart("TEA_TIME")]), ["TEA TIME"]);
        // what may be a row of numbers is left alone
        assert_eq!(read(&[apart("12345")]), ["1 2 3 4 5"]);
    }

    #[test]
    fn a_turned_text_is_read_like_any_other() {
        let turned = |angle: f32| {
            let (sin, cos) = angle.sin_cos();
            let turn = |glyph: Glyph| {
                let Frame { u, v, .. } = glyph.frame;
                Glyph {
                    frame: Frame::of(u * cos - v * sin, u * sin + v * cos, angle, 5.0),
                    ..glyph
                }
            };
            let lines = [
                text(72.0, 700.0, "Total for"),
                text(300.0, 700.0, "2019"),
                text(72.0, 680.0, "next"),
            ];
            let lines = lines.map(|glyphs| glyphs.into_iter().map(turn).collect::<Vec<_>>());
            page(lines.concat(), vec![])
        };
        for degrees in [0, 90, 180, 270] {
            let page = turned(degrees as f32 * PI / 180.0);
            let lines: Vec<&str> = page.lines.iter().map(|line| line.text.as_str()).collect();
            assert_eq!(lines, ["Total for\t2019", "next"], "{degrees}");
            assert!(page.lines[0].level > page.lines[1].level, "{degrees}");
        }
    }
}
