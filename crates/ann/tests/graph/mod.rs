//! The graph that is built in memory: what must hold of every graph, and how well it is searched.

mod threads;

use std::collections::HashSet;

use proptest::prelude::*;
use rag_ann::{
    code::{Metric, Quantizer, Query},
    graph::{BuildError, Graph, Node, Parameters},
    pool::{Pool, key, key_id, not_expanded},
    visited::Visited,
};

const PARAMETERS: Parameters = Parameters {
    m: 16,
    ef_construction: 64,
    seed: 7,
};

/// Numbers in -1..1, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// Vectors around a few centres, of different lengths.
fn clustered(count: usize, dimensions: usize, seed: u64) -> Vec<f32> {
    const CLUSTERS: usize = 20;
    let mut random = Random(seed);
    let centres: Vec<f32> = (0..CLUSTERS * dimensions)
        .map(|_| 2.0 * random.next())
        .collect();
    let mut vectors = Vec::with_capacity(count * dimensions);
    for i in 0..count {
        let centre = &centres[(i * 7 % CLUSTERS) * dimensions..][..dimensions];
        let length = 1.0 + 0.5 * random.next();
        vectors.extend(centre.iter().map(|x| length * (x + 0.8 * random.next())));
    }
    vectors
}

fn quantizer(metric: Metric, dimensions: usize, vectors: &[f32]) -> Quantizer {
    let plain = Quantizer::new(
        metric,
        dimensions,
        dimensions.next_multiple_of(128),
        3,
        vec![],
    );
    let mut mean = plain.mean();
    vectors
        .chunks_exact(dimensions)
        .for_each(|vector| mean.add(vector));
    Quantizer::new(
        metric,
        dimensions,
        dimensions.next_multiple_of(128),
        3,
        mean.finish(),
    )
}

fn built<'q>(
    quantizer: &'q Quantizer,
    vectors: &[f32],
    parameters: Parameters,
    threads: usize,
) -> Graph<'q> {
    let mut graph = Graph::new(
        quantizer,
        parameters,
        vectors.len() / quantizer.dimensions(),
    );
    assert_eq!(graph.encode(vectors, threads), Ok(()));
    assert_eq!(graph.build(threads, |_| true), Ok(()));
    graph
}

fn linked(graph: &Graph<'_>) -> Vec<Node> {
    (0..graph.len() as Node)
        .filter(|node| graph.duplicate_of(*node).is_none())
        .collect()
}

/// Checks what must hold of every graph.
fn check(graph: &Graph<'_>, m: usize) {
    let linked = linked(graph);
    let Some(entry) = graph.entry() else {
        assert!(linked.is_empty());
        return;
    };
    let top = graph.level(entry);
    assert_eq!(
        linked.iter().map(|node| graph.level(*node)).max(),
        Some(top)
    );
    for node in 0..graph.len() as Node {
        if let Some(first) = graph.duplicate_of(node) {
            assert!(first < node && graph.duplicate_of(first).is_none());
            assert_eq!(
                (graph.code(first), graph.factors(first)),
                (graph.code(node), graph.factors(node))
            );
            assert_eq!((graph.links(node, 0), graph.level(node)), (&[][..], 0));
        }
        for level in 0..=graph.level(node) {
            let links = graph.links(node, level);
            assert!(links.len() <= if level == 0 { 2 * m } else { m });
            assert_eq!(
                links.iter().collect::<HashSet<_>>().len(),
                links.len(),
                "a repeated link"
            );
            for &other in links {
                assert!(
                    other != node
                        && graph.duplicate_of(other).is_none()
                        && graph.level(other) >= level
                );
            }
        }
        assert!(graph.links(node, graph.level(node) + 1).is_empty());
    }
    for level in 0..=top {
        let mut reached = HashSet::from([entry]);
        let mut todo = vec![entry];
        while let Some(node) = todo.pop() {
            todo.extend(
                graph
                    .links(node, level)
                    .iter()
                    .filter(|other| reached.insert(**other)),
            );
        }
        let there = linked
            .iter()
            .filter(|node| graph.level(**node) >= level)
            .count();
        assert_eq!(
            reached.len(),
            there,
            "not all of level {level} can be reached"
        );
    }
    let mut order = graph.page_order(10, 2, &mut || true).unwrap_or_default();
    order.sort_unstable();
    assert_eq!(order, linked);
}

