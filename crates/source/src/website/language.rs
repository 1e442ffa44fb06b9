//! Tags of languages: `en`, `pt-BR`.

/// Returns a tag in small letters. Some pages write `pt_BR`.
pub fn tag_of(text: &str) -> Option<String> {
    let tag = text.trim().to_ascii_lowercase().replace('_', "-");
    let is_tag = !tag.is_empty()
        && tag.len() <= 35
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_tag.then_some(tag)
}

/// Returns true if a tag is within another: `en-GB` is of `en`. Both are in small letters.
pub fn is_of(tag: &str, wanted: &str) -> bool {
    let rest = tag.strip_prefix(wanted);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the language of a tag without its region and script.
pub fn primary(tag: &str) -> &str {
    tag.split('-').next().unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_a_form_and_an_order() {
        assert_eq!(tag_of(" pt_BR ").as_deref(), Some("pt-br"));
        assert_eq!(tag_of("zh-Hant-TW").as_deref(), Some("zh-hant-tw"));
        for text in ["", "en us", "{{ lang }}"] {
            assert_eq!(tag_of(text), None, "{text}");
        }
        assert!(is_of("en-gb", "en") && is_of("en", "en"));
        assert!(!is_of("eng", "en") && !is_of("en", "en-gb"));
        assert_eq!(primary("zh-hant-tw"), "zh");
    }
}
