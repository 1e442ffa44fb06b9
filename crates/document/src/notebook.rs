//! Jupyter notebooks: a document of their cells.
//!
//! Markdown cells are written as they are, code cells as blocks of code, and outputs as blocks of
//! their text. Pictures, widgets and pages in outputs are left out, and so are colors and the
//! calls that led to an error. Notebooks of format 3, with worksheets, are read as well.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    DocumentError, ExtractedDocument, Structure,
    blocks::{self, Block},
    data_uri, markdown,
    package::malformed,
    title,
};

#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    cells: Vec<Cell>,
    /// Of format 3.
    #[serde(default)]
    worksheets: Vec<Worksheet>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Worksheet {
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    title: Option<Value>,
    kernelspec: Option<Value>,
    language_info: Option<Value>,
}

#[derive(Deserialize)]
struct Cell {
    #[serde(default)]
    cell_type: String,
    #[serde(default, alias = "input")]
    source: Lines,
    #[serde(default)]
    outputs: Vec<Output>,
    /// Of a heading of format 3.
    level: Option<usize>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    text: Lines,
    /// Texts by their media type.
    #[serde(default)]
    data: HashMap<String, Lines>,
    #[serde(default)]
    ename: Lines,
    #[serde(default)]
    evalue: Lines,
}

/// A text, in one or in lines. Other values are no text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    One(String),
    Many(Vec<String>),
    None(serde::de::IgnoredAny),
}

impl Default for Lines {
    fn default() -> Self {
        Self::One(String::new())
    }
}

impl Lines {
    fn text(&self) -> String {
        match self {
            Self::One(text) => text.clone(),
            Self::Many(lines) => lines.concat(),
            Self::None(_) => String::new(),
        }
    }
}

pub fn extract(file: &str, name: &str) -> Result<ExtractedDocument, DocumentError> {
    // An array would be read as the values of the keys.
    let notebook: Notebook = match file.trim_start().starts_with('{') {
        true => serde_json::from_str(file).map_err(|e| malformed("notebook", &e))?,
        false => return Err(malformed("notebook", &"it is no JSON object")),
    };
    let language = notebook.metadata.language();
    let sheets = notebook.worksheets.iter().flat_map(|sheet| &sheet.cells);
    let blocks: Vec<Block> = notebook
        .cells
        .iter()
        .chain(sheets)
        .flat_map(|cell| cell.blocks(&language))
        .collect();
    let text = blocks::markdown(&blocks);
    let title = notebook.metadata.title.as_ref().and_then(Value::as_str);
    let title = title.and_then(title::own);
    Ok(ExtractedDocument::in_markdown(text, title, name))
}

impl Metadata {
    /// Returns the language of the code, or an empty name.
    fn language(&self) -> String {
        let named = |of: &Option<Value>, key: &str| {
            let name = of.as_ref()?.get(key)?.as_str()?;
            let is_name = |c: char| c.is_alphanumeric() || "+#-_.".contains(c);
            (name.len() <= 30 && name.chars().all(is_name)).then(|| name.to_lowercase())
        };
        named(&self.language_info, "name")
            .or_else(|| named(&self.kernelspec, "language"))
            .unwrap_or_default()
    }
}

impl Cell {
    fn blocks(&self, language: &str) -> Vec<Block> {
        let source = self.source.text();
        match self.cell_type.as_str() {
            "markdown" => vec![Block::Markdown(closed(
                data_uri::named(source.trim()).into(),
            ))],
            "code" => {
                let mut blocks = vec![Block::Code {
                    language: language.to_owned(),
                    text: source,
                }];
                blocks.extend(self.outputs.iter().map(|output| Block::Code {
                    language: String::new(),
                    text: output.shown(),
                }));
                blocks
            }
            "heading" => vec![Block::Heading {
                level: self.level.unwrap_or(1),
                text: source,
            }],
            _ => vec![Block::Text(source)],
        }
    }
}

impl Output {
    fn shown(&self) -> String {
        let of_type = |media_type| self.data.get(media_type).map(Lines::text);
        let text = of_type("text/markdown")
            .or_else(|| of_type("text/plain"))
            .or_else(|| of_type("text/latex"))
            .unwrap_or_else(|| self.text.text());
        let (name, value) = (self.ename.text(), self.evalue.text());
        let error = match (name.is_empty(), value.is_empty()) {
            (true, _) => value,
            (false, true) => name,
            (false, false) => format!("{name}: {value}"),
        };
        let text = plain(&(text + &error));
        let text = data_uri::named(&text);
        if is_name_of_object(text.trim()) {
            return String::new();
        }
        text.into_owned()
    }
}

/// Returns true for what a library writes in place of a picture: `<Figure size 640x480 with 1
/// Axes>`.
fn is_name_of_object(text: &str) -> bool {
    text.starts_with('<')
        && text.ends_with('>')
        && !text.contains('\n')
        && (text.starts_with("<Figure") || text.starts_with("<IPython.") || text.contains(" at 0x"))
}

/// Returns what a terminal shows: without colors, and the last state of lines that are written
/// over, as progress bars are.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1B}' if signs.peek() == Some(&'[') => {
                signs.next();
                while signs.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
                signs.next();
            }
            '\u{1B}' | '\u{8}' => {}
            '\r' if signs.peek().is_none_or(|next| *next == '\n') => {}
            '\r' => shown.truncate(line_start),
            '\n' => {
                shown.push('\n');
                line_start = shown.len();
            }
            sign => shown.push(sign),
        }
    }
    shown
}

