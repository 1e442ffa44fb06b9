//! The page `docs/reference/http.md`, made from the table of routes.

use std::fmt::Write;

use crate::{
    routes::{self, Body, Place, Route},
    settings::SETTINGS,
};

/// What is before the tables.
const HEAD: &str = include_str!("reference.md");

/// Sections of the page, in the order of the table.
const TAGS: [(&str, &str); 8] = [
    ("own", "The gateway's own routes"),
    ("OpenAI", "OpenAI's API"),
    ("KAITO", "KAITO's RAG engine"),
    ("Dify", "Dify"),
    ("Wegent", "Wegent"),
    ("agent_core", "agent_core"),
    ("RAG-benchmark", "RAG-benchmark"),
    ("system", "The program itself"),
];

/// Returns the page.
pub fn page() -> String {
    let mut page = HEAD.to_string();
    for (tag, title) in TAGS {
        let _ = write!(page, "\n## {title}\n");
        for route in routes::all().filter(|route| route.tag == tag) {
            section(&mut page, route);
        }
    }
    let _ = write!(
        page,
        "\n## Settings of the program\n\n| setting | default | description |\n|---|---|---|\n"
    );
    for setting in SETTINGS {
        let default = setting
            .default
            .map_or_else(|| "–".to_string(), |default| format!("`{default}`"));
        let _ = writeln!(
            page,
            "| `{}` | {default} | {} |",
            setting.key(),
            setting.about
        );
    }
    page
}

fn section(page: &mut String, route: &Route) {
    let method = route.method.http();
    let _ = write!(page, "\n### {method} {}\n", route.paths[0]);
    paragraph(page, &format!("{}.", route.summary));
    if let [_, others @ ..] = route.paths
        && !others.is_empty()
    {
        let others: Vec<_> = others.iter().map(|path| format!("`{path}`")).collect();
        paragraph(page, &format!("Also at {}.", others.join(", ")));
    }
    let body = match route.body {
        Body::Raw | Body::Member => Some("The body is a JSON object."),
        Body::JsonOrForm => Some("The body is a JSON object, or a form with a file."),
        Body::Form => Some("The body is a form with a file."),
        Body::OpenJson => Some("The body is a JSON object. Other members are ignored."),
        Body::Json | Body::None => None,
    };
    if let Some(body) = body {
        paragraph(page, body);
    }
    if !route.fields.is_empty() {
        page.push_str("\n| field | in | description |\n|---|---|---|\n");
        for field in route.fields {
            let place = match field.place {
                Place::Path => "path",
                Place::Query => "query",
                Place::Body => "body",
            };
            let required = if field.required && field.place != Place::Path {
                "; required"
            } else {
                ""
            };
            let _ = writeln!(
                page,
                "| `{}` | {place} | {}{required} |",
                field.name, field.about
            );
        }
    }
    paragraph(
        page,
        &format!("Answer, {}: {}.", route.status, route.result),
    );
}

/// Writes a paragraph in lines of 100 columns.
fn paragraph(page: &mut String, text: &str) {
    page.push('\n');
    let mut columns = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > 100 {
            page.push('\n');
            columns = 0;
        }
        if columns > 0 {
            page.push(' ');
            columns += 1;
        }
        page.push_str(word);
        columns += length;
    }
    page.push('\n');
}
