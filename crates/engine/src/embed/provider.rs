//! What computes a graph, and what it needs of the process: limits, files and devices.
//!
//! CUDA reserves hundreds of gigabytes of address space, none of which is memory. So the limit is
//! on the data of the process there, and another one on the memory of the graphics processor.

use std::path::{Path, PathBuf};

use ort::ep::{CUDA, ExecutionProviderDispatch};
use rag_protocol::{EngineError, ErrorKind};

use crate::process::Limit;

/// Maximum number of characters of a library's error that are shown.
const MAX_DETAIL: usize = 300;

/// The value of `rag.execution_provider`: what computes a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Provider {
    /// `Openvino` where it is installed and faster, and else `Cpu`.
    Auto,
    /// ONNX Runtime on the processor.
    Cpu,
    /// ONNX Runtime on a graphics processor.
    Cuda,
    /// OpenVINO for 32-bit graphs of models that embed, and `Cpu` for all others.
    Openvino,
}

/// Files and devices of a provider.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Files and folders that are read.
    pub read: Vec<PathBuf>,
    /// Devices that are read, written and controlled.
    pub control: Vec<PathBuf>,
}

impl Provider {
    /// The providers of a session, which takes at most this memory of a graphics processor, in
    /// bytes. One that is unavailable is an error, and none replaces it.
    pub fn dispatch(self, memory: Option<u64>) -> Vec<ExecutionProviderDispatch> {
        match self {
            Self::Auto | Self::Cpu | Self::Openvino => vec![],
            Self::Cuda => {
                let cuda = match memory.and_then(|bytes| usize::try_from(bytes).ok()) {
                    Some(bytes) => CUDA::default().with_memory_limit(bytes),
                    None => CUDA::default(),
                };
                vec![cuda.build().error_on_failure()]
            }
        }
    }

    /// Returns the limit of the process for this maximum of its memory, in bytes.
    pub fn limit(self, bytes: u64) -> Limit {
        match self {
            Self::Auto | Self::Cpu | Self::Openvino => Limit::AddressSpace(bytes),
            Self::Cuda => Limit::Data(bytes),
        }
    }

    /// Returns what the provider opens besides ONNX Runtime's own files, on a system with this
    /// root.
    pub fn devices(self, root: &Path, library: &Path) -> Devices {
        let beside = || {
            let file = library.canonicalize();
            let folder = file.as_deref().unwrap_or(library).parent();
            folder.map(PathBuf::from).into_iter()
        };
        let under = |paths: &[&str]| paths.iter().map(|path| root.join(path)).collect();
        match self {
            Self::Auto | Self::Cpu | Self::Openvino => Devices::default(),
            Self::Cuda => {
                let mut read: Vec<PathBuf> = under(&CUDA_FILES);
                read.extend(beside());
                read.extend(linker_folders(root));
                Devices {
                    read,
                    control: entries(&root.join("dev"), "nvidia"),
                }
            }
        }
    }

    /// Returns the error for a session that could not be created with this provider, if it is not
    /// the one that every library has.
    pub fn refusal(self, detail: &str) -> Option<EngineError> {
        if self != Self::Cuda {
            return None;
        }
        let message = "the model could not be loaded by execution provider \"cuda\"";
        let hint = if detail.contains("out of memory") || detail.contains("OUT_OF_MEMORY") {
            "The processor's memory or rag.engine_memory_limit is too small for the model and \
             its texts."
        } else {
            "Set rag.onnxruntime_library to a library that was built with it, or set \
             rag.execution_provider to cpu."
        };
        Some(
            EngineError::new(ErrorKind::Unsupported, message)
                .detail(sense(detail))
                .hint(hint),
        )
    }
}

/// What CUDA and its driver read about devices, memory and this process.
const CUDA_FILES: [&str; 14] = [
    "proc/driver/nvidia",
    "proc/driver/nvidia-uvm",
    "proc/devices",
    "proc/meminfo",
    "proc/modules",
    "proc/self",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/mmap_min_addr",
    "proc/sys/vm/overcommit_memory",
    "sys/class/infiniband",
    "sys/devices/system",
    "sys/kernel/mm/transparent_hugepage",
    "sys/module",
    "etc/nvidia",
];

