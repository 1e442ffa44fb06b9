//! Embeddings in a file, by their keys. They outlive the chunks that they were computed for.
//!
//! ```text
//! 4096 bytes             bucket 0, 64 kB                     bucket 1
//! magic, buckets ... ┃ used, count │ record │ record ... ┃ used, count │ record ...
//!                                    record: key 16, model 8, dimensions 4, checksum 4, elements
//! ```
//!
//! A key determines its bucket. A full bucket loses its oldest records, so the file never grows
//! beyond its size. Buckets that were never used take no space on the disk.
//!
//! Readers take no lock: a record that is being written fails its checksum, and counts as missing.
//! Writers hold a lock on a file beside it. Nothing is flushed: after a crash of the operating
//! system, records may be missing, but none is wrong.

mod bucket;

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use self::bucket::{BUCKET, Bucket};

/// A key: 128 bits of a hash.
pub type Key = [u8; 16];

/// Returns the key of what was embedded for an owner.
pub fn key(owner: u32, embedding_key: [u8; 16]) -> Key {
    let mut hasher = blake3::Hasher::new_derive_key("rag 2026 cached embedding v1");
    hasher.update(&owner.to_le_bytes());
    hasher.update(&embedding_key);
    let mut key = Key::default();
    hasher.finalize_xof().fill(&mut key);
    key
}

/// The part of the file before the first bucket.
const HEADER: u64 = 4096;
const MAGIC: [u8; 8] = *b"RAGVEC01";

/// A file of embeddings, which may not exist yet.
#[derive(Debug, Clone)]
pub struct EmbeddingCache {
    path: PathBuf,
    /// The number of buckets that the file shall have. 0: there is no cache.
    buckets: u64,
}

/// What a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheSize {
    pub entries: u64,
    pub bytes: u64,
}

/// A record that belongs into a bucket.
type Placed<'a> = (u64, Key, u64, &'a [f32]);

impl EmbeddingCache {
    /// Names a file, and the maximum size that it may have.
    pub fn new(path: &Path, max_bytes: u64) -> Self {
        Self {
            path: path.to_owned(),
            buckets: max_bytes.saturating_sub(HEADER) / BUCKET as u64,
        }
    }

    /// Returns true if nothing is cached.
    pub fn is_off(&self) -> bool {
        self.buckets == 0
    }

