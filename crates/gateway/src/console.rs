//! The files of the console, which are inside of the program.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use ring::digest;

/// Scripts and styles are files of this program, and nothing else is asked. No text of a document
/// can become a script: the browser refuses every other way to make one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A file of the console.
struct File {
    path: &'static str,
    media_type: &'static str,
    content: &'static [u8],
    etag: String,
}

static FILES: LazyLock<[File; 4]> = LazyLock::new(|| {
    [
        file(
            "/",
            "text/html; charset=utf-8",
            include_bytes!("../console/index.html"),
        ),
        file(
            "/console.js",
            "text/javascript; charset=utf-8",
            include_bytes!("../console/dist/console.js"),
        ),
        file(
            "/console.css",
            "text/css; charset=utf-8",
            include_bytes!("../console/dist/console.css"),
        ),
        file(
            "/console.svg",
            "image/svg+xml",
            include_bytes!("../console/icon.svg"),
        ),
    ]
});

fn file(path: &'static str, media_type: &'static str, content: &'static [u8]) -> File {
    let hash = digest::digest(&digest::SHA256, content);
    let hash = hex::encode(&hash.as_ref()[..16]);
    File {
        path,
        media_type,
        content,
        etag: format!("\"{hash}\""),
    }
}

/// Returns a file, or 304 if the client has it already. None: there is no such file.
pub fn respond(path: &str, headers: &HeaderMap) -> Option<Response> {
    let file = FILES.iter().find(|file| file.path == path)?;
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let is_known = known
        .filter_map(|tags| tags.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == file.etag || tag.trim() == "*");
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        file.content.into_response()
    };
    let fields = [
        (header::CONTENT_TYPE, file.media_type),
        (header::ETAG, &file.etag),
        // a new version of the program has other files
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    Some(response)
}
