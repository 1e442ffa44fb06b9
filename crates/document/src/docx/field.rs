//! Fields: an instruction and a result, of which only the result is shown.

use quick_xml::{Reader, errors::Error, events::Event};

use crate::xml::{attribute, is_on};

/// The fields that are open, the innermost last. True while the instruction is being read.
#[derive(Debug, Default)]
pub struct Fields {
    open: Vec<bool>,
}

impl Fields {
    /// Reads one of the three signs of a field.
    pub fn mark(&mut self, sign: &str) {
        match sign {
            "begin" => self.open.push(true),
            "separate" => {
                if let Some(in_instruction) = self.open.last_mut() {
                    *in_instruction = false;
                }
            }
            "end" => {
                self.open.pop();
            }
            _ => {}
        }
    }

    /// Returns true inside of a field that belongs to the instruction of another one.
    pub fn is_hidden(&self) -> bool {
        let outer = self.open.len().saturating_sub(1);
        self.open[..outer]
            .iter()
            .any(|in_instruction| *in_instruction)
    }

    /// Closes fields whose instruction does not end in its paragraph: they are damaged.
    pub fn end_paragraph(&mut self) {
        if self.open.iter().any(|in_instruction| *in_instruction) {
            self.open.clear();
        }
    }
}

/// Reads a field of a form up to its end. Returns what it shows beside its text: a box, or the
/// chosen entry of a list.
pub fn form_field(reader: &mut Reader<&[u8]>) -> Result<Option<String>, Error> {
    let mut ticked: Option<bool> = None;
    let (mut entries, mut chosen) = (vec![], 0usize);
    let mut in_box = false;
    loop {
        match reader.read_event()? {
            Event::Start(element) => match element.local_name().into_inner() {
                "checkBox" => {
                    in_box = true;
                    ticked = ticked.or(Some(false));
                }
                // What was ticked comes after what is ticked at first.
                "default" | "checked" if in_box => ticked = Some(is_on(&element)),
                "default" | "result" => {
                    let number = attribute(&element, "val");
                    chosen = number.and_then(|n| n.parse().ok()).unwrap_or(chosen);
                }
                "listEntry" => entries.extend(attribute(&element, "val")),
                _ => {}
            },
            Event::End(element) => match element.local_name().into_inner() {
                "checkBox" => in_box = false,
                "ffData" => break,
                _ => {}
            },
            Event::Eof => break,
            _ => {}
        }
    }
    let sign = ticked.map(|ticked| if ticked { "☒" } else { "☐" }.to_owned());
    Ok(sign.or_else(|| entries.into_iter().nth(chosen)))
}
