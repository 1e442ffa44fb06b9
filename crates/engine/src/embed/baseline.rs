//! How similar a model finds texts that have nothing to do with each other.

use rag_protocol::{
    EngineError,
    baseline::{TEXTS, mean_similarity},
};

use super::model::Model;

/// Returns the mean cosine similarity of unrelated pairs of a question and a text, 0 to 1.
///
/// # Errors
/// The model fails on a text.
pub fn baseline(model: &Model) -> Result<f32, EngineError> {
    let prompts = &model.info.prompts;
    let embed = |prompt: &str, text: &str| -> Result<Vec<f32>, EngineError> {
        let text = format!("{prompt}{text}");
        let tokens = model.tokenizer.tokenize(&text, &|| false)?;
        model.run(&tokens.iter().collect::<Vec<_>>())
    };
    let mut questions = vec![];
    let mut texts = vec![];
    for (question, text) in TEXTS {
        questions.push(embed(&prompts.query, question)?);
        texts.push(embed(&prompts.passage, text)?);
    }
    Ok(mean_similarity(&questions, &texts))
}
