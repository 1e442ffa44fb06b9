use super::*;

#[track_caller]
fn decoded(bytes: &[u8], declared: Option<&str>) -> (String, &'static str, usize) {
    let DecodedText {
        text,
        encoding,
        warnings,
    } = text(bytes, declared).unwrap();
    (text.into_owned(), encoding, warnings.len())
}

#[test]
fn the_byte_order_mark_comes_first_and_is_no_part_of_the_text() {
    let naive = |name| ("naïve".to_owned(), name, 0);
    assert_eq!(
        decoded(b"\xEF\xBB\xBFna\xC3\xAFve", Some("windows-1251")),
        naive("UTF-8")
    );
    assert_eq!(
        decoded(b"\xFF\xFEn\0a\0\xEF\0v\0e\0", None),
        naive("UTF-16LE")
    );
    assert_eq!(
        decoded(b"\xFE\xFF\0n\0a\0\xEF\0v\0e", None),
        naive("UTF-16BE")
    );
    assert_eq!(
        decoded(b"\xFF\xFE\0\0n\0\0\0a\0\0\0\xEF\0\0\0v\0\0\0e\0\0\0", None),
        naive("UTF-32LE")
    );
    assert_eq!(
        decoded(b"\0\0\xFE\xFF\0\0\0n\0\0\0a\0\0\0\xEF\0\0\0v\0\0\0e", None),
        naive("UTF-32BE")
    );
    assert_eq!(decoded("na\u{FEFF}ive".as_bytes(), None).0, "na\u{FEFF}ive");
}

#[test]
fn a_declared_default_does_not_hide_utf8() {
    for charset in ["ISO-8859-1", "windows-1251"] {
        let (text, encoding, warnings) = decoded("Café, été".as_bytes(), Some(charset));
        assert_eq!((&*text, encoding, warnings), ("Café, été", "UTF-8", 1));
    }
}

#[test]
fn a_declared_charset_comes_before_utf8() {
    assert_eq!(
        decoded(b"\xC3\xA9t\xC3\xA9", Some("ISO-8859-1")),
        ("Ã©tÃ©".into(), "windows-1252", 0)
    );
    assert_eq!(
        decoded(b"\xEC\xE8\xF0", Some("cp1251")),
        ("мир".into(), "windows-1251", 0)
    );
    assert_eq!(
        decoded(b"\x93\xFA\x96\x7B", Some("shift_jis")),
        ("日本".into(), "Shift_JIS", 0)
    );
}

#[test]
fn a_declared_charset_that_the_bytes_contradict_is_ignored() {
    assert_eq!(
        decoded(b"caf\xE9", Some("utf-8")),
        ("café".into(), "windows-1252", 1)
    );
    assert_eq!(
        decoded("日本語".as_bytes(), Some("euc-jp")),
        ("日本語".into(), "UTF-8", 1)
    );
    assert_eq!(
        decoded(b"text", Some("klingon-8")),
        ("text".into(), "UTF-8", 1)
    );
    assert_eq!(
        decoded(b"\xEF\xBB\xBFcaf\xE9", None),
        ("café".into(), "windows-1252", 1)
    );
}

#[test]
fn undeclared_encodings_are_recognized_by_their_letters() {
    let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю.";
    let japanese = "日本語の文章をここに書きます。漢字とかなが混ざっています。";
    for (encoding, text) in [
        (encoding_rs::WINDOWS_1251, russian),
        // KOI8-R except for four letters and their capitals.
        (encoding_rs::KOI8_U, russian),
        (encoding_rs::SHIFT_JIS, japanese),
        (encoding_rs::EUC_JP, japanese),
        (
            encoding_rs::GBK,
            "我们在这里写一些中文的句子，用来检查编码。",
        ),
    ] {
        let (bytes, _, _) = encoding.encode(text);
        assert_eq!(decoded(&bytes, None), (text.into(), encoding.name(), 0));
    }
    assert_eq!(
        decoded(b"d\xE9j\xE0 \x96 vu", None),
        ("déjà – vu".into(), "windows-1252", 0)
    );
    assert_eq!(
        decoded(b"n\0a\0\xEF\0v\0e\0", None),
        ("naïve".into(), "UTF-16LE", 0)
    );
    assert_eq!(
        decoded(b"\0n\0a\0\xEF\0v\0e", None),
        ("naïve".into(), "UTF-16BE", 0)
    );
}

