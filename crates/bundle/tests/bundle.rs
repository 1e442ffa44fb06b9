//! Records, arrays and folders: what is written is read back, and what is damaged is an error.
#![allow(clippy::unwrap_used)] // all is test

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use rag_bundle::{
    BundleErrorKind, BundleFile, Chunk, Document, FileSum, LineReader, Metadata, Record, Settings,
    Summed, Summing,
    folder::Place,
    npy::{self, RowReader, Shape},
};
use rag_definition::collection::CollectionDefinition;
use uuid::Uuid;

fn document(uri: &str, content: &str, metadata: &str) -> Document {
    Document {
        document_id: Uuid::from_u128(7),
        source: None,
        given_id: None,
        former_source: Some("old".into()),
        uri: uri.into(),
        title: None,
        knowledge_id: Some(i64::MAX),
        document_type: Some("text".into()),
        category: Some(String::new()),
        tags: Some(vec![]),
        status: "active".into(),
        error: None,
        content_hash: Some("00".into()),
        chunk_count: 1,
        raw_hash: None,
        chunking: Some("given".into()),
        own_title: true,
        validator: None,
        anchors: Some(vec![(0, "top".into())]),
        created_at: "2026-11-25 01:02:03.000004+00".into(),
        fetched_at: Some("infinity".into()),
        indexed_at: None,
        content: Some(content.into()),
        metadata: metadata.into(),
    }
}

fn line_of(record: &impl Record) -> Vec<u8> {
    let mut line = vec![];
    record.write(&mut line).unwrap();
    line
}

fn read_one<T: Record>(bytes: &[u8]) -> Result<Option<T>, rag_bundle::BundleError> {
    let mut lines = LineReader::new(BundleFile::Corpus, bytes);
    Ok(lines.next_record::<T>()?.map(|(record, _)| record))
}

#[test]
fn numbers_of_metadata_keep_their_digits() {
    let metadata = r#"{"a": 1.00, "b": 1e400, "metadata": {"c": "}\"{"}, "n": 123456789012345678901234567890}"#;
    let written = document("a", "text\n", metadata);
    let line = line_of(&written);
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(read_one::<Document>(&line).unwrap(), Some(written));
}

#[test]
fn members_may_be_in_any_order() {
    let line = String::from_utf8(line_of(&document("a", "b", r#"{"x": 1}"#))).unwrap();
    let inside = line
        .trim()
        .strip_prefix('{')
        .unwrap()
        .strip_suffix('}')
        .unwrap();
    let (rest, metadata) = inside.split_once(",\"metadata\":").unwrap();
    let moved = format!("{{\"metadata\" : {metadata} , {rest}}}\n");
    assert_eq!(
        read_one::<Document>(moved.as_bytes()).unwrap(),
        Some(document("a", "b", r#"{"x": 1}"#))
    );
}

#[test]
fn what_postgres_cannot_store_is_refused() {
    let line = |change: fn(&mut Document)| {
        let mut changed = document("a", "b", "{}");
        change(&mut changed);
        line_of(&changed)
    };
    for (bad, why) in [
        (line(|d| d.content = Some("a\0b".into())), "U+0000"),
        (line(|d| d.tags = Some(vec!["\0".into()])), "U+0000"),
        (line(|d| d.status = "lost".into()), "status"),
        (line(|d| d.chunk_count = -1), "chunk_count"),
        (line(|d| d.uri = " ".into()), "uri"),
        (line(|d| d.created_at = "now".into()), "not a time"),
        (line(|d| d.metadata = "{1}".into()), "Line 1 is invalid"),
        (b"{}\n".to_vec(), "metadata"),
        (b"[]\n".to_vec(), "metadata"),
        (b"\xff\n".to_vec(), "UTF-8"),
        (b"{\"metadata\": {}}\n".to_vec(), "missing field"),
        (b"{\"metadata\": {}}".to_vec(), "line feed"),
    ] {
        let error = read_one::<Document>(&bad).unwrap_err();
        assert_eq!(error.kind, BundleErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    }
    let mut unknown = line(|_| ());
    unknown.splice(1..1, *b"\"more\":1,");
    assert!(read_one::<Document>(&unknown).is_err());
}

#[test]
fn a_line_has_a_maximum_length() {
    let long = [b"{".as_slice(), &[b' '; 1000]].concat();
    let mut lines = LineReader::with_limit(BundleFile::Chunks, long.as_slice(), 100);
    let error = lines.next_record::<Chunk>().unwrap_err();
    assert!(
        error.to_string().contains("longer than 100 bytes"),
        "{error}"
    );
}

#[test]
fn a_header_is_that_of_numpy() {
    let shape = Shape {
        rows: 3,
        dimensions: 384,
    };
    let header = npy::header(shape);
    assert_eq!(header.len() % 64, 0);
    assert_eq!(&header[..8], b"\x93NUMPY\x01\x00");
    assert_eq!(
        usize::from(u16::from_le_bytes([header[8], header[9]])) + 10,
        header.len()
    );
    let text = std::str::from_utf8(&header[10..]).unwrap();
    assert!(
        text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 384), } ")
            && text.ends_with(" \n"),
        "{text}"
    );
    assert_eq!(RowReader::open(header.as_slice()).unwrap().shape(), shape);
}

#[test]
fn other_arrays_are_refused() {
    let with = |text: &str| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    };
    for text in [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 99999999), }",
        "{'descr': '<f4', 'fortran_order': False}",
        "{",
        "",
    ] {
        assert!(RowReader::open(with(text).as_slice()).is_err(), "{text}");
    }
    assert!(RowReader::open(&b"\x93NUMPY\x02\x00"[..]).is_err());
    let shape = Shape {
        rows: 1,
        dimensions: 2,
    };
    for numbers in [[f32::NAN, 0.0], [0.0, f32::INFINITY]] {
        let mut bytes = npy::header(shape);
        npy::push_row(&numbers, &mut bytes);
        assert!(
            RowReader::open(bytes.as_slice())
                .unwrap()
                .next_row()
                .is_err()
        );
    }
}

fn place(path: &Path, allowed: &Path) -> Result<Place, rag_bundle::BundleError> {
    Place::find(path.to_str().unwrap(), &[PathBuf::from(allowed)])
}

#[test]
fn a_bundle_is_there_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("b");
    let mut writer = place(&target, folder.path()).unwrap().create().unwrap();
    writer.write(BundleFile::Corpus, b"x").unwrap();
    assert!(!target.exists());
    drop(writer);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left"
    );

    let mut writer = place(&target, folder.path()).unwrap().create().unwrap();
    writer.write(BundleFile::Corpus, b"x").unwrap();
    writer.sync(BundleFile::Corpus).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(target.join("corpus.jsonl")).unwrap(), b"x");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = place(&target, folder.path())
        .unwrap()
        .create()
        .err()
        .unwrap();
    assert_eq!(error.kind, BundleErrorKind::Exists);
}

