use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

fn of(username: Option<&str>, secret: &str) -> Redaction {
    let mut redaction = Redaction::default();
    redaction.add_credentials(&Credentials {
        username: username.map(Into::into),
        secret: secret.into(),
        ..Credentials::default()
    });
    redaction
}

fn check(redaction: &Redaction, text: &str, expected: &str) {
    assert_eq!(redaction.apply(text), expected, "{text}");
}

#[test]
fn a_secret_is_found_however_it_is_written() {
    let redaction = of(None, "a/b \"ü😀\\&'%");
    for spelling in [
        "a/b \"ü😀\\&'%",
        "A/B \"ü😀\\&'%",
        "a%2Fb%20%22%C3%BC%F0%9F%98%80%5C%26%27%25",
        "a%2fb+%22%c3%bc%f0%9f%98%80%5c%26'%25",
        "a%252Fb%2520%2522%25C3%25BC%25F0%259F%2598%2580%255C%2526%2527%2525",
        "a/b \\\"\\u00fc\\ud83d\\ude00\\\\&'%",
        "a\\/b \\\"ü😀\\\\&\\'%",
        "a/b \\\\\\\"\\\\u00FC\\\\ud83d\\\\ude00\\\\\\\\&'%",
        "a/b \\\"\\u{fc}\\u{1f600}\\\\&\\'%",
        "a/b &quot;&#252;&#x1F600;\\&amp;&#39;%",
    ] {
        check(&redaction, &format!("was {spelling}!"), "was [redacted]!");
        check(&redaction, spelling, "[redacted]");
    }
    for other in [
        "a/b",
        "a%2Fb%20%22%C3%BC%F0%9F%98%80%5C%26%27",
        "",
        "\\",
        "%",
        "%2",
        "&#;",
        "\\u",
        "\\u{}",
        "\\ud83d",
    ] {
        check(&redaction, other, other);
    }
}

#[test]
fn a_secret_in_hex_is_found() {
    let redaction = of(None, "s3cret");
    for dump in [
        "733363726574",
        "733363726574".to_uppercase().as_str(),
        "73 33 63 72 65 74",
        "73:33:63:72:65:74",
        "7333 6372 6574",
        "73336372 6574",
    ] {
        check(&redaction, &format!("00 {dump} ff"), "00 [redacted] ff");
    }
}

#[test]
fn the_programs_own_words_are_not_redacted() {
    let redaction = of(Some("someone"), "elastic");
    let message = "could not reach Elasticsearch at http://db:9200";
    check(&redaction, message, message);
    check(&redaction, "your key is elastic", "your key is [redacted]");
    check(
        &redaction,
        "Elasticsearch says: elastic, search for elastics",
        "Elasticsearch says: [redacted], search for [redacted]s",
    );
    let redaction = of(None, "refuses the credentials");
    let all = "Qdrant refuses the credentials";
    check(&redaction, all, "Qdrant [redacted]");
}

#[test]
fn base64_is_found_wherever_the_secret_is_in_it() {
    let secret = "s3cret>>>???~~~";
    let redaction = of(Some("reader"), secret);
    for before in ["", ":", "u:", "reader:", "Authorization: Bearer ", "ü:"] {
        for after in ["", "\n", "\r\n\r\n"] {
            let plain = format!("{before}{secret}{after}");
            for encoded in [
                BASE64_STANDARD.encode(&plain),
                BASE64_URL_SAFE.encode(&plain),
                BASE64_URL_SAFE_NO_PAD.encode(&plain),
            ] {
                check(
                    &redaction,
                    &format!("sent Basic {encoded}."),
                    "sent Basic [redacted].",
                );
            }
            let encoded = BASE64_STANDARD
                .encode(&plain)
                .replace('+', "%2B")
                .replace('/', "%2F")
                .replace('=', "%3D");
            check(
                &redaction,
                &format!("/login?auth={encoded}&x=1"),
                "/login?auth=[redacted]&x=1",
            );
        }
    }
}

#[test]
fn urls_keep_everything_but_the_secret() {
    let redaction = of(Some("reader"), "hunter-two");
    check(
        &redaction,
        "https://reader:hunter-two@git.example/a.git",
        "https://[redacted]@git.example/a.git",
    );
    check(
        &redaction,
        "https://hunter-two@git.example/hunter-two/x",
        "https://[redacted]@git.example/[redacted]/x",
    );
    let encoded = BASE64_STANDARD.encode("reader:hunter-two");
    check(
        &redaction,
        &format!("https://git.example/{encoded}/a"),
        "https://git.example/[redacted]/a",
    );
    check(&redaction, "reader hunter two", "reader hunter two");
}

