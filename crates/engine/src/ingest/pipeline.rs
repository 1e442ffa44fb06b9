//! Reads several documents at once: the calling thread fetches them, a few others read them, and
//! one more reports them in order. Files of the web are fetched by several threads, and reported as
//! they come. Their failures are reported in the order of the listing.
//!
//! The documents in progress are limited in number and in bytes, so that a run needs the memory of
//! a handful of documents, whatever the size of its source.

use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rag_document::TokenCounter;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Event, Failure, Stage},
    skipped::SkippedFiles,
};
use rag_source::{FetchOutcome, FetchedContent, SourceItem, SourceReader};

use super::{
    document::{Outcome, Reader},
    members::StoredItem,
    output::Output,
    turns::{FETCHERS, Turns},
};

/// Number of threads that extract and split.
const READERS: usize = 2;
/// Maximum number of documents in progress.
const DEPTH: usize = 8;
/// Maximum number of bytes of documents in progress; a larger document is read alone.
const BYTES: u64 = 64 << 20;
/// Maximum number of outcomes of one item that wait to be reported.
const OUTCOMES: usize = 4;

/// Results of a run besides its events.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RunStatistics {
    pub bytes_fetched: u64,
    pub skipped: SkippedFiles,
    /// Time spent on reading from the source.
    pub fetching: Duration,
    /// Time spent on extracting and splitting, summed over the threads.
    pub extracting: Duration,
}

/// A fetched item, and the receiver of its outcome.
struct PendingItem<'a> {
    item: &'a SourceItem,
    content: FetchedContent,
    /// Its size in bytes, if the listing did not have it.
    unlisted: u64,
    outcome: SyncSender<Outcome>,
}

/// An item to report, in the order of the listing, or of arrival if several are fetched at once.
struct ExpectedDocument<'a> {
    /// Its number in the listing.
    number: usize,
    item: &'a SourceItem,
    outcome: Receiver<Outcome>,
}

/// Reports all items.
///
/// # Errors
/// `Internal` if no thread can be started.
pub fn run<T: TokenCounter + Sync>(
    source: &mut dyn SourceReader,
    items: &[SourceItem],
    reader: &Reader<T>,
    output: &Output,
) -> Result<RunStatistics, EngineError> {
    let (to_readers, fetched) = sync_channel::<PendingItem>(DEPTH);
    let (to_reporter, expected) = sync_channel::<ExpectedDocument>(DEPTH);
    let fetched = Mutex::new(fetched);
    let budget = Budget::default();
    let extracting = Mutex::new(Duration::ZERO);
    let failed = |e: std::io::Error| {
        EngineError::new(ErrorKind::Internal, "could not start a thread").detail(e.to_string())
    };
    thread::scope(|scope| {
        for _ in 0..READERS {
            let read = || {
                while let Some(next) = receive(&fetched) {
                    let began = Instant::now();
                    reader.read_all(next.item, &next.content, &|outcome| {
                        let _ = next.outcome.send(outcome);
                    });
                    *extracting.lock().unwrap_or_else(PoisonError::into_inner) += began.elapsed();
                    drop(next.content);
                    budget.put_back(next.unlisted);
                }
            };
            thread::Builder::new()
                .name("reader".into())
                .spawn_scoped(scope, read)
                .map_err(failed)?;
        }
        let reported = &budget;
        let report = move || report(&expected, items.len(), reported, output);
        let reporter = thread::Builder::new()
            .name("reporter".into())
            .spawn_scoped(scope, report)
            .map_err(failed)?;
        let fetching = Fetching {
            items,
            reader,
            budget: &budget,
            to_readers,
            to_reporter: &to_reporter,
            by_name: !source.gives_media_types(),
            fetched_when_listed: source.fetches_when_listing(),
        };
        let (bytes_fetched, fetching) = fetch_all(source, fetching);
        drop(to_reporter);
        let skipped = reporter.join().map_err(|_| {
            EngineError::new(
                ErrorKind::Internal,
                "the thread that reports documents failed",
            )
        })?;
        // The readers have answered for every document that was reported.
        let extracting = *extracting.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(RunStatistics {
            bytes_fetched,
            skipped,
            fetching,
            extracting,
        })
    })
}

fn receive<'a>(fetched: &Mutex<Receiver<PendingItem<'a>>>) -> Option<PendingItem<'a>> {
    fetched
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

/// Fetches the items and hands them on.
struct Fetching<'a, 'r, T> {
    items: &'a [SourceItem],
    reader: &'r Reader<'r, T>,
    budget: &'r Budget,
    to_readers: SyncSender<PendingItem<'a>>,
    to_reporter: &'r SyncSender<ExpectedDocument<'a>>,
    /// The name of an item tells its type.
    by_name: bool,
    fetched_when_listed: bool,
}