#[test]
fn what_killed_writers_have_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let age = |name: &str, seconds| {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let opened = fs::File::open(folder.path().join(name)).unwrap();
        opened.set_modified(time).unwrap();
    };
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    // of a writer that still writes
    let other = place(&folder.path().join("other"), folder.path()).unwrap();
    let other = other.create().unwrap();
    let of_other = names().remove(0);
    age(&of_other, 3600);
    for name in ["old", "young", "foreign"] {
        let temporary = folder.path().join(format!(".rag-export-{name}"));
        fs::create_dir(&temporary).unwrap();
        fs::write(temporary.join("corpus.jsonl"), "x").unwrap();
    }
    fs::write(folder.path().join(".rag-export-foreign/mine"), "x").unwrap();
    fs::write(folder.path().join(".rag-export-file"), "x").unwrap();
    symlink(folder.path(), folder.path().join(".rag-export-link")).unwrap();
    for name in ["old", "foreign", "file"] {
        age(&format!(".rag-export-{name}"), 3600);
    }

    let writer = place(&folder.path().join("b"), folder.path()).unwrap();
    drop(writer.create().unwrap());
    let mut kept = vec![
        of_other,
        ".rag-export-file".into(),
        ".rag-export-foreign".into(),
        ".rag-export-link".into(),
        ".rag-export-young".into(),
    ];
    kept.sort();
    assert_eq!(names(), kept);
    other.finish().unwrap();
    assert!(folder.path().join("other/corpus.jsonl").exists());
}

