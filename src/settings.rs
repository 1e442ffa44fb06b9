//! Settings of the extension (`rag.*`).

use std::{
    ffi::{CStr, CString, OsString},
    path::PathBuf,
    time::Duration,
};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum, pg_sys};
use rag_protocol::{
    embed::{ModelRef, Precision},
    ingest::Network,
};

use crate::{error::Error, pg::install};

/// The highest value of `rag.max_running_syncs`.
pub const MAX_SLOTS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum PrecisionSetting {
    int8,
    fp32,
}

/// Whether the processes of rag-engine keep themselves from what they do not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum Sandbox {
    on,
    required,
    off,
}

/// What PDFs are read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum PdfReader {
    auto,
    pdfium,
    #[name = c"pdf-extract"]
    pdf_extract,
}

/// What a scan of an index does when the candidates of its first search are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
pub enum IterativeScan {
    strict,
    relaxed,
    off,
    /// As pgvector names them.
    #[hidden = true]
    strict_order,
    #[hidden = true]
    relaxed_order,
}

static MODEL_DIR: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static MODEL_PRECISION: GucSetting<PrecisionSetting> =
    GucSetting::<PrecisionSetting>::new(PrecisionSetting::int8);
static ENGINE_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ONNXRUNTIME_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static PDF_READER: GucSetting<PdfReader> = GucSetting::<PdfReader>::new(PdfReader::auto);
static PDFIUM_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ENGINE_THREADS: GucSetting<i32> = GucSetting::<i32>::new(0);
static ENGINE_MEMORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(8192);
static SANDBOX: GucSetting<Sandbox> = GucSetting::<Sandbox>::new(Sandbox::on);
static MAX_FILE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(100 * 1024);
static INGEST_MEMORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(4096);
static MAX_CLONE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(4096);
static CLONE_CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(2048);
static ALLOWED_PRIVATE_HOSTS: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(None);
static HTTP_PROXY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static SECRET_KEY_FILE: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(DEFAULT_SECRET_KEY_FILE));
static SCHEDULER: GucSetting<bool> = GucSetting::<bool>::new(true);
static MAX_RUNNING_SYNCS: GucSetting<i32> = GucSetting::<i32>::new(2);
static FAIR_WAIT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static TRIGGER_DELAY: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static LOCK_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static MAX_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(24 * 60 * 60);
static RETRY_DELAY: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static DRIFT_CHECK_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(24 * 60 * 60);
static SUCCESSFUL_RUNS_HISTORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(50);
static FAILED_RUNS_HISTORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(50);
static EF_SEARCH: GucSetting<i32> = GucSetting::<i32>::new(80);
static ITERATIVE_SCAN: GucSetting<IterativeScan> =
    GucSetting::<IterativeScan>::new(IterativeScan::strict);
static MAX_SCAN_TUPLES: GucSetting<i32> = GucSetting::<i32>::new(0);

/// In the runtime folder of [`crate::engine`].
const DEFAULT_SECRET_KEY_FILE: &CStr = c"pg_rag/secret.key";

