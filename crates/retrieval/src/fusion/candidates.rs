use std::collections::HashMap;

/// What identifies a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkKey {
    pub chunk: [u8; 16],
    pub document: [u8; 16],
}

/// A chunk that at least one search has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub key: ChunkKey,
    /// The cosine similarity of query and chunk, if vectors count.
    pub cosine: Option<f64>,
    /// The BM25 score, 0 if no word matches, if keywords count.
    pub keyword: Option<f64>,
    /// The place in the list of vector search, from 1.
    pub vector_rank: Option<u32>,
    /// The place in the list of keyword search, from 1.
    pub keyword_rank: Option<u32>,
}

/// The chunks that searches have found, each once.
#[derive(Debug, Default)]
pub struct Candidates {
    all: Vec<Candidate>,
    places: HashMap<ChunkKey, usize>,
}

impl Candidates {
    /// Adds the first `limit` chunks of vector search, with their cosine similarities. The list is
    /// put in order: the most similar first, equal ones by their ids.
    pub fn add_vector_list(&mut self, mut list: Vec<(ChunkKey, f64)>, limit: usize) {
        sort(&mut list);
        list.truncate(limit);
        for (rank, (key, cosine)) in (1..).zip(list) {
            let candidate = self.entry(key);
            candidate.cosine = Some(cosine);
            candidate.vector_rank.get_or_insert(rank);
        }
    }

    /// Adds the first `limit` chunks of keyword search, with their BM25 scores.
    pub fn add_keyword_list(&mut self, mut list: Vec<(ChunkKey, f64)>, limit: usize) {
        sort(&mut list);
        list.truncate(limit);
        for (rank, (key, score)) in (1..).zip(list) {
            let candidate = self.entry(key);
            candidate.keyword = Some(score);
            candidate.keyword_rank.get_or_insert(rank);
        }
    }

    /// Records the cosine similarity of a chunk, if it is a candidate.
    pub fn set_cosine(&mut self, key: ChunkKey, cosine: f64) {
        if let Some(place) = self.places.get(&key) {
            self.all[*place].cosine = Some(cosine);
        }
    }

    /// Records the BM25 score of a chunk, if it is a candidate.
    pub fn set_keyword(&mut self, key: ChunkKey, score: f64) {
        if let Some(place) = self.places.get(&key) {
            self.all[*place].keyword = Some(score);
        }
    }

    /// Returns true if the chunk is a candidate without a BM25 score.
    pub fn lacks_keyword(&self, key: ChunkKey) -> bool {
        let place = self.places.get(&key);
        place.is_some_and(|place| self.all[*place].keyword.is_none())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.all.iter()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn entry(&mut self, key: ChunkKey) -> &mut Candidate {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.all.push(Candidate {
                key,
                cosine: None,
                keyword: None,
                vector_rank: None,
                keyword_rank: None,
            });
            self.all.len() - 1
        });
        &mut self.all[place]
    }
}

/// Orders a list by descending scores, and equal ones by chunk.
fn sort(list: &mut [(ChunkKey, f64)]) {
    list.sort_unstable_by(|(key, score), (other_key, other)| {
        other.total_cmp(score).then_with(|| key.cmp(other_key))
    });
}
