//! All settings: names, limits, who sets them, and descriptions.

use pgrx::GucFlags;

use super::{
    ALLOW_INSTANCE_IDENTITY, ALLOWED_PRIVATE_HOSTS, BUNDLE_FOLDERS, CHAT_MODEL, CLONE_CACHE_SIZE,
    DRIFT_CHECK_INTERVAL, EF_SEARCH, EMBEDDING_CACHE_SIZE, ENABLE_COUNT_SCAN, ENABLE_FILTERED_SCAN,
    ENGINE_MEMORY_LIMIT, ENGINE_PATH, ENGINE_THREADS, EXECUTION_PROVIDER,
    FAILED_RUNS_HISTORY_LIMIT, FAIR_WAIT, HTTP_PROXY, INGEST_MEMORY_LIMIT, ITERATIVE_SCAN,
    LOCK_TIMEOUT, MAX_CLONE_SIZE, MAX_EF_SEARCH, MAX_FILE_SIZE, MAX_RUNNING_SYNCS, MAX_SCAN_TUPLES,
    MAX_SLOTS, MAX_TIMEOUT, MODEL_DIR, MODEL_MEMORY, MODEL_PRECISION, OCR, OCR_LANGUAGES,
    OCR_TIMEOUT, ONNXRUNTIME_LIBRARY, PDFIUM_PATH, RETRY_DELAY, SANDBOX, SCHEDULER,
    SECRET_KEY_FILE, STALL_TIMEOUT, SUCCESSFUL_RUNS_HISTORY_LIMIT, TRIGGER_DELAY,
    define::{
        Choice, Number,
        SetBy::{Anybody, ConfigurationFile, Superuser},
        Setting, Switch, Text,
    },
};

const NONE: GucFlags = GucFlags::empty();

