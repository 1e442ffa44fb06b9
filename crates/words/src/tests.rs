//! Examples of each kind of text.

use crate::{Analysis, Purpose, Splitter, Weight};

/// Returns the tokens of a text, the parts in brackets.
fn split(text: &str, analysis: Analysis, purpose: Purpose) -> String {
    let mut splitter = Splitter::default();
    splitter.split(text, analysis, purpose).unwrap();
    let tokens = splitter.iter().map(|token| {
        let text = token.text.to_lowercase();
        match token.weight {
            Weight::Whole => text,
            Weight::Part => format!("({text})"),
        }
    });
    tokens.collect::<Vec<_>>().join(" ")
}

fn words(text: &str) -> String {
    split(text, Analysis::Words, Purpose::Text)
}

fn query(text: &str) -> String {
    split(text, Analysis::Words, Purpose::Query)
}

#[test]
fn prose_is_its_words() {
    assert_eq!(words("The quick, brown fox."), "the quick brown fox");
    assert_eq!(words("don't panic"), "don t panic");
    assert_eq!(words("end. Start"), "end start");
    assert_eq!(words("wait...what"), "wait what");
    assert_eq!(words("Das Übermaß"), "das übermaß");
    assert_eq!(words(""), "");
}

#[test]
fn compounds_are_whole_and_in_parts() {
    for (text, expected) in [
        ("write-ahead log", "writeahead (write) (ahead) log"),
        ("macOS/Linux", "macoslinux (macos) (mac) (os) (linux)"),
        (
            "db.session.commit()",
            "dbsessioncommit (db) (session) (commit)",
        ),
        ("src/lock.rs", "srclockrs (src) (lockrs) (lock) (rs)"),
        ("2023-2024", "2023.2024 (2023) (2024)"),
        ("<finalName>", "finalname (final) (name)"),
        ("ERR_AUTH_TIMEOUT", "errauthtimeout (err) (auth) (timeout)"),
        ("XMLHttpRequest", "xmlhttprequest (xml) (http) (request)"),
        ("URLs mRNAs", "urls mrnas (rnas)"),
        ("std::vec::Vec", "stdvecvec (std) (vec) (vec)"),
        ("C++ C# A+B", "c++ (c) c# (c) a b"),
        ("AT&T R&D &amp; &nbsp;x", "att (at) (t) rd (r) (d) x"),
        ("__init__", "init"),
        (
            "ann@example.org",
            "annexampleorg (ann) (exampleorg) (example) (org)",
        ),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn codes_are_found_with_and_without_signs() {
    for (text, expected) in [
        ("E-117", "e117 (e) (117)"),
        ("E117", "e117 (117)"),
        ("SO-25532", "so25532 (so) (25532)"),
        ("X200", "x200 (200)"),
        ("-117 +5", "117 5"),
        ("3.14", "3.14"),
        ("2.11.3", "2.11.3 (2.11) (2) (11) (3)"),
        ("1,234,567 1,2", "1234567 1 2"),
        ("5kg", "5kg (5) (kg)"),
        ("a3f9c2e1b7d4", "a3f9c2e1b7d4"),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
    assert_eq!(query("E-117"), "e117 (117)");
    assert_eq!(query("IL-6"), "il6 (il)");
    assert_eq!(query("2024-05-17"), "2024.05.17 (2024)");
    assert_eq!(query("2.11.3"), "2.11.3 (2.11)");
}

#[test]
fn scripts_without_blanks_are_pairs() {
    assert_eq!(words("水漏れ"), "(水) 水漏 (漏) 漏れ");
    assert_eq!(query("水漏れ"), "水漏 漏れ");
    assert_eq!(query("水"), "水");
    assert_eq!(query("表示される"), "表示 示さ");
    assert_eq!(query("りんご"), "りん んご");
    assert_eq!(words("E-117が"), "e117 (e) (117) が");
    assert_eq!(words("물이 샙니다"), "(물) 물이 (샙) 샙니 니다");
    assert_eq!(words("ﾊﾟｿｺﾝ"), "パソ ソコ コン");
    assert_eq!(words("X200に水"), "x200 (200) に水 (水)");
}

#[test]
fn thai_is_words_with_pairs() {
    assert!(words("ภาษาไทย").starts_with("ภาษา ไทย (ภา) "));
    let text = words("เครื่องรั่วหลังจากอัปเดต AquaPump");
    assert!(
        text.contains("(รั่ว)") && text.ends_with(" aquapump (aqua) (pump)"),
        "{text}"
    );
    assert!(
        query("รั่ว")
            .split(' ')
            .all(|word| text.contains(word.trim_matches(['(', ')'])))
    );
}

#[test]
fn texts_are_normalized() {
    assert_eq!(
        words("Gro\u{308}ße Kaffee\u{AD}maschine"),
        "größe kaffeemaschine"
    );
    assert_eq!(words("ＥＲＲ－１２"), words("ERR-12"));
}

#[test]
fn code_counts_identifiers_in_full() {
    let code = |text| split(text, Analysis::Code, Purpose::Text);
    assert_eq!(
        code("session.commit"),
        "sessioncommit session (session) commit (commit)"
    );
    assert_eq!(code("is"), "is (is)");
}

/// Returns the tokens of a text, each with its position, and with where it ends if it is longer.
fn positions(text: &str) -> String {
    let mut splitter = Splitter::default();
    splitter
        .split(text, Analysis::Words, Purpose::Text)
        .unwrap();
    let tokens = splitter.iter().map(|token| {
        let (text, first) = (token.text.to_lowercase(), token.position);
        match token.places {
            1 => format!("{text}@{first}"),
            places => format!("{text}@{first}-{}", first + places - 1),
        }
    });
    tokens.collect::<Vec<_>>().join(" ")
}

#[test]
fn words_are_counted() {
    for (text, expected) in [
        ("the quick fox", "the@0 quick@1 fox@2"),
        (
            "lib/lock.py rocks",
            "liblockpy@0-2 lib@0 lockpy@1-2 lock@1 py@2 rocks@3",
        ),
        ("E-117 error", "e117@0-1 e@0 117@1 error@2"),
        ("e117 error", "e117@0-1 117@1 error@2"),
        (
            "C++ v2.11.3 x",
            "c++@0 c@0 v2.11.3@1-4 2.11.3@2-4 2.11@2-3 2@2 11@3 3@4 x@5",
        ),
        ("a1b2c3d4e5 x", "a1b2c3d4e5@0 x@1"),
        ("水漏れ です", "水@0 水漏@0-1 漏@1 漏れ@1-2 です@3-4"),
    ] {
        assert_eq!(positions(text), expected);
    }
}

#[test]
fn the_needed_tokens_make_up_a_text() {
    for (text, expected) in [
        ("the write-ahead log", "the writeahead log"),
        ("E-117 v2.11.3 C++", "e117 v2.11.3 c++"),
        ("2.11.3 1,234", "2.11.3 1234"),
        ("db.session.commit()", "dbsessioncommit"),
        ("水漏れ 水", "水漏 漏れ 水"),
        ("데이터", "데이 이터"),
        ("รั่ว", "รั่ว"),
    ] {
        for analysis in [Analysis::Words, Analysis::Code] {
            let mut splitter = Splitter::default();
            splitter.split(text, analysis, Purpose::Text).unwrap();
            let needed = splitter.iter().filter(|token| token.is_needed);
            let needed: Vec<_> = needed.map(|token| token.text.to_lowercase()).collect();
            assert_eq!(needed.join(" "), expected, "{text}");
        }
    }
}

#[test]
fn words_are_at_the_letters_of_the_text() {
    let places = |text: &str| {
        let mut splitter = Splitter::default();
        assert!(
            splitter
                .split_aligned(text, Analysis::Words, Purpose::Text)
                .is_ok()
        );
        let found = splitter.iter().map(|token| {
            let place = splitter.place(text, &token);
            format!("{}:{}", token.text, &text[place])
        });
        found.collect::<Vec<_>>().join(" ")
    };
    for (text, expected) in [
        ("The E-117", "The:The e117:E-117 E:E 117:117"),
        (
            "v2.11.3,",
            "v2.11.3:v2.11.3 2.11.3:2.11.3 2.11:2.11 2:2 11:11 3:3",
        ),
        ("1,234 C++", "1234:1,234 C++:C++ C:C"),
        ("水漏れ", "水:水 水漏:水漏 漏:漏 漏れ:漏れ"),
        ("Ｅ－１１７ ﬁt", "e117:Ｅ－１１７ E:Ｅ 117:１１７ fit:ﬁt"),
        // a character that is normalized to III, and camel case among these
        ("Ⅲa", "iiia:Ⅲa II:Ⅲ Ia:Ⅲa"),
    ] {
        assert_eq!(places(text), expected);
    }
}
