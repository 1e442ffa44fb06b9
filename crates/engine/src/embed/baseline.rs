//! How similar a model finds texts that have nothing to do with each other.
//!
//! The cosines of some models are around 0 then, those of others around 0.7. A score that combines
//! the cosine with something else must know where it begins.

use rag_protocol::EngineError;

use super::model::Model;

/// Questions, each with a text that is about the same. All pairs of a question and another
/// question's text are unrelated.
const TEXTS: [(&str, &str); 8] = [
    (
        "How do I reset a forgotten password?",
        "Open the settings of your account, choose security, and follow the link in the mail that \
         you get.",
    ),
    (
        "When does the museum close on Sundays?",
        "The exhibition is open from ten to six, on weekends until five in the afternoon.",
    ),
    (
        "Which vitamins are in an orange?",
        "Citrus fruit contains ascorbic acid, folate and small amounts of thiamine.",
    ),
    (
        "Who won the battle of Hastings?",
        "In 1066 William of Normandy defeated the army of King Harold.",
    ),
    (
        "Why does my car make a grinding noise?",
        "Worn brake pads let metal touch the disc, which can be heard at low speed.",
    ),
    (
        "What is the notice period of an apartment lease?",
        "The tenant may terminate the contract at the end of a month, three months in advance.",
    ),
    (
        "How far away is the moon?",
        "Laser ranging gives a mean distance of 384,400 kilometres between the centres.",
    ),
    (
        "How is sourdough bread baked?",
        "Knead flour, water and salt with the starter, let the dough rise overnight, and bake it \
         hot.",
    ),
];

/// Returns the mean cosine similarity of unrelated pairs of a question and a text, 0 to 1.
///
/// # Errors
/// The model fails on a text.
pub fn baseline(model: &Model) -> Result<f32, EngineError> {
    let embed = |text: &str| -> Result<Vec<f32>, EngineError> {
        let tokens = model.tokenizer.tokenize(text, &|| false)?;
        model.run(&tokens.iter().collect::<Vec<_>>())
    };
    let mut questions = vec![];
    let mut texts = vec![];
    for (question, text) in TEXTS {
        questions.push(embed(question)?);
        texts.push(embed(text)?);
    }
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (n, question) in questions.iter().enumerate() {
        for text in texts.iter().enumerate().filter(|(m, _)| *m != n) {
            sum += question.iter().zip(text.1).map(|(a, b)| a * b).sum::<f32>();
            pairs += 1.0;
        }
    }
    Ok((sum / pairs).clamp(0.0, 1.0))
}
