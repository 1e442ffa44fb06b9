//! What is open while a story is read.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use crate::{
    blocks::Block,
    docx::{self, Script, Shape, Words},
    xml::attribute,
};

/// Maximum number of columns of a table that are read.
const MAX_COLUMNS: usize = 1024;
/// Maximum number of times that equal cells or rows are read.
const MAX_REPEATED: usize = 1000;
/// Maximum number of blocks of repeated cells in a table.
const MAX_COPIES: usize = 10_000;

pub enum Frame {
    /// The body, a cell, a text box or a note.
    Flow(Flow),
    Paragraph(Box<Paragraph>),
    Table(Table),
}

#[derive(Default)]
pub struct Flow {
    pub blocks: Vec<Block>,
    /// The place of a cell in its table.
    pub shown: Option<Shown>,
    pub is_endnote: bool,
    /// Number of blocks before the open slide.
    pub slide: usize,
}

impl Flow {
    pub fn cell(shown: Shown) -> Self {
        Self {
            shown: Some(shown),
            ..Self::default()
        }
    }
}

#[derive(Default)]
pub struct Paragraph {
    pub words: Words,
    /// The level of a heading.
    pub level: Option<usize>,
    /// The level of an item, and its label.
    pub item: Option<(usize, String)>,
    /// The open characters with a style.
    pub runs: Vec<Run>,
    pub ends_in_space: bool,
    /// Hidden text of the paragraph has been counted.
    pub has_hidden: bool,
    /// The whole paragraph is hidden.
    pub is_hidden: bool,
    /// Text boxes and charts.
    pub below: Vec<Block>,
}

/// How characters are shown.
#[derive(Default, Clone)]
pub struct Run {
    pub is_hidden: bool,
    pub script: Script,
    /// A font of symbols.
    pub font: Option<String>,
}

impl Paragraph {
    pub fn finish(self) -> Vec<Block> {
        let mut text = self.words.finish();
        if self.is_hidden {
            text.clear();
        }
        let block = match (self.level, self.item) {
            (Some(level), Some((_, label))) if !label.is_empty() && !text.trim().is_empty() => {
                Block::Heading {
                    level,
                    text: format!("{label} {text}"),
                }
            }
            (Some(level), _) => Block::Heading { level, text },
            (None, Some((depth, label))) => Block::Item { depth, label, text },
            (None, None) => Block::Text(text),
        };
        let mut blocks = self.below;
        if !block.is_blank() {
            blocks.insert(0, block);
        }
        blocks
    }
}

/// How a cell is shown.
#[derive(Default, Clone, Copy)]
pub struct Shown {
    shape: Shape,
    /// Number of equal cells, this one included.
    repeated: usize,
}

/// A table that is being read.
#[derive(Default)]
pub struct Table {
    table: docx::Table,
    /// The cells of the open row.
    row: Vec<(Vec<Block>, Shape)>,
    /// Number of rows equal to the open one, it included.
    rows: usize,
    /// Cells above that go on in the next rows, by their column: the number of rows, and whether
    /// it is the first column of the cell.
    above: HashMap<usize, (usize, bool)>,
    column: usize,
    copies: usize,
}

fn count(element: &BytesStart, name: &str) -> usize {
    let count = attribute(element, name).and_then(|n| n.parse().ok());
    count.unwrap_or(1).max(1)
}

impl Table {
    pub fn begin_row(&mut self, element: &BytesStart) {
        self.end_row();
        self.rows = count(element, "number-rows-repeated");
        self.column = 0;
    }

    /// Reads the place of the cell that begins.
    pub fn shape(&mut self, element: &BytesStart) -> Shown {
        let repeated = count(element, "number-columns-repeated").min(MAX_COLUMNS);
        let mut shape = Shape {
            columns: 1,
            ..Shape::default()
        };
        let column = self.column;
        self.column = self.column.saturating_add(repeated);
        if element.local_name().into_inner() == "table-cell" {
            let rows = count(element, "number-rows-spanned");
            let columns = count(element, "number-columns-spanned").min(MAX_COLUMNS);
            for at in column..column + columns {
                match rows {
                    1 => self.above.remove(&at),
                    rows => self.above.insert(at, (rows - 1, at == column)),
                };
            }
        } else {
            shape.is_beside = true;
            for at in column..column + repeated {
                let Some((rows @ 1.., is_first)) = self.above.get_mut(&at) else {
                    continue;
                };
                *rows -= 1;
                if at == column {
                    shape.is_below = *is_first;
                    shape.is_beside = !*is_first;
                }
            }
        }
        Shown { shape, repeated }
    }

    pub fn add(&mut self, blocks: Vec<Block>, shown: Shown) {
        let Shown { shape, repeated } = shown;
        if blocks.is_empty() {
            let left = MAX_COLUMNS.saturating_sub(self.row.len());
            self.row
                .extend((0..repeated.min(left)).map(|_| (vec![], shape)));
            return;
        }
        for _ in 1..repeated.min(MAX_REPEATED) {
            self.copies += blocks.len();
            if self.copies > MAX_COPIES {
                break;
            }
            self.row.push((blocks.clone(), shape));
        }
        self.row.push((blocks, shape));
    }

    fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        // An empty row stands for any number.
        let cells: usize = row.iter().map(|(blocks, _)| blocks.len()).sum();
        if cells > 0 {
            for _ in 1..self.rows.min(MAX_REPEATED) {
                self.copies += cells;
                if self.copies > MAX_COPIES {
                    break;
                }
                self.write(row.clone());
            }
        }
        if !row.is_empty() {
            self.write(row);
        }
        self.rows = 1;
    }

    fn write(&mut self, row: Vec<(Vec<Block>, Shape)>) {
        self.table.begin_row();
        for (blocks, shape) in row {
            self.table.add(blocks, shape);
        }
    }

    pub fn finish(mut self) -> Vec<Block> {
        self.end_row();
        self.table.finish()
    }
}
