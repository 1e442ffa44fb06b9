//! The fields of a form, which shapes of the body show.

use std::collections::HashMap;

use quick_xml::{Reader, errors::Error, events::Event};

use crate::xml::attribute;

/// What fields show, by their ids.
#[derive(Default)]
pub struct Controls(HashMap<String, String>);

impl Controls {
    /// Reads forms whose first tag has been read, up to their end.
    pub fn read(&mut self, reader: &mut Reader<&[u8]>) -> Result<(), Error> {
        loop {
            let element = match reader.read_event()? {
                Event::Start(element) | Event::Empty(element) => element,
                Event::End(element) if element.local_name().into_inner() == "forms" => {
                    return Ok(());
                }
                Event::Eof => return Ok(()),
                _ => continue,
            };
            let value = |name| attribute(&element, name);
            let Some(id) = value("id") else { continue };
            let label = value("label").unwrap_or_default();
            let shown = match element.local_name().into_inner() {
                "checkbox" | "radio" => {
                    let state = value("current-state").or_else(|| value("current-selected"));
                    let is_on = matches!(state.as_deref(), Some("checked" | "true"));
                    format!("{} {label}", if is_on { '☒' } else { '☐' })
                }
                "fixed-text" | "button" | "frame" => label,
                "text" | "textarea" | "formatted-text" | "number" | "date" | "time"
                | "combobox" => value("current-value")
                    .or_else(|| value("value"))
                    .unwrap_or_default(),
                _ => continue,
            };
            self.0.insert(id, shown);
        }
    }

    pub fn shown(&self, id: &str) -> Option<String> {
        let shown = self.0.get(id)?;
        Some(shown.clone()).filter(|shown| !shown.trim().is_empty())
    }
}
