//! Formulas of Office (Office MathML) in a line: `(a+b)/2`, `x^2`, `√(2gh)`, `∑_(i=1)^n i`.

use quick_xml::{Reader, events::Event};

use crate::{
    formula::{base, fraction, grouped, root, with_scripts},
    xml::{attribute, text},
};

/// Maximum depth of elements in each other. Deeper ones are read as plain text.
const MAX_DEPTH: usize = 64;

/// An element of a formula.
#[derive(Debug, Default)]
struct Node {
    name: String,
    value: Option<String>,
    text: String,
    inner: Vec<Node>,
}

/// Reads a formula whose first tag has been read, up to its end. The reader tells of an empty
/// element as of a start and an end.
pub fn read(reader: &mut Reader<&[u8]>) -> Result<String, quick_xml::Error> {
    let mut open = vec![Node::default()];
    // Elements that are too deep to be nodes.
    let mut too_deep = 0usize;
    let mut in_text = false;
    loop {
        let event = reader.read_event()?;
        match &event {
            Event::Eof => break,
            Event::Start(element) => {
                let name = element.local_name().into_inner().to_owned();
                if matches!(name.as_str(), "rPr" | "ctrlPr" | "del" | "moveFrom") {
                    let end = element.to_end().into_owned();
                    reader.read_to_end(end.name())?;
                    continue;
                }
                in_text = name == "t";
                if open.len() > MAX_DEPTH {
                    too_deep += 1;
                } else {
                    open.push(Node {
                        name,
                        value: attribute(element, "val"),
                        ..Node::default()
                    });
                }
            }
            Event::End(_) => {
                in_text = false;
                if too_deep > 0 {
                    too_deep -= 1;
                    continue;
                }
                // The end of the formula itself.
                if open.len() == 1 {
                    break;
                }
                if let (Some(node), Some(parent)) = (open.pop(), open.last_mut()) {
                    parent.inner.push(node);
                }
            }
            event => {
                if let (true, Some(piece), Some(node)) = (in_text, text(event), open.last_mut()) {
                    node.text.push_str(&piece);
                }
            }
        }
    }
    while open.len() > 1 {
        if let (Some(node), Some(parent)) = (open.pop(), open.last_mut()) {
            parent.inner.push(node);
        }
    }
    let root = open.pop().unwrap_or_default();
    let line = root.line();
    Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Node {
    fn child(&self, name: &str) -> Option<&Self> {
        self.inner.iter().find(|node| node.name == name)
    }

    /// The parts of this element with a name, in a line.
    fn parts(&self, name: &str) -> Vec<String> {
        let parts = self.inner.iter().filter(|node| node.name == name);
        parts.map(Self::line).collect()
    }

    fn part(&self, name: &str) -> String {
        self.child(name).map(Self::line).unwrap_or_default()
    }

    /// A property of this element, which may be without a value.
    fn property(&self, name: &str) -> Option<&str> {
        let properties = self.inner.iter().find(|node| node.name.ends_with("Pr"))?;
        let found = properties.child(name)?;
        Some(found.value.as_deref().unwrap_or_default())
    }

    fn line(&self) -> String {
        match self.name.as_str() {
            "t" => self.text.clone(),
            "f" => self.fraction(),
            "sSup" | "sSub" | "sSubSup" => self.with_scripts(&base(&self.part("e"))),
            "sPre" => format!("{}{}", self.with_scripts(""), self.part("e")),
            "rad" => root(&self.part("e"), &self.part("deg")),
            "nary" => self.operator(),
            "d" => self.in_brackets(),
            "func" => format!("{} {}", self.part("fName"), self.part("e")),
            "limLow" => format!("{}_{}", self.part("e"), grouped(&self.part("lim"))),
            "limUpp" => format!("{}^{}", self.part("e"), grouped(&self.part("lim"))),
            "m" => self.rows("mr", "; ", ", "),
            "eqArr" => self.parts("e").join("; ").replace('&', ""),
            "acc" => self.accented(),
            "bar" => with_line(&self.part("e"), self.property("pos") == Some("top")),
            name if name.ends_with("Pr") => String::new(),
            _ => {
                let mut line = self.text.clone();
                self.inner
                    .iter()
                    .for_each(|node| line.push_str(&node.line()));
                line
            }
        }
    }

    fn fraction(&self) -> String {
        let (above, below) = (self.part("num"), self.part("den"));
        match self.property("type") {
            Some("noBar") => format!("({above} choose {below})"),
            _ => fraction(&above, &below),
        }
    }

    /// A sum, a product or an integral. Without a sign it is an integral.
    fn operator(&self) -> String {
        let sign = self.property("chr").unwrap_or("∫");
        format!("{} {}", self.with_scripts(sign), self.part("e"))
    }

    fn with_scripts(&self, base: &str) -> String {
        with_scripts(base, &self.part("sub"), &self.part("sup"))
    }

    fn in_brackets(&self) -> String {
        let open = self.property("begChr").unwrap_or("(");
        let close = self.property("endChr").unwrap_or(")");
        let separator = self.property("sepChr").unwrap_or("|");
        format!("{open}{}{close}", self.parts("e").join(separator))
    }

    fn rows(&self, row: &str, between_rows: &str, between_cells: &str) -> String {
        let rows = self.inner.iter().filter(|node| node.name == row);
        let rows: Vec<_> = rows.map(|row| row.parts("e").join(between_cells)).collect();
        format!("[{}]", rows.join(between_rows))
    }

    fn accented(&self) -> String {
        let of = self.part("e");
        let accent = self.property("chr").unwrap_or("\u{302}");
        if of.chars().count() == 1 {
            of + accent
        } else {
            format!("({of}){accent}")
        }
    }
}

/// Returns a text with a line over or under each character, once: bars in each other would double
/// the text.
fn with_line(of: &str, is_above: bool) -> String {
    let line = if is_above { '\u{305}' } else { '\u{332}' };
    let mut text = String::with_capacity(of.len() * 2);
    for c in of.chars().filter(|c| *c != line) {
        text.push(c);
        // A line below another mark is of the same character.
        if !matches!(c, '\u{300}'..='\u{36F}') {
            text.push(line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(formula: &str) -> String {
        // Letters are elements that hold themselves, for short.
        let mut xml = format!("{formula}</m:oMath>");
        for letter in [
            "a", "b", "c", "2", "n", "i=1", "x+1", "2c", "lim", "x→0", "−1",
        ] {
            let text = format!("<m:r><m:t>{letter}</m:t></m:r>");
            xml = xml.replace(&format!("[{letter}]"), &text);
        }
        let whole = format!("<m:oMath>{xml}");
        let mut reader = Reader::from_str(&whole);
        reader.config_mut().expand_empty_elements = true;
        reader.read_event().unwrap();
        read(&mut reader).unwrap()
    }

    #[test]
    fn formulas_are_written_in_a_line() {
        for (formula, expected) in [
            ("<m:f><m:num>[a]</m:num><m:den>[b]</m:den></m:f>", "a/b"),
            (
                "<m:f><m:num>[x+1]</m:num><m:den>[2c]</m:den></m:f>",
                "(x+1)/(2c)",
            ),
            (
                "<m:f><m:fPr><m:type m:val='noBar'/></m:fPr><m:num>[n]</m:num><m:den>[2]</m:den></m:f>",
                "(n choose 2)",
            ),
            (
                "<m:sSup><m:e>[a]</m:e><m:sup>[x+1]</m:sup></m:sSup>",
                "a^(x+1)",
            ),
            (
                "<m:sSup><m:e>[x+1]</m:e><m:sup>[−1]</m:sup></m:sSup>",
                "(x+1)^−1",
            ),
            ("<m:sSub><m:e>[a]</m:e><m:sub>[n]</m:sub></m:sSub>", "a_n"),
            (
                "<m:sSubSup><m:e>[a]</m:e><m:sub>[n]</m:sub><m:sup>[2]</m:sup></m:sSubSup>",
                "a_n^2",
            ),
            ("<m:rad><m:deg/><m:e>[2c]</m:e></m:rad>", "√(2c)"),
            (
                "<m:rad><m:deg>[n]</m:deg><m:e>[a]</m:e></m:rad>",
                "root_n(a)",
            ),
            (
                "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>[i=1]</m:sub><m:sup>[n]</m:sup>\
                 <m:e>[a]</m:e></m:nary>",
                "∑_(i=1)^n a",
            ),
            ("<m:nary><m:sub/><m:sup/><m:e>[a]</m:e></m:nary>", "∫ a"),
            ("<m:d><m:e>[a]</m:e><m:e>[b]</m:e></m:d>", "(a|b)"),
            (
                "<m:d><m:dPr><m:begChr m:val='['/><m:sepChr m:val=','/><m:endChr m:val=''/></m:dPr>\
                 <m:e>[a]</m:e><m:e>[b]</m:e></m:d>",
                "[a,b",
            ),
            (
                "<m:func><m:fName><m:limLow><m:e>[lim]</m:e><m:lim>[x→0]</m:lim></m:limLow></m:fName>\
                 <m:e>[a]</m:e></m:func>",
                "lim_(x→0) a",
            ),
            (
                "<m:m><m:mr><m:e>[a]</m:e><m:e>[b]</m:e></m:mr><m:mr><m:e>[c]</m:e><m:e>[2]</m:e>\
                 </m:mr></m:m>",
                "[a, b; c, 2]",
            ),
            ("<m:acc><m:e>[a]</m:e></m:acc>", "a\u{302}"),
            ("<m:r><w:rPr><w:b/></w:rPr><m:t>E=m</m:t></m:r>", "E=m"),
            ("<m:box><m:e>[a]</m:e></m:box>", "a"),
        ] {
            assert_eq!(line(formula), expected);
        }
    }

    #[test]
    fn a_formula_of_any_depth_is_read() {
        let deep = format!("{}[a]{}", "<m:e>".repeat(100_000), "</m:e>".repeat(100_000));
        assert_eq!(line(&deep), "a");
        assert_eq!(line(&format!("{deep}[b]")), "ab");
    }

    #[test]
    fn bars_in_each_other_do_not_double_the_text() {
        let bars = |begin: &str, count: usize| {
            let (begin, end) = (begin.repeat(count), "</m:e></m:bar>".repeat(count));
            line(&format!("{begin}[a][b]{end}"))
        };
        assert_eq!(bars("<m:bar><m:e>", 30), "a\u{332}b\u{332}");
        let above = "<m:bar><m:barPr><m:pos m:val='top'/></m:barPr><m:e>";
        assert_eq!(bars(above, 30), "a\u{305}b\u{305}");
        let both = format!("{above}<m:bar><m:e>[a]</m:e></m:bar></m:e></m:bar>");
        assert_eq!(line(&both), "a\u{305}\u{332}");
    }
}
