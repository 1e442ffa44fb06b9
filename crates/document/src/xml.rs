//! What the readers of XML formats share. Only the five entities of XML are expanded.

use quick_xml::{
    Reader,
    XmlVersion::Implicit1_0 as XML,
    events::{BytesRef, BytesStart, Event},
};

/// Returns the value of an attribute, by its name without the prefix.
pub fn attribute(element: &BytesStart, name: &str) -> Option<String> {
    let found = element
        .attributes()
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

/// Adds the character of an entity. Others than those of XML have none.
pub fn push_entity(text: &mut String, entity: &BytesRef) {
    match entity.resolve_char_ref() {
        Ok(Some(c)) => text.push(c),
        _ => {
            text.push_str(quick_xml::escape::resolve_predefined_entity(entity).unwrap_or_default())
        }
    }
}

/// Returns the text of the first element with a name.
pub fn text_of(xml: &str, name: &str) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    let mut text: Option<String> = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) if element.local_name().into_inner() == name => {
                text = Some(String::new())
            }
            Event::Text(piece) => text
                .iter_mut()
                .for_each(|text| text.push_str(&piece.xml10_content())),
            Event::CData(piece) => text.iter_mut().for_each(|text| text.push_str(&piece)),
            Event::GeneralRef(entity) => {
                text.iter_mut().for_each(|text| push_entity(text, &entity))
            }
            Event::End(element) if element.local_name().into_inner() == name => return text,
            Event::Eof => return None,
            _ => {}
        }
    }
}
