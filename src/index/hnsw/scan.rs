//! A scan: `ORDER BY embedding <=> $1`.
//!
//! The index finds candidates in the order of their estimated distance; their rows are fetched for
//! the exact one, and leave in its order ([`Order`]). Rows that the snapshot does not see are
//! dropped on the way. The executor takes as many rows as it needs to satisfy filter and LIMIT;
//! each time the index goes on from where it was. Of a vector that many rows have, rows are fetched
//! as they are asked for, too.

use std::{ffi::c_int, rc::Rc};

use pgrx::{PgMemoryContexts, pg_guard, pg_sys};
use rag_ann::{
    code::Metric,
    hnsw::{Damage, Index, Order, Rest, Scan, ScanLimits, Tid},
    memory::push,
};
use rag_pages::ReadPages;

use super::{cache, damaged, is_indexable, opclass::exact_distance, pointer_to, rows::Rows};
use crate::{
    error::Error,
    settings::{self, IterativeScan},
    types::vector::Vector,
};

/// Rows fetched between two looks at whether the statement was cancelled.
const INTERRUPT_PERIOD: usize = 64;

/// What hangs on a scan. It is dropped with the scan's memory context.
#[derive(Default)]
struct State {
    /// Kept from one query to the next of a nested loop.
    rows: Option<Rows>,
    search: Option<Search>,
}

/// The search for one query.
struct Search {
    file: Rc<cache::File>,
    scan: Box<Scan>,
    query: Vec<f32>,
    distance: fn(&[f32], &[f32]) -> f64,
    /// Of an index that orders by taxicab distances, which its codes do not estimate.
    taxicab: Option<Taxicab>,
    phase: Phase,
    order: Order,
    /// Rows of the vector that the last row has, which come next.
    rest: Option<Box<Rest>>,
    /// Rows that are being added, with their distances.
    portion: Vec<(f64, Tid)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Candidates are ranked by their exact distance.
    Ranking,
    /// The query has no distance to anything: rows leave as they are found.
    Unordered,
    /// The index has found all.
    Found,
}

/// `ambeginscan`
#[pg_guard]
pub unsafe extern "C-unwind" fn begin(
    index: pg_sys::Relation,
    keys: c_int,
    orders: c_int,
) -> pg_sys::IndexScanDesc {
    // SAFETY: an open index; the state lives in the memory context that the scan is made in.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(index, keys, orders);
        (*scan).opaque = PgMemoryContexts::CurrentMemoryContext
            .leak_and_drop_on_delete(State::default())
            .cast();
        scan
    }
}

/// `amrescan`
#[pg_guard]
pub unsafe extern "C-unwind" fn rescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _key_count: c_int,
    orders: pg_sys::ScanKey,
    _order_count: c_int,
) {
    // SAFETY: a scan of `begin`'s, with room for as many keys as it was begun with.
    unsafe {
        if !keys.is_null() && (*scan).numberOfKeys > 0 {
            std::ptr::copy(keys, (*scan).keyData, (*scan).numberOfKeys as usize);
        }
        if !orders.is_null() && (*scan).numberOfOrderBys > 0 {
            std::ptr::copy(
                orders,
                (*scan).orderByData,
                (*scan).numberOfOrderBys as usize,
            );
        }
        state_of(scan).end_search();
    }
}

/// `amgettuple`
#[pg_guard]
pub unsafe extern "C-unwind" fn get_tuple(
    scan: pg_sys::IndexScanDesc,
    _direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: a scan of `begin`'s.
    unsafe {
        match next(scan) {
            Ok(Some(tid)) => {
                (*scan).xs_heaptid = tid;
                (*scan).xs_recheck = false;
                (*scan).xs_recheckorderby = false;
                true
            }
            Ok(None) => false,
            Err(error) => error.raise(),
        }
    }
}

/// `amendscan`
#[pg_guard]
pub unsafe extern "C-unwind" fn end(scan: pg_sys::IndexScanDesc) {
    // SAFETY: a scan of `begin`'s.
    let state = unsafe { state_of(scan) };
    state.end_search();
    if let Some(rows) = state.rows.take() {
        rows.close();
    }
}

