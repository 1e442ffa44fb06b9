//! The order of service: queries first, bulk clients in turns, no client that has hung up.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Client, Engine, default_model, embed, model, onnxruntime};
use rag_definition::model::Precision;
use rag_protocol::embed::{Answer, ModelRef, Priority};

/// A text of some sixty tokens, different for each number.
fn text(number: usize) -> String {
    (0..30)
        .map(|i| format!("key {} ", (i * 7 + number) % 89))
        .collect()
}

/// Starts bulk work for one client, far more than any test waits for. Returns when the first of it
/// is done and the rest is in progress.
fn start_bulk(client: &mut Client, model: &ModelRef) {
    let texts: Vec<String> = (0..3000).map(text).collect();
    client.send(model, embed(Priority::Bulk, &texts[..1]));
    client.send(model, embed(Priority::Bulk, &texts));
    let (reply, _) = client.receive().unwrap();
    assert_eq!(reply.id, 1);
}

#[test]
fn a_query_overtakes_bulk_work() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let model = model(&dir, Precision::Int8);
    let mut bulk = engine.connect();
    start_bulk(&mut bulk, &model);
    for _ in 0..3 {
        engine
            .ask(
                &model,
                embed(Priority::Query, &["how do I rotate the signing keys?"]),
            )
            .unwrap();
    }
    assert!(
        !bulk.has_reply(),
        "three searches did not wait for 3000 texts"
    );
}

#[test]
fn bulk_clients_take_turns() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let model = model(&dir, Precision::Int8);
    let mut large = engine.connect();
    start_bulk(&mut large, &model);
    let texts: Vec<String> = (0..24).map(text).collect();
    engine.ask(&model, embed(Priority::Bulk, &texts)).unwrap();
    assert!(
        !large.has_reply(),
        "24 texts did not wait for 3000 that were there before"
    );
}

#[test]
fn replies_to_one_client_may_overtake_each_other() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let model = model(&dir, Precision::Int8);
    let mut client = engine.connect();
    start_bulk(&mut client, &model);
    let query = client.send(&model, embed(Priority::Query, &["signing keys"]));
    let (first, _) = client.receive().unwrap();
    assert_eq!(first.id, query);
}

#[test]
fn work_of_a_client_that_hung_up_is_dropped() {
    let Some((library, dir)) = onnxruntime().zip(default_model()) else {
        return;
    };
    let engine = Engine::start(&library);
    let model = model(&dir, Precision::Int8);
    let mut leaving = engine.connect();
    start_bulk(&mut leaving, &model);
    let texts: Vec<String> = (0..1000)
        .map(|i| format!("short text number {i}"))
        .collect();
    leaving.send(&model, embed(Priority::Bulk, &texts));
    leaving.send(
        &model,
        embed(
            Priority::Query,
            &["a query is answered after what was sent before it was tokenized"],
        ),
    );
    assert_eq!(leaving.receive().unwrap().0.id, 4);
    drop(leaving);
    engine.wait_for_log("disconnected client=1 dropped=", 1);
    let line = engine
        .log()
        .lines()
        .find(|line| line.contains("disconnected client=1 "))
        .unwrap()
        .to_owned();
    let dropped: usize = line.rsplit('=').next().unwrap().parse().unwrap();
    assert!(dropped >= 1, "{line}");
    // Nothing of it is left: a text in bulk is the only work.
    let (answer, _) = engine
        .ask(&model, embed(Priority::Bulk, &["next"]))
        .unwrap();
    assert!(matches!(answer, Answer::Embeddings { .. }));
}
