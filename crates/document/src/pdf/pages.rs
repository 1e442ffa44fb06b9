//! Turns the lines of pages into their text. Removes running heads and feet, and joins words that
//! were hyphenated at line ends.

use std::collections::HashSet;

/// A page as the reader sees it.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// In reading order.
    pub lines: Vec<Line>,
    /// True if the whole page could be read.
    pub is_whole: bool,
    pub drawn: Drawn,
    /// Number of characters that are drawn and cannot be identified.
    pub unmapped: usize,
}

/// What a page shows beside its text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Drawn {
    pub has_image: bool,
    /// An image takes most of the page.
    pub is_covered: bool,
    /// There are lines and areas, which may be letters.
    pub has_lines: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Cells of a row are separated by tabs.
    pub text: String,
    /// Vertical position; higher is further up. `None` if the line runs in another direction than
    /// most of the page.
    pub level: Option<f32>,
    /// True if a paragraph begins with this line.
    pub begins: bool,
}

impl Page {
    /// A page that could not be read.
    pub fn lost() -> Self {
        Self::default()
    }

    pub fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| line.text.trim().is_empty())
    }

    /// Returns true if the page is a picture: nothing of its text is known.
    pub fn is_picture(&self) -> bool {
        self.is_whole && self.is_blank() && self.drawn.has_image && self.unmapped == 0
    }

    /// Returns true if the page may show more text than is known. A scan often has a line of text
    /// above it, which the program has added that made it.
    pub fn may_show_more(&self) -> bool {
        const FEW_LETTERS: usize = 100;
        let (drawn, is_blank) = (self.drawn, self.is_blank());
        self.is_whole
            && (self.is_garbled()
                || is_blank && (drawn.has_image || drawn.has_lines)
                || drawn.is_covered && self.letters() < FEW_LETTERS)
    }

    /// Returns the number of letters and digits that are known.
    pub fn letters(&self) -> usize {
        let chars = self.lines.iter().flat_map(|line| line.text.chars());
        chars.filter(|c| c.is_alphanumeric()).count()
    }

    /// Returns true if so many characters cannot be identified that a warning is due: more than one
    /// in fifty.
    pub fn is_garbled(&self) -> bool {
        let known: usize = self
            .lines
            .iter()
            .map(|line| line.text.chars().filter(|c| !c.is_whitespace()).count())
            .sum();
        self.unmapped * 50 > known + self.unmapped
    }
}

/// Returns the texts of all pages, in order.
pub fn texts(mut pages: Vec<Page>) -> Vec<String> {
    for (page, running) in running(&pages).into_iter().enumerate() {
        let mut index = 0;
        let lines = &mut pages[page].lines;
        lines.retain(|_| {
            index += 1;
            !running.contains(&(index - 1))
        });
    }
    let words = words(&pages);
    pages.iter().map(|page| text(&page.lines, &words)).collect()
}

/// Minimum number of neighbouring pages that a running line appears on.
const PAGES: usize = 3;
/// Maximum distance between neighbours. Left and right pages may have different heads.
const REACH: usize = 4;
/// Maximum number of running lines at an edge.
const DEPTH: usize = 2;
/// A row with this number of cells belongs to a table, which may repeat its head on each page.
const CELLS: usize = 4;

/// Returns for each page the indexes of its running heads and feet. These are lines, from the edge
/// inwards, that appear on neighbouring pages as well, except for the page number.
fn running(pages: &[Page]) -> Vec<HashSet<usize>> {
    let edges: Vec<[Vec<Band>; 2]> = pages.iter().map(edges).collect();
    let runs = |page: usize, edge: usize, depth: usize| {
        let Some(band) = edges[page][edge]
            .get(depth)
            .filter(|band| band.cells() < CELLS)
        else {
            return false;
        };
        let neighbours = page.saturating_sub(REACH)..(page + REACH + 1).min(edges.len());
        let alike = |other: &usize| {
            edges[*other][edge]
                .get(depth)
                .is_some_and(|there| band.is_like(there, *other as i64 - page as i64))
        };
        neighbours
            .filter(|other| *other != page)
            .filter(alike)
            .count()
            + 1
            >= PAGES
    };
    let mut running: Vec<[usize; 2]> = vec![];
    let mut numbering = HashSet::new();
    for (page, bands) in edges.iter().enumerate() {
        let depths = [0, 1].map(|edge| {
            (0..DEPTH)
                .take_while(|depth| runs(page, edge, *depth))
                .count()
        });
        for (edge, depth) in depths.into_iter().enumerate() {
            let numbers = bands[edge][..depth].iter().filter_map(Band::number);
            numbering.extend(numbers.map(|number| number - page as i64));
        }
        running.push(depths);
    }
    // The first page of a chapter may have its number in another place.
    let is_number = |page: usize, edge: usize| {
        let number = edges[page][edge].first().and_then(Band::number_alone);
        number.is_some_and(|number| numbering.contains(&(number - page as i64)))
    };
    let of_page = |page: usize| -> HashSet<usize> {
        let mut found = HashSet::new();
        for edge in 0..2 {
            let depth = running[page][edge].max(usize::from(is_number(page, edge)));
            found.extend(
                edges[page][edge][..depth]
                    .iter()
                    .flat_map(|band| &band.lines),
            );
        }
        // A page with nothing but running lines keeps them.
        if found.len() < pages[page].lines.len() {
            found
        } else {
            HashSet::new()
        }
    };
    (0..pages.len()).map(of_page).collect()
}