/// # Safety
/// A scan of [`begin`]'s that has not ended.
unsafe fn state_of<'a>(scan: pg_sys::IndexScanDesc) -> &'a mut State {
    // SAFETY: the caller's promise.
    unsafe { &mut *(*scan).opaque.cast::<State>() }
}

impl State {
    fn end_search(&mut self) {
        if let Some(search) = self.search.take() {
            cache::give_scan(search.scan);
        }
    }
}

/// The heap row that comes next.
///
/// # Safety
/// A scan of [`begin`]'s that has not ended.
unsafe fn next(scan: pg_sys::IndexScanDesc) -> Result<Option<pg_sys::ItemPointerData>, Error> {
    // SAFETY: the caller's promise; the executor has set table and snapshot before it asks for the
    // first row.
    unsafe {
        let state = state_of(scan);
        let index = (*scan).indexRelation;
        let search = match &mut state.search {
            Some(search) => search,
            None => {
                let Some(search) = start(scan)? else {
                    return Ok(None);
                };
                state.search.insert(search)
            }
        };
        let rows = match &mut state.rows {
            Some(rows) => rows,
            None => state
                .rows
                .insert(Rows::open((*scan).heapRelation, index, (*scan).xs_snapshot)),
        };
        let file = Rc::clone(&search.file);
        let pages = file.pages(index);
        loop {
            pages.check_interrupts();
            if let Some(mut rest) = search.rest.take() {
                let more = search.scan.read_rest(&file.index, &pages, &mut rest, false);
                more.and_then(|more| search.add(&file.index, &pages, rows, more.then_some(rest)))
                    .map_err(|damage| damaged(index, damage))?;
            }
            let next = match search.phase {
                Phase::Ranking => search.order.next_settled(),
                Phase::Unordered | Phase::Found => search.order.next_of_rest(),
            };
            if let Some((tid, rest)) = next {
                search.rest = rest;
                return Ok(Some(pointer_to(tid)));
            }
            if search.phase == Phase::Found {
                return Ok(None);
            }
            search
                .find(&file.index, &pages, rows)
                .map_err(|damage| damaged(index, damage))?;
        }
    }
}

impl Search {
    /// Looks for one candidate more.
    fn find(
        &mut self,
        index: &Index,
        pages: &impl ReadPages,
        rows: &mut Rows,
    ) -> Result<(), Damage> {
        let Some(estimate) = self.scan.next(index, pages)? else {
            self.phase = Phase::Found;
            return Ok(());
        };
        let rest = self.scan.rest().map(Box::new);
        if let Some(distance) = self.add(index, pages, rows, rest)? {
            let estimate = match &mut self.taxicab {
                Some(taxicab) => taxicab.estimate(estimate, distance),
                None => f64::from(estimate),
            };
            self.order.observe(estimate, distance);
        }
        Ok(())
    }

    /// Adds the rows of a candidate that the scan has read; `rest` are the others, which wait until
    /// these have left. Returns the distance of one that the snapshot sees.
    fn add(
        &mut self,
        index: &Index,
        pages: &impl ReadPages,
        rows: &mut Rows,
        mut rest: Option<Box<Rest>>,
    ) -> Result<Option<f64>, Damage> {
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
                    return Err(Damage::new(self.scan.block(index), problem));
                }
                let (query, distance) = (&self.query, self.distance);
                let exact = match self.phase {
                    Phase::Unordered => rows.with_vector(tid, |_| 0.0),
                    _ => rows.with_vector(tid, |vector| distance(query, vector)),
                };
                if let Some(exact) = exact {
                    push(&mut self.portion, (exact, tid)).map_err(Damage::of_memory)?;
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
                    .map_err(Damage::of_memory)?;
            }
            // Rows of the same vector are read when these have left.
            let waiting = if differ {
                None
            } else {
                rest.take_if(|_| last.is_some())
            };
            if let Some((distance, tid)) = last {
                nearest = nearest.or(Some(distance));
                self.order
                    .add(tid, distance, waiting)
                    .map_err(Damage::of_memory)?;
            }
            // Of vectors that are not quite the same the nearest must be known; of rows that nobody
            // sees, the next.
            let Some(others) = &mut rest else {
                return Ok(nearest);
            };
            if !self.scan.read_rest(index, pages, others, differ)? {
                rest = None;
            }
        }
    }
}