pub static SETTINGS: [Setting; 40] = [
    Setting {
        name: c"rag.model_dir",
        value: &Text(&MODEL_DIR),
        set_by: Superuser,
        flags: NONE,
        summary: c"Sets the folder of the embedding model.",
        details: c"This is a sentence-transformers folder on the server. It must contain \
              tokenizer.json, config.json, and a graph: model_int8.onnx or model.onnx, as \
              rag.model_precision says. If empty, the model that was installed with the extension \
              is used.",
    },
    Setting {
        name: c"rag.model_precision",
        value: &Choice(&MODEL_PRECISION),
        set_by: Superuser,
        flags: NONE,
        summary: c"Sets the precision of the embedding model.",
        details:
            c"int8 uses 8-bit weights with one scale per output channel. It is two to three times \
              as fast as fp32, the original weights.",
    },
    Setting {
        name: c"rag.engine_path",
        value: &Text(&ENGINE_PATH),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Sets the path of the program rag-engine.",
        details: c"If empty, the file that was installed with the extension is used.",
    },
    Setting {
        name: c"rag.onnxruntime_library",
        value: &Text(&ONNXRUNTIME_LIBRARY),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Sets the path of the ONNX Runtime library.",
        details:
            c"If empty, the file that was installed with the extension is used. It computes on the \
              processor. Libraries for graphics processors are beside their providers' libraries.",
    },
    Setting {
        name: c"rag.execution_provider",
        value: &Choice(&EXECUTION_PROVIDER),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Selects what computes local models.",
        details: c"With cpu, ONNX Runtime computes on the processor. With cuda, it computes on a \
              graphics processor, and needs a library that was built for that, which \
              rag.onnxruntime_library names. With openvino, OpenVINO computes embedding models in \
              32 bits, and ONNX Runtime all others. With auto, it is openvino where it is \
              installed and the processor has instructions for bfloat16, and cpu elsewhere. Models \
              cannot be loaded where cuda or openvino is unavailable, or where OpenVINO computes \
              other embeddings than ONNX Runtime.",
    },
    Setting {
        name: c"rag.model_memory",
        value: &Number(&MODEL_MEMORY, 1..=1024 * 1024),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MB,
        summary: c"Limits the memory of the local models that are loaded at the same time.",
        details:
            c"The least recently used ones are dropped, and loaded again when they are needed. A \
              model that needs more than the limit is refused.",
    },
    Setting {
        name: c"rag.pdfium_path",
        value: &Text(&PDFIUM_PATH),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Sets the path of the PDFium library.",
        details:
            c"If empty, the file that was installed with the extension is used. PDFs are read with \
              pdf-extract if the library cannot be loaded. It reads fewer files, and extracts \
              their text less well.",
    },
    Setting {
        name: c"rag.ocr",
        value: &Choice(&OCR),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Selects when text is recognized in pictures.",
        details: c"auto: in pages of PDFs, if Tesseract is installed on the server. all: in files \
              that are pictures, too. off: never. Sources follow a change with their next run, \
              rag_add_document when the engine is started again.",
    },
    Setting {
        name: c"rag.ocr_languages",
        value: &Text(&OCR_LANGUAGES),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Sets the languages of text recognition.",
        details:
            c"These are the codes of Tesseract, with a plus sign between two: eng+deu. The data of \
              each must be installed. Each language takes time.",
    },
    Setting {
        name: c"rag.ocr_timeout",
        value: &Number(&OCR_TIMEOUT, 1..=86_400),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_S,
        summary: c"Sets how long the text of a document may be recognized.",
        details: c"Pages that are not read by then are a warning.",
    },
    Setting {
        name: c"rag.engine_threads",
        value: &Number(&ENGINE_THREADS, 0..=256),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Sets the number of threads that compute embeddings for the whole cluster.",
        details:
            c"0 means half the number of processors, but at least 2 and at most 8. More threads \
              make syncs faster and leave less processor time to queries.",
    },
    Setting {
        name: c"rag.engine_memory_limit",
        value: &Number(&ENGINE_MEMORY_LIMIT, 0..=1024 * 1024),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MB,
        summary: c"Limits the address space of the process that computes embeddings.",
        details:
            c"0 means no limit. The process reserves several times the memory that it uses. If it \
              reaches the limit, it ends and is started again. Models larger than about 2 GB need \
              a higher limit. If rag.execution_provider is cuda, it limits the data of the process \
              instead, and the memory that a model takes of the graphics processor.",
    },
    Setting {
        name: c"rag.sandbox",
        value: &Choice(&SANDBOX),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Runs the processes of rag-engine in a sandbox.",
        details:
            c"on uses what the kernel supports of Landlock and seccomp, and logs once what is \
              missing. required refuses to read or embed anything if something is missing. off \
              disables the sandbox.",
    },
    Setting {
        name: c"rag.max_file_size",
        value: &Number(&MAX_FILE_SIZE, 1..=2 * 1024 * 1024 - 1),
        set_by: Superuser,
        flags: GucFlags::UNIT_KB,
        summary: c"Sets the maximum size of a file that a source reads.",
        details: c"Larger files are skipped and listed in rag.run_errors.",
    },
    Setting {
        name: c"rag.ingest_memory_limit",
        value: &Number(&INGEST_MEMORY_LIMIT, 256..=1024 * 1024),
        set_by: Superuser,
        flags: GucFlags::UNIT_MB,
        summary:
            c"Limits the address space of the process that fetches and reads the documents of a \
              run.",
        details: c"A run that needs more fails. Other runs are not affected.",
    },
    Setting {
        name: c"rag.clone_cache_size",
        value: &Number(&CLONE_CACHE_SIZE, 0..=1024 * 1024),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MB,
        summary: c"Sets the total size of the git clones that are kept between runs.",
        details:
            c"The least recently used clones are removed first. Their next run clones them again.",
    },
    Setting {
        name: c"rag.embedding_cache_size",
        value: &Number(&EMBEDDING_CACHE_SIZE, 0..=64 * 1024),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MB,
        summary: c"Sets the size of the cache of embeddings of each database.",
        details:
            c"Texts that were embedded before are not embedded again, even if their collection was \
              dropped. The oldest embeddings make room. 0 caches none.",
    },
    Setting {
        name: c"rag.max_clone_size",
        value: &Number(&MAX_CLONE_SIZE, 1..=1024 * 1024),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MB,
        summary: c"Sets the maximum size of the clone of a git repository.",
        details: c"A fetch that would exceed it is stopped, and the run fails.",
    },
    Setting {
        name: c"rag.bundle_folders",
        value: &Text(&BUNDLE_FOLDERS),
        set_by: Superuser,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Lists the folders that collections can be exported to and imported from.",
        details:
            c"The list is separated by commas, and the paths are absolute. Folders below these are \
              allowed, too, but no symbolic links. If empty, rag_export_collection and \
              rag_import_collection do not work.",
    },
    Setting {
        name: c"rag.allowed_private_hosts",
        value: &Text(&ALLOWED_PRIVATE_HOSTS),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Lists the private hosts, addresses and networks that can be connected to.",
        details: c"The list is separated by commas, for example \"wiki.local, *.corp.example, \
              10.1.2.3:8080, 192.168.0.0/16\". Sources and models cannot be at other loopback, \
              private, link-local and special addresses.",
    },
    Setting {
        name: c"rag.allow_instance_identity",
        value: &Switch(&ALLOW_INSTANCE_IDENTITY),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Allows sources to use the identity of the server's machine.",
        details: c"A source in object storage with \"instanceIdentity\" then reads what the \
              machine's role in its cloud may read. The rights of the source's owner do not \
              limit that.",
    },
    Setting {
        name: c"rag.http_proxy",
        value: &Text(&HTTP_PROXY),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Sets the proxy for sources and models, as http://host:port.",
        details: c"If empty, no proxy is used. Proxies named in the environment are ignored.",
    },
    Setting {
        name: c"rag.secret_key_file",
        value: &Text(&SECRET_KEY_FILE),
        set_by: ConfigurationFile,
        flags: GucFlags::SUPERUSER_ONLY,
        summary: c"Sets the file of the keys that encrypt secrets.",
        details:
            c"The file is created with the first secret. Only the server's user may have access to \
              it. A relative path starts at the data directory. Without the file, secrets cannot \
              be decrypted: keep a backup of it, and copy it to replicas.",
    },
    Setting {
        name: c"rag.chat_model",
        value: &Text(&CHAT_MODEL),
        set_by: Anybody,
        flags: NONE,
        summary: c"Sets the chat model of answers that name none.",
        details:
            c"This is the name of a model of kind chat, which the caller must be allowed to use.",
    },
    Setting {
        name: c"rag.scheduler",
        value: &Switch(&SCHEDULER),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Enables scheduled syncs, retries and drift checks.",
        details:
            c"If off, no database starts runs automatically, which includes queued runs and the \
              first runs of new sources. rag_sync still works. The scheduler requires rag in \
              shared_preload_libraries.",
    },
    Setting {
        name: c"rag.max_running_syncs",
        value: &Number(&MAX_RUNNING_SYNCS, 1..=MAX_SLOTS as i32),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Sets the maximum number of simultaneous runs in all databases together.",
        details: c"Each run uses a background worker, one or more processes of rag-engine, and \
              processor time of the model. Further runs wait.",
    },
    Setting {
        name: c"rag.fair_wait",
        value: &Number(&FAIR_WAIT, 0..=i32::MAX),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MS,
        summary:
            c"Sets the time that runs wait for a slot before a run with more than its share gives \
              way.",
        details:
            c"The run of a database or owner with more than its share is stopped and queued again. \
              It keeps what it has stored.",
    },
    Setting {
        name: c"rag.trigger_delay",
        value: &Number(&TRIGGER_DELAY, 0..=60 * 60 * 1000),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MS,
        summary: c"Sets the time from a change of a table to the run of its source.",
        details:
            c"It applies to sources that record changes by triggers, and counts from the commit. \
              One run handles all changes that are committed in the meantime.",
    },
    Setting {
        name: c"rag.lock_timeout",
        value: &Number(&LOCK_TIMEOUT, 0..=i32::MAX),
        set_by: Superuser,
        flags: GucFlags::UNIT_MS,
        summary: c"Sets the maximum time that a run waits for a lock on a table or row.",
        details:
            c"After that the run fails and releases its slot. It is retried as after any other \
              error. 0 means no limit.",
    },
    Setting {
        name: c"rag.stall_timeout",
        value: &Number(&STALL_TIMEOUT, 0..=i32::MAX),
        set_by: Superuser,
        flags: GucFlags::UNIT_S,
        summary:
            c"Sets the time without progress after which rag_status reports a run or a session.",
        details:
            c"A session makes no progress if it waits for rag-engine. The log has a line for each. \
              The metric rag_runs_stalled counts the runs. 0 means that none is reported.",
    },
    Setting {
        name: c"rag.max_timeout",
        value: &Number(&MAX_TIMEOUT, 1..=2_073_600),
        set_by: Superuser,
        flags: GucFlags::UNIT_S,
        summary: c"Sets the maximum timeout of a source for roles that are not superusers.",
        details: c"It also limits the runs of their existing sources that have a longer timeout.",
    },
    Setting {
        name: c"rag.retry_delay",
        value: &Number(&RETRY_DELAY, 1..=60 * 60 * 1000),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_MS,
        summary: c"Sets the delay before the first retry of a failed run.",
        details:
            c"The delay doubles with each retry, up to one hour. Each delay is shortened by a \
              random part of up to one half, so that sources that failed together are not retried \
              together.",
    },
    Setting {
        name: c"rag.drift_check_interval",
        value: &Number(&DRIFT_CHECK_INTERVAL, 0..=i32::MAX),
        set_by: ConfigurationFile,
        flags: GucFlags::UNIT_S,
        summary: c"Sets the interval between two drift checks of a source.",
        details:
            c"A drift check compares the stored documents and chunks with what was indexed. It \
              reads all of them once. 0 disables the checks.",
    },
    Setting {
        name: c"rag.successful_runs_history_limit",
        value: &Number(&SUCCESSFUL_RUNS_HISTORY_LIMIT, 0..=1_000_000),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Sets the number of completed runs that rag.runs keeps for each source.",
        details:
            c"50 runs cover two days of hourly runs, or seven weeks of nightly runs, and take \
              about 30 kB for each source. The last run is always kept.",
    },
    Setting {
        name: c"rag.failed_runs_history_limit",
        value: &Number(&FAILED_RUNS_HISTORY_LIMIT, 0..=1_000_000),
        set_by: ConfigurationFile,
        flags: NONE,
        summary: c"Sets the number of failed runs that rag.runs keeps for each source.",
        details: c"Failed runs are counted separately from completed runs.",
    },
    Setting {
        name: c"rag.ef_search",
        value: &Number(&EF_SEARCH, 1..=MAX_EF_SEARCH as i32),
        set_by: Anybody,
        flags: NONE,
        summary: c"Sets the number of candidates that a search of a rag_hnsw index keeps.",
        details:
            c"More candidates find more of the true nearest neighbors, and take proportionally \
              longer. rag_hnsw_recall() measures both. A scan keeps at least as many candidates \
              as the LIMIT of its query.",
    },
    Setting {
        name: c"rag.iterative_scan",
        value: &Choice(&ITERATIVE_SCAN),
        set_by: Anybody,
        flags: NONE,
        summary:
            c"Sets whether a scan of a rag_hnsw index continues when its first candidates are used \
              up.",
        details:
            c"Filtered queries need more candidates. strict continues and returns rows in the \
              order of their distance. Rows that are found too late for that come last. relaxed \
              continues and returns such rows when it finds them. off stops, so a filtered query \
              may return fewer rows than match.",
    },
    Setting {
        name: c"rag.max_scan_tuples",
        value: &Number(&MAX_SCAN_TUPLES, 0..=i32::MAX),
        set_by: Anybody,
        flags: NONE,
        summary: c"Sets the number of vectors after which a scan of a rag_hnsw index stops.",
        details:
            c"0 means no limit. A limit bounds the time of queries whose filter matches few rows. \
              Such queries may return fewer rows than match.",
    },
    Setting {
        name: c"rag.enable_count_scan",
        value: &Switch(&ENABLE_COUNT_SCAN),
        set_by: Anybody,
        flags: NONE,
        summary: c"Enables the planner's use of plans that count rows by a keyword index.",
        details:
            c"SELECT count(*) FROM t WHERE body @@@ 'words' then reads only those rows of the \
              table that not all transactions see.",
    },
    Setting {
        name: c"rag.enable_filtered_scan",
        value: &Switch(&ENABLE_FILTERED_SCAN),
        set_by: Anybody,
        flags: NONE,
        summary: c"Enables the planner's use of plans that rank the rows of a filter.",
        details:
            c"For a keyword search, another index finds the rows that satisfy the filter, and the \
              rag_bm25 index ranks them. A vector search begins with the rag_hnsw index. If that \
              does not find enough rows, all rows that satisfy the filter are ranked.",
    },
];
