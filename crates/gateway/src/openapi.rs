//! The OpenAPI 3.1 description of the table of routes.

use serde_json::{Map, Value, json};

use crate::{
    problem::Contract,
    routes::{self, Body, Field, Output, Place, Route, Type, Verb},
};

/// Returns the description of all routes.
pub fn description(url: &str) -> Value {
    let mut paths = Map::new();
    for route in routes::all() {
        for (number, path) in route.paths.iter().enumerate() {
            let entry = paths.entry(*path).or_insert_with(|| json!({}));
            entry[method(route.method)] = operation(route, number);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rag-gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Retrieval-augmented generation inside PostgreSQL.",
            "license": {"name": "PostgreSQL", "identifier": "PostgreSQL"},
        },
        "servers": [{"url": url}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {
                "type": "http", "scheme": "bearer",
                "description": "A key of rag_create_api_key, or a token.",
            }},
            "schemas": errors(),
        },
    })
}

fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::Post => "post",
        Verb::Put => "put",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
    }
}

/// Returns the name of a route in the description: its function, with a number for further paths.
fn operation_id(route: &Route, number: usize) -> String {
    let name = match route.function {
        "" if route.paths[0] == "/" => "console".to_string(),
        "" => route.paths[0]
            .trim_matches(['/', '.'])
            .replace(['/', '.', '-'], "_"),
        name => name.to_string(),
    };
    match number {
        0 => name,
        number => format!("{name}_{}", number + 1),
    }
}

fn operation(route: &Route, number: usize) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route, number),
        "summary": plain(route.summary),
        "tags": [route.tag],
        "responses": responses(route),
    });
    if route.is_open() {
        operation["security"] = json!([]);
    }
    let parameters: Vec<Value> = route
        .fields
        .iter()
        .filter(|field| field.place != Place::Body)
        .map(|field| {
            json!({
                "name": field.name,
                "in": if field.place == Place::Path { "path" } else { "query" },
                "required": field.required,
                "description": plain(field.about),
                "schema": schema(field.kind),
            })
        })
        .collect();
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    let content = content(route);
    if !content.is_empty() {
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

fn content(route: &Route) -> Map<String, Value> {
    let mut content = Map::new();
    let json_schema = match route.body {
        Body::None | Body::Form => None,
        Body::Raw | Body::Member => Some(json!({"type": "object"})),
        Body::Json | Body::JsonOrForm => Some(input_schema(route, false)),
        Body::OpenJson => Some(input_schema(route, true)),
    };
    if let Some(schema) = json_schema {
        content.insert("application/json".into(), json!({"schema": schema}));
    }
    if matches!(route.body, Body::Form | Body::JsonOrForm) {
        let fields = route.fields.iter().filter(|f| f.place == Place::Body);
        let properties: Map<_, _> = fields
            .map(|field| (field.name.to_string(), property(field)))
            .collect();
        let schema = json!({"type": "object", "properties": properties, "required": ["file"]});
        content.insert("multipart/form-data".into(), json!({"schema": schema}));
    }
    content
}

/// Returns the JSON Schema of a body.
pub fn input_schema(route: &Route, is_open: bool) -> Value {
    let fields = route.fields.iter();
    let fields = fields.filter(|f| f.place == Place::Body && f.kind != Type::File);
    let (mut properties, mut required) = (Map::new(), vec![]);
    for field in fields {
        properties.insert(field.name.into(), property(field));
        if field.required {
            required.push(field.name);
        }
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !is_open {
        schema["additionalProperties"] = json!(false);
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = schema(field.kind);
    schema["description"] = json!(plain(field.about));
    schema
}

/// Returns the JSON Schema of a type.
pub fn schema(kind: Type) -> Value {
    match kind {
        Type::Text => json!({"type": "string"}),
        Type::Integer => json!({"type": "integer"}),
        Type::Boolean => json!({"type": "boolean"}),
        Type::Object => json!({"type": "object"}),
        Type::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Type::Objects => json!({"type": "array", "items": {"type": "object"}}),
        Type::TextOrTexts => json!({"anyOf": [
            {"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        Type::File => json!({"type": "string", "contentMediaType": "application/octet-stream"}),
        Type::Any => json!({}),
    }
}

fn file_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "js")) => "text/javascript",
        Some((_, "css")) => "text/css",
        Some((_, "svg")) => "image/svg+xml",
        _ => "text/html",
    }
}

fn responses(route: &Route) -> Value {
    let media_type = match route.output {
        Output::Metrics => "text/plain",
        Output::Events => "text/event-stream",
        Output::File => file_type(route.paths[0]),
        _ => "application/json",
    };
    let schema = match route.output {
        Output::Metrics | Output::Events | Output::File => json!({"type": "string"}),
        Output::Items => json!({"type": "array"}),
        _ => json!({"type": "object"}),
    };
    let mut content = json!({media_type: {"schema": schema}});
    if matches!(
        route.output,
        Output::Answer | Output::ChatCompletion | Output::Response
    ) {
        content["text/event-stream"] = json!({"schema": {"type": "string"}});
    }
    let mut responses = Map::new();
    responses.insert(
        route.status.to_string(),
        json!({"description": plain(route.result), "content": content}),
    );
    for status in route.errors() {
        let name = axum::http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or_default();
        let schema = json!({"$ref": format!("#/components/schemas/{}", route.contract.name())});
        let content = json!({route.contract.media_type(): {"schema": schema}});
        responses.insert(
            status.to_string(),
            json!({"description": name, "content": content}),
        );
    }
    Value::Object(responses)
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn errors() -> Value {
    let text = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    json!({
        Contract::Problem.name(): object(&["type", "title", "status", "detail"], json!({
            "type": text, "title": text, "status": integer, "detail": text, "hint": text,
            "sqlstate": text, "request_id": text})),
        Contract::OpenAi.name(): object(&["error"], json!({"error": object(&["message", "type"],
            json!({"message": text, "type": text, "param": {"type": ["string", "null"]},
                   "code": text}))})),
        Contract::Dify.name(): object(&["error_code", "error_msg"],
            json!({"error_code": integer, "error_msg": text})),
        Contract::Detail.name(): object(&["detail"], json!({"detail": text})),
    })
}

/// Returns a text without the links and code marks of Markdown.
pub fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(&before.replacen('[', "", 1));
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain.replace('`', "")
}
