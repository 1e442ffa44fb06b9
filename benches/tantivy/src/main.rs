//! Builds and searches an index of tantivy in this process, for comparison with `rag_bm25`.
//!
//! ```text
//! tantivy-peer build FOLDER     reads documents: an id, a tab, and terms that are separated by
//!                               spaces and repeated. Prints seconds, bytes and segments.
//! tantivy-peer search FOLDER    reads queries: terms. Prints a line for each: microseconds, then
//!                               the ids of the ten best documents.
//! ```
//!
//! Both read standard input. Terms are lexemes of PostgreSQL, so that both sides rank the same.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{self, BufWriter, Write},
    path::Path,
    time::Instant,
};

use tantivy::{
    DocAddress, Index, Searcher, TantivyDocument, Term,
    collector::TopDocs,
    columnar::Column,
    indexer::NoMergePolicy,
    query::{BooleanQuery, BoostQuery, Query, TermQuery},
    schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{TextAnalyzer, WhitespaceTokenizer},
};

const RESULTS: usize = 10;
const MEMORY: usize = 1_000_000_000;
const TOKENIZER: &str = "terms";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let input = io::read_to_string(io::stdin())?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", folder] => build(Path::new(folder), &input),
        ["search", folder] => search(Path::new(folder), &input),
        _ => Err("usage: tantivy-peer build|search FOLDER".into()),
    }
}

/// Indexes the documents in one thread, into one segment.
fn build(folder: &Path, input: &str) -> Result<(), Box<dyn Error>> {
    let mut schema = Schema::builder();
    let id = schema.add_u64_field("id", FAST);
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(TOKENIZER)
        .set_index_option(IndexRecordOption::WithFreqs);
    let body = schema.add_text_field(
        "body",
        TextOptions::default().set_indexing_options(indexing),
    );
    fs::create_dir(folder)?;
    let index = Index::create_in_dir(folder, schema.build())?;
    register(&index);

    let start = Instant::now();
    let mut writer = index.writer_with_num_threads(1, MEMORY)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for line in input.lines() {
        let (number, terms) = line.split_once('\t').ok_or("a line without a tab")?;
        let mut document = TantivyDocument::default();
        document.add_u64(id, number.parse()?);
        document.add_text(body, terms);
        writer.add_document(document)?;
    }
    writer.commit()?;
    let segments = index.searchable_segment_ids()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait()?;
    }
    writer.garbage_collect_files().wait()?;
    writer.wait_merging_threads()?;
    let seconds = start.elapsed().as_secs_f64();

    let segments = index.searchable_segment_ids()?.len();
    println!("{seconds} {} {segments}", folder_bytes(folder)?);
    Ok(())
}

fn folder_bytes(folder: &Path) -> io::Result<u64> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

/// Answers all queries once to warm up, and once more with a clock.
fn search(folder: &Path, input: &str) -> Result<(), Box<dyn Error>> {
    let index = Index::open_in_dir(folder)?;
    register(&index);
    let body = index.schema().get_field("body")?;
    let searcher = index.reader()?.searcher();
    let ids = searcher
        .segment_readers()
        .iter()
        .map(|segment| segment.fast_fields().u64("id"))
        .collect::<Result<Vec<_>, _>>()?;
    for line in input.lines() {
        top(&searcher, body, &ids, line)?;
    }
    let mut output = BufWriter::new(io::stdout().lock());
    for line in input.lines() {
        let start = Instant::now();
        let found = top(&searcher, body, &ids, line)?;
        write!(output, "{}", start.elapsed().as_nanos() as f64 / 1000.0)?;
        for id in found {
            write!(output, " {id}")?;
        }
        writeln!(output)?;
    }
    Ok(output.flush()?)
}

fn register(index: &Index) {
    let analyzer = TextAnalyzer::from(WhitespaceTokenizer::default());
    index.tokenizers().register(TOKENIZER, analyzer);
}

/// Returns the ids of the best documents, the best first. `ids` are the columns of the segments.
fn top(
    searcher: &Searcher,
    body: Field,
    ids: &[Column<u64>],
    line: &str,
) -> tantivy::Result<Vec<u64>> {
    let mut counts = BTreeMap::new();
    for term in line.split(' ') {
        *counts.entry(term).or_insert(0u32) += 1;
    }
    let terms = counts.into_iter().map(|(term, count)| {
        let term = Term::from_field_text(body, term);
        let query: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs));
        match count {
            1 => query,
            _ => Box::new(BoostQuery::new(query, count as f32)),
        }
    });
    let query = BooleanQuery::union(terms.collect());
    let found = searcher.search(&query, &TopDocs::with_limit(RESULTS).order_by_score())?;
    let id = |address: DocAddress| ids[address.segment_ord as usize].first(address.doc_id);
    Ok(found
        .into_iter()
        .filter_map(|(_, address)| id(address))
        .collect())
}