#[test]
fn iso_2022_jp_is_told_by_its_escape_sequences() {
    let decoded = |bytes: &[u8]| decoded(bytes, None);
    assert_eq!(
        decoded(b"\x1B$B%F%9%H\x1B(B\n"),
        ("テスト\n".into(), "ISO-2022-JP", 0)
    );
    let (mixed, ..) = encoding_rs::ISO_2022_JP.encode("Keys: 署名の鍵。\nrotated 毎晩\n");
    assert_eq!(
        decoded(&mixed),
        ("Keys: 署名の鍵。\nrotated 毎晩\n".into(), "ISO-2022-JP", 0)
    );
    // Terminal colours, UTF-8 with such a sequence in it, and one without effect.
    for text in [
        "\u{1B}[31mred\u{1B}[0m and more",
        "日本 \u{1B}$B%F\u{1B}(B",
        "\u{1B}$B is one, \u{1B}(B another",
    ] {
        assert_eq!(decoded(text.as_bytes()).1, "UTF-8", "{text}");
    }
}

#[test]
fn damaged_utf8_is_read_with_a_warning() {
    let (text, encoding, _) = decoded("Größe \u{20AC}".as_bytes().split_last().unwrap().1, None);
    assert_eq!((text.as_str(), encoding), ("Größe \u{FFFD}", "UTF-8"));
    let bytes = [
        "Übergrößenträger ÄÖÜ äöü ".as_bytes(),
        b"\xFF\xFE",
        " ende".as_bytes(),
    ]
    .concat();
    let DecodedText { text, warnings, .. } = super::text(&bytes, None).unwrap();
    assert_eq!(text, "Übergrößenträger ÄÖÜ äöü \u{FFFD}\u{FFFD} ende");
    let at = bytes.iter().position(|byte| *byte == 0xFF).unwrap();
    assert_eq!(
        warnings,
        [format!(
            "2 invalid UTF-8 sequences were replaced with U+FFFD, the first at byte offset {at}"
        )]
    );
}

#[test]
fn nul_characters_are_removed_with_a_warning() {
    let DecodedText { text, warnings, .. } = super::text(b"abc\0def\0", None).unwrap();
    assert_eq!(
        (text.as_ref(), warnings),
        ("abcdef", vec!["2 NUL characters were removed".to_owned()])
    );
}

#[test]
fn binary_files_are_refused() {
    let noise: Vec<u8> = (0u32..4000)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for bytes in [
        &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x20\0\0\0\x20"[..],
        &[0; 100],
        &noise,
        b"\x7fELF\x02\x01\x01\0\0\0\0\0",
    ] {
        let problem = text(bytes, None).unwrap_err();
        assert_eq!(
            (problem.stage, problem.hint.is_some()),
            (Stage::Decode, true)
        );
    }
}

#[test]
fn charsets_are_found_where_they_are_declared() {
    assert_eq!(charset("text/html; Charset=\"UTF-8\""), Some("UTF-8"));
    assert_eq!(charset("text/html;a=b;charset=koi8-r "), Some("koi8-r"));
    assert_eq!(charset("text/html"), None);
    assert_eq!(charset("charset=x"), None);
    let meta = |html: &str| html_charset(html.as_bytes());
    assert_eq!(
        meta("<html><META CHARSET=Windows-1251>").as_deref(),
        Some("windows-1251")
    );
    assert_eq!(
        meta("<meta name=x><meta charset = 'koi8-r'/>").as_deref(),
        Some("koi8-r")
    );
    assert_eq!(
        meta("<meta http-equiv=content-type content=\"text/html; charset=euc-jp\">").as_deref(),
        Some("euc-jp")
    );
    assert_eq!(meta("<meta charset=utf-16le>").as_deref(), Some("utf-8"));
    assert_eq!(meta("<p>charset=x</p>"), None);
    assert_eq!(
        meta(&format!("{}<meta charset=koi8-r>", " ".repeat(1024))),
        None
    );
}
