//! What a process can reach inside its sandbox: `rag-engine sandbox-check` enters it like the other
//! commands.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use crate::common::{Engine, PROGRAM, embed, model, model_folder, onnxruntime, tiny};
use rag_definition::model::Precision;
use rag_protocol::{ErrorKind, embed::Priority};
use seccompiler::{SeccompAction, SeccompFilter};
use serde_json::json;
use tempfile::TempDir;

const FILES: [&str; 5] = [
    "PG_VERSION",
    "pg_rag/secret.key",
    "pg_rag/work/page",
    "docs/a.md",
    "model/config.json",
];

/// A data directory, with a folder of documents and a model beside it.
fn data() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for file in FILES {
        fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
        fs::write(root.path().join(file), "what is in a file").unwrap();
    }
    root
}

fn check(root: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .arg("sandbox-check")
        .args(arguments)
        .args(FILES)
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// The attempts that were allowed.
fn allowed(root: &Path, arguments: &[&str], input: &str) -> Vec<String> {
    let output = check(root, arguments, input);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{lines}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!lines.contains("missing"), "{lines}");
    assert_eq!(lines.lines().count(), 2 * FILES.len() + 10, "{lines}");
    let denied = |line: &&str| line.ends_with(": Permission denied (os error 13)");
    let (_, rest): (Vec<&str>, Vec<&str>) = lines.lines().partition(denied);
    rest.into_iter()
        .map(|line| line.strip_suffix(": allowed").unwrap_or(line).to_string())
        .collect()
}

#[test]
fn an_extractor_reaches_nothing() {
    let root = data();
    let nothing: [&str; 0] = [];
    assert_eq!(allowed(root.path(), &["extract"], ""), nothing);
}

#[test]
fn a_call_of_a_model_reaches_the_network_alone() {
    let root = data();
    let expected = ["internet socket", "listening socket"];
    assert_eq!(allowed(root.path(), &["call"], ""), expected);
}

#[test]
fn the_embedding_engine_can_read_models_and_start_itself() {
    let root = data();
    let arguments = ["embed", "--model-dir", "model"];
    assert_eq!(
        allowed(root.path(), &arguments, ""),
        ["read model/config.json", "own program"]
    );
}

#[test]
fn a_run_can_reach_its_source_its_folders_and_the_network() {
    let root = data();
    let path = root.path();
    let job = job(&path.join("docs"));
    let expected = [
        "read pg_rag/work/page",
        "write pg_rag/work/page.new",
        "read docs/a.md",
        "read model/config.json",
        "internet socket",
        "listening socket",
        "own program",
    ];
    assert_eq!(allowed(path, &["ingest"], &job.to_string()), expected);
}

#[test]
fn a_folder_around_the_data_directory_is_read_without_it() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("cluster/data");
    for file in FILES {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "what is in a file").unwrap();
    }
    for file in ["cluster/notes.md", "docs/b.md"] {
        fs::create_dir_all(outer.path().join(file).parent().unwrap()).unwrap();
        fs::write(outer.path().join(file), "what is in a file").unwrap();
    }
    std::os::unix::fs::symlink("data", outer.path().join("cluster/latest")).unwrap();
    let job = job(outer.path());
    let arguments = [
        "ingest",
        "../notes.md",
        "../../docs/b.md",
        "../latest/PG_VERSION",
    ];
    let output = check(&root, &arguments, &job.to_string());
    let lines = String::from_utf8(output.stdout).unwrap();
    let read: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("read ")?.strip_suffix(": allowed"))
        .collect();
    let own = ["pg_rag/work/page", "model/config.json"];
    assert_eq!(
        read,
        ["../notes.md", "../../docs/b.md", own[0], own[1]],
        "{lines}"
    );
}

/// A job whose source is a folder.
fn job(folder: &Path) -> serde_json::Value {
    json!({
        "source": {"kind": "folder", "path": folder, "filter": {"paths": [], "excludePaths": []}},
        "known": {}, "splitting": {"chunk_size": 10, "chunk_overlap": 0}, "tokens": {"tokenizer": "model"},
        "work_dir": "pg_rag/work", "clones": {"dir": "pg_rag/clones", "max_bytes": 0,
            "max_clone_bytes": 0}, "credentials": null,
        "network": {"allowed_private_hosts": [], "proxy": null},
        "limits": {"max_file_bytes": 1, "memory_bytes": null, "cpu_seconds": null,
            "file_size_bytes": null,
                   "wall_seconds": null}
    })
}

#[test]
fn without_a_sandbox_everything_is_reachable() {
    let root = data();
    let all = allowed(root.path(), &["extract", "--sandbox", "off"], "");
    assert_eq!(all.len(), 2 * FILES.len() + 10);
}

/// Runs `f` as if the kernel had no Landlock.
fn without_landlock<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let calls = [libc::SYS_landlock_create_ruleset].map(|call| (call, vec![]));
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let refusal = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(
        BTreeMap::from(calls),
        SeccompAction::Allow,
        refusal,
        architecture,
    )
    .unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    // A filter applies to the thread, and to the processes that it starts.
    thread::scope(|scope| {
        let run = move || {
            seccompiler::apply_filter(&program).unwrap();
            f()
        };
        scope.spawn(run).join().unwrap()
    })
}

#[test]
fn missing_kernel_features_are_reported_and_an_error_if_required() {
    let root = data();
    without_landlock(|| {
        let on = check(root.path(), &["extract"], "");
        let lines = String::from_utf8(on.stdout).unwrap();
        assert!(
            lines.contains("missing: The kernel does not restrict files"),
            "{lines}"
        );
        assert!(
            lines.contains("Unix socket: Permission denied"),
            "the other half holds: {lines}"
        );
        let required = check(root.path(), &["extract", "--sandbox", "required"], "");
        assert!(!required.status.success());
        assert!(
            String::from_utf8_lossy(&required.stderr).contains("Landlock"),
            "{required:?}"
        );
    });
}

#[test]
fn an_engine_without_its_required_sandbox_reports_that() {
    let Some(library) = onnxruntime() else { return };
    let dir = model_folder();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let tiny = model(dir.path(), Precision::Fp32);
    let text = embed(Priority::Query, &["red"]);
    without_landlock(|| {
        let engine = Engine::start(&library);
        engine.ask(&tiny, text.clone()).unwrap();
        assert!(
            engine
                .log()
                .contains("WARN The kernel does not restrict files"),
            "{}",
            engine.log()
        );
        let engine = Engine::start_with(&library, &["--sandbox", "required"]);
        let error = engine.ask(&tiny, text.clone()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.detail.unwrap().contains("Landlock"));
    });
    let engine = Engine::start_with(&library, &["--sandbox", "required"]);
    engine.ask(&tiny, text).unwrap();
    assert!(!engine.log().contains("WARN"), "{}", engine.log());
}

#[test]
fn a_model_elsewhere_is_out_of_reach() {
    let Some(library) = onnxruntime() else { return };
    // Beside the folder of models, wherever the programs of the tests are.
    let dir = tempfile::tempdir().unwrap();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let engine = Engine::start(&library);
    let error = engine
        .ask(
            &model(dir.path(), Precision::Fp32),
            embed(Priority::Query, &["red"]),
        )
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfReach);
}
