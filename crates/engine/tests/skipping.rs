//! Files that are no documents, and files of the web that are fetched at once.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::jobs::{Folder, documents, failures, name, run};
use rag_definition::source::SourceSpec;
use rag_protocol::ingest::{Event, Stage};
use serde_json::json;

#[test]
fn files_without_text_are_skipped_with_a_warning() {
    let folder = Folder::new(&[
        (
            "blank.html",
            b"<html><head><title>Moved</title></head><body></body></html>",
        ),
        (
            "picture.html",
            b"<title>Scan</title><body><IMG src=a.png></body>",
        ),
        (
            "broken.txt",
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0",
        ),
        (
            "unknown",
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0",
        ),
        ("empty.md", b""),
        ("text.md", b"red"),
    ]);
    let (events, _) = run(&folder.job(HashMap::new()));
    let removed: Vec<_> = events
        .iter()
        .filter_map(|(event, _)| match event {
            Event::Removed { uri, warning } => {
                let warning = warning.as_ref().map(|it| (it.stage, it.message.as_str()));
                Some((name(uri), warning))
            }
            _ => None,
        })
        .collect();
    let blank = (
        Stage::Extract,
        "the page was skipped because it has no text",
    );
    let binary = (Stage::Decode, "the file was skipped because it is binary");
    assert_eq!(
        removed,
        [
            ("blank.html", Some(blank)),
            ("broken.txt", Some(binary)),
            ("empty.md", None),
            ("unknown", None),
        ]
    );
    let failed: Vec<&str> = failures(&events).iter().map(|it| name(&it.uri)).collect();
    assert_eq!(
        failed,
        ["picture.html"],
        "what the page shows cannot be read"
    );
    assert_eq!(documents(&events).len(), 1);
}

/// The requests that a server has at once, now and at most.
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Answers each request after a time. Returns the origin.
fn slow_server(load: &Arc<Load>, delay: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let load = Arc::clone(load);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let load = Arc::clone(&load);
            thread::spawn(move || answer(stream.unwrap(), &load, delay));
        }
    });
    origin
}

fn answer(mut stream: TcpStream, load: &Load, delay: Duration) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        let now = load.now.fetch_add(1, Ordering::SeqCst) + 1;
        load.most.fetch_max(now, Ordering::SeqCst);
        thread::sleep(delay);
        load.now.fetch_sub(1, Ordering::SeqCst);
        let text = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nred";
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn files_of_several_servers_are_fetched_at_once() {
    let folder = Folder::new(&[]);
    let delay = Duration::from_millis(500);
    let loads: Vec<Arc<Load>> = (0..4).map(|_| Arc::default()).collect();
    let endpoints: Vec<String> = loads
        .iter()
        .map(|load| slow_server(load, delay))
        .flat_map(|origin| (0..4).map(move |n| format!("{origin}/{n}.txt")))
        .collect();
    let mut job = folder.job(HashMap::new());
    job.source = SourceSpec::parse("static", &json!({ "endpoints": endpoints })).unwrap();
    job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
    let began = Instant::now();
    let (events, _) = run(&job);
    let took = began.elapsed();
    assert_eq!(documents(&events).len(), 16, "{events:?}");
    assert!(took < delay * 8, "16 files of {delay:?} took {took:?}");
    for load in loads {
        assert_eq!(load.most.load(Ordering::SeqCst), 2, "at most 2 of a server");
    }
}

/// Accepts connections and never answers. Returns the origin.
fn silent_server(requests: &Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::clone(requests);
    thread::spawn(move || {
        let mut kept = vec![];
        for stream in listener.incoming() {
            requests.fetch_add(1, Ordering::SeqCst);
            kept.push(stream.unwrap());
        }
    });
    origin
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let folder = Folder::new(&[]);
    let requests = Arc::default();
    let (silent, good) = (
        silent_server(&requests),
        slow_server(&Arc::default(), Duration::ZERO),
    );
    let endpoints: Vec<String> = (0..8)
        .map(|n| format!("{silent}/{n}.txt"))
        .chain([format!("{good}/0.txt"), format!("{good}/1.txt")])
        .collect();
    let mut job = folder.job(HashMap::new());
    job.source = SourceSpec::parse("static", &json!({ "endpoints": endpoints })).unwrap();
    job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
    job.network.silence_seconds = Some(1);
    let began = Instant::now();
    let (events, _) = run(&job);
    let took = began.elapsed();
    assert_eq!(documents(&events).len(), 2, "{events:?}");
    let failures = failures(&events);
    let failed: Vec<&str> = failures.iter().map(|it| it.uri.as_str()).collect();
    assert_eq!(failed, endpoints[..8], "in the order of the definition");
    let unasked = failures
        .iter()
        .filter(|it| it.message.contains("has not answered earlier requests"))
        .count();
    // two files at once: the third and fourth attempt may both be on their way
    let asked = requests.load(Ordering::SeqCst);
    assert!((3..=4).contains(&asked), "{asked} requests, {failures:?}");
    assert_eq!(unasked, 6, "{failures:?}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}