/// The best `k` that a search with a pool of `ef` finds.
fn search(graph: &Graph<'_>, query: &Query, ef: usize, k: usize) -> Vec<Node> {
    let Some(entry) = graph.entry() else {
        return vec![];
    };
    let key_of = |node| key(query.distance(graph.code(node), graph.factors(node)), node);
    let (mut pool, mut visited) = (Pool::new(), Visited::new());
    let mut best = key_of(entry);
    for level in (0..=graph.level(entry)).rev() {
        visited.clear();
        pool.reset(if level == 0 { ef } else { 1 });
        assert_eq!(visited.insert(key_id(best)), Ok(true));
        pool.insert(not_expanded(best));
        while let Some(next) = pool.next_unexpanded() {
            for &link in graph.links(key_id(next), level) {
                if visited.insert(link) == Ok(true) {
                    pool.insert(key_of(link));
                }
            }
        }
        best = pool.as_slice()[0];
    }
    pool.as_slice()
        .iter()
        .take(k)
        .map(|key| key_id(*key))
        .collect()
}

/// How many of the nearest 10, by the same estimated distances, a search finds.
fn recall(graph: &Graph<'_>, quantizer: &Quantizer, queries: &[f32], ef: usize) -> f64 {
    let nodes = linked(graph);
    let (mut found, mut wanted) = (0, 0);
    let queries = queries.chunks_exact(quantizer.dimensions());
    for vector in queries {
        let query = quantizer.query(vector);
        let mut all: Vec<u64> = nodes
            .iter()
            .map(|node| {
                key(
                    query.distance(graph.code(*node), graph.factors(*node)),
                    *node,
                )
            })
            .collect();
        all.sort_unstable();
        let nearest: HashSet<Node> = all.iter().take(10).map(|key| key_id(*key)).collect();
        found += search(graph, &query, ef, 10)
            .iter()
            .filter(|node| nearest.contains(node))
            .count();
        wanted += nearest.len();
    }
    found as f64 / wanted as f64
}

fn finds_what_is_near(metric: Metric, dimensions: usize, at_least: f64) {
    const COUNT: usize = 1500;
    let vectors = clustered(COUNT + 50, dimensions, 11);
    let (vectors, queries) = vectors.split_at(COUNT * dimensions);
    let quantizer = quantizer(metric, dimensions, vectors);
    for threads in [1, 4] {
        let graph = built(&quantizer, vectors, PARAMETERS, threads);
        check(&graph, PARAMETERS.m);
        let recall = recall(&graph, &quantizer, queries, 60);
        assert!(
            recall >= at_least,
            "{metric:?}, {dimensions} dimensions, {threads} threads: {recall}"
        );
    }
}

#[test]
fn finds_what_is_near_by_l2() {
    finds_what_is_near(Metric::L2, 1, 0.97);
    finds_what_is_near(Metric::L2, 3, 0.97);
    finds_what_is_near(Metric::L2, 100, 0.97);
}

#[test]
fn finds_what_is_near_by_cosine() {
    finds_what_is_near(Metric::Cosine, 2, 0.97);
    finds_what_is_near(Metric::Cosine, 40, 0.97);
    finds_what_is_near(Metric::Cosine, 384, 0.97);
}

#[test]
fn finds_what_is_near_by_inner_product() {
    finds_what_is_near(Metric::InnerProduct, 2, 0.9);
    finds_what_is_near(Metric::InnerProduct, 16, 0.95);
    finds_what_is_near(Metric::InnerProduct, 130, 0.95);
}

#[test]
fn a_graph_may_be_empty() {
    let quantizer = Quantizer::new(Metric::L2, 5, 128, 1, vec![]);
    let graph = built(&quantizer, &[], PARAMETERS, 2);
    assert_eq!(
        (graph.len(), graph.is_empty(), graph.entry()),
        (0, true, None)
    );
    assert!(graph.page_order(10, 2, &mut || true).unwrap().is_empty());
}

#[test]
fn a_graph_may_have_one_node() {
    let quantizer = Quantizer::new(Metric::L2, 2, 128, 1, vec![]);
    let graph = built(&quantizer, &[1.0, 2.0], PARAMETERS, 2);
    check(&graph, PARAMETERS.m);
    assert_eq!((graph.entry(), graph.links(0, 0)), (Some(0), &[][..]));
    assert_eq!(graph.page_order(10, 2, &mut || true).unwrap(), [0]);
}

