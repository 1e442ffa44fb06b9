//! Writes blocks in formats that are archives of XML.

use std::io::{Cursor, Write};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::{Block, texts, xml};

fn packed(files: &[(&str, String)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    for (name, content) in files {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

pub fn docx(blocks: &[Block]) -> Vec<u8> {
    let paragraph = |properties: &str, words: &[String]| {
        format!(
            "<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space=\"preserve\">{}</w:t></w:r></w:p>",
            xml(words)
        )
    };
    let mut body = String::new();
    for block in blocks {
        body += &match block {
            Block::Heading(level, words) => {
                paragraph(&format!("<w:outlineLvl w:val=\"{}\"/>", level - 1), words)
            }
            Block::Paragraph(words) => paragraph("", words),
            Block::List(items) => {
                let number = "<w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"1\"/></w:numPr>";
                items.iter().map(|item| paragraph(number, item)).collect()
            }
            Block::Table(rows) => {
                let cell = |words: &String| {
                    format!(
                        "<w:tc>{}</w:tc>",
                        paragraph("", std::slice::from_ref(words))
                    )
                };
                let row = |cells: &Vec<String>| {
                    format!(
                        "<w:tr>{}</w:tr>",
                        cells.iter().map(cell).collect::<String>()
                    )
                };
                format!(
                    "<w:tbl>{}</w:tbl>",
                    rows.iter().map(row).collect::<String>()
                )
            }
            Block::Code(words) => words
                .iter()
                .map(|line| paragraph("", std::slice::from_ref(line)))
                .collect(),
        };
    }
    packed(&[(
        "word/document.xml",
        format!("<w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>"),
    )])
}

pub fn odt(blocks: &[Block]) -> Vec<u8> {
    let paragraph = |words: &[String]| format!("<text:p>{}</text:p>", xml(words));
    let mut body = String::new();
    for block in blocks {
        body += &match block {
            Block::Heading(level, words) => {
                format!(
                    "<text:h text:outline-level=\"{level}\">{}</text:h>",
                    xml(words)
                )
            }
            Block::Paragraph(words) => paragraph(words),
            Block::List(items) => {
                let item = |item: &Vec<String>| {
                    format!("<text:list-item>{}</text:list-item>", paragraph(item))
                };
                format!(
                    "<text:list>{}</text:list>",
                    items.iter().map(item).collect::<String>()
                )
            }
            Block::Table(rows) => {
                let cell = |words: &String| {
                    let inner = paragraph(std::slice::from_ref(words));
                    format!("<table:table-cell>{inner}</table:table-cell>")
                };
                let row = |cells: &Vec<String>| {
                    let cells: String = cells.iter().map(cell).collect();
                    format!("<table:table-row>{cells}</table:table-row>")
                };
                format!(
                    "<table:table>{}</table:table>",
                    rows.iter().map(row).collect::<String>()
                )
            }
            Block::Code(words) => words
                .iter()
                .map(|line| paragraph(std::slice::from_ref(line)))
                .collect(),
        };
    }
    packed(&[
        ("mimetype", "application/vnd.oasis.opendocument.text".into()),
        (
            "content.xml",
            format!(
                "<office:document-content><office:body><office:text>{body}</office:text>\
                 </office:body></office:document-content>"
            ),
        ),
    ])
}

fn relations(relations: &[(&str, &str, &str)]) -> String {
    let relations: String = relations
        .iter()
        .map(|(id, kind, target)| {
            format!(
                "<Relationship Id=\"{id}\" Type=\"http://schemas.openxmlformats.org/officeDocument/\
                 2006/relationships/{kind}\" Target=\"{target}\"/>"
            )
        })
        .collect();
    format!("<Relationships>{relations}</Relationships>")
}

/// One slide, with a shape for each block.
pub fn pptx(blocks: &[Block]) -> Vec<u8> {
    let paragraph = |words: &[String]| format!("<a:p><a:r><a:t>{}</a:t></a:r></a:p>", xml(words));
    let shape = |paragraphs: String| {
        format!(
            "<p:sp><p:nvSpPr><p:nvPr><p:ph idx=\"1\"/></p:nvPr></p:nvSpPr><p:txBody>{paragraphs}\
             </p:txBody></p:sp>"
        )
    };
    let mut shapes = String::new();
    for block in blocks {
        shapes += &match block {
            Block::Heading(_, words) | Block::Paragraph(words) => shape(paragraph(words)),
            Block::List(items) => shape(items.iter().map(|item| paragraph(item)).collect()),
            Block::Table(rows) => {
                let cell = |words: &String| {
                    let inner = paragraph(std::slice::from_ref(words));
                    format!("<a:tc><a:txBody>{inner}</a:txBody></a:tc>")
                };
                let row = |cells: &Vec<String>| {
                    format!(
                        "<a:tr>{}</a:tr>",
                        cells.iter().map(cell).collect::<String>()
                    )
                };
                let rows: String = rows.iter().map(row).collect();
                format!(
                    "<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{rows}</a:tbl>\
                     </a:graphicData></a:graphic></p:graphicFrame>"
                )
            }
            Block::Code(words) => shape(
                words
                    .iter()
                    .map(|line| paragraph(std::slice::from_ref(line)))
                    .collect(),
            ),
        };
    }
    packed(&[
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldIdLst><p:sldId id=\"256\" r:id=\"a\"/></p:sldIdLst>\
             </p:presentation>"
                .into(),
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            relations(&[("a", "slide", "slides/slide1.xml")]),
        ),
        (
            "ppt/slides/slide1.xml",
            format!("<p:sld><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"),
        ),
    ])
}

/// A book of a page.
pub fn epub(blocks: &[Block]) -> Vec<u8> {
    let html = texts::html(blocks);
    let page = html.strip_prefix("<!DOCTYPE html>").unwrap();
    packed(&[
        ("mimetype", "application/epub+zip".into()),
        (
            "META-INF/container.xml",
            "<container><rootfiles><rootfile full-path=\"a.opf\"/></rootfiles></container>".into(),
        ),
        (
            "a.opf",
            "<package><metadata><dc:title>Book</dc:title></metadata><manifest><item id=\"a\" \
             href=\"a.xhtml\" media-type=\"application/xhtml+xml\"/></manifest><spine>\
             <itemref idref=\"a\"/></spine></package>"
                .into(),
        ),
        ("a.xhtml", page.into()),
    ])
}

/// A sheet with a row for each word. Of a table, each record would repeat the names of the columns.
pub fn xlsx(blocks: &[Block]) -> Vec<u8> {
    let mut sheet = String::new();
    for (number, word) in (1..).zip(blocks.iter().flat_map(Block::words)) {
        let text = xml(std::slice::from_ref(word));
        sheet += &format!(
            "<row r=\"{number}\"><c r=\"A{number}\" t=\"inlineStr\"><is><t>{text}</t></is></c></row>"
        );
    }
    packed(&[
        (
            "_rels/.rels",
            relations(&[("a", "officeDocument", "xl/workbook.xml")]),
        ),
        (
            "xl/workbook.xml",
            "<workbook xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/\
             relationships\"><sheets><sheet name=\"Words\" sheetId=\"1\" r:id=\"a\"/></sheets>\
             </workbook>"
                .into(),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            relations(&[("a", "worksheet", "worksheets/sheet1.xml")]),
        ),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet><sheetData>{sheet}</sheetData></worksheet>"),
        ),
    ])
}
