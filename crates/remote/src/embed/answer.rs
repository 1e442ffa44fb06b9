//! The answers to requests for vectors, in their dialects.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use rag_definition::model::Provider;
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::Value;

/// Vectors by the place of their text, and the tokens that the server counted.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub vectors: Vec<Vec<f32>>,
    pub tokens: Option<u64>,
}

/// Why an answer has no vectors.
#[derive(Debug, PartialEq)]
pub enum Problem {
    /// The server reports an error.
    Reported(Value),
    /// The answer has another form.
    Form(String),
}

/// A list of numbers, or the base64 of 32-bit floats, little-endian (`"encoding_format":
/// "base64"`). `null` stands for a number that JSON cannot have.
#[derive(Debug, Default)]
struct Elements(Vec<f32>);

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Elements;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Elements, E> {
                let bytes = BASE64_STANDARD
                    .decode(text)
                    .map_err(|_| E::custom("no base64"))?;
                let (numbers, rest) = bytes.as_chunks();
                if !rest.is_empty() {
                    return Err(E::custom("no 32-bit numbers"));
                }
                let elements = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
                Ok(Elements(elements.collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Elements, A::Error> {
                let mut elements = Vec::with_capacity(numbers.size_hint().unwrap_or(1024));
                while let Some(number) = numbers.next_element::<Option<f64>>()? {
                    let number = number.ok_or_else(|| A::Error::custom("null in a vector"))?;
                    elements.push(number as f32);
                }
                Ok(Elements(elements))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

#[derive(Deserialize)]
struct OpenAi {
    data: Vec<OpenAiItem>,
    usage: Option<OpenAiUsage>,
}

#[derive(Deserialize)]
struct OpenAiItem {
    index: Option<usize>,
    embedding: Elements,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    total_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Ollama {
    embeddings: Vec<Elements>,
    prompt_eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct Cohere {
    embeddings: CohereEmbeddings,
    meta: Option<CohereMeta>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CohereEmbeddings {
    ByType { float: Vec<Elements> },
    Plain(Vec<Elements>),
}

#[derive(Deserialize)]
struct CohereMeta {
    billed_units: Option<CohereTokens>,
    tokens: Option<CohereTokens>,
}

#[derive(Deserialize)]
struct CohereTokens {
    input_tokens: Option<f64>,
}

/// # Errors
/// The answer has no vectors.
pub fn read(provider: Provider, bytes: &[u8]) -> Result<Answer, Problem> {
    match provider {
        Provider::Ollama => parse::<Ollama>(bytes).map(|answer| Answer {
            vectors: unwrapped(answer.embeddings),
            tokens: answer.prompt_eval_count,
        }),
        Provider::Cohere => parse::<Cohere>(bytes).map(|answer| {
            let (CohereEmbeddings::ByType { float: vectors } | CohereEmbeddings::Plain(vectors)) =
                answer.embeddings;
            let counted = answer.meta.and_then(|meta| {
                let of = |tokens: Option<CohereTokens>| tokens?.input_tokens;
                of(meta.billed_units).or(of(meta.tokens))
            });
            Answer {
                vectors: unwrapped(vectors),
                tokens: counted.map(|tokens| tokens as u64),
            }
        }),
        Provider::Tei => parse::<Vec<Elements>>(bytes).map(|vectors| Answer {
            vectors: unwrapped(vectors),
            tokens: None,
        }),
        _ => parse::<OpenAi>(bytes).and_then(open_ai),
    }
}

fn unwrapped(vectors: Vec<Elements>) -> Vec<Vec<f32>> {
    vectors.into_iter().map(|Elements(vector)| vector).collect()
}

fn open_ai(answer: OpenAi) -> Result<Answer, Problem> {
    let mut vectors = vec![None; answer.data.len()];
    for (place, item) in answer.data.into_iter().enumerate() {
        let index = item.index.unwrap_or(place);
        match vectors.get_mut(index) {
            Some(free @ None) => *free = Some(item.embedding.0),
            Some(_) => return Err(Problem::Form("It has a text twice.".into())),
            None => return Err(Problem::Form("It has a text that was not sent.".into())),
        }
    }
    Ok(Answer {
        vectors: vectors.into_iter().flatten().collect(),
        tokens: answer
            .usage
            .and_then(|usage| usage.total_tokens.or(usage.prompt_tokens)),
    })
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    let error = match serde_json::from_slice::<T>(bytes) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::Form("It is empty.".into()));
    }
    match serde_json::from_slice::<Value>(bytes) {
        Err(_) => Err(Problem::Form("It is not JSON.".into())),
        Ok(mut value) => match value.get_mut("error").map(Value::take) {
            Some(reported) if !reported.is_null() => Err(Problem::Reported(reported)),
            _ => {
                // the words of serde may quote what the server sent: only the kind of fault is told
                let what = match error.to_string() {
                    text if text.contains("null in a vector") => "A vector has a null.",
                    _ => "It has no list of vectors, or a vector is not a list of numbers.",
                };
                Err(Problem::Form(what.into()))
            }
        },
    }
}

/// Returns the vectors one after another, if there is one of the right form for each text.
///
/// # Errors
/// Number, dimensions or an element is wrong.
pub fn check(
    vectors: Vec<Vec<f32>>,
    texts: usize,
    dimensions: Option<usize>,
    normalizes: bool,
) -> Result<Vec<f32>, String> {
    if vectors.len() != texts {
        return Err(format!(
            "It has {} vectors for {texts} texts.",
            vectors.len()
        ));
    }
    let expected = dimensions.or(vectors.first().map(Vec::len)).unwrap_or(0);
    let mut all = Vec::with_capacity(texts * expected);
    for mut vector in vectors {
        if vector.is_empty() {
            return Err("A vector has no elements.".into());
        }
        if vector.len() != expected {
            return Err(format!(
                "It has a vector of {} dimensions, not {expected}.",
                vector.len()
            ));
        }
        let squares = vector.iter().map(|x| f64::from(*x) * f64::from(*x));
        let length = squares.sum::<f64>().sqrt();
        if !length.is_finite() {
            return Err("A vector has an element that is not a finite number.".into());
        }
        if length < f64::from(f32::MIN_POSITIVE) {
            return Err("All elements of a vector are 0.".into());
        }
        if normalizes {
            for x in &mut vector {
                *x = (f64::from(*x) / length) as f32;
            }
        }
        all.extend(vector);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_json(provider: Provider, answer: &Value) -> Result<Answer, Problem> {
        read(provider, answer.to_string().as_bytes())
    }

    #[test]
    fn four_dialects() {
        let expected = |tokens| {
            Ok(Answer {
                vectors: vec![vec![1.0, 0.0], vec![0.0, 1.0]],
                tokens,
            })
        };
        let vectors = json!([[1, 0], [0, 1]]);
        let answer = json!({"data": [{"index": 1, "embedding": [0, 1]},
                                     {"index": 0, "embedding": [1, 0]}],
                            "usage": {"prompt_tokens": 5, "total_tokens": 5}});
        assert_eq!(read_json(Provider::OpenAi, &answer), expected(Some(5)));
        let answer = json!({"embeddings": vectors, "prompt_eval_count": 7});
        assert_eq!(read_json(Provider::Ollama, &answer), expected(Some(7)));
        let answer = json!({"embeddings": {"float": vectors},
                            "meta": {"billed_units": {"input_tokens": 9}}});
        assert_eq!(read_json(Provider::Cohere, &answer), expected(Some(9)));
        let answer = json!({"embeddings": vectors});
        assert_eq!(read_json(Provider::Cohere, &answer), expected(None));
        assert_eq!(read_json(Provider::Tei, &vectors), expected(None));
    }

    #[test]
    fn vectors_may_be_base64() {
        let of = |text: &str| read_json(Provider::OpenAi, &json!({"data": [{"embedding": text}]}));
        let answer = of("AACAPwAAAMAAAAA/").unwrap();
        assert_eq!(answer.vectors, [[1.0, -2.0, 0.5]]);
        let mixed = json!({"data": [{"index": 1, "embedding": [0, 1]},
                                    {"index": 0, "embedding": "AACAPwAAAAA="}]});
        let answer = read_json(Provider::OpenAi, &mixed).unwrap();
        assert_eq!(answer.vectors, [[1.0, 0.0], [0.0, 1.0]]);
        let problem = "It has no list of vectors, or a vector is not a list of numbers.";
        for wrong in [
            "AACAPw",
            "AACA",
            "AACAPwA=",
            "AACA Pw==",
            "\u{fc}",
            "[1, 2]",
        ] {
            assert_eq!(of(wrong), Err(Problem::Form(problem.into())), "{wrong}");
        }
        // NaN and infinity
        for wrong in ["AADAfw==", "AACAfw=="] {
            let vectors = of(wrong).unwrap().vectors;
            assert_eq!(
                check(vectors, 1, None, true),
                Err("A vector has an element that is not a finite number.".into())
            );
        }
        assert_eq!(
            check(of("").unwrap().vectors, 1, None, true),
            Err("A vector has no elements.".into())
        );
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let form = |text: &str| Err(Problem::Form(text.into()));
        for (answer, problem) in [
            ("", "It is empty."),
            ("<html>", "It is not JSON."),
            (r#"{"data": [{"embedding": [NaN]}]}"#, "It is not JSON."),
            (
                r#"{"data": [{"embedding": [null]}]}"#,
                "A vector has a null.",
            ),
            (
                r#"{"data": [{"embedding": "AAAA"}]}"#,
                "It has no list of vectors, or a vector is not a list of numbers.",
            ),
            (
                "{}",
                "It has no list of vectors, or a vector is not a list of numbers.",
            ),
            (
                r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
                "It has a text twice.",
            ),
            (
                r#"{"data": [{"index": 3, "embedding": [1]}]}"#,
                "It has a text that was not sent.",
            ),
        ] {
            assert_eq!(
                read(Provider::OpenAi, answer.as_bytes()),
                form(problem),
                "{answer}"
            );
        }
        assert_eq!(
            read_json(Provider::OpenAi, &json!({"error": {"message": "no"}})),
            Err(Problem::Reported(json!({"message": "no"})))
        );
    }

    #[test]
    fn each_text_has_one_vector_of_the_same_form() {
        let one = || vec![3.0, 4.0];
        assert_eq!(check(vec![one()], 1, None, true), Ok(vec![0.6, 0.8]));
        assert_eq!(check(vec![one()], 1, Some(2), false), Ok(one()));
        for (vectors, texts, dimensions, problem) in [
            (vec![one()], 2, None, "It has 1 vectors for 2 texts."),
            (
                vec![one()],
                1,
                Some(3),
                "It has a vector of 2 dimensions, not 3.",
            ),
            (
                vec![one(), vec![1.0]],
                2,
                None,
                "It has a vector of 1 dimensions, not 2.",
            ),
            (vec![vec![]], 1, None, "A vector has no elements."),
            (
                vec![vec![0.0, 0.0]],
                1,
                None,
                "All elements of a vector are 0.",
            ),
            (
                vec![vec![f32::INFINITY, 0.0]],
                1,
                None,
                "A vector has an element that is not a finite number.",
            ),
        ] {
            assert_eq!(check(vectors, texts, dimensions, true), Err(problem.into()));
        }
    }
}
