//! The filter of a table source: the language of `rag_search`'s filters, with columns in place of
//! metadata keys.
//!
//! A statement builds a metadata object of the columns, and each key of the filter becomes a key of
//! that object. So `title` or `category` means the relation's column, never a column of
//! `rag.chunks`.

use rag_filter::Filter;
use serde_json::{Map, Value};

use crate::error::Error;

pub struct RowFilter {
    /// The columns that the filter reads.
    pub columns: Vec<String>,
    pub filter: Filter,
}

impl RowFilter {
    /// # Errors
    /// The filter is not well-formed, or has an unknown operator.
    pub fn parse(filter: &Value) -> Result<Self, Error> {
        let mut columns = vec![];
        let renamed = rename(filter, &mut columns, 0);
        let filter = rag_filter::parse(&renamed)
            .map_err(|e| Error::invalid_parameter(format!("invalid filter: {e}")).hint(e.hint))?;
        columns.sort();
        columns.dedup();
        Ok(Self { columns, filter })
    }
}

fn rename(filter: &Value, columns: &mut Vec<String>, depth: usize) -> Value {
    // the parser refuses deeper filters
    let Value::Object(members) = filter else {
        return filter.clone();
    };
    if depth > rag_filter::MAX_DEPTH {
        return filter.clone();
    }
    let mut column = |name: &str| {
        columns.push(name.to_string());
        format!("metadata.{name}")
    };
    if let Some(Value::Array(conditions)) = members.get("conditions") {
        let conditions = conditions
            .iter()
            .map(|c| rename_condition(c, columns, depth + 1))
            .collect();
        let mut group = members.clone();
        group.insert("conditions".into(), Value::Array(conditions));
        return Value::Object(group);
    }
    if members.contains_key("conditions") {
        return filter.clone();
    }
    if rag_filter::is_condition(members) {
        return rename_condition(filter, columns, depth);
    }
    members
        .iter()
        .map(|(key, value)| (column(key), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

fn rename_condition(condition: &Value, columns: &mut Vec<String>, depth: usize) -> Value {
    let Value::Object(members) = condition else {
        return condition.clone();
    };
    if members.contains_key("conditions") {
        return rename(condition, columns, depth);
    }
    let mut members = members.clone();
    for key in ["key", "name"] {
        let name = match members.get_mut(key) {
            Some(Value::Array(names)) => names.first_mut(),
            other => other,
        };
        if let Some(Value::String(name)) = name {
            columns.push(name.clone());
            *name = format!("metadata.{name}");
        }
    }
    Value::Object(members)
}
