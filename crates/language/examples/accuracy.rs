//! Reads lines `code TAB text`, and writes `code TAB length TAB found`, where the length is the
//! number of characters and `found` the detected language.
//!
//!     cargo run --release -p rag-language --example accuracy [USUAL] < texts.tsv
//!
//! With `USUAL` the documents around each text have that language; `=` stands for the right one.

use std::{
    env,
    io::{self, BufRead, Write},
};

use rag_language::of_document;

fn main() -> io::Result<()> {
    let given = env::args().nth(1);
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Some((code, text)) = line.split_once('\t') else {
            continue;
        };
        let usual = given
            .as_deref()
            .map(|usual| if usual == "=" { code } else { usual });
        let found = of_document("", text, usual);
        writeln!(out, "{code}\t{}\t{found}", text.chars().count())?;
    }
    Ok(())
}
