//! From the answer of a function to an HTTP response.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    answer_stream,
    database::Answer,
    problem::Problem,
    routes::{Output, Route},
    server::random_id,
    traffic::Traffic,
};

/// # Errors
/// The answer of the function is no JSON, which PostgreSQL's is.
pub fn respond(
    route: &Route,
    request: &Value,
    answer: Answer,
    traffic: &Traffic,
) -> Result<Response, Problem> {
    let body = answer.body.unwrap_or_else(|| "null".into());
    let parsed = |body: &str| serde_json::from_str(body).map_err(|_| Problem::internal());
    let body = match route.output {
        Output::Items => parsed(&body).map(|answer: Value| answer["items"].to_string())?,
        Output::Embeddings if request["encoding_format"] == "base64" => {
            let mut answer = parsed(&body)?;
            encode(&mut answer);
            answer.to_string()
        }
        Output::SearchStats => {
            let mut answer: Value = parsed(&body)?;
            answer["minutes"] = traffic.minutes();
            answer.to_string()
        }
        Output::Response => {
            let answer = parsed(&body)?;
            answer_stream::whole_response(&random_id(), request, &answer).to_string()
        }
        _ => body,
    };
    let status = answer.status.unwrap_or(route.status);
    let status = StatusCode::from_u16(status).map_err(|_| Problem::internal())?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((status, kind, body).into_response())
}

/// Replaces the numbers of embeddings by the base64 of 32-bit numbers, little-endian.
fn encode(answer: &mut Value) {
    for row in answer["data"].as_array_mut().into_iter().flatten() {
        let bytes: Vec<u8> = row["embedding"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .flat_map(|number| (number as f32).to_le_bytes())
            .collect();
        row["embedding"] = json!(BASE64_STANDARD.encode(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_are_little_endian_in_base64() {
        let mut answer = json!({"data": [{"embedding": [1.0, -0.5]}]});
        encode(&mut answer);
        assert_eq!(answer["data"][0]["embedding"], "AACAPwAAAL8=");
    }
}
