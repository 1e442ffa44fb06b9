//! JSON to tree: the forms of a filter, groups, and the members of a condition.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::condition::{Node, TagsTest, Test};
use crate::error::{FilterError, Result, member};
use crate::key::Key;
use crate::operator::Operator;
use crate::usage::{ColumnUse, Usage};
use crate::{Filter, MAX_CONDITIONS, MAX_DEPTH, operand, value};

const FORMS: &str = "Write {\"key\": value, ...} or {\"operator\": \"and\", \"conditions\": \
    [{\"key\": ..., \
                     \"operator\": ..., \"value\": ...}, ...]}.";

/// Reads a filter. JSON `null` and `{}` restrict nothing.
pub fn parse(filter: &Value) -> Result<Filter> {
    parse_member(filter, "")
}

/// [`parse`] for a filter that is a member of a larger document. Errors name places below `path`.
pub fn parse_member(filter: &Value, path: &str) -> Result<Filter> {
    let mut reader = Reader::default();
    let root = match filter {
        Value::Null => Node::All(Vec::new()),
        Value::Object(members) if members.contains_key("conditions") => {
            reader.group(members, path, 1)?
        }
        Value::Object(members) if is_condition(members) => reader.condition(members, path)?,
        Value::Object(members) => reader.containment(members, path)?,
        _ => {
            return Err(FilterError {
                hint: FORMS.to_owned(),
                ..value::wrong_type(filter, "an object", path)
            });
        }
    };
    Ok(reader.into_filter(root))
}

/// Reads the filter of an application's request, a member of it. Besides what [`parse_member`]
/// reads: a group whose `conditions` are missing, null or empty restricts nothing, and a condition
/// without an operator means `eq`. A group cannot be taken for metadata keys.
pub fn parse_request(filter: &Value, path: &str) -> Result<Filter> {
    let Value::Object(members) = filter else {
        return parse_member(filter, path);
    };
    let has = |name: &str| members.contains_key(name);
    let is_group = has("conditions") || !has("key") && (has("operator") || has("logical_operator"));
    if !is_group || is_condition(members) {
        return parse_member(filter, path);
    }
    let given = members.get("conditions").unwrap_or(&Value::Null);
    if given.is_null() || given.as_array().is_some_and(Vec::is_empty) {
        only(members, GROUP, "a group", path)?;
        return Ok(Filter::unrestricted());
    }
    let mut reader = Reader {
        defaults_to_equal: true,
        ..Reader::default()
    };
    let root = reader.group(members, path, 1)?;
    Ok(reader.into_filter(root))
}

/// The members of a group.
const GROUP: &[&str] = &["operator", "logical_operator", "conditions"];

/// Returns true if an object is one condition rather than metadata keys and their values.
pub fn is_condition(members: &Map<String, Value>) -> bool {
    let has = |names: [&str; 2]| names.into_iter().any(|name| members.contains_key(name));
    has(["key", "name"]) && has(["operator", "comparison_operator"])
}

/// Reads a filter, counts the conditions and records the metadata keys that it needs.
#[derive(Default)]
struct Reader {
    conditions: usize,
    usages: Vec<Usage>,
    columns: Vec<ColumnUse>,
    /// A condition without an operator means `eq`.
    defaults_to_equal: bool,
}

impl Reader {
    fn into_filter(self, root: Node) -> Filter {
        Filter {
            root,
            usages: self.usages,
            columns: self.columns,
        }
    }

