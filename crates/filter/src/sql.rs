//! Tree to SQL. Keys and values become parameters; the text holds only what this file contains.

use serde_json::Value;

use crate::condition::{
    MetadataTest, Node, ScalarTest, TagsTest, Test, TextTest, Timestamp, TitleWords, Uuid,
};
use crate::operator::Comparison;
use crate::{number, timestamp};

/// A condition for a WHERE clause, and the parameters its placeholders name.
#[derive(Debug, Clone, PartialEq)]
pub struct Sql {
    /// Boolean, over the table alias `c`, in parentheses where needed: it can stand beside `AND`
    /// and `NOT`.
    pub text: String,
    /// The first one is for the placeholder `$first_param`, and so on.
    pub params: Vec<Param>,
}

/// A parameter, to be bound as the type given here. The SQL casts each placeholder to that type,
/// and a [`Timestamp`] and a [`Uuid`] from `text`.
///
/// [`Timestamp`]: Param::Timestamp
/// [`Uuid`]: Param::Uuid
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// `text`
    Text(String),
    /// `jsonb`
    Json(Value),
    /// `bigint`
    BigInt(i64),
    /// `text[]`
    TextArray(Vec<String>),
    /// `bigint[]`
    BigIntArray(Vec<i64>),
    /// `text`: an ISO 8601 timestamp that the cast to `timestamptz` accepts.
    Timestamp(String),
    /// `text`: one that the cast to `uuid` accepts.
    Uuid(String),
}

/// Writes the tree, numbering placeholders from `first_param`.
pub(crate) fn write(root: &Node, first_param: usize) -> Sql {
    let mut writer = Writer {
        first_param,
        params: Vec::new(),
    };
    let text = writer.node(root);
    Sql {
        text,
        params: writer.params,
    }
}

struct Writer {
    first_param: usize,
    params: Vec<Param>,
}

impl Writer {
    /// Takes a parameter and returns its placeholder.
    fn bind(&mut self, param: Param) -> String {
        let cast = match param {
            Param::Text(_) => "text",
            Param::Json(_) => "jsonb",
            Param::BigInt(_) => "int8",
            Param::TextArray(_) => "text[]",
            Param::BigIntArray(_) => "int8[]",
            Param::Timestamp(_) => "text::timestamptz",
            Param::Uuid(_) => "text::uuid",
        };
        let number = self.first_param + self.params.len();
        self.params.push(param);
        format!("${number}::{cast}")
    }

    fn text(&mut self, text: &str) -> String {
        self.bind(Param::Text(text.to_owned()))
    }

    fn texts(&mut self, texts: &[String]) -> String {
        self.bind(Param::TextArray(texts.to_vec()))
    }

    fn json(&mut self, value: impl Into<Value>) -> String {
        self.bind(Param::Json(value.into()))
    }

    fn id(&mut self, id: &i64) -> String {
        self.bind(Param::BigInt(*id))
    }

    fn ids(&mut self, ids: &[i64]) -> String {
        self.bind(Param::BigIntArray(ids.to_vec()))
    }

    fn time(&mut self, time: &Timestamp) -> String {
        self.bind(Param::Timestamp(time.0.clone()))
    }

    fn times(&mut self, times: &[Timestamp]) -> String {
        let times = times.iter().map(|time| time.0.clone()).collect();
        format!("{}::timestamptz[]", self.bind(Param::TextArray(times)))
    }

    fn uuid(&mut self, id: &Uuid) -> String {
        self.bind(Param::Uuid(id.0.clone()))
    }

    fn uuids(&mut self, ids: &[Uuid]) -> String {
        let ids = ids.iter().map(|id| id.0.clone()).collect();
        format!("{}::uuid[]", self.bind(Param::TextArray(ids)))
    }

    fn node(&mut self, node: &Node) -> String {
        match node {
            Node::All(nodes) => self.joined(nodes, " AND ", "true"),
            Node::Any(nodes) => self.joined(nodes, " OR ", "false"),
            Node::NotAll(nodes) => {
                format!("({} IS NOT TRUE)", self.joined(nodes, " AND ", "true"))
            }
            Node::Holds(test) => format!("({})", self.test(test)),
            Node::Not(test) => format!("(({}) IS NOT TRUE)", self.test(test)),
        }
    }

    fn joined(&mut self, nodes: &[Node], join: &str, none: &str) -> String {
        match nodes {
            [] => none.to_owned(),
            [node] => self.node(node),
            _ => format!(
                "({})",
                nodes
                    .iter()
                    .map(|node| self.node(node))
                    .collect::<Vec<_>>()
                    .join(join)
            ),
        }
    }

