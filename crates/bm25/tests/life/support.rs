//! Documents, and pages on which crashes and cancelled statements are tried.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use crate::support::rows_with_phrase;
use rag_bm25::{
    Creation, Parameters, Phrase, Scan, SegmentCache, Terms, check, cleanup, create, describe,
    info, insert, merge_all, remove, top,
};
use rag_pages::{
    Block, IndexError, IndexLock, LockMode, MemoryPages, Page, PageUse, ReadPages, ReusePages, Tid,
    WritePages,
};

pub const MEMORY: usize = 64 << 20;

/// SplitMix64
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub fn creation() -> Creation<'static> {
    Creation {
        parameters: Parameters::default(),
        identity: 7,
        label: b"test",
        variant: 0,
        has_positions: true,
    }
}

pub fn terms(words: &[String]) -> Terms {
    let mut terms = Terms::with_positions();
    for (at, word) in (0..).zip(words) {
        terms.add_at(word.as_bytes(), Some(at)).unwrap();
    }
    terms.finish();
    terms
}

/// Returns terms without positions.
fn terms_alone(words: &[String]) -> Terms {
    let mut terms = Terms::new();
    for word in words {
        terms.add(word.as_bytes()).unwrap();
    }
    terms.finish();
    terms
}

/// Returns words that follow each other.
pub fn phrase(words: &[String]) -> Phrase {
    let mut phrase = Phrase::new(0);
    for (offset, word) in (0..).zip(words) {
        phrase.add(word.as_bytes(), offset, 1).unwrap();
    }
    phrase.finish().unwrap();
    phrase
}

/// A word that only this document has.
pub fn own_word(id: u64) -> String {
    format!("document{id}")
}

/// The words of document `id`: one that all have, one of its own, and others.
pub fn words(id: u64) -> Vec<String> {
    let mut random = Random(id);
    let mut words = vec!["all".to_string(), own_word(id)];
    let (count, vocabulary) = match random.below(40) {
        0 => (4000, 1 << 40),
        1..20 => (200, 1 << 16),
        20..30 => (800, 100),
        _ => (5, 10),
    };
    for _ in 0..random.below(count) {
        words.push(format!("word{}", random.below(vocabulary)));
    }
    words
}

pub fn tid(n: u64) -> Tid {
    Tid {
        block: (n / 100) as u32,
        offset: (n % 100) as u16 + 1,
    }
}

/// What an index should have.
#[derive(Default, Clone)]
pub struct Model {
    pub live: BTreeMap<Tid, u64>,
    /// Rows of statements that have not ended or have failed. The index may have them.
    pub maybe: BTreeSet<Tid>,
    pub free: Vec<Tid>,
    pub next: u64,
}

impl Model {
    /// Returns a new document and its row. Rows of removed documents are used again.
    pub fn new_document(&mut self) -> (Tid, u64) {
        let id = self.next;
        self.next += 1;
        (self.free.pop().unwrap_or(tid(id)), id)
    }

    fn compare(&self, rows: &BTreeSet<Tid>) {
        let missing: Vec<_> = self.live.keys().filter(|row| !rows.contains(row)).collect();
        assert!(missing.is_empty(), "lost rows: {missing:?}");
        let more = |row: &&Tid| !self.live.contains_key(row) && !self.maybe.contains(row);
        let more: Vec<_> = rows.iter().filter(more).collect();
        assert!(more.is_empty(), "rows that should be gone: {more:?}");
    }
}

/// Checks the structure of an index and that it has the rows of a model.
pub fn verify(pages: &MemoryPages, model: &Model, when: &str) {
    let (mut rows, mut problems) = (BTreeSet::new(), vec![]);
    let result = check(
        pages,
        &mut |row| assert!(rows.insert(row), "{when}: row {row:?} is there twice"),
        &mut |block, problem| problems.push((block, problem)),
    );
    assert_eq!((result, problems), (Ok(()), vec![]), "{when}");
    model.compare(&rows);
}

