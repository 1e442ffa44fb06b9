//! Runs of `rag-engine ingest` over real folders. They need no model but its tokenizer, which the
//! tests create.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{
    PROGRAM, eventually,
    jobs::{Folder, documents, failures, name, run, start},
};
use rag_definition::source::SourceSpec;
use rag_protocol::{
    ErrorKind, frame,
    ingest::{Event, KnownVersion, Stage},
};
use serde_json::json;

#[test]
fn every_file_of_a_folder_is_reported_once() {
    let folder = Folder::new(&[
        ("colours.md", b"# Colours\n\nred green blue"),
        ("notes.txt", b"green"),
        ("page.html", b"<title>Page</title><p>blue</p>"),
        (
            "broken.txt",
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0 not text",
        ),
        ("old.txt", b"caf\xe9 green"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    ]);
    let (events, code) = run(&folder.job(HashMap::new()));
    assert_eq!(code, Some(0));
    let Event::Started {
        documents: announced,
        commit: None,
    } = events[0].0
    else {
        panic!("{:?}", events[0])
    };
    let Event::Finished {
        complete: true,
        skipped,
        ..
    } = &events.last().unwrap().0
    else {
        panic!("{events:?}")
    };

    let documents = documents(&events);
    let mut names: Vec<&str> = documents
        .iter()
        .map(|(document, _)| name(&document.uri))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["colours.md", "notes.txt", "old.txt", "page.html"]);
    let failures = failures(&events);
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(announced, documents.len() as u64 + skipped.total());

    let (colours, text) = documents
        .iter()
        .find(|(document, _)| document.uri.ends_with("colours.md"))
        .unwrap();
    assert_eq!(colours.content.title.text, "Colours");
    assert_eq!(colours.bytes, 25);
    assert_eq!(colours.raw_hash.len(), 64);
    assert!(!colours.content.chunks.is_empty() && text.contains("red green blue"));
    assert_eq!(colours.content.chunks[0].heading_path, ["Colours"]);
    let (old, text) = documents
        .iter()
        .find(|(document, _)| document.uri.ends_with("old.txt"))
        .unwrap();
    assert_eq!(
        (old.content.metadata["encoding"].as_str(), *text),
        (Some("windows-1252"), "café green")
    );
}

