//! Errors of calls, in words. What a server says of its error is part of the DETAIL, shortened.

use rag_protocol::{
    EngineError, ErrorKind,
    call::{Call, CallRequest},
};
use rag_source::http::{HttpError, HttpResponse};
use serde_json::Value;

/// The maximum size of an error that is read, in bytes.
const MAX_ERROR: u64 = 64 << 10;
/// The maximum number of characters of a server's own words.
const MAX_WORDS: usize = 300;
/// The number of characters of a text that an error shows.
const MAX_BEGIN: usize = 60;
const ANSWERED: &str = "The server answered ";

/// Returns true if the same request may succeed later.
pub fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// Returns the error for a status that is not a success.
pub fn of_status(call: &Call, response: HttpResponse) -> EngineError {
    let name = &call.name;
    let status = response.status.as_u16();
    let wait = response.retry_after().map(|wait| wait.as_secs());
    let reason = response.status.canonical_reason().unwrap_or_default();
    let answered = format!("{ANSWERED}{status} {reason}").trim_end().to_owned();
    let words = response
        .bytes(MAX_ERROR)
        .ok()
        .and_then(|body| words_of(&body));
    let detail = match words {
        Some(words) => format!("{answered}: {words}"),
        None => format!("{answered}."),
    };
    let error = |kind, message: String| EngineError::new(kind, message).detail(detail.clone());
    match status {
        401 | 403 if call.credentials.is_some() => error(
            ErrorKind::Unauthorized,
            format!("the server of model \"{name}\" refuses the key"),
        )
        .hint("Check the value of the secret that api_key names."),
        401 | 403 => error(
            ErrorKind::Unauthorized,
            format!("the server of model \"{name}\" requires a key"),
        )
        .hint("Create a secret and name it in api_key."),
        429 => {
            let asks = match wait {
                Some(seconds) if seconds > 0 => format!(" and asks to wait {seconds} s"),
                _ => String::new(),
            };
            let limits = format!("the server of model \"{name}\" limits the rate of requests");
            EngineError {
                retry_after_seconds: wait,
                ..error(ErrorKind::Throttled, limits + &asks)
            }
            .hint("Ask again later.")
        }
        _ if is_temporary(status) => error(
            ErrorKind::SourceUnavailable,
            format!("the server of model \"{name}\" has failed"),
        )
        .hint("Ask again later."),
        404 => error(
            ErrorKind::InvalidRequest,
            format!("the server of model \"{name}\" does not know the model or the address"),
        )
        .hint("Check base_url and model."),
        300..=399 => error(
            ErrorKind::InvalidRequest,
            format!("the server of model \"{name}\" redirects requests"),
        )
        .hint("Write the address that it redirects to as base_url."),
        _ => {
            let kind = match status {
                400 | 413 | 422 => ErrorKind::Refused,
                _ => ErrorKind::InvalidRequest,
            };
            let refuses = format!("the server of model \"{name}\" refuses the request");
            error(kind, refuses)
                .hint("Change the settings of the model to what its server accepts.")
        }
    }
}

/// Returns the error for a text whose request was refused, while the server accepts others.
pub fn of_text(call: &Call, text: &str, refused: EngineError) -> EngineError {
    let detail = refused.detail.unwrap_or_default();
    let answer = detail.strip_prefix(ANSWERED).unwrap_or(&detail);
    let answer = answer.trim_end_matches('.');
    EngineError::new(
        ErrorKind::Refused,
        format!(
            "the server of model \"{}\" refuses a text: {answer}",
            call.name
        ),
    )
    .detail(format!("The text begins with \"{}\".", begin(text)))
    .hint("If it is too long, use smaller chunks, or lower maxTokens in the settings of the model.")
}

/// Returns the error for a request without a response.
pub fn of_http(call: &Call, error: &HttpError) -> EngineError {
    let name = &call.name;
    let unavailable = |message| EngineError::new(ErrorKind::SourceUnavailable, message);
    match error {
        HttpError::Timeout { .. } => timeout(call),
        HttpError::Refused(refusal) => {
            unavailable(format!("could not call model \"{name}\": {refusal}")).hint(
                "Models are called at public addresses only. A superuser can allow others in \
                 rag.allowed_private_hosts.",
            )
        }
        HttpError::OffOrigin(_) | HttpError::BadRedirect | HttpError::TooManyRedirects => {
            EngineError::new(
                ErrorKind::InvalidRequest,
                format!("could not call model \"{name}\": {error}"),
            )
            .hint("Write the address that it redirects to as base_url.")
        }
        other => {
            let error = unavailable(format!("could not call model \"{name}\": {other}"));
            match other.hint() {
                Some(hint) => error.hint(hint),
                None => error,
            }
        }
    }
}

/// Returns the error for a call that has taken too long.
pub fn timeout(call: &Call) -> EngineError {
    let milliseconds = match &call.request {
        CallRequest::Embed {
            request_timeout_ms, ..
        } => *request_timeout_ms,
        _ => call.timeout_ms,
    };
    let seconds = milliseconds as f64 / 1e3;
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("model \"{}\" did not answer within {seconds} s", call.name),
    )
    .hint("Ask again later, or raise timeout in the settings of the model.")
}

/// Returns the error for a response that is not an answer.
pub fn no_answer(call: &Call, detail: impl Into<String>) -> EngineError {
    EngineError::new(
        ErrorKind::InvalidAnswer,
        format!(
            "the server of model \"{}\" sent an invalid answer",
            call.name
        ),
    )
    .detail(detail)
    .hint("Check base_url and the provider.")
}

