//! Slides of PowerPoint (`.pptx`): a ZIP archive with a part for each slide.
//!
//! A slide is a section under its title. Its texts follow in the order in which they are drawn,
//! then tables, charts and diagrams where they are, then the notes for the speaker. Numbers of
//! slides, dates and footers are left out. So are hidden slides, which are counted.

use std::collections::HashMap;

use quick_xml::{
    Reader,
    errors::Error,
    events::{BytesStart, Event},
};

use crate::{
    DocumentError, ExtractedDocument,
    blocks::{self, Block},
    compound::{self, is_compound},
    docx::{Script, Shape, Table, Words, chart, formula},
    odf,
    package::{Package, is_encrypted, target},
    title,
    xml::{self, attribute, text_of},
};

/// Maximum number of slides.
const MAX_SLIDES: usize = 10_000;

pub fn extract(bytes: &[u8], name: &str) -> Result<ExtractedDocument, DocumentError> {
    if odf::is_open_document(bytes) {
        return odf::read(odf::Parts::open(bytes, "presentation")?, name);
    }
    if is_compound(bytes) && !is_encrypted(bytes) {
        return compound::slides::extract(bytes, name);
    }
    let mut package = Package::open(bytes, "presentation")?;
    let of_file = package.relations("")?;
    let named = target(&of_file, "officeDocument").unwrap_or("ppt/presentation.xml");
    let main = named.to_owned();
    let Some(presentation) = package.text(&main)? else {
        return Err(package.malformed(&"it has no ppt/presentation.xml"));
    };
    let relations = package.relations(&main)?;
    let ids = slide_ids(&presentation).map_err(|e| package.malformed(&e))?;
    let places: HashMap<String, String> = relations
        .into_iter()
        .rev()
        .map(|relation| (relation.id, relation.target))
        .collect();
    let mut blocks = vec![];
    let mut hidden = 0;
    for place in ids.iter().take(MAX_SLIDES).filter_map(|id| places.get(id)) {
        match read_slide(&mut package, place)? {
            Some(slide) => blocks.extend(slide),
            None => hidden += 1,
        }
    }
    let core = package.text("docProps/core.xml")?;
    let declared = core.and_then(|core| text_of(&core, "title"));
    let title = declared
        .as_deref()
        // What the program writes where nobody gave a title.
        .filter(|title| *title != "PowerPoint Presentation")
        .and_then(title::own);
    let mut extracted = ExtractedDocument::in_markdown(blocks::markdown(&blocks), title, name);
    extracted.lost(hidden, "hidden slide", "hidden slides", "left out");
    Ok(extracted)
}

/// Returns the ids of the references to the slides, in order.
fn slide_ids(presentation: &str) -> Result<Vec<String>, Error> {
    let mut ids = vec![];
    let mut reader = Reader::from_str(presentation);
    loop {
        match reader.read_event()? {
            Event::Start(element) | Event::Empty(element)
                if element.local_name().into_inner() == "sldId" =>
            {
                // It has an id of its own without a prefix.
                let of_part = element
                    .attributes()
                    .with_checks(false)
                    .flatten()
                    .find(|attribute| attribute.key.into_inner().ends_with(":id"));
                ids.extend(of_part.map(|attribute| attribute.value.to_string()));
            }
            Event::Eof => return Ok(ids),
            _ => {}
        }
    }
}

