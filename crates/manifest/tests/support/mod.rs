//! What the tests of problems share.

use rag_manifest::parse;

/// Each problem as `field: problem`, with its hint behind a bar.
pub fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).err().unwrap_or_default();
    let shown = problems.into_iter().map(|it| {
        let hint = it
            .hint
            .as_ref()
            .map_or_else(String::new, |hint| format!(" | {hint}"));
        format!("{it}{hint}")
    });
    shown.collect()
}
