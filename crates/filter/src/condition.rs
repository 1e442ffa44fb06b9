//! The filter as a tree of typed tests: [`parse`](crate::parse) builds it from JSON, and SQL is
//! built from it.

use serde_json::{Map, Number, Value};

use crate::operator::Comparison;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// All of them are true; true if there are none.
    All(Vec<Node>),
    /// At least one is true.
    Any(Vec<Node>),
    /// At least one is false or unknown.
    NotAll(Vec<Node>),
    Holds(Test),
    /// The test is false or unknown: rows without the key or with a NULL column pass.
    Not(Test),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// `metadata` contains one of these objects.
    Contains(Vec<Map<String, Value>>),
    Metadata {
        key: String,
        test: MetadataTest,
    },
    Text {
        column: &'static str,
        test: TextTest,
    },
    /// Words of the title.
    Title(TitleWords),
    /// The whole uri, or its last part.
    SourceFile(TextTest),
    /// A column of several texts.
    Texts {
        column: &'static str,
        test: TagsTest,
    },
    Integer {
        column: &'static str,
        test: ScalarTest<i64>,
    },
    Uuid {
        column: &'static str,
        test: ScalarTest<Uuid>,
    },
    Time {
        column: &'static str,
        test: ScalarTest<Timestamp>,
    },
}

/// What a title must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitleWords {
    /// A word, a phrase, a prefix, or a word with typos.
    pub query: String,
    /// The text search configuration, as the option of a keyword index names it.
    pub config: String,
    /// The metadata key that has the language of a title, if titles have different ones.
    pub language_key: Option<String>,
}

/// A test of the value of one metadata key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MetadataTest {
    Equals(Value),
    In(Vec<Value>),
    /// A string, number or boolean whose text is one of these.
    TextIn(Vec<String>),
    /// Equal to numbers, and to texts that are numbers.
    CompareNumber(Comparison, Number),
    CompareText(Comparison, String),
    /// Equal to a text that is a number: as numbers if the row's value is a number, too, else as
    /// texts.
    CompareEither(Comparison, Number, String),
    CompareTime(Comparison, Timestamp),
    /// A string that contains this one, or an array with this element.
    Contains(Value),
    /// A string with this part, or an array with such an element, case-insensitively.
    Matches(String),
    StartsWith(String),
    EndsWith(String),
    Present,
    /// Exists and is not null; it may be empty.
    HasValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TextTest {
    Scalar(ScalarTest<String>),
    Contains(String),
    /// Contains this part, case-insensitively.
    Matches(String),
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
    /// One of them contains this part, case-insensitively.
    Matches(String),
    Present,
}

/// ISO 8601 text that PostgreSQL accepts as a `timestamptz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timestamp(pub(crate) String);

/// A UUID in the form `8-4-4-4-12`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uuid(pub(crate) String);
