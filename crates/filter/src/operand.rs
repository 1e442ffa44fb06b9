//! The test of one condition: which operators a key has, and which values they take.

use serde_json::Value;

use crate::condition::{MetadataTest, ScalarTest, TagsTest, Test, TextTest};
use crate::error::{FilterError, Result};
use crate::key::Key;
use crate::operator::Operator;
use crate::{number, value};

/// Returns the test that `operator` with `given` means for `key`. `name` is the operator as the
/// user wrote it, `path` is the value's.
pub(crate) fn of(
    key: Key,
    operator: Operator,
    name: &str,
    given: &Value,
    path: &str,
) -> Result<Test> {
    let unfit = |what: &str, fit: &str| {
        let message = format!("the operator {name:?} does not apply to {what}");
        Err(FilterError::new(
            path,
            message,
            format!("Operators for {what}: {fit}."),
        ))
    };
    match key {
        Key::Metadata(key) => metadata(key, operator, given, path),
        Key::Texts(column) => match texts(operator, given, path)? {
            Some(test) => Ok(Test::Texts { column, test }),
            None => {
                let what = if column == "tags" { "tags" } else { "heading" };
                unfit(
                    what,
                    "eq, ne, in, nin, contains, not contains, text_match, empty, not empty",
                )
            }
        },
        Key::Text(column) => match text(operator, given, path, value::text)? {
            Some(test) => Ok(Test::Text { column, test }),
            None => unfit("a text column", "all but before and after"),
        },
        Key::DocumentType => match text(operator, given, path, value::document_type)? {
            Some(test) => Ok(Test::Text {
                column: "document_type",
                test,
            }),
            None => unfit("a text column", "all but before and after"),
        },
        Key::SourceFile => match text(operator, given, path, value::text)? {
            Some(test) => Ok(Test::SourceFile(test)),
            None => unfit("a text column", "all but before and after"),
        },
        Key::Integer(column) => match scalar(operator, given, path, value::integer)? {
            Some(test) if !matches!(operator, Operator::Time(_)) => {
                Ok(Test::Integer { column, test })
            }
            _ => unfit(
                column,
                "eq, ne, in, nin, gt, gte, lt, lte, empty, not empty",
            ),
        },
        Key::Uuid(column) => match scalar(operator, given, path, value::uuid)? {
            Some(test) if !matches!(operator, Operator::Time(_) | Operator::Compare(_)) => {
                Ok(Test::Uuid { column, test })
            }
            _ => unfit(column, "eq, ne, in, nin, empty, not empty"),
        },
        Key::Time(column) => match scalar(operator, given, path, value::timestamp)? {
            Some(test) => Ok(Test::Time { column, test }),
            None => unfit(
                "a timestamp column",
                "eq, ne, in, nin, gt, gte, lt, lte, before, after, empty, not empty",
            ),
        },
    }
}

fn metadata(key: String, operator: Operator, given: &Value, path: &str) -> Result<Test> {
    let test = match operator {
        Operator::Equals => match value::json(given, path)? {
            composite @ (Value::Array(_) | Value::Object(_)) => MetadataTest::Equals(composite),
            // For scalars, equal and contained are the same, and an index on metadata serves only
            // the latter.
            scalar => return Ok(has_one_of(&key, value::alternatives(scalar))),
        },
        Operator::In => {
            let values = value::list(given, path, value::json)?;
            MetadataTest::In(values.into_iter().flat_map(value::alternatives).collect())
        }
        Operator::Compare(comparison) => match given {
            Value::Number(number) => MetadataTest::CompareNumber(comparison, number.clone()),
            Value::String(_) => {
                let text = value::text(given, path)?;
                match number::parse(&text) {
                    Some(number) => MetadataTest::CompareEither(comparison, number, text),
                    None => MetadataTest::CompareText(comparison, text),
                }
            }
            _ => return Err(value::wrong_type(given, "a number or a string", path)),
        },
        Operator::Time(comparison) => match given {
            Value::Number(number) => MetadataTest::CompareNumber(comparison, number.clone()),
            _ => MetadataTest::CompareTime(comparison, value::timestamp(given, path)?),
        },
        Operator::Contains => match value::json(given, path)? {
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(value::wrong_type(
                    given,
                    "a string, a number or a boolean",
                    path,
                ));
            }
            scalar => MetadataTest::Contains(scalar),
        },
        Operator::Matches => MetadataTest::Matches(value::text(given, path)?),
        Operator::StartsWith => MetadataTest::StartsWith(value::text(given, path)?),
        Operator::EndsWith => MetadataTest::EndsWith(value::text(given, path)?),
        Operator::Present => MetadataTest::Present,
    };
    Ok(Test::Metadata { key, test })
}

/// A metadata key has one of these values, none of which is an array or an object.
pub(crate) fn has_one_of(key: &str, values: Vec<Value>) -> Test {
    Test::Contains(
        values
            .into_iter()
            .map(|value| [(key.to_owned(), value)].into_iter().collect())
            .collect(),
    )
}

fn texts(operator: Operator, given: &Value, path: &str) -> Result<Option<TagsTest>> {
    Ok(Some(match operator {
        Operator::Equals => match given {
            Value::Null => TagsTest::IsNull,
            Value::Array(_) => TagsTest::Exactly(value::texts(given, path)?),
            _ => TagsTest::AllOf(value::texts(given, path)?),
        },
        Operator::In => TagsTest::AnyOf(value::list(given, path, value::text)?),
        Operator::Contains => TagsTest::AllOf(value::texts(given, path)?),
        Operator::Matches => TagsTest::Matches(value::text(given, path)?),
        Operator::Present => TagsTest::Present,
        Operator::Compare(_) | Operator::Time(_) | Operator::StartsWith | Operator::EndsWith => {
            return Ok(None);
        }
    }))
}

/// Returns the tests of a text column; `whole` reads a value that is compared as a whole.
fn text(
    operator: Operator,
    given: &Value,
    path: &str,
    whole: impl Fn(&Value, &str) -> Result<String>,
) -> Result<Option<TextTest>> {
    Ok(match operator {
        Operator::Contains => Some(TextTest::Contains(value::text(given, path)?)),
        Operator::Matches => Some(TextTest::Matches(value::text(given, path)?)),
        Operator::StartsWith => Some(TextTest::StartsWith(value::text(given, path)?)),
        Operator::EndsWith => Some(TextTest::EndsWith(value::text(given, path)?)),
        Operator::Time(_) => None,
        Operator::Compare(_) => scalar(operator, given, path, value::text)?.map(TextTest::Scalar),
        _ => scalar(operator, given, path, whole)?.map(TextTest::Scalar),
    })
}

/// Returns the tests that every ordered column has. A column with one value is equal to an array if
/// the array contains it.
fn scalar<T>(
    operator: Operator,
    given: &Value,
    path: &str,
    read: impl Fn(&Value, &str) -> Result<T>,
) -> Result<Option<ScalarTest<T>>> {
    Ok(Some(match operator {
        Operator::Equals if given.is_null() => ScalarTest::IsNull,
        Operator::Equals if given.is_array() => ScalarTest::In(value::list(given, path, read)?),
        Operator::Equals => ScalarTest::Equals(read(given, path)?),
        Operator::In => ScalarTest::In(value::list(given, path, read)?),
        Operator::Compare(comparison) | Operator::Time(comparison) => {
            ScalarTest::Compare(comparison, read(given, path)?)
        }
        Operator::Present => ScalarTest::Present,
        Operator::Contains | Operator::Matches | Operator::StartsWith | Operator::EndsWith => {
            return Ok(None);
        }
    }))
}
