//! What this program says itself, whatever a server answers.

/// Parts of messages. A secret that is a part of one of them is not in it because a server has
/// echoed it.
const PHRASES: [&str; 25] = [
    "Elasticsearch",
    "could not reach",
    "could not call model",
    "could not connect to",
    "could not establish a secure connection to",
    "could not resolve host",
    "lost the connection to",
    "did not answer in time",
    "did not answer within",
    "has not answered earlier requests of this run",
    "sent an invalid answer",
    "sent an invalid HTTP response",
    "The server answered",
    "the server answered",
    "the server of model",
    "the server redirects",
    "refuses the credentials",
    "refuses the request",
    "refuses the key",
    "requires a key",
    "limits the rate of requests",
    "does not know the model or the address",
    "does not know the path",
    "Check the host name, and that the database server can connect to it.",
    "If it is not public, create a secret and name it in the source's credentials.",
];

/// Returns true if a part of a text is within one of the phrases, and is not all of it.
pub fn covers(text: &str, from: usize, to: usize) -> bool {
    PHRASES.iter().any(|phrase| {
        let first = (to + 1).saturating_sub(phrase.len()).min(from);
        phrase.len() > to - from
            && (first..=from).any(|start| {
                start + phrase.len() >= to
                    && text.as_bytes()[start..].starts_with(phrase.as_bytes())
            })
    })
}
