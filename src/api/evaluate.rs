//! `rag_evaluate` and `rag_evaluate_queries`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_definition::retriever::MAX_TOP_K;
use rag_retrieval::evaluation::{MAX_RESAMPLES, Measure, Measures, Resampling};

use super::{required, search::parse_settings};
use crate::{
    catalog::collections::Collection,
    error::Error,
    pg::{json::JsonbText, wait::check_for_interrupts},
    search::evaluate::{JudgedQuery, evaluate, judged_queries},
};

/// The number of chunks that a query finds, unless the settings say otherwise: enough for ten
/// documents of several chunks each.
const CHUNKS_PER_DOCUMENT: i32 = 10;
const MAX_TOP_DOCUMENTS: i32 = 1000;

/// What both functions evaluate.
struct Evaluation {
    collection: Collection,
    queries: Vec<JudgedQuery>,
    top_k: i32,
}

impl Evaluation {
    fn new(
        queries: Option<JsonbText>,
        collection: Option<&str>,
        qrels: Option<JsonbText>,
        top_k: Option<i32>,
    ) -> Result<Self, Error> {
        let parse = |name: &str, json: Option<JsonbText>| {
            required(name, json)?
                .parse()
                .map_err(|e| Error::invalid_parameter(format!("{name}: {e}")))
        };
        let (queries, qrels) = (parse("queries", queries)?, parse("qrels", qrels)?);
        let top_k = required("top_k", top_k)?;
        if !(1..=MAX_TOP_DOCUMENTS).contains(&top_k) {
            return Err(Error::invalid_parameter(format!(
                "top_k must be between 1 and {MAX_TOP_DOCUMENTS}, not {top_k}"
            )));
        }
        Ok(Self {
            collection: super::readable(collection)?,
            queries: judged_queries(&queries, &qrels)?,
            top_k,
        })
    }

    fn run(&self, settings: Option<JsonbText>) -> Result<Vec<Measures>, Error> {
        let mut settings = parse_settings(settings)?;
        let enough = (self.top_k * CHUNKS_PER_DOCUMENT).min(MAX_TOP_K);
        settings.top_k.get_or_insert(enough);
        evaluate(
            &self.collection,
            &self.queries,
            &settings,
            self.top_k as usize,
        )
    }
}

#[pg_extern(stable, parallel_restricted, cost = 1000000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_evaluate(
    queries: Option<JsonbText>,
    collection: Option<&str>,
    qrels: Option<JsonbText>,
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    compare: pgrx::default!(Option<JsonbText>, "NULL"),
    top_k: pgrx::default!(Option<i32>, "10"),
    resamples: pgrx::default!(Option<i32>, "10000"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(measure, String),
            name!(value, f64),
            name!(low, f64),
            name!(high, f64),
            name!(other, Option<f64>),
            name!(difference, Option<f64>),
            name!(difference_low, Option<f64>),
            name!(difference_high, Option<f64>),
            name!(p_value, Option<f64>),
            name!(queries, i32),
        ),
    >,
    ErrorReport,
> {
    let evaluation = Evaluation::new(queries, collection, qrels, top_k)?;
    let resamples = required("resamples", resamples)?;
    let resampling = match usize::try_from(resamples) {
        Ok(resamples @ 1..=MAX_RESAMPLES) => Resampling { resamples },
        _ => {
            return Err(Error::invalid_parameter(format!(
                "resamples must be between 1 and {MAX_RESAMPLES}, not {resamples}"
            ))
            .into());
        }
    };
    let measured = evaluation.run(settings)?;
    let others = compare
        .map(|compare| evaluation.run(Some(compare)))
        .transpose()?;
    let rows = Measure::ALL.map(|measure| {
        let values_of = |measured: &Vec<Measures>| -> Vec<f64> {
            measured
                .iter()
                .map(|of_query| of_query.get(measure))
                .collect()
        };
        let values = values_of(&measured);
        let estimate = resampling.estimate(&values, check_for_interrupts);
        let other = others.as_ref().map(values_of);
        let compared = other
            .as_ref()
            .map(|other| resampling.compare(&values, other, check_for_interrupts));
        (
            measure.name(evaluation.top_k as usize),
            estimate.mean,
            estimate.low,
            estimate.high,
            compared.map(|compared| estimate.mean - compared.difference.mean),
            compared.map(|compared| compared.difference.mean),
            compared.map(|compared| compared.difference.low),
            compared.map(|compared| compared.difference.high),
            compared.map(|compared| compared.p_value),
            values.len() as i32,
        )
    });
    Ok(TableIterator::new(rows))
}

#[pg_extern(stable, parallel_restricted, cost = 1000000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_evaluate_queries(
    queries: Option<JsonbText>,
    collection: Option<&str>,
    qrels: Option<JsonbText>,
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    top_k: pgrx::default!(Option<i32>, "10"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(query_id, String),
            name!(query, String),
            name!(recall, f64),
            name!(precision, f64),
            name!(ndcg, f64),
            name!(reciprocal_rank, f64),
            name!(average_precision, f64),
            name!(found, i32),
            name!(first_relevant, Option<i32>),
        ),
    >,
    ErrorReport,
> {
    let evaluation = Evaluation::new(queries, collection, qrels, top_k)?;
    let measured = evaluation.run(settings)?;
    let rows = evaluation.queries.into_iter().zip(measured);
    Ok(TableIterator::new(rows.map(|(query, measures)| {
        (
            query.id,
            query.text,
            measures.recall,
            measures.precision,
            measures.ndcg,
            measures.reciprocal_rank,
            measures.average_precision,
            measures.found as i32,
            measures.first_relevant.map(|rank| rank as i32),
        )
    })))
}