    /// `{"category": "tech", "year": 2020}`: columns one by one, metadata keys together if they
    /// have one form.
    fn containment(&mut self, members: &Map<String, Value>, path: &str) -> Result<Node> {
        value::check_operators(members, "", path)?;
        let mut nodes = Vec::new();
        let mut together = Map::new();
        let mut seen = HashSet::new();
        for (name, given) in members {
            let path = &member(path, name);
            let test = match Key::parse(name, path)? {
                Key::Metadata(key) => {
                    let given = value::json(given, path)?;
                    if let Value::Object(members) = &given {
                        value::check_operators(members, &key, path)?;
                    }
                    if !seen.insert(key.clone()) {
                        return Err(FilterError::new(
                            path,
                            "the metadata key is given twice",
                            "Write it once.",
                        ));
                    }
                    self.usages.push(Usage::of_equal(path, &key, [&given]));
                    let forms = value::alternatives(given);
                    if let [only] = forms.as_slice() {
                        together.insert(key, only.clone());
                        continue;
                    }
                    operand::has_one_of(&key, forms)
                }
                column => {
                    self.columns.push(ColumnUse::new(path, name));
                    match column {
                        Key::Texts(column) if !given.is_null() => Test::Texts {
                            column,
                            test: TagsTest::AllOf(value::texts(given, path)?),
                        },
                        column => operand::of(column, Operator::Equals, "eq", given, path)?,
                    }
                }
            };
            nodes.push(Node::Holds(test));
        }
        if !together.is_empty() {
            nodes.push(Node::Holds(Test::Contains(vec![together])));
        }
        Ok(Node::All(nodes))
    }

    fn group(&mut self, members: &Map<String, Value>, path: &str, depth: usize) -> Result<Node> {
        if depth > MAX_DEPTH {
            let message = format!("groups are nested deeper than {MAX_DEPTH} levels");
            return Err(FilterError::new(path, message, "Flatten the groups."));
        }
        only(members, GROUP, "a group", path)?;
        let join = match either(members, "operator", "logical_operator", path)? {
            None => Node::All,
            Some((name, given)) => join(given, &member(path, name))?,
        };
        let path = member(path, "conditions");
        let conditions = match members.get("conditions") {
            Some(Value::Array(conditions)) => conditions,
            other => {
                return Err(value::wrong_type(
                    other.unwrap_or(&Value::Null),
                    "an array of conditions",
                    &path,
                ));
            }
        };
        if conditions.is_empty() {
            let hint = "Give at least one condition, or {} to restrict nothing.";
            return Err(FilterError::new(&path, "there are no conditions", hint));
        }
        let uses = (self.usages.len(), self.columns.len());
        let nodes = conditions.iter().enumerate().map(|(i, condition)| {
            let path = format!("{path}[{i}]");
            match condition {
                Value::Object(members) if members.contains_key("conditions") => {
                    self.group(members, &path, depth + 1)
                }
                Value::Object(members) => self.condition(members, &path),
                _ => Err(value::wrong_type(
                    condition,
                    "a condition or a group, which are objects",
                    &path,
                )),
            }
        });
        let node = join(nodes.collect::<Result<_>>()?);
        if matches!(node, Node::NotAll(_)) {
            self.usages.truncate(uses.0);
            self.columns.truncate(uses.1);
        }
        Ok(node)
    }

