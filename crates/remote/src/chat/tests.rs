//! Answers of a server on loopback.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
};

use rag_protocol::{call::Role, ingest::Network};

use super::*;

/// Sends a conversation to a server on loopback that gives this answer. Returns the texts, the
/// last event, and what was sent.
fn asked(provider: Provider, media_type: &str, body: &str) -> (Vec<String>, CallEvent, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut sent = vec![0; length];
        reader.read_exact(&mut sent).unwrap();
        connection.write_all(answer.as_bytes()).unwrap();
        serde_json::from_slice(&sent).unwrap()
    });
    let said = |role, content: &str| ChatMessage {
        role,
        content: content.into(),
    };
    let call = Call {
        name: "m".into(),
        provider,
        base_url,
        model: Some("small".into()),
        parameters: Map::new(),
        credentials: None,
        network: Network {
            allowed_private_hosts: vec!["127.0.0.1".into()],
            ..Network::default()
        },
        timeout_ms: 10_000,
        request: CallRequest::Chat {
            messages: vec![
                said(Role::User, "What is <think>?"),
                said(Role::Assistant, "<think>a tag [9]</think>\n\nA tag."),
                said(Role::User, "And now?"),
            ],
            max_tokens: 100,
            temperature: 0.0,
            stream: media_type == "text/event-stream",
        },
    };
    let (mut texts, mut last) = (vec![], None);
    crate::perform(&call, &mut |event| match event {
        CallEvent::Text { text } => texts.push(text),
        other => last = Some(other),
    });
    (texts, last.unwrap(), server.join().unwrap())
}

fn whole(content: &Value) -> Result<String, String> {
    let body = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
    let (texts, last, _) = asked(Provider::OpenAi, "application/json", &body.to_string());
    match last {
        CallEvent::Failed { error, .. } => Err(error.detail.unwrap_or_default()),
        _ => Ok(texts.concat()),
    }
}

#[test]
fn content_may_be_a_list_of_parts() {
    let ok = |text: &str| Ok(text.to_owned());
    let no_text = Err("Its content has no text.".to_owned());
    for (content, expected) in [
        (json!("Hello"), ok("Hello")),
        (json!([{"type": "text", "text": "Hello"}]), ok("Hello")),
        (
            json!([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}, "!"]),
            ok("Hello!"),
        ),
        (
            json!([{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
                   {"type": "text", "text": "Hello"}]),
            ok("Hello"),
        ),
        (json!([{"type": "refusal", "refusal": "No."}]), ok("No.")),
        (json!({"type": "text", "text": "Hello"}), ok("Hello")),
        (
            json!([{"type": "image_url"}, {"type": "text", "text": "Hello"}]),
            ok("Hello"),
        ),
        (json!(null), ok("")),
        (json!([]), ok("")),
        (json!(""), ok("")),
        (
            json!([{"type": "image_url", "image_url": {"url": "x"}}]),
            no_text.clone(),
        ),
        (json!([{"type": "text", "text": 7}]), no_text.clone()),
        (json!([null, 1]), no_text.clone()),
        (json!(7), no_text.clone()),
        (json!({"x": "Hello"}), no_text),
    ] {
        assert_eq!(whole(&content), expected, "{content}");
    }
}

#[test]
fn thoughts_are_no_part_of_the_answer() {
    let event = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    let body = event(json!({"reasoning_content": "hm"}))
        + &event(json!({"content": "<thi"}))
        + &event(json!({"content": "nk>plan [9]"}))
        + &event(json!({"content": "</think>\n\nHel"}))
        + &event(json!({"content": "lo [1]."}))
        + "data: [DONE]\n\n";
    let (texts, last, sent) = asked(Provider::OpenAi, "text/event-stream", &body);
    assert_eq!(texts, ["Hel", "lo [1]."]);
    assert!(matches!(last, CallEvent::Answered { .. }), "{last:?}");
    let contents: Vec<&Value> = sent["messages"].as_array().unwrap().iter().collect();
    assert_eq!(contents[0]["content"], "What is <think>?");
    assert_eq!(contents[1]["content"], "A tag.");
    assert_eq!(whole(&json!("plan</think>Hello")), Ok("Hello".into()));
    assert_eq!(whole(&json!("<think>plan")), Ok(String::new()));
}

#[test]
fn pieces_may_be_lists_of_parts() {
    let event = |content: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta":
        {"content": content}}]})
        )
    };
    let body = event(json!([{"type": "text", "text": "Hel"}]))
        + &event(json!("lo"))
        + &event(json!([]))
        + "data: [DONE]\n\n";
    let (texts, last, _) = asked(Provider::OpenAi, "text/event-stream", &body);
    assert_eq!(texts, ["Hel", "lo"]);
    assert!(matches!(last, CallEvent::Answered { .. }), "{last:?}");
    let line = json!({"message": {"content": [{"type": "text", "text": "Hello"}]},
        "done": true});
    let (texts, ..) = asked(Provider::Ollama, "application/json", &format!("{line}\n"));
    assert_eq!(texts, ["Hello"]);
}
