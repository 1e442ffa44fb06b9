//! Crashes after each write, and statements that are cancelled.

use std::cell::{Cell, RefCell};

use rag_bm25::info;

use super::support::*;

/// Number of statements of [`live`].
const STEPS: u64 = 1500;

/// Runs random statements. After some writes it tries what a crash would leave.
fn live(seed: u64, cancels: bool) {
    let random = RefCell::new(Random(seed + 1000));
    let (images, unfinished) = (Cell::new(0), Cell::new(0));
    let pages = Watched::new(|pages, is_large| {
        let mut random = random.borrow_mut();
        if random.below(if is_large { 40 } else { 200 }) == 0 {
            images.set(images.get() + 1);
            let image = pages.image();
            unfinished.set(unfinished.get() + u32::from(info(&image).unwrap().in_flight > 0));
            let when = format!("crash {} of seed {seed}", images.get());
            verify_crash(&image, &pages.model.borrow(), &mut random, &when);
        }
    });
    let mut random = Random(seed);
    for step in 0..STEPS {
        if cancels && random.below(4) == 0 {
            let most = [4, 300][random.below(2) as usize];
            pages.cancel_after.set(random.below(most));
        }
        match random.below(400) {
            0..2 => pages.merge_all(),
            2..6 => pages.cleanup(),
            6..8 => {
                let part = random.below(6) as u32;
                pages.remove(|row| row.block % 5 < part || row.offset % 7 == part as u16);
            }
            8..30 => pages.end_readers(),
            30 => pages.verify(&format!("step {step} of seed {seed}")),
            _ => pages.insert(),
        }
    }
    pages.cancel_after.set(u64::MAX);
    pages.verify(&format!("end of seed {seed}"));
    println!(
        "{} crashes, {} while a segment was written",
        images.get(),
        unfinished.get()
    );
    assert!(images.get() > 10 && unfinished.get() > 2);
}

#[test]
fn a_crash_loses_nothing() {
    for seed in 0..4 {
        live(seed, false);
    }
}

#[test]
fn a_cancelled_statement_loses_nothing() {
    for seed in 10..14 {
        live(seed, true);
    }
}

/// Each write of maintenance and of a large document is followed by a crash.
#[test]
fn each_write_may_be_the_last() {
    let random = RefCell::new(Random(5));
    let is_watched = Cell::new(false);
    let images = Cell::new(0);
    let pages = Watched::new(|pages, _| {
        if is_watched.get() {
            images.set(images.get() + 1);
            let when = format!("crash {}", images.get());
            let mut random = random.borrow_mut();
            verify_crash(&pages.image(), &pages.model.borrow(), &mut random, &when);
        }
    });
    for _ in 0..60 {
        pages.insert();
    }
    is_watched.set(true);
    pages.merge_all();
    // Document 1000 has many words.
    pages.model.borrow_mut().next = (0..).find(|id| words(*id).len() > 3000).unwrap();
    for _ in 0..20 {
        pages.insert();
    }
    pages.remove(|row| row.offset % 3 == 0);
    pages.merge_all();
    pages.end_readers();
    for _ in 0..20 {
        pages.insert();
    }
    pages.merge_all();
    pages.verify("end");
    assert!(images.get() > 100, "{}", images.get());
}
