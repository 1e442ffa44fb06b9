//! A bucket: records one after another, the oldest first.

use crate::Key;

/// The size of a bucket. The longest vector has room.
pub const BUCKET: usize = 64 << 10;
/// The place of the first record. Before it are the number of bytes in use and that of records.
pub const START: usize = 8;
/// The size of a record before its elements.
const FIXED: usize = 32;
/// A full bucket loses as much at once, so that the next records are appended.
const FREED: usize = BUCKET / 4;

pub struct Bucket {
    /// The bytes in use.
    bytes: Vec<u8>,
}

impl Bucket {
    /// Reads a bucket. Of a damaged one only the records before the damage are left.
    pub fn parse(mut bytes: Vec<u8>) -> Self {
        let used = used(&bytes).min(bytes.len());
        bytes.resize(used.max(START), 0);
        let mut bucket = Self { bytes };
        let whole = bucket
            .spans()
            .last()
            .map_or(START, |(start, length)| start + length);
        bucket.bytes.truncate(whole);
        bucket.store_length();
        bucket
    }

    /// Returns the number of bytes in use.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the latest vector of a key.
    pub fn get(&self, key: &Key) -> Option<Vec<f32>> {
        let (start, length) = self
            .spans()
            .filter(|(start, _)| self.bytes[*start..*start + key.len()] == *key)
            .last()?;
        self.record(start, length).map(|(_, _, vector)| vector)
    }

    /// Returns key, model and vector of the records whose checksum is right.
    pub fn records(&self) -> impl Iterator<Item = (Key, u64, Vec<f32>)> {
        self.spans()
            .filter_map(|(start, length)| self.record(start, length))
    }

    /// Adds a record, and removes the oldest ones if there is no room. Returns the first byte that
    /// has changed, besides the header. A vector that is there stays, unless its number of
    /// dimensions is another.
    pub fn put(&mut self, key: &Key, model: u64, vector: &[f32]) -> usize {
        let length = FIXED + 4 * vector.len();
        let is_there = |kept: Vec<f32>| kept.len() == vector.len();
        if vector.is_empty() || START + length > BUCKET || self.get(key).is_some_and(is_there) {
            return self.len();
        }
        let mut from = self.len();
        if from + length > BUCKET {
            let freed = FREED.max(self.len() + length - BUCKET);
            let kept = self
                .spans()
                .find(|(start, _)| start - START >= freed)
                .map_or(self.len(), |(start, _)| start);
            self.bytes.drain(START..kept);
            from = START;
        }
        let elements: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        let model = model.to_le_bytes();
        self.bytes.extend(key);
        self.bytes.extend(model);
        self.bytes.extend((vector.len() as u32).to_le_bytes());
        self.bytes.extend(checksum(key, &model, &elements));
        self.bytes.extend(elements);
        self.store_length();
        from
    }

    fn store_length(&mut self) {
        let count = self.spans().count() as u32;
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..START].copy_from_slice(&count.to_le_bytes());
    }

    /// Returns start and length of each record.
    fn spans(&self) -> impl Iterator<Item = (usize, usize)> {
        let mut next = START;
        std::iter::from_fn(move || {
            let start = next;
            if start + FIXED > self.bytes.len() {
                return None;
            }
            let length = FIXED + 4 * number(&self.bytes, start + 24);
            next = start.checked_add(length)?;
            (length > FIXED && next <= self.bytes.len()).then_some((start, length))
        })
    }

    fn record(&self, start: usize, length: usize) -> Option<(Key, u64, Vec<f32>)> {
        let (fixed, elements) = self.bytes[start..start + length].split_at(FIXED);
        let (key, model) = (fixed[..16].try_into().ok()?, fixed[16..24].try_into().ok()?);
        let vector = elements
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let is_right = fixed[28..] == checksum(&key, &model, elements);
        is_right.then(|| (key, u64::from_le_bytes(model), vector.collect()))
    }
}

/// Returns the number of bytes in use, from the beginning of a bucket.
pub fn used(header: &[u8]) -> usize {
    number(header, 0)
}

/// Returns the number of records, from the beginning of a bucket.
pub fn count(header: &[u8]) -> usize {
    number(header, 4)
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
}

fn checksum(key: &Key, model: &[u8; 8], elements: &[u8]) -> [u8; 4] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key);
    hasher.update(model);
    hasher.update(elements);
    let mut sum = [0; 4];
    hasher.finalize_xof().fill(&mut sum);
    sum
}
