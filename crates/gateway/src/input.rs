//! From an HTTP request to the JSON object that the function of its route gets.

use std::time::Duration;

use axum::{
    body::{Body as HttpBody, Bytes},
    extract::{FromRequest, Multipart, Request},
    http::{HeaderMap, StatusCode, header},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value, json};

use crate::{
    problem::Problem,
    routes::{Body, Field, Place, Route, Type},
};

/// Bytes that are read of a body that nobody wants.
const DRAINED: usize = 1 << 16;
/// Time for them.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The parts of a request that the table of routes knows.
pub struct Parts {
    /// Names and values, decoded.
    pub path: Vec<(String, String)>,
    pub query: String,
    pub headers: HeaderMap,
}

/// Returns the request of a function.
///
/// # Errors
/// The body is too large or of another type, a field is unknown, missing, or of another type.
pub async fn read(
    route: &Route,
    parts: Parts,
    body: HttpBody,
    max_body: usize,
) -> Result<Value, Problem> {
    let mut request = Map::new();
    for (name, value) in parts.path {
        set(&mut request, route, Place::Path, &name, &value)?;
    }
    if !parts.query.is_empty() {
        for (name, value) in form_urlencoded::parse(parts.query.as_bytes()) {
            set(&mut request, route, Place::Query, &name, &value)?;
        }
    }
    let kind = media_type(&parts.headers);
    let body = match (route.body, kind.as_deref()) {
        (Body::None, _) => {
            drain(body).await;
            None
        }
        (Body::JsonOrForm | Body::Form, Some("multipart/form-data")) => {
            let form = form(route, parts.headers, body, max_body).await?;
            request.extend(form);
            None
        }
        (Body::Form, _) => return Err(wrong_type("multipart/form-data")),
        (_, Some(kind)) if is_json(kind) => Some(json_body(body, max_body).await?),
        // an empty body may have no type
        (_, None) => Some(json_body(body, max_body).await?),
        (Body::JsonOrForm, _) => {
            return Err(wrong_type("application/json or multipart/form-data"));
        }
        _ => return Err(wrong_type("application/json")),
    };
    match (route.body, body) {
        (Body::Raw, Some(body)) => return Ok(body),
        (Body::Member, Some(body)) => {
            request.insert("body".into(), body);
        }
        (_, Some(Value::Object(members))) => members_of(route, &mut request, members)?,
        (_, Some(other)) => {
            let kind = type_name(&other);
            return Err(Problem::bad_request(format!(
                "the body must be a JSON object, not {kind}"
            )));
        }
        (_, None) => {}
    }
    for field in route.fields {
        if field.required && request.get(field.name).is_none_or(Value::is_null) {
            if field.kind == Type::File && request.contains_key("content_base64") {
                continue;
            }
            return Err(Problem::bad_request(format!("{}: is required", field.name)));
        }
    }
    Ok(Value::Object(request))
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default();
    Some(kind.trim().to_ascii_lowercase())
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

fn wrong_type(wanted: &str) -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!("the header Content-Type must be {wanted}"),
    )
}

fn too_large(max_body: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {max_body} bytes"),
    )
}

async fn json_body(body: HttpBody, max_body: usize) -> Result<Value, Problem> {
    let bytes = collect(body, max_body).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Problem::bad_request(format!("the body is no valid JSON: {error}")))
}

async fn collect(body: HttpBody, max_body: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, max_body).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(max_body)),
        Err(_) => Err(Problem::bad_request("the body ends too early")),
    }
}

/// Reads what nobody wants of a body. A connection that is closed with bytes that were not read can
/// cost the client its answer.
pub async fn drain(body: HttpBody) {
    let rest = Limited::new(body, DRAINED).collect();
    // an error says that there is more, or that the client has gone
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
}

fn members_of(
    route: &Route,
    request: &mut Map<String, Value>,
    members: Map<String, Value>,
) -> Result<(), Problem> {
    for (name, value) in members {
        let field = find(route, Place::Body, &name);
        let Some(field) = field.filter(|field| field.kind != Type::File) else {
            if route.body == Body::OpenJson {
                continue;
            }
            return Err(unknown(route, Place::Body, &name));
        };
        if !value.is_null() {
            if let Some(wanted) = mismatch(field.kind, &value) {
                let kind = type_name(&value);
                return Err(Problem::bad_request(format!(
                    "{name}: must be {wanted}, not {kind}"
                )));
            }
            request.insert(name, value);
        }
    }
    Ok(())
}

fn find(route: &Route, place: Place, name: &str) -> Option<&'static Field> {
    let mut fields = route.fields.iter();
    fields.find(|field| field.place == place && field.name == name)
}

