//! Measures how long the graph of the 100,000 test vectors takes to build, and the recall of
//! searches.
//!
//! ```sh
//! RAG_TEST_DATA=... cargo run --release -p rag-ann --example graph [m] [ef_construction] [threads]
//! ```
//! There are two figures of recall: of the 10 nearest by estimated distance, and of the best 10 by
//! exact distance among the 24 nearest by estimated distance, as in the index.

mod minilm;

use std::{env, error::Error, fs, time::Instant};

use minilm::{DIMENSIONS, Data};
use rag_ann::{
    code::{Metric, Quantizer, Query},
    distance,
    graph::{Graph, Node, Parameters},
    pool::{Pool, key, key_id, not_expanded},
    visited::Visited,
};

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |place, default: usize| {
        env::args()
            .nth(place)
            .map_or(Ok(default), |text| text.parse())
    };
    let (m, ef_construction, threads) = (argument(1, 16)?, argument(2, 64)?, argument(3, 2)?);
    let Data {
        base,
        queries,
        truth,
    } = Data::read()?;

    let plain = Quantizer::new(Metric::Cosine, DIMENSIONS, DIMENSIONS, 1, vec![]);
    let mut mean = plain.mean();
    base.chunks_exact(DIMENSIONS)
        .for_each(|vector| mean.add(vector));
    let quantizer = Quantizer::new(Metric::Cosine, DIMENSIONS, DIMENSIONS, 1, mean.finish());
    let nodes = base.len() / DIMENSIONS;
    let mut graph = Graph::new(
        &quantizer,
        Parameters {
            m,
            ef_construction,
            seed: 1,
        },
        nodes,
    );

    let mut clock = Clock::start();
    graph.encode(&base, threads)?;
    clock.report("encode");
    graph.build(threads, |_| true)?;
    clock.report("build");
    let order = graph.page_order(24, threads, &mut || true)?;
    clock.report("page order");

    let degree = order
        .iter()
        .map(|node| graph.links(*node, 0).len())
        .sum::<usize>() as f64
        / order.len() as f64;
    let mut page = vec![0; nodes];
    order
        .iter()
        .enumerate()
        .for_each(|(place, node)| page[*node as usize] = place / 24);
    let here = |node: &Node| {
        graph
            .links(*node, 0)
            .iter()
            .filter(|l| page[**l as usize] == page[*node as usize])
            .count()
    };
    let local = order.iter().map(here).sum::<usize>() as f64 / order.len() as f64;
    println!(
        "{nodes} nodes, {} linked, top level {}; {degree:.1} links a node, {local:.1} of them on \
         its page; at most {} bytes a node",
        order.len(),
        graph.entry().map_or(0, |entry| graph.level(entry)),
        Graph::node_bytes(quantizer.code_bytes(), m)
    );

    println!("ef    recall@10  reranked  µs/query  nodes/query");
    let mut search = Search::default();
    for ef in [20, 40, 60, 80, 120, 200, 320] {
        let (mut plain, mut reranked, mut scored) = (0, 0, 0);
        let mut micros = 0.0;
        for (query, truth) in queries
            .chunks_exact(DIMENSIONS)
            .zip(truth.chunks_exact(100))
        {
            let start = Instant::now();
            quantizer.prepare(query, &mut search.query);
            scored += search.run(&graph, ef);
            micros += start.elapsed().as_secs_f64() * 1e6;
            let found: Vec<Node> = search
                .pool
                .as_slice()
                .iter()
                .map(|key| key_id(*key))
                .collect();
            let hits = |nodes: &[Node]| {
                nodes
                    .iter()
                    .take(10)
                    .filter(|node| truth[..10].contains(node))
                    .count()
            };
            plain += hits(&found);
            let exact = |node: Node| {
                distance::cosine_distance(query, &base[node as usize * DIMENSIONS..][..DIMENSIONS])
            };
            let mut best: Vec<(f64, Node)> = found
                .iter()
                .take(24)
                .map(|node| (exact(*node), *node))
                .collect();
            best.sort_by(|a, b| a.0.total_cmp(&b.0));
            reranked += hits(&best.into_iter().map(|(_, node)| node).collect::<Vec<_>>());
        }
        let count = (queries.len() / DIMENSIONS) as f64;
        println!(
            "{ef:<5} {:.4}     {:.4}    {:<8.1}  {:.0}",
            plain as f64 / count / 10.0,
            reranked as f64 / count / 10.0,
            micros / count,
            scored as f64 / count
        );
    }
    Ok(())
}

#[derive(Default)]
struct Search {
    query: Query,
    pool: Pool,
    visited: Visited,
}

impl Search {
    /// Leaves the best `ef` in the pool; returns how many nodes were scored.
    fn run(&mut self, graph: &Graph<'_>, ef: usize) -> usize {
        let Some(entry) = graph.entry() else { return 0 };
        let mut scored = 1;
        let mut best = key(
            self.query.distance(graph.code(entry), graph.factors(entry)),
            entry,
        );
        for level in (0..=graph.level(entry)).rev() {
            self.visited.clear();
            self.pool.reset(if level == 0 { ef } else { 1 });
            self.visited.insert(key_id(best)).unwrap_or_default();
            self.pool.insert(not_expanded(best));
            while let Some(next) = self.pool.next_unexpanded() {
                for &link in graph.links(key_id(next), level) {
                    if self.visited.insert(link).unwrap_or_default() {
                        scored += 1;
                        self.pool.insert(key(
                            self.query.distance(graph.code(link), graph.factors(link)),
                            link,
                        ));
                    }
                }
            }
            best = self.pool.as_slice()[0];
        }
        scored
    }
}

/// Wall and CPU time of the parts of the work.
struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu_seconds(),
        }
    }

    fn report(&mut self, what: &str) {
        println!(
            "{what}: {:.2} s, {:.2} s CPU",
            self.wall.elapsed().as_secs_f64(),
            cpu_seconds() - self.cpu
        );
        *self = Self::start();
    }
}

/// CPU seconds of this process, of all its threads (Linux; 0 elsewhere).
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(11)
        .take(2)
        .flat_map(str::parse)
        .collect();
    fields.iter().sum::<f64>() / 100.0
}
