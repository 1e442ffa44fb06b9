//! Several documents at once: fetched in the calling thread, read in a few others, reported in
//! order by one more.
//!
//! What is under way is bounded in number and in bytes, so that a run needs the memory of a handful
//! of documents however many its source has.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rag_document::TokenCounter;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Event, Failure, Stage},
};
use rag_source::{Content, Fetched, Item, Source};

use super::{
    document::{Outcome, Reader},
    output::Output,
};

/// Threads that extract and split.
const READERS: usize = 2;
/// Documents under way.
const DEPTH: usize = 8;
/// Bytes of documents under way; a larger document travels alone.
const BYTES: u64 = 64 << 20;

/// What a run did besides its events.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub bytes_fetched: u64,
    pub skipped: u64,
    /// Time spent on reading from the source.
    pub fetching: Duration,
    /// Time spent on extracting and splitting, summed over the threads.
    pub extracting: Duration,
}

/// A fetched item, and where its outcome is waited for.
struct Waiting<'a> {
    item: &'a Item,
    content: Content,
    /// Its bytes where the listing did not know them.
    unlisted: u64,
    outcome: Sender<Outcome>,
}

/// An item that will be reported, in the order of the listing.
struct Expected<'a> {
    item: &'a Item,
    outcome: Receiver<Outcome>,
}

/// Reports all items.
///
/// # Errors
/// `Internal` where threads cannot be had.
pub fn run<T: TokenCounter + Sync>(
    source: &mut dyn Source,
    items: &[Item],
    reader: &Reader<T>,
    output: &Output,
) -> Result<Done, EngineError> {
    let (to_readers, fetched) = sync_channel::<Waiting>(DEPTH);
    let (to_reporter, expected) = sync_channel::<Expected>(DEPTH);
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
                    let outcome = reader.read(next.item, &next.content);
                    *extracting.lock().unwrap_or_else(PoisonError::into_inner) += began.elapsed();
                    drop(next.content);
                    budget.put_back(next.unlisted);
                    let _ = next.outcome.send(outcome);
                }
            };
            thread::Builder::new()
                .name("reader".into())
                .spawn_scoped(scope, read)
                .map_err(failed)?;
        }
        let reported = &budget;
        let report = move || report(&expected, reported, output);
        let reporter = thread::Builder::new()
            .name("reporter".into())
            .spawn_scoped(scope, report)
            .map_err(failed)?;
        let (bytes_fetched, fetching) =
            fetch_all(source, items, reader, &budget, to_readers, &to_reporter);
        drop(to_reporter);
        let skipped = reporter.join().map_err(|_| {
            EngineError::new(
                ErrorKind::Internal,
                "the thread that reports documents failed",
            )
        })?;
        // the readers have answered for every document that was reported
        let extracting = *extracting.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Done {
            bytes_fetched,
            skipped,
            fetching,
            extracting,
        })
    })
}

fn receive<'a>(fetched: &Mutex<Receiver<Waiting<'a>>>) -> Option<Waiting<'a>> {
    fetched
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .recv()
        .ok()
}

fn fetch_all<'a, T: TokenCounter>(
    source: &mut dyn Source,
    items: &'a [Item],
    reader: &Reader<T>,
    budget: &Budget,
    to_readers: SyncSender<Waiting<'a>>,
    to_reporter: &SyncSender<Expected<'a>>,
) -> (u64, Duration) {
    let (mut bytes_fetched, mut fetching) = (0, Duration::ZERO);
    let by_name = !source.gives_media_types();
    for item in items {
        budget.take(item.size);
        let (outcome, waiting) = channel();
        let _ = to_reporter.send(Expected {
            item,
            outcome: waiting,
        });
        // a film beyond the size limit is no failure
        if by_name && rag_document::document_type(&item.name, None, &[]).is_none() {
            let _ = outcome.send(Outcome::Skipped);
            continue;
        }
        let known = reader.known.get(&item.uri);
        if item.validator.is_some() && known.is_some_and(|known| known.validator == item.validator)
        {
            bytes_fetched += if source.fetches_when_listing() {
                item.size
            } else {
                0
            };
            let _ = outcome.send(reader.unchanged(item, None));
            continue;
        }
        let began = Instant::now();
        let fetched = source.fetch(item, known);
        fetching += began.elapsed();
        match fetched {
            Ok(Fetched::Content(content)) => {
                let size = content.bytes.len() as u64;
                // what was listed is taken already, and waiting for more while holding it could
                // last forever
                let unlisted = if item.size == 0 { size } else { 0 };
                budget.take(unlisted);
                bytes_fetched += size;
                let _ = to_readers.send(Waiting {
                    item,
                    content,
                    unlisted,
                    outcome,
                });
            }
            Ok(Fetched::Unchanged { validator }) => {
                let _ = outcome.send(reader.unchanged(item, validator));
            }
            Ok(Fetched::Skipped) => {
                let _ = outcome.send(Outcome::NoDocument);
            }
            Err(failure) => {
                let _ = outcome.send(Outcome::Report(Event::Failed(failure), String::new()));
            }
        }
    }
    (bytes_fetched, fetching)
}

/// Writes events in the order of the listing; gives the number of items that were no documents.
fn report(expected: &Receiver<Expected<'_>>, budget: &Budget, output: &Output) -> u64 {
    let mut skipped = 0;
    for next in expected {
        match next.outcome.recv() {
            Ok(Outcome::Report(event, text)) => output.emit(&event, &text),
            Ok(Outcome::Skipped) => skipped += 1,
            Ok(Outcome::NoDocument) => {
                skipped += 1;
                output.emit(
                    &Event::Removed {
                        uri: next.item.uri.clone(),
                    },
                    "",
                );
            }
            // A reader never drops an item unanswered. If one did, silence would mean that the
            // document is gone.
            Err(_) => {
                let lost = "the document was lost on the way";
                let failure = Failure::new(&*next.item.uri, Stage::Extract, lost, None);
                output.emit(&Event::Failed(failure), "");
            }
        }
        budget.put_back(next.item.size);
    }
    skipped
}

/// Bytes that may be under way.
#[derive(Debug, Default)]
struct Budget {
    taken: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    /// Waits until so much is free, or nothing is taken.
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
    fn a_document_larger_than_the_budget_travels_alone() {
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
