//! Answers of web servers, buckets, git LFS and models: whatever they send, a source is listed and
//! fetched, or refused in words, and a call of a model has an end.
//!
//! The first byte says who asks, the second one how the others are sent: as a body of a type, or as
//! the whole answer with its head.
#![no_main]

#[path = "../../crates/source/tests/support/mod.rs"]
#[expect(dead_code, reason = "tests use more of it")]
mod support;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
    sync::{Mutex, OnceLock},
    thread,
};

use libfuzzer_sys::fuzz_target;
use rag_definition::model::Provider;
use rag_protocol::{
    call::{Call, CallEvent, CallRequest},
    ingest::Network,
};
use serde_json::{Value, json};

const TYPES: [&str; 7] = [
    "text/html",
    "text/html; charset=utf-16",
    "application/xml",
    "application/json",
    "text/event-stream",
    "text/markdown",
    "application/x-ndjson",
];

static ANSWER: Mutex<Vec<u8>> = Mutex::new(vec![]);

/// Starts a server that sends [`ANSWER`] to everybody. Returns its address.
fn server() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                thread::spawn(move || {
                    let _ = stream.read(&mut [0; 65536]);
                    let answer = ANSWER.lock().unwrap().clone();
                    let _ = stream.write_all(&answer);
                    let _ = stream.shutdown(Shutdown::Write);
                });
            }
        });
        address
    })
}

fuzz_target!(|bytes: &[u8]| {
    let [who, how, body @ ..] = bytes else {
        return;
    };
    let how = usize::from(*how) % (TYPES.len() + 1);
    *ANSWER.lock().unwrap() = match TYPES.get(how) {
        Some(name) => {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {name}\r\nConnection: close\r\n\r\n");
            [head.as_bytes(), body].concat()
        }
        None => body.to_vec(),
    };
    let address = server();
    match who % 10 {
        0 => source(
            "website",
            &json!({"url": address, "depth": 1, "maxPages": 5}),
        ),
        1 => source(
            "website",
            &json!({"url": format!("{address}/feed.xml"), "maxPages": 5}),
        ),
        2 => source("static", &json!({"endpoints": [format!("{address}/a.md")]})),
        3 => source(
            "s3",
            &json!({"bucket": "docs", "endpoint": address, "pathStyle": true}),
        ),
        4 => source(
            "azblob",
            &json!({"account": "docsaccount", "container": "docs", "endpoint": address}),
        ),
        5 => source("gcs", &json!({"bucket": "docs", "endpoint": address})),
        6 => call(address, Provider::OpenAi, chat()),
        7 => call(address, Provider::Ollama, chat()),
        8 => call(
            address,
            Provider::OpenAi,
            json!({"request": "embed", "texts": ["a", "b"], "purpose": "query", "normalize": true,
                "batch": 2, "concurrency": 1, "request_timeout_ms": 200}),
        ),
        _ => call(
            address,
            Provider::Cohere,
            json!({"request": "rerank", "query": "a", "documents": ["a", "b"]}),
        ),
    }
});

fn source(kind: &str, spec: &Value) {
    let place = std::env::temp_dir();
    let Ok(mut source) = rag_source::open(&support::web_job(kind, spec, &place)) else {
        return;
    };
    let Ok(listing) = source.list() else {
        return;
    };
    for item in listing.items.iter().take(3) {
        let _ = source.fetch(item, None);
    }
}

fn chat() -> Value {
    json!({"request": "chat", "messages": [{"role": "user", "content": "?"}], "max_tokens": 9,
        "temperature": 0.0, "stream": true})
}

fn call(address: &str, provider: Provider, request: Value) {
    let call = Call {
        name: "m".into(),
        provider,
        base_url: address.into(),
        model: None,
        parameters: Default::default(),
        credentials: None,
        network: Network {
            allowed_private_hosts: vec!["127.0.0.1".into()],
            ..Network::default()
        },
        timeout_ms: 60,
        request: serde_json::from_value::<CallRequest>(request).unwrap(),
    };
    let mut last = None;
    rag_remote::perform(&call, &mut |event| last = Some(event));
    assert!(matches!(
        last,
        Some(CallEvent::Answered { .. } | CallEvent::Scored { .. } | CallEvent::Failed { .. })
    ));
}
