use super::*;

fn text(body: &str) -> String {
    extract(format!("{{\\rtf1\\ansi {body}}}").as_bytes(), "a.rtf")
        .unwrap()
        .text
}

#[test]
fn text_is_read_without_control_words() {
    for (body, expected) in [
        (
            "{\\fonttbl{\\f0\\fswiss Arial;}}{\\colortbl;\\red0;}\\f0\\fs24 Dear {\\b \
                Ann},\\par Bye.\\par",
            "Dear Ann,\n\nBye.",
        ),
        ("one\ntwo\\line three\\\nfour", "onetwo\nthree\n\nfour"),
        (
            "\\{a\\\\b\\}\\tab c\\~d\\_e\\-f",
            "{a\\b}\tc\u{a0}d\u{2011}ef",
        ),
        ("\\ldblquote a\\rdblquote\\emdash\\bullet", "“a”—•"),
        (
            "{\\*\\unknown no}{\\pict 89504e47}{\\header no}yes{\\footer no}",
            "yes",
        ),
        ("{\\pict\\bin5 }{\\{x}after", "after"),
        (
            "{\\field{\\*\\fldinst HYPERLINK \"x\"}{\\fldrslt link}} end",
            "link end",
        ),
        ("{\\object{\\*\\objdata 0102}{\\result shown}}", "shown"),
        ("10{\\super 6} N, H{\\sub 2}O", "10^6 N, H_2O"),
        ("a{\\deleted b\\par}c", "ac"),
        ("# no heading", "\\# no heading"),
        ("{\\upr{a}{\\*\\ud{\\u228 ?}}}", "ä"),
        (
            "{\\shp{\\*\\shpinst{\\sp{\\sn x}{\\sv 1}}{\\shptxt In a box.\\par}}{\\shprslt \
                no}}Text\\par End",
            "Text\n\nIn a box.\n\nEnd",
        ),
    ] {
        assert_eq!(text(body), expected, "{body}");
    }
}

#[test]
fn characters_are_read_in_their_code_page() {
    for (body, expected) in [
        ("M\\'fcller \\'80", "Müller €"),
        ("\\ansicpg1251 \\'cc\\'e8\\'f0", "Мир"),
        ("\\mac \\'8a", "ä"),
        ("\\u1055?\\u1077?", "Пе"),
        ("\\uc0\\u1055\\u1077 x", "Пеx"),
        ("\\uc2\\u1055ab\\u1077\\'3f\\'3fc", "Пеc"),
        ("\\u-10179?\\u-8704?", "😀"),
        ("\\u-10179?x", "x"),
        (
            "{\\fonttbl{\\f1\\fcharset204 Arial Cyr;}}{\\f1 \\'cc}\\'cc",
            "МÌ",
        ),
        (
            "{\\fonttbl{\\f2\\fcharset128 MS Mincho;}}\\f2 \\'93\\'fa\\'96\\'7b",
            "日本",
        ),
        (
            "{\\fonttbl{\\f3\\fcharset2 Wingdings;}{\\f4\\fcharset2 Symbol;}}{\\f3 \\'fe} yes \
                {\\f4 a}",
            "☒ yes α",
        ),
    ] {
        assert_eq!(text(body), expected, "{body}");
    }
    let raw = extract(b"{\\rtf1\\ansi M\xFCller}", "a.rtf").unwrap();
    assert_eq!(raw.text, "Müller");
}

#[test]
fn headings_lists_tables_and_notes_become_markdown() {
    for (body, expected) in [
        (
            "{\\stylesheet{\\s0 Normal;}{\\s1\\outlinelevel0 heading 1;}{\\s2 heading 2;}}\
             \\pard\\s1 One\\par\\pard\\s2 Two\\par\\pard\\s0 text\\par\\pard\\outlinelevel2 \
                 Three\\par",
            "# One\n\n## Two\n\ntext\n\n### Three",
        ),
        (
            "{\\listtext 1.\\tab}\\ls1 a\\par{\\listtext\\tab b)\\tab}\\ilvl1 b\\par\
             \\pard{\\pntext\\f0\\'b7\\tab}c\\par\\pard d",
            "1. a\n  b) b\n- c\n\nd",
        ),
        (
            "\\trowd\\cellx1\\cellx2\\pard\\intbl a\\cell b\\par c\\cell\\row\
             \\trowd\\cellx1\\cellx2\\intbl d\\cell e\\cell\\row\\pard after",
            "| a | b c |\n| --- | --- |\n| d | e |\n\nafter",
        ),
        (
            "\\trowd\\clvmgf\\cellx1\\cellx2\\intbl a\\cell b\\cell\\row\
             \\trowd\\clvmrg\\cellx1\\cellx2\\intbl\\cell c\\cell\\row\
             \\trowd\\clmgf\\cellx1\\clmrg\\cellx2\\intbl d\\cell\\cell\\row",
            "| a | b |\n| --- | --- |\n| a | c |\n| d | |",
        ),
        (
            "Text{\\super\\chftn}{\\footnote\\pard{\\super\\chftn} The note.}.\\par Next",
            "Text[^1].\n\n[^1]: The note.\n\nNext",
        ),
    ] {
        assert_eq!(text(body), expected, "{body}");
    }
    let titled = extract(
        b"{\\rtf1{\\info{\\title Keys \\'e4}{\\author no}}Text}",
        "a.rtf",
    )
    .unwrap();
    assert_eq!(
        (titled.title.text.as_str(), titled.text.as_str()),
        ("Keys ä", "Text")
    );
}

#[test]
fn what_is_lost_is_told() {
    let message = |file: &[u8]| extract(file, "a.rtf").unwrap().warnings[0].message.clone();
    assert_eq!(
        message(b"{\\rtf1 a{\\v secret}\\v0 b}"),
        "1 hidden text was removed"
    );
    assert_eq!(
        message(b"{\\rtf1 a{\\b b"),
        "the file ends inside of a group: its end may be missing"
    );
    for file in [&b"text"[..], b"{\\rt", b"<html>"] {
        assert!(extract(file, "a.rtf").is_err());
    }
}

#[test]
fn hostile_files_are_read_or_refused() {
    let deep = format!("{{\\rtf1 {}", "{".repeat(1_000_000));
    assert!(extract(deep.as_bytes(), "a.rtf").is_err());
    let notes = format!("{{\\rtf1 {}x", "{\\footnote ".repeat(5_000));
    let _ = extract(notes.as_bytes(), "a.rtf");
    let whole = "{\\rtf1\\ansi{\\fonttbl{\\f0 A;}}{\\stylesheet{\\s1 heading \
        1;}}\\trowd\\cellx1\\intbl\
        a\\cell\\row{\\footnote n}\\uc2\\u1055 ab\\'e4{\\*\\x y}\\bin3 abc{\\listtext 1.}b\\par}";
    for cut in 0..whole.len() {
        let _ = extract(&whole.as_bytes()[..cut], "a.rtf");
        for byte in [b'{', b'}', b'\\', b'9', 0xFF] {
            let mut damaged = whole.as_bytes().to_vec();
            damaged[cut] = byte;
            let _ = extract(&damaged, "a.rtf");
        }
    }
    for odd in [
        "\\u99999999999 x",
        "\\bin-5 x",
        "\\bin999999999 x",
        "\\uc99999 x",
        "\\'",
        "\\'zz x",
        "}}}x",
        "\\cell\\cell\\row\\row",
        "\\f-1 x",
        "\\s-1\\outlinelevel-7 x\\par",
    ] {
        let _ = extract(format!("{{\\rtf1 {odd}").as_bytes(), "a.rtf");
    }
}
