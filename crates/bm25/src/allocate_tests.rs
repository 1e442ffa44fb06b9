use std::collections::BTreeMap;

use proptest::prelude::*;
use rag_pages::{MemoryPages, ReadPages, Tid};

use super::*;
use crate::{
    free,
    meta::{Creation, create},
    pending,
    record::encode_document,
    score::Parameters,
    terms::Terms,
};

fn new_index() -> MemoryPages {
    let pages = MemoryPages::new();
    let creation = Creation {
        parameters: Parameters::default(),
        identity: 1,
        label: b"",
        variant: 0,
        has_positions: false,
    };
    create(&pages, &creation);
    pages.leave_alone();
    pages
}

/// Adds a chain and the extents on it to `owners`.
fn add_chain(
    pages: &MemoryPages,
    (head, tail): (Block, Block),
    name: &str,
    owners: &mut BTreeMap<Block, String>,
) -> u32 {
    let mut count = 0;
    let mut add = |block: Block| {
        count += 1;
        let before = owners.insert(block, name.to_string());
        assert_eq!(before, None, "block {block} also belongs to {name}");
    };
    owner::each_page(pages, head, tail, &mut |block, page| {
        add(block);
        if !owner::is_owner(page, block)? {
            return Ok(());
        }
        owner::each_extent(page, block, Block::MAX, &mut |extent| {
            (extent.first..extent.first + extent.blocks).for_each(&mut add);
            Ok(())
        })
    })
    .unwrap();
    count
}

/// Returns the owner of each block, after checking that each has one.
fn owners(pages: &MemoryPages) -> BTreeMap<Block, String> {
    let meta = Meta::read(pages).unwrap();
    let mut owners = BTreeMap::from([(0, "meta".to_string())]);
    for block in &meta.spare {
        assert_eq!(owners.insert(*block, "spare".to_string()), None);
    }
    for list in meta.lists() {
        let count = add_chain(pages, (list.head, list.tail), "pending", &mut owners);
        assert_eq!(count, list.blocks);
    }
    for list in meta.in_flight.iter().filter(|list| !list.is_empty()) {
        let count = add_chain(pages, (list.head, list.tail), "in flight", &mut owners);
        assert_eq!(count, list.blocks);
    }
    for chain in &meta.dropped {
        add_chain(pages, (chain.head, chain.tail), "dropped", &mut owners);
    }
    for entry in &meta.segments {
        let name = format!("segment {}", entry.id);
        let count = add_chain(pages, (entry.owner, entry.owner_tail), &name, &mut owners);
        assert_eq!(count, entry.pages);
    }
    assert!(owners.keys().copied().eq(0..meta.high_water));
    owners
}

fn written(header: Block) -> Option<WrittenSegment> {
    Some(WrittenSegment {
        header,
        documents: 1,
        total_length: 1,
        positions: None,
    })
}

/// Takes blocks and writes them as a segment does.
fn take(pages: &MemoryPages, space: &mut Allocation<'_, MemoryPages>, count: usize) -> Vec<Block> {
    let mut blocks = vec![];
    for _ in 0..count {
        let block = space.next().unwrap();
        pages.overwrite(block, |page| {
            init(page, space.owner_id(), PageKind::Postings)
        });
        blocks.push(block);
    }
    blocks
}

fn append(pages: &MemoryPages, n: u32) {
    let mut terms = Terms::new();
    terms.add(&[b'a'; 2000]).unwrap();
    terms.finish();
    let tid = Tid {
        block: n,
        offset: 1,
    };
    let mut records = vec![];
    encode_document(tid, &terms, &mut records).unwrap();
    pending::append(pages, &records).unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    /// Take blocks, with pages of inserts between, and publish.
    Write {
        blocks: usize,
        inserts: usize,
    },
    /// Take blocks, and crash.
    Abandon {
        blocks: usize,
    },
    /// Drop segments, and write one of so many blocks instead.
    Merge {
        segments: usize,
        blocks: usize,
    },
    Insert {
        documents: usize,
    },
    /// Drop the pending list.
    Spill,
    /// Write a segment of so many blocks, and others meanwhile.
    Together {
        blocks: usize,
        others: usize,
    },
    EndReaders,
    ProvideSpare,
    /// Put free blocks in order, and cut the file.
    Tidy,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..300_usize, 0..3_usize).prop_map(|(blocks, inserts)| Step::Write { blocks, inserts }),
        (0..100_usize).prop_map(|blocks| Step::Abandon { blocks }),
        (1..9_usize, 0..300_usize).prop_map(|(segments, blocks)| Step::Merge { segments, blocks }),
        (1..60_usize).prop_map(|documents| Step::Insert { documents }),
        Just(Step::Spill),
        (1..200_usize, 0..4_usize).prop_map(|(blocks, others)| Step::Together { blocks, others }),
        Just(Step::EndReaders),
        Just(Step::ProvideSpare),
        Just(Step::Tidy),
    ]
}