/// Checks what searches find.
pub fn verify_search(pages: &MemoryPages, model: &Model, random: &mut Random) {
    let cache = SegmentCache::default();
    let query = terms(&["all".to_string()]);
    let scan = Scan::begin(pages, &cache, &query, None, MEMORY).unwrap();
    model.compare(&drain(pages, scan));
    for (row, id) in &model.live {
        if random.below(20) > 0 {
            continue;
        }
        let found = top(pages, &cache, &terms(&[own_word(*id)]), None, 3).unwrap();
        let found: Vec<Tid> = found.iter().map(|(row, _)| *row).collect();
        assert_eq!(found, [*row], "document {id}");
        let words = words(*id);
        let word = &words[random.below(words.len() as u64) as usize];
        let scan = Scan::begin(
            pages,
            &cache,
            &terms(std::slice::from_ref(word)),
            None,
            MEMORY,
        )
        .unwrap();
        assert!(drain(pages, scan).contains(row), "document {id}, {word}");
        let start = random.below(words.len() as u64) as usize;
        let phrase = phrase(&words[start..words.len().min(start + 3)]);
        let found = rows_with_phrase(pages, &cache, &phrase).unwrap();
        assert!(found.contains(row), "document {id}, words from {start} on");
    }
}

pub fn drain(pages: &impl ReadPages, mut scan: Scan) -> BTreeSet<Tid> {
    let mut rows = BTreeSet::new();
    while let Some((row, _)) = scan.next(pages).unwrap() {
        assert!(rows.insert(row), "{row:?} is found twice");
    }
    rows
}

/// Checks what a crash would leave: that nothing is lost, that maintenance finishes what was begun,
/// and that the index can be used.
pub fn verify_crash(image: &MemoryPages, model: &Model, random: &mut Random, when: &str) {
    verify(image, model, when);
    verify_search(image, model, random);
    let mut model = model.clone();
    if random.below(2) == 0 {
        // Recovery may find a file that has more blocks.
        image.extend(image.block_count() + random.below(3) as u32);
    }
    for _ in 0..random.below(4) {
        insert_into(image, &mut model).unwrap();
    }
    if random.below(2) == 0 {
        remove_from(image, &mut model, &BTreeSet::new()).unwrap();
        assert!(model.maybe.is_empty());
    }
    match random.below(3) {
        0 => merge_all(image).unwrap(),
        _ => cleanup(image).unwrap(),
    }
    assert_eq!(info(image).unwrap().in_flight, 0, "{when}");
    verify(image, &model, "after maintenance");
    verify_search(image, &model, random);
}

pub fn insert_into(pages: &impl ReusePages, model: &mut Model) -> Result<(), IndexError> {
    let (row, id) = model.new_document();
    let terms = match describe(pages)?.has_positions {
        true => terms(&words(id)),
        false => terms_alone(&words(id)),
    };
    insert(pages, row, &terms)?;
    model.live.insert(row, id);
    Ok(())
}

/// Removes documents, and those of statements that have failed.
pub fn remove_from(
    pages: &impl ReusePages,
    model: &mut Model,
    dead: &BTreeSet<Tid>,
) -> Result<(), IndexError> {
    let mut asked = BTreeSet::new();
    let removal = remove(pages, &mut |row| {
        assert!(asked.insert(row), "{row:?} is reported twice");
        dead.contains(&row) || model.maybe.contains(&row)
    })?;
    model.compare(&asked);
    model.live.retain(|row, _| !dead.contains(row));
    model
        .free
        .extend(asked.iter().filter(|row| !model.live.contains_key(row)));
    model.maybe.clear();
    assert_eq!(removal.remaining, model.live.len() as u64);
    assert_eq!(removal.removed + removal.remaining, asked.len() as u64);
    Ok(())
}

/// The mark of a cancelled statement.
struct Cancelled;

/// Pages that call a hook after each write, and cancel statements.
pub struct Watched<'a> {
    pub pages: MemoryPages,
    pub model: RefCell<Model>,
    hook: RefCell<Hook<'a>>,
    /// Number of interrupt checks until the statement is cancelled.
    pub cancel_after: Cell<u64>,
    locks: RefCell<Vec<(IndexLock, LockMode)>>,
    /// Number of times that readers were ended.
    pub ended: Cell<u64>,
}

/// Gets true after a change of several pages or of a whole page.
type Hook<'a> = Box<dyn FnMut(&Watched<'a>, bool) + 'a>;

