//! Measures how fast files are read, in one thread:
//! `cargo run --release -p rag-document --example timed -- PDFIUM ROUNDS FILE...`.
//!
//! Prints the processor time of all rounds in seconds, the number of letters of the texts, and the
//! peak memory of the process in kB.

use std::{error::Error, fs, path::Path};

use rag_document::{PdfReader, document_type, extract_with};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let library = arguments.next().ok_or("the path of PDFium is missing")?;
    let rounds: u32 = arguments
        .next()
        .ok_or("the number of rounds is missing")?
        .parse()?;
    let reader = PdfReader::pdfium(Path::new(&library)).unwrap_or(PdfReader::PDF_EXTRACT);
    let mut files = vec![];
    for name in arguments {
        files.push((fs::read(&name)?, name));
    }
    let mut letters = 0;
    let began = processor_time()?;
    for _ in 0..rounds {
        for (bytes, name) in &files {
            let document_type = document_type(name, None, bytes).ok_or("it is no document")?;
            let read = extract_with(&reader, bytes, document_type, name, None);
            let read = read.map_err(|error| format!("{name}: {}", error.message))?;
            letters += read
                .text
                .chars()
                .filter(|sign| sign.is_alphanumeric())
                .count();
        }
    }
    let seconds = processor_time()? - began;
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next());
    println!("{seconds:.4} {letters} {}", peak.ok_or("no VmHWM")?);
    Ok(())
}

/// Returns the time that this thread has been running, in seconds.
fn processor_time() -> Result<f64, Box<dyn Error>> {
    let times = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = times.split_whitespace().next().ok_or("no time")?.parse()?;
    Ok(nanoseconds / 1e9)
}
