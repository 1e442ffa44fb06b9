//! Examples of queries, and what holds for all.

use proptest::prelude::*;

use super::*;
use crate::{Analysis, Purpose, Splitter};

/// Writes a query as its words and clauses.
fn parsed(text: &str) -> String {
    let query = ParsedQuery::parse(text);
    let mut all: Vec<String> = query.words.split_whitespace().map(str::to_owned).collect();
    for clause in &query.clauses {
        let sign = match clause.occur {
            Occur::Should => "",
            Occur::Must => "+",
            Occur::MustNot => "-",
        };
        let nodes = clause.nodes.iter().map(|node| match node {
            Node::Words(text) => (*text).to_owned(),
            Node::Phrase { text, slop } => format!("<{text}>{slop}"),
            Node::Prefix(text) => format!("{text}*"),
            Node::Typo { text, edits } => format!("{text}~{}", edits.unwrap_or(0)),
        });
        all.push(format!("{sign}{}", nodes.collect::<Vec<_>>().join("|")));
    }
    all.join(" ")
}

#[test]
fn clauses_are_read() {
    for (text, expected) in [
        ("write ahead log", "write ahead log"),
        ("\"write ahead\" log", "log +<write ahead>0"),
        ("\"write log\"~3", "+<write log>3"),
        ("\"a b\"~99999999999", "+<a b>1000"),
        ("“write ahead” „so auch“", "+<write ahead>0 +<so auch>0"),
        ("log -archive", "log -archive"),
        ("log -\"write ahead\"", "log -<write ahead>0"),
        ("+wal log", "log +wal"),
        ("+E-117, pump", "pump +E-117"),
        ("conf*", "conf*"),
        ("-conf* x", "x -conf*"),
        ("+conf* x", "x +conf*"),
        ("databse~ x~1 word~1 word~2", "x~1 databse~0 word~1 word~2"),
        ("db.sess*", "db.sess*"),
        ("a OR b", "a b"),
        ("x \"a b\" OR \"c d\" y", "x y +<a b>0|<c d>0"),
        ("+aa OR b OR cc* d", "d +aa|b|cc*"),
        ("\"a b\" OR c", "+<a b>0|c"),
        ("水 -水漏れ", "水 -水漏れ"),
        ("水 -水", "水 -水"),
        ("(\"a b\")", "(\"a b\")"),
        ("\"a b\", c", ", c +<a b>0"),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_clause_is_text() {
    for text in [
        "a->b",
        "foo(*args, **kwargs)",
        "C++ -C +C",
        "~/.ssh *.py src/*.rs",
        "--flag -x -rf -v=3 -5° +49 +5% -25532",
        "SELECT * FROM t WHERE a = 'b'",
        "well-known E-117 a - b + c",
        "\"not closed",
        "12\" pipe",
        "\"a\"b",
        "OR",
        "a OR",
        "or OR-gate XOR",
        "a* ab~ word~3 ~ * \" - +",
        "print(\"hello\")",
        "char** **bold** foo*bar x~y",
        "-Dfoo=bar -I/usr/include",
    ] {
        let query = ParsedQuery::parse(text);
        assert!(query.is_plain(), "{text}: {query:?}");
        assert_eq!(query.words, text);
        assert_eq!(query.subject(), text);
    }
}

#[test]
fn long_texts_are_words() {
    let text = "\"write ahead\" -log ".repeat(500);
    assert!(ParsedQuery::parse(&text).is_plain());
    assert!(!ParsedQuery::parse(&text[..1000]).is_plain());
}

#[test]
fn an_or_beside_an_exclusion_is_text() {
    assert_eq!(parsed("aaa OR -bbb"), "aaa OR -bbb");
    assert_eq!(parsed("OR \"a b\""), "OR +<a b>0");
}

#[test]
fn a_phrase_without_words_is_nothing() {
    assert_eq!(parsed("x \"\" \"-\" -\"  \""), "x");
    assert!(!ParsedQuery::parse("\"\"").is_plain());
}

#[test]
fn the_subject_has_no_signs_and_nothing_excluded() {
    for (text, subject) in [
        ("a  b", "a  b"),
        ("\"write ahead\" log -archive", "log write ahead"),
        ("conf* +wal databse~", "conf wal databse"),
        ("-archive", ""),
        ("aa OR \"b c\"", "aa b c"),
    ] {
        assert_eq!(ParsedQuery::parse(text).subject(), subject, "{text}");
    }
}

#[test]
fn queries_may_only_exclude() {
    assert!(ParsedQuery::parse("-archive -\"a b\"").only_excludes());
    for text in ["", "a", "-rf", "a -archive", "\"a\" -archive", "archive"] {
        assert!(!ParsedQuery::parse(text).only_excludes(), "{text}");
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut splitter = Splitter::default();
    splitter
        .split(text, Analysis::Words, Purpose::Query)
        .unwrap();
    splitter
        .iter()
        .map(|token| token.text.to_lowercase())
        .collect()
}

fn without_numbers_after_tilde(text: &str) -> String {
    let mut parts = text.split('~');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole.push('~');
        whole.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    whole
}

fn queries() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-c]{1,4}",
        "[a-zäß水漏れ]{1,3}",
        "[ \\t\\n]{1,2}",
        "[-+*~\"“”„.:/_'()0-9]{1,2}",
        Just("OR".to_owned()),
        Just(" OR ".to_owned()),
        any::<char>().prop_map(|c| c.to_string()),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn all_texts_are_queries(text in queries()) {
        let query = ParsedQuery::parse(&text);
        query.subject();
        prop_assert!(query.clauses.iter().all(|clause| !clause.nodes.is_empty()));
        // the number after ~ is no word
        let text = without_numbers_after_tilde(&text);
        let query = ParsedQuery::parse(&text);
        // each word of the text is in one of the parts, and nothing is invented
        let mut found = tokens(&query.words);
        for node in query.clauses.iter().flat_map(|clause| &clause.nodes) {
            found.extend(tokens(node.text()));
        }
        let mut all = tokens(&text);
        all.retain(|token| token != "or");
        found.retain(|token| token != "or");
        all.sort();
        found.sort();
        prop_assert_eq!(found, all);
    }

    #[test]
    fn escaped_texts_are_plain_and_have_the_same_words(text in queries()) {
        let escaped = escaped(&text);
        prop_assert!(ParsedQuery::parse(&escaped).is_plain(), "{:?}", escaped);
        prop_assert_eq!(tokens(&escaped), tokens(&text));
    }
}
