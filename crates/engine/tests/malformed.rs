//! Malformed messages end their sender's connection, and affect nobody else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{Read, Write},
    net::Shutdown,
};

use crate::common::{Client, Engine, embed, model, model_folder, onnxruntime, tiny};
use proptest::{prelude::*, test_runner::TestRunner};
use rag_definition::model::Precision;
use rag_protocol::{
    ErrorKind,
    embed::{Answer, ModelRef, Priority},
    frame,
};
use tempfile::TempDir;

struct Setup {
    engine: Engine,
    model: ModelRef,
    bystander: Client,
    _dir: TempDir,
}

fn setup() -> Option<Setup> {
    let engine = Engine::start(&onnxruntime()?);
    let dir = model_folder();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let bystander = engine.connect();
    Some(Setup {
        engine,
        model: model(dir.path(), Precision::Fp32),
        bystander,
        _dir: dir,
    })
}

impl Setup {
    /// Sends raw bytes and the end of the stream. Returns the errors that arrive before the
    /// connection ends.
    fn provoke(&mut self, bytes: &[u8]) -> Vec<(u64, ErrorKind)> {
        let mut client = self.engine.connect();
        let _ = client.stream.write_all(bytes); // the engine may have closed already
        let _ = client.stream.shutdown(Shutdown::Write);
        let mut errors = vec![];
        while let Some((reply, _)) = client.receive() {
            match reply.answer {
                Answer::Error { error } => errors.push((reply.id, error.kind)),
                other => panic!("{other:?}"),
            }
        }
        self.bystander
            .ask(&self.model, embed(Priority::Query, &["red"]))
            .unwrap();
        errors
    }
}

#[test]
fn an_invalid_request_is_answered_by_its_id() {
    let Some(mut setup) = setup() else { return };
    for header in [
        serde_json::json!({"id": 7}),
        serde_json::json!({"id": 7, "task": "sing", "model": {"dir": "x", "precision": "fp32"}}),
        serde_json::json!({"id": 7, "task": "embed", "model": {"dir": "x", "precision": "fp64"}}),
    ] {
        assert_eq!(
            setup.provoke(&frame::encode(&header, b"").unwrap()),
            [(7, ErrorKind::InvalidRequest)]
        );
    }
    let nameless = frame::encode(&serde_json::json!(["what"]), b"").unwrap();
    assert_eq!(setup.provoke(&nameless), [(0, ErrorKind::InvalidRequest)]);
}

#[test]
fn a_huge_message_is_refused_by_its_prefix() {
    let Some(mut setup) = setup() else { return };
    assert_eq!(setup.provoke(&[0xff; 4]), [(0, ErrorKind::LimitExceeded)]);
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let Some(mut setup) = setup() else { return };
    let bytes = [8u32.to_le_bytes(), 5u32.to_le_bytes(), *b"{}{}"].concat();
    assert_eq!(setup.provoke(&bytes), [(0, ErrorKind::InvalidRequest)]);
}

#[test]
fn a_message_cut_short_ends_the_connection() {
    let Some(mut setup) = setup() else { return };
    let whole = frame::encode(&serde_json::json!({"id": 1}), b"payload").unwrap();
    for length in [1, 4, 6, whole.len() - 1] {
        assert_eq!(setup.provoke(&whole[..length]), []);
    }
}

#[test]
fn random_bytes_affect_no_other_client() {
    let Some(setup) = setup() else { return };
    let setup = std::cell::RefCell::new(setup);
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let framed =
        (prop::collection::vec(any::<u8>(), 0..100), 0u32..200).prop_map(|(body, json)| {
            [
                &(body.len() as u32 + 4).to_le_bytes()[..],
                &json.to_le_bytes(),
                &body,
            ]
            .concat()
        });
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..Default::default()
    });
    runner
        .run(&prop_oneof![bytes, framed], |bytes| {
            setup.borrow_mut().provoke(&bytes);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_client_that_never_reads_delays_no_other() {
    let Some(mut setup) = setup() else { return };
    let mut deaf = setup.engine.connect();
    let texts = vec!["red"; 20_000];
    for _ in 0..3 {
        deaf.send(&setup.model, embed(Priority::Bulk, &texts));
    }
    setup
        .bystander
        .ask(&setup.model, embed(Priority::Bulk, &["green"]))
        .unwrap();
    let mut one = [0];
    deaf.stream.read_exact(&mut one).unwrap();
}
