use rag_definition::FieldProblem;
use rag_protocol::call::{ChatMessage, Role};
use serde_json::Value;

/// The maximum number of earlier messages.
pub const MAX_MESSAGES: usize = 1000;
/// The maximum size of all earlier messages together, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The maximum number of problems that are reported at once.
const MAX_PROBLEMS: usize = 20;

/// Reads the earlier messages of a conversation: `[{"role": "user", "content": "..."}]`. The role
/// is `user` where it is missing. Other keys are ignored: applications store more in a message.
///
/// # Errors
/// Problems with their paths.
pub fn conversation(history: &Value) -> Result<Vec<ChatMessage>, Vec<FieldProblem>> {
    const NAME: &str = "conversation_history";
    let invalid = |problem: String| Err(vec![FieldProblem::new(NAME, problem)]);
    let Value::Array(items) = history else {
        return invalid("must be an array of messages".into());
    };
    if items.len() > MAX_MESSAGES {
        return invalid(format!(
            "has {} messages, and the limit is {MAX_MESSAGES}",
            items.len()
        ));
    }
    let mut problems = vec![];
    let mut messages = vec![];
    for (n, item) in items.iter().enumerate() {
        match message(&format!("{NAME}[{n}]"), item) {
            Ok(message) => messages.push(message),
            Err(found) => problems.extend(found),
        }
    }
    problems.truncate(MAX_PROBLEMS);
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if !problems.is_empty() {
        return Err(problems);
    }
    if bytes > MAX_BYTES {
        return invalid(format!(
            "has {bytes} bytes of text, and the limit is {MAX_BYTES}"
        ));
    }
    Ok(messages)
}

fn message(path: &str, item: &Value) -> Result<ChatMessage, Vec<FieldProblem>> {
    if !item.is_object() {
        return Err(vec![FieldProblem::new(
            path,
            "must be an object".to_owned(),
        )]);
    }
    let mut problems = vec![];
    let role = match &item["role"] {
        Value::Null => Some(Role::User),
        Value::String(name) => Role::parse(name),
        _ => None,
    };
    if role.is_none() {
        let problem = format!("must be {}", Role::ALL.map(Role::name).join(", "));
        problems.push(FieldProblem::new(format!("{path}.role"), problem));
    }
    let content = item["content"].as_str();
    if content.is_none() {
        let problem = "must be a string".to_owned();
        problems.push(FieldProblem::new(format!("{path}.content"), problem));
    }
    match (role, content) {
        (Some(role), Some(content)) => Ok(ChatMessage {
            role,
            content: content.to_owned(),
        }),
        _ => Err(problems),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_without_a_role_is_of_the_user() {
        let messages = conversation(&json!([
            {"content": "a", "time": 1},
            {"role": "assistant", "content": "b"},
            {"role": null, "content": "c"}
        ]))
        .expect("valid");
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    }

    #[test]
    fn all_faults_are_reported() {
        let problems = conversation(&json!([
            {"role": "bot", "content": 1},
            "text",
            {"role": "user"}
        ]))
        .expect_err("wrong");
        let fields: Vec<&str> = problems.iter().map(|p| p.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "conversation_history[0].role",
                "conversation_history[0].content",
                "conversation_history[1]",
                "conversation_history[2].content"
            ]
        );
    }

    #[test]
    fn the_size_is_limited() {
        assert!(conversation(&json!({})).is_err());
        let many = vec![json!({"content": ""}); MAX_MESSAGES + 1];
        assert!(conversation(&Value::Array(many)).is_err());
        let long = json!([{"content": "x".repeat(MAX_BYTES + 1)}]);
        assert!(conversation(&long).is_err());
    }
}
