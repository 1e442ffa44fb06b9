//! Embedding by the engines of other servers: those that have shards of the chunks.
//!
//! ```text
//! texts of a batch ─┬─ first part ──▶ engine of this server
//!                   └─ a part each ─▶ SELECT rag_internal.embed_for(...) ──▶ engine of that server
//! ```
//!
//! Only texts of the default model are sent, and only vectors of the same fingerprint are taken. If
//! a server does not answer, or has another model, this server embeds its part. The rest of the run
//! goes on without it.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport, spi::quote_literal};
use rag_protocol::{call::Purpose, embed::Priority};
use serde_json::json;

use super::EmbeddingModel;
use crate::{catalog::shards, error::Error, pg::transaction::transaction};

/// A server is only asked to embed at least so many texts: a connection is opened for each part.
const MIN_TEXTS: usize = 16;
/// The number of hexadecimal digits of an element of a vector.
const DIGITS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    host: String,
    port: i32,
}

/// The servers that embed texts of a run.
#[derive(Debug, Default)]
pub struct EmbeddingNodes {
    nodes: Vec<Node>,
    fingerprint: String,
}

/// The texts that a server embeds.
pub struct Share {
    node: Node,
    pub texts: Vec<String>,
}

impl EmbeddingNodes {
    /// Returns the servers that may embed texts by a model with a fingerprint. Runs in a
    /// transaction.
    ///
    /// # Errors
    /// A statement fails.
    pub fn of(model: &EmbeddingModel, fingerprint: &str) -> Result<Self, Error> {
        if !model.is_default_folder() || !shards::is_distributed()? {
            return Ok(Self::default());
        }
        let nodes = shards::workers()?.into_iter();
        let nodes = nodes.map(|(host, port)| Node { host, port }).collect();
        Ok(Self {
            nodes,
            fingerprint: fingerprint.to_owned(),
        })
    }

    /// Returns the number of servers with an engine, this one included.
    pub fn engines(&self) -> usize {
        1 + self.nodes.len()
    }

    /// Takes the parts of other servers from the end of the texts.
    pub fn split(&self, texts: &mut Vec<String>) -> Vec<Share> {
        let part = texts.len() / self.engines();
        if part < MIN_TEXTS {
            return vec![];
        }
        let mut shares: Vec<Share> = self
            .nodes
            .iter()
            .map(|node| Share {
                node: node.clone(),
                texts: texts.split_off(texts.len() - part),
            })
            .collect();
        shares.reverse(); // the order of the texts
        shares
    }

    /// Embeds the parts. A part is `None` if this server has to embed it; its server is not asked
    /// again. No transaction is open.
    pub fn embed(&mut self, shares: &[Share]) -> Vec<Option<Vec<Vec<f32>>>> {
        let answers = transaction(|| ask(&self.fingerprint, shares));
        let answers = answers.unwrap_or_else(|error| vec![Err(error.message); shares.len()]);
        let mut vectors = vec![];
        for (share, answer) in shares.iter().zip(answers) {
            let read = answer.and_then(|text| {
                read_vectors(&text)
                    .filter(|vectors| vectors.len() == share.texts.len())
                    .ok_or_else(|| "it returned something else than vectors".to_owned())
            });
            if let Err(why) = &read {
                let Node { host, port } = &share.node;
                pgrx::log!("rag: server {host}:{port} does not embed texts of this run: {why}");
                self.nodes.retain(|node| *node != share.node);
            }
            vectors.push(read.ok());
        }
        vectors
    }
}

/// Returns the answer of each server, or why there is none.
fn ask(fingerprint: &str, shares: &[Share]) -> Result<Vec<Result<String, String>>, Error> {
    let commands = shares.iter().map(|share| {
        let texts: Vec<String> = share.texts.iter().map(quote_literal).collect();
        format!(
            "SELECT rag_internal.embed_for({}, ARRAY[{}]::text[])",
            quote_literal(fingerprint),
            texts.join(",")
        )
    });
    let hosts: Vec<&str> = shares.iter().map(|it| it.node.host.as_str()).collect();
    let ports: Vec<i32> = shares.iter().map(|it| it.node.port).collect();
    shards::run_on_workers(hosts, ports, commands.collect())
}

/// Reads what [`embed_for`] returns.
fn read_vectors(text: &str) -> Option<Vec<Vec<f32>>> {
    let vector = |digits: &str| -> Option<Vec<f32>> {
        let elements = digits.as_bytes().chunks(DIGITS);
        elements
            .map(|element| {
                let digits = std::str::from_utf8(element).ok()?;
                u32::from_str_radix(digits, 16).ok().map(f32::from_bits)
            })
            .collect()
    };
    text.split(' ').map(vector).collect()
}

/// Embeds passages for another server. Returns vectors as hexadecimal digits of their elements,
/// with a blank between two.
///
/// # Errors
/// The model of this server has another fingerprint, or is unavailable.
#[pg_extern(sql = false, strict)]
fn embed_for(fingerprint: &str, texts: Vec<String>) -> Result<String, ErrorReport> {
    let model = EmbeddingModel::default_model()?;
    let answer = model.embed_now(Priority::Bulk, Purpose::Passage, texts)?;
    if answer.model.fingerprint != fingerprint {
        let error = Error::unsupported(format!(
            "model \"{}\" of this server is another one than that of the coordinator",
            answer.model.name
        ));
        return Err(error
            .hint("Install the same model on all servers, and set the same rag.model_precision.")
            .into());
    }
    let vectors = answer.vectors.iter().map(|vector| {
        let elements = vector.iter();
        elements
            .map(|element| format!("{:08x}", element.to_bits()))
            .collect::<String>()
    });
    Ok(vectors.collect::<Vec<_>>().join(" "))
}

/// Returns the fingerprint of the default model, and its name: the engine runs.
///
/// # Errors
/// The model is unavailable.
#[pg_extern(sql = false)]
fn default_model_of_node() -> Result<String, ErrorReport> {
    let info = EmbeddingModel::default_model()?.info_now()?;
    Ok(json!({"model": info.name, "fingerprint": info.fingerprint}).to_string())
}
