//! Texts that people and programs write: filters, definitions, manifests, schedules, queries and
//! names. Each is accepted or refused in words, and what was accepted can be used.
//!
//! The first byte says what the others are read as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rag_definition::{name::QualifiedName, retriever::RetrieverDefinition, source::SourceSpec};
use rag_filter::Filter;
use rag_retrieval::{
    fusion::written_words,
    highlight::{MarkStyle, marked, sentences},
};
use rag_schedule::{Schedule, TimeZone, Timestamp};
use rag_secret::{KeyRing, reference::Reference};
use rag_words::{
    Analysis, Purpose, Splitter,
    query::{self, ParsedQuery},
};
use serde_json::Value;

const SOURCES: [&str; 9] = [
    "folder", "git", "markdown", "static", "website", "s3", "gcs", "azblob", "table",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match first % 10 {
        0 => filter(&text),
        1 => definition(&text, usize::from(*first)),
        2 => drop(rag_manifest::parse(&text)),
        3 => schedule(&text),
        4 => drop(rag_schedule::duration(&text)),
        5 => search(&text),
        6 => words(&text),
        7 => drop(QualifiedName::parse(&text)),
        8 => drop(Reference::parse(&text)),
        _ => drop(KeyRing::parse(&text)),
    }
});

fn filter(text: &str) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let write = |filter: Filter| {
        let sql = filter.to_sql(7);
        assert_eq!(
            sql.text.contains("$7"),
            !sql.params.is_empty(),
            "{}",
            sql.text
        );
        assert!(!sql.text.contains('\0'));
    };
    let _ = rag_filter::parse(&value).map(write);
    let _ = rag_filter::parse_request(&value, "filter").map(write);
    let _ = rag_filter::parse_dify(&value, "metadata_condition").map(write);
}

fn definition(text: &str, number: usize) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let kind = SOURCES[number / 10 % SOURCES.len()];
    match SourceSpec::parse(kind, &value) {
        Ok(_) => {}
        Err(problems) => assert!(!problems.is_empty()),
    }
    if let Ok(definition) = RetrieverDefinition::parse(&value) {
        // It is stored as it is written here.
        let stored = serde_json::to_value(&definition).unwrap();
        assert_eq!(RetrieverDefinition::parse(&stored).unwrap(), definition);
    }
}

fn schedule(text: &str) {
    let Ok(schedule) = Schedule::parse(text) else {
        return;
    };
    let after = Timestamp::from_second(1_700_000_000).unwrap();
    if let Some(next) = schedule.next(after, &TimeZone::UTC) {
        assert!(next > after);
    }
}

fn search(text: &str) {
    let parsed = ParsedQuery::parse(text);
    parsed.wanted().for_each(drop);
    let escaped = query::escaped(text);
    assert!(ParsedQuery::parse(&escaped).is_plain(), "{escaped}");
    written_words(text, false).for_each(drop);
}

fn words(text: &str) {
    let mut splitter = Splitter::default();
    for analysis in [Analysis::Words, Analysis::Code, Analysis::Exact] {
        for purpose in [Purpose::Text, Purpose::Query] {
            splitter.split_aligned(text, analysis, purpose).unwrap();
            for token in splitter.iter() {
                assert!(text.get(splitter.place(text, &token)).is_some());
            }
        }
    }
    let style = MarkStyle {
        start: "<b>".into(),
        stop: "</b>".into(),
        ellipsis: "…".into(),
        escapes_html: true,
    };
    for sentence in sentences(text) {
        marked(text, sentence.clone(), &[sentence], &style);
    }
}
