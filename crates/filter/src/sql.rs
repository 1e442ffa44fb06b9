//! Tree to SQL. Keys and values become parameters; the text holds only what this file spells out.

use serde_json::Value;

use crate::condition::{MetadataTest, Node, ScalarTest, TagsTest, Test, TextTest, Timestamp};
use crate::operator::Comparison;
use crate::timestamp;

/// A condition for a WHERE clause, and the parameters its placeholders name.
#[derive(Debug, Clone, PartialEq)]
pub struct Sql {
    /// Boolean, over the table alias `c`. Closed: it can stand beside `AND` and `NOT` as it is.
    pub text: String,
    /// The first belongs to the placeholder `$first_param`, and so on.
    pub params: Vec<Param>,
}

/// A parameter, to be bound as the type given here. The SQL casts each placeholder to that type, and a [`Timestamp`]
/// from `text` on.
///
/// [`Timestamp`]: Param::Timestamp
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
}

/// Writes the tree, numbering placeholders from `first_param`.
pub(crate) fn write(root: &Node, first_param: usize) -> Sql {
    let mut writer = Writer { first_param, params: Vec::new() };
    let text = writer.node(root);
    Sql { text, params: writer.params }
}

struct Writer {
    first_param: usize,
    params: Vec<Param>,
}

impl Writer {
    /// Takes a parameter and returns its placeholder.
    fn bind(&mut self, param: Param) -> String {
        let cast = match param {
            Param::Text(_) => "pg_catalog.text",
            Param::Json(_) => "pg_catalog.jsonb",
            Param::BigInt(_) => "pg_catalog.int8",
            Param::TextArray(_) => "pg_catalog.text[]",
            Param::BigIntArray(_) => "pg_catalog.int8[]",
            Param::Timestamp(_) => "pg_catalog.text::pg_catalog.timestamptz",
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
        format!("{}::pg_catalog.timestamptz[]", self.bind(Param::TextArray(times)))
    }

    fn node(&mut self, node: &Node) -> String {
        match node {
            Node::All(nodes) => self.joined(nodes, " AND ", "true"),
            Node::Any(nodes) => self.joined(nodes, " OR ", "false"),
            Node::Holds(test) => format!("({})", self.test(test)),
            Node::Not(test) => format!("(({}) IS NOT TRUE)", self.test(test)),
        }
    }

    fn joined(&mut self, nodes: &[Node], join: &str, none: &str) -> String {
        match nodes {
            [] => none.to_owned(),
            [node] => self.node(node),
            _ => format!("({})", nodes.iter().map(|node| self.node(node)).collect::<Vec<_>>().join(join)),
        }
    }

    fn test(&mut self, test: &Test) -> String {
        match test {
            Test::Contains(object) => format!("c.metadata @> {}", self.json(object.clone())),
            Test::Metadata { key, test } => self.metadata(key, test),
            Test::Text { column, test } => self.text_column(column, test),
            Test::Tags(test) => self.tags(test),
            Test::KnowledgeId(test) => self.scalar("c.knowledge_id", test, Self::id, Self::ids),
            Test::Time { column, test } => self.scalar(&format!("c.{column}"), test, Self::time, Self::times),
        }
    }

    fn metadata(&mut self, key: &str, test: &MetadataTest) -> String {
        let key = self.text(key);
        let value = format!("(c.metadata -> {key})");
        let text = format!("(c.metadata ->> {key})");
        let is_string = format!("pg_catalog.jsonb_typeof{value} = 'string'");
        match test {
            MetadataTest::Equals(given) => format!("{value} = {}", self.json(given.clone())),
            MetadataTest::In(given) => {
                let given = self.json(given.clone());
                format!("{value} = ANY (ARRAY(SELECT pg_catalog.jsonb_array_elements({given})))")
            }
            MetadataTest::CompareNumber(comparison, number) => {
                let number = self.json(number.clone());
                format!("pg_catalog.jsonb_typeof{value} = 'number' AND {value} {} {number}", comparison.sql())
            }
            MetadataTest::CompareText(comparison, given) => {
                let given = self.text(given);
                format!("{is_string} AND {}", in_text_order(&text, *comparison, &given))
            }
            // CASE, unlike AND, promises that the cast is only tried on what passed the test before it.
            MetadataTest::CompareTime(comparison, given) => format!(
                "CASE WHEN {is_string} AND {text} COLLATE pg_catalog.\"C\" ~ '{}' \
                 THEN {text}::pg_catalog.timestamptz {} {} ELSE false END",
                timestamp::PATTERN,
                comparison.sql(),
                self.time(given)
            ),
            MetadataTest::Contains(given) => {
                let in_string = given.as_str().map(|part| contains(&text, &self.text(part)));
                let element = self.json(given.clone());
                let in_array = format!("pg_catalog.jsonb_typeof{value} = 'array' AND {value} @> {element}");
                match in_string {
                    Some(in_string) => format!("{is_string} AND {in_string} OR {in_array}"),
                    None => in_array,
                }
            }
            MetadataTest::StartsWith(given) => format!("{is_string} AND {}", starts_with(&text, &self.text(given))),
            MetadataTest::EndsWith(given) => format!("{is_string} AND {}", ends_with(&text, &self.text(given))),
            MetadataTest::Present => {
                format!(r#"{value} <> ALL (ARRAY['null', '""', '[]', '{{}}']::pg_catalog.jsonb[])"#)
            }
        }
    }

    fn text_column(&mut self, column: &str, test: &TextTest) -> String {
        let column = format!("c.{column}");
        match test {
            TextTest::Contains(given) => contains(&column, &self.text(given)),
            TextTest::StartsWith(given) => starts_with(&column, &self.text(given)),
            TextTest::EndsWith(given) => ends_with(&column, &self.text(given)),
            TextTest::Scalar(ScalarTest::Compare(comparison, given)) => {
                in_text_order(&column, *comparison, &self.text(given))
            }
            TextTest::Scalar(ScalarTest::Present) => format!("{column} <> ''"),
            TextTest::Scalar(test) => self.scalar(&column, test, |writer, given| writer.text(given), Self::texts),
        }
    }

    fn tags(&mut self, test: &TagsTest) -> String {
        match test {
            TagsTest::IsNull => "c.tags IS NULL".to_owned(),
            TagsTest::AllOf(tags) => format!("c.tags @> {}", self.texts(tags)),
            TagsTest::Exactly(tags) => {
                let tags = self.texts(tags);
                format!("c.tags @> {tags} AND c.tags <@ {tags}")
            }
            TagsTest::AnyOf(tags) => format!("c.tags && {}", self.texts(tags)),
            TagsTest::Present => "pg_catalog.cardinality(c.tags) > 0".to_owned(),
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
    format!("{text} {} {given} COLLATE pg_catalog.\"C\"", comparison.sql())
}

/// Functions, not LIKE: no character of the given text means anything else.
fn contains(text: &str, given: &str) -> String {
    format!("pg_catalog.strpos({text}, {given}) > 0")
}

fn starts_with(text: &str, given: &str) -> String {
    format!("pg_catalog.starts_with({text}, {given})")
}

fn ends_with(text: &str, given: &str) -> String {
    format!("pg_catalog.right({text}, pg_catalog.length({given})) = {given}")
}
