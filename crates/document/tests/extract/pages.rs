//! Pages as generators, shops and forums make them: what is a reader's is kept, what surrounds it
//! is dropped. Each page begins with a comment of its phrases of both sorts, and of those that
//! should be dropped and are not.

use std::path::PathBuf;

use rag_document::{document_type, extract};

/// The phrases of a page.
struct Page {
    name: String,
    kept: Vec<String>,
    dropped: Vec<String>,
    extra: Vec<String>,
    text: String,
}

fn pages() -> Vec<Page> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/pages");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let bytes = std::fs::read(folder.join(&name)).unwrap();
            let html = String::from_utf8(bytes.clone()).unwrap();
            let phrases = |of: &str| {
                html.lines()
                    .filter_map(|line| line.strip_prefix(of))
                    .map(|phrase| phrase.trim().to_owned())
                    .collect()
            };
            let document_type = document_type(&name, None, &bytes).unwrap();
            let extracted = extract(&bytes, document_type, &name, None).unwrap();
            Page {
                kept: phrases("kept:"),
                dropped: phrases("dropped:"),
                extra: phrases("extra:"),
                text: words(&extracted.text),
                name,
            }
        })
        .collect()
}

/// Returns a text without Markdown's marks for emphasis and code, on one line.
fn words(text: &str) -> String {
    let plain = text.replace(['*', '`'], "");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn count(phrases: &[String]) -> usize {
    phrases
        .iter()
        .map(|phrase| phrase.split_whitespace().count())
        .sum()
}

#[test]
fn pages_keep_what_readers_read_and_drop_what_surrounds_it() {
    let (mut kept, mut extra) = (0, 0);
    let mut wrong = vec![];
    let pages = pages();
    assert!(pages.len() >= 20);
    for page in &pages {
        let is_there = |phrase: &&String| page.text.contains(&words(phrase));
        for phrase in page.kept.iter().filter(|phrase| !is_there(phrase)) {
            wrong.push(format!("{} lost: {phrase}", page.name));
        }
        for phrase in page.dropped.iter().filter(is_there) {
            wrong.push(format!("{} kept: {phrase}", page.name));
        }
        kept += count(&page.kept);
        extra += count(&page.extra);
    }
    assert_eq!(wrong, Vec::<String>::new());
    eprintln!(
        "recall 100 %, precision {:.1} % of the words of phrases",
        100.0 * kept as f64 / (kept + extra) as f64
    );
}