#[test]
fn many_documents_share_an_extractor_and_a_bomb_fails_alone() {
    let page =
        |i: usize| format!("<title>Page {i}</title><main><h1>{i}</h1><p>red green blue</p></main>");
    let folder = Folder::new(&[]);
    for i in 0..60 {
        folder.write(&format!("{i:02}.html"), page(i).as_bytes());
    }
    folder.write("30-bomb.pdf", &bomb());
    folder.write("31.rs", b"fn red() {\n    green();\n}\n");
    folder.write("32.csv", b"name,colour\nsky,blue\ngrass,green\n");
    folder.write("33.json", br#"[{"name": "sky", "colour": "blue"}]"#);
    let (events, code) = run(&folder.job(HashMap::new()));
    assert_eq!(code, Some(0));
    let failed: Vec<&str> = failures(&events)
        .iter()
        .map(|failure| name(&failure.uri))
        .collect();
    assert_eq!(failed, ["30-bomb.pdf"]);
    let documents = documents(&events);
    assert_eq!(documents.len(), 63);
    let find = |file: &str| {
        documents
            .iter()
            .find(|(document, _)| name(&document.uri) == file)
            .unwrap()
    };
    for i in 0..60 {
        let (document, text) = find(&format!("{i:02}.html"));
        assert_eq!(
            (document.content.title.text.clone(), *text),
            (format!("Page {i}"), &*format!("# {i}\n\nred green blue"))
        );
    }
    let (code, _) = find("31.rs");
    assert_eq!(code.content.metadata["language"], "rust");
    assert_eq!(
        find("32.csv").1,
        "name: sky\ncolour: blue\n\nname: grass\ncolour: green"
    );
    assert_eq!(find("33.json").1, "name: sky\ncolour: blue");
}

#[test]
fn unchanged_documents_are_not_read_again() {
    let folder = Folder::new(&[("a.md", b"# A\n\nred"), ("b.md", b"# B\n\ngreen")]);
    let (events, _) = run(&folder.job(HashMap::new()));
    let known: HashMap<_, _> = documents(&events)
        .iter()
        .map(|(document, _)| {
            (
                document.uri.clone(),
                KnownVersion {
                    raw_hash: document.raw_hash.clone(),
                    validator: None,
                },
            )
        })
        .collect();
    folder.write("b.md", b"# B\n\nblue");
    let (events, _) = run(&folder.job(known));
    assert!(
        matches!(&events[1].0, Event::Unchanged { uri, .. } if name(uri) == "a.md"),
        "{events:?}"
    );
    let changed = documents(&events);
    assert_eq!(changed.len(), 1);
    assert_eq!(name(&changed[0].0.uri), "b.md");
}

#[test]
fn events_come_in_the_order_of_the_listing() {
    let files: Vec<(String, Vec<u8>)> = (0..40)
        .map(|i| {
            (
                format!("{i:02}.md"),
                format!("# {i}\n\n{}", "red green blue ".repeat(i * 97 % 400 + 1)).into_bytes(),
            )
        })
        .collect();
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    let job_events = || {
        let folder = Folder::new(&files);
        let (events, _) = run(&folder.job(HashMap::new()));
        documents(&events)
            .iter()
            .map(|(document, _)| name(&document.uri).to_owned())
            .collect::<Vec<_>>()
    };
    let names = job_events();
    assert_eq!(names.len(), files.len());
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn a_root_that_is_missing_is_fatal() {
    let folder = Folder::new(&[]);
    fs::remove_dir(folder.root.path().join("docs")).unwrap();
    let (events, code) = run(&folder.job(HashMap::new()));
    assert_eq!(code, Some(4));
    let [(Event::Fatal { error }, _)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(error.kind, ErrorKind::FileNotFound);
}

#[test]
fn a_model_without_a_tokenizer_is_fatal() {
    let folder = Folder::new(&[("a.md", b"red")]);
    fs::remove_file(folder.root.path().join("model/tokenizer.json")).unwrap();
    let (events, code) = run(&folder.job(HashMap::new()));
    assert_eq!(code, Some(4));
    let [(Event::Fatal { error }, _)] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(error.message.contains("tokenizer.json"), "{error:?}");
}

#[test]
fn an_invalid_job_and_a_failed_job_have_different_exit_codes() {
    let (mut process, mut stdin) = start();
    stdin
        .write_all(&frame::encode(&json!({"source": "?"}), &[]).unwrap())
        .unwrap();
    let frame = frame::read(&mut process.stdout.take().unwrap())
        .unwrap()
        .unwrap();
    let Event::Fatal { error } = frame.header().unwrap() else {
        panic!("{frame:?}")
    };
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(process.wait().unwrap().code(), Some(3));
}

/// A PDF of a megabyte whose page unpacks to two gigabytes.
fn bomb() -> Vec<u8> {
    // A flushed piece of a deflate stream is independent: repeated, it unpacks to as many times the
    // zeros.
    let mut packer = flate2::Compress::new(flate2::Compression::best(), false);
    let mut piece = Vec::with_capacity(1 << 16);
    packer
        .compress_vec(&vec![0; 1 << 20], &mut piece, flate2::FlushCompress::Full)
        .unwrap();
    let stream = [b"\x78\x01", piece.repeat(2048).as_slice(), b"\x03\0"].concat();

    let objects: [(&str, &[u8]); 4] = [
        ("<</Type/Catalog/Pages 2 0 R>>", b""),
        ("<</Type/Pages/Kids[3 0 R]/Count 1>>", b""),
        (
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<<>>>>",
            b"",
        ),
        (
            &format!("<</Filter/FlateDecode/Length {}>>", stream.len()),
            &stream,
        ),
    ];
    let mut pdf = b"%PDF-1.4\n".to_vec();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for (i, (dictionary, stream)) in objects.iter().enumerate() {
        table += &format!("{:010} 00000 n \n", pdf.len());
        pdf.extend(format!("{} 0 obj\n{dictionary}\n", i + 1).bytes());
        if !stream.is_empty() {
            pdf.extend([b"stream\n", *stream, b"\nendstream\n"].concat());
        }
        pdf.extend(b"endobj\n");
    }
    let end = format!(
        "{table}trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{}\n%%EOF\n",
        objects.len() + 1,
        pdf.len()
    );
    pdf.extend(end.bytes());
    pdf
}

#[test]
fn a_pdf_that_kills_its_reader_is_one_failed_document() {
    let folder = Folder::new(&[("a.md", b"# A\n\nred"), ("z.md", b"# Z\n\nblue")]);
    folder.write("bomb.pdf", &bomb());
    folder.write("none.pdf", b"%PDF-1.7\nnothing of a PDF follows");
    let (events, code) = run(&folder.job(HashMap::new()));
    assert_eq!(code, Some(0));
    let names: Vec<&str> = documents(&events)
        .iter()
        .map(|(document, _)| name(&document.uri))
        .collect();
    assert_eq!(names, ["a.md", "z.md"]);
    let failures = failures(&events);
    let failed: Vec<_> = failures
        .iter()
        .map(|failure| (name(&failure.uri), failure.stage))
        .collect();
    assert_eq!(
        failed,
        [("bomb.pdf", Stage::Extract), ("none.pdf", Stage::Extract)]
    );
    assert_eq!(
        failures[0].message,
        "extracting the text needs too much memory"
    );
}

#[test]
fn the_end_of_standard_input_ends_the_run() {
    // More text than a pipe holds: nobody reads it, so the run cannot finish.
    let text = "red green blue ".repeat(20_000);
    let folder = Folder::new(&[("a.txt", text.as_bytes()), ("b.txt", text.as_bytes())]);
    let (mut process, mut stdin) = start();
    frame::write(&mut stdin, &folder.job(HashMap::new()), &[]).unwrap();
    drop(stdin);
    assert_eq!(process.wait().unwrap().code(), Some(6));
}

#[test]
fn the_parents_death_ends_the_run() {
    use std::io::{BufRead, BufReader};
    let script = r#""$0" ingest <&3 & echo $!; wait"#;
    let mut parent = Command::new("bash")
        .args(["-c", &format!("exec 3<&0; {script}"), PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let status = Path::new("/proc").join(line.trim()).join("status");
    // It blocks on a job that never comes. By then it has asked to be killed with its parent.
    eventually("the run to start", || {
        fs::read_to_string(&status).is_ok_and(|s| s.contains("Name:\trag-engine"))
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("the run to end", || {
        fs::read_to_string(&status).map_or(true, |s| s.contains("State:\tZ"))
    });
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let text = "red green blue ".repeat(20_000);
    let folder = Folder::new(&[("a.txt", text.as_bytes()), ("b.txt", text.as_bytes())]);
    let mut job = folder.job(HashMap::new());
    job.limits.wall_seconds = Some(1);
    let (mut process, mut stdin) = start();
    frame::write(&mut stdin, &job, &[]).unwrap();
    // Nobody reads its reports.
    assert_eq!(process.wait().unwrap().code(), Some(7));
}

#[test]
fn people_can_run_a_job_by_hand() {
    let folder = Folder::new(&[("a.md", b"# A\n\nred")]);
    let mut process = Command::new(PROGRAM)
        .args(["ingest", "--pretty"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let job = serde_json::to_vec(&folder.job(HashMap::new())).unwrap();
    process.stdin.take().unwrap().write_all(&job).unwrap();
    let output = process.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(
        lines.starts_with("started: 1 documents\ndocument file://"),
        "{lines}"
    );
    assert!(lines.trim_end().ends_with("0 files skipped"), "{lines}");
}

#[test]
fn no_core_dump_can_hold_the_job() {
    let (mut process, stdin) = start();
    let hard_limit = |process: &str| {
        let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        let mut lines = limits.lines();
        let line = lines.find(|line| line.starts_with("Max core file size"));
        line.unwrap().split_whitespace().nth(5).unwrap().to_string()
    };
    let lowest = if hard_limit("self") == "0" { "0" } else { "1" };
    // Before the job arrives.
    let id = process.id().to_string();
    eventually("the limit", || hard_limit(&id) == lowest);
    drop(stdin);
    process.wait().unwrap();
}

#[test]
fn several_sources_are_read_in_turn_whatever_becomes_of_one() {
    let folder = Folder::new(&[("red.md", b"red"), ("blue.md", b"blue")]);
    let at = |name: &str| folder.root.path().join("docs").join(name);
    let file = |name: &str| SourceSpec::parse("markdown", &json!({ "uri": at(name) })).unwrap();
    let mut job = folder.job(HashMap::new());
    job.source = file("missing.md");
    job.further = vec![file("red.md"), file("gone.md"), file("blue.md")];
    let (events, code) = run(&job);
    assert_eq!(code, Some(0));
    let seen: Vec<&str> = events
        .iter()
        .filter_map(|(event, _)| match event {
            Event::Document(document) => Some(name(&document.uri)),
            Event::Finished { complete: true, .. } => Some("end"),
            Event::Fatal { error } if error.kind == ErrorKind::FileNotFound => Some("not found"),
            _ => None,
        })
        .collect();
    assert_eq!(
        seen,
        ["not found", "red.md", "end", "not found", "blue.md", "end"]
    );

    job.further.push(file("last.md"));
    let (events, code) = run(&job);
    assert!(matches!(events.last(), Some((Event::Fatal { .. }, _))));
    assert_ne!(code, Some(0), "the last source decides");
}