#[test]
fn paths_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (allowed, outside) = (folder.path().join("allowed"), folder.path().join("outside"));
    fs::create_dir(&allowed).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, allowed.join("link")).unwrap();
    let kind = |path: &str| {
        let path = path.replace("ALLOWED", allowed.to_str().unwrap());
        Place::find(&path, std::slice::from_ref(&allowed))
            .err()
            .map(|e| e.kind)
    };
    assert_eq!(kind("ALLOWED/b"), None);
    assert_eq!(kind("ALLOWED"), Some(BundleErrorKind::NotAllowed));
    assert_eq!(kind("ALLOWED2/b"), Some(BundleErrorKind::NotAllowed));
    assert_eq!(kind("/b"), Some(BundleErrorKind::NotAllowed));
    assert_eq!(kind("b"), Some(BundleErrorKind::InvalidPath));
    assert_eq!(
        kind("ALLOWED/../outside/b"),
        Some(BundleErrorKind::InvalidPath)
    );
    assert_eq!(kind("ALLOWED/none/b"), Some(BundleErrorKind::NotFound));
    assert!(kind("ALLOWED/link/b").is_some());
    // the bundle itself
    let linked = place(&allowed.join("link"), &allowed).unwrap();
    assert!(linked.open().is_err());
    assert_eq!(linked.create().err().unwrap().kind, BundleErrorKind::Exists);
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("b");
    fs::create_dir(&bundle).unwrap();
    symlink("/etc/passwd", bundle.join("corpus.jsonl")).unwrap();
    fs::create_dir(bundle.join("chunks.jsonl")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bundle.join("metadata.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let reader = place(&bundle, folder.path()).unwrap().open().unwrap();
    for file in [BundleFile::Corpus, BundleFile::Chunks, BundleFile::Metadata] {
        let error = reader.open(file).err().unwrap();
        assert_eq!(error.kind, BundleErrorKind::WrongFileType, "{error}");
    }
    let error = reader.open(BundleFile::Sources).err().unwrap();
    assert_eq!(error.kind, BundleErrorKind::NotFound);
}

#[test]
fn settings_have_the_attributes_of_a_collection_and_no_others() {
    let mut settings = serde_json::to_value(CollectionDefinition::default()).unwrap();
    settings["ids_from"] = "before".into();
    let read: Settings = serde_json::from_value(settings.clone()).unwrap();
    assert_eq!(read.definition, CollectionDefinition::default());
    assert_eq!(serde_json::to_value(&read).unwrap(), settings);
    settings["unknown"] = 1.into();
    assert!(serde_json::from_value::<Settings>(settings.clone()).is_err());
    settings.as_object_mut().unwrap().remove("unknown");
    settings.as_object_mut().unwrap().remove("title_weight");
    assert!(serde_json::from_value::<Settings>(settings).is_err());
}

#[test]
fn versions_are_compared_before_anything_else() {
    let read = |text: &str| Metadata::read(text.as_bytes(), "0.1.0").unwrap_err();
    let error = read(r#"{"format": "rag collection bundle", "format_version": 9, "new": 1}"#);
    assert_eq!(error.kind, BundleErrorKind::OtherVersion);
    assert!(error.message.contains('9') && error.message.contains('1'));
    let error = read(
        r#"{"format": "rag collection bundle", "format_version": 1, "rag_version": "7.2", "x": 1}"#,
    );
    assert!(error.message.contains("7.2") && error.message.contains("0.1.0"));
    for (version, is_read) in [
        ("0.0.9", true),
        ("0.1.0", true),
        ("0.1", true),
        ("0.1.1", false),
        ("0.10.0", false),
        ("0.1.x", false),
        ("", false),
    ] {
        let error = read(&format!(
            r#"{{"format": "rag collection bundle", "format_version": 1, "rag_version": "{version}"}}"#
        ));
        let is_other = error.kind == BundleErrorKind::OtherVersion;
        assert_eq!(is_other, !is_read, "{version}");
    }
    for text in ["", "[]", "{}", r#"{"format": "x"}"#, "\u{ff}"] {
        assert_eq!(read(text).kind, BundleErrorKind::Invalid);
    }
}

fn sum(bytes: &[u8]) -> FileSum {
    let mut summing = Summing::default();
    summing.update(bytes);
    summing.finish()
}

proptest! {
    #[test]
    fn records_are_read_as_they_were_written(
        uri in "[^\\x00]{1,40}", content in "[^\\x00]{0,200}",
        number in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        text in "[^\\x00]{0,20}",
    ) {
        prop_assume!(!uri.trim().is_empty());
        let text = serde_json::to_string(&text).unwrap();
        let written = document(&uri, &content, &format!("{{{text}: {number}, \"t\": {text}}}"));
        prop_assert_eq!(read_one::<Document>(&line_of(&written)).unwrap(), Some(written));
    }

    #[test]
    fn arbitrary_bytes_are_errors_and_never_more(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_one::<Document>(&bytes);
        let _ = read_one::<Chunk>(&bytes);
        let _ = Metadata::read(&bytes, "0.1.0");
        if let Ok(mut rows) = RowReader::open(bytes.as_slice()) {
            let _ = rows.next_row();
        }
    }

    #[test]
    fn no_changed_byte_of_a_record_goes_unnoticed(at in any::<prop::sample::Index>(), bit in 0..8) {
        let line = line_of(&document("a", "some text", r#"{"k": 1}"#));
        let mut changed = line.clone();
        changed[at.index(line.len())] ^= 1_u8 << bit;
        let mut read = Summed::new(BundleFile::Corpus, changed.as_slice(), sum(&line));
        std::io::copy(&mut read, &mut std::io::sink()).unwrap();
        prop_assert!(read.finish().is_err());
    }

    #[test]
    fn a_cut_file_is_an_error(at in any::<prop::sample::Index>()) {
        let whole = line_of(&document("a", "some text", "{}"));
        let cut = &whole[..at.index(whole.len())];
        let mut read = Summed::new(BundleFile::Corpus, cut, sum(&whole));
        std::io::copy(&mut read, &mut std::io::sink()).unwrap();
        prop_assert!(read.finish().is_err());
    }

    #[test]
    fn rows_are_read_bit_for_bit(rows in prop::collection::vec(prop::array::uniform3(-1e30_f32..1e30), 0..20)) {
        let shape = Shape { rows: rows.len() as u64, dimensions: 3 };
        let mut bytes = npy::header(shape);
        rows.iter().for_each(|row| npy::push_row(row, &mut bytes));
        let mut reader = RowReader::open(bytes.as_slice()).unwrap();
        for row in &rows {
            let read = reader.next_row().unwrap();
            prop_assert!(read.iter().zip(row).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
        prop_assert!(reader.finish().unwrap().is_empty());
    }
}
