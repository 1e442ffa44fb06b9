//! Measures an embedding model's quality and cost, through a real engine and its socket, on BEIR's
//! SciFact: nDCG@10 of exact search, the rate of bulk work, and the time of a single query. With a
//! reranker also nDCG@10 after it, and its time per candidate.
//!
//! ```text
//! cargo run --release -p rag-engine --example scifact -- --onnxruntime LIB --model DIR --data DIR [--precision int8] \
//!     [--reranker DIR]
//! ```
//!
//! The data folder has `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. A document is its title and
//! text, truncated at the model's limit. The engine is the `rag-engine` beside this program's
//! folder, or `--engine`.
// A measurement that fails may report it with a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    collections::{HashMap, HashSet},
    env, fs,
    io::BufReader,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use rag_definition::model::Precision;
use rag_protocol::{
    embed::{Answer, ModelOptions, ModelRef, Priority, Reply, Request, Task},
    frame,
};
use serde_json::Value;

#[derive(Parser)]
struct Arguments {
    #[arg(long)]
    onnxruntime: PathBuf,
    #[arg(long)]
    model: PathBuf,
    #[arg(long)]
    data: PathBuf,
    /// fp32 or int8.
    #[arg(long, default_value = "int8")]
    precision: String,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long)]
    engine: Option<PathBuf>,
    /// Measure speed only.
    #[arg(long)]
    speed: bool,
    /// A model that scores pairs: also measures what it makes of the first documents of each query.
    #[arg(long)]
    reranker: Option<PathBuf>,
}

/// Number of documents that are ranked for a query.
const DEPTH: usize = 10;
/// Number of documents of a query that are reranked.
const CANDIDATES: usize = 50;
/// Number of texts of full length for measuring the rate.
const BULK: usize = 400;
const QUERY: &str = "how do I rotate the signing keys?";

struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Client {
    stream: UnixStream,
    model: ModelRef,
}