    /// Returns the vectors of those keys that are there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&self, keys: &[Key]) -> io::Result<HashMap<Key, Vec<f32>>> {
        let mut found = HashMap::new();
        if self.is_off() || keys.is_empty() {
            return Ok(found);
        }
        let Some((file, buckets)) = self.open_to_read()? else {
            return Ok(found);
        };
        let mut places: Vec<(u64, &Key)> =
            keys.iter().map(|key| (place(key, buckets), key)).collect();
        places.sort_unstable();
        for group in places.chunk_by(|a, b| a.0 == b.0) {
            let bucket = read(&file, group[0].0)?;
            let vectors = group
                .iter()
                .filter_map(|(_, key)| Some((**key, bucket.get(key)?)));
            found.extend(vectors);
        }
        Ok(found)
    }

    /// Keeps vectors of a model. Those that are there already stay.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, model: u64, entries: &[(Key, &[f32])]) -> io::Result<()> {
        if self.is_off() || entries.is_empty() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let file = self.open_to_write()?;
        let records = entries.iter().map(|(key, vector)| (*key, model, *vector));
        self.write(&file, records)
    }

    /// Removes the vectors of a model.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget(&self, model: u64) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        let Some((_, buckets)) = self.open_to_read()? else {
            return Ok(());
        };
        let file = private(&self.path)?;
        for place in 0..buckets {
            if bucket::count(&header(&file, place)?) == 0 {
                continue;
            }
            let present = read(&file, place)?;
            let mut kept = Bucket::parse(vec![]);
            for (key, of, vector) in present.records() {
                if of != model {
                    kept.put(&key, of, &vector);
                }
            }
            if kept.len() < present.len() {
                // what is removed is overwritten, too
                let mut bytes = kept.bytes().to_vec();
                bytes.resize(present.len(), 0);
                file.write_all_at(&bytes, offset(place))?;
            }
        }
        Ok(())
    }

    /// Removes all vectors. Returns what there was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&self) -> io::Result<CacheSize> {
        if !self.path.exists() {
            return Ok(CacheSize::default());
        }
        let _lock = self.lock()?;
        let before = self.size()?;
        fs::remove_file(&self.path).or_else(not_found)?;
        Ok(before)
    }

    /// Returns the number of vectors and their bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn size(&self) -> io::Result<CacheSize> {
        let mut size = CacheSize::default();
        let Some((file, buckets)) = self.open_to_read()? else {
            return Ok(size);
        };
        for place in 0..buckets {
            let header = header(&file, place)?;
            size.entries += bucket::count(&header) as u64;
            size.bytes += bucket::used(&header) as u64;
        }
        Ok(size)
    }

    /// Removes the file, and the one beside it. No other process may use them.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        for path in [&self.path, &self.lock_path(), &self.new_path()] {
            fs::remove_file(path).or_else(not_found)?;
        }
        Ok(())
    }

    fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    fn new_path(&self) -> PathBuf {
        self.path.with_extension("new")
    }

    /// Waits until no other process writes.
    fn lock(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let lock = private(&self.lock_path())?;
        lock.lock()?;
        Ok(lock)
    }

    /// Opens the file. Returns it and its number of buckets.
    fn open_to_read(&self) -> io::Result<Option<(File, u64)>> {
        match File::open(&self.path) {
            Ok(file) => Ok(buckets_of(&file)?.map(|buckets| (file, buckets))),
            Err(e) => not_found(e).map(|()| None),
        }
    }

    /// Opens the file with the wanted number of buckets. Records of another size are moved over.
    fn open_to_write(&self) -> io::Result<File> {
        let file = private(&self.path)?;
        let present = buckets_of(&file)?;
        if present == Some(self.buckets) {
            return Ok(file);
        }
        let path = self.new_path();
        fs::remove_file(&path).or_else(not_found)?;
        let new = private(&path)?;
        let mut header = MAGIC.to_vec();
        header.extend(self.buckets.to_le_bytes());
        new.write_all_at(&header, 0)?;
        for old in 0..present.unwrap_or(0) {
            let records: Vec<(Key, u64, Vec<f32>)> = read(&file, old)?.records().collect();
            let records = records
                .iter()
                .map(|(key, model, vector)| (*key, *model, vector.as_slice()));
            self.write(&new, records)?;
        }
        fs::rename(&path, &self.path)?;
        Ok(new)
    }

    fn write<'a>(
        &self,
        file: &File,
        records: impl Iterator<Item = (Key, u64, &'a [f32])>,
    ) -> io::Result<()> {
        let mut placed: Vec<Placed<'_>> = records
            .map(|(key, model, vector)| (place(&key, self.buckets), key, model, vector))
            .collect();
        // within a bucket the order stays: the oldest first
        placed.sort_by_key(|(place, ..)| *place);
        for group in placed.chunk_by(|a, b| a.0 == b.0) {
            let place = group[0].0;
            let mut bucket = read(file, place)?;
            let mut from = bucket.len();
            for (_, key, model, vector) in group {
                from = from.min(bucket.put(key, *model, vector));
            }
            if from < bucket.len() {
                // the records first, so that the length never covers what is not there
                file.write_all_at(&bucket.bytes()[from..], offset(place) + from as u64)?;
                file.write_all_at(&bucket.bytes()[..bucket::START], offset(place))?;
            }
        }
        Ok(())
    }
}

fn not_found(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

fn private(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Returns the number of buckets of a file. None: it has another format, or is new.
fn buckets_of(file: &File) -> io::Result<Option<u64>> {
    let (mut magic, mut buckets) = ([0; 8], [0; 8]);
    let read = file
        .read_exact_at(&mut magic, 0)
        .and_then(|()| file.read_exact_at(&mut buckets, 8));
    match read {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let buckets = u64::from_le_bytes(buckets);
    // a damaged number must not cost hours
    let fits = file.metadata()?.len() <= offset_of_end(buckets);
    Ok((magic == MAGIC && buckets > 0 && buckets <= MAX_BUCKETS && fits).then_some(buckets))
}

/// A file of 128 GB has as many.
const MAX_BUCKETS: u64 = 1 << 21;

fn offset_of_end(buckets: u64) -> u64 {
    HEADER.saturating_add(buckets.saturating_mul(BUCKET as u64))
}

fn place(key: &Key, buckets: u64) -> u64 {
    let mut low = [0; 8];
    low.copy_from_slice(&key[..8]);
    u64::from_le_bytes(low) % buckets
}

fn offset(place: u64) -> u64 {
    HEADER + place * BUCKET as u64
}

/// Reads the beginning of a bucket.
fn header(file: &File, place: u64) -> io::Result<Vec<u8>> {
    read_up_to(file, place, bucket::START)
}

fn read(file: &File, place: u64) -> io::Result<Bucket> {
    read_up_to(file, place, BUCKET).map(Bucket::parse)
}

/// Reads the first bytes of a bucket, as far as the file has them.
fn read_up_to(file: &File, place: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset(place) + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
