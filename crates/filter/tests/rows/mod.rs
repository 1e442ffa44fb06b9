//! Which rows each filter returns, tested on a real server with a temporary table and `psql`,
//! connected by libpq's environment variables. Run with
//!
//! ```text
//! PGHOST=... PGUSER=... PGDATABASE=... cargo test --release -p rag-filter rows:: -- --ignored
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dify;

use std::io::Write;
use std::process::{Command, Stdio};

use rag_filter::{Filter, FilterError, MAX_CONDITIONS, MAX_DEPTH, Param, Sql, parse};
use serde_json::{Value, json};

const ROWS: &str = r#"
SET TimeZone = 'UTC';
SET client_min_messages = warning;
-- stands for the extension's function, which also decodes names: tests/sql/documents.sql tests that
CREATE FUNCTION pg_temp.uri_file_name(uri text) RETURNS text LANGUAGE sql STRICT IMMUTABLE
    AS $$SELECT pg_catalog.regexp_replace(uri, '^.*[/#]', '')$$;
CREATE TABLE pg_temp.chunks (
    id int, metadata jsonb, category text, tags text[], knowledge_id bigint, document_type text, title text, uri text,
    source text, indexed_at timestamptz, fetched_at timestamptz, document_id uuid, chunk_id uuid, chunk_index int,
    page int, heading_path text[]);
INSERT INTO pg_temp.chunks VALUES
(1, '{"year": 2020, "lang": "en", "topics": ["a", "b"], "author": {"name": "Ann", "age": 7}, "date": "2024-05-31",
      "draft": false, "note": null, "category": "hidden", "a.b": 1}',
    'tech', '{a,b}', 1, 'markdown', 'The 50%_off Guide', 'https://h/a.md', 'handbook', '2024-05-31 10:00+00', '2024-01-01',
    '6d1c23f1-0000-0000-0000-00000000000a', '6d1c23f1-0000-0000-0000-0000000000a0', 0, 7, '{Guide,Install}'),
(2, '{"year": "2020", "lang": "EN", "topics": "ab", "author": "Ann", "date": "soon", "draft": true, "note": ""}',
    'news', '{b}', 9223372036854775807, 'html', 'Zebra', 'https://h/b.html', 'website', '2024-06-01 00:00+00', NULL,
    '6d1c23f1-0000-0000-0000-00000000000a', '6d1c23f1-0000-0000-0000-0000000000a1', 1, 8, '{Guide}'),
