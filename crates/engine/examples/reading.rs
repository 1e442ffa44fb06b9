//! Measures how fast documents are decoded, extracted and split, on one core and without embedding.
//!
//! `cargo run --release -p rag-engine --example reading -- --model DIR [--markdown DIR] [--pdf DIR]
//! [--pdfium LIB]`
//!
//! Markdown: the `.md` files below a folder (by default the crates that cargo has unpacked),
//! repeated to 50 MB. PDF: the files of a folder that have text, repeated to 500 pages. Each is
//! measured with a counter that costs nothing and with the model's tokenizer as a run uses it.
// A measurement that fails may report it with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use clap::Parser;
use rag_definition::DocumentType;
use rag_document::{PdfReader, TokenCounter};
use rag_model::settings::Settings;
use rag_protocol::ingest::{Splitting, Unit};

#[allow(dead_code)] // the engine tokenizes, this only counts
#[path = "../src/embed/tokens.rs"]
mod tokens;

#[derive(Parser)]
struct Arguments {
    /// A model's folder.
    #[arg(long)]
    model: PathBuf,
    /// The folder of Markdown files.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// The folder of PDFs.
    #[arg(long)]
    pdf: Option<PathBuf>,
    /// PDFium's library; without it PDFs are read with pdf-extract.
    #[arg(long)]
    pdfium: Option<PathBuf>,
}

/// Four characters a token.
struct Cheap;

impl TokenCounter for Cheap {
    fn count(&self, text: &str) -> usize {
        text.len() / 4 + 2
    }

    fn limit(&self) -> usize {
        256
    }
}

fn files(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case(extension))
        {
            found.push(path);
        }
    }
    found.sort();
}

/// Reads all documents. Returns seconds of processor time, chunks and pages.
fn read(
    pdfs: &PdfReader,
    documents: &[Vec<u8>],
    document_type: DocumentType,
    tokens: &dyn TokenCounter,
) -> (f64, usize, usize) {
    let splitting = Splitting {
        chunk_size: 1000,
        chunk_overlap: 200,
        unit: Unit::Characters,
    };
    let (mut chunks, mut pages) = (0, 0);
    let started = processor_time();
    for bytes in documents {
        let extracted = rag_document::extract_with(pdfs, bytes, document_type, "a", None)
            .expect("the document can be read");
        pages += extracted.text.matches('\u{C}').count() + 1;
        chunks += rag_document::content(&extracted, document_type, &splitting, tokens)
            .expect("it can be split")
            .chunks
            .len();
    }
    (processor_time() - started, chunks, pages)
}

/// Of this process, in seconds: other processes may use the machine as well.
fn processor_time() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let times = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let (_, after_name) = times.rsplit_once(')').expect("a name");
    let fields = after_name.split_whitespace().skip(11).take(2); // utime and stime
    let ticks = fields.map(|ticks| ticks.parse::<f64>().expect("ticks"));
    ticks.sum::<f64>() / TICKS_A_SECOND
}

fn main() {
    let Arguments {
        model,
        markdown,
        pdf,
        pdfium,
    } = Arguments::parse();
    let pdfs = pdfium.map_or(PdfReader::PDF_EXTRACT, |path| {
        PdfReader::pdfium(&path).expect("PDFium")
    });
    let settings = Settings::read(&model).expect("a model");
    let tokenizer =
        tokens::ModelTokenizer::read_with_limit(&model, settings.max_tokens).expect("a tokenizer");
    let counters: [(&str, &dyn TokenCounter); 2] = [
        ("cheap counter", &Cheap),
        ("the model's tokenizer", &tokenizer),
    ];

    let home = std::env::home_dir().unwrap_or_default();
    let mut paths = vec![];
    files(
        &markdown.unwrap_or_else(|| home.join(".cargo/registry/src")),
        "md",
        &mut paths,
    );
    let real: Vec<Vec<u8>> = paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .filter(|f| !f.trim_ascii().is_empty())
        .collect();
    let total: usize = real.iter().map(Vec::len).sum();
    if let Some(times) = 50_000_000usize.checked_div(total) {
        let documents: Vec<Vec<u8>> = real
            .iter()
            .cycle()
            .take(real.len() * (times + 1))
            .cloned()
            .collect();
        let megabytes = documents.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
        for (name, counter) in counters {
            let (seconds, chunks, _) = read(&pdfs, &documents, DocumentType::Markdown, counter);
            println!(
                "Markdown, {name}: {} files, {megabytes:.0} MB, {chunks} chunks in {seconds:.2} \
                    s: {:.1} MB/s",
                documents.len(),
                megabytes / seconds
            );
        }
    }

    let mut paths = vec![];
    pdf.iter().for_each(|pdf| files(pdf, "pdf", &mut paths));
    let with_text = |bytes: &Vec<u8>| {
        rag_document::extract_with(&pdfs, bytes, DocumentType::Pdf, "a", None).is_ok()
    };
    let real: Vec<Vec<u8>> = paths
        .iter()
        .filter_map(|path| std::fs::read(path).ok())
        .filter(with_text)
        .collect();
    if !real.is_empty() {
        let (_, _, pages) = read(&pdfs, &real, DocumentType::Pdf, &Cheap);
        let documents: Vec<Vec<u8>> = real
            .iter()
            .cycle()
            .take(real.len() * (500 / pages + 1))
            .cloned()
            .collect();
        for (name, counter) in counters {
            let (seconds, chunks, pages) = read(&pdfs, &documents, DocumentType::Pdf, counter);
            println!(
                "PDF, {name}: {} files, {pages} pages, {chunks} chunks in {seconds:.2} s: {:.0} \
                    pages/s",
                documents.len(),
                pages as f64 / seconds
            );
        }
    }
}
