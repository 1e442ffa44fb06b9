//! Restricts what a process of the engine can reach, so that an exploited parser gets no further.
//!
//! | process | files that can be read | files that can be written | network |
//! |---|---|---|---|
//! | `embed` | folders of models, ONNX Runtime, OpenVINO, PDFium, system libraries | none | none |
//! | `extract` | none | none | none |
//! | `ingest` | the files of its source, the model's folder, certificates, the resolver's settings, PDFium, system libraries | its work folder, clones | IPv4 and IPv6 |
//! | `call` | certificates, the resolver's settings, system libraries | none | IPv4 and IPv6 |
//!
//! With another provider than `cpu`, `embed` also reaches the devices of graphics processors, what
//! their drivers read, and the folders of their libraries.
//!
//! `extract` loads PDFium, and Tesseract with its data, before it enters. `embed` opens its socket
//! before it enters. `embed` and `ingest` may start their own program, as `extract`. None of them
//! can connect to a Unix socket, such as the server's own.
//!
//! Two features of Linux are used: [`files`] is Landlock, [`calls`] is seccomp. Both need
//! `no_new_privs`. Landlock restricts the calling thread and the threads that it starts, so a
//! process enters before it starts any.
//!
//! Paths are opened when the process enters. A folder that replaces another one later is not
//! reachable.

mod calls;
mod check;
mod files;
mod needed;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rag_definition::source::{ServerPath, SourceSpec};
use rag_protocol::{EngineError, ErrorKind, ingest::Job};

pub use self::check::check;
use crate::{embed::Provider, pdfs};

/// The value of `rag.sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// As far as the kernel supports it.
    On,
    /// A process that the kernel cannot restrict completely refuses to work.
    Required,
    Off,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Required => "required",
            Self::Off => "off",
        }
    }
}

/// System calls that are allowed in addition to those that are allowed everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Only work on open descriptors.
    Alone,
    /// Accepting connections, opening files, starting programs.
    Local,
    /// All of these, and the internet.
    Network,
    /// The internet, without starting programs.
    Requests,
}

/// What a process can reach inside the sandbox.
#[derive(Debug)]
pub struct Reach {
    calls: Calls,
    /// Files, and folders with all that is below them.
    read: Vec<PathBuf>,
    /// Folders whose names can be listed.
    list: Vec<PathBuf>,
    write: Vec<PathBuf>,
    /// Devices that can be read, written and controlled.
    control: Vec<PathBuf>,
    execute: Vec<PathBuf>,
}

/// The mode in which this process entered the sandbox.
static MODE: OnceLock<Mode> = OnceLock::new();

/// Returns true if this process is in a sandbox.
pub fn is_entered() -> bool {
    MODE.get().is_some_and(|mode| *mode != Mode::Off)
}

/// The option for a process that this one starts.
pub fn option() -> [&'static str; 2] {
    ["--sandbox", MODE.get().copied().unwrap_or(Mode::On).name()]
}

/// Settings of the resolver, and the folder in which systemd-resolved keeps some of them.
const RESOLVER: [&str; 8] = [
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
];

/// Certificates of authorities, never a folder that may also contain private keys.
const CERTIFICATES: [&str; 9] = [
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/var/lib/ca-certificates",
];

/// Files that ONNX Runtime reads to find processors and other devices.
const HARDWARE: [&str; 4] = [
    "/proc/cpuinfo",
    "/sys/devices",
    "/sys/bus/pci",
    "/sys/class/drm",
];

/// Files that every process needs that opens any.
const SYSTEM: [&str; 8] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/urandom",
];

impl Reach {
    /// The sandbox of `extract`, which reaches only the descriptors that it inherits.
    pub fn nothing() -> Self {
        Self {
            calls: Calls::Alone,
            read: vec![],
            list: vec![],
            write: vec![],
            control: vec![],
            execute: vec![],
        }
    }

    /// Of `embed`.
    pub fn of_embed(
        onnxruntime: &Path,
        openvino: &Path,
        models: &[PathBuf],
        provider: Provider,
    ) -> Self {
        let mut reach = Self::with_programs(Calls::Local);
        reach.read.extend(HARDWARE.iter().map(PathBuf::from));
        reach.read.extend(runtime(onnxruntime));
        reach.read.extend(openvino.parent().map(PathBuf::from));
        reach
            .read
            .extend(models.iter().flat_map(|folder| model(folder)));
        let devices = provider.devices(Path::new("/"), onnxruntime);
        reach.read.extend(devices.read);
        reach.control = devices.control;
        reach
    }

    /// The sandbox of `call`.
    pub fn of_call() -> Self {
        let mut reach = Self::with_programs(Calls::Requests);
        reach.add_network_files();
        reach.execute.clear();
        reach
    }

