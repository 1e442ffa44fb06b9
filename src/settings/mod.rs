//! Settings of the extension (`rag.*`).

mod define;
mod table;

use std::{
    ffi::{CStr, CString, OsString},
    path::PathBuf,
    time::Duration,
};

use pgrx::{GucSetting, PostgresGucEnum};
use rag_definition::model::Precision;
use rag_protocol::{
    embed::{ModelOptions, ModelRef},
    ingest::Network,
};

pub use self::define::define;
use crate::{error::Error, pg::install};

/// The maximum of `rag.max_running_syncs`.
pub const MAX_SLOTS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum PrecisionSetting {
    int8,
    fp32,
}

/// How far the processes of rag-engine are restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum SandboxSetting {
    on,
    required,
    off,
}

/// What computes local models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum ProviderSetting {
    auto,
    cpu,
    cuda,
    openvino,
}

/// When text in pictures is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
enum OcrSetting {
    auto,
    all,
    off,
}

/// What an index scan does after it has returned the candidates of its first search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
#[allow(non_camel_case_types)] // the variants are what users type
pub enum IterativeScan {
    strict,
    relaxed,
    off,
    /// The names of pgvector.
    #[hidden = true]
    strict_order,
    #[hidden = true]
    relaxed_order,
}

static MODEL_DIR: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static MODEL_PRECISION: GucSetting<PrecisionSetting> =
    GucSetting::<PrecisionSetting>::new(PrecisionSetting::int8);
static ENGINE_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ONNXRUNTIME_LIBRARY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static EXECUTION_PROVIDER: GucSetting<ProviderSetting> =
    GucSetting::<ProviderSetting>::new(ProviderSetting::auto);
static MODEL_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(4096);
static PDFIUM_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static OCR: GucSetting<OcrSetting> = GucSetting::<OcrSetting>::new(OcrSetting::auto);
static OCR_LANGUAGES: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c"eng"));
static OCR_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(300);
static ENGINE_THREADS: GucSetting<i32> = GucSetting::<i32>::new(0);
static ENGINE_MEMORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(8192);
static SANDBOX: GucSetting<SandboxSetting> = GucSetting::<SandboxSetting>::new(SandboxSetting::on);
static MAX_FILE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(100 * 1024);
static INGEST_MEMORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(4096);
static MAX_CLONE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(4096);
static CLONE_CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(2048);
static ALLOW_INSTANCE_IDENTITY: GucSetting<bool> = GucSetting::<bool>::new(false);
static ALLOWED_PRIVATE_HOSTS: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(None);
static HTTP_PROXY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static SECRET_KEY_FILE: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(DEFAULT_SECRET_KEY_FILE));
static BUNDLE_FOLDERS: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static SCHEDULER: GucSetting<bool> = GucSetting::<bool>::new(true);
static MAX_RUNNING_SYNCS: GucSetting<i32> = GucSetting::<i32>::new(2);
static FAIR_WAIT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static TRIGGER_DELAY: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static LOCK_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static STALL_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(10 * 60);
static MAX_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(24 * 60 * 60);
static RETRY_DELAY: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static DRIFT_CHECK_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(24 * 60 * 60);
static SUCCESSFUL_RUNS_HISTORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(50);
static FAILED_RUNS_HISTORY_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(50);
static ENABLE_COUNT_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);
static ENABLE_FILTERED_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);
static EF_SEARCH: GucSetting<i32> = GucSetting::<i32>::new(80);
static ITERATIVE_SCAN: GucSetting<IterativeScan> =
    GucSetting::<IterativeScan>::new(IterativeScan::strict);
static EMBEDDING_CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(256);
static CHAT_MODEL: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static MAX_SCAN_TUPLES: GucSetting<i32> = GucSetting::<i32>::new(0);

/// A file in the runtime folder of the engine, relative to the data directory.
const DEFAULT_SECRET_KEY_FILE: &CStr = c"pg_rag/secret.key";

/// Returns the text of a setting, or None if it is empty.
fn text(setting: &GucSetting<Option<CString>>) -> Option<String> {
    let value = setting.get()?;
    let text = CStr::to_string_lossy(&value).trim().to_string();
    (!text.is_empty()).then_some(text)
}

