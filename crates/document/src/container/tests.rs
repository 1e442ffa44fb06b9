use std::io::{Cursor, Write};

use flate2::{Compression, write::GzEncoder};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;

const LIMITS: Unpacking = Unpacking {
    member: 1000,
    total: 10_000,
    pictures: false,
};

/// Returns `path: text` of each member, its error in brackets, and how unpacking ended.
fn all(name: &str, bytes: &[u8]) -> (Vec<String>, Result<SkippedFiles, DocumentError>) {
    let mut found = vec![];
    let container = container(name, None).unwrap();
    let done = unpack(container, bytes, name, LIMITS, &mut |member| {
        let text = String::from_utf8_lossy(&member.bytes).trim().to_owned();
        let error = member.error.map(|error| format!(" [{}]", error.message));
        found.push(format!(
            "{}: {text}{}",
            member.path,
            error.unwrap_or_default()
        ));
        true
    });
    (found, done)
}

fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(vec![]));
    for (name, bytes) in files {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(vec![]);
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const FILES: &[(&str, &[u8])] = &[
    ("docs/a.md", b"# A"),
    ("docs/logo.png", b"x"),
    ("docs/", b""),
    ("inner.zip", b"PK"),
    ("b.txt", b"B"),
];

#[test]
fn archives_hold_files() {
    let files = &FILES[..2];
    let (found, done) = all("x/a.zip", &zip(FILES));
    assert_eq!(found, ["docs/a.md: # A", "inner.zip: PK", "b.txt: B"]);
    assert_eq!(done.unwrap().described().as_deref(), Some("1 .png"));
    for (name, bytes) in [
        ("a.tar", tar(files)),
        ("a.tar.gz", gzip(&tar(files))),
        ("https://x.org/a.tgz?y=1", gzip(&tar(files))),
    ] {
        let (found, done) = all(name, &bytes);
        assert_eq!(found, ["docs/a.md: # A"], "{name}");
        assert_eq!(done.unwrap().total(), 1);
    }
    let (found, _) = all("log/notes.md.gz", &gzip(b"notes"));
    assert_eq!(found, ["notes.md: notes"]);
}

#[test]
fn paths_stay_in_the_archive_and_differ() {
    let files: &[(&str, &[u8])] = &[
        ("/etc/../a.md", b"1"),
        ("..\\..\\b.md", b"2"),
        ("__MACOSX/._a.md", b"3"),
    ];
    let (found, _) = all("a.zip", &zip(files));
    assert_eq!(found, ["etc/a.md: 1", "b.md: 2"]);
    let files: &[(&str, &[u8])] = &[("a.md", b"1"), ("a.md", b"2"), ("a.md", b"3")];
    let (found, _) = all("a.tar", &tar(files));
    assert_eq!(found, ["a.md: 1", "a (2).md: 2", "a (3).md: 3"]);
    let long = "ä".repeat(2000) + ".md";
    assert!(normal(&long).len() <= MAX_PATH && normal(&long).ends_with("ä.md"));
}

#[test]
fn a_file_that_unpacks_to_too_much_is_an_error() {
    let large = vec![b'x'; 1001];
    let (found, done) = all("a.zip", &zip(&[("a.md", &large), ("b.md", b"B")]));
    assert_eq!(
        found,
        [
            "a.md:  [the file has more than the limit of 1000 bytes]",
            "b.md: B"
        ]
    );
    assert!(done.is_ok());
    let files: Vec<(String, Vec<u8>)> = (0..11)
        .map(|n| (format!("{n}.md"), vec![b'x'; 1000]))
        .collect();
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (&**name, &**bytes))
        .collect();
    for (name, bytes) in [
        ("a.zip", zip(&files)),
        ("a.tar", tar(&files)),
        ("a.tgz", gzip(&tar(&files))),
    ] {
        let (found, done) = all(name, &bytes);
        // The heads of a tar file count, too.
        assert!((6..11).contains(&found.len()), "{name}: {}", found.len());
        let message = done.unwrap_err().message;
        assert_eq!(message, "the file holds more than 10000 bytes", "{name}");
    }
    // Files that are skipped are unpacked, too.
    let bomb = gzip(&tar(&[("a.png", &vec![0; 20_000]), ("b.md", b"B")]));
    assert!(all("a.tgz", &bomb).1.is_err());
}

#[test]
fn damaged_archives_are_errors() {
    for (name, whole) in [
        ("a.zip", zip(FILES)),
        ("a.tar", tar(&FILES[..2])),
        ("a.tgz", gzip(&tar(&FILES[..2]))),
        ("a.md.gz", gzip(b"notes")),
    ] {
        for cut in 0..whole.len() {
            let _ = all(name, &whole[..cut]);
            let mut damaged = whole.clone();
            damaged[cut] ^= 0x55;
            let _ = all(name, &damaged);
        }
        assert!(all("a.zip", b"no archive").1.is_err());
        assert!(all("a.tgz", b"no archive").1.is_err());
    }
}

#[test]
fn attachments_and_messages_are_members() {
    let message = b"Subject: Hi\nContent-Type: multipart/mixed; boundary=m\n\n--m\n\
        Content-Type: text/plain\n\nSee the list.\n--m\n\
        Content-Type: text/csv; name=p.csv\nContent-Disposition: attachment\n\n\
        name,price\n--m\nContent-Type: image/png; name=a.png\n\nx\n--m\n\
        Content-Type: message/rfc822\n\nSubject: In/ner\n\nForwarded.\n--m--\n";
    let (found, done) = all("a.eml", message);
    assert_eq!(
        found,
        [
            "p.csv: name,price",
            "In_ner.eml: Subject: In/ner\n\nForwarded."
        ]
    );
    assert_eq!(done.unwrap().described().as_deref(), Some("1 .png"));
    assert!(Container::Mail.is_document(message));
    let alone = mail::extract_alone(message, "a.eml").unwrap();
    assert_eq!(alone.text, "See the list.\n\nAttachments: p.csv, a.png");
    assert_eq!(alone.title.text, "Hi");

    let mailbox = b"From a@x Wed May  1 08:00:00 2024\nMessage-ID: <1@x.org>\n\nHello\n\n\
        From b@x Wed May  1 09:00:00 2024\n\nno head\n\n\
        From c@x Wed May  1 10:00:00 2024\nMessage-ID: <1@x.org>\n\nBye\n";
    let (found, _) = all("inbox.mbox", mailbox);
    assert_eq!(
        found,
        [
            "1@x.org.eml: Message-ID: <1@x.org>\n\nHello",
            "message.eml: no head",
            "1@x.org (2).eml: Message-ID: <1@x.org>\n\nBye"
        ]
    );
    assert!(!Container::Mail.is_document(mailbox));
}
