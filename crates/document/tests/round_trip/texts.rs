//! Writes blocks in formats that are text.

use serde_json::json;

use super::{Block, xml};

/// Returns the id that a heading has in HTML.
pub fn id(words: &[String]) -> String {
    words.join("-").to_lowercase()
}

/// Escapes what Markdown, reStructuredText and others would read as markup.
fn escaped(words: &[String], signs: &str) -> String {
    let mut text = String::new();
    for c in words.join(" ").chars() {
        if signs.contains(c) {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

pub fn markdown(blocks: &[Block]) -> String {
    let plain = |words: &[String]| escaped(words, "_<&");
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .map(|cell| plain(std::slice::from_ref(cell)))
            .collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = String::new();
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => format!("{} {}\n", "#".repeat(*level), plain(words)),
            Block::Paragraph(words) => plain(words) + "\n",
            Block::List(items) => items
                .iter()
                .map(|item| format!("* {}\n", plain(item)))
                .collect(),
            Block::Table(rows) => {
                let rule = "|---".repeat(rows[0].len()) + "|\n";
                let body: String = rows[1..].iter().map(|cells| row(cells)).collect();
                row(&rows[0]) + &rule + &body
            }
            Block::Code(words) => format!("```\n{}\n```\n", words.join("\n")),
        };
        text.push('\n');
    }
    text
}

pub fn html(blocks: &[Block]) -> String {
    let mut text = String::from("<!DOCTYPE html><html><body><main>");
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => {
                format!("<h{level} id=\"{}\">{}</h{level}>", id(words), xml(words))
            }
            Block::Paragraph(words) => format!("<p>{}</p>", xml(words)),
            Block::List(items) => {
                let items: String = items
                    .iter()
                    .map(|item| format!("<li>{}</li>", xml(item)))
                    .collect();
                format!("<ul>{items}</ul>")
            }
            Block::Table(rows) => table(rows, "table", "tr", "td"),
            Block::Code(words) => format!("<pre><code>{}</code></pre>", xml(words)),
        };
        text.push('\n');
    }
    text + "</main></body></html>"
}

/// Writes a table with these elements.
pub fn table(rows: &[Vec<String>], whole: &str, row: &str, cell: &str) -> String {
    let of_row = |cells: &Vec<String>| {
        let cells: String = cells
            .iter()
            .map(|words| format!("<{cell}>{}</{cell}>", xml(std::slice::from_ref(words))))
            .collect();
        format!("<{row}>{cells}</{row}>")
    };
    format!(
        "<{whole}>{}</{whole}>",
        rows.iter().map(of_row).collect::<String>()
    )
}

pub fn rst(blocks: &[Block]) -> String {
    let plain = |words: &[String]| escaped(words, "_*`|");
    let mut text = String::new();
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => {
                let title = plain(words);
                let sign = ["=", "-", "~"][level - 1];
                format!("{title}\n{}\n", sign.repeat(title.chars().count()))
            }
            Block::Paragraph(words) => plain(words) + "\n",
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}\n", plain(item)))
                .collect(),
            Block::Table(rows) => {
                let row = |cells: &Vec<String>| {
                    let (first, rest) = cells.split_first().unwrap();
                    let rest: String = rest
                        .iter()
                        .map(|cell| format!("     - {}\n", plain(std::slice::from_ref(cell))))
                        .collect();
                    format!("   * - {}\n{rest}", plain(std::slice::from_ref(first)))
                };
                let rows: String = rows.iter().map(row).collect();
                format!(".. list-table::\n   :header-rows: 1\n\n{rows}")
            }
            Block::Code(words) => format!(".. code-block:: text\n\n   {}\n", words.join("\n   ")),
        };
        text.push('\n');
    }
    text
}

