//! Tables in Markdown's pipe form, every cell of every row kept, without padding.

use std::rc::Rc;

use htmd::{
    Element, Node,
    element_handler::{HandlerResult, Handlers},
};

use super::html_tag;

/// A table with at least two columns and no table inside is data; any other is layout, whose cells are just text.
pub fn to_markdown(handlers: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    let rows = rows(element.node);
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    if columns < 2 || has_inner_table(element.node) {
        return Some(blocks(handlers, element.node).into());
    }
    let mut markdown = String::from("\n\n");
    for child in element.node.children.borrow().iter().filter(|child| html_tag(child) == Some("caption")) {
        markdown.push_str(handlers.walk_children(child).content.trim());
        markdown.push_str("\n\n");
    }
    for (i, row) in rows.iter().enumerate() {
        markdown.push('|');
        for column in 0..columns {
            let text = row.get(column).map(|cell| cell_text(handlers, cell)).unwrap_or_default();
            markdown.push(' ');
            markdown.push_str(&text);
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

/// The cells of each row, rows without any left out.
fn rows(table: &Rc<Node>) -> Vec<Vec<Rc<Node>>> {
    let mut rows = vec![];
    for child in table.children.borrow().iter() {
        match html_tag(child) {
            Some("tr") => rows.push(cells(child)),
            Some("thead" | "tbody" | "tfoot") => {
                rows.extend(child.children.borrow().iter().filter(|n| html_tag(n) == Some("tr")).map(cells));
            }
            _ => {}
        }
    }
    rows.retain(|row| !row.is_empty());
    rows
}

fn cells(row: &Rc<Node>) -> Vec<Rc<Node>> {
    row.children.borrow().iter().filter(|n| matches!(html_tag(n), Some("td" | "th"))).cloned().collect()
}

fn cell_text(handlers: &dyn Handlers, cell: &Rc<Node>) -> String {
    let content = handlers.walk_children(cell).content;
    content.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
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

/// Caption and cells one after another, each a paragraph.
fn blocks(handlers: &dyn Handlers, table: &Rc<Node>) -> String {
    let captions: Vec<Rc<Node>> =
        table.children.borrow().iter().filter(|n| html_tag(n) == Some("caption")).cloned().collect();
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
            "Prices\n\n| Item | Price |\n| --- | --- |\n| Tea | 2 \\| 3 |\n| Coffee black | |\n\nafter"
        );
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
