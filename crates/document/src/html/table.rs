//! Converts tables to Markdown's pipe form, with every cell of every row, without padding.

use std::rc::Rc;

use htmd::{
    Element, Node,
    element_handler::{HandlerResult, Handlers},
};

use super::{boilerplate::attribute, code::blocks_as_spans, html_tag};

/// Maximum number of bytes that row spans may repeat.
const MAX_REPEATED: usize = 1 << 20;

/// A table with at least two columns and no table inside is data. Any other table is layout, and
/// its cells are plain text.
pub fn to_markdown(handlers: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    let rows = rows(element.node);
    if rows.iter().all(|row| row.len() < 2) || has_inner_table(element.node) {
        return Some(blocks(handlers, element.node).into());
    }
    let mut markdown = String::from("\n\n");
    for child in element
        .node
        .children
        .borrow()
        .iter()
        .filter(|child| html_tag(child) == Some("caption"))
    {
        markdown.push_str(handlers.walk_children(child).content.trim());
        markdown.push_str("\n\n");
    }
    let lines = laid_out(&rows, |cell| cell_text(handlers, cell));
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    for (i, line) in lines.iter().enumerate() {
        markdown.push('|');
        for column in 0..columns {
            let text = line.get(column).map_or("", |text| text);
            markdown.push(' ');
            markdown.push_str(text);
            markdown.push_str(if text.is_empty() { "|" } else { " |" });
        }
        markdown.push('\n');
        if i == 0 {
            markdown.push_str(&format!("|{}\n", " --- |".repeat(columns)));
        }
    }
    markdown.push('\n');
    Some(markdown.into())
}

/// A cell that spans rows below.
struct SpanningCell {
    text: Rc<str>,
    /// Number of those rows.
    rows: usize,
}

/// Returns the texts of each row, each in its column. A cell over several rows is repeated in each
/// of them, so that each row is complete. A cell over several columns is in the first of them.
/// There are at most as many columns as the longest row has cells.
fn laid_out(rows: &[Vec<Rc<Node>>], text_of: impl Fn(&Rc<Node>) -> String) -> Vec<Vec<Rc<str>>> {
    let mut reaching: Vec<Option<SpanningCell>> = vec![];
    let widest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut left = MAX_REPEATED;
    let mut lines = vec![];
    for row in rows {
        let mut line: Vec<Rc<str>> = vec![];
        let mut cells = row.iter();
        loop {
            let column = line.len();
            if let Some(above) = reaching.get_mut(column).and_then(Option::as_mut) {
                let is_affordable = above.text.len() <= left;
                left -= if is_affordable { above.text.len() } else { 0 };
                line.push(if is_affordable {
                    above.text.clone()
                } else {
                    "".into()
                });
                above.rows -= 1;
                if above.rows == 0 {
                    reaching[column] = None;
                }
                continue;
            }
            let Some(cell) = cells.next() else {
                // Cells from above may follow after the last cell of this row.
                match reaching.iter().skip(column).position(Option::is_some) {
                    Some(empty) => line.extend(std::iter::repeat_n(Rc::from(""), empty)),
                    None => break,
                }
                continue;
            };
            let text: Rc<str> = text_of(cell).into();
            let end = widest.min(line.len() + span(cell, "colspan", widest));
            let below = span(cell, "rowspan", rows.len()) - 1;
            let place = |line: &mut Vec<Rc<str>>,
                         text: Rc<str>,
                         reaching: &mut Vec<Option<SpanningCell>>| {
                if below > 0 {
                    reaching.resize_with(reaching.len().max(line.len() + 1), || None);
                    reaching[line.len()] = Some(SpanningCell {
                        text: text.clone(),
                        rows: below,
                    });
                }
                line.push(text);
            };
            place(&mut line, text, &mut reaching);
            while line.len() < end && reaching.get(line.len()).is_none_or(Option::is_none) {
                place(&mut line, "".into(), &mut reaching);
            }
        }
        lines.push(line);
    }
    lines
}

/// Parses a span from 1 to `most`. The value 0 means the maximum.
fn span(cell: &Rc<Node>, name: &str, most: usize) -> usize {
    match attribute(cell, name).and_then(|value| value.trim().parse::<usize>().ok()) {
        Some(0) if name == "rowspan" => most,
        Some(span) => span.clamp(1, most.max(1)),
        None => 1,
    }
}