pub fn asciidoc(blocks: &[Block]) -> String {
    let plain = |words: &[String]| words.join(" ");
    let mut text = String::from("= Document\n\n");
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => {
                format!("{} {}\n", "=".repeat(level + 1), plain(words))
            }
            Block::Paragraph(words) => plain(words) + "\n",
            Block::List(items) => items
                .iter()
                .map(|item| format!("* {}\n", plain(item)))
                .collect(),
            Block::Table(rows) => {
                let row = |cells: &Vec<String>| format!("|{}\n", cells.join(" |"));
                let rows: String = rows.iter().map(row).collect();
                format!("|===\n{rows}|===\n")
            }
            Block::Code(words) => format!("----\n{}\n----\n", words.join("\n")),
        };
        text.push('\n');
    }
    text
}

pub fn org(blocks: &[Block]) -> String {
    let plain = |words: &[String]| words.join(" ");
    let mut text = String::new();
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => format!("{} {}\n", "*".repeat(*level), plain(words)),
            Block::Paragraph(words) => plain(words) + "\n",
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}\n", plain(item)))
                .collect(),
            Block::Table(rows) => {
                let row = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
                rows.iter().map(row).collect()
            }
            Block::Code(words) => {
                format!("#+begin_src text\n{}\n#+end_src\n", words.join("\n"))
            }
        };
        text.push('\n');
    }
    text
}

/// A cell for each block.
pub fn notebook(blocks: &[Block]) -> String {
    let cells: Vec<serde_json::Value> = blocks
        .iter()
        .map(|block| match block {
            Block::Code(words) => {
                json!({"cell_type": "code", "source": words.join("\n"), "outputs": []})
            }
            block => json!({
                "cell_type": "markdown",
                "source": markdown(std::slice::from_ref(block)),
            }),
        })
        .collect();
    json!({"cells": cells, "nbformat": 4, "metadata": {}}).to_string()
}

/// A message with a page.
pub fn mail(blocks: &[Block]) -> String {
    let page = html(blocks).replace('=', "=3D");
    let lines: Vec<String> = page.split(' ').map(|word| format!("{word} =")).collect();
    format!(
        "From: Ann <ann@example.org>\r\nSubject: Words\r\nMIME-Version: 1.0\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\
         \r\n{}\r\n",
        lines.join("\r\n")
    )
}

pub fn feed(blocks: &[Block]) -> String {
    let page = html(blocks);
    let body = page
        .split("<main>")
        .nth(1)
        .unwrap()
        .split("</main>")
        .next()
        .unwrap();
    format!(
        "<rss version='2.0'><channel><title>Feed</title><item><title>Entry</title><description>\
         <![CDATA[{body}]]></description></item></channel></rss>"
    )
}

pub fn rtf(blocks: &[Block]) -> String {
    let plain = |words: &[String]| -> String {
        let unicode = |c: char| match c {
            '\\' | '{' | '}' => format!("\\{c}"),
            c if c.is_ascii() => c.to_string(),
            c => format!("\\u{}?", i32::from(u32::from(c) as u16 as i16)),
        };
        words.join(" ").chars().map(unicode).collect()
    };
    let mut text = String::from("{\\rtf1\\ansi\\deff0{\\fonttbl{\\f0 Times;}}\n");
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => {
                format!(
                    "\\pard\\outlinelevel{}\\b {}\\b0\\par\n",
                    level - 1,
                    plain(words)
                )
            }
            Block::Paragraph(words) => format!("\\pard {}\\par\n", plain(words)),
            Block::List(items) => items
                .iter()
                .map(|item| {
                    format!(
                        "{{\\pntext\\bullet\\tab}}\\pard\\ls1 {}\\par\n",
                        plain(item)
                    )
                })
                .collect(),
            Block::Table(rows) => {
                let row = |cells: &Vec<String>| {
                    let ends: String = (1..=cells.len())
                        .map(|i| format!("\\cellx{}", 2000 * i))
                        .collect();
                    let cells: String = cells
                        .iter()
                        .map(|cell| format!("{}\\cell ", plain(std::slice::from_ref(cell))))
                        .collect();
                    format!("\\trowd{ends}\\pard\\intbl {cells}\\row\n")
                };
                rows.iter().map(row).collect()
            }
            Block::Code(words) => words
                .iter()
                .map(|line| format!("\\pard {}\\par\n", plain(std::slice::from_ref(line))))
                .collect(),
        };
    }
    text + "}"
}
