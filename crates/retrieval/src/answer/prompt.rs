use rag_definition::model::PLACEHOLDER;

/// Fills the place of the documents where there are none.
const NOTHING: &str = "There are no documents for this question.";

/// Returns a template with the quoted documents in their place. What they contain is not replaced.
pub fn fill(template: &str, context: &str) -> String {
    let context = if context.is_empty() {
        NOTHING
    } else {
        context.trim_end()
    };
    template.replacen(PLACEHOLDER, context, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_not_templates() {
        assert_eq!(
            fill("A {context} B", "x {context} y\n"),
            "A x {context} y B"
        );
        assert_eq!(
            fill("A {context}", ""),
            "A There are no documents for this question."
        );
    }
}
