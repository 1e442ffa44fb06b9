//! Texts that have nothing to do with each other, and how similar a model finds them.
//!
//! The cosines of some models are around 0 then, those of others around 0.7. A score that combines
//! the cosine with something else must know where it begins.

/// Questions, each with a text that is about the same. All pairs of a question and another
/// question's text are unrelated.
pub const TEXTS: [(&str, &str); 8] = [
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

/// Returns the mean cosine similarity of unrelated pairs of a question and a text, 0 to 1. The
/// vectors are those of [`TEXTS`].
pub fn mean_similarity(questions: &[Vec<f32>], texts: &[Vec<f32>]) -> f32 {
    let (mut sum, mut pairs) = (0.0, 0);
    for (i, question) in questions.iter().enumerate() {
        for (_, text) in texts.iter().enumerate().filter(|(j, _)| *j != i) {
            sum += cosine(question, text);
            pairs += 1;
        }
    }
    (sum / f64::from(pairs.max(1))).clamp(0.0, 1.0) as f32
}

/// Returns the cosine similarity of two vectors of the same length.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    let length = (product(a, a) * product(b, b)).sqrt();
    if length > 0.0 {
        product(a, b) / length
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unrelated_pairs_count() {
        let questions = [vec![1.0, 0.0], vec![0.0, 2.0]];
        let texts = [vec![3.0, 0.0], vec![0.0, 1.0]];
        assert_eq!(mean_similarity(&questions, &texts), 0.0);
        let swapped = [vec![0.0, 1.0], vec![1.0, 0.0]];
        assert_eq!(mean_similarity(&questions, &swapped), 1.0);
    }
}
