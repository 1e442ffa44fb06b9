//! Fields: an instruction and a result, of which only the result is shown.

use quick_xml::{Reader, errors::Error, events::Event};

use crate::xml::{attribute, is_on};

/// The fields that are open.
#[derive(Debug, Default)]
pub struct Fields {
    /// The innermost last. True while the instruction is being read.
    open: Vec<bool>,
    /// How many of them are in their instruction.
    instructions: usize,
}

impl Fields {
    /// Reads one of the three signs of a field.
    pub fn mark(&mut self, sign: &str) {
        match sign {
            "begin" => {
                self.open.push(true);
                self.instructions += 1;
            }
            "separate" => {
                if let Some(in_instruction) = self.open.last_mut() {
                    self.instructions -= usize::from(std::mem::take(in_instruction));
                }
            }
            "end" => self.instructions -= usize::from(self.open.pop() == Some(true)),
            _ => {}
        }
    }

    /// Returns true inside of a field that belongs to the instruction of another one.
    pub fn is_hidden(&self) -> bool {
        let own = usize::from(self.open.last() == Some(&true));
        self.instructions > own
    }

    /// Closes fields whose instruction does not end in its paragraph: they are damaged.
    pub fn end_paragraph(&mut self) {
        if self.instructions > 0 {
            *self = Self::default();
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