/// Returns the error that a server reports within an answer.
pub fn reported(call: &Call, error: &Value) -> EngineError {
    let words = words_in(error).unwrap_or_else(|| "It does not say why.".into());
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("the server of model \"{}\" has failed", call.name),
    )
    .detail(words)
    .hint("Ask again later.")
}

/// Returns the error for an answer that breaks off.
pub fn broken(call: &Call) -> EngineError {
    EngineError::new(
        ErrorKind::SourceUnavailable,
        format!("the answer of model \"{}\" broke off", call.name),
    )
    .detail("The server ended the connection before the end of the answer.")
    .hint("Ask again.")
}

pub fn too_long(call: &Call, what: &str, limit: usize) -> EngineError {
    EngineError::new(
        ErrorKind::LimitExceeded,
        format!("the answer of model \"{}\" is too long", call.name),
    )
    .detail(format!("{what} exceeds the limit of {limit} bytes."))
    .hint("Lower max_tokens in the settings of the model.")
}

/// Returns the first characters of a text, in one line.
fn begin(text: &str) -> String {
    let begin: String = text.chars().take(MAX_BEGIN).collect();
    let begin = begin.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.chars().nth(MAX_BEGIN) {
        Some(_) => begin + "...",
        None => begin,
    }
}

/// Returns the words of an error in JSON.
pub fn words_of(body: &[u8]) -> Option<String> {
    words_in(&serde_json::from_slice(body).ok()?)
}

/// Returns the text of an error, in one line and shortened.
fn words_in(body: &Value) -> Option<String> {
    let words = said(body)?;
    let one_line: String = words
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let one_line = one_line.trim();
    let mut short: String = one_line.chars().take(MAX_WORDS).collect();
    if short.len() < one_line.len() {
        short.push_str("...");
    }
    (!short.is_empty()).then_some(short)
}

/// Returns what an error says: `{"error": {"message": "..."}}`, `{"error": "..."}`, a list of them,
/// or FastAPI's `{"detail": [{"loc": ["body", "x"], "msg": "..."}]}`. Other keys may hold the
/// request, and are not shown.
fn said(error: &Value) -> Option<String> {
    match error {
        Value::String(words) => (!words.trim().is_empty()).then(|| words.clone()),
        Value::Array(errors) => {
            let all: Vec<String> = errors.iter().filter_map(said).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        Value::Object(keys) => {
            let words = ["error", "message", "reason", "msg", "detail", "errors"]
                .iter()
                .find_map(|key| keys.get(*key).and_then(said))
                .or_else(|| {
                    keys.get("status")
                        .filter(|it| it.is_object())
                        .and_then(said)
                })?;
            Some(match keys.get("loc").and_then(place) {
                Some(place) => format!("{place}: {words}"),
                None => words,
            })
        }
        _ => None,
    }
}

/// Returns a place in a request: `body.messages.0` for `["body", "messages", 0]`.
fn place(steps: &Value) -> Option<String> {
    let steps = steps.as_array()?.iter().map(|step| match step {
        Value::String(name) => name.clone(),
        other => other.to_string(),
    });
    let place = steps.collect::<Vec<_>>().join(".");
    (!place.is_empty()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_several_forms_of_errors() {
        for body in [
            r#"{"error": {"message": "no\nsuch model", "type": "x"}}"#,
            r#"{"error": "no such model"}"#,
            r#"{"message": "no such model"}"#,
            r#"{"detail": "no such model"}"#,
            r#"{"detail": [{"msg": "no such model", "input": "secret"}]}"#,
            r#"{"detail": {"error": {"message": "no such model"}}}"#,
            r#"{"errors": [{"reason": "no such model"}, {}, 1, null]}"#,
            r#"{"error": true, "message": "no such model"}"#,
            r#"{"status": {"error": "no such model"}, "time": 0.1}"#,
            r#"{"status": "error", "error": "", "message": ["no such model"]}"#,
            r#"[{"error": {"code": 404, "message": "no such model"}}]"#,
            r#""no such model""#,
        ] {
            assert_eq!(words_of(body.as_bytes()).as_deref(), Some("no such model"));
        }
        assert_eq!(words_of(b"<html>"), None);
        for none in [
            r#"{"error": {}}"#,
            r#"{"detail": []}"#,
            r#"{"detail": [{"loc": ["body", "x"], "type": "missing"}]}"#,
            r#"{"status": "error"}"#,
            "422",
        ] {
            assert_eq!(words_of(none.as_bytes()), None, "{none}");
        }
        let fastapi = r#"{"detail": [
            {"loc": ["body", "x"], "msg": "extra fields not permitted", "type": "extra"},
            {"loc": ["body", "messages", 0, "content"], "msg": "field required"},
            {"loc": [], "msg": "wrong"}, {"loc": "body", "msg": "worse"}]}"#;
        assert_eq!(
            words_of(fastapi.as_bytes()).as_deref(),
            Some(
                "body.x: extra fields not permitted; body.messages.0.content: field required; \
                 wrong; worse"
            )
        );
        let long = format!("{{\"error\": \"{}\"}}", "x".repeat(400));
        assert_eq!(
            words_of(long.as_bytes()).map(|words| words.len()),
            Some(303)
        );
    }
}
