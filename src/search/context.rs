//! Puts the chunks that a search has found together as the context of a language model.

use std::{collections::BTreeMap, slice};

use rag_retrieval::context::{FoundChunks, GAP, QuotedDocument, pack, plain, render};
use serde_json::{Value, json};

use super::{
    SearchHit, SearchRequest, SearchResult,
    citation::CitedPart,
    hits::{Neighbour, Neighbours, read_neighbours},
    rerank::search_and_rerank,
};
use crate::{
    engine::client::{TokenSource, with_client},
    error::Error,
};

/// Quoted documents within a number of tokens.
pub struct Context {
    pub text: String,
    pub tokens: usize,
    /// The number of chunks that are quoted.
    pub chunks: usize,
    pub documents: Vec<CitedDocument>,
    /// True if chunks were found, but none has room.
    pub lacks_room: bool,
}

/// A document of a context.
pub struct CitedDocument {
    number: i32,
    citation: String,
    title: Option<String>,
    uri: String,
    anchor: Option<String>,
    document_id: pgrx::Uuid,
    /// Of its best chunk.
    score: f64,
    chunk_ids: Vec<pgrx::Uuid>,
}

impl CitedDocument {
    pub fn to_json(&self) -> Value {
        let chunk_ids = self.chunk_ids.iter().map(ToString::to_string);
        json!({
            "number": self.number,
            "citation": self.citation,
            "title": self.title,
            "uri": self.uri,
            "anchor": self.anchor,
            "document_id": self.document_id.to_string(),
            "chunk_ids": chunk_ids.collect::<Vec<_>>(),
            "score": self.score,
        })
    }
}

/// Runs a search, and quotes the best of what it has found, as much as fits into `max_tokens`
/// tokens of `tokenizer`.
///
/// # Errors
/// The search fails, or the engine cannot count tokens.
pub fn context(
    request: &mut SearchRequest,
    max_tokens: usize,
    tokenizer: &TokenSource,
) -> Result<(Context, SearchResult), Error> {
    let neighbours = std::mem::take(&mut request.neighbours);
    let result = search_and_rerank(slice::from_mut(request))?;
    let found = Found {
        hits: &result.hits,
        chunks: read_neighbours(request, &result.hits, neighbours)?,
        neighbours,
    };
    let counted = found.count(tokenizer)?;
    let mut taken = pack(&counted.results, max_tokens, counted.preamble, counted.gap).taken;
    let context = loop {
        let context = found.quote(&taken, tokenizer)?;
        // a tokenizer may divide the whole otherwise than its parts
        if context.tokens <= max_tokens || taken.pop().is_none() {
            break context;
        }
    };
    Ok((context, result))
}

/// What a search has found.
struct Found<'a> {
    hits: &'a [SearchHit],
    chunks: Neighbours,
    neighbours: i32,
}

/// The numbers of tokens of what may be quoted.
struct Counted {
    results: Vec<FoundChunks<[u8; 16]>>,
    preamble: usize,
    gap: usize,
}

