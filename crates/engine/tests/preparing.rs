//! Documents that are added directly: extracted and split by the embedding engine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Engine, model, model_folder, onnxruntime, tiny};
use rag_definition::{DocumentType, model::Precision};
use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, StoredText, Task},
    ingest::{Content, Splitting, Unit},
};

fn prepare(document_type: &str, bytes: &[u8]) -> Option<Result<(Content, String), EngineError>> {
    prepare_as(None, None, document_type, bytes)
}

/// Without a type it is determined by name and bytes.
fn prepare_as(
    title: Option<&str>,
    name: Option<&str>,
    document_type: &str,
    bytes: &[u8],
) -> Option<Result<(Content, String), EngineError>> {
    let engine = Engine::start(&onnxruntime()?);
    let dir = model_folder();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let task = Task::Prepare {
        document_type: (!document_type.is_empty()).then(|| document_type.into()),
        name: name.map(String::from),
        splitting: Splitting {
            chunk_size: 200,
            chunk_overlap: 20,
            unit: Unit::Characters,
        },
        title: title.map(String::from),
        tokens: None,
    };
    let answer = engine
        .connect()
        .ask_with(&model(dir.path(), Precision::Fp32), task, bytes);
    Some(answer.map(|(answer, payload)| {
        let Answer::Content { content, .. } = answer else {
            panic!("{answer:?}")
        };
        (content, String::from_utf8(payload).unwrap())
    }))
}

#[test]
fn a_heading_is_the_title_and_chunks_fit_the_model() {
    let Some(prepared) = prepare(
        "markdown",
        b"# Colours\n\nred green blue red green blue red green blue",
    ) else {
        return;
    };
    let (content, text) = prepared.unwrap();
    assert_eq!(content.document_type, DocumentType::Markdown);
    assert_eq!(
        (content.title.text.as_str(), content.title.own),
        ("Colours", true)
    );
    assert!(
        content.chunks.len() > 1,
        "the model takes 8 tokens at a time"
    );
    for chunk in &content.chunks {
        assert!(
            text.get(chunk.byte_start..chunk.byte_start + chunk.byte_len)
                .is_some()
        );
    }
}

#[test]
fn a_document_without_a_title_is_untitled() {
    let Some(prepared) = prepare("text", b"red green") else {
        return;
    };
    let (content, text) = prepared.unwrap();
    assert_eq!(
        (content.title.text.as_str(), content.title.own),
        ("untitled", false)
    );
    assert_eq!(text, "red green");
}

#[test]
fn a_given_title_goes_before_the_documents_own_and_takes_room() {
    let Some(prepared) = prepare_as(
        Some(" red\ngreen "),
        None,
        "markdown",
        b"# Colours\n\nblue blue blue blue blue blue",
    ) else {
        return;
    };
    let (content, text) = prepared.unwrap();
    assert_eq!(
        (content.title.text.as_str(), content.title.own),
        ("red green", true)
    );
    let longest = content.chunks.iter().map(|c| {
        text[c.byte_start..c.byte_start + c.byte_len]
            .split_whitespace()
            .count()
    });
    assert!(
        longest.max().unwrap() <= 4,
        "the model takes 8 tokens: two special ones, two of the title"
    );
    let blank = prepare_as(Some(" "), None, "markdown", b"# Colours\n\nred")
        .unwrap()
        .unwrap();
    assert_eq!(blank.0.title.text, "Colours");
}

#[test]
fn html_and_pdf_are_read_in_a_separate_process() {
    let Some(prepared) = prepare("html", b"<title>Colours</title><p>red <b>green</b>") else {
        return;
    };
    let (content, text) = prepared.unwrap();
    assert_eq!(content.title.text, "Colours");
    assert!(text.contains("green"));
    let error = prepare("pdf", b"%PDF-1.4 nothing of a PDF follows")
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
}

#[test]
fn what_comes_from_postgres_is_utf8_whatever_it_says() {
    let page = "<meta charset=koi8-r><p>größer</p>";
    let Some(prepared) = prepare("html", page.as_bytes()) else {
        return;
    };
    let (content, text) = prepared.unwrap();
    assert_eq!((text.as_str(), content.metadata.len()), ("größer", 0));
}

#[test]
fn an_unknown_type_is_an_error_that_names_the_known_ones() {
    let Some(prepared) = prepare("wpd", b"x") else {
        return;
    };
    let error = prepared.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(
        error.hint.unwrap(),
        "Types: markdown, text, html, pdf, code, csv, tsv, json, jsonl, docx, odt, notebook, rtf, spreadsheet, presentation, epub, rst, asciidoc, org, tex, subtitles, xml, feed, mail, image."
    );
}