/// Lines side by side.
struct Band {
    lines: Vec<usize>,
    parts: Vec<Part>,
}

#[derive(PartialEq)]
enum Part {
    Text(String),
    Number(i64),
}

/// Returns the bands at the top and at the bottom of a page, from the edge inwards.
fn edges(page: &Page) -> [Vec<Band>; 2] {
    /// Lines whose heights differ by less than this number of points are side by side.
    const SAME_HEIGHT: f32 = 2.0;
    let mut order: Vec<(usize, f32)> = page
        .lines
        .iter()
        .enumerate()
        .filter_map(|(i, line)| Some((i, line.level?)))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let bands: Vec<&[(usize, f32)]> = order
        .chunk_by(|a, b| (a.1 - b.1).abs() < SAME_HEIGHT)
        .collect();
    let band = |lines: &&[(usize, f32)]| Band::new(page, lines.iter().map(|(i, _)| *i).collect());
    [
        bands.iter().take(DEPTH).map(band).collect(),
        bands.iter().rev().take(DEPTH).map(band).collect(),
    ]
}

impl Band {
    fn new(page: &Page, mut lines: Vec<usize>) -> Self {
        lines.sort_unstable();
        let mut parts = vec![];
        for &line in &lines {
            parts_of(&page.lines[line].text, &mut parts);
        }
        Self { lines, parts }
    }

    /// Returns the number, if there is exactly one.
    fn number(&self) -> Option<i64> {
        let mut numbers = self.parts.iter().filter_map(|part| match part {
            Part::Number(number) => Some(*number),
            Part::Text(_) => None,
        });
        numbers.next().filter(|_| numbers.next().is_none())
    }

    fn number_alone(&self) -> Option<i64> {
        self.number().filter(|_| self.parts.len() == 1)
    }

    fn cells(&self) -> usize {
        self.lines.len()
            + self
                .parts
                .iter()
                .filter(|part| matches!(part, Part::Text(text) if text == "\t"))
                .count()
    }

    /// Returns true if the other band, this number of pages further, has the same text, except for
    /// numbers that count pages.
    fn is_like(&self, other: &Self, pages: i64) -> bool {
        let mut has_text = false;
        let mut counts = false;
        let pairs = || self.parts.iter().zip(&other.parts);
        let alike = self.parts.len() == other.parts.len()
            && pairs().all(|pair| match pair {
                (Part::Number(a), Part::Number(b)) => {
                    counts |= b - a == pages;
                    a == b || b - a == pages
                }
                (a, b) => {
                    has_text |=
                        matches!(a, Part::Text(text) if text.chars().any(char::is_alphabetic));
                    a == b
                }
            });
        alike && (has_text || counts)
    }
}

fn parts_of(text: &str, parts: &mut Vec<Part>) {
    let alone = roman(text.trim());
    if let Some(number) = alone {
        return parts.push(Part::Number(number));
    }
    for (i, cell) in text.split('\t').enumerate() {
        if i > 0 {
            parts.push(Part::Text("\t".into()));
        }
        let cell = cell.split_whitespace().collect::<Vec<_>>().join(" ");
        for run in cell
            .chars()
            .collect::<Vec<_>>()
            .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        {
            let run: String = run.iter().collect();
            parts.push(match run.parse() {
                Ok(number) if run.len() < 7 && run.bytes().all(|b| b.is_ascii_digit()) => {
                    Part::Number(number)
                }
                _ => Part::Text(run),
            });
        }
    }
}

/// Parses a Roman page number.
fn roman(text: &str) -> Option<i64> {
    let mut value = 0;
    let mut before = 0;
    for c in text.chars() {
        let digit = match c.to_ascii_lowercase() {
            'i' => 1,
            'v' => 5,
            'x' => 10,
            'l' => 50,
            'c' => 100,
            _ => return None,
        };
        value += digit;
        if digit > before {
            value -= 2 * before;
        }
        before = digit;
    }
    (value > 0 && text.len() < 10).then_some(value)
}

/// Hyphens that may end a line within a word.
const HYPHENS: [char; 2] = ['-', '\u{2010}'];

/// Returns all words within lines, in lower case, if any line ends in a hyphen.
fn words(pages: &[Page]) -> HashSet<String> {
    let lines = || pages.iter().flat_map(|page| &page.lines);
    if !lines().any(|line| line.text.ends_with(HYPHENS)) {
        return HashSet::new();
    }
    lines()
        .flat_map(|line| line.text.split_whitespace())
        .map(bare)
        .filter(|word| !word.ends_with(HYPHENS))
        .collect()
}

/// Returns a word without surrounding punctuation.
fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_alphanumeric() && !HYPHENS.contains(&c))
        .to_lowercase()
}