/// Returns the number of bytes that were fetched, and the time of it.
fn fetch_all<T: TokenCounter + Sync>(
    source: &mut dyn SourceReader,
    fetching: Fetching<'_, '_, T>,
) -> (u64, Duration) {
    let Some(concurrent) = source.concurrent() else {
        let (mut bytes, mut time) = (0, Duration::ZERO);
        for (number, item) in fetching.items.iter().enumerate() {
            let (outcome, waiting) = sync_channel(OUTCOMES);
            fetching.expect(number, item, waiting);
            let stored = fetching.stored(item);
            if let Some(settled) = fetching.settled(item, &stored) {
                bytes += fetching.report(item, &settled, &outcome);
                continue;
            }
            let began = Instant::now();
            let fetched = source.fetch(item, stored.version.as_ref());
            time += began.elapsed();
            bytes += fetching.hand_on(item, &stored, fetched, outcome);
        }
        return (bytes, time);
    };
    let turns = Turns::new(fetching.items.iter().map(|item| concurrent.server(item)));
    let (bytes, began) = (AtomicU64::new(0), Instant::now());
    // Readers get the items in the order in which they are reported: one that waits for the
    // reporter never waits for an item that no reader has.
    let handing_on = Mutex::new(());
    let fetch = || {
        while let Some((number, server)) = turns.next() {
            let item = &fetching.items[number];
            let stored = fetching.stored(item);
            let settled = fetching.settled(item, &stored);
            let fetched = match settled {
                Some(_) => None,
                None => Some(concurrent.fetch(item, stored.version.as_ref())),
            };
            turns.end(&server);
            // in the order of their arrival: a slow item does not hold up others
            let _turn = handing_on.lock().unwrap_or_else(PoisonError::into_inner);
            let (outcome, waiting) = sync_channel(OUTCOMES);
            fetching.expect(number, item, waiting);
            let size = match (fetched, settled) {
                (Some(fetched), _) => fetching.hand_on(item, &stored, fetched, outcome),
                (None, Some(settled)) => fetching.report(item, &settled, &outcome),
                (None, None) => 0,
            };
            bytes.fetch_add(size, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..FETCHERS.min(fetching.items.len()) {
            // this thread fetches all if no other can be started
            let started = thread::Builder::new()
                .name("fetcher".into())
                .spawn_scoped(scope, fetch);
            if let Err(e) = started {
                tracing::debug!("could not start a thread: {e}");
            }
        }
        fetch();
    });
    (bytes.into_inner(), began.elapsed())
}

impl<'a, T: TokenCounter> Fetching<'a, '_, T> {
    fn expect(&self, number: usize, item: &'a SourceItem, outcome: Receiver<Outcome>) {
        self.budget.take(item.size);
        let _ = self.to_reporter.send(ExpectedDocument {
            number,
            item,
            outcome,
        });
    }

    /// Returns what is stored of an item.
    fn stored<'s>(&'s self, item: &'s SourceItem) -> StoredItem<'s> {
        let own = self.reader.known.get(&item.uri);
        self.reader.stored_members.of(item, own)
    }

    /// Returns what is reported of an item that need not be fetched.
    fn settled<'s>(&self, item: &SourceItem, stored: &'s StoredItem) -> Option<Settled<'s>> {
        // A film beyond the size limit is not a failure.
        if self.by_name
            && rag_document::document_type(&item.name, None, &[]).is_none()
            && rag_document::container(&item.name, None).is_none()
            && !self.reader.is_picture(&item.name)
        {
            return Some(Settled::Skipped);
        }
        let version = stored.version.as_ref();
        let is_unchanged = item.validator.is_some()
            && version.is_some_and(|version| version.validator == item.validator);
        is_unchanged.then_some(Settled::Unchanged(stored))
    }

    /// Reports an item that was not fetched. Returns its number of bytes.
    fn report(&self, item: &SourceItem, settled: &Settled, outcome: &SyncSender<Outcome>) -> u64 {
        match settled {
            Settled::Skipped => {
                let _ = outcome.send(Outcome::Skipped);
                0
            }
            Settled::Unchanged(stored) => {
                send(stored.unchanged(None), outcome);
                if self.fetched_when_listed {
                    item.size
                } else {
                    0
                }
            }
        }
    }

    /// Hands what was fetched to the threads that read. Returns its number of bytes.
    fn hand_on(
        &self,
        item: &'a SourceItem,
        stored: &StoredItem,
        fetched: Result<FetchOutcome, Failure>,
        outcome: SyncSender<Outcome>,
    ) -> u64 {
        match fetched {
            Ok(FetchOutcome::Content(content)) => {
                let size = content.bytes.len() as u64;
                // The listed size is already taken, and waiting for more while holding it could
                // last forever.
                let unlisted = if item.size == 0 { size } else { 0 };
                self.budget.take(unlisted);
                let _ = self.to_readers.send(PendingItem {
                    item,
                    content,
                    unlisted,
                    outcome,
                });
                return size;
            }
            Ok(FetchOutcome::Unchanged { validator }) => {
                send(stored.unchanged(validator.as_deref()), &outcome);
            }
            Ok(FetchOutcome::Skipped(file)) => {
                let _ = outcome.send(Outcome::no_document(&item.uri, file.into(), None));
            }
            Err(failure) => send(stored.failed(failure), &outcome),
        }
        0
    }
}

