//! `rag-engine query`: sends a request to a running engine by hand.

use std::{io::BufReader, os::unix::net::UnixStream, path::Path};

use rag_protocol::{
    EngineError, ErrorKind,
    embed::{Answer, ModelRef, Priority, Reply, Request, Task},
    frame,
};

/// Number of values printed for each vector.
const SHOWN_VALUES: usize = 4;

/// Prints the model, and the first values of each text's embedding.
///
/// # Errors
/// The error of the engine, or that it cannot be reached.
pub fn run(socket: &Path, model: ModelRef, texts: Vec<String>) -> Result<(), EngineError> {
    let broken = |e: &dyn std::fmt::Display| {
        EngineError::new(
            ErrorKind::Io,
            format!("could not query the engine at \"{}\"", socket.display()),
        )
        .detail(e.to_string())
    };
    let mut stream = UnixStream::connect(socket).map_err(|e| broken(&e))?;
    let task = Task::Embed {
        priority: Priority::Query,
        purpose: None,
        texts: texts.clone(),
    };
    frame::write(&mut stream, &Request { id: 1, model, task }, &[]).map_err(|e| broken(&e))?;
    let reply = frame::read(&mut BufReader::new(stream)).map_err(|e| broken(&e))?;
    let reply = reply.ok_or_else(|| broken(&"it closed the connection"))?;
    match reply.header::<Reply>().map_err(|e| broken(&e))?.answer {
        Answer::Embeddings { model, tokens } => {
            println!(
                "model {}: {} dimensions, {} tokens at most, fingerprint {}",
                model.name, model.dimensions, model.max_tokens, model.fingerprint
            );
            let values: Vec<f32> = reply
                .payload
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect();
            for ((vector, tokens), text) in
                values.chunks_exact(model.dimensions).zip(tokens).zip(texts)
            {
                println!(
                    "{tokens} tokens, {:?}...: {text}",
                    &vector[..SHOWN_VALUES.min(vector.len())]
                );
            }
            Ok(())
        }
        Answer::Error { error } => Err(error),
        _ => Err(broken(&"it sent an unexpected answer")),
    }
}
