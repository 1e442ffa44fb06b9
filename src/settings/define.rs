//! The definitions of the settings: names, descriptions, limits and contexts.

use pgrx::{GucContext, GucFlags, GucRegistry};

use super::{
    ALLOWED_PRIVATE_HOSTS, BUNDLE_FOLDERS, CHAT_MODEL, CLONE_CACHE_SIZE, DRIFT_CHECK_INTERVAL,
    EF_SEARCH, EMBEDDING_CACHE_SIZE, ENABLE_FILTERED_SCAN, ENGINE_MEMORY_LIMIT, ENGINE_PATH,
    ENGINE_THREADS, EXECUTION_PROVIDER, FAILED_RUNS_HISTORY_LIMIT, FAIR_WAIT, HTTP_PROXY,
    INGEST_MEMORY_LIMIT, ITERATIVE_SCAN, LOCK_TIMEOUT, MAX_CLONE_SIZE, MAX_EF_SEARCH,
    MAX_FILE_SIZE, MAX_RUNNING_SYNCS, MAX_SCAN_TUPLES, MAX_SLOTS, MAX_TIMEOUT, MODEL_DIR,
    MODEL_MEMORY, MODEL_PRECISION, ONNXRUNTIME_LIBRARY, PDFIUM_PATH, RETRY_DELAY, SANDBOX,
    SCHEDULER, SECRET_KEY_FILE, STALL_TIMEOUT, SUCCESSFUL_RUNS_HISTORY_LIMIT, TRIGGER_DELAY,
};