/// What is known of an item without fetching it.
enum Settled<'s> {
    /// It is not a document by its name.
    Skipped,
    Unchanged(&'s StoredItem<'s>),
}

fn send(outcomes: impl Iterator<Item = Outcome>, to: &SyncSender<Outcome>) {
    outcomes.for_each(|outcome| {
        let _ = to.send(outcome);
    });
}

/// Writes events in the order in which they are expected, but failures in the order of the listing.
/// Returns the numbers of items that were not documents.
fn report(
    expected: &Receiver<ExpectedDocument<'_>>,
    items: usize,
    budget: &Budget,
    output: &Output,
) -> SkippedFiles {
    let mut skipped = SkippedFiles::default();
    let mut failures = OrderedFailures::new(items);
    let emit = |failure| output.emit(&Event::Failed(failure), "");
    for next in expected {
        let mut failed = vec![];
        let mut is_answered = false;
        for outcome in &next.outcome {
            is_answered = true;
            match outcome {
                Outcome::Report(Event::Failed(failure), _) => failed.push(failure),
                Outcome::Report(event, text) => output.emit(&event, &text),
                Outcome::Skipped => skipped += SkippedFiles::other(&next.item.name),
                Outcome::SkippedMembers(files) => skipped += files,
                Outcome::NoDocument {
                    uri,
                    files,
                    warning,
                } => {
                    skipped += files;
                    output.emit(&Event::Removed { uri, warning }, "");
                }
            }
        }
        // A reader never drops an item unanswered. If one did, the document would count as deleted.
        if !is_answered {
            let lost = "the document was lost during processing";
            failed.push(Failure::new(&*next.item.uri, Stage::Extract, lost, None));
        }
        failures.end(next.number, failed).for_each(emit);
        budget.put_back(next.item.size);
    }
    skipped
}

/// Keeps each failure until all items before it in the listing have ended. Then the order of a
/// run's errors does not depend on which server is faster.
struct OrderedFailures {
    ended: Vec<bool>,
    /// The first item that has not ended.
    first: usize,
    waiting: BTreeMap<usize, Vec<Failure>>,
}

impl OrderedFailures {
    fn new(items: usize) -> Self {
        Self {
            ended: vec![false; items],
            first: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// Notes that an item has ended. Returns the failures whose turn has come.
    fn end(&mut self, number: usize, failed: Vec<Failure>) -> impl Iterator<Item = Failure> {
        if let Some(ended) = self.ended.get_mut(number) {
            *ended = true;
        }
        self.waiting.insert(number, failed);
        while self.ended.get(self.first) == Some(&true) {
            self.first += 1;
        }
        let later = self.waiting.split_off(&self.first);
        std::mem::replace(&mut self.waiting, later)
            .into_values()
            .flatten()
    }
}

/// The budget of bytes in progress.
#[derive(Debug, Default)]
struct Budget {
    taken: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    /// Waits until this number of bytes is free, or nothing is taken.
    fn take(&self, bytes: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && taken.saturating_add(bytes) > BYTES {
            taken = self
                .freed
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *taken = taken.saturating_add(bytes);
    }

    fn put_back(&self, bytes: u64) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(bytes);
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_are_in_the_order_of_the_listing() {
        let mut failures = OrderedFailures::new(4);
        let mut end = |number: usize, fails: bool| {
            let failed =
                fails.then(|| Failure::new(number.to_string(), Stage::Fetch, "gone", None));
            let failed = failed.into_iter().collect();
            let uris: Vec<String> = failures.end(number, failed).map(|it| it.uri).collect();
            uris.join(" ")
        };
        assert_eq!(end(3, true), "");
        assert_eq!(end(1, true), "");
        assert_eq!(end(0, false), "1");
        assert_eq!(end(2, true), "2 3");
    }

    #[test]
    fn a_document_larger_than_the_budget_is_read_alone() {
        let budget = Budget::default();
        budget.take(BYTES * 2);
        thread::scope(|scope| {
            let second = scope.spawn(|| budget.take(1));
            thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            budget.put_back(BYTES * 2);
        });
        assert_eq!(*budget.taken.lock().unwrap(), 1);
    }
}
