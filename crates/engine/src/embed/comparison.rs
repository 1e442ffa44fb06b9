//! Compares the embeddings of both runtimes. OpenVINO is known to compute others for some graphs.

use rag_protocol::{
    EngineError, ErrorKind,
    baseline::{TEXTS, cosine},
    embed::ModelInfo,
};

use super::tokens::{ModelTokenizer, Tokens};

/// The lowest cosine similarity of the embeddings of both runtimes. Those of bfloat16 have .9999.
const SAME: f64 = 0.999;

/// Returns texts of many lengths to compare runtimes with.
pub fn samples(tokenizer: &ModelTokenizer) -> Result<Vec<Tokens>, EngineError> {
    let all = TEXTS
        .map(|(question, text)| format!("{question} {text} "))
        .concat();
    let words: Vec<&str> = all.split_inclusive(' ').collect();
    let mut samples: Vec<Tokens> = vec![];
    for count in [1, 7, 20, 40, 70, 100, 140, 190, 250, 330, 420] {
        let text: String = words.iter().cycle().take(count).copied().collect();
        samples.extend(tokenizer.tokenize(&text, &|| false)?);
    }
    // longer texts than the model reads are all equally long
    samples.dedup_by_key(|tokens| tokens.ids.len());
    Ok(samples)
}

/// Compares embeddings of the same texts by OpenVINO, `found`, and by ONNX Runtime.
///
/// # Errors
/// `Unsupported` if the similarity of a pair is too low.
pub fn check_same(model: &ModelInfo, expected: &[f32], found: &[f32]) -> Result<(), EngineError> {
    let dimensions = model.dimensions;
    let pairs = (expected.chunks_exact(dimensions)).zip(found.chunks_exact(dimensions));
    let worst = pairs.map(|(a, b)| cosine(a, b)).fold(1.0, f64::min);
    if worst >= SAME {
        return Ok(());
    }
    let message = format!("OpenVINO computes other embeddings of \"{}\"", model.name);
    Err(EngineError::new(ErrorKind::Unsupported, message)
        .detail(format!(
            "The cosine similarity to those of ONNX Runtime is {worst:.3} at worst."
        ))
        .hint("Set rag.execution_provider to cpu."))
}

#[cfg(test)]
mod tests {
    use rag_definition::model::Precision;

    use super::*;

    #[test]
    fn embeddings_that_differ_are_refused() {
        let model = ModelInfo {
            name: "m".into(),
            dimensions: 2,
            max_tokens: 8,
            precision: Some(Precision::Fp32),
            identity: String::new(),
            fingerprint: String::new(),
            baseline: 0.0,
            prompts: Default::default(),
        };
        let expected = [1.0, 0.0, 0.0, 1.0];
        assert_eq!(
            check_same(&model, &expected, &[1.0, 0.02, 0.0, 1.0]),
            Ok(())
        );
        let error = check_same(&model, &expected, &[1.0, 0.0, 0.6, 0.8]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.detail.unwrap().contains("0.800"));
    }
}
