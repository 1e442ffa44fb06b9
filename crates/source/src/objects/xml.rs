//! Lists and errors in XML, as S3 and Azure write them. Nothing is expanded: entities of a document
//! type are errors, and elements are nested only so deep.

use percent_encoding::percent_decode_str;
use quick_xml::{Reader, events::Event};
use serde_json::Value;

use super::{ListedObject, ObjectPage, refusal::Refusal};

const MAX_DEPTH: usize = 16;
/// The maximum number of characters of a server's message that is shown.
const MAX_MESSAGE: usize = 300;
const MAX_CODE: usize = 64;

/// Reads a document, and calls `ended` with the names around the end of each element, the
/// outermost first, and with the text directly before it. The text of an element with the attribute
/// `Encoded="true"`, which Azure writes, is decoded.
///
/// # Errors
/// Says why it is not well-formed.
pub fn read(
    document: &[u8],
    mut ended: impl FnMut(&[String], &str) -> Result<(), String>,
) -> Result<(), String> {
    let document = std::str::from_utf8(document).map_err(|_| "it is not text in UTF-8")?;
    let mut reader = Reader::from_str(document.trim_start_matches('\u{FEFF}'));
    let (mut names, mut text) = (Vec::<String>::new(), String::new());
    let (mut has_root, mut is_encoded) = (false, false);
    loop {
        let event = reader.read_event();
        match event.map_err(|error| format!("it is not valid XML: {error}"))? {
            Event::Start(tag) => {
                if names.len() == MAX_DEPTH {
                    return Err("its elements are nested too deep".into());
                }
                has_root = true;
                names.push(tag.local_name().as_ref().to_owned());
                let encoded = tag.try_get_attribute("Encoded").ok().flatten();
                is_encoded = encoded.is_some_and(|it| it.value.as_ref() == "true");
                text.clear();
            }
            Event::Empty(tag) => {
                has_root = true;
                names.push(tag.local_name().as_ref().to_owned());
                ended(&names, "")?;
                names.pop();
                text.clear();
            }
            Event::Text(part) => text.push_str(&part),
            Event::CData(part) => text.push_str(&part),
            Event::GeneralRef(reference) => match &*reference {
                "amp" => text.push('&'),
                "lt" => text.push('<'),
                "gt" => text.push('>'),
                "quot" => text.push('"'),
                "apos" => text.push('\''),
                _ => match reference.resolve_char_ref() {
                    Ok(Some(char)) => text.push(char),
                    _ => return Err("it has an entity of its own".into()),
                },
            },
            Event::End(_) => {
                if std::mem::take(&mut is_encoded) {
                    text = percent_decoded(&text)?;
                }
                ended(&names, &text)?;
                names.pop();
                text.clear();
            }
            Event::Eof if !has_root => return Err("it is not XML".into()),
            Event::Eof if !names.is_empty() => return Err("it is truncated".into()),
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Reads a page of a list of S3: of objects, or of their versions.
///
/// # Errors
/// Says why it is none.
pub fn s3_page(document: &[u8]) -> Result<ObjectPage, String> {
    let (mut page, mut object) = (ObjectPage::default(), ListedObject::default());
    let (mut is_truncated, mut is_encoded) = (false, false);
    let (mut token, mut next_key, mut next_version) = (None, None, None);
    read(document, |names, text| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if !matches!(names[0], "ListBucketResult" | "ListVersionsResult") {
            return Err(format!("it is \"{}\"", shown(names[0])));
        }
        match names[1..] {
            ["Contents" | "Version"] => page.objects.push(std::mem::take(&mut object)),
            ["Contents" | "Version", "Key"] => object.key = text.into(),
            ["Contents" | "Version", "Size"] => {
                let size = text.trim().parse();
                object.size = size.map_err(|_| format!("\"{}\" is not a size", shown(text)))?;
            }
            ["Contents" | "Version", "ETag"] => object.etag = Some(text.into()),
            ["Version", "VersionId"] => object.version = Some(text.into()),
            ["EncodingType"] => is_encoded = text.trim().eq_ignore_ascii_case("url"),
            ["IsTruncated"] => is_truncated = text.trim().eq_ignore_ascii_case("true"),
            ["NextContinuationToken"] => token = Some(text.to_owned()),
            ["NextKeyMarker"] => next_key = Some(text.to_owned()),
            ["NextVersionIdMarker"] => next_version = Some(text.to_owned()),
            _ => {}
        }
        Ok(())
    })?;
    if is_encoded {
        for object in &mut page.objects {
            object.key = decoded(&object.key)?;
        }
        next_key = next_key.map(|key| decoded(&key)).transpose()?;
    }
    if page.objects.iter().any(|object| object.key.is_empty()) {
        return Err("an object has no key".into());
    }
    if is_truncated {
        page.next = match (token, next_key) {
            (Some(token), _) if !token.is_empty() => Some(token),
            (_, Some(key)) => Some(marker(&key, &next_version.unwrap_or_default())),
            _ => return Err("it has no token for the next page".into()),
        };
    }
    Ok(page)
}

/// Returns one text for the two parts that a list of versions goes on from. Keys of S3 have no NUL.
pub fn marker(key: &str, version: &str) -> String {
    format!("{key}\0{version}")
}

/// Returns the two parts of a [`marker`].
pub fn marker_parts(marker: &str) -> (&str, &str) {
    marker.split_once('\0').unwrap_or((marker, ""))
}

/// Decodes a key of a list with `encoding-type=url`. Blanks are `+` or `%20`.
fn decoded(text: &str) -> Result<String, String> {
    percent_decoded(&text.replace('+', " "))
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "a key is not text in UTF-8")?;
    Ok(decoded.into_owned())
}

/// Reads why a request is refused. An answer in another form has no code.
pub fn refusal(body: &[u8]) -> Refusal {
    let mut refusal = Refusal::default();
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        let error = &json["error"];
        refusal.message = error["message"].as_str().map(shown).unwrap_or_default();
        let reason = error["errors"][0]["reason"].as_str();
        refusal.code = reason.map(code).unwrap_or_default();
        return refusal;
    }
    let mut found = Refusal::default();
    let read = read(body, |names, text| {
        match names {
            [root, name] if root == "Error" => match name.as_str() {
                "Code" => found.code = code(text),
                "Message" => found.message = shown(text),
                "Region" => found.region = Some(code(text)),
                "Endpoint" => found.location = Some(shown(text)),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    });
    if read.is_ok() { found } else { refusal }
}

/// Returns a name of the service, or nothing if a text is not one.
fn code(text: &str) -> String {
    let text = text.trim();
    let is_code = text.len() <= MAX_CODE
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_code { text.into() } else { String::new() }
}

/// Returns the beginning of a server's text, on one line.
pub fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.chars().filter(|char| !char.is_control());
    line.take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inside: &str) -> Result<ObjectPage, String> {
        s3_page(
            format!("<?xml version=\"1.0\"?><ListBucketResult>{inside}</ListBucketResult>")
                .as_bytes(),
        )
    }

    #[test]
    fn keys_are_decoded_once() {
        let listed = page(
            "<EncodingType>url</EncodingType><Contents><Key>a+b%2Bc%252F%0A.md</Key>\
             <ETag>&quot;x&quot;</ETag><Size>7</Size></Contents>",
        );
        let expected = ListedObject {
            key: "a b+c%2F\n.md".into(),
            size: 7,
            etag: Some("\"x\"".into()),
            version: None,
        };
        assert_eq!(listed.unwrap().objects, [expected]);
        let listed = page("<Contents><Key> a+b%20&#x26; </Key></Contents>").unwrap();
        assert_eq!(listed.objects[0].key, " a+b%20& ");
    }

    #[test]
    fn the_next_page_is_known_or_the_list_is_wrong() {
        let next = |inside: &str| page(inside).map(|page| page.next);
        let token = "<NextContinuationToken>x</NextContinuationToken>";
        assert_eq!(next(token), Ok(None));
        let truncated = "<IsTruncated>true</IsTruncated>";
        assert_eq!(next(&format!("{truncated}{token}")), Ok(Some("x".into())));
        assert!(next(truncated).is_err());
        let versions =
            "<NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker>";
        let marker = next(&format!("{truncated}{versions}")).unwrap().unwrap();
        assert_eq!(marker_parts(&marker), ("k", "v"));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\
                    <ListBucketResult><Contents><Key>&b;</Key></Contents></ListBucketResult>";
        let deep = format!("<ListBucketResult>{}", "<a>".repeat(100_000));
        for (document, expected) in [
            ("", "it is not XML"),
            ("<html><body></body></html>", "it is \"html\""),
            ("<ListBucketResult>", "it is truncated"),
            (bomb, "it has an entity of its own"),
            (&deep, "its elements are nested too deep"),
        ] {
            assert_eq!(s3_page(document.as_bytes()), Err(expected.into()));
        }
        let size = page("<Contents><Key>a</Key><Size>-1</Size></Contents>");
        assert_eq!(size, Err("\"-1\" is not a size".into()));
    }

    #[test]
    fn refusals_are_read_in_all_forms() {
        let xml = b"<Error><Code>AccessDenied</Code><Message>Access\nDenied</Message></Error>";
        let read = refusal(xml);
        assert_eq!(
            (&*read.code, &*read.message),
            ("AccessDenied", "Access Denied")
        );
        let json = br#"{"error": {"message": "no", "errors": [{"reason": "notFound"}]}}"#;
        let read = refusal(json);
        assert_eq!((&*read.code, &*read.message), ("notFound", "no"));
        assert_eq!(refusal(b"<html>no"), Refusal::default());
    }
}
