use rag_pages::{HEADER_BYTES, MemoryPages, SPECIAL_OFFSET};

use super::*;

fn creation() -> Creation<'static> {
    Creation {
        parameters: Parameters::default(),
        identity: 99,
        label: b"a\0b",
        variant: 3,
        has_positions: true,
    }
}

fn full() -> Meta {
    let list = |id| PageList {
        id,
        head: 5,
        tail: 6,
        blocks: 2,
    };
    let chain = |stamp| DroppedChain {
        stamp,
        head: 8,
        tail: 9,
    };
    let entry = |id| SegmentEntry {
        id,
        header: 1,
        owner: 2,
        owner_tail: 3,
        documents: u32::MAX,
        dead: 4,
        total_length: u64::MAX - 5,
        pages: 6,
        positions: Some(id),
    };
    Meta {
        parameters: Parameters {
            k1: 0.9,
            b: 0.4,
            has_parts: true,
        },
        identity: 5 << 60,
        label: [7; LABEL_BYTES],
        variant: 3,
        has_positions: true,
        next_number: u64::MAX,
        high_water: 1000,
        pending: list(1 << 33),
        spilled: list(2),
        in_flight: [list(3), list(4)],
        frozen: 6,
        spare: (1..=MAX_SPARE as u32).collect(),
        dropped: (0..MAX_DROPPED as u64).map(chain).collect(),
        segments: (10..10 + MAX_SEGMENTS as u64).map(entry).collect(),
    }
}

#[test]
fn all_fields_are_read_as_they_were_written() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let description = Description {
        parameters: Parameters::default(),
        identity: 99,
        label: b"a\0b".to_vec(),
        variant: 3,
        has_positions: true,
    };
    assert_eq!(describe(&pages), Ok(description));
    Meta::update(&pages, |meta| {
        *meta = full();
        Ok(())
    })
    .unwrap();
    assert_eq!(Meta::read(&pages), Ok(full()));
    assert_eq!(pending_list(&pages), Ok(full().pending));
}

#[test]
fn another_format_version_is_not_corruption() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    pages.damage(0, |page| put(content_mut(page), at!(version), [7, 0, 0, 0]));
    let expected = IndexError::OtherVersion {
        found: 7,
        known: VERSION_WITH_POSITIONS,
    };
    assert_eq!(Meta::read(&pages), Err(expected));
}

#[test]
fn a_change_that_fails_leaves_no_trace() {
    let pages = MemoryPages::new();
    create(&pages, &creation());
    let before = Meta::read(&pages);
    let error = IndexError::corrupted(3, "test");
    let result = Meta::update(&pages, |meta| {
        meta.high_water = 77;
        Err::<(), _>(error.clone())
    });
    assert_eq!((result, Meta::read(&pages)), (Err(error), before));
}

#[test]
fn wrong_bytes_are_errors() {
    for offset in HEADER_BYTES..SPECIAL_OFFSET {
        let pages = MemoryPages::new();
        create(&pages, &creation());
        Meta::update(&pages, |meta| {
            *meta = full();
            Ok(())
        })
        .unwrap();
        pages.damage(0, |page| page.0[offset] = 0xFF);
        // No panic, whatever the result is.
        let _ = Meta::read(&pages);
    }
}
