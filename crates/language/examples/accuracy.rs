//! Reads lines `code TAB text`, and prints how many are detected right, by language and length.
//!
//!     cargo run --release -p rag-language --example accuracy < texts.tsv

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
};

use rag_language::{UNDETERMINED, detect};

const LENGTHS: [usize; 4] = [30, 100, 300, 1000];

fn main() -> io::Result<()> {
    // language -> for each length: all, right, undetermined
    let mut counts: BTreeMap<String, [[usize; 3]; LENGTHS.len() + 1]> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Some((code, text)) = line.split_once('\t') else {
            continue;
        };
        let characters = text.chars().count();
        let length = LENGTHS.iter().filter(|most| characters >= **most).count();
        let found = detect(text);
        for name in [code, "all"] {
            let count = &mut counts.entry(name.into()).or_default()[length];
            count[0] += 1;
            count[1] += usize::from(found == code);
            count[2] += usize::from(found == UNDETERMINED);
        }
    }
    println!("language  right / undetermined / all: below {LENGTHS:?} characters, and longer");
    for (code, lengths) in counts {
        let shown = lengths.map(|[all, right, none]| format!("{right}/{none}/{all}"));
        println!("{code:8}  {}", shown.join("  "));
    }
    Ok(())
}
