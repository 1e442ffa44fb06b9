//! What is kept comes back unchanged, or not at all.

use std::{os::unix::fs::PermissionsExt, thread};

use proptest::prelude::*;

use super::*;

const MODEL: u64 = 7;

fn key(n: u64) -> Key {
    super::key(10, u128::from(n).to_le_bytes())
}

fn vector(n: u64, dimensions: usize) -> Vec<f32> {
    (0..dimensions)
        .map(|i| (n * 1000 + i as u64) as f32)
        .collect()
}

fn keep(cache: &EmbeddingCache, numbers: impl Iterator<Item = u64>, dimensions: usize) {
    let entries: Vec<(Key, Vec<f32>)> = numbers.map(|n| (key(n), vector(n, dimensions))).collect();
    let entries: Vec<(Key, &[f32])> = entries
        .iter()
        .map(|(key, vector)| (*key, vector.as_slice()))
        .collect();
    cache.put(MODEL, &entries).unwrap();
}

fn found(cache: &EmbeddingCache, numbers: std::ops::Range<u64>, dimensions: usize) -> usize {
    let keys: Vec<Key> = numbers.clone().map(key).collect();
    let found = cache.get(&keys).unwrap();
    for n in numbers {
        if let Some(kept) = found.get(&key(n)) {
            assert_eq!(*kept, vector(n, dimensions));
        }
    }
    found.len()
}

#[test]
fn vectors_of_any_length_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let cache = EmbeddingCache::new(&folder.path().join("sub/a.cache"), 8 << 20);
    assert_eq!(found(&cache, 0..10, 1), 0);
    keep(&cache, 0..10, 384);
    keep(&cache, 10..12, 16_000);
    assert_eq!(found(&cache, 0..10, 384), 10);
    assert_eq!(found(&cache, 10..12, 16_000), 2);
    let file = fs::metadata(folder.path().join("sub/a.cache")).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    cache.remove().unwrap();
    assert_eq!(found(&cache, 0..10, 384), 0);
    cache.remove().unwrap();
}

#[test]
fn the_oldest_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cache");
    let cache = EmbeddingCache::new(&path, 1 << 20);
    for n in 0..2000 {
        keep(&cache, n..n + 1, 384);
    }
    assert!(fs::metadata(&path).unwrap().len() <= 1 << 20);
    // 15 buckets of at most 41 records, and of three quarters of it after a removal
    let kept = found(&cache, 0..2000, 384);
    assert!((450..=615).contains(&kept), "{kept}");
    assert_eq!(cache.size().unwrap().entries, kept as u64);
    assert_eq!(found(&cache, 1990..2000, 384), 10);
}

#[test]
fn nothing_is_kept_without_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cache");
    let cache = EmbeddingCache::new(&path, 0);
    keep(&cache, 0..10, 8);
    assert!(cache.is_off() && !path.exists());
}

#[test]
fn another_size_keeps_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cache");
    keep(&EmbeddingCache::new(&path, 1 << 20), 0..300, 384);
    let larger = EmbeddingCache::new(&path, 4 << 20);
    // readers need not know the size
    assert!(found(&larger, 0..300, 384) > 290);
    keep(&larger, 300..301, 384);
    assert!(found(&larger, 0..301, 384) > 290);
    let smaller = EmbeddingCache::new(&path, 256 << 10);
    keep(&smaller, 301..302, 384);
    assert_eq!(found(&smaller, 301..302, 384), 1);
    assert!(fs::metadata(&path).unwrap().len() <= 256 << 10);
}

#[test]
fn a_model_is_forgotten_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = EmbeddingCache::new(&folder.path().join("a.cache"), 1 << 20);
    cache.forget(MODEL).unwrap();
    keep(&cache, 0..100, 384);
    let other = vector(100, 384);
    cache.put(8, &[(key(100), other.as_slice())]).unwrap();
    assert_eq!(cache.size().unwrap().entries, 101);
    cache.forget(MODEL).unwrap();
    assert_eq!(cache.size().unwrap().entries, 1);
    assert_eq!(found(&cache, 0..101, 384), 1);
    // nothing of the vectors is left in the file
    let bytes = fs::read(folder.path().join("a.cache")).unwrap();
    let kept: Vec<u8> = other.iter().flat_map(|x| x.to_le_bytes()).collect();
    let gone: Vec<u8> = vector(5, 384)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let has = |vector: &[u8]| bytes.windows(vector.len()).any(|part| part == vector);
    assert!(has(&kept) && !has(&gone));
}

#[test]
fn owners_have_keys_of_their_own() {
    assert_ne!(super::key(10, [1; 16]), super::key(11, [1; 16]));
    assert_ne!(super::key(10, [1; 16]), super::key(10, [2; 16]));
}

#[test]
fn all_is_removed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cache");
    let cache = EmbeddingCache::new(&path, 1 << 20);
    assert_eq!(cache.clear().unwrap(), CacheSize::default());
    keep(&cache, 0..100, 384);
    let before = cache.size().unwrap();
    assert_eq!(before.entries, 100);
    assert!(before.bytes > 100 * 384 * 4);
    assert_eq!(cache.clear().unwrap(), before);
    assert_eq!(cache.size().unwrap(), CacheSize::default());
    assert!(!path.exists());
    keep(&cache, 0..1, 384);
    assert_eq!(found(&cache, 0..1, 384), 1);
}

#[test]
fn a_vector_of_other_dimensions_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let cache = EmbeddingCache::new(&folder.path().join("a.cache"), 1 << 20);
    keep(&cache, 0..1, 16);
    keep(&cache, 0..1, 32);
    assert_eq!(found(&cache, 0..1, 32), 1);
    cache.put(MODEL, &[(key(0), &[9.0; 32])]).unwrap();
    assert_eq!(found(&cache, 0..1, 32), 1);
}

#[test]
fn another_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cache");
    for content in [
        &b"RAGVEC01\xff\xff\xff\xff\xff\xff\xff\xff"[..],
        b"RAGVEC00",
        b"",
    ] {
        fs::write(&path, content).unwrap();
        let cache = EmbeddingCache::new(&path, 1 << 20);
        assert_eq!(found(&cache, 0..9, 8), 0);
        assert_eq!(cache.size().unwrap(), CacheSize::default());
        cache.forget(MODEL).unwrap();
        keep(&cache, 0..9, 8);
        assert_eq!(found(&cache, 0..9, 8), 9);
        cache.clear().unwrap();
    }
}

#[test]
fn sessions_write_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let cache = EmbeddingCache::new(&folder.path().join("a.cache"), 8 << 20);
    thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..50 {
                    keep(cache, thread * 50 + n..thread * 50 + n + 1, 64);
                    found(cache, 0..200, 64);
                }
            });
        }
    });
    assert_eq!(found(&cache, 0..200, 64), 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_loses_records_but_changes_none(
        at in 0usize..70_000, bytes in proptest::collection::vec(any::<u8>(), 1..40)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cache");
        let cache = EmbeddingCache::new(&path, 100 << 10);
        keep(&cache, 0..30, 200);
        let file = private(&path).unwrap();
        file.write_all_at(&bytes, at as u64).unwrap();
        found(&cache, 0..30, 200);
        keep(&cache, 30..40, 200);
        found(&cache, 0..40, 200);
        cache.size().unwrap();
        cache.forget(8).unwrap();
        found(&cache, 0..40, 200);
    }
}