fn text(lines: &[Line], words: &HashSet<String>) -> String {
    let mut text = String::new();
    for line in lines {
        let written = line.text.trim_end();
        if written.trim().is_empty() {
            continue;
        }
        match if line.begins {
            Join::Apart
        } else {
            join(&text, written, words)
        } {
            Join::Whole => {
                text.pop();
            }
            Join::Hyphenated => {}
            Join::Apart if text.is_empty() => {}
            Join::Apart => text.push_str(if line.begins { "\n\n" } else { "\n" }),
        }
        text.push_str(written);
    }
    text
}

enum Join {
    /// One word: drop the hyphen.
    Whole,
    /// One word that has a hyphen.
    Hyphenated,
    /// Two lines.
    Apart,
}

/// Determines how a line continues the text before it.
fn join(before: &str, line: &str, words: &HashSet<String>) -> Join {
    /// Words that may follow a hyphen that stands for a word's end ("Vor- und Nachteile").
    const AND: [&str; 3] = ["und", "oder", "bzw"];
    let Some(rest) = before.strip_suffix(HYPHENS) else {
        return Join::Apart;
    };
    let last = rest.split_whitespace().next_back().unwrap_or_default();
    let first = line.split_whitespace().next().unwrap_or_default();
    let may_be_cut = rest.ends_with(char::is_alphabetic) && first.starts_with(char::is_alphabetic);
    if !may_be_cut || line.contains('\t') {
        return Join::Apart;
    }
    if words.contains(&bare(&format!("{last}{first}"))) {
        return Join::Whole;
    }
    if !first.starts_with(char::is_lowercase) || AND.contains(&bare(first).as_str()) {
        return Join::Apart;
    }
    if words.contains(&bare(&format!("{last}-{first}"))) {
        Join::Hyphenated
    } else {
        Join::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a page of lines from the top. A line that starts with a pilcrow begins a paragraph.
    fn page(text: &str) -> Page {
        let line = |(i, text): (usize, &str)| Line {
            text: text.trim_start_matches('¶').into(),
            level: Some(-10.0 * i as f32),
            begins: text.starts_with('¶'),
        };
        Page {
            lines: text.lines().enumerate().map(line).collect(),
            is_whole: true,
            ..Page::default()
        }
    }

    fn texts_of(pages: &[&str]) -> Vec<String> {
        texts(pages.iter().map(|text| page(text)).collect())
    }

    #[test]
    fn running_heads_and_feet_are_dropped() {
        let left = |n| {
            format!(
                "{n}\tHandbook of Tea\ntea {}\nRow {} 7\nDraft",
                n * n,
                n * n
            )
        };
        let right = |n| format!("Pouring\t{n}\ntea {}\nRow {} 8\nDraft", n * n, n * n);
        let pages = [left(2), right(3), left(4), right(5), left(6), right(7)];
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let found = texts_of(&pages);
        assert_eq!(found[0], "tea 4\nRow 4 7");
        assert_eq!(found[3], "tea 25\nRow 25 8");
        // The first page of a chapter may have its number at the foot.
        assert_eq!(
            texts_of(&["7 Tea\na", "8 Tea\nb", "9 Tea\nc", "d\n10"]),
            ["a", "b", "c", "d"]
        );
        // Numbers alone, Roman ones included.
        assert_eq!(texts_of(&["a\nviii", "b\nix", "c\nx"]), ["a", "b", "c"]);
    }

    #[test]
    fn lines_that_only_look_like_running_lines_are_kept() {
        // Two pages are too few. Numbers that do not count pages are data. Table rows are kept.
        for pages in [
            &["Head\na", "Head\nb"][..],
            &["a\nTotal 17", "b\nTotal 33", "c\nTotal 8"],
            &["a\n5", "b\n5", "c\n5"],
            &[
                "City\tMen\tWomen\tAll\na",
                "City\tMen\tWomen\tAll\nb",
                "City\tMen\tWomen\tAll\nc",
            ],
            &["the same", "the same", "the same"],
        ] {
            assert_eq!(texts_of(pages), pages);
        }
    }

    #[test]
    fn words_hyphenated_at_line_ends_are_joined() {
        for (lines, expected) in [
            ("difficult to com-\npile than", "difficult to compile than"),
            (
                "a well-\nknown word, well-known before",
                "a well-known word, well-known before",
            ),
            (
                "pre-\nfix, and no pre-fix but prefix",
                "prefix, and no pre-fix but prefix",
            ),
            ("Vor-\nund Nachteile", "Vor-\nund Nachteile"),
            ("Smith-\nJones", "Smith-\nJones"),
            ("OP-\nTIONAL is optional", "OPTIONAL is optional"),
            ("1914-\n1918", "1914-\n1918"),
            ("end -\nnext", "end -\nnext"),
            ("end-\n¶next", "end-\n\nnext"),
            ("n-\none\ttwo", "n-\none\ttwo"),
        ] {
            assert_eq!(texts_of(&[lines]), [expected]);
        }
    }
}
