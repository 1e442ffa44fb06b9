//! Prints what is extracted from files: `cargo run --release -p rag-document --example text FILE`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    for name in std::env::args().skip(1) {
        let bytes = std::fs::read(&name)?;
        println!("=== {name}");
        let Some(document_type) = rag_document::document_type(&name, None, &bytes) else {
            println!("no document");
            continue;
        };
        match rag_document::extract(&bytes, document_type, &name, None) {
            Ok(read) => {
                let (title, metadata) = (&read.title.text, serde_json::to_string(&read.metadata)?);
                println!(
                    "{} {title:?} {metadata}\n{}",
                    document_type.name(),
                    read.text
                );
            }
            Err(problem) => println!("{} error: {}", document_type.name(), problem.message),
        }
    }
    Ok(())
}