    fn test(&mut self, test: &Test) -> String {
        match test {
            Test::Contains(objects) => {
                let contained = objects
                    .iter()
                    .map(|object| format!("c.metadata @> {}", self.json(object.clone())));
                contained.collect::<Vec<_>>().join(" OR ")
            }
            Test::Metadata { key, test } => self.metadata(key, test),
            Test::Text { column, test } => self.text_column(&format!("c.{column}"), test),
            Test::Title(words) => self.title(words),
            Test::SourceFile(test) => {
                format!(
                    "{} OR {} OR {}",
                    self.text_column("c.uri", test),
                    self.text_column(FILE_NAME, test),
                    self.text_column(DECODED_FILE_NAME, test)
                )
            }
            Test::Texts { column, test } => self.texts_column(&format!("c.{column}"), test),
            Test::Integer { column, test } => {
                self.scalar(&format!("c.{column}"), test, Self::id, Self::ids)
            }
            Test::Uuid { column, test } => {
                self.scalar(&format!("c.{column}"), test, Self::uuid, Self::uuids)
            }
            Test::Time { column, test } => {
                self.scalar(&format!("c.{column}"), test, Self::time, Self::times)
            }
        }
    }

    fn metadata(&mut self, key: &str, test: &MetadataTest) -> String {
        let key = self.text(key);
        let value = format!("(c.metadata -> {key})");
        let text = format!("(c.metadata ->> {key})");
        let type_of = format!("jsonb_typeof{value}");
        let is_string = format!("{type_of} = 'string'");
        // CASE, unlike AND, guarantees that the cast is evaluated only after the test before it.
        let is_numeric = format!(
            "{is_string} AND {text} COLLATE \"C\" ~ '{}'",
            number::PATTERN
        );
        let number = format!(
            "(CASE WHEN {type_of} = 'number' THEN {value} \
             WHEN {is_numeric} THEN to_jsonb({text}::numeric) END)"
        );
        match test {
            MetadataTest::Equals(given) => format!("{value} = {}", self.json(given.clone())),
            MetadataTest::In(given) => {
                let given = self.json(given.clone());
                format!("{value} = ANY (ARRAY(SELECT jsonb_array_elements({given})))")
            }
            MetadataTest::TextIn(given) => format!(
                "{type_of} IN ('string', 'number', 'boolean') AND {text} = ANY ({})",
                self.texts(given)
            ),
            MetadataTest::CompareNumber(comparison, given) => {
                let given = self.json(given.clone());
                format!("{number} {} {given}", comparison.sql())
            }
            MetadataTest::CompareEither(comparison, as_number, as_text) => {
                let (as_number, as_text) = (self.json(as_number.clone()), self.text(as_text));
                format!(
                    "CASE WHEN {type_of} = 'number' OR {is_numeric} THEN {number} {} {as_number} \
                        ELSE {is_string} AND {} END",
                    comparison.sql(),
                    in_text_order(&text, *comparison, &as_text)
                )
            }
            MetadataTest::CompareText(comparison, given) => {
                let given = self.text(given);
                format!(
                    "{is_string} AND {}",
                    in_text_order(&text, *comparison, &given)
                )
            }
            MetadataTest::CompareTime(comparison, given) => format!(
                "CASE WHEN {is_string} AND {text} COLLATE \"C\" ~ '{}' \
                 THEN {text}::timestamptz {} {} ELSE false END",
                timestamp::PATTERN,
                comparison.sql(),
                self.time(given)
            ),
            MetadataTest::Contains(given) => {
                let in_string = given.as_str().map(|part| contains(&text, &self.text(part)));
                let element = self.json(given.clone());
                let in_array = format!("{type_of} = 'array' AND {value} @> {element}");
                match in_string {
                    Some(in_string) => format!("{is_string} AND {in_string} OR {in_array}"),
                    None => in_array,
                }
            }
            MetadataTest::Matches(given) => {
                let given = self.text(given);
                let elements = format!(
                    "SELECT e.element #>> '{{}}' FROM jsonb_array_elements({value}) AS \
                        e (element) \
                     WHERE jsonb_typeof(e.element) = 'string'"
                );
                format!(
                    "CASE {type_of} WHEN 'string' THEN {} WHEN 'array' THEN {} ELSE false END",
                    matches(&text, &given),
                    any_matches(&elements, &given)
                )
            }
            MetadataTest::StartsWith(given) => {
                format!("{is_string} AND {}", starts_with(&text, &self.text(given)))
            }
            MetadataTest::EndsWith(given) => {
                format!("{is_string} AND {}", ends_with(&text, &self.text(given)))
            }
            MetadataTest::Present => {
                format!(r#"{value} <> ALL (ARRAY['null', '""', '[]', '{{}}']::jsonb[])"#)
            }
            MetadataTest::HasValue => format!("{text} IS NOT NULL"),
        }
    }

    fn title(&mut self, words: &TitleWords) -> String {
        let title = match &words.language_key {
            // as `rag_bm25` reads texts in several languages
            Some(key) => format!(
                "chr(1) || left(coalesce(c.metadata ->> {}, ''), 16) || chr(1) || c.title",
                self.text(key)
            ),
            None => "c.title".to_owned(),
        };
        format!(
            "rag_internal.bm25_title_matches({title}, {}, {})",
            self.text(&words.query),
            self.text(&words.config)
        )
    }

    fn text_column(&mut self, column: &str, test: &TextTest) -> String {
        match test {
            TextTest::Contains(given) => contains(column, &self.text(given)),
            TextTest::Matches(given) => matches(column, &self.text(given)),
            TextTest::StartsWith(given) => starts_with(column, &self.text(given)),
            TextTest::EndsWith(given) => ends_with(column, &self.text(given)),
            TextTest::Scalar(ScalarTest::Compare(comparison, given)) => {
                in_text_order(column, *comparison, &self.text(given))
            }
            TextTest::Scalar(ScalarTest::Present) => format!("{column} <> ''"),
            TextTest::Scalar(test) => self.scalar(
                column,
                test,
                |writer, given| writer.text(given),
                Self::texts,
            ),
        }
    }

    fn texts_column(&mut self, column: &str, test: &TagsTest) -> String {
        match test {
            TagsTest::IsNull => format!("{column} IS NULL"),
            TagsTest::AllOf(tags) => format!("{column} @> {}", self.texts(tags)),
            TagsTest::Exactly(tags) => {
                let tags = self.texts(tags);
                format!("{column} @> {tags} AND {column} <@ {tags}")
            }
            TagsTest::AnyOf(tags) => format!("{column} && {}", self.texts(tags)),
            TagsTest::Matches(given) => {
                any_matches(&format!("SELECT unnest({column})"), &self.text(given))
            }
            TagsTest::Present => format!("cardinality({column}) > 0"),
        }
    }

    /// A test of an ordered column; `one` and `many` bind a value and a list of them.
    fn scalar<T>(
        &mut self,
        column: &str,
        test: &ScalarTest<T>,
        one: impl Fn(&mut Self, &T) -> String,
        many: impl Fn(&mut Self, &[T]) -> String,
    ) -> String {
        match test {
            ScalarTest::IsNull => format!("{column} IS NULL"),
            ScalarTest::Equals(given) => format!("{column} = {}", one(self, given)),
            ScalarTest::In(given) => format!("{column} = ANY ({})", many(self, given)),
            ScalarTest::Compare(comparison, given) => {
                format!("{column} {} {}", comparison.sql(), one(self, given))
            }
            ScalarTest::Present => format!("{column} IS NOT NULL"),
        }
    }
}

/// Text is ordered by code point: the same on every server, and chronological for ISO 8601.
fn in_text_order(text: &str, comparison: Comparison, given: &str) -> String {
    format!("{text} {} {given} COLLATE \"C\"", comparison.sql())
}

/// The last part of the uri as people read it.
const DECODED_FILE_NAME: &str = "rag_internal.uri_file_name(c.uri)";

/// The last part of the uri, as it is.
const FILE_NAME: &str = "regexp_replace(c.uri, '^.*[/#]', '')";

fn matches(text: &str, given: &str) -> String {
    contains(&format!("lower({text})"), &format!("lower({given})"))
}

fn any_matches(elements: &str, given: &str) -> String {
    format!(
        "EXISTS (SELECT FROM ({elements}) AS t (element) WHERE {})",
        matches("t.element", given)
    )
}

/// Functions, not LIKE: no character of the given text has another meaning.
fn contains(text: &str, given: &str) -> String {
    format!("strpos({text}, {given}) > 0")
}

fn starts_with(text: &str, given: &str) -> String {
    format!("starts_with({text}, {given})")
}

fn ends_with(text: &str, given: &str) -> String {
    format!("right({text}, length({given})) = {given}")
}