    fn condition(&mut self, members: &Map<String, Value>, path: &str) -> Result<Node> {
        self.conditions += 1;
        check_count(self.conditions, path)?;
        only(
            members,
            &["key", "name", "operator", "comparison_operator", "value"],
            "a condition",
            path,
        )?;

        let (field, name) = either(members, "key", "name", path)?
            .ok_or_else(|| FilterError::new(path, "the condition has no key", "Add \"key\"."))?;
        let key_path = member(path, field);
        let key_name = key_name(name, &key_path)?;
        let key = Key::parse(key_name, &key_path)?;

        let equal = Value::from("eq");
        let given = either(members, "operator", "comparison_operator", path)?;
        let (field, name) = match given {
            None | Some((_, Value::Null)) if self.defaults_to_equal => ("operator", &equal),
            Some(given) => given,
            None => {
                let why = "the condition has no operator";
                return Err(FilterError::new(path, why, Operator::hint()));
            }
        };
        let operator_path = member(path, field);
        let name = name.as_str().ok_or_else(|| FilterError {
            hint: Operator::hint(),
            ..value::wrong_type(name, "the name of an operator", &operator_path)
        })?;
        let (operator, negated) = Operator::parse(name, &operator_path)?;

        let value_path = member(path, "value");
        let given = match (operator, members.get("value")) {
            (Operator::Present, None | Some(Value::Null)) => &Value::Null,
            (Operator::Present, Some(Value::String(text))) if text.is_empty() => &Value::Null,
            (Operator::Present, Some(_)) => {
                let message = format!("the operator {name:?} takes no value");
                return Err(FilterError::new(
                    &value_path,
                    message,
                    "Leave the value out.",
                ));
            }
            (_, Some(given)) => given,
            (_, None) => {
                return Err(FilterError::new(
                    path,
                    "the condition has no value",
                    "Add \"value\"; null is a value too.",
                ));
            }
        };
        match &key {
            _ if negated => {}
            Key::Metadata(key) => self.usages.push(Usage::of_condition(
                &key_path,
                &value_path,
                key,
                operator,
                given,
            )),
            _ => self.columns.push(ColumnUse::new(&key_path, key_name)),
        }
        let test = operand::of(key, operator, name, given, &value_path)?;
        Ok(if negated {
            Node::Not(test)
        } else {
            Node::Holds(test)
        })
    }
}

/// Returns how a group joins its conditions: by AND, also for null, by OR, or by AND negated.
pub(crate) fn join(operator: &Value, path: &str) -> Result<fn(Vec<Node>) -> Node> {
    match operator.as_str().map(str::trim) {
        Some(and) if and.eq_ignore_ascii_case("and") => Ok(Node::All),
        Some(or) if or.eq_ignore_ascii_case("or") => Ok(Node::Any),
        Some(not) if not.eq_ignore_ascii_case("not") => Ok(Node::NotAll),
        None if operator.is_null() => Ok(Node::All),
        _ => {
            let message = format!("there is no logical operator {operator}");
            Err(FilterError::new(
                path,
                message,
                "Logical operators: and, or, not.",
            ))
        }
    }
}

pub(crate) fn check_count(conditions: usize, path: &str) -> Result<()> {
    if conditions > MAX_CONDITIONS {
        let message = format!("there are more than {MAX_CONDITIONS} conditions");
        return Err(FilterError::new(
            path,
            message,
            "Put alternatives of one key into one condition with in.",
        ));
    }
    Ok(())
}

/// Returns a key's name. Dify wraps it in an array.
pub(crate) fn key_name<'a>(name: &'a Value, path: &str) -> Result<&'a str> {
    match name {
        Value::String(name) => Ok(name),
        Value::Array(names) => match names.as_slice() {
            [Value::String(name)] => Ok(name),
            _ => Err(FilterError::new(
                path,
                "expected the name of one key",
                "Write one condition for each key.",
            )),
        },
        _ => Err(value::wrong_type(name, "the name of a key", path)),
    }
}

/// Returns the member under one of two names, and the name. Both together are an error.
fn either<'a>(
    members: &'a Map<String, Value>,
    name: &'static str,
    alias: &'static str,
    path: &str,
) -> Result<Option<(&'static str, &'a Value)>> {
    match (members.get(name), members.get(alias)) {
        (Some(_), Some(_)) => {
            let message = format!("{name:?} and {alias:?} are both given");
            Err(FilterError::new(
                path,
                message,
                "They mean the same: keep one.",
            ))
        }
        (Some(given), None) => Ok(Some((name, given))),
        (None, Some(given)) => Ok(Some((alias, given))),
        (None, None) => Ok(None),
    }
}

/// Checks that there are no other members.
pub(crate) fn only(
    members: &Map<String, Value>,
    known: &[&str],
    what: &str,
    path: &str,
) -> Result<()> {
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let hint = format!("Members of {what}: {}.", known.join(", "));
            Err(FilterError::new(
                &member(path, name),
                format!("{what} has no member {name:?}"),
                hint,
            ))
        }
        None => Ok(()),
    }
}