/// Returns the cells of each row, without empty rows.
fn rows(table: &Rc<Node>) -> Vec<Vec<Rc<Node>>> {
    let mut rows = vec![];
    for child in table.children.borrow().iter() {
        match html_tag(child) {
            Some("tr") => rows.push(cells(child)),
            Some("thead" | "tbody" | "tfoot") => {
                rows.extend(
                    child
                        .children
                        .borrow()
                        .iter()
                        .filter(|n| html_tag(n) == Some("tr"))
                        .map(cells),
                );
            }
            _ => {}
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

fn cells(row: &Rc<Node>) -> Vec<Rc<Node>> {
    row.children
        .borrow()
        .iter()
        .filter(|n| matches!(html_tag(n), Some("td" | "th")))
        .cloned()
        .collect()
}

fn cell_text(handlers: &dyn Handlers, cell: &Rc<Node>) -> String {
    let content = handlers.walk_children(cell).content;
    blocks_as_spans(&content).replace('|', "\\|")
}

fn has_inner_table(table: &Rc<Node>) -> bool {
    let mut stack: Vec<Rc<Node>> = table.children.borrow().iter().cloned().collect();
    while let Some(node) = stack.pop() {
        if html_tag(&node) == Some("table") {
            return true;
        }
        stack.extend(node.children.borrow().iter().cloned());
    }
    false
}

/// Returns the caption and the cells one after another, each as a paragraph.
fn blocks(handlers: &dyn Handlers, table: &Rc<Node>) -> String {
    let captions: Vec<Rc<Node>> = table
        .children
        .borrow()
        .iter()
        .filter(|n| html_tag(n) == Some("caption"))
        .cloned()
        .collect();
    let cells = rows(table).into_iter().flatten();
    let mut markdown = String::from("\n\n");
    for node in captions.into_iter().chain(cells) {
        markdown.push_str(handlers.walk_children(&node).content.trim_matches('\n'));
        markdown.push_str("\n\n");
    }
    markdown
}

#[cfg(test)]
mod tests {
    fn markdown(html: &str) -> String {
        crate::html::extract(html, "a.html").unwrap().text
    }

    #[test]
    fn every_cell_of_a_table_is_kept() {
        assert_eq!(
            markdown(
                "<table><caption>Prices</caption><thead><tr><th>Item<th>Price</thead>\
                 <tr><th>Tea</th><td>2 | 3</td></tr><tr><td><p>Coffee</p><p>black</p></td></tr></table>after"
            ),
            "Prices\n\n| Item | Price |\n| --- | --- |\n| Tea | 2 \\| 3 |\n| Coffee black | \
                |\n\nafter"
        );
    }

    #[test]
    fn a_cell_over_several_rows_is_repeated() {
        assert_eq!(
            markdown("<table><tr><td rowspan=2>a</td><td>1</td></tr><tr><td>2</td></tr></table>"),
            "| a | 1 |\n| --- | --- |\n| a | 2 |"
        );
        assert_eq!(
            markdown(
                "<table><tr><th>k<th>x<th>y<tr><td>1<td rowspan=0>b<td>c<tr><td>2<td>d<tr><td \
                    colspan=3>3<tr><td>4</table>"
            ),
            "| k | x | y |\n| --- | --- | --- |\n| 1 | b | c |\n| 2 | b | d |\n| 3 | b | |\n| 4 | \
                b | |"
        );
    }

    #[test]
    fn a_cell_over_several_columns_is_in_the_first_of_them() {
        assert_eq!(
            markdown("<table><tr><td colspan=2>a<td>b<tr><td>1<td>2<td>3</table>"),
            "| a | | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |"
        );
    }

    #[test]
    fn spans_cannot_turn_a_small_page_into_a_large_text() {
        let long = "word ".repeat(1_000);
        let rows = format!(
            "<tr><td rowspan=60000>{long}<td colspan=60000>b{}",
            "<tr><td>c".repeat(20_000)
        );
        let text = markdown(&format!("<table>{rows}</table>"));
        assert!(text.len() < 3 << 20, "{}", text.len());
        assert_eq!(text.matches("| c").count(), 20_000);
    }

    #[test]
    fn layout_tables_are_just_their_text() {
        assert_eq!(
            markdown("<table><tr><td>menu<td><table><tr><td>a<td>b</table>text</table>"),
            "menu\n\n| a | b |\n| --- | --- |\n\ntext"
        );
        assert_eq!(markdown("<table><tr><td>one</table>"), "one");
    }
}