#[test]
fn equal_vectors_are_one_node() {
    const EQUAL: usize = 10_000;
    let mut vectors = clustered(300, 8, 5);
    vectors.extend([1.0; 8].repeat(EQUAL));
    vectors.extend_from_within(..80);
    vectors.extend([0.0; 16]);
    for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
        let quantizer = quantizer(metric, 8, &vectors);
        let graph = built(&quantizer, &vectors, PARAMETERS, 2);
        check(&graph, PARAMETERS.m);
        let nodes = 0..graph.len() as Node;
        assert!(
            nodes
                .skip(301)
                .take(EQUAL - 1)
                .all(|node| graph.duplicate_of(node) == Some(300))
        );
        assert_eq!(graph.duplicate_of(300 + EQUAL as Node), Some(0));
        assert_eq!(linked(&graph).len(), 302);
    }
}

#[test]
fn one_dimension_has_two_directions() {
    let vectors: Vec<f32> = (1..500)
        .map(|i| if i % 3 == 0 { -(i as f32) } else { i as f32 })
        .collect();
    let quantizer = quantizer(Metric::Cosine, 1, &vectors);
    let graph = built(&quantizer, &vectors, PARAMETERS, 2);
    check(&graph, PARAMETERS.m);
    assert_eq!(linked(&graph), [0, 2]);
}

#[test]
fn one_thread_builds_the_same_graph_again() {
    let vectors = clustered(500, 10, 1);
    let quantizer = quantizer(Metric::L2, 10, &vectors);
    let graphs = [0, 1].map(|_| built(&quantizer, &vectors, PARAMETERS, 1));
    for node in 0..500 {
        assert_eq!(graphs[0].links(node, 0), graphs[1].links(node, 0));
    }
}

#[test]
fn vectors_may_come_in_parts_and_stop_at_the_limit() {
    let vectors = clustered(1000, 3, 2);
    let quantizer = quantizer(Metric::L2, 3, &vectors);
    let whole = built(&quantizer, &vectors, PARAMETERS, 1);
    let mut graph = Graph::new(&quantizer, PARAMETERS, 900);
    for part in vectors.chunks(3 * 77) {
        graph.encode(part, 3).unwrap();
    }
    assert_eq!(graph.len(), 900);
    for node in 0..900 {
        assert_eq!(
            (graph.code(node), graph.factors(node)),
            (whole.code(node), whole.factors(node))
        );
    }
}

#[test]
fn pages_have_neighbours_together() {
    const SLOTS: usize = 20;
    let vectors = clustered(2000, 16, 9);
    let quantizer = quantizer(Metric::L2, 16, &vectors);
    let graph = built(&quantizer, &vectors, PARAMETERS, 2);
    let mut page = vec![0; graph.len()];
    for (place, node) in graph
        .page_order(SLOTS, 2, &mut || true)
        .unwrap()
        .into_iter()
        .enumerate()
    {
        page[node as usize] = place / SLOTS;
    }
    let (mut here, mut all) = (0, 0);
    for node in 0..graph.len() {
        let links = graph.links(node as Node, 0);
        here += links
            .iter()
            .filter(|other| page[**other as usize] == page[node])
            .count();
        all += links.len();
    }
    assert!(
        here * 8 > all,
        "{here} of {all} links stay on the page, of 100 pages"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_graph_is_sound(
        points in proptest::collection::vec(-4i8..5, 0..700),
        dimensions in 1usize..5,
        m in 2usize..6,
        ef_construction in 1usize..30,
        threads in 1usize..4,
        metric in prop_oneof![Just(Metric::L2), Just(Metric::InnerProduct), Just(Metric::Cosine)],
        seed: u64,
    ) {
        let whole = points.len() / dimensions * dimensions;
        let vectors: Vec<f32> = points[..whole].iter().map(|x| f32::from(*x)).collect();
        let quantizer = Quantizer::new(metric, dimensions, 128, seed, vec![]);
        let graph = built(&quantizer, &vectors, Parameters { m, ef_construction, seed }, threads);
        check(&graph, m);
    }
}
