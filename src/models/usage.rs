//! The counts of calls and tokens, in a file for each database.
//!
//! They are in no table, because they must be right for calls whose transaction is rolled back or
//! may not write, and because concurrent calls must not wait for each other's transactions. The
//! file survives restarts and crashes of the server. A standby has counts of its own.

use std::{
    cell::Cell,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rag_definition::{
    model::ModelSpec,
    usage::{CallRecord, Counts, Exhausted, Ledger, Prices, Spent, UsageLimits},
};

use crate::{
    catalog::models::Model,
    engine::RUNTIME_DIR,
    error::{Cause, Error},
    pg::{process::database, transaction::at_commit},
};

/// The number of bytes of a token, where nobody has counted them.
const BYTES_OF_TOKEN: u64 = 4;
/// A server that reports more tokens for one call is not believed.
const MAX_TOKENS_OF_CALL: u64 = 1 << 32;

fn folder() -> PathBuf {
    Path::new(RUNTIME_DIR).join("usage")
}

fn file(database: u32) -> PathBuf {
    folder().join(format!("{database}.json"))
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Changes the ledger of the database, while no other process does.
fn change<R>(f: impl FnOnce(&mut Ledger) -> R) -> io::Result<R> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder())?;
    let path = file(database().to_u32());
    // the file itself is replaced by another one
    let lock = open_to_write(&path.with_extension("lock"))?;
    lock.lock()?;
    let mut ledger = read(&path)?;
    let before = ledger.clone();
    let result = f(&mut ledger);
    if ledger != before {
        let new = path.with_extension("new");
        drop(open_to_write(&new)?);
        fs::write(&new, serde_json::to_vec(&ledger).map_err(io::Error::other)?)?;
        fs::rename(&new, &path)?;
    }
    Ok(result)
}

fn open_to_write(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn read(path: &Path) -> io::Result<Ledger> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Ledger::default()),
        Err(e) => return Err(e),
    };
    Ok(serde_json::from_slice(&text).unwrap_or_else(|e| {
        pgrx::warning!(
            "counts of model calls are lost: {} is damaged: {e}",
            path.display()
        );
        Ledger::default()
    }))
}

/// Returns models, days since 1970-01-01, and counts.
///
/// # Errors
/// The file cannot be read.
pub fn counts() -> Result<Vec<(String, u64, Counts)>, Error> {
    let ledger = read(&file(database().to_u32())).map_err(|e| unusable(&e))?;
    let days = ledger.days();
    Ok(days
        .map(|(model, day, counts)| (model.to_owned(), day, counts))
        .collect())
}

/// Deletes the counts of a database that the current transaction drops, or in which it drops the
/// extension.
pub fn forget_database_at_commit(database: u32) {
    at_commit(move || {
        let path = file(database);
        // without the file there is nothing to forget
        let _ = fs::remove_file(path.with_extension("lock"));
        let _ = fs::remove_file(path);
    });
}

/// Deletes the counts of a model that the current transaction drops.
pub fn forget_at_commit(uid: String) {
    at_commit(move || {
        if let Err(e) = change(|ledger| ledger.forget(&uid)) {
            pgrx::log!("counts of a dropped model could not be deleted: {e}");
        }
    });
}

fn unusable(error: &io::Error) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
        "could not count calls of models",
    )
    .detail(format!("{}: {error}", folder().display()))
}

fn limits(settings: &ModelSpec) -> UsageLimits {
    UsageLimits {
        requests_per_minute: settings.requests_per_minute,
        tokens_per_minute: settings.tokens_per_minute,
        tokens_per_day: settings.tokens_per_day,
    }
}

thread_local! {
    static SPENT: Cell<Spent> = Cell::default();
}

/// Returns what the calls used that this process has made until now.
pub fn spent() -> Spent {
    SPENT.get()
}

/// A call that is counted. It counts as failed if it is dropped before [`CountedCall::end`].
pub struct CountedCall {
    uid: String,
    prices: Option<Prices>,
    requests: u64,
    input_bytes: u64,
    pub output_bytes: u64,
    has_ended: bool,
}

impl CountedCall {
    /// Counts a call that begins.
    ///
    /// # Errors
    /// A limit of the model is used up.
    pub fn begin(
        model: &Model,
        settings: &ModelSpec,
        requests: u64,
        input_bytes: usize,
    ) -> Result<Self, Error> {
        let (uid, limits) = (model.uid.to_string(), limits(settings));
        let begun = change(|ledger| ledger.begin(&uid, &limits, requests, now()));
        begun
            .map_err(|e| unusable(&e))?
            .map_err(|exhausted| used_up(&model.name, exhausted))?;
        Ok(Self {
            uid,
            prices: settings.prices,
            requests,
            input_bytes: input_bytes as u64,
            output_bytes: 0,
            has_ended: false,
        })
    }

    /// Counts the tokens of the call. Those that the server did not count, or of which it reports
    /// an absurd number, are estimated. Requests of a call that has failed cost nothing, but its
    /// tokens do.
    pub fn end(&mut self, has_failed: bool, input: Option<u64>, output: Option<u64>) -> CallRecord {
        let [input, output] =
            [input, output].map(|tokens| tokens.filter(|tokens| *tokens <= MAX_TOKENS_OF_CALL));
        let estimate = |bytes: u64| bytes.div_ceil(BYTES_OF_TOKEN);
        let input_tokens = input.unwrap_or_else(|| estimate(self.input_bytes));
        let output_tokens = output.unwrap_or_else(|| estimate(self.output_bytes));
        let requests = if has_failed { 0 } else { self.requests };
        let prices = self.prices;
        let record = CallRecord {
            has_failed,
            input_tokens,
            output_tokens,
            is_estimated: input.is_none() || output.is_none(),
            cost: prices.map(|prices| prices.cost(requests, input_tokens, output_tokens)),
        };
        self.has_ended = true;
        SPENT.set(spent().plus(record.spent()));
        if let Err(e) = change(|ledger| ledger.end(&self.uid, &record, now())) {
            pgrx::warning!("the tokens of a model call could not be counted: {e}");
        }
        record
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(true, None, None);
        }
    }
}

fn used_up(name: &str, exhausted: Exhausted) -> Error {
    let Exhausted { limit, most, wait } = exhausted;
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!("{} of model \"{name}\" is used up", limit.key()),
    )
    .detail(format!(
        "The limit is {most}. Calls are possible again in {wait} s."
    ))
    .hint(
        "The owner can raise the limit with rag_alter_model. The view rag.model_usage has counts.",
    )
    // a run is repeated when calls are possible again
    .because(Cause::Budget(Duration::from_secs(wait)))
}
