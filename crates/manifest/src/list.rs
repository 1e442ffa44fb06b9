//! Lists of manifests, as `kubectl get -o yaml` writes them: `{kind: List, items: [...]}`.

use rag_definition::{FieldProblem, fields::wrong_type};
use serde_json::Value;

/// The kinds of lists.
const KINDS: [&str; 3] = ["List", "AutoIndexerList", "RetrieverList"];
const ITEMS: &str = "items";

/// Returns the documents of a list with their places, or a document that is no list. `place` is the
/// place of the document in its text, empty if there is no other.
pub fn items(document: Value, place: String) -> Vec<(String, Result<Value, FieldProblem>)> {
    let kind = document.get("kind").and_then(Value::as_str);
    if !kind.is_some_and(|kind| KINDS.contains(&kind)) {
        return vec![(place, Ok(document))];
    }
    match document.get(ITEMS) {
        Some(Value::Array(items)) => (0..)
            .zip(items)
            .map(|(i, item): (usize, _)| {
                let item_place = match place.as_str() {
                    "" => format!("{ITEMS}[{i}]"),
                    place => format!("{place}: {ITEMS}[{i}]"),
                };
                (item_place, Ok(item.clone()))
            })
            .collect(),
        Some(other) => {
            let problem = wrong_type("an array", other);
            vec![(place, Err(FieldProblem::new(ITEMS, problem)))]
        }
        None => vec![(place, Err(FieldProblem::new(ITEMS, "is missing")))],
    }
}
