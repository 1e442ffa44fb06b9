use rag_definition::FieldProblem;
use serde_json::Value;

/// The maximum number of characters of a snippet.
const SNIPPET: usize = 200;

/// What an agent knows about a question besides its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entities {
    topic: Option<String>,
    keywords: Vec<String>,
}

impl Entities {
    /// Reads `{"entities": {"topic": "...", "keywords": ["..."]}}`. Other keys are ignored: agents
    /// pass all that they know.
    ///
    /// # Errors
    /// Values of other types, each with its path.
    pub fn parse(context: &Value) -> Result<Self, Vec<FieldProblem>> {
        let mut problems = vec![];
        let mut wrong = |path: &str, expected: &str| {
            problems.push(FieldProblem::new(path, format!("must be {expected}")));
        };
        let mut entities = Self::default();
        if !context.is_object() {
            wrong("context", "an object");
        }
        let found = &context["entities"];
        if !found.is_object() && !found.is_null() {
            wrong("context.entities", "an object");
        }
        match &found["topic"] {
            Value::Null => {}
            Value::String(topic) => entities.topic = stated(topic),
            _ => wrong("context.entities.topic", "a string"),
        }
        match &found["keywords"] {
            Value::Null => {}
            Value::Array(keywords) => {
                for (n, keyword) in keywords.iter().enumerate() {
                    match keyword {
                        Value::String(keyword) => entities.keywords.extend(stated(keyword)),
                        _ => wrong(&format!("context.entities.keywords[{n}]"), "a string"),
                    }
                }
            }
            _ => wrong("context.entities.keywords", "an array of strings"),
        }
        if problems.is_empty() {
            Ok(entities)
        } else {
            Err(problems)
        }
    }

    /// Returns what to search for: the topic before the query, or else the keywords before it.
    pub fn search_query(&self, query: &str) -> String {
        match &self.topic {
            Some(topic) => format!("{topic} {query}"),
            None if self.keywords.is_empty() => query.to_owned(),
            None => format!("{} {query}", self.keywords.join(" ")),
        }
    }
}

fn stated(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the first 200 characters of a text, and "..." if it is longer.
pub fn snippet(text: &str) -> String {
    match text.char_indices().nth(SNIPPET) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(context: Value) -> String {
        Entities::parse(&context)
            .expect("valid")
            .search_query("how?")
    }

    #[test]
    fn the_topic_comes_before_keywords() {
        let both = json!({"entities": {"topic": "keys", "keywords": ["a", "b"]}, "intent": 1});
        assert_eq!(asked(both), "keys how?");
        assert_eq!(
            asked(json!({"entities": {"topic": " ", "keywords": ["a", "", "b"]}})),
            "a b how?"
        );
        assert_eq!(asked(json!({"entities": {}})), "how?");
        assert_eq!(asked(json!({})), "how?");
    }

    #[test]
    fn all_faults_have_paths() {
        let wrong = json!({"entities": {"topic": 1, "keywords": ["a", 2]}});
        let problems = Entities::parse(&wrong).expect_err("wrong");
        let fields: Vec<&str> = problems.iter().map(|p| p.field.as_str()).collect();
        assert_eq!(
            fields,
            ["context.entities.topic", "context.entities.keywords[1]"]
        );
        assert!(Entities::parse(&json!([])).is_err());
        assert!(Entities::parse(&json!({"entities": []})).is_err());
    }

    #[test]
    fn snippets_count_characters() {
        assert_eq!(snippet("short"), "short");
        let long = "ü".repeat(201);
        assert_eq!(snippet(&long), format!("{}...", "ü".repeat(200)));
        assert_eq!(snippet(&long[2..]), "ü".repeat(200));
    }
}
