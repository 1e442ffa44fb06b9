//! A text of paragraphs and tables: the document, a note, or a text box.

use crate::{
    blocks::{Block, one_line},
    docx::{Shape, Table, Words},
};

/// What the control words before a paragraph say of it.
#[derive(Debug, Default, Clone)]
pub struct Paragraph {
    pub style: Option<i32>,
    pub outline: Option<usize>,
    pub in_table: bool,
    pub is_item: bool,
    pub depth: usize,
}

#[derive(Debug, Default)]
pub struct Flow {
    pub words: Words,
    pub paragraph: Paragraph,
    /// What the program wrote before the words of an item.
    pub label: String,
    /// Text boxes of the open paragraph.
    pub boxes: Vec<Block>,
    /// Notes, which follow after the open paragraph or table.
    pub notes: Vec<Block>,
    blocks: Vec<Block>,
    cell: Vec<Block>,
    row: Vec<Vec<Block>>,
    table: Option<Table>,
    /// The cells of the row as they are defined.
    shapes: Vec<Shape>,
    shape: Shape,
}

impl Flow {
    /// Ends the open paragraph. `level` is that of a heading.
    pub fn end_paragraph(&mut self, level: Option<usize>) {
        let text = std::mem::take(&mut self.words).finish();
        let label = std::mem::take(&mut self.label);
        let has_label = !label.trim().is_empty();
        let is_number = label.chars().any(char::is_alphanumeric);
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        let depth = self.paragraph.depth;
        let block = match level {
            Some(level) if is_number => Block::Heading {
                level,
                text: format!("{label} {text}"),
            },
            Some(level) => Block::Heading { level, text },
            None if has_label || self.paragraph.is_item => Block::Item {
                depth,
                label: if is_number { label } else { String::new() },
                text,
            },
            None => Block::Text(text),
        };
        let boxes = std::mem::take(&mut self.boxes);
        let blocks = Some(block).filter(|block| !block.is_blank());
        let blocks = blocks.into_iter().chain(boxes);
        if self.paragraph.in_table {
            self.cell.extend(blocks);
            return;
        }
        self.end_table();
        self.blocks.extend(blocks);
        self.blocks.append(&mut self.notes);
    }

    pub fn end_cell(&mut self) {
        self.row.push(std::mem::take(&mut self.cell));
    }

    /// Begins the definition of a row.
    pub fn define_row(&mut self) {
        self.shapes.clear();
        self.shape = Shape::default();
    }

    pub fn define_below(&mut self) {
        self.shape.is_below = true;
    }

    pub fn define_beside(&mut self) {
        self.shape.is_beside = true;
    }

    /// Ends the definition of a cell. A row cannot have more cells than its file has bytes.
    pub fn end_definition(&mut self) {
        self.shapes.push(std::mem::take(&mut self.shape));
    }

    pub fn end_row(&mut self) {
        if !self.cell.is_empty() {
            self.end_cell();
        }
        let table = self.table.get_or_insert_default();
        table.begin_row();
        for (at, cell) in std::mem::take(&mut self.row).into_iter().enumerate() {
            table.add(cell, self.shapes.get(at).copied().unwrap_or_default());
        }
    }

    fn end_table(&mut self) {
        if !self.row.is_empty() || !self.cell.is_empty() {
            self.end_row();
        }
        if let Some(table) = self.table.take() {
            self.blocks.extend(table.finish());
            self.blocks.append(&mut self.notes);
        }
    }

    pub fn finish(mut self, level: Option<usize>) -> Vec<Block> {
        self.end_paragraph(level);
        self.end_table();
        self.blocks.append(&mut self.notes);
        self.blocks
    }
}

/// Returns a note with its mark.
pub fn note(mark: &str, blocks: &[Block]) -> Option<Block> {
    let text = one_line(blocks);
    (!text.is_empty()).then(|| Block::Text(format!("{mark}: {text}")))
}