/// Returns the entries of a folder whose names begin with a text.
fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// Returns the folders in which the dynamic linker finds libraries that are in none of its own.
fn linker_folders(root: &Path) -> Vec<PathBuf> {
    let mut files = entries(&root.join("etc/ld.so.conf.d"), "");
    files.push(root.join("etc/ld.so.conf"));
    let lines = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut folders: Vec<PathBuf> = lines
        .filter_map(|line| Some(root.join(line.trim().strip_prefix('/')?)))
        .filter(|folder| folder.is_dir() && folder != root)
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Returns what an error of ONNX Runtime says, without the places of its source code.
fn sense(detail: &str) -> String {
    let cut = |text: &str| -> String { text.chars().take(MAX_DETAIL).collect() };
    if let Some(at) = detail.find("CUDA failure") {
        let failure = detail[at..].split([';', '\n']).next().unwrap_or_default();
        let call = detail[at..]
            .split_once("expr=")
            .and_then(|(_, call)| call.split([';', '\n']).next())
            .and_then(|call| call.split('(').next());
        return cut(&match call.map(str::trim).filter(|call| !call.is_empty()) {
            Some(call) => format!("{call}: {}", failure.trim()),
            None => failure.trim().into(),
        });
    }
    for prefix in ["with error: ", "when using "] {
        if let Some((_, rest)) = detail.split_once(prefix) {
            return cut(rest.lines().next().unwrap_or(rest).trim());
        }
    }
    // "file:line function message"
    let line = detail.lines().next().unwrap_or_default();
    cut(line.trim())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn graphics_processors_are_not_limited_by_address_space() {
        assert_eq!(Provider::Cpu.limit(7), Limit::AddressSpace(7));
        assert_eq!(Provider::Cuda.limit(7), Limit::Data(7));
        assert_eq!(Provider::Openvino.limit(7), Limit::AddressSpace(7));
    }

    #[test]
    fn devices_and_libraries_of_the_provider_are_reached() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["dev/dri", "etc/ld.so.conf.d", "opt/cuda/lib64", "ort"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [
            "dev/nvidia0",
            "dev/nvidiactl",
            "dev/sda",
            "dev/dri/renderD128",
            "ort/libonnxruntime.so",
        ] {
            fs::write(root.join(file), "").unwrap();
        }
        let paths = "# CUDA\n/opt/cuda/lib64\n/gone\n/\ninclude x\n";
        fs::write(root.join("etc/ld.so.conf.d/cuda.conf"), paths).unwrap();
        let library = root.join("ort/libonnxruntime.so");
        let devices = |provider: Provider| provider.devices(&root, &library);

        assert_eq!(devices(Provider::Cpu), Devices::default());
        let cuda = devices(Provider::Cuda);
        assert_eq!(
            cuda.control,
            [root.join("dev/nvidia0"), root.join("dev/nvidiactl")]
        );
        for path in ["proc/self", "opt/cuda/lib64", "ort", "proc/driver/nvidia"] {
            assert!(cuda.read.contains(&root.join(path)), "{path}");
        }
        assert!(!cuda.read.contains(&root), "{:?}", cuda.read);
        assert_eq!(devices(Provider::Openvino), Devices::default());
    }

    #[test]
    fn details_are_short() {
        let failure = "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:129 \
            std::conditional_t<THRW, void, onnxruntime::common::Status> onnxruntime::CudaCall() \
            [with ERRTYPE = cudaError; bool THRW = true] CUDA failure 2: out of memory ; GPU=0 ; \
            hostname=db ; file=/onnxruntime_src/cuda_execution_provider.cc ; line=282 ; \
            expr=cudaSetDevice(info_.device_id); ";
        let error = Provider::Cuda.refusal(failure).unwrap();
        let detail = error.detail.unwrap();
        assert_eq!(detail, "cudaSetDevice: CUDA failure 2: out of memory");
        assert!(error.hint.unwrap().contains("rag.engine_memory_limit"));
        let missing = "/onnxruntime_src/provider_bridge_ort.cc:1844 TryGetProviderInfo_CUDA \
            Failed to load library libonnxruntime_providers_cuda.so with error: \
            libcublasLt.so.13: cannot open shared object file: No such file or directory\n";
        assert_eq!(
            sense(missing),
            "libcublasLt.so.13: cannot open shared object file: No such file or directory"
        );
        assert_eq!(sense(&"x".repeat(9000)).len(), MAX_DETAIL);
        assert!(Provider::Cpu.refusal("x").is_none());
    }
}