/// Taxicab distances estimated from Euclidean ones, of which they are a multiple on average.
#[derive(Default)]
struct Taxicab {
    taxicab: f64,
    euclidean: f64,
}

impl Taxicab {
    /// Returns the estimate for a candidate whose squared Euclidean distance was estimated, and
    /// which is as far away as `distance`: the factor is the mean one of all candidates so far.
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

/// Begins the search for the query of a scan; `None` where there is nothing to find.
///
/// # Safety
/// A scan of [`begin`]'s that has not ended.
unsafe fn start(scan: pg_sys::IndexScanDesc) -> Result<Option<Search>, Error> {
    // SAFETY: the caller's promise.
    unsafe {
        let index = (*scan).indexRelation;
        count_scan(scan);
        if (*scan).numberOfOrderBys != 1 || (*scan).orderByData.is_null() {
            return Err(Error::unsupported(
                "cannot scan a rag_hnsw index without one order by distance",
            ));
        }
        // Rows are fetched from the heap while pages of the index are not held: a row's place may
        // be used again meanwhile, which only a snapshot of this kind is sure not to see.
        let snapshot = (*scan).xs_snapshot;
        if snapshot.is_null() || (*snapshot).snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC {
            return Err(Error::unsupported(
                "non-MVCC snapshots are not supported with rag_hnsw",
            ));
        }
        let file = cache::open(index)?;
        let Some(dimensions) = file.index.dimensions() else {
            return Ok(None);
        };
        let order_by = &*(*scan).orderByData;
        let query = if order_by.sk_flags as u32 & pg_sys::SK_ISNULL != 0 {
            None
        } else {
            Some(Vector::from_raw(order_by.sk_argument).as_slice().to_vec())
        };
        if let Some(query) = query.as_ref().filter(|query| query.len() != dimensions) {
            return Err(Error::data_exception(format!(
                "different vector dimensions {dimensions} and {}",
                query.len()
            )));
        }
        let metric = file.index.description().metric;
        let ordered = query
            .as_ref()
            .is_some_and(|query| is_indexable(metric, query));
        let iterative = settings::iterative_scan();
        let mut search = Search {
            query: query.unwrap_or_else(|| vec![0.0; dimensions]),
            distance: exact_distance(metric),
            taxicab: (metric == Metric::L1).then(Taxicab::default),
            phase: if ordered {
                Phase::Ranking
            } else {
                Phase::Unordered
            },
            order: Order::new(iterative != IterativeScan::relaxed),
            rest: None,
            portion: vec![],
            scan: cache::take_scan(),
            file,
        };
        let limits = ScanLimits {
            ef: settings::ef_search(),
            iterative: iterative != IterativeScan::off,
            max_tuples: settings::max_scan_tuples(),
            max_keys: pg_sys::work_mem as usize * 1024 / 8,
        };
        let Search {
            scan, file, query, ..
        } = &mut search;
        scan.begin(&file.index, &file.pages(index), query, limits)
            .map_err(|damage| damaged(index, damage))?;
        Ok(Some(search))
    }
}

/// Counts the scan in `pg_stat_user_indexes`, and since PostgreSQL 18 in EXPLAIN ANALYZE.
///
/// # Safety
/// A scan of [`begin`]'s that has not ended.
unsafe fn count_scan(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the caller's promise; `pgstat_info` is null where nothing is counted.
    unsafe {
        let index = (*scan).indexRelation;
        #[cfg(not(any(feature = "pg13", feature = "pg14")))]
        if (*index).pgstat_info.is_null() && (*index).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(index);
        }
        if let Some(statistics) = (*index).pgstat_info.as_mut() {
            #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
            {
                statistics.t_counts.t_numscans += 1;
            }
            #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
            {
                statistics.counts.numscans += 1;
            }
        }
        #[cfg(feature = "pg18")]
        if let Some(instrument) = (*scan).instrument.as_mut() {
            instrument.nsearches += 1;
        }
    }
}
