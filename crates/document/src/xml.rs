//! What the readers of XML formats share. Only the five entities of XML are expanded.

use std::borrow::Cow;

use quick_xml::{
    Reader,
    XmlVersion::Implicit1_0 as XML,
    events::{BytesStart, Event},
};

/// Returns the value of an attribute, by its name without the prefix.
pub fn attribute(element: &BytesStart, name: &str) -> Option<String> {
    // The check for two of the same name compares each with all before it.
    let found = element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|a| a.key.local_name().into_inner() == name)?;
    Some(found.normalized_value(XML).ok()?.into_owned())
}

/// Returns true unless the attribute `val` of an element says that it is switched off.
pub fn is_on(element: &BytesStart) -> bool {
    !matches!(
        attribute(element, "val").as_deref(),
        Some("0" | "false" | "off")
    )
}

/// Returns the text of an event, or `None` for one that is no text.
pub fn text<'a>(event: &'a Event) -> Option<Cow<'a, str>> {
    match event {
        Event::Text(piece) => Some(piece.xml10_content()),
        Event::CData(piece) => Some(Cow::Borrowed(piece)),
        Event::GeneralRef(entity) => Some(match entity.resolve_char_ref() {
            Ok(Some(c)) => c.to_string().into(),
            // Others than those of XML have none.
            _ => quick_xml::escape::resolve_predefined_entity(entity)
                .unwrap_or_default()
                .into(),
        }),
        _ => None,
    }
}

/// Returns the text of the first element with a name.
pub fn text_of(xml: &str, name: &str) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    let mut found: Option<String> = None;
    loop {
        match &reader.read_event().ok()? {
            Event::Start(element) if element.local_name().into_inner() == name => {
                found = Some(String::new())
            }
            Event::End(element) if element.local_name().into_inner() == name => return found,
            Event::Eof => return None,
            event => {
                if let (Some(found), Some(piece)) = (&mut found, text(event)) {
                    found.push_str(&piece);
                }
            }
        }
    }
}