(3, '{}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(4, NULL, '', '{}', -5, '', '', '', '', '2020-01-01', '2020-01-01', NULL, NULL, 0, NULL, '{}'),
(5, '{"year": 2021.5, "lang": "50%_\\o''x", "topics": [], "date": "2023-02-29", "draft": "false", "note": {}, "level": 9}',
    'Tech', '{a,b,c}', 42, 'pdf', 'élan', 'x', 'handbook', '2024-05-31 12:00+02', 'infinity', NULL, NULL, 3, 8, NULL),
(6, '{"year": 2020.0, "date": "2024-05-31T23:30:00-02:00", "topics": ["ab", 3], "draft": 0, "level": "10"}',
    'tech', '{b,a,a}', 42, 'markdown', 'the guide', 'repo.git#docs/y', 'handbook', '2024-05-31 10:00:00.5+00', NULL,
    '6d1c23f1-0000-0000-0000-00000000000b', '6d1c23f1-0000-0000-0000-0000000000b0', 0, NULL, NULL);
"#;

/// A condition of one key.
fn one(key: &str, operator: &str, value: Value) -> Value {
    json!({"conditions": [{"key": key, "operator": operator, "value": value}]})
}

fn negated(group: Value) -> Value {
    json!({"operator": "NOT", "conditions": [group]})
}

fn cases() -> Vec<(Value, &'static str)> {
    let null = Value::Null;
    vec![
        // An empty filter restricts nothing.
        (json!(null), "1 2 3 4 5 6"),
        (json!({}), "1 2 3 4 5 6"),
        // Containment.
        (json!({"category": "tech"}), "1 6"),
        (json!({"category": "tech", "year": 2020}), "1 6"),
        (json!({"year": "2020"}), "1 2 6"),
        (json!({"year": 2020, "lang": "EN"}), "2"),
        (json!({"knowledge_ids": [1, 42]}), "1 5 6"),
        (json!({"knowledge_id": []}), ""),
        (json!({"category": ["tech", "Tech"]}), "1 5 6"),
        (
            json!({"document_id": "6D1C23F1-0000-0000-0000-00000000000A"}),
            "1 2",
        ),
        (
            json!({"doc_ref": "6d1c23f1-0000-0000-0000-00000000000b"}),
            "6",
        ),
        (
            json!({"chunk_id": ["6d1c23f1-0000-0000-0000-0000000000a1", "6d1c23f1-0000-0000-0000-0000000000b0"]}),
            "2 6",
        ),
        (json!({"chunk_index": 0, "page": 7}), "1"),
        (json!({"page": "8"}), "2 5"),
        (json!({"heading": "Guide"}), "1 2"),
        (json!({"heading": ["Install", "Guide"]}), "1"),
        (json!({"source_file": "a.md"}), "1"),
        (json!({"source_file": "https://h/a.md"}), "1"),
        (json!({"source_file": ["y", "x"]}), "5 6"),
        // One condition by itself.
        (
            json!({"key": "year", "operator": "GTE", "value": "2021"}),
            "5",
        ),
        (
            json!({"name": ["category"], "comparison_operator": "Is Not", "value": "tech"}),
            "2 3 4 5",
        ),
        (json!({"key": "year", "value": 1}), ""),
        (json!({"category": null}), "3"),
        (json!({"tags": ["a", "b"]}), "1 5 6"),
        (json!({"tags": "b"}), "1 2 5 6"),
        (json!({"tags": []}), "1 2 4 5 6"),
        (json!({"metadata.category": "hidden"}), "1"),
        (json!({"topics": ["b"]}), "1"),
        (json!({"author": {"name": "Ann"}}), "1"),
        (json!({"note": null}), "1"),
        (
            json!({"knowledge_id": "42", "indexed_at": "2024-05-31T10:00:00Z"}),
            "5",
        ),
        (json!({"a.b": 1}), "1"),
        // Equality in metadata: numbers and numeric texts by value, missing keys count as
        // different.
        (one("year", "eq", json!(2020)), "1 2 6"),
        (one("year", "==", json!(2020.0)), "1 2 6"),
        (one("year", "is", json!("2020")), "1 2 6"),
        (one("year", "ne", json!(2020)), "3 4 5"),
        (one("year", "≠", json!("2020")), "3 4 5"),
        (one("year", "!=", json!("2021.5")), "1 2 3 4 6"),
        (one("year", "eq", json!("02020")), ""),
        (one("lang", "is not", json!("en")), "2 3 4 5 6"),
        (one("draft", "eq", json!(false)), "1"),
        (one("draft", "ne", json!(false)), "2 3 4 5 6"),
        (one("note", "eq", null.clone()), "1"),
        (one("note", "ne", null.clone()), "2 3 4 5 6"),
        (one("topics", "eq", json!(["a", "b"])), "1"),
        (one("topics", "eq", json!(["b", "a"])), ""),
        (one("topics", "eq", json!([])), "5"),
        (one("topics", "eq", json!("a")), ""),
        (one("topics", "ne", json!(["a", "b"])), "2 3 4 5 6"),
        (one("author", "eq", json!({"age": 7, "name": "Ann"})), "1"),
        (one("author", "eq", json!({"name": "Ann"})), ""),
        (one("metadata.category", "eq", json!("hidden")), "1"),
        (one("metadata.category", "eq", json!("tech")), ""),
        // Lists.
        (one("year", "in", json!([2020])), "1 2 6"),
        (one("year", "IN", json!(["2021.5", "x"])), "5"),
        (one("year", "in", json!([])), ""),
        (one("year", "nin", json!([])), "1 2 3 4 5 6"),
        (one("year", "nin", json!([2020])), "3 4 5"),
        (one("year", "not in", json!([2020, 2021.5])), "3 4"),
        (one("topics", "in", json!([["a", "b"], "ab"])), "1 2"),
        (one("note", "in", json!([null])), "1"),
        // Order in metadata.
        (one("year", "gt", json!(2020)), "5"),
        (one("year", "gte", json!(2020)), "1 2 5 6"),
        (one("year", "≥", json!(2020)), "1 2 5 6"),
        (one("year", ">=", json!(2020.5)), "5"),
        (one("year", "lt", json!(2021)), "1 2 6"),
        (one("year", "≤", json!(2020)), "1 2 6"),
        (one("year", "<=", json!(2019)), ""),
        (one("year", "lte", json!("2020")), "1 2 6"),
        (one("year", ">", json!("2")), "1 2 5 6"),
        (one("level", ">", json!(9.5)), "6"),
        (one("level", "lt", json!("10")), "5"),
        (one("date", "lt", json!("2024")), "5"),
        (one("lang", "<", json!("a")), "2 5"),
        (one("date", "gte", json!("2024-01-01")), "1 2 6"),
        (one("date", "before", json!("2024-06-01T00:00:00Z")), "1"),
        (one("date", "after", json!("2024-05-31T00:00:00Z")), "6"),
        (one("date", "after", json!("2000-01-01")), "1 6"),
        (one("year", "after", json!(2020)), "5"),
        // Text in metadata.
        (one("lang", "text_match", json!("En")), "1 2"),
        (one("topics", "TEXT_MATCH", json!("AB")), "2 6"),
        (one("topics", "text_match", json!("3")), ""),
        (one("lang", "contains", json!("%_\\o'")), "5"),
        (one("lang", "contains", json!("n")), "1"),
        (one("lang", "not contains", json!("n")), "2 3 4 5 6"),
        (one("topics", "contains", json!("a")), "1 2"),
        (one("topics", "contains", json!("ab")), "2 6"),
        (one("topics", "contains", json!(3)), "6"),
        (one("topics", "not contains", json!("a")), "3 4 5 6"),
        (one("lang", "start with", json!("50%")), "5"),
        (one("lang", "start with", json!("%")), ""),
        (one("lang", "end with", json!("'x")), "5"),
        (one("lang", "end with", json!("longer than any")), ""),
        (one("year", "start with", json!("2")), "2"),
        (one("lang", "contains", json!("")), "1 2 5"),
        (one("lang", "end with", json!("")), "1 2 5"),
        // Presence of keys in metadata.
        (one("note", "empty", null.clone()), "1 2 3 4 5 6"),
        (one("topics", "empty", null.clone()), "3 4 5"),
        (one("topics", "not empty", null.clone()), "1 2 6"),
        (one("draft", "not empty", json!("")), "1 2 5 6"),
        // Text columns.
        (one("category", "eq", json!("tech")), "1 6"),
        (one("category", "ne", json!("tech")), "2 3 4 5"),
        (one("category", "eq", null.clone()), "3"),
        (one("category", "ne", null.clone()), "1 2 4 5 6"),
        (one("category", "in", json!(["tech", "news"])), "1 2 6"),
        (one("category", "nin", json!(["tech", "news"])), "3 4 5"),
        (one("category", "gt", json!("news")), "1 6"),
        (one("title", "lt", json!("a")), "1 2 4"),
        (one("title", "contains", json!("50%_off")), "1"),
        (one("title", "not contains", json!("uide")), "2 3 4 5"),
        (one("title", "start with", json!("é")), "5"),
        (one("uri", "end with", json!(".md")), "1"),
        (one("document_type", "empty", null.clone()), "3 4"),
        (one("source", "not empty", null.clone()), "1 2 5 6"),
        (one("category", "eq", json!(["news", "Tech"])), "2 5"),
        (one("category", "ne", json!(["news", "Tech"])), "1 3 4 6"),
        (one("title", "text_match", json!("GUIDE")), "1 6"),
        (one("document_type", "in", json!(["pdf", "html"])), "2 5"),
        (one("source_file", "end with", json!(".md")), "1"),
        (one("source_file", "ne", json!("y")), "1 2 3 4 5"),
        // Identities and places.
        (
            one(
                "document_id",
                "ne",
                json!("6d1c23f1-0000-0000-0000-00000000000a"),
            ),
            "3 4 5 6",
        ),
        (
            one(
                "chunk_id",
                "in",
                json!(["6d1c23f1-0000-0000-0000-0000000000b0"]),
            ),
            "6",
        ),
        (one("document_id", "empty", null.clone()), "3 4 5"),
        (one("chunk_index", "gt", json!(0)), "2 5"),
        (one("page", "nin", json!([8])), "1 3 4 6"),
        (one("heading", "text_match", json!("stall")), "1"),
        (one("heading", "empty", null.clone()), "3 4 5 6"),
        // Tags.
        (one("tags", "text_match", json!("C")), "5"),
        (one("tags", "eq", json!("a")), "1 5 6"),
        (one("tags", "ne", json!("a")), "2 3 4"),
        (one("tags", "eq", json!(["b", "a"])), "1 6"),
        (one("tags", "ne", json!(["b", "a"])), "2 3 4 5"),
        (one("tags", "eq", json!([])), "4"),
        (one("tags", "eq", null.clone()), "3"),
        (one("tags", "in", json!(["c", "z"])), "5"),
        (one("tags", "nin", json!(["a"])), "2 3 4"),
        (one("tags", "contains", json!("c")), "5"),
        (one("tags", "contains", json!(["a", "c"])), "5"),
        (one("tags", "not contains", json!("c")), "1 2 3 4 6"),
        (one("tags", "empty", null.clone()), "3 4"),
        (one("tags", "not empty", null.clone()), "1 2 5 6"),
        // Numbers.
        (one("knowledge_id", "eq", json!(i64::MAX)), "2"),
        (one("knowledge_id", "ne", json!(42)), "1 2 3 4"),
        (one("knowledge_id", "in", json!([1, "42"])), "1 5 6"),
        (one("knowledge_id", "nin", json!([42])), "1 2 3 4"),
        (one("knowledge_id", "lt", json!(1)), "4"),
        (one("knowledge_id", "eq", null.clone()), "3"),
        (one("knowledge_id", "empty", null.clone()), "3"),
        // Times.
        (
            one("indexed_at", "eq", json!("2024-05-31T10:00:00Z")),
            "1 5",
        ),
        (
            one("indexed_at", "ne", json!("2024-05-31T10:00:00Z")),
            "2 3 4 6",
        ),
        (
            one("indexed_at", "in", json!(["2020-01-01", "2024-06-01"])),
            "2 4",
        ),
        (
            one("indexed_at", "nin", json!(["2020-01-01", "2024-06-01"])),
            "1 3 5 6",
        ),
        (
            one("indexed_at", "after", json!("2024-05-31 10:00Z")),
            "2 6",
        ),
        (one("indexed_at", "before", json!("2024-05-31")), "4"),
        (
            one("indexed_at", "gte", json!("2024-05-31T12:00:00+02:00")),
            "1 2 5 6",
        ),
        (one("fetched_at", "empty", null.clone()), "2 3 6"),
        (one("fetched_at", "not empty", null.clone()), "1 4 5"),
        // Groups.
        (negated(one("year", "gt", json!(2020))), "1 2 3 4 6"),
        (
            json!({"operator": "OR", "conditions": [
                {"key": "category", "operator": "eq", "value": "news"},
                {"operator": "and", "conditions": [
                    {"key": "year", "operator": "gte", "value": 2020},
                    {"key": "category", "operator": "ne", "value": "Tech"}]}]}),
            "1 2 6",
        ),
        (
            json!({"logical_operator": "and", "conditions": [
                {"name": ["category"], "comparison_operator": "contains", "value": "ec"},
                {"name": "knowledge_id", "comparison_operator": "not empty"}]}),
            "1 5 6",
        ),
    ]
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn every_operator_returns_the_rows_it_promises() {
    check_rows(&cases(), parse);
}

/// Checks that each filter, as `parse` reads it, selects the rows with the ids beside it.
fn check_rows(cases: &[(Value, &str)], parse: impl Fn(&Value) -> Result<Filter, FilterError>) {
    let mut script = ROWS.to_owned();
    for (i, (filter, _)) in cases.iter().enumerate() {
        script += &query(
            i,
            &parse(filter)
                .unwrap_or_else(|error| panic!("{filter}: {error}"))
                .to_sql(1),
        );
    }
    let answers = psql(&script);
    let wrong: Vec<String> = cases
        .iter()
        .zip(&answers)
        .filter(|((_, expected), rows)| expected != rows)
        .map(|((filter, expected), rows)| {
            format!("{filter}: expected {expected:?}, found {rows:?}")
        })
        .collect();
    assert_eq!(answers.len(), cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn the_largest_filter_is_accepted() {
    let condition = json!({"key": "date", "operator": "after", "value": "2000-01-01"});
    let conditions: Vec<Value> = vec![condition; MAX_CONDITIONS];
    let filter = (1..MAX_DEPTH).fold(
        json!({"conditions": conditions}),
        |inner, _| json!({"conditions": [inner]}),
    );
    assert_eq!(
        psql(&(ROWS.to_owned() + &query(0, &parse(&filter).unwrap().to_sql(1)))),
        ["1 6"]
    );
}

/// The parser of a filter's timestamps, the pattern for a row's, and PostgreSQL's cast accept the
/// same texts.
#[test]
#[ignore = "needs a PostgreSQL server"]
fn timestamps_are_those_postgres_accepts() {
    let mut texts = Vec::new();
    for year in ["0000", "0001", "1900", "2000", "2023", "2024", "9999"] {
        texts.extend((0..=13).flat_map(|m| (0..=32).map(move |d| format!("{year}-{m:02}-{d:02}"))));
    }
    let times = [
        "",
        "T00",
        "T00:00",
        "T23:59:59",
        " 24:00:00",
        "t12:60",
        "T12:30:60",
        " 1:30",
        "T12:30:15.123456789",
    ];
    let zones = [
        "", "Z", "z", " Z", "+2", "+02", "-0200", " +02:00", "+15:59", "-15:59", "+16:00",
        "+02:60", " UTC", "  Z",
    ];
    for time in times {
        texts.extend(zones.iter().map(|zone| format!("2024-05-31{time}{zone}")));
    }
    let others = [
        "",
        "now",
        "tomorrow",
        "infinity",
        "2024",
        "2024-05",
        "20240531",
        "31.5.2024",
        " 2024-05-31",
        "2024-05-31T",
    ];
    texts.extend(others.iter().map(|text| (*text).to_owned()));
    texts.extend([
        "2024-05-31T10:30:15.".to_owned(),
        "2024-05-31\n".to_owned(),
        "٢٠٢٤-٠٥-٣١".to_owned(),
    ]);

    let accepted: Vec<&String> = texts
        .iter()
        .filter(|text| parse(&json!({"indexed_at": text})).is_ok())
        .collect();
    let rows: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| format!("({i}, {})", literal(&Param::Json(json!({"t": text})))))
        .collect();
    let script = format!(
        "SET client_min_messages = warning;\nCREATE TABLE pg_temp.chunks (id int, metadata \
            jsonb);\nINSERT INTO pg_temp.chunks VALUES {};\n{}",
        rows.join(",\n"),
        query(
            0,
            &parse(&one("t", "after", json!("0001-01-01 00:00+15:59")))
                .unwrap()
                .to_sql(1)
        )
    );
    let matched = &psql(&script)[0];
    let matched: Vec<&String> = matched
        .split(' ')
        .map(|i| &texts[i.parse::<usize>().unwrap()])
        .collect();
    assert_eq!(accepted, matched);
}

/// Selects the ids of matching rows as one line, with the parameters bound to the types that the
/// crate documents.
fn query(i: usize, sql: &Sql) -> String {
    let types: Vec<&str> = sql
        .params
        .iter()
        .map(|param| match param {
            Param::Text(_) | Param::Timestamp(_) | Param::Uuid(_) => "text",
            Param::Json(_) => "jsonb",
            Param::BigInt(_) => "bigint",
            Param::TextArray(_) => "text[]",
            Param::BigIntArray(_) => "bigint[]",
        })
        .collect();
    let values: Vec<String> = sql.params.iter().map(literal).collect();
    let (types, values) = if types.is_empty() {
        (String::new(), String::new())
    } else {
        (
            format!("({})", types.join(", ")),
            format!("({})", values.join(", ")),
        )
    };
    format!(
        "PREPARE q{i}{types} AS SELECT 'rows ' || coalesce(string_agg(id::text, ' ' ORDER BY id), \
            '') \
         FROM pg_temp.chunks AS c WHERE {};\nEXECUTE q{i}{values};\n",
        sql.text
            .replace("rag_internal.uri_file_name", "pg_temp.uri_file_name")
    )
}

fn literal(param: &Param) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match param {
        Param::Text(text) | Param::Timestamp(text) | Param::Uuid(text) => quoted(text),
        Param::Json(value) => quoted(&value.to_string()),
        Param::BigInt(number) => format!("'{number}'"),
        Param::TextArray(texts) => {
            format!(
                "ARRAY[{}]::text[]",
                texts
                    .iter()
                    .map(|t| quoted(t))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Param::BigIntArray(numbers) => {
            format!(
                "'{{{}}}'",
                numbers
                    .iter()
                    .map(i64::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
    }
}

/// The lines that the selects of [`query`] print.
fn psql(script: &str) -> Vec<String> {
    let script = format!("SET search_path = pg_catalog;\n{script}");
    let mut child = Command::new("psql")
        .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("psql starts");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "psql failed");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("rows "))
        .map(str::to_owned)
        .collect()
}