/// Defines all settings and reserves their prefix.
pub fn define() {
    GucRegistry::define_string_guc(
        c"rag.model_dir",
        c"Sets the folder of the embedding model.",
        c"This is a sentence-transformers folder on the server. It must contain tokenizer.json, \
          config.json, and a graph: model_int8.onnx or model.onnx, as rag.model_precision says. \
          If empty, the model that was installed with the extension is used.",
        &MODEL_DIR,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"rag.model_precision",
        c"Sets the precision of the embedding model.",
        c"int8 uses 8-bit weights with one scale per output channel. It is two to three times as \
          fast as fp32, the original weights.",
        &MODEL_PRECISION,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"rag.engine_path",
        c"Sets the path of the program rag-engine.",
        c"If empty, the file that was installed with the extension is used.",
        &ENGINE_PATH,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.onnxruntime_library",
        c"Sets the path of the ONNX Runtime library.",
        c"If empty, the file that was installed with the extension is used. It computes on the \
          processor. Libraries for graphics processors are beside their providers' libraries.",
        &ONNXRUNTIME_LIBRARY,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_enum_guc(
        c"rag.execution_provider",
        c"Selects what computes local models.",
        c"cpu is ONNX Runtime on the processor. cuda is ONNX Runtime on a graphics processor, and \
          needs a library that was built with it, which rag.onnxruntime_library names. openvino \
          computes embedding models in 32 bits with OpenVINO, and all else as cpu does. auto is \
          openvino where it is installed and the processor has instructions for bfloat16, and cpu \
          elsewhere. cuda and openvino fail where they are unavailable, and openvino also if it \
          computes other embeddings than ONNX Runtime.",
        &EXECUTION_PROVIDER,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.model_memory",
        c"Limits the memory of the local models that are loaded at the same time.",
        c"The least recently used ones are dropped, and loaded again when they are needed. A model \
          that needs more than the limit is refused.",
        &MODEL_MEMORY,
        1,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_string_guc(
        c"rag.pdfium_path",
        c"Sets the path of the PDFium library.",
        c"If empty, the file that was installed with the extension is used. PDFs are read with \
          pdf-extract if the library cannot be loaded. It reads fewer files, and extracts their \
          text less well.",
        &PDFIUM_PATH,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_int_guc(
        c"rag.engine_threads",
        c"Sets the number of threads that compute embeddings for the whole cluster.",
        c"0 means half the number of processors, but at least 2 and at most 8. More threads make \
          syncs faster and leave less processor time to queries.",
        &ENGINE_THREADS,
        0,
        256,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.engine_memory_limit",
        c"Limits the address space of the process that computes embeddings.",
        c"0 means no limit. The process reserves several times the memory that it uses. If it \
          reaches the limit, it ends and is started again. Models larger than about 2 GB need a \
          higher limit. If rag.execution_provider is cuda, it limits the data of the process \
          instead, and the memory that a model takes of the graphics processor.",
        &ENGINE_MEMORY_LIMIT,
        0,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_enum_guc(
        c"rag.sandbox",
        c"Runs the processes of rag-engine in a sandbox.",
        c"on uses what the kernel supports of Landlock and seccomp, and logs once what is missing. \
          required refuses to read or embed anything if something is missing. off disables the \
          sandbox.",
        &SANDBOX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_file_size",
        c"Sets the maximum size of a file that a source reads.",
        c"Larger files are skipped and listed in rag.run_errors.",
        &MAX_FILE_SIZE,
        1,
        2 * 1024 * 1024 - 1,
        GucContext::Suset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"rag.ingest_memory_limit",
        c"Limits the address space of the process that fetches and reads the documents of a run.",
        c"A run that needs more fails. Other runs are not affected.",
        &INGEST_MEMORY_LIMIT,
        256,
        1024 * 1024,
        GucContext::Suset,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"rag.clone_cache_size",
        c"Sets the total size of the git clones that are kept between runs.",
        c"The least recently used clones are removed first. Their next run clones them again.",
        &CLONE_CACHE_SIZE,
        0,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"rag.embedding_cache_size",
        c"Sets the size of the cache of embeddings of each database.",
        c"Texts that were embedded before are not embedded again, even if their collection was \
          dropped. The oldest embeddings make room. 0 caches none.",
        &EMBEDDING_CACHE_SIZE,
        0,
        64 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"rag.max_clone_size",
        c"Sets the maximum size of the clone of a git repository.",
        c"A fetch that would exceed it is stopped, and the run fails.",
        &MAX_CLONE_SIZE,
        1,
        1024 * 1024,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_string_guc(
        c"rag.bundle_folders",
        c"Lists the folders that collections can be exported to and imported from.",
        c"The list is separated by commas, and the paths are absolute. Folders below these are \
          allowed, too, but no symbolic links. If empty, rag_export_collection and \
          rag_import_collection do not work.",
        &BUNDLE_FOLDERS,
        GucContext::Suset,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.allowed_private_hosts",
        c"Lists the private hosts, addresses and networks that can be connected to.",
        c"The list is separated by commas, for example \"wiki.local, *.corp.example, \
          10.1.2.3:8080, 192.168.0.0/16\". Sources and models cannot be at other loopback, \
          private, link-local and special addresses.",
        &ALLOWED_PRIVATE_HOSTS,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.http_proxy",
        c"Sets the proxy for sources and models, as http://host:port.",
        c"If empty, no proxy is used. Proxies named in the environment are ignored.",
        &HTTP_PROXY,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.secret_key_file",
        c"Sets the file of the keys that encrypt secrets.",
        c"The file is created with the first secret. Only the server's user may have access to it. \
          A relative path starts at the data directory. Without the file, secrets cannot be \
          decrypted: keep a backup of it, and copy it to replicas.",
        &SECRET_KEY_FILE,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"rag.chat_model",
        c"Sets the chat model of answers that name none.",
        c"This is the name of a model of kind chat, which the caller must be allowed to use.",
        &CHAT_MODEL,
        GucContext::Userset,
        GucFlags::default(),
    );
    define_scheduling();
    GucRegistry::define_int_guc(
        c"rag.ef_search",
        c"Sets the number of candidates that a search of a rag_hnsw index keeps.",
        c"More candidates find more of the true nearest neighbors, and take proportionally longer. \
          rag_index_recall() measures both. A scan keeps at least as many candidates as the LIMIT \
          of its query.",
        &EF_SEARCH,
        1,
        MAX_EF_SEARCH as i32,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"rag.iterative_scan",
        c"Sets whether a scan of a rag_hnsw index continues when its first candidates are used up.",
        c"Filtered queries need more candidates. strict continues and returns rows in the order of \
          their distance. Rows that are found too late for that come last. relaxed continues and \
          returns such rows when it finds them. off stops, so a filtered query may return fewer \
          rows than match.",
        &ITERATIVE_SCAN,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_scan_tuples",
        c"Sets the number of vectors after which a scan of a rag_hnsw index stops.",
        c"0 means no limit. A limit bounds the time of queries whose filter matches few rows. Such \
          queries may return fewer rows than match.",
        &MAX_SCAN_TUPLES,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"rag.enable_filtered_scan",
        c"Enables the planner's use of plans that restrict a keyword search to filtered rows.",
        c"Another index finds the rows that satisfy the filter, and the rag_bm25 index ranks them.",
        &ENABLE_FILTERED_SCAN,
        GucContext::Userset,
        GucFlags::default(),
    );
    crate::pg::compat::reserve_setting_prefix();
}

fn define_scheduling() {
    GucRegistry::define_bool_guc(
        c"rag.scheduler",
        c"Enables scheduled syncs, retries and drift checks.",
        c"If off, no database starts runs automatically, which includes queued runs and the first \
          runs of new sources. rag_sync still works. The scheduler requires rag in \
          shared_preload_libraries.",
        &SCHEDULER,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.max_running_syncs",
        c"Sets the maximum number of simultaneous runs in all databases together.",
        c"Each run uses a background worker, one or more processes of rag-engine, and processor \
          time of the model. Further runs wait.",
        &MAX_RUNNING_SYNCS,
        1,
        MAX_SLOTS as i32,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.fair_wait",
        c"Sets the time that runs wait for a slot before a run with more than its share gives way.",
        c"The run of a database or owner with more than its share is stopped and queued again. It \
          keeps what it has stored.",
        &FAIR_WAIT,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.trigger_delay",
        c"Sets the time from a change of a table to the run of its source.",
        c"It applies to sources that record changes by triggers, and counts from the commit. One \
          run handles all changes that are committed in the meantime.",
        &TRIGGER_DELAY,
        0,
        60 * 60 * 1000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.lock_timeout",
        c"Sets the maximum time that a run waits for a lock on a table or row.",
        c"After that the run fails and releases its slot. It is retried as after any other error. \
          0 means no limit.",
        &LOCK_TIMEOUT,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.stall_timeout",
        c"Sets the time without progress after which rag_status reports a run or a session.",
        c"A session makes no progress if it waits for rag-engine. The log has a line for each. The \
          metric rag_runs_stalled counts the runs. 0 means that none is reported.",
        &STALL_TIMEOUT,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"rag.max_timeout",
        c"Sets the maximum timeout of a source for roles that are not superusers.",
        c"It also limits the runs of their existing sources that have a longer timeout.",
        &MAX_TIMEOUT,
        1,
        2_073_600,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"rag.retry_delay",
        c"Sets the delay before the first retry of a failed run.",
        c"The delay doubles with each retry, up to one hour. Each delay is shortened by a random \
          part of up to one half, so that sources that failed together are not retried together.",
        &RETRY_DELAY,
        1,
        60 * 60 * 1000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"rag.drift_check_interval",
        c"Sets the interval between two drift checks of a source.",
        c"A drift check compares the stored documents and chunks with what was indexed. It reads \
          all of them once. 0 disables the checks.",
        &DRIFT_CHECK_INTERVAL,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    GucRegistry::define_int_guc(
        c"rag.successful_runs_history_limit",
        c"Sets the number of completed runs that rag.runs keeps for each source.",
        c"50 runs cover two days of hourly runs, or seven weeks of nightly runs, and take about \
          30 kB for each source. The last run is always kept.",
        &SUCCESSFUL_RUNS_HISTORY_LIMIT,
        0,
        1_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"rag.failed_runs_history_limit",
        c"Sets the number of failed runs that rag.runs keeps for each source.",
        c"Failed runs are counted separately from completed runs.",
        &FAILED_RUNS_HISTORY_LIMIT,
        0,
        1_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
}
