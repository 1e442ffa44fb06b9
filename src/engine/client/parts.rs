//! Requests of a size that the engine can serve in turn with those of others.

use rag_protocol::embed::{REQUEST_BYTES, REQUEST_TEXTS};

/// Distributes texts over requests of a size that the engine can serve in turn with those of
/// others.
pub fn parts(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = vec![];
    let mut bytes = 0;
    for text in texts {
        bytes += text.len();
        match parts.last_mut() {
            Some(part) if part.len() < REQUEST_TEXTS && bytes <= REQUEST_BYTES => part.push(text),
            _ => {
                bytes = text.len();
                parts.push(vec![text]);
            }
        }
    }
    parts
}