#[test]
fn short_secrets_are_found_beside_their_user_alone() {
    let redaction = of(Some("reader"), "abc");
    check(&redaction, "the abc of git", "the abc of git");
    check(
        &redaction,
        "http://reader:abc@h/ reader%3Aabc",
        "http://[redacted]@h/ [redacted]",
    );
    check(
        &redaction,
        &format!("Basic {}", BASE64_STANDARD.encode("reader:abc")),
        "Basic [redacted]",
    );
    let redaction = of(None, "ab");
    check(
        &redaction,
        &format!("about {}", BASE64_STANDARD.encode("x-access-token:ab")),
        "about [redacted]",
    );
}

#[test]
fn a_user_name_that_may_be_a_token_is_hidden() {
    check(&of(Some("reader"), "pass"), "reader", "reader");
    check(
        &of(Some("ghp_0123456789abcdef"), "x-oauth-basic"),
        "ghp_0123456789abcdef",
        "[redacted]",
    );
    check(&of(None, "pass"), "x-access-token", "x-access-token");
}

#[test]
fn the_password_of_a_proxy_is_hidden() {
    let mut redaction = Redaction::default();
    redaction.add_proxy("http://out:p%40ss%20word@proxy.example:3128");
    check(
        &redaction,
        "p@ss word p%40ss%20word",
        "[redacted] [redacted]",
    );
    redaction.add_proxy("http://proxy.example:3128");
    check(
        &redaction,
        "http://proxy.example:3128",
        "http://proxy.example:3128",
    );
}

#[test]
fn a_long_text_of_escapes_takes_no_more_time_than_another() {
    let redaction = of(None, "\\%abc");
    for part in ["\\", "%25", "%", "&", "\\u", "2525"] {
        let text = part.repeat((1 << 20) / part.len());
        check(&redaction, &text, &text);
    }
}

/// A character in one of its spellings.
fn spelled(character: char, spelling: usize) -> String {
    let units = |character: char| -> String {
        character
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect()
    };
    let percent = |text: &str| -> String { text.bytes().map(|b| format!("%{b:02X}")).collect() };
    match spelling {
        0 => percent(&character.to_string()),
        1 => percent(&character.to_string()).replace('%', "%25"),
        2 => units(character),
        3 => character.escape_default().to_string(),
        4 => format!("&#{};", u32::from(character)),
        _ => character.to_string(),
    }
}

proptest! {
    #[test]
    fn every_spelling_is_redacted(
        characters in prop::collection::vec((any::<char>(), 0..8usize), 4..40),
            before in "\\PC{0,9}", after in "\\PC{0,9}",
    ) {
        let secret: String = characters.iter().map(|(character, _)| *character).collect();
        prop_assume!(secret.trim() == secret);
        let text: String = characters.iter().map(|(character, spelling)| spelled(*character,
            *spelling)).collect();
        let redaction = of(None, &secret);
        let shown = redaction.apply(&format!("{before}{text}{after}")).into_owned();
        prop_assert!(!shown.contains(&text) && shown.contains(REDACTED), "{text} in {shown}");
    }

    #[test]
    fn base64_is_redacted(secret in "[!-~]{4,40}", before in "[ -~]{0,20}",
        after in "[ -~]{0,5}") {
        let encoded = BASE64_STANDARD.encode(format!("{before}{secret}{after}"));
        let shown = of(None, &secret).apply(&format!("<{encoded}>")).into_owned();
        let left: Vec<&str> = shown.trim_matches(['<', '>']).split(REDACTED).collect();
        prop_assert!(left.len() > 1, "{encoded} in {shown}");
        // Only the text before and after the secret remains.
        let most = [before.len() * 8 / 6 + 1, after.len() * 8 / 6 + 4];
        prop_assert!(left[0].len() <= most[0] && left[left.len() - 1].len() <= most[1],
            "{encoded} in {shown}");
    }

    #[test]
    fn other_texts_are_unchanged(text in "[a-z %&\\\\+]{0,60}") {
        prop_assert!(matches!(of(None, "Z0Z0Z0Z0").apply(&text), Cow::Borrowed(_)));
    }
}