/// Returns what a slide shows, or `None` if it is hidden.
fn read_slide(package: &mut Package, place: &str) -> Result<Option<Vec<Block>>, DocumentError> {
    let Some(xml) = package.text(place)? else {
        return Ok(Some(vec![]));
    };
    let relations = package.relations(place)?;
    let slide = Slide::read(&xml).map_err(|e| package.malformed(&e))?;
    if slide.is_hidden {
        return Ok(None);
    }
    let mut blocks = slide.titles;
    for piece in slide.pieces {
        match piece {
            Piece::Block(block) => blocks.push(block),
            Piece::Part(id) => {
                let part = relations.iter().find(|relation| relation.id == id);
                let Some(part) = part else { continue };
                let xml = package.text(&part.target)?.unwrap_or_default();
                match part.kind.as_str() {
                    "chart" => blocks.extend(chart::chart(&xml)),
                    "diagramData" => blocks.extend(chart::diagram(&xml)),
                    _ => {}
                }
            }
        }
    }
    if let Some(notes) = target(&relations, "notesSlide")
        && let Some(xml) = package.text(notes)?
    {
        let notes = Slide::read(&xml).map_err(|e| package.malformed(&e))?;
        let notes = notes.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Block(block) => Some(block),
            Piece::Part(_) => None,
        });
        blocks.extend(notes);
    }
    Ok(Some(blocks))
}

enum Piece {
    Block(Block),
    /// A chart or a diagram, by the id of the reference to it.
    Part(String),
}

#[derive(Default)]
struct Slide {
    is_hidden: bool,
    /// The part has the notes of a slide.
    is_notes: bool,
    titles: Vec<Block>,
    pieces: Vec<Piece>,
    /// What the open shape is for: `title`, `body`, `sldNum` and so on.
    role: String,
    words: Option<Words>,
    script: Script,
    /// The level of the open paragraph, and whether it is an item.
    depth: usize,
    is_item: bool,
    table: Option<Table>,
    cell: Option<(Vec<Block>, Shape)>,
    in_text: bool,
    /// Inside of a field that the program fills in, such as the number of the slide.
    in_field: bool,
    alternatives: Vec<(usize, bool)>,
    texts: usize,
}

impl Slide {
    fn read(xml: &str) -> Result<Self, Error> {
        let mut slide = Self::default();
        let mut reader = Reader::from_str(xml);
        reader.config_mut().expand_empty_elements = true;
        loop {
            match &reader.read_event()? {
                Event::Start(element) => slide.start(element, &mut reader)?,
                Event::End(element) => slide.end(element.local_name().into_inner()),
                Event::Eof => return Ok(slide),
                event => {
                    if let (true, Some(piece)) = (slide.in_text, xml::text(event)) {
                        slide.push(&piece);
                    }
                }
            }
        }
    }

    fn push(&mut self, text: &str) {
        if let (Some(words), false) = (&mut self.words, self.in_field) {
            words.push(text, self.script);
            self.texts += 1;
        }
    }

