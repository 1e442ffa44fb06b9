//! Data and indexes for the tests.
#![allow(dead_code, clippy::unwrap_used)] // each test uses its part, and all is test

use std::ops::Range;

use rag_ann::{
    code::Metric,
    distance,
    graph::{Graph, Parameters},
    hnsw::{self, Index, IndexParameters, Inserter, Scan, ScanLimits},
};
use rag_pages::{MemoryPages, Tid};

pub const METRICS: [Metric; 3] = [Metric::L2, Metric::InnerProduct, Metric::Cosine];

/// A small generator (SplitMix64), so that data is the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In 0..limit.
    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    /// In 0..1.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal: the sum of uniform numbers.
    pub fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.uniform() as f32 - 0.5).sum::<f32>() * 1.4
    }
}

/// Vectors, one after another.
#[derive(Clone)]
pub struct Data {
    pub dimensions: usize,
    pub elements: Vec<f32>,
}

impl Data {
    /// Points around as many centres as there are twenties of them, away from the origin.
    pub fn clustered(count: usize, dimensions: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let centres: Vec<Vec<f32>> = (0..count.div_ceil(20))
            .map(|_| (0..dimensions).map(|_| random.normal() + 0.3).collect())
            .collect();
        let mut elements = Vec::with_capacity(count * dimensions);
        for _ in 0..count {
            let centre = &centres[random.next() as usize % centres.len()];
            elements.extend(centre.iter().map(|x| x + 0.6 * random.normal()));
        }
        Self {
            dimensions,
            elements,
        }
    }

    pub fn len(&self) -> usize {
        self.elements.len() / self.dimensions
    }

    pub fn vector(&self, i: usize) -> &[f32] {
        &self.elements[i * self.dimensions..(i + 1) * self.dimensions]
    }

    pub fn set(&mut self, i: usize, vector: &[f32]) {
        self.elements[i * self.dimensions..(i + 1) * self.dimensions].copy_from_slice(vector);
    }

    pub fn slice(&self, range: Range<usize>) -> Self {
        let elements =
            self.elements[range.start * self.dimensions..range.end * self.dimensions].to_vec();
        Self {
            dimensions: self.dimensions,
            elements,
        }
    }

    pub fn extend(&mut self, other: &Self) {
        self.elements.extend_from_slice(&other.elements);
    }
}

pub fn tid(i: usize) -> Tid {
    Tid {
        block: i as u32,
        offset: 1,
    }
}

pub fn limits(ef: usize, iterative: bool, max_keys: usize) -> ScanLimits {
    ScanLimits {
        ef,
        iterative,
        max_tuples: 0,
        max_keys,
    }
}

pub fn description(metric: Metric, m: u16) -> IndexParameters {
    IndexParameters {
        metric,
        m,
        ef_construction: 64,
        seed: 42,
    }
}

/// An index with the rows it should have: row `i` has vector `i` of `data`.
pub struct Fixture {
    pub store: MemoryPages,
    pub index: Index,
    pub data: Data,
    pub present: Vec<bool>,
    random: Random,
}

impl Fixture {
    pub fn built(metric: Metric, data: Data, m: u16) -> Self {
        let store = MemoryPages::new();
        let description = description(metric, m);
        let uncentred = hnsw::quantizer(&description, data.dimensions, vec![]);
        let mut mean = uncentred.mean();
        for i in 0..data.len() {
            mean.add(data.vector(i));
        }
        let quantizer = hnsw::quantizer(&description, data.dimensions, mean.finish());
        let parameters = Parameters {
            m: usize::from(m),
            ef_construction: 64,
            seed: 1,
        };
        let mut graph = Graph::new(&quantizer, parameters, data.len());
        graph.encode(&data.elements, 2).unwrap();
        graph.build(2, |_| true).unwrap();
        let tids: Vec<Tid> = (0..data.len()).map(tid).collect();
        hnsw::place(
            &store,
            &description,
            &quantizer,
            &graph,
            &tids,
            2,
            &mut || true,
        )
        .unwrap();
        let index = Index::open(&store).unwrap();
        Self {
            present: vec![true; data.len()],
            store,
            index,
            data,
            random: Random(3),
        }
    }

    pub fn empty(metric: Metric, dimensions: usize, m: u16) -> Self {
        let store = MemoryPages::new();
        hnsw::create(&store, &description(metric, m));
        let index = Index::set_dimensions(&store, dimensions).unwrap();
        Self {
            store,
            index,
            data: Data {
                dimensions,
                elements: vec![],
            },
            present: vec![],
            random: Random(3),
        }
    }

    pub fn metric(&self) -> Metric {
        self.index.description().metric
    }

    pub fn insert_all(&mut self, data: &Data) {
        let first = self.data.len();
        self.data.extend(data);
        self.present.resize(self.data.len(), false);
        self.insert_again(|i| i >= first);
    }