    /// The sandbox of `ingest`, whose folders exist.
    pub fn of_ingest(job: &Job) -> Self {
        let mut reach = Self::with_programs(Calls::Network);
        reach.add_network_files();
        let tokenizer = job.tokens.tokenizer.iter();
        reach
            .read
            .extend(tokenizer.flat_map(|folder| model(folder)));
        reach
            .write
            .extend([job.work_dir.clone(), job.clones.dir.clone()]);
        for ServerPath {
            path, is_folder, ..
        } in [&job.source]
            .into_iter()
            .chain(&job.further)
            .flat_map(SourceSpec::server_paths)
        {
            if is_folder {
                reach.folder(path);
            } else {
                reach.read.push(path.into());
                // a file is opened through its folder
                reach.list.extend(path.parent().map(PathBuf::from));
            }
        }
        reach.list.sort();
        reach.list.dedup();
        reach
    }

    /// Adds the settings of the resolver, and the certificates.
    fn add_network_files(&mut self) {
        self.read
            .extend(RESOLVER.iter().chain(&CERTIFICATES).map(PathBuf::from));
        let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
            .iter()
            .filter_map(std::env::var_os);
        self.read
            .extend(named.flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>()));
    }

    /// Adds a folder with all that is below it, except the data directory, which is the working
    /// directory. If that is below the folder, everything beside it is added; its files can be
    /// listed, not read.
    fn folder(&mut self, folder: &Path) {
        let (Ok(root), Ok(data)) = (folder.canonicalize(), Path::new(".").canonicalize()) else {
            return self.read.push(folder.into());
        };
        let Ok(way) = data.strip_prefix(&root) else {
            return self.read.push(root);
        };
        let mut above = root.clone();
        for name in way {
            let beside = fs::read_dir(&above).into_iter().flatten().flatten();
            // The target of a link is only reachable by its own path.
            let plain =
                beside.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
            self.read.extend(
                plain
                    .filter(|entry| entry.file_name() != name)
                    .map(|entry| entry.path()),
            );
            above.push(name);
        }
        self.list.push(root);
    }

    /// With the system's libraries, and this program, to start it as `extract`.
    fn with_programs(calls: Calls) -> Self {
        let libraries = mapped();
        let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        read.extend(pdfs::library().map(PathBuf::from));
        read.extend(pdfs::recognition_data());
        read.extend(
            libraries
                .iter()
                .filter_map(|library| library.parent())
                .map(PathBuf::from),
        );
        read.sort();
        read.dedup();
        // The dynamic linker is among the libraries.
        let mut execute = libraries;
        execute.push("/proc/self/exe".into());
        Self {
            calls,
            read,
            list: vec![],
            write: vec!["/dev/null".into()],
            control: vec![],
            execute,
        }
    }

    /// Restricts this process, which has one thread, and its future children. Returns what the
    /// kernel does not support.
    ///
    /// # Errors
    /// `Unsupported` if the mode is `required` and something is not supported.
    pub fn enter(&self, mode: Mode) -> Result<Vec<String>, EngineError> {
        let _ = MODE.set(mode);
        if mode == Mode::Off {
            return Ok(vec![]);
        }
        let missing: Vec<String> = [files::restrict(self), calls::restrict(self.calls)]
            .into_iter()
            .filter_map(Result::err)
            .collect();
        if mode == Mode::Required && !missing.is_empty() {
            return Err(EngineError::new(
                ErrorKind::Unsupported,
                "the kernel does not support the sandbox that rag.sandbox = required needs",
            )
            .detail(missing.join(" "))
            .hint(
                "With rag.sandbox = on, rag-engine uses only the restrictions that the kernel \
                supports.",
            ));
        }
        Ok(missing)
    }
}

/// Returns the shared libraries that this process has mapped.
fn mapped() -> Vec<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut libraries: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| {
            path.rsplit('/')
                .next()
                .is_some_and(|name| name.contains(".so"))
        })
        .map(PathBuf::from)
        .collect();
    libraries.sort();
    libraries.dedup();
    libraries
}

/// Returns ONNX Runtime's library and those that come with it.
fn runtime(library: &Path) -> Vec<PathBuf> {
    let mut files = vec![library.to_path_buf()];
    let canonical = fs::canonicalize(library).unwrap_or_else(|_| library.into());
    let beside = canonical
        .parent()
        .and_then(|folder| fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten();
    files.extend(beside.map(|entry| entry.path()).filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("libonnxruntime"))
    }));
    files
}

/// Returns a model's folder, and the files that symbolic links in it lead to, as in Hugging Face's
/// cache.
fn model(folder: &Path) -> Vec<PathBuf> {
    let mut reached = vec![folder.to_path_buf()];
    let parts = ["1_Pooling", "2_Dense", "onnx"].map(|part| folder.join(part));
    for folder in [folder.to_path_buf()].into_iter().chain(parts) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        reached.extend(
            links
                .map(|entry| entry.path())
                .filter(|path| path.is_file()),
        );
    }
    reached
}
