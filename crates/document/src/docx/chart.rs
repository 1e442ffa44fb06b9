//! Charts and diagrams of Office: parts of their own with the texts that they show.

use std::collections::BTreeMap;

use quick_xml::{Reader, events::Event};

use crate::{
    blocks::Block,
    xml::{self, attribute},
};

/// Maximum number of points of a series.
const MAX_POINTS: usize = 1_000;
/// Maximum number of series of a chart.
const MAX_SERIES: usize = 50;
/// Maximum number of elements in each other. Deeper ones are left out.
const MAX_DEPTH: usize = 100;

/// Texts by the number of their point.
type Points = BTreeMap<usize, String>;

#[derive(Debug, Default)]
struct Series {
    name: String,
    categories: Points,
    values: Points,
}

/// Returns the title of a chart, and its numbers as a table with a row for each category.
pub fn chart(xml: &str) -> Vec<Block> {
    let mut title = String::new();
    let mut all: Vec<Series> = vec![];
    let mut open: Vec<String> = vec![];
    let mut point = 0;
    let mut reader = Reader::from_str(xml);
    while let Ok(event) = reader.read_event() {
        let text = match &event {
            Event::Eof => break,
            Event::Start(element) if open.len() >= MAX_DEPTH => {
                if reader.read_to_end(element.name()).is_err() {
                    break;
                }
                continue;
            }
            Event::Start(element) => {
                let name = element.local_name().into_inner();
                match name {
                    "ser" if all.len() < MAX_SERIES => all.push(Series::default()),
                    "pt" => {
                        point = attribute(element, "idx")
                            .and_then(|at| at.parse().ok())
                            .unwrap_or(point + 1);
                    }
                    _ => {}
                }
                open.push(name.to_owned());
                continue;
            }
            Event::End(_) => {
                open.pop();
                continue;
            }
            event => match xml::text(event) {
                Some(text) => text,
                None => continue,
            },
        };
        if !matches!(open.last().map(String::as_str), Some("t" | "v")) || point >= MAX_POINTS {
            continue;
        }
        let is_in = |name: &str| open.iter().any(|open| open == name);
        match all.last_mut().filter(|_| is_in("ser")) {
            Some(series) if is_in("tx") => series.name.push_str(&text),
            Some(series) if is_in("cat") || is_in("xVal") => {
                series.categories.entry(point).or_default().push_str(&text);
            }
            Some(series) if is_in("val") || is_in("yVal") => {
                series.values.entry(point).or_default().push_str(&text);
            }
            None if is_in("title") => {
                if !title.is_empty() && !title.ends_with(' ') && is_in("valAx") {
                    title.push(' ');
                }
                title.push_str(&text);
            }
            _ => {}
        }
    }
    let mut blocks = vec![Block::Text(title)];
    blocks.extend(table(&all));
    blocks
}

fn table(all: &[Series]) -> Option<Block> {
    let first = all.first()?;
    let mut head = vec![String::new()];
    head.extend(all.iter().map(|series| series.name.clone()));
    let points: std::collections::BTreeSet<usize> = all
        .iter()
        .flat_map(|series| series.categories.keys().chain(series.values.keys()))
        .copied()
        .collect();
    let mut rows = vec![head];
    for point in points {
        let text = |points: &Points| points.get(&point).cloned().unwrap_or_default();
        let mut row = vec![text(&first.categories)];
        row.extend(all.iter().map(|series| text(&series.values)));
        rows.push(row);
    }
    Some(Block::Table(rows))
}

/// Returns the texts of a diagram (SmartArt), in the order of its points.
pub fn diagram(xml: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut words: Option<String> = None;
    let mut in_text = false;
    let mut reader = Reader::from_str(xml);
    while let Ok(event) = reader.read_event() {
        match &event {
            Event::Eof => break,
            Event::Start(element) => match element.local_name().into_inner() {
                "p" => words = Some(String::new()),
                "t" => in_text = true,
                _ => {}
            },
            Event::Empty(element) if element.local_name().into_inner() == "br" => {
                words.iter_mut().for_each(|words| words.push(' '));
            }
            Event::End(element) => match element.local_name().into_inner() {
                // The text of a point is a "t" as well, around its paragraphs.
                "t" => in_text = false,
                "p" => {
                    if let Some(text) = words.take().filter(|text| !text.trim().is_empty()) {
                        blocks.push(Block::Item {
                            depth: 0,
                            label: String::new(),
                            text,
                        });
                    }
                }
                _ => {}
            },
            event => {
                if let (true, Some(words), Some(piece)) = (in_text, &mut words, xml::text(event)) {
                    words.push_str(&piece);
                }
            }
        }
    }
    blocks
}
