//! Many rounds of changes of clustered vectors. The index must stay like a new one.

use super::*;
use rag_ann::distance;

/// Rows of a table: vectors in clusters, of which single ones or whole clusters are replaced.
struct Rounds {
    fixture: Fixture,
    centres: Vec<Vec<f32>>,
    /// The vector of each row, by the block of its row. The offset is the row's version.
    rows: Vec<Option<(u16, Vec<f32>)>>,
    spread: f32,
    random: Random,
    inserter: Inserter,
}

impl Rounds {
    fn new(clusters: usize, size: usize, dimensions: usize, spread: f32, seed: u64) -> Self {
        let mut random = Random(seed);
        let centre = |_| (0..dimensions).map(|_| random.normal()).collect();
        let centres: Vec<Vec<f32>> = (0..clusters).map(centre).collect();
        let mut rounds = Self {
            fixture: Fixture::empty(Metric::L2, dimensions, 16),
            rows: vec![None; clusters * size],
            centres,
            spread,
            random,
            inserter: Inserter::default(),
        };
        for row in 0..rounds.rows.len() {
            rounds.rows[row] = Some((1, rounds.near(row % clusters)));
        }
        rounds.fixture = rounds.fresh();
        rounds
    }

    /// Returns a vector of a cluster.
    fn near(&mut self, cluster: usize) -> Vec<f32> {
        let (random, spread) = (&mut self.random, self.spread);
        let centre = self.centres[cluster].iter();
        centre.map(|x| x + spread * random.normal()).collect()
    }

    /// Returns a new index of the same rows: row `i` of it is the `i`th that there is.
    fn fresh(&self) -> Fixture {
        let vectors = self.rows.iter().flatten();
        let data = Data {
            dimensions: self.centres[0].len(),
            elements: vectors.flat_map(|(_, vector)| vector.clone()).collect(),
        };
        Fixture::built(Metric::L2, data, 16)
    }

    /// Gives each of the rows another vector of a cluster, or one at all.
    fn put(&mut self, which: impl Fn(usize) -> bool) {
        for row in (0..self.rows.len()).filter(|row| which(*row)) {
            let number = self.rows[row].as_ref().map_or(1, |(number, _)| number + 1);
            let vector = self.near(row % self.centres.len());
            let level = hnsw::random_level(16, self.random.uniform());
            let (index, store) = (&self.fixture.index, &self.fixture.store);
            self.inserter
                .insert(index, store, &vector, version(row, number), level)
                .unwrap();
            self.rows[row] = Some((number, vector));
        }
    }

    fn delete(&mut self, which: impl Fn(usize) -> bool) {
        for row in (0..self.rows.len()).filter(|row| which(*row)) {
            self.rows[row] = None;
        }
    }

    fn vacuum(&self) {
        vacuum(&self.fixture, |tid| {
            let row = self.rows[tid.block as usize].as_ref();
            row.is_none_or(|(number, _)| *number != tid.offset)
        });
        assert_eq!(problems(&self.fixture), [""; 0]);
        let lost = hnsw::stragglers(&self.fixture.index, &self.fixture.store).unwrap();
        assert_eq!(lost, 0, "nodes that no path leads to");
    }

    /// Asserts that searches find as many of the nearest rows as in a new index.
    fn assert_recall(&mut self, within: f64) {
        let count = self.centres.len();
        let queries: Vec<Vec<f32>> = (0..100).map(|i| self.near(i * 7 % count)).collect();
        let fresh = self.fresh();
        let mut nth = (0..)
            .zip(self.rows.iter().flatten())
            .map(|(i, (_, v))| (i, v));
        assert!(nth.all(|(i, vector)| fresh.data.vector(i) == vector));
        let of_fresh = |tid: Tid| fresh.data.vector(tid.block as usize);
        let of_old = |tid: Tid| self.rows[tid.block as usize].as_ref().unwrap().1.as_slice();
        for k in [10, 100, 300] {
            let (mut old, mut new) = (0, 0);
            for query in &queries {
                let rows = self.rows.iter().flatten();
                let mut truth: Vec<f64> = rows
                    .map(|(_, vector)| distance::l2_squared(query, vector))
                    .collect();
                truth.sort_by(f64::total_cmp);
                old += hits(&self.fixture, query, &truth[..k], of_old);
                new += hits(&fresh, query, &truth[..k], of_fresh);
            }
            let [old, new] = [old, new].map(|hits| hits as f64 / (queries.len() * k) as f64);
            assert!(
                old >= new - within,
                "recall at {k}: {old}, of a new index {new}"
            );
        }
    }
}

/// Returns how many of the nearest rows, whose distances are `truth`, a search finds.
fn hits<'a>(
    fixture: &Fixture,
    query: &[f32],
    truth: &[f64],
    vector: impl Fn(Tid) -> &'a [f32],
) -> usize {
    let mut scan = Scan::default();
    let (index, store) = (&fixture.index, &fixture.store);
    scan.begin(index, store, query, limits(40, true, 100_000))
        .unwrap();
    let mut found = vec![];
    // the server reads some more rows as well, and orders them by their distances
    while found.len() < truth.len() * 3 / 2 && scan.next(index, store).unwrap().is_some() {
        found.extend(
            scan.tids()
                .iter()
                .map(|tid| distance::l2_squared(query, vector(*tid))),
        );
    }
    let worst = truth[truth.len() - 1];
    found.iter().filter(|found| **found <= worst).count()
}

#[test]
fn updates_of_clustered_vectors_leave_no_node_out_of_reach() {
    let mut rounds = Rounds::new(40, 150, 32, 0.5, 11);
    for _ in 0..6 {
        rounds.put(|_| true);
        rounds.vacuum();
    }
    rounds.assert_recall(0.005);
}

#[test]
fn updates_of_a_tenth_at_a_time_leave_no_node_out_of_reach() {
    let mut rounds = Rounds::new(40, 100, 32, 0.3, 12);
    for round in 0..30 {
        rounds.put(|row| row / 40 % 10 == round % 10);
        rounds.vacuum();
    }
    rounds.assert_recall(0.005);
}

#[test]
fn deleted_clusters_leave_no_node_out_of_reach() {
    let mut rounds = Rounds::new(40, 100, 32, 0.4, 13);
    for round in 0..8 {
        // a quarter of the clusters goes, another comes back, and some of the rest changes
        rounds.delete(|row| row % 4 == round % 4);
        rounds.vacuum();
        rounds.put(|row| row % 4 == round % 4 && row / 40 > 20);
        rounds.put(|row| row % 4 == (round + 1) % 4 && row / 40 < 60);
        rounds.vacuum();
    }
    rounds.assert_recall(0.005);
}