/// Defines all settings and reserves their prefix.
pub fn define() {
    GucRegistry::define_string_guc(
        c"rag.model_dir",
        c"Folder of the embedding model.",
        c"A sentence-transformers folder on the server with model.onnx or model_int8.onnx, tokenizer.json and config.json. \
          Empty: the model that was installed with the extension.",
        &MODEL_DIR,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"rag.model_precision",
        c"Which graph of the embedding model computes embeddings.",
        c"int8 has 8-bit weights, one scale per output channel, and is two to three times faster; fp32 is the original.",
        &MODEL_PRECISION,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"rag.engine_path",
        c"Path of the program rag-engine.",
        c"Empty: the one that was installed with the extension.",
        &ENGINE_PATH,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.onnxruntime_path",
        c"Path of the ONNX Runtime library.",
        c"Empty: the one that was installed with the extension.",
        &ONNXRUNTIME_PATH,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_enum_guc(
        c"rag.pdf_reader",
        c"What PDFs are read with.",
        c"auto: PDFium where its library can be loaded, else pdf-extract, which reads fewer files and fewer of them well. \
          pdfium: a PDF is an error where the library cannot be loaded.",
        &PDF_READER,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"rag.pdfium_path",
        c"Path of the PDFium library.",
        c"Empty: the one that was installed with the extension.",
        &PDFIUM_PATH,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_int_guc(
        c"rag.engine_threads",
        c"Threads that compute embeddings, for the whole cluster.",
        c"0: half of the processors, at least 2 where there are as many, at most 8. More threads make syncs faster and leave \
          less to queries.",
        &ENGINE_THREADS,
        0,
        256,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.engine_memory_limit",
        c"Address space of the process that computes embeddings.",
        c"0: no limit. Several times what it uses is reserved and never touched. Where it is not enough the process ends and is \
          started again; models of more than about 2 GB need more.",
        &ENGINE_MEMORY_LIMIT,
        0,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_enum_guc(
        c"rag.sandbox",
        c"Whether the processes of rag-engine keep themselves from what they do not need.",
        c"on: as far as the kernel can (Landlock and seccomp); what it cannot is logged once. required: where it cannot, nothing \
          is embedded or read. off: no sandbox.",
        &SANDBOX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_file_size",
        c"Largest file that a source reads.",
        c"A larger one is listed in rag.run_errors and left out.",
        &MAX_FILE_SIZE,
        1,
        2 * 1024 * 1024 - 1,
        GucContext::Suset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"rag.ingest_memory_limit",
        c"Address space of the process that fetches and reads the documents of one run.",
        c"A run whose documents need more fails, with nothing else disturbed.",
        &INGEST_MEMORY_LIMIT,
        256,
        1024 * 1024,
        GucContext::Suset,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"rag.clone_cache_size",
        c"Room for clones of git repositories that are kept between runs.",
        c"Clones that were used longest ago are removed first; their next run fetches them anew.",
        &CLONE_CACHE_SIZE,
        0,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"rag.max_clone_size",
        c"Largest clone of a git repository.",
        c"A fetch that would make a clone larger ends with an error, and the run fails.",
        &MAX_CLONE_SIZE,
        1,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_string_guc(
        c"rag.allowed_private_hosts",
        c"Hosts, addresses and networks that sources may connect to although they are not public.",
        c"A list separated by commas, such as \"wiki.local, *.corp.example, 10.1.2.3:8080, 192.168.0.0/16\". Without it sources \
          cannot reach loopback, private, link-local and other special addresses.",
        &ALLOWED_PRIVATE_HOSTS,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.http_proxy",
        c"Proxy that sources connect through, http://host:port.",
        c"Empty: none; the environment's is not used.",
        &HTTP_PROXY,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.secret_key_file",
        c"File of the keys that secrets are encrypted under.",
        c"Made when the first secret is; only the server's user may have access to it. A relative path is one in the data \
          directory. Without the file the secrets cannot be decrypted: keep a copy of it, and give it to replicas.",
        &SECRET_KEY_FILE,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    define_scheduling();
    GucRegistry::define_int_guc(
        c"rag.ef_search",
        c"Candidates that a search of a rag_hnsw index keeps.",
        c"More find more of the true nearest neighbours and take proportionally longer: rag_index_recall() measures both. \
          At least as many as a query has LIMIT.",
        &EF_SEARCH,
        1,
        10_000,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"rag.iterative_scan",
        c"Whether a scan of a rag_hnsw index goes on when its first candidates are used up, as filters need it.",
        c"strict: yes, and rows come in the order of their distance, one found too late for that last; relaxed: yes, and such a row \
          comes when it is found; \
          off: no, so that a filtered query may return fewer rows than match.",
        &ITERATIVE_SCAN,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_scan_tuples",
        c"Vectors that a scan of a rag_hnsw index visits before it stops going on.",
        c"0: no limit. A limit bounds the time of queries whose filter few rows pass; they may return fewer rows than match.",
        &MAX_SCAN_TUPLES,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    reserve_prefix();
}

fn define_scheduling() {
    GucRegistry::define_bool_guc(
        c"rag.scheduler",
        c"Whether sources are synced by themselves.",
        c"Off: no schedules, retries, drift checks, queued runs and runs of new sources, in no database; rag_sync works. Needs \
          rag in shared_preload_libraries.",
        &SCHEDULER,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_running_syncs",
        c"Runs of sources that may be under way at the same time, in all databases together.",
        c"Each takes a background worker, one or more processes of rag-engine, and processor time of the model. Others wait.",
        &MAX_RUNNING_SYNCS,
        1,
        MAX_SLOTS as i32,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.fair_wait",
        c"Time that others wait for a slot before a run of a database or owner with more than its share gives way.",
        c"The run is stopped and queued again; what it has stored stays.",
        &FAIR_WAIT,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.trigger_delay",
        c"Time from the commit of a change to the run of a source that notes changes of its table by triggers.",
        c"Changes that are committed meanwhile are handled by the same run.",
        &TRIGGER_DELAY,
        0,
        60 * 60 * 1000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.lock_timeout",
        c"Longest time that a run waits for a lock of a table or row.",
        c"The run fails then, gives back its slot, and is tried again as after any other error. 0: no limit.",
        &LOCK_TIMEOUT,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.max_timeout",
        c"Longest timeout of a source that roles other than superusers can set.",
        c"It also limits the runs of sources of theirs that have a longer one already.",
        &MAX_TIMEOUT,
        1,
        2_073_600,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"rag.retry_delay",
        c"Time until a run that failed is tried again for the first time.",
        c"Doubled with each further try, up to an hour; up to half of it is left out at random, so that sources that failed \
          together are not tried together.",
        &RETRY_DELAY,
        1,
        60 * 60 * 1000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.drift_check_interval",
        c"Time between two checks of whether the stored documents of a source are those that were indexed.",
        c"0: never. Each check reads all documents and chunks of the source once.",
        &DRIFT_CHECK_INTERVAL,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"rag.successful_runs_history_limit",
        c"Completed runs of a source that rag.runs keeps.",
        c"50 are two days of hourly runs, or seven weeks of nightly ones, at some 30 kB a source. The last run always stays.",
        &SUCCESSFUL_RUNS_HISTORY_LIMIT,
        0,
        1_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.failed_runs_history_limit",
        c"Failed runs of a source that rag.runs keeps.",
        c"They are counted apart from the completed ones, so that neither push the others out.",
        &FAILED_RUNS_HISTORY_LIMIT,
        0,
        1_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// Makes a misspelt `rag.` setting an error (a warning before PostgreSQL 15).
#[allow(unsafe_code)]
fn reserve_prefix() {
    // SAFETY: called once from _PG_init with a static string.
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14"))]
        pg_sys::EmitWarningsOnPlaceholders(c"rag".as_ptr());
        #[cfg(not(any(feature = "pg13", feature = "pg14")))]
        pg_sys::MarkGUCPrefixReserved(c"rag".as_ptr());
    }
}

/// A setting's text, `None` where it is empty.
fn text(setting: &GucSetting<Option<CString>>) -> Option<String> {
    let value = setting.get()?;
    let text = CStr::to_string_lossy(&value).trim().to_string();
    (!text.is_empty()).then_some(text)
}

fn path(setting: &GucSetting<Option<CString>>) -> Option<PathBuf> {
    text(setting).map(PathBuf::from)
}

fn precision() -> Precision {
    match MODEL_PRECISION.get() {
        PrecisionSetting::int8 => Precision::Int8,
        PrecisionSetting::fp32 => Precision::Fp32,
    }
}

/// The model that `name` means, or the default one.
///
/// # Errors
/// No such model is installed.
pub fn model(name: Option<&str>) -> Result<ModelRef, Error> {
    let default =
        path(&MODEL_DIR).unwrap_or_else(|| install::models().join(install::DEFAULT_MODEL));
    let default_name = default
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let dir = match name {
        None => default,
        Some(name) if name == default_name => default,
        Some(name) => {
            let dir = install::models().join(name);
            if name.contains(['/', '\0']) || name.starts_with('.') || !dir.is_dir() {
                return Err(
                    Error::undefined(format!("model \"{name}\" does not exist")).hint(format!(
                        "Installed: {}. The setting rag.model_dir takes the folder of another one.",
                        install::model_names().join(", ")
                    )),
                );
            }
            dir
        }
    };
    Ok(ModelRef {
        dir,
        precision: precision(),
    })
}

/// `rag.model_dir`, where it is set.
pub fn model_dir() -> Option<PathBuf> {
    path(&MODEL_DIR)
}

/// MiB; 0: no limit.
pub fn engine_memory_limit() -> u64 {
    u64::try_from(ENGINE_MEMORY_LIMIT.get()).unwrap_or(0)
}

/// As the engine's option `--sandbox` takes it.
pub fn sandbox() -> &'static str {
    match SANDBOX.get() {
        Sandbox::on => "on",
        Sandbox::required => "required",
        Sandbox::off => "off",
    }
}

pub fn engine_path() -> PathBuf {
    path(&ENGINE_PATH).unwrap_or_else(install::engine)
}

pub fn onnxruntime_path() -> PathBuf {
    path(&ONNXRUNTIME_PATH).unwrap_or_else(install::onnxruntime)
}

/// The engine's options for reading PDFs.
pub fn pdf_options() -> [OsString; 4] {
    let reader = match PDF_READER.get() {
        PdfReader::auto => "auto",
        PdfReader::pdfium => "pdfium",
        PdfReader::pdf_extract => "pdf-extract",
    };
    let library = path(&PDFIUM_PATH).unwrap_or_else(install::pdfium);
    [
        "--pdf-reader".into(),
        reader.into(),
        "--pdfium".into(),
        library.into(),
    ]
}

pub fn engine_threads() -> usize {
    match usize::try_from(ENGINE_THREADS.get()) {
        Ok(threads) if threads > 0 => threads,
        _ => {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            (processors / 2).clamp(2, 8).min(processors)
        }
    }
}

pub fn max_file_bytes() -> u64 {
    u64::try_from(MAX_FILE_SIZE.get()).unwrap_or(0) * 1024
}

pub fn ingest_memory_bytes() -> u64 {
    u64::try_from(INGEST_MEMORY_LIMIT.get()).unwrap_or(0) * 1024 * 1024
}

/// Most bytes of one clone.
pub fn max_clone_bytes() -> u64 {
    u64::try_from(MAX_CLONE_SIZE.get()).unwrap_or(0) * 1024 * 1024
}

pub fn clone_cache_bytes() -> u64 {
    u64::try_from(CLONE_CACHE_SIZE.get()).unwrap_or(0) * 1024 * 1024
}

/// Where sources may connect to.
pub fn network() -> Network {
    let hosts = text(&ALLOWED_PRIVATE_HOSTS).unwrap_or_default();
    let hosts = hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    Network {
        allowed_private_hosts: hosts.map(String::from).collect(),
        proxy: text(&HTTP_PROXY),
    }
}

/// Relative to the data directory, which is every server process's working directory.
pub fn secret_key_file() -> PathBuf {
    path(&SECRET_KEY_FILE)
        .unwrap_or_else(|| PathBuf::from(DEFAULT_SECRET_KEY_FILE.to_string_lossy().into_owned()))
}

/// Whether sources are to be synced by themselves.
pub fn scheduler() -> bool {
    SCHEDULER.get()
}

pub fn max_running_syncs() -> u32 {
    u32::try_from(MAX_RUNNING_SYNCS.get()).unwrap_or(1)
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(u64::try_from(setting.get()).unwrap_or(0))
}

/// How long others wait before a run gives way.
pub fn fair_wait() -> Duration {
    milliseconds(&FAIR_WAIT)
}

pub fn trigger_delay() -> Duration {
    milliseconds(&TRIGGER_DELAY)
}

/// Zero: no limit.
pub fn lock_timeout() -> Duration {
    milliseconds(&LOCK_TIMEOUT)
}

/// The longest timeout of a source that a role which is no superuser can set.
pub fn max_timeout() -> Duration {
    Duration::from_secs(u64::try_from(MAX_TIMEOUT.get()).unwrap_or(0))
}

pub fn retry_delay() -> Duration {
    milliseconds(&RETRY_DELAY)
}

/// `None`: no checks.
pub fn drift_check_interval() -> Option<Duration> {
    u64::try_from(DRIFT_CHECK_INTERVAL.get())
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// Completed and failed runs that are kept of each source.
pub fn history_limits() -> (i64, i64) {
    (
        SUCCESSFUL_RUNS_HISTORY_LIMIT.get().into(),
        FAILED_RUNS_HISTORY_LIMIT.get().into(),
    )
}

pub fn ef_search() -> usize {
    usize::try_from(EF_SEARCH.get()).unwrap_or(1)
}

/// Returns one of the first three.
pub fn iterative_scan() -> IterativeScan {
    match ITERATIVE_SCAN.get() {
        IterativeScan::strict_order => IterativeScan::strict,
        IterativeScan::relaxed_order => IterativeScan::relaxed,
        other => other,
    }
}

/// 0: no limit.
pub fn max_scan_tuples() -> u64 {
    u64::try_from(MAX_SCAN_TUPLES.get()).unwrap_or(0)
}
