//! A scan: `ORDER BY embedding <=> $1`.
//!
//! The index finds candidates in the order of their estimated distance. Their rows are fetched for
//! the exact distance and leave in the order of that ([`RowOrder`]). Rows that the snapshot does
//! not see are dropped. The executor requests as many rows as it needs to satisfy filter and LIMIT.
//! Each time the index continues where it was. If many rows have the same vector, they are also
//! fetched as they are requested.

use std::rc::Rc;

use rag_ann::hnsw::{Index as Graph, RowOrder, Scan, ScanLimits, UnreadRows};
use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    cache, index_error, is_indexable,
    opclass::{Order, order},
};
use crate::{
    error::Error,
    index::am::{
        IndexScan,
        heap::HeapRows,
        relation::Index,
        scan::{ScanKeys, ScanRows},
    },
    pg::memory::work_mem,
    settings::{self, IterativeScan},
    types::indexed::DetoastMemory,
};

/// Number of rows that are fetched between two checks for interrupts.
const INTERRUPT_PERIOD: usize = 64;

/// A scan of an index, which searches for one query after another.
#[derive(Default)]
pub struct HnswScan {
    search: Option<Search>,
}

/// The search for one query.
struct Search {
    opened: Rc<cache::OpenedGraph>,
    scan: Box<Scan>,
    query: Vec<f32>,
    distance: fn(&[f32], &[f32]) -> f64,
    estimate: Estimate,
    phase: SearchPhase,
    order: RowOrder,
    /// More rows with the vector of the last row. They come next.
    rest: Option<Box<UnreadRows>>,
    /// Rows that are being added, with their distances.
    portion: Vec<(f64, Tid)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchPhase {
    /// Candidates are ranked by their exact distance.
    Ranking,
    /// The query has no distance to anything. Rows leave in the order in which they are found.
    Unordered,
    /// The index has found all rows.
    Complete,
}

impl IndexScan for HnswScan {
    fn start(&mut self, index: Index<'_>, keys: &ScanKeys<'_>) -> Result<bool, Error> {
        self.search = Search::start(index, keys)?;
        Ok(self.search.is_some())
    }

    fn next(&mut self, index: Index<'_>, rows: &mut ScanRows<'_>) -> Result<Option<Tid>, Error> {
        let Some(search) = &mut self.search else {
            return Ok(None);
        };
        search
            .next(index, rows.open())
            .map_err(|e| index_error(*index, e))
    }

    fn end(&mut self) {
        if let Some(search) = self.search.take() {
            cache::give_scan(search.scan);
        }
    }
}

impl Search {
    /// Starts a search. Returns `None` if the index has no vectors.
    fn start(index: Index<'_>, keys: &ScanKeys<'_>) -> Result<Option<Self>, Error> {
        let mut orders = keys.orders();
        let (Some(query), None) = (orders.next(), orders.next()) else {
            return Err(Error::unsupported(
                "cannot scan a rag_hnsw index without one order by distance",
            ));
        };
        let opened = cache::open(index)?;
        let Some(dimensions) = opened.graph.dimensions() else {
            return Ok(None);
        };
        let query = query
            .map(|value| value.with_vector(&mut DetoastMemory::new(), |vector| vector.to_vec()));
        if let Some(query) = query.as_ref().filter(|query| query.len() != dimensions) {
            return Err(Error::data_exception(format!(
                "different {} {dimensions} and {}",
                index.value_type().dimensions_name(),
                query.len()
            )));
        }
        let order = order(index);
        let has_order = query
            .as_ref()
            .is_some_and(|query| is_indexable(order.metric(), query));
        let iterative = settings::iterative_scan();
        let mut search = Self {
            query: query.unwrap_or_else(|| vec![0.0; dimensions]),
            distance: order.exact_distance(),
            estimate: Estimate::of(order),
            phase: if has_order {
                SearchPhase::Ranking
            } else {
                SearchPhase::Unordered
            },
            order: RowOrder::new(iterative != IterativeScan::relaxed),
            rest: None,
            portion: vec![],
            scan: cache::take_scan(),
            opened,
        };
        let limits = ScanLimits {
            ef: settings::ef_search(),
            iterative: iterative != IterativeScan::off,
            max_tuples: settings::max_scan_tuples(),
            max_keys: work_mem() / 8,
        };
        let opened = &search.opened;
        search
            .scan
            .begin(&opened.graph, &opened.pages(index), &search.query, limits)
            .map_err(|e| index_error(*index, e))?;
        Ok(Some(search))
    }

    /// Returns the next heap row.
    fn next(
        &mut self,
        index: Index<'_>,
        rows: &mut HeapRows<'_>,
    ) -> Result<Option<Tid>, IndexError> {
        let opened = Rc::clone(&self.opened);
        let (graph, pages) = (&opened.graph, opened.pages(index));
        loop {
            pages.check_interrupts();
            if let Some(mut rest) = self.rest.take() {
                let has_more = self.scan.read_rest(graph, &pages, &mut rest, false)?;
                self.add(graph, &pages, rows, has_more.then_some(rest))?;
            }
            let next = match self.phase {
                SearchPhase::Ranking => self.order.next_settled(),
                SearchPhase::Unordered | SearchPhase::Complete => self.order.next_of_rest(),
            };
            if let Some((tid, rest)) = next {
                self.rest = rest;
                return Ok(Some(tid));
            }
            if self.phase == SearchPhase::Complete {
                return Ok(None);
            }
            self.find(graph, &pages, rows)?;
        }
    }