impl<'a> Watched<'a> {
    pub fn new(hook: impl FnMut(&Watched<'a>, bool) + 'a) -> Self {
        let pages = MemoryPages::new();
        create(&pages, &creation());
        Self {
            pages,
            model: RefCell::default(),
            hook: RefCell::new(Box::new(hook)),
            cancel_after: Cell::new(u64::MAX),
            locks: RefCell::default(),
            ended: Cell::new(0),
        }
    }

    /// Returns what a crash would leave. Readers have ended then.
    pub fn image(&self) -> MemoryPages {
        let image = self.pages.copy();
        (0..=self.ended.get()).for_each(|_| image.end_readers());
        image
    }

    pub fn end_readers(&self) {
        self.ended.set(self.ended.get() + 1);
        self.pages.end_readers();
    }

    fn written(&self, is_large: bool) {
        (self.hook.borrow_mut())(self, is_large);
    }

    /// Runs a statement. Returns `None` if it is cancelled.
    fn run<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(panic) if panic.is::<Cancelled>() => {
                // The end of a transaction releases its locks.
                for (lock, mode) in self.locks.take() {
                    self.pages.unlock(lock, mode);
                }
                self.cancel_after.set(u64::MAX);
                None
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    pub fn insert(&self) {
        let (row, id) = self.model.borrow_mut().new_document();
        self.model.borrow_mut().maybe.insert(row);
        if let Some(result) = self.run(|| insert(self, row, &terms(&words(id)))) {
            assert_eq!(result, Ok(()));
            let mut model = self.model.borrow_mut();
            model.maybe.remove(&row);
            model.live.insert(row, id);
        }
    }

    pub fn remove(&self, dead: impl Fn(&Tid) -> bool) {
        let mut model = self.model.borrow().clone();
        let dead: BTreeSet<Tid> = model.live.keys().copied().filter(dead).collect();
        {
            let mut shown = self.model.borrow_mut();
            shown.live.retain(|row, _| !dead.contains(row));
            shown.maybe.extend(&dead);
        }
        if let Some(result) = self.run(|| remove_from(self, &mut model, &dead)) {
            assert_eq!(result, Ok(()));
            *self.model.borrow_mut() = model;
        }
    }

    pub fn cleanup(&self) {
        if let Some(result) = self.run(|| cleanup(self)) {
            assert_eq!(result, Ok(()));
        }
    }

    pub fn merge_all(&self) {
        if let Some(result) = self.run(|| merge_all(self)) {
            assert_eq!(result, Ok(()));
        }
    }

    pub fn verify(&self, when: &str) {
        verify(&self.pages, &self.model.borrow(), when);
    }
}

impl ReadPages for Watched<'_> {
    fn block_count(&self) -> Block {
        self.pages.block_count()
    }

    fn read<R>(&self, block: Block, f: impl FnOnce(&Page) -> R) -> R {
        self.pages.read(block, f)
    }

    fn check_interrupts(&self) {
        match self.cancel_after.get() {
            0 => resume_unwind(Box::new(Cancelled)),
            u64::MAX => {}
            left => self.cancel_after.set(left - 1),
        }
    }
}

impl WritePages for Watched<'_> {
    fn write<R>(&self, block: Block, f: impl FnOnce(&mut Page) -> Option<R>) -> Option<R> {
        let result = self.pages.write(block, f)?;
        self.written(false);
        Some(result)
    }

    fn append(&self, f: impl FnOnce(Block, &mut Page)) -> Block {
        let block = self.pages.append(f);
        self.written(true);
        block
    }

    fn lock(&self, lock: IndexLock, mode: LockMode) {
        self.pages.lock(lock, mode);
        self.locks.borrow_mut().push((lock, mode));
    }

    fn unlock(&self, lock: IndexLock, mode: LockMode) {
        self.locks.borrow_mut().retain(|held| *held != (lock, mode));
        self.pages.unlock(lock, mode);
    }
}

impl ReusePages for Watched<'_> {
    fn write_group<const N: usize, R>(
        &self,
        blocks: [(Block, PageUse); N],
        f: impl FnOnce([&mut Page; N]) -> Option<R>,
    ) -> Option<R> {
        assert!(N <= 4);
        for (i, (block, _)) in blocks.iter().enumerate() {
            assert!(blocks[..i].iter().all(|(other, _)| other != block));
        }
        let result = self.pages.write_group(blocks, f)?;
        self.written(true);
        Some(result)
    }

    fn overwrite(&self, block: Block, f: impl FnOnce(&mut Page)) {
        self.pages.overwrite(block, f);
        self.written(true);
    }

    fn extend(&self, block: Block) {
        self.pages.extend(block);
    }

    fn truncate(&self, end: impl FnOnce() -> Option<Block>) {
        self.pages.truncate(end);
    }

    fn try_lock(&self, lock: IndexLock, mode: LockMode) -> bool {
        let is_locked = self.pages.try_lock(lock, mode);
        if is_locked {
            self.locks.borrow_mut().push((lock, mode));
        }
        is_locked
    }

    fn now(&self) -> u64 {
        self.pages.now()
    }

    fn end_present(&self) {
        self.pages.end_present();
    }

    fn is_past(&self, stamp: u64) -> bool {
        self.pages.is_past(stamp)
    }
}
