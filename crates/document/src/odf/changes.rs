//! Tracked changes. Deleted text is in a part of its own, or in the body between two marks.

use std::collections::HashSet;

use quick_xml::{Reader, errors::Error, events::Event};

use crate::xml::attribute;

#[derive(Default)]
pub struct Changes {
    /// Ids of changes that deleted text.
    deletions: HashSet<String>,
    /// Those of them that are open.
    open: HashSet<String>,
}

impl Changes {
    /// Reads the list of changes, whose first tag has been read, up to its end.
    pub fn read(&mut self, reader: &mut Reader<&[u8]>) -> Result<(), Error> {
        let mut id = String::new();
        loop {
            match reader.read_event()? {
                Event::Start(element) => match element.local_name().into_inner() {
                    "changed-region" => id = attribute(&element, "id").unwrap_or_default(),
                    "deletion" => {
                        self.deletions.insert(id.clone());
                        reader.read_to_end(element.name())?;
                    }
                    _ => {}
                },
                Event::End(element) if element.local_name().into_inner() == "tracked-changes" => {
                    return Ok(());
                }
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    pub fn begin(&mut self, id: String) {
        if self.deletions.contains(&id) {
            self.open.insert(id);
        }
    }

    pub fn end(&mut self, id: &str) {
        self.open.remove(id);
    }

    pub fn is_deleted(&self) -> bool {
        !self.open.is_empty()
    }
}