    /// Finds one more candidate.
    fn find(
        &mut self,
        graph: &Graph,
        pages: &impl ReadPages,
        rows: &mut HeapRows<'_>,
    ) -> Result<(), IndexError> {
        let Some(estimate) = self.scan.next(graph, pages)? else {
            self.phase = SearchPhase::Complete;
            return Ok(());
        };
        let rest = self.scan.rest().map(Box::new);
        if let Some(distance) = self.add(graph, pages, rows, rest)? {
            let estimate = self.estimate.of_candidate(estimate, distance);
            self.order.observe(estimate, distance);
        }
        Ok(())
    }

    /// Adds the rows of a candidate that the scan has read. `rest` are its other rows, which wait
    /// until these have left. Returns the distance of a row that the snapshot sees.
    fn add(
        &mut self,
        graph: &Graph,
        pages: &impl ReadPages,
        rows: &mut HeapRows<'_>,
        mut rest: Option<Box<UnreadRows>>,
    ) -> Result<Option<f64>, IndexError> {
        let mut nearest = None;
        loop {
            self.portion.clear();
            for (i, &tid) in self.scan.tids().iter().enumerate() {
                if i % INTERRUPT_PERIOD == INTERRUPT_PERIOD - 1 {
                    pages.check_interrupts();
                }
                if !rows.is_in_table(tid) {
                    let problem = format!(
                        "a slot leads to row ({},{}), which is not in the table",
                        tid.block, tid.offset
                    );
                    return Err(IndexError::corrupted(self.scan.block(graph), problem));
                }
                let (query, distance) = (&self.query, self.distance);
                let exact = match self.phase {
                    SearchPhase::Unordered => rows.with_vector(tid, |_| 0.0),
                    _ => rows.with_vector(tid, |vector| distance(query, vector)),
                };
                if let Some(exact) = exact {
                    push(&mut self.portion, (exact, tid)).map_err(IndexError::of_memory)?;
                }
            }
            let differ = self
                .portion
                .windows(2)
                .any(|pair| pair[0].0.to_bits() != pair[1].0.to_bits());
            let last = self.portion.pop();
            for (distance, tid) in self.portion.drain(..) {
                self.order
                    .add(tid, distance, None)
                    .map_err(IndexError::of_memory)?;
            }
            // More rows with the same vector are read when these have left.
            let waiting = if differ {
                None
            } else {
                rest.take_if(|_| last.is_some())
            };
            if let Some((distance, tid)) = last {
                nearest = nearest.or(Some(distance));
                self.order
                    .add(tid, distance, waiting)
                    .map_err(IndexError::of_memory)?;
            }
            // If the vectors of a node differ slightly, the nearest of them must be known. If the
            // snapshot sees none of these rows, the next must be read.
            let Some(others) = &mut rest else {
                return Ok(nearest);
            };
            if !self.scan.read_rest(graph, pages, others, differ)? {
                rest = None;
            }
        }
    }
}

/// How the distance of a candidate is estimated from that of its codes.
enum Estimate {
    /// It is that of the codes.
    OfCodes,
    Taxicab(TaxicabEstimate),
    /// From cosine distances. No Jaccard distance is less.
    Jaccard,
}

impl Estimate {
    fn of(order: Order) -> Self {
        match order {
            Order::L1 => Self::Taxicab(TaxicabEstimate::default()),
            Order::Jaccard => Self::Jaccard,
            _ => Self::OfCodes,
        }
    }

    /// Returns the estimate for a candidate. `distance` is its exact distance.
    fn of_candidate(&mut self, of_codes: f32, distance: f64) -> f64 {
        match self {
            Self::OfCodes => f64::from(of_codes),
            Self::Taxicab(taxicab) => taxicab.estimate(of_codes, distance),
            Self::Jaccard => {
                let cosine = f64::from(of_codes).max(0.0);
                2.0 * cosine / (1.0 + cosine)
            }
        }
    }
}

/// Estimates taxicab distances from Euclidean ones, of which they are a multiple on average.
#[derive(Default)]
struct TaxicabEstimate {
    taxicab: f64,
    euclidean: f64,
}

impl TaxicabEstimate {
    /// Returns the estimate for a candidate from that of its squared Euclidean distance. The factor
    /// is the mean one of all candidates so far. `distance` is the candidate's exact distance.
    fn estimate(&mut self, squared: f32, distance: f64) -> f64 {
        if !squared.is_finite() {
            return f64::from(squared);
        }
        let euclidean = f64::from(squared).max(0.0).sqrt();
        self.taxicab += distance;
        self.euclidean += euclidean;
        if self.euclidean > 0.0 {
            euclidean * (self.taxicab / self.euclidean)
        } else {
            0.0
        }
    }
}