    pub fn insert_again(&mut self, which: impl Fn(usize) -> bool) {
        let mut inserter = Inserter::default();
        for i in (0..self.data.len()).filter(|i| which(*i)) {
            let level = hnsw::random_level(self.index.description().m, self.random.uniform());
            inserter
                .insert(&self.index, &self.store, self.data.vector(i), tid(i), level)
                .unwrap();
            self.present[i] = true;
        }
    }

    pub fn remove(&mut self, which: impl Fn(usize) -> bool) {
        hnsw::remove(&self.index, &self.store, &self.store, &mut |row| {
            which(row.block as usize)
        })
        .unwrap();
        for (i, present) in self.present.iter_mut().enumerate() {
            *present &= !which(i);
        }
    }

    /// Frees all tombstones; returns how many.
    pub fn repair(&self) -> u64 {
        hnsw::repair(&self.index, &self.store, &self.store, 0.0).unwrap()
    }

    /// Estimated distances and rows, in the order of the scan.
    pub fn scan(
        &self,
        query: &[f32],
        ef: usize,
        iterative: bool,
        max_keys: usize,
    ) -> Vec<(f32, Tid)> {
        let mut scan = Scan::default();
        scan.begin(
            &self.index,
            &self.store,
            query,
            limits(ef, iterative, max_keys),
        )
        .unwrap();
        let mut found = vec![];
        while let Some(distance) = scan.next(&self.index, &self.store).unwrap() {
            found.extend(scan.tids().iter().map(|tid| (distance, *tid)));
            let mut rest = scan.rest();
            while let Some(others) = &mut rest {
                if !scan
                    .read_rest(&self.index, &self.store, others, false)
                    .unwrap()
                {
                    rest = None;
                }
                found.extend(scan.tids().iter().map(|tid| (distance, *tid)));
            }
        }
        found
    }

    /// Returns the share of the true nearest `k` of `queries` queries that a search with ef 80
    /// finds, among the best 3 `k` candidates by exact distance. Ties count as found.
    pub fn recall(&self, queries: usize, k: usize) -> f64 {
        let exact: fn(&[f32], &[f32]) -> f64 = match self.metric() {
            Metric::L2 | Metric::L1 => distance::l2_squared,
            Metric::InnerProduct => distance::negative_inner_product,
            Metric::Cosine => distance::cosine_distance,
        };
        let mut random = Random(77);
        let mut hits = 0;
        for _ in 0..queries {
            let near = self.data.vector(random.next() as usize % self.data.len());
            let query: Vec<f32> = near.iter().map(|x| x + 0.3 * random.normal()).collect();
            let rows = (0..self.data.len()).filter(|i| self.present[*i]);
            let mut truth: Vec<f64> = rows.map(|i| exact(&query, self.data.vector(i))).collect();
            truth.sort_by(f64::total_cmp);
            let worst = truth[k - 1] + 1e-9;
            let mut found: Vec<f64> = self
                .scan(&query, 80, false, 0)
                .into_iter()
                .take(3 * k)
                .map(|(_, row)| exact(&query, self.data.vector(row.block as usize)))
                .collect();
            found.sort_by(f64::total_cmp);
            hits += found.iter().take(k).filter(|d| **d <= worst).count();
        }
        hits as f64 / (queries * k) as f64
    }

    /// No problem is found, and the rows are those that should be there.
    pub fn assert_sound(&self) {
        let mut rows = vec![];
        let mut problems = vec![];
        hnsw::check(
            &self.index,
            &self.store,
            &mut |row| rows.push(row),
            &mut |problem| problems.push(problem),
        )
        .unwrap();
        assert_eq!(problems, []);
        rows.sort();
        let present: Vec<Tid> = (0..self.data.len())
            .filter(|i| self.present[*i])
            .map(tid)
            .collect();
        assert_eq!(rows, present);
    }

    /// No problem is found but nodes out of reach: of a handful of nodes one is many.
    pub fn assert_sound_links(&self) {
        let mut problems = vec![];
        hnsw::check(&self.index, &self.store, &mut |_| (), &mut |problem| {
            problems.push(problem)
        })
        .unwrap();
        problems.retain(|problem| !problem.problem.contains("cannot be reached"));
        assert_eq!(problems, []);
    }
}

/// Does all that can be done with an index whose pages say anything.
pub fn use_damaged(store: &MemoryPages, data: &Data) {
    let Ok(index) = Index::open(store) else {
        return;
    };
    if index.dimensions() != Some(8) {
        return;
    }
    hnsw::check(&index, store, &mut |_| (), &mut |_| ()).unwrap();
    let _ = hnsw::info(&index, store);
    let mut scan = Scan::default();
    if scan
        .begin(&index, store, data.vector(0), limits(20, true, 10_000))
        .is_ok()
    {
        for _ in 0..1000 {
            if !matches!(scan.next(&index, store), Ok(Some(_))) {
                break;
            }
        }
    }
    let mut inserter = Inserter::default();
    for i in 0..5 {
        let _ = inserter.insert(&index, store, data.vector(i), tid(10_000 + i), i % 3);
    }
    let _ = hnsw::remove(&index, store, store, &mut |row| row.block % 3 == 0);
    let _ = hnsw::repair(&index, store, store, 0.0);
}