impl Client {
    fn score(&mut self, model: &ModelRef, query: &str, documents: Vec<String>) -> Vec<f32> {
        let task = Task::Score {
            priority: Priority::Query,
            query: query.into(),
            documents,
        };
        let request = Request {
            id: 1,
            model: model.clone(),
            task,
        };
        frame::write(&mut self.stream, &request, &[]).unwrap();
        let reply = frame::read(&mut BufReader::new(&self.stream));
        let reply = reply.unwrap().expect("a reply");
        match reply.header::<Reply>().unwrap().answer {
            Answer::Scores { .. } => {
                let (values, _) = reply.payload.as_chunks::<4>();
                values.iter().map(|b| f32::from_le_bytes(*b)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn embed(&mut self, priority: Priority, texts: &[String]) -> (Vec<Vec<f32>>, Vec<usize>) {
        let task = Task::Embed {
            priority,
            purpose: None,
            texts: texts.to_vec(),
        };
        frame::write(
            &mut self.stream,
            &Request {
                id: 1,
                model: self.model.clone(),
                task,
            },
            &[],
        )
        .unwrap();
        let reply = frame::read(&mut BufReader::new(&self.stream))
            .unwrap()
            .expect("a reply");
        match reply.header::<Reply>().unwrap().answer {
            Answer::Embeddings { model, tokens } => {
                let values: Vec<f32> = reply
                    .payload
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|b| f32::from_le_bytes(*b))
                    .collect();
                (
                    values
                        .chunks_exact(model.dimensions)
                        .map(<[f32]>::to_vec)
                        .collect(),
                    tokens,
                )
            }
            other => panic!("{other:?}"),
        }
    }
}

fn main() {
    let arguments = Arguments::parse();
    let precision = if arguments.precision == "fp32" {
        Precision::Fp32
    } else {
        Precision::Int8
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("run/engine.sock");
    let beside = || {
        env::current_exe()
            .unwrap()
            .parent()
            .unwrap()
            .join("../rag-engine")
    };
    let _engine = Engine(
        Command::new(arguments.engine.unwrap_or_else(beside))
            .args([
                "embed",
                "--log",
                "warn",
                "--threads",
                &arguments.threads.to_string(),
                "--onnxruntime",
            ])
            .arg(&arguments.onnxruntime)
            .arg("--socket")
            .arg(&socket)
            .spawn()
            .expect("rag-engine starts"),
    );
    let stream = (0..500)
        .find_map(|_| {
            UnixStream::connect(&socket)
                .map_err(|_| thread::sleep(Duration::from_millis(10)))
                .ok()
        })
        .expect("rag-engine listens");
    let model = ModelRef {
        dir: fs::canonicalize(&arguments.model).unwrap(),
        precision,
        options: ModelOptions::default(),
    };
    let reranker = arguments.reranker.map(|dir| ModelRef {
        dir: fs::canonicalize(dir).unwrap(),
        ..model.clone()
    });
    let mut client = Client { stream, model };

    let corpus: Vec<(String, String)> = lines(&arguments.data.join("corpus.jsonl"))
        .map(|d| {
            (
                text(&d, "_id"),
                format!("{}\n\n{}", text(&d, "title"), text(&d, "text")),
            )
        })
        .collect();
    println!("{} with {} threads", arguments.precision, arguments.threads);
    measure_speed(&mut client, &corpus);
    if !arguments.speed {
        measure_quality(&mut client, &corpus, &arguments.data, reranker.as_ref());
    }
}

fn measure_speed(client: &mut Client, corpus: &[(String, String)]) {
    client.embed(Priority::Query, &[QUERY.into()]); // loads the model
    let mut times: Vec<f64> = (0..320)
        .map(|_| {
            let start = Instant::now();
            client.embed(Priority::Query, &[QUERY.into()]);
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(20)
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "one query of 10 tokens: p50 {:.2} ms, p99 {:.2} ms",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );

    let texts: Vec<String> = corpus
        .iter()
        .take(BULK * 3)
        .map(|(_, text)| text.clone())
        .collect();
    let (_, tokens) = client.embed(Priority::Bulk, &texts);
    let long: Vec<String> = texts
        .into_iter()
        .zip(tokens)
        .filter(|(_, n)| *n >= 256)
        .map(|(text, _)| text)
        .take(BULK)
        .collect();
    let start = Instant::now();
    client.embed(Priority::Bulk, &long);
    println!(
        "{} texts of 256 tokens: {:.1} texts/s",
        long.len(),
        long.len() as f64 / start.elapsed().as_secs_f64()
    );
}

fn measure_quality(
    client: &mut Client,
    corpus: &[(String, String)],
    data: &Path,
    reranker: Option<&ModelRef>,
) {
    let relevant = relevant(&data.join("qrels.tsv"));
    let queries: Vec<(String, String)> = lines(&data.join("queries.jsonl"))
        .map(|q| (text(&q, "_id"), text(&q, "text")))
        .filter(|(id, _)| relevant.contains_key(id))
        .collect();
    let texts = |rows: &[(String, String)]| {
        rows.iter()
            .map(|(_, text)| text.clone())
            .collect::<Vec<_>>()
    };
    let start = Instant::now();
    let (documents, tokens) = client.embed(Priority::Bulk, &texts(corpus));
    println!(
        "{} documents of {} tokens on average: {:.1} documents/s",
        documents.len(),
        tokens.iter().sum::<usize>() / tokens.len(),
        documents.len() as f64 / start.elapsed().as_secs_f64()
    );
    let (vectors, _) = client.embed(Priority::Bulk, &texts(&queries));
    let ranked: Vec<Vec<&(String, String)>> = vectors
        .iter()
        .map(|query| {
            let products = documents.iter().zip(corpus).map(|(document, row)| {
                let product: f32 = document.iter().zip(query).map(|(a, b)| a * b).sum();
                (product, row)
            });
            let mut ranked: Vec<(f32, &(String, String))> = products.collect();
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.0.cmp(&b.1.0)));
            let first = ranked.into_iter().take(CANDIDATES);
            first.map(|(_, row)| row).collect()
        })
        .collect();
    report("nDCG", &queries, &ranked, &relevant);
    let Some(reranker) = reranker else { return };
    client.score(reranker, QUERY, vec![QUERY.into()]); // loads the model
    let start = Instant::now();
    let reranked: Vec<Vec<&(String, String)>> = queries
        .iter()
        .zip(ranked)
        .map(|((_, query), rows)| {
            let texts = rows.iter().map(|row| row.1.clone()).collect();
            let scores = client.score(reranker, query, texts);
            let mut scored: Vec<_> = scores.into_iter().zip(rows).collect();
            scored.sort_by(|a, b| b.0.total_cmp(&a.0));
            scored.into_iter().map(|(_, row)| row).collect()
        })
        .collect();
    let candidates = (queries.len() * CANDIDATES) as f64;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    println!("{:.2} ms per candidate", milliseconds / candidates);
    report("reranked, nDCG", &queries, &reranked, &relevant);
}

fn report(
    what: &str,
    queries: &[(String, String)],
    ranked: &[Vec<&(String, String)>],
    relevant: &HashMap<String, HashSet<String>>,
) {
    let each = queries.iter().zip(ranked).map(|((id, _), rows)| {
        let first = rows.iter().take(DEPTH).map(|row| row.0.as_str());
        ndcg(first, &relevant[id])
    });
    let mean = each.sum::<f64>() / queries.len() as f64;
    println!("{what}@{DEPTH} over {} queries: {mean:.4}", queries.len());
}

/// Normalised discounted cumulative gain, where every judged document counts 1.
fn ndcg<'a>(ranked: impl Iterator<Item = &'a str>, relevant: &HashSet<String>) -> f64 {
    let discount = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let gained: f64 = ranked
        .enumerate()
        .filter(|(_, id)| relevant.contains(*id))
        .map(|(rank, _)| discount(rank))
        .sum();
    gained / (0..relevant.len().min(DEPTH)).map(discount).sum::<f64>()
}

fn relevant(path: &Path) -> HashMap<String, HashSet<String>> {
    let mut relevant: HashMap<String, HashSet<String>> = HashMap::new();
    for line in fs::read_to_string(path).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[2] != "0" {
            relevant
                .entry(fields[0].into())
                .or_default()
                .insert(fields[1].into());
        }
    }
    relevant
}

fn lines(path: &Path) -> impl Iterator<Item = Value> {
    let content = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    content
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect::<Vec<_>>()
        .into_iter()
}

fn text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().into()
}