fn path(setting: &GucSetting<Option<CString>>) -> Option<PathBuf> {
    text(setting).map(PathBuf::from)
}

/// Returns `rag.model_precision`.
pub fn precision() -> Precision {
    match MODEL_PRECISION.get() {
        PrecisionSetting::int8 => Precision::Int8,
        PrecisionSetting::fp32 => Precision::Fp32,
    }
}

fn default_model_dir() -> PathBuf {
    path(&MODEL_DIR).unwrap_or_else(|| install::models().join(install::DEFAULT_MODEL))
}

/// Returns the name of the model of collections that name none: that of its folder.
pub fn default_model_name() -> String {
    let dir = default_model_dir();
    let name = dir.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default().to_owned()
}

/// Returns the model of this name, or the default model.
///
/// # Errors
/// No such model is installed.
pub fn model(name: Option<&str>) -> Result<ModelRef, Error> {
    let default = default_model_dir();
    let default_name = default_model_name();
    let dir = match name {
        None => default,
        Some(name) if name == default_name => default,
        Some(name) => {
            let dir = install::models().join(name);
            if name.is_empty()
                || name.contains(['/', '\0'])
                || name.starts_with('.')
                || !dir.is_dir()
            {
                return Err(
                    Error::undefined(format!("model \"{name}\" does not exist")).hint(format!(
                        "Installed models: {}. To use another model, create it with \
                         rag_create_model, or set rag.model_dir to its folder.",
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
        options: ModelOptions::default(),
    })
}

/// Returns `rag.model_dir`, or None if it is not set.
pub fn model_dir() -> Option<PathBuf> {
    path(&MODEL_DIR)
}

/// Returns the limit in MiB. 0 means no limit.
pub fn engine_memory_limit() -> u64 {
    u64::try_from(ENGINE_MEMORY_LIMIT.get()).unwrap_or(0)
}

/// Returns the value of the engine's option `--sandbox`.
pub fn sandbox() -> &'static str {
    match SANDBOX.get() {
        SandboxSetting::on => "on",
        SandboxSetting::required => "required",
        SandboxSetting::off => "off",
    }
}

pub fn engine_path() -> PathBuf {
    path(&ENGINE_PATH).unwrap_or_else(install::engine)
}

fn onnxruntime_library() -> PathBuf {
    path(&ONNXRUNTIME_LIBRARY).unwrap_or_else(install::onnxruntime)
}

/// Returns the engine's options for loading models.
pub fn model_options() -> [OsString; 8] {
    let provider = match EXECUTION_PROVIDER.get() {
        ProviderSetting::auto => "auto",
        ProviderSetting::cpu => "cpu",
        ProviderSetting::cuda => "cuda",
        ProviderSetting::openvino => "openvino",
    };
    [
        "--onnxruntime".into(),
        onnxruntime_library().into_os_string(),
        "--execution-provider".into(),
        provider.into(),
        "--openvino".into(),
        install::openvino().into_os_string(),
        "--model-memory".into(),
        MODEL_MEMORY.get().to_string().into(),
    ]
}

/// Returns the engine's options for reading PDFs.
pub fn pdf_options() -> Vec<OsString> {
    let library = path(&PDFIUM_PATH).unwrap_or_else(install::pdfium);
    let mut options: Vec<OsString> = vec!["--pdfium".into(), library.into()];
    let languages = text(&OCR_LANGUAGES).filter(|languages| !languages.trim().is_empty());
    let ocr = OCR.get();
    if let (OcrSetting::auto | OcrSetting::all, Some(languages)) = (ocr, languages) {
        options.extend(["--ocr-languages".into(), languages.trim().into()]);
        options.extend(["--ocr-seconds".into(), OCR_TIMEOUT.get().to_string().into()]);
        if ocr == OcrSetting::all {
            options.push("--ocr-pictures".into());
        }
    }
    options
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

/// Returns the maximum size of one clone.
pub fn max_clone_bytes() -> u64 {
    u64::try_from(MAX_CLONE_SIZE.get()).unwrap_or(0) * 1024 * 1024
}

pub fn clone_cache_bytes() -> u64 {
    u64::try_from(CLONE_CACHE_SIZE.get()).unwrap_or(0) * 1024 * 1024
}

/// Returns the networks that sources may connect to.
pub fn network() -> Network {
    let hosts = text(&ALLOWED_PRIVATE_HOSTS).unwrap_or_default();
    let hosts = hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    Network {
        allowed_private_hosts: hosts.map(String::from).collect(),
        proxy: text(&HTTP_PROXY),
        silence_seconds: None,
    }
}

/// Returns true if sources may use the identity of the machine that the server runs on.
pub fn allow_instance_identity() -> bool {
    ALLOW_INSTANCE_IDENTITY.get()
}

/// Returns a path that may be relative to the data directory, the working directory of every
/// server process.
pub fn secret_key_file() -> PathBuf {
    path(&SECRET_KEY_FILE)
        .unwrap_or_else(|| PathBuf::from(DEFAULT_SECRET_KEY_FILE.to_string_lossy().into_owned()))
}

/// Returns the folders that collections are exported to and imported from.
pub fn bundle_folders() -> Vec<PathBuf> {
    let folders = text(&BUNDLE_FOLDERS).unwrap_or_default();
    let folders = folders.split(',').map(str::trim);
    folders
        .filter(|folder| folder.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Returns true if the planner may count rows by a keyword index.
pub fn enable_count_scan() -> bool {
    ENABLE_COUNT_SCAN.get()
}

/// Returns true if the planner may restrict keyword searches to rows that another index finds.
pub fn enable_filtered_scan() -> bool {
    ENABLE_FILTERED_SCAN.get()
}

/// Returns true if sources are synced automatically.
pub fn scheduler() -> bool {
    SCHEDULER.get()
}

pub fn max_running_syncs() -> u32 {
    u32::try_from(MAX_RUNNING_SYNCS.get()).unwrap_or(1)
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(u64::try_from(setting.get()).unwrap_or(0))
}

/// Returns the time that others wait for a slot before a run gives way.
pub fn fair_wait() -> Duration {
    milliseconds(&FAIR_WAIT)
}

pub fn trigger_delay() -> Duration {
    milliseconds(&TRIGGER_DELAY)
}

/// Returns zero for no limit.
pub fn lock_timeout() -> Duration {
    milliseconds(&LOCK_TIMEOUT)
}

/// Returns the maximum timeout of a source for roles that are not superusers.
pub fn max_timeout() -> Duration {
    Duration::from_secs(u64::try_from(MAX_TIMEOUT.get()).unwrap_or(0))
}

pub fn retry_delay() -> Duration {
    milliseconds(&RETRY_DELAY)
}

/// Returns the time without progress after which a run is reported, or None if none is.
pub fn stall_timeout() -> Option<Duration> {
    u64::try_from(STALL_TIMEOUT.get())
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// Returns None if checks are disabled.
pub fn drift_check_interval() -> Option<Duration> {
    u64::try_from(DRIFT_CHECK_INTERVAL.get())
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

/// Returns the number of completed and of failed runs that are kept for each source.
pub fn history_limits() -> (i64, i64) {
    (
        SUCCESSFUL_RUNS_HISTORY_LIMIT.get().into(),
        FAILED_RUNS_HISTORY_LIMIT.get().into(),
    )
}

/// Returns the maximum size of the cached embeddings of a database.
pub fn embedding_cache_bytes() -> u64 {
    u64::try_from(EMBEDDING_CACHE_SIZE.get()).unwrap_or(0) * 1024 * 1024
}

/// Returns the chat model of answers that name none, or None if it is not set.
pub fn chat_model() -> Option<String> {
    text(&CHAT_MODEL)
}

/// Maximum of `rag.ef_search`.
pub const MAX_EF_SEARCH: usize = 10_000;

pub fn ef_search() -> usize {
    usize::try_from(EF_SEARCH.get()).unwrap_or(1)
}

/// Returns `strict`, `relaxed` or `off`.
pub fn iterative_scan() -> IterativeScan {
    match ITERATIVE_SCAN.get() {
        IterativeScan::strict_order => IterativeScan::strict,
        IterativeScan::relaxed_order => IterativeScan::relaxed,
        other => other,
    }
}

/// Returns the number of vectors, or 0 for no limit.
pub fn max_scan_tuples() -> u64 {
    u64::try_from(MAX_SCAN_TUPLES.get()).unwrap_or(0)
}
