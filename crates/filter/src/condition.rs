//! The filter as a tree of typed tests: what [`parse`](crate::parse) makes of the JSON, and SQL is made of.

use serde_json::{Map, Value};

use crate::operator::Comparison;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Every one holds; with none, always.
    All(Vec<Node>),
    /// At least one holds.
    Any(Vec<Node>),
    Holds(Test),
    /// The test is false or unknown: rows without the key or with a NULL column count.
    Not(Test),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// `metadata` contains this object.
    Contains(Map<String, Value>),
    Metadata {
        key: String,
        test: MetadataTest,
    },
    Text {
        column: &'static str,
        test: TextTest,
    },
    Tags(TagsTest),
    KnowledgeId(ScalarTest<i64>),
    Time {
        column: &'static str,
        test: ScalarTest<Timestamp>,
    },
}

/// A test of the value of one metadata key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MetadataTest {
    Equals(Value),
    In(Vec<Value>),
    CompareNumber(Comparison, serde_json::Number),
    CompareText(Comparison, String),
    CompareTime(Comparison, Timestamp),
    /// A string that contains this one, or an array with this element.
    Contains(Value),
    StartsWith(String),
    EndsWith(String),
    Present,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextTest {
    Scalar(ScalarTest<String>),
    Contains(String),
    StartsWith(String),
    EndsWith(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScalarTest<T> {
    IsNull,
    Equals(T),
    In(Vec<T>),
    Compare(Comparison, T),
    Present,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TagsTest {
    IsNull,
    AllOf(Vec<String>),
    Exactly(Vec<String>),
    AnyOf(Vec<String>),
    Present,
}

/// ISO 8601 text that PostgreSQL is known to accept as a `timestamptz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timestamp(pub(crate) String);
