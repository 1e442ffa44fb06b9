//! Files and messages that a disk or another process may have damaged: frames between the server
//! and the engine, bundles, vectors, the cache of embeddings, and encrypted secrets.
//!
//! The first byte says what the others are read as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rag_bundle::{BundleFile, Chunk, Digest, Document, KnowledgeItem, LineReader, Metadata, npy};
use rag_protocol::{call::CallEvent, frame, ingest::Job};
use rag_secret::{Key, KeyRing, sealed};

/// A line of a bundle longer than this is refused here.
const MAX_LINE: u64 = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, mut rest)) = bytes.split_first() else {
        return;
    };
    match first % 8 {
        0 => {
            while let Ok(Some(frame)) = frame::read(&mut rest) {
                let _ = frame.header::<Job>();
                let _ = frame.header::<CallEvent>();
            }
        }
        1 => drop(Metadata::read(rest, env!("CARGO_PKG_VERSION"))),
        2 => lines::<Document>(BundleFile::Corpus, rest),
        3 => lines::<Chunk>(BundleFile::Chunks, rest),
        4 => lines::<KnowledgeItem>(BundleFile::Knowledge, rest),
        5 => lines::<Digest>(BundleFile::Digests, rest),
        6 => {
            let Ok(mut rows) = npy::RowReader::open(rest) else {
                return;
            };
            let shape = rows.shape();
            for _ in 0..shape.rows.min(1000) {
                match rows.next_row() {
                    Ok(row) => assert_eq!(row.len(), shape.dimensions),
                    Err(_) => return,
                }
            }
            let _ = rows.finish();
        }
        _ => {
            let keys = KeyRing::new(Key::new([7; 32]));
            let place = sealed::Place {
                name: "token",
                key: "value",
            };
            // Nobody who lacks the key can write one.
            assert!(sealed::open(&keys, place, rest).is_err());
        }
    }
});

fn lines<T: rag_bundle::Record>(file: BundleFile, bytes: &[u8]) {
    let mut reader = LineReader::with_limit(file, bytes, MAX_LINE);
    while let Ok(Some(_)) = reader.next_record::<T>() {}
}