/// Returns a cell whose last block of code is closed: else it would go on in the next cell.
fn closed(cell: String) -> String {
    let Structure::Sections { code, .. } = markdown::structure(&cell) else {
        return cell;
    };
    let Some((start, end)) = code.last().copied().filter(|(_, end)| *end >= cell.len()) else {
        return cell;
    };
    let block = cell[start..end].trim_start();
    let sign = if block.starts_with('~') { '~' } else { '`' };
    let length = block.chars().take_while(|c| *c == sign).count();
    let last = block.lines().next_back().unwrap_or_default().trim();
    let is_closed = block.contains('\n') && last.len() >= length && last.chars().all(|c| c == sign);
    if length < 3 || is_closed {
        return cell;
    }
    format!("{cell}\n{}", sign.to_string().repeat(length))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(notebook: &Value) -> String {
        extract(&notebook.to_string(), "a.ipynb").unwrap().text
    }

    fn of_cells(cells: &Value) -> String {
        text(
            &json!({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}),
        )
    }

    #[test]
    fn cells_become_a_document() {
        let notebook = json!({
            "metadata": {"kernelspec": {"language": "R", "name": "ir"}},
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": ["# Forecast\n", "We fit a line."]},
                {"cell_type": "code", "execution_count": 1, "source": "x <- 1\nx",
                 "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["[1] 1"]}}]},
                {"cell_type": "raw", "source": "raw"},
                {"cell_type": "code", "source": [], "outputs": []},
            ]
        });
        let extracted = extract(&notebook.to_string(), "a.ipynb").unwrap();
        assert_eq!(
            extracted.text,
            "# Forecast\nWe fit a line.\n\n```r\nx <- 1\nx\n```\n\n```\n[1] 1\n```\n\nraw"
        );
        assert_eq!(extracted.title.text, "Forecast");
    }

    #[test]
    fn outputs_are_their_text() {
        for (output, expected) in [
            (
                json!({"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}),
                "a\nb",
            ),
            (
                json!({"output_type": "stream", "text": "\u{1b}[31mred\u{1b}[0m 1%\r50%\r100%\r\nend"}),
                "100%\nend",
            ),
            (
                json!({"data": {"image/png": "iVBORw0K", "text/plain": ["<Figure size 640x480 with 1 Axes>"]}}),
                "",
            ),
            (
                json!({"data": {"text/html": ["<table>"], "text/plain": ["   a  b\n", "0  1  2"]}}),
                "   a  b\n0  1  2",
            ),
            (
                json!({"data": {"text/plain": "x", "text/markdown": "**x**"}}),
                "**x**",
            ),
            (
                json!({"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": ["\u{1b}[0m"]}),
                "KeyError: 'x'",
            ),
            (
                json!({"data": {"application/json": {"a": 1}}, "metadata": {}}),
                "",
            ),
            (
                json!({"data": {"text/plain": "see data:image/png;base64,AAAA"}}),
                "see data:image/png",
            ),
            (json!({"data": {"text/plain": "<function f at 0x7f>"}}), ""),
            // Of format 3.
            (
                json!({"output_type": "pyout", "text": ["3"], "png": "iVBORw0K"}),
                "3",
            ),
        ] {
            let cells = json!([{"cell_type": "code", "source": "x", "outputs": [output]}]);
            let expected = match expected {
                "" => "```python\nx\n```".to_owned(),
                expected => format!("```python\nx\n```\n\n```\n{expected}\n```"),
            };
            assert_eq!(of_cells(&cells), expected);
        }
    }

    #[test]
    fn a_cell_ends_where_it_ends() {
        let cells = json!([
            {"cell_type": "markdown", "source": "See:\n\n```sh\nls"},
            {"cell_type": "markdown", "source": "# Next\n![p](data:image/png;base64,AAAA)"},
            {"cell_type": "markdown", "source": "~~~~\nx\n~~~~"},
            {"cell_type": "markdown", "source": "```"},
            {"cell_type": "code", "source": "s = \"\"\"\n```\n\"\"\""},
        ]);
        assert_eq!(
            of_cells(&cells),
            "See:\n\n```sh\nls\n```\n\n# Next\n![p](data:image/png)\n\n~~~~\nx\n~~~~\n\n```\n```\n\n\
             ````python\ns = \"\"\"\n```\n\"\"\"\n````"
        );
    }

    #[test]
    fn notebooks_of_format_3_are_read() {
        let notebook = json!({"metadata": {"name": ""}, "nbformat": 3, "worksheets": [{"cells": [
            {"cell_type": "heading", "level": 2, "source": "Old"},
            {"cell_type": "code", "input": ["1 + 2"], "language": "python", "outputs": []},
        ]}]});
        assert_eq!(text(&notebook), "## Old\n\n```\n1 + 2\n```");
    }

    #[test]
    fn damaged_notebooks_are_errors() {
        let whole = json!({"cells": [{"cell_type": "markdown", "source": "x"}]}).to_string();
        for cut in 0..whole.len() {
            let message = extract(&whole[..cut], "a.ipynb").unwrap_err().message;
            assert!(
                message.starts_with("the notebook is malformed: "),
                "{message}"
            );
        }
        for odd in ["[]", "{\"cells\": 1}", "{\"cells\": [1]}", "7"] {
            assert!(extract(odd, "a.ipynb").is_err());
        }
        let odd = json!([{"source": 7}, {"cell_type": "code", "source": null, "outputs": [{"text": {}}]}]);
        assert_eq!(of_cells(&odd), "");
    }
}