fn unknown(route: &Route, place: Place, name: &str) -> Problem {
    let shown: String = name.chars().take(80).collect();
    let mut problem = Problem::bad_request(format!("{shown}: is not a known field"));
    let known: Vec<_> = route.fields.iter().filter(|f| f.place == place).collect();
    if !known.is_empty() {
        let names: Vec<_> = known.iter().map(|field| field.name).collect();
        problem.hint = Some(format!("Fields: {}.", names.join(", ")));
    }
    problem
}

/// Sets a field whose value is a text: of the path, the query or a form.
fn set(
    request: &mut Map<String, Value>,
    route: &Route,
    place: Place,
    name: &str,
    text: &str,
) -> Result<(), Problem> {
    let Some(field) = find(route, place, name) else {
        return Err(unknown(route, place, name));
    };
    let wrong = |wanted: &str| Problem::bad_request(format!("{name}: must be {wanted}"));
    let value = match field.kind {
        Type::Integer => json!(text.parse::<i64>().map_err(|_| wrong("an integer"))?),
        Type::Boolean => match text {
            "true" | "1" => json!(true),
            "false" | "0" => json!(false),
            _ => return Err(wrong("true or false")),
        },
        Type::Text => json!(text),
        Type::Object | Type::Objects | Type::Texts if place == Place::Body => {
            let value: Value = match serde_json::from_str(text) {
                Ok(value) => value,
                Err(_) if field.kind == Type::Texts => json!([text]),
                Err(_) => return Err(wrong("JSON")),
            };
            if let Some(wanted) = mismatch(field.kind, &value) {
                return Err(wrong(wanted));
            }
            value
        }
        _ => json!(text),
    };
    if text.contains('\0') {
        return Err(wrong("a text without zero bytes"));
    }
    request.insert(name.to_string(), value);
    Ok(())
}

async fn form(
    route: &Route,
    headers: HeaderMap,
    body: HttpBody,
    max_body: usize,
) -> Result<Map<String, Value>, Problem> {
    let bytes = collect(body, max_body).await?;
    let mut request = Request::new(HttpBody::from(bytes));
    *request.headers_mut() = headers;
    // the limit is checked above
    axum::extract::DefaultBodyLimit::apply(
        axum::extract::DefaultBodyLimit::disable(),
        &mut request,
    );
    let malformed = |error: &dyn std::fmt::Display| {
        Problem::bad_request(format!("the body is no valid form: {error}"))
    };
    let mut parts = Multipart::from_request(request, &())
        .await
        .map_err(|error| malformed(&error))?;
    let mut form = Map::new();
    while let Some(part) = parts.next_field().await.map_err(|e| malformed(&e))? {
        let name = part.name().unwrap_or_default().to_string();
        let filename = part.file_name().map(str::to_owned);
        let is_file = find(route, Place::Body, &name).is_some_and(|f| f.kind == Type::File);
        let bytes = part.bytes().await.map_err(|error| malformed(&error))?;
        if is_file {
            form.insert(
                "content_base64".into(),
                json!(BASE64_STANDARD.encode(bytes)),
            );
            if let Some(filename) = filename.filter(|name| !name.is_empty()) {
                form.insert("filename".into(), json!(filename));
            }
            continue;
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Problem::bad_request(format!("{name}: must be text in UTF-8")))?;
        // clients write arrays as repeated parts
        let name = name.trim_end_matches("[]");
        if let (Some(Value::Array(known)), Some(Type::Texts)) = (
            form.get_mut(name),
            find(route, Place::Body, name).map(|field| field.kind),
        ) {
            known.push(json!(text));
            continue;
        }
        set(&mut form, route, Place::Body, name, text)?;
    }
    Ok(form)
}

/// Returns what a value must be, if it is something else.
pub fn mismatch(kind: Type, value: &Value) -> Option<&'static str> {
    let all = |test: fn(&Value) -> bool| {
        let elements = value.as_array();
        elements.is_some_and(|elements| elements.iter().all(test))
    };
    let (fits, wanted) = match kind {
        Type::Text => (value.is_string(), "a string"),
        Type::Integer => (value.is_i64(), "an integer"),
        Type::Boolean => (value.is_boolean(), "true or false"),
        Type::Object => (value.is_object(), "an object"),
        Type::Texts => (all(Value::is_string), "an array of strings"),
        Type::Objects => (all(Value::is_object), "an array of objects"),
        Type::TextOrTexts => (
            value.is_string() || all(Value::is_string),
            "a string or an array of strings",
        ),
        Type::File | Type::Any => (true, ""),
    };
    (!fits).then_some(wanted)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