impl Found<'_> {
    /// Returns a result's chunk and those around it.
    fn chunks_of(&self, hit: &SearchHit) -> impl Iterator<Item = (i32, &Neighbour)> {
        let (first, last) = hit.range(self.neighbours);
        let chunks = self.chunks.get(hit.document_id.as_bytes());
        let chunks = chunks
            .into_iter()
            .flat_map(move |chunks| chunks.range(first..=last));
        chunks.map(|(index, chunk)| (*index, chunk))
    }

    /// Counts the tokens of all that may be quoted, with one request.
    fn count(&self, tokenizer: &TokenSource) -> Result<Counted, Error> {
        let empty = QuotedDocument {
            citation: String::new(),
            chunks: vec![],
        };
        let mut texts = vec![
            render(std::slice::from_ref(&empty)),
            render(&[empty.clone(), empty]),
            format!("\n{GAP}\n"),
        ];
        let all = self.chunks.values().flat_map(BTreeMap::values);
        texts.extend(all.map(|chunk| plain(&chunk.text.content)));
        texts.extend(self.hits.iter().map(|hit| plain(&hit.citation())));
        let counts = with_client(|client| client.count_tokens(tokenizer, texts))?;
        let mut counts = counts.into_iter();
        let mut next = || counts.next().unwrap_or_default();
        let (one_document, two_documents, gap) = (next(), next(), next());
        let lines_around = two_documents.saturating_sub(one_document);
        let mut of_chunks: BTreeMap<([u8; 16], i32), usize> = BTreeMap::new();
        for (document, chunks) in &self.chunks {
            for index in chunks.keys() {
                of_chunks.insert((*document, *index), next());
            }
        }
        let results = self.hits.iter().map(|hit| {
            let document = *hit.document_id.as_bytes();
            let tokens = |index| {
                of_chunks
                    .get(&(document, index))
                    .copied()
                    .unwrap_or_default()
            };
            FoundChunks {
                document,
                chunks: self
                    .chunks_of(hit)
                    .map(|(index, _)| (index, tokens(index)))
                    .collect(),
                frame: next() + lines_around,
            }
        });
        Ok(Counted {
            results: results.collect(),
            preamble: one_document.saturating_sub(lines_around),
            gap,
        })
    }

    /// Quotes the results at some places.
    fn quote(&self, taken: &[usize], tokenizer: &TokenSource) -> Result<Context, Error> {
        // by document, in the order of their best chunks
        let mut documents: Vec<(&SearchHit, BTreeMap<i32, &Neighbour>)> = vec![];
        for hit in taken.iter().map(|place| &self.hits[*place]) {
            let known = documents
                .iter_mut()
                .find(|(first, _)| first.document_id == hit.document_id);
            match known {
                Some((_, chunks)) => chunks.extend(self.chunks_of(hit)),
                None => documents.push((hit, self.chunks_of(hit).collect())),
            }
        }
        let cited: Vec<CitedDocument> = (1..)
            .zip(&documents)
            .map(|(number, (best, chunks))| cite(number, best, chunks))
            .collect();
        let quoted: Vec<QuotedDocument> = documents
            .iter()
            .zip(&cited)
            .map(|((_, chunks), cited)| QuotedDocument {
                citation: cited.citation.clone(),
                chunks: chunks.values().map(|chunk| chunk.text.clone()).collect(),
            })
            .collect();
        let text = render(&quoted);
        let counts = with_client(|client| client.count_tokens(tokenizer, vec![text.clone()]))?;
        Ok(Context {
            text,
            tokens: counts.into_iter().sum(),
            chunks: documents.iter().map(|(_, chunks)| chunks.len()).sum(),
            lacks_room: documents.is_empty() && !self.hits.is_empty(),
            documents: cited,
        })
    }
}

fn cite(number: i32, best: &SearchHit, chunks: &BTreeMap<i32, &Neighbour>) -> CitedDocument {
    let first_line = chunks.values().map(|chunk| chunk.start_line).min();
    let last_line = chunks.values().map(|chunk| chunk.end_line).max();
    let lines = (
        first_line.unwrap_or(best.start_line),
        last_line.unwrap_or(best.end_line),
    );
    let first = chunks.values().next();
    let anchor = first.map_or(&best.anchor, |chunk| &chunk.anchor);
    let part = CitedPart {
        page: first.map_or(best.page, |chunk| chunk.page),
        lines,
        anchor: anchor.as_deref(),
    };
    CitedDocument {
        number,
        citation: best.citation_of(number, &part),
        title: best.title.clone(),
        uri: best.uri.clone(),
        anchor: anchor.clone(),
        document_id: best.document_id,
        score: best.score,
        chunk_ids: chunks.values().map(|chunk| chunk.chunk_id).collect(),
    }
}
