//! One condition's test: which operators a key has, and what values they take.

use serde_json::Value;

use crate::condition::{MetadataTest, ScalarTest, TagsTest, Test, TextTest};
use crate::error::{FilterError, Result};
use crate::key::Key;
use crate::operator::Operator;
use crate::value;

/// The test that `operator` with `given` means for `key`. `name` is what the user called the operator, `path` is the
/// value's.
pub(crate) fn of(key: Key, operator: Operator, name: &str, given: &Value, path: &str) -> Result<Test> {
    let unfit = |what: &str, fit: &str| {
        let message = format!("the operator {name:?} does not apply to {what}");
        Err(FilterError::new(path, message, format!("Operators for {what}: {fit}.")))
    };
    match key {
        Key::Metadata(key) => metadata(key, operator, given, path),
        Key::Tags => match tags(operator, given, path)? {
            Some(test) => Ok(Test::Tags(test)),
            None => unfit("tags", "eq, ne, in, nin, contains, not contains, empty, not empty"),
        },
        Key::Text(column) => match text(operator, given, path)? {
            Some(test) => Ok(Test::Text { column, test }),
            None => unfit("a text column", "all but before and after"),
        },
        Key::KnowledgeId => match scalar(operator, given, path, value::integer)? {
            Some(test) if !matches!(operator, Operator::Time(_)) => Ok(Test::KnowledgeId(test)),
            _ => unfit("knowledge_id", "eq, ne, in, nin, gt, gte, lt, lte, empty, not empty"),
        },
        Key::Time(column) => match scalar(operator, given, path, value::timestamp)? {
            Some(test) => Ok(Test::Time { column, test }),
            None => unfit("a timestamp column", "eq, ne, in, nin, gt, gte, lt, lte, before, after, empty, not empty"),
        },
    }
}

fn metadata(key: String, operator: Operator, given: &Value, path: &str) -> Result<Test> {
    let test = match operator {
        Operator::Equals => match value::json(given, path)? {
            composite @ (Value::Array(_) | Value::Object(_)) => MetadataTest::Equals(composite),
            // For scalars, equal and contained are the same, and an index on metadata answers only the latter.
            scalar => return Ok(Test::Contains([(key, scalar)].into_iter().collect())),
        },
        Operator::In => MetadataTest::In(value::list(given, path, value::json)?),
        Operator::Compare(comparison) => match given {
            Value::Number(number) => MetadataTest::CompareNumber(comparison, number.clone()),
            Value::String(_) => MetadataTest::CompareText(comparison, value::text(given, path)?),
            _ => return Err(value::wrong_type(given, "a number or a string", path)),
        },
        Operator::Time(comparison) => match given {
            Value::Number(number) => MetadataTest::CompareNumber(comparison, number.clone()),
            _ => MetadataTest::CompareTime(comparison, value::timestamp(given, path)?),
        },
        Operator::Contains => match value::json(given, path)? {
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(value::wrong_type(given, "a string, a number or a boolean", path));
            }
            scalar => MetadataTest::Contains(scalar),
        },
        Operator::StartsWith => MetadataTest::StartsWith(value::text(given, path)?),
        Operator::EndsWith => MetadataTest::EndsWith(value::text(given, path)?),
        Operator::Present => MetadataTest::Present,
    };
    Ok(Test::Metadata { key, test })
}

fn tags(operator: Operator, given: &Value, path: &str) -> Result<Option<TagsTest>> {
    Ok(Some(match operator {
        Operator::Equals => match given {
            Value::Null => TagsTest::IsNull,
            Value::Array(_) => TagsTest::Exactly(value::texts(given, path)?),
            _ => TagsTest::AllOf(value::texts(given, path)?),
        },
        Operator::In => TagsTest::AnyOf(value::list(given, path, value::text)?),
        Operator::Contains => TagsTest::AllOf(value::texts(given, path)?),
        Operator::Present => TagsTest::Present,
        Operator::Compare(_) | Operator::Time(_) | Operator::StartsWith | Operator::EndsWith => return Ok(None),
    }))
}

fn text(operator: Operator, given: &Value, path: &str) -> Result<Option<TextTest>> {
    Ok(match operator {
        Operator::Contains => Some(TextTest::Contains(value::text(given, path)?)),
        Operator::StartsWith => Some(TextTest::StartsWith(value::text(given, path)?)),
        Operator::EndsWith => Some(TextTest::EndsWith(value::text(given, path)?)),
        Operator::Time(_) => None,
        _ => scalar(operator, given, path, value::text)?.map(TextTest::Scalar),
    })
}

/// The tests that any ordered column has.
fn scalar<T>(
    operator: Operator,
    given: &Value,
    path: &str,
    read: impl Fn(&Value, &str) -> Result<T>,
) -> Result<Option<ScalarTest<T>>> {
    Ok(Some(match operator {
        Operator::Equals if given.is_null() => ScalarTest::IsNull,
        Operator::Equals => ScalarTest::Equals(read(given, path)?),
        Operator::In => ScalarTest::In(value::list(given, path, read)?),
        Operator::Compare(comparison) | Operator::Time(comparison) => {
            ScalarTest::Compare(comparison, read(given, path)?)
        }
        Operator::Present => ScalarTest::Present,
        Operator::Contains | Operator::StartsWith | Operator::EndsWith => return Ok(None),
    }))
}