#[test]
fn the_type_of_a_file_follows_from_its_name() {
    let Some(prepared) = prepare_as(
        None,
        Some("https://example.org/red/colours.md?raw"),
        "",
        b"red green",
    ) else {
        return;
    };
    let (content, _) = prepared.unwrap();
    assert_eq!(content.document_type, DocumentType::Markdown);
    assert_eq!(
        (content.title.text.as_str(), content.title.own),
        ("colours", false)
    );
    assert_eq!(content.metadata["encoding"], "UTF-8");
    let error = prepare_as(None, Some("red.png"), "", b"\x89PNG")
        .unwrap()
        .unwrap_err();
    assert_eq!(error.message, "files of this type are not documents");
}

#[test]
fn tokens_are_counted_without_special_tokens() {
    let Some(onnxruntime) = onnxruntime() else {
        return;
    };
    let engine = Engine::start(&onnxruntime);
    let dir = model_folder();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let mut client = engine.connect();
    let long = "red green ".repeat(1000);
    let texts = ["", "red", "red green blue", long.as_str()].map(String::from);
    let task = Task::Count {
        texts: texts.to_vec(),
        tokens: None,
    };
    let answer = client.ask_with(&model(dir.path(), Precision::Fp32), task, &[]);
    let Ok((Answer::Tokens { tokens }, payload)) = answer else {
        panic!("{answer:?}")
    };
    // more than the model reads
    assert_eq!(tokens, [0, 1, 3, 2000]);
    assert!(payload.is_empty());
}

/// Splits documents of all types, and then the texts that came out.
#[test]
fn a_stored_text_is_split_as_the_document_was() {
    let Some(runtime) = onnxruntime() else { return };
    let engine = Engine::start(&runtime);
    let dir = model_folder();
    tiny::write(dir.path(), tiny::Output::Pooled, false, None);
    let model = model(dir.path(), Precision::Fp32);
    let splitting = Splitting {
        chunk_size: 24,
        chunk_overlap: 6,
        unit: Unit::Characters,
    };
    let documents: [(&str, &str, &str); 7] = [
        (
            "markdown",
            "notes/a.md",
            "---\ntitle: red\n---\n\n# green\n\nblue red green\n\n## blue\n\nred green blue red",
        ),
        (
            "text",
            "a.txt",
            "red green. blue red.\n\ngreen blue red. green.",
        ),
        (
            "html",
            "a.html",
            "<h1>red</h1><p>green blue <b>red</b> green</p><h2>blue</h2><p>red",
        ),
        (
            "code",
            "src/a.rs",
            "/// red\nfn green() {\n    blue();\n    red();\n    green();\n}\n\nfn red() {}\n",
        ),
        ("csv", "a.csv", "red,green\nblue,red\ngreen,blue\n"),
        (
            "json",
            "a.json",
            "[{\"red\": \"green blue\"}, {\"red\": \"blue red green\"}]",
        ),
        (
            "jsonl",
            "a.jsonl",
            "{\"red\": \"green blue\"}\n{\"red\": \"blue red\"}\n",
        ),
    ];
    for (document_type, name, file) in documents {
        let mut client = engine.connect();
        let prepare = Task::Prepare {
            document_type: Some(document_type.into()),
            name: Some(name.into()),
            splitting,
            title: None,
            tokens: None,
        };
        let (answer, payload) = client.ask_with(&model, prepare, file.as_bytes()).unwrap();
        let Answer::Content { content, .. } = answer else {
            panic!("{answer:?}")
        };
        let text = String::from_utf8(payload).unwrap();
        let first = content.chunks.first().unwrap();
        let lines = text[..first.byte_start].matches('\n').count() as u32;
        let split = Task::Split {
            text: StoredText {
                document_type: content.document_type,
                name: Some(name.into()),
                title: content.title.clone(),
                lines_before: first.start_line - 1 - lines,
                anchors: content.anchors.clone(),
            },
            splitting,
            tokens: None,
        };
        let (answer, _) = client.ask_with(&model, split, text.as_bytes()).unwrap();
        let Answer::Content { content: again, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(content.chunks.len() > 1, "{document_type}");
        assert_eq!(content.chunks, again.chunks, "{document_type}");
        assert_eq!(content.content_hash, again.content_hash, "{document_type}");
    }
}
