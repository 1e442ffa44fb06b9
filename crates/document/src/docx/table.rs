//! Tables. A cell that spans columns is in the first of them, and one that spans rows is repeated.

use quick_xml::{Reader, errors::Error, events::Event};

use crate::{
    blocks::{Block, one_line},
    xml::attribute,
};

/// Maximum number of columns: that of Word.
const MAX_COLUMNS: usize = 64;
/// Maximum number of bytes that cells over several rows may repeat in a table.
const MAX_REPEATED: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
}

#[derive(Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// Number of empty columns before the first cell.
    before: usize,
    /// The row was deleted, with its changes tracked.
    is_deleted: bool,
}

#[derive(Debug, Default)]
struct Cell {
    blocks: Vec<Block>,
    shape: Shape,
}

/// The columns and rows of a cell.
#[derive(Debug, Default, Clone, Copy)]
pub struct Shape {
    pub columns: usize,
    /// The cell continues the one above.
    pub is_below: bool,
    /// The cell continues the one on the left.
    pub is_beside: bool,
}

impl Table {
    pub fn begin_row(&mut self) {
        self.rows.push(Row::default());
    }

    /// Reads the properties of the last row, up to their end.
    pub fn read_row_properties(&mut self, reader: &mut Reader<&[u8]>) -> Result<(), Error> {
        let mut unnamed = Row::default();
        let row = self.rows.last_mut().unwrap_or(&mut unnamed);
        loop {
            match reader.read_event()? {
                Event::Start(element) => match element.local_name().into_inner() {
                    "gridBefore" => {
                        let columns = attribute(&element, "val");
                        row.before = columns.and_then(|n| n.parse().ok()).unwrap_or(0);
                    }
                    "del" => row.is_deleted = true,
                    _ => {}
                },
                Event::End(element) if element.local_name().into_inner() == "trPr" => {
                    return Ok(());
                }
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    pub fn add(&mut self, blocks: Vec<Block>, shape: Shape) {
        if self.rows.is_empty() {
            self.begin_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.cells.push(Cell { blocks, shape });
        }
    }

    /// Returns the table. One with a single cell is a frame around its text.
    pub fn finish(mut self) -> Vec<Block> {
        self.rows.retain(|row| !row.is_deleted);
        if let [Row { cells, .. }] = self.rows.as_mut_slice()
            && let [only] = cells.as_mut_slice()
        {
            return std::mem::take(&mut only.blocks);
        }
        let mut above: Vec<String> = vec![];
        let mut left = MAX_REPEATED;
        let mut rows = vec![];
        for row in &self.rows {
            let mut line = vec![String::new(); row.before.min(MAX_COLUMNS)];
            for cell in &row.cells {
                if cell.shape.is_beside {
                    line.push(String::new());
                    continue;
                }
                let mut text = one_line(&cell.blocks);
                if cell.shape.is_below
                    && text.is_empty()
                    && let Some(repeated) = above.get(line.len())
                    && repeated.len() <= left
                {
                    left -= repeated.len();
                    text.clone_from(repeated);
                }
                line.push(text);
                for _ in 1..cell.shape.columns.min(MAX_COLUMNS) {
                    line.push(String::new());
                }
            }
            above.clone_from(&line);
            rows.push(line);
        }
        vec![Block::Table(rows)]
    }
}