    fn start(&mut self, element: &BytesStart, reader: &mut Reader<&[u8]>) -> Result<(), Error> {
        let value = |name| attribute(element, name);
        match element.local_name().into_inner() {
            "Choice" | "Fallback" if self.alternatives.last().is_some_and(|(_, read)| *read) => {
                reader.read_to_end(element.name())?;
            }
            "oMath" => {
                let line = formula::read(reader)?;
                self.push(&line);
            }
            "AlternateContent" => self.alternatives.push((self.texts, false)),
            "notes" => self.is_notes = true,
            "sld" => self.is_hidden = matches!(value("show").as_deref(), Some("0" | "false")),
            "sp" | "graphicFrame" | "cxnSp" | "pic" => self.role.clear(),
            "ph" => self.role = value("type").unwrap_or_else(|| "body".into()),
            "p" => {
                self.words = Some(Words::default());
                self.depth = 0;
                // Texts of the layout for a body are lists.
                self.is_item = self.role == "body" && !self.is_notes;
            }
            "pPr" => {
                self.depth = value("lvl").and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            "buNone" => self.is_item = false,
            "buChar" | "buAutoNum" => self.is_item = true,
            "rPr" => {
                let baseline = value("baseline").and_then(|n| n.parse::<i32>().ok());
                self.script = match baseline.unwrap_or(0) {
                    0 => Script::Line,
                    1.. => Script::Super,
                    _ => Script::Sub,
                };
            }
            "r" => self.script = Script::Line,
            "fld" => self.in_field = value("type").is_some_and(|of| of == "slidenum"),
            "t" => self.in_text = true,
            "br" => {
                self.script = Script::Line;
                self.push("\n");
            }
            "tbl" => self.table = Some(Table::default()),
            "tr" => self.table.iter_mut().for_each(Table::begin_row),
            "tc" => {
                let is_on = |name| matches!(value(name).as_deref(), Some("1" | "true"));
                let shape = Shape {
                    // The cells that are covered follow.
                    columns: 1,
                    is_below: is_on("vMerge"),
                    is_beside: is_on("hMerge"),
                };
                self.cell = Some((vec![], shape));
            }
            "chart" => self.pieces.extend(value("id").map(Piece::Part)),
            "relIds" => self.pieces.extend(value("dm").map(Piece::Part)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" => self.in_text = false,
            "fld" => self.in_field = false,
            "p" => self.end_paragraph(),
            "tc" => {
                if let (Some(table), Some((blocks, shape))) = (&mut self.table, self.cell.take()) {
                    table.add(blocks, shape);
                }
            }
            "tbl" => {
                let table = self.table.take().map(Table::finish);
                let blocks = table.into_iter().flatten().map(Piece::Block);
                self.texts += 1;
                self.pieces.extend(blocks);
            }
            "Choice" => {
                let texts = self.texts;
                if let Some((before, is_read)) = self.alternatives.last_mut() {
                    *is_read |= texts > *before;
                }
            }
            "AlternateContent" => {
                self.alternatives.pop();
            }
            _ => {}
        }
    }

    fn end_paragraph(&mut self) {
        let Some(words) = self.words.take() else {
            return;
        };
        let text = words.finish();
        let depth = self.depth;
        let block = match self.role.as_str() {
            // What the program fills in on each slide.
            "sldNum" | "dt" | "ftr" | "hdr" | "sldImg" => return,
            "title" | "ctrTitle" => {
                self.titles.push(Block::Heading { level: 1, text });
                return;
            }
            _ if self.is_item => Block::Item {
                depth,
                label: String::new(),
                text,
            },
            _ => Block::Text(text),
        };
        if block.is_blank() {
            return;
        }
        match &mut self.cell {
            Some((blocks, _)) => blocks.push(block),
            None => self.pieces.push(Piece::Block(block)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::packed;

    fn relation(id: &str, kind: &str, target: &str) -> String {
        format!("<Relationship Id=\"{id}\" Type=\"x/{kind}\" Target=\"{target}\"/>")
    }

    fn of(relations: &str) -> String {
        format!("<Relationships>{relations}</Relationships>")
    }

    /// A presentation whose second part comes first.
    fn read(first: &str, second: &str, more: &[(&str, &str)]) -> ExtractedDocument {
        let presentation = "<p:presentation><p:sldIdLst><p:sldId id=\"256\" r:id=\"b\"/>\
            <p:sldId id=\"257\" r:id=\"a\"/><p:sldId id=\"258\" r:id=\"gone\"/></p:sldIdLst>\
            </p:presentation>";
        let links = of(&(relation("a", "slide", "slides/slide1.xml")
            + &relation("b", "slide", "slides/slide2.xml")));
        let mut files: Vec<(&str, &[u8])> = vec![
            ("ppt/presentation.xml", presentation.as_bytes()),
            ("ppt/_rels/presentation.xml.rels", links.as_bytes()),
            ("ppt/slides/slide1.xml", second.as_bytes()),
            ("ppt/slides/slide2.xml", first.as_bytes()),
        ];
        files.extend(more.iter().map(|(name, xml)| (*name, xml.as_bytes())));
        extract(&packed(&files), "a.pptx").unwrap()
    }

    fn slide(shapes: &str) -> String {
        format!("<p:sld><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>")
    }

    fn shape(role: &str, paragraphs: &str) -> String {
        let role = match role {
            "" => String::new(),
            "body" => "<p:ph idx=\"1\"/>".into(),
            role => format!("<p:ph type=\"{role}\"/>"),
        };
        format!(
            "<p:sp><p:nvSpPr><p:nvPr>{role}</p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"
        )
    }

    fn p(properties: &str, text: &str) -> String {
        format!("<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>")
    }

    #[test]
    fn slides_are_sections_in_their_order() {
        let first = slide(
            &(shape(
                "body",
                &(p("", "One") + &p("<a:pPr lvl=\"1\"/>", "Deeper &amp; down")),
            ) + &shape("title", &p("", "Plan"))
                + &shape(
                    "",
                    &(p("", "Free") + &p("<a:pPr><a:buNone/></a:pPr>", "# text")),
                )
                + &shape(
                    "sldNum",
                    "<a:p><a:fld type=\"slidenum\"><a:t>7</a:t></a:fld></a:p>",
                )
                + &shape("ftr", &p("", "Footer"))),
        );
        let second = slide(&shape(
            "ctrTitle",
            "<a:p><a:r><a:t>The</a:t></a:r><a:br/><a:r><a:t>end</a:t></a:r></a:p>",
        ));
        let notes = slide(&(shape("sldImg", "") + &shape("body", &p("", "Say it."))));
        let notes = notes.replace("p:sld>", "p:notes>");
        let links = of(&relation("n", "notesSlide", "../notesSlides/notes1.xml"));
        let extracted = read(
            &first,
            &second,
            &[
                ("ppt/slides/_rels/slide2.xml.rels", &links),
                ("ppt/notesSlides/notes1.xml", &notes),
            ],
        );
        assert_eq!(
            extracted.text,
            "# Plan\n\n- One\n  - Deeper & down\n\nFree\n\n\\# text\n\nSay it.\n\n# The end"
        );
        assert_eq!(extracted.title.text, "Plan");
    }

    #[test]
    fn tables_groups_and_scripts_are_read_and_hidden_slides_told() {
        let cell = |more: &str, text: &str| {
            format!("<a:tc {more}><a:txBody>{}</a:txBody></a:tc>", p("", text))
        };
        let table = format!(
            "<p:graphicFrame><a:tbl><a:tr>{}{}</a:tr><a:tr>{}{}</a:tr><a:tr>{}{}</a:tr></a:tbl></p:graphicFrame>",
            cell("rowSpan=\"2\"", "k"),
            cell("", "v"),
            cell("vMerge=\"1\"", ""),
            cell("", "b"),
            cell("gridSpan=\"2\"", "wide"),
            cell("hMerge=\"1\"", ""),
        );
        let raised =
            "<a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline=\"30000\"/><a:t>6</a:t></a:r></a:p>";
        let alternate = format!(
            "<mc:AlternateContent><mc:Choice>{0}</mc:Choice><mc:Fallback>{0}</mc:Fallback>\
            </mc:AlternateContent>",
            shape("", &p("", "once"))
        );
        let first = slide(&format!(
            "<p:grpSp>{}</p:grpSp>{table}{alternate}",
            shape("", raised)
        ));
        let hidden =
            slide(&shape("title", &p("", "Secret"))).replacen("<p:sld>", "<p:sld show=\"0\">", 1);
        let extracted = read(&first, &hidden, &[]);
        assert_eq!(
            extracted.text,
            "10^6\n\n| k | v |\n| --- | --- |\n| k | b |\n| wide | |\n\nonce"
        );
        assert_eq!(extracted.warnings[0].message, "1 hidden slide was left out");
    }

    #[test]
    fn hostile_presentations_are_read_or_refused() {
        for bytes in [
            &b"PK\x03\x04nothing"[..],
            b"text",
            &packed(&[("a.txt", b"x")]),
        ] {
            assert!(extract(bytes, "a.pptx").is_err());
        }
        let deep = |tag: &str| {
            slide(&format!(
                "{}{}{}",
                format!("<{tag}>").repeat(20_000),
                p("", "x"),
                format!("</{tag}>").repeat(20_000)
            ))
        };
        for tag in [
            "p:grpSp",
            "a:tbl",
            "a:tc",
            "a:p",
            "mc:AlternateContent",
            "m:oMath",
            "a:tr",
        ] {
            let _ = read(&deep(tag), "<p:sld/>", &[]);
        }
    }
}