fn run(pages: &MemoryPages, step: &Step) {
    match *step {
        Step::Write { blocks, inserts } => {
            let mut space = Allocation::begin(pages, Writer::Spill).unwrap();
            let mut taken = take(pages, &mut space, blocks);
            (0..inserts * 4).for_each(|n| append(pages, n as u32));
            taken.extend(take(pages, &mut space, 1));
            let id = space.owner_id();
            space.publish(written(taken[0]), &[], false).unwrap();
            let owners = owners(pages);
            for block in taken {
                assert_eq!(owners[&block], format!("segment {id}"));
            }
        }
        Step::Abandon { blocks } => {
            let mut space = Allocation::begin(pages, Writer::Spill).unwrap();
            take(pages, &mut space, blocks);
        }
        Step::Merge { segments, blocks } => {
            let mut replaced = Meta::read(pages).unwrap().segments;
            replaced.truncate(segments);
            let mut space = Allocation::begin(pages, Writer::Spill).unwrap();
            let taken = take(pages, &mut space, blocks);
            // A segment without documents is not published, although blocks were taken.
            let first = taken.first().filter(|_| blocks % 5 > 0);
            let written = first.and_then(|first| written(*first));
            space.publish(written, &replaced, false).unwrap();
        }
        Step::Together { blocks, others } => {
            let replaced: Vec<_> = Meta::read(pages).unwrap().segments;
            let replaced = &replaced[..replaced.len().min(3)];
            let mut space = Allocation::begin(pages, Writer::Merge).unwrap();
            let mut taken = take(pages, &mut space, blocks);
            for _ in 0..others {
                run(pages, &Step::Write { blocks, inserts: 1 });
                run(pages, &Step::Spill);
                run(pages, &Step::ProvideSpare);
                taken.extend(take(pages, &mut space, 1));
                owners(pages);
            }
            let id = space.owner_id();
            space.publish(written(taken[0]), replaced, false).unwrap();
            let owners = owners(pages);
            for block in taken {
                assert_eq!(owners[&block], format!("segment {id}"));
            }
        }
        Step::Insert { documents } => (0..documents).for_each(|n| append(pages, n as u32)),
        Step::Spill => {
            if pending::close(pages).unwrap() {
                let space = Allocation::begin(pages, Writer::Spill).unwrap();
                space.publish(None, &[], true).unwrap();
            }
        }
        Step::EndReaders => pages.end_readers(),
        Step::ProvideSpare => provide_spare(pages).unwrap(),
        Step::Tidy => {
            free::tidy(pages).unwrap();
            free::cut(pages).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_block_has_one_owner(steps in prop::collection::vec(step(), 1..40)) {
        let pages = new_index();
        for step in &steps {
            if Meta::read(&pages).unwrap().segments.len() == MAX_SEGMENTS {
                break;
            }
            run(&pages, step);
            owners(&pages);
        }
    }
}

#[test]
fn blocks_that_adjoin_are_listed_together() {
    let pages = new_index();
    (0..4 * 500).for_each(|n| append(&pages, n));
    let all = Meta::read(&pages).unwrap().high_water;
    run(&pages, &Step::Spill);
    pages.end_readers();
    // The pages of the dropped list are reserved one by one.
    let mut space = Allocation::begin(&pages, Writer::Spill).unwrap();
    take(&pages, &mut space, 480);
    let meta = Meta::read(&pages).unwrap();
    assert_eq!(meta.high_water, all);
    let mut extents = 0;
    let PageList { head, tail, .. } = *meta.in_flight(Writer::Spill);
    owner::each_page(&pages, head, tail, &mut |block, page| {
        owner::each_extent(page, block, Block::MAX, &mut |_| {
            extents += 1;
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(extents, 1);
    owners(&pages);
}

#[test]
fn a_chain_of_owner_pages_is_used_again() {
    let pages = new_index();
    // Owner pages with each second block, as a long history may leave them.
    let extents = 5 * crate::format::MAX_EXTENTS as u32;
    let first_page = 2 * extents + 1;
    let (even, odd) = ([first_page, 5], [first_page + 5, 5]);
    pages.extend(first_page + 9);
    for ([first, count], parity) in [(even, 0), (odd, 1)] {
        for i in 0..count {
            pages.overwrite(first + i, |page| {
                init(page, 1, PageKind::Owner);
                set_next(page, first + i + 1);
                for k in 0..extents / count {
                    let extent = Extent {
                        first: 1 + 2 * (i * (extents / count) + k) + parity,
                        blocks: 1,
                    };
                    owner::push(page, first + i, extent).unwrap();
                }
            });
        }
    }
    Meta::update(&pages, |meta| {
        meta.high_water = first_page + 10;
        for ([first, count], stamp) in [(even, 0), (odd, pages.now() + 1000)] {
            meta.drop_chain(DroppedChain {
                stamp,
                head: first,
                tail: first + count - 1,
            })?;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(owners(&pages).len() as u32, first_page + 10);
    let mut space = Allocation::begin(&pages, Writer::Spill).unwrap();
    let mut taken = take(&pages, &mut space, extents as usize - 10);
    assert!(
        taken
            .iter()
            .all(|block| block % 2 == 1 || *block >= first_page),
        "only past ones"
    );
    owners(&pages);
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), count);
    space.publish(written(taken[0]), &[], false).unwrap();
    let owners_now = owners(&pages);
    let entry = Meta::read(&pages).unwrap().segments[0];
    assert_ne!(entry.owner, entry.owner_tail, "several owner pages");
    assert!(taken.iter().all(|block| owners_now[block] == "segment 2"));
    assert_eq!(pages.block_count(), first_page + 10);
    // A crash during the next segment, and then all is dropped.
    let mut space = Allocation::begin(&pages, Writer::Spill).unwrap();
    take(&pages, &mut space, 100);
    let space = Allocation::begin(&pages, Writer::Spill).unwrap();
    space.publish(None, &[entry], false).unwrap();
    let owners = owners(&pages);
    let spare = |owner: &&String| *owner == "dropped" || *owner == "spare";
    assert_eq!(owners.values().filter(spare).count(), owners.len() - 1);
}

#[test]
fn the_meta_page_always_has_room_for_dropped_chains() {
    let pages = new_index();
    for _ in 0..3 * MAX_DROPPED {
        run(&pages, &Step::Abandon { blocks: 3 });
        run(
            &pages,
            &Step::Merge {
                segments: 1,
                blocks: 2,
            },
        );
        assert!(Meta::read(&pages).unwrap().dropped.len() <= MAX_DROPPED);
    }
    owners(&pages);
    pages.end_readers();
    let before = Meta::read(&pages).unwrap().high_water;
    run(
        &pages,
        &Step::Write {
            blocks: 1000,
            inserts: 0,
        },
    );
    assert!(Meta::read(&pages).unwrap().high_water < before + 700);
    owners(&pages);
}

#[test]
fn free_blocks_at_the_end_are_cut_and_the_others_are_used_in_order() {
    let pages = new_index();
    let write = |blocks| run(&pages, &Step::Write { blocks, inserts: 0 });
    (0..6).for_each(|_| write(300));
    let segments = Meta::read(&pages).unwrap().segments;
    let drop = |entry: &SegmentEntry| {
        let space = Allocation::begin(&pages, Writer::Spill).unwrap();
        space.publish(None, &[*entry], false).unwrap();
    };
    // the last but one first, so that the chains are not in order
    [4, 5, 1, 3].into_iter().for_each(|i| drop(&segments[i]));
    let before = owners(&pages);
    free::tidy(&pages).unwrap();
    assert_eq!(owners(&pages), before, "readers may still read the blocks");
    pages.end_readers();
    free::tidy(&pages).unwrap();
    free::cut(&pages).unwrap();
    let last = owners(&pages)
        .into_iter()
        .rfind(|(_, owner)| owner.starts_with("segment"));
    let (last, owner) = last.unwrap();
    assert_eq!(owner, format!("segment {}", segments[2].id));
    assert_eq!(pages.block_count(), last + 1);
    assert_eq!(Meta::read(&pages).unwrap().dropped.len(), 1);
    let free: Vec<Block> = owners(&pages)
        .into_iter()
        .filter_map(|(block, owner)| (owner == "dropped").then_some(block))
        .collect();
    let mut space = Allocation::begin(&pages, Writer::Spill).unwrap();
    let taken = take(&pages, &mut space, 200);
    assert!(taken.is_sorted());
    assert!(taken.iter().all(|block| free[..250].contains(block)));
}

#[test]
fn an_index_without_documents_becomes_a_page() {
    let pages = new_index();
    run(
        &pages,
        &Step::Write {
            blocks: 900,
            inserts: 9,
        },
    );
    run(&pages, &Step::Spill);
    run(
        &pages,
        &Step::Merge {
            segments: 1,
            blocks: 0,
        },
    );
    pages.end_readers();
    free::tidy(&pages).unwrap();
    free::cut(&pages).unwrap();
    assert_eq!(pages.block_count(), 1);
    owners(&pages);
}
