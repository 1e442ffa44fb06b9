//! When the planner is offered the plan, and what it costs.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::{PgList, is_a, pg_guard, pg_sys};

use super::{NAME, node};
use crate::{
    index::{
        am::{cost::with_planned_scan, order::ordered_paths},
        hnsw::{Hnsw, cost::adaptive_cost},
    },
    pg::{
        custom_scan::{Methods, PathCost, new_path, new_scan},
        planner::bitmap_path,
    },
    settings::{self, IterativeScan},
};

static METHODS: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(plan),
    ReparameterizeCustomPathByChild: None,
});

/// A fraction of the rows above which a filter is none.
const NO_FILTER: f64 = 0.99;

/// Cost of a page of the table that a bitmap leads to, in units of `seq_page_cost`, as that of a
/// search of the index: measured in memory, a microsecond.
const PAGE_COST: f64 = 0.3;

/// Adds paths of a relation if its rows are filtered, and wanted in the order of a `rag_hnsw`
/// index.
///
/// # Safety
/// Called by the planner, for a relation that it has made its own paths for.
pub unsafe fn add_paths(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the caller's promise. Paths live as long as the planner's memory context.
    unsafe {
        let conditions = (*relation).baserestrictinfo;
        if (*entry).rtekind != pg_sys::RTEKind::RTE_RELATION
            || conditions.is_null()
            || !(*relation).lateral_relids.is_null()
            || (*relation).rows > NO_FILTER * (*relation).tuples
            || !settings::enable_filtered_scan()
            || settings::iterative_scan() == IterativeScan::off
            || !pg_sys::enable_indexscan
        {
            return;
        }
        let ordered: Vec<_> = ordered_paths::<Hnsw>(relation).collect();
        if ordered.is_empty() || pg_sys::contain_volatile_functions(conditions.cast()) {
            return;
        }
        let Some(rows) = rows_path(root, relation) else {
            return;
        };
        for path in ordered {
            add(root, relation, path, &rows);
        }
    }
}

/// Adds the path that begins with a path of an index, and continues with the rows of another.
///
/// # Safety
/// A relation of the planner's, and two paths of it.
unsafe fn add(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    ordered: *mut pg_sys::IndexPath,
    rows: &RowsPath,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let operators = PgList::<pg_sys::Node>::from_pg((*ordered).indexorderbys);
        let Some(operator) = operators.get_ptr(0) else {
            return;
        };
        let mut distance = pg_sys::QualCost::default();
        pg_sys::cost_qual_eval_node(&mut distance, operator, root);
        let cost = with_planned_scan(root, ordered, |scan| {
            adaptive_cost(scan, rows.cost, distance.per_tuple)
        });
        let mut conditions = pg_sys::QualCost::default();
        pg_sys::cost_qual_eval(&mut conditions, (*relation).baserestrictinfo, root);
        let target = (*relation).reltarget;
        let before = conditions.startup + distance.startup + (*target).cost.startup;
        let per_row = pg_sys::cpu_tuple_cost + (*target).cost.per_tuple;
        let path_cost = PathCost {
            startup: before + cost.startup,
            total: before + cost.total + per_row * (*ordered).path.rows,
        };

        let child = with_target(rows.path, new_target(relation, operator, distance));
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let mut private = pg_sys::lappend(none, ordered.cast());
        for number in [cost.ranking_rows, cost.wanted] {
            let number = pg_sys::makeInteger(number as i32);
            private = pg_sys::lappend(private, number.cast());
        }
        let path = new_path(&*ordered, path_cost, child, private, &raw const METHODS.0);
        pg_sys::add_path(relation, path);
    }
}

/// A path that reads the rows of a relation that pass its filter.
struct RowsPath {
    path: *mut pg_sys::Path,
    cost: f64,
}

/// Returns the cheaper of the paths that read the rows of a relation that pass its filter: a
/// sequential scan, or one by bitmaps of indexes.
///
/// # Safety
/// A relation of the planner's.
unsafe fn rows_path(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
) -> Option<RowsPath> {
    // SAFETY: the caller's promise; the tags say of which types nodes are.
    unsafe {
        let paths = PgList::<pg_sys::Path>::from_pg((*relation).pathlist);
        let whole = paths
            .iter_ptr()
            .filter(|path| {
                (**path).pathtype == pg_sys::NodeTag::T_SeqScan && (**path).param_info.is_null()
            })
            .find(|_| pg_sys::enable_seqscan)
            .map(|path| RowsPath {
                path,
                cost: (*path).total_cost,
            });
        let by_index = pg_sys::enable_bitmapscan
            .then(|| bitmap_path(root, relation))
            .flatten()
            .map(|path| with_cost(root, relation, path));
        [whole, by_index]
            .into_iter()
            .flatten()
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
    }
}

/// Returns a path by bitmaps of indexes. The planner takes each page for one that is read from
/// disk, out of order. But here the path is compared with a search that visits as many pages.
///
/// # Safety
/// A relation of the planner's, and its path.
unsafe fn with_cost(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::BitmapHeapPath,
) -> RowsPath {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut index_cost, mut selectivity) = (0.0, 0.0);
        pg_sys::cost_bitmap_tree_node((*path).bitmapqual, &mut index_cost, &mut selectivity);
        let rows = (selectivity * (*relation).tuples).max(1.0);
        let pages = f64::from((*relation).pages).max(1.0);
        let read = (2.0 * pages * rows / (2.0 * pages + rows)).min(pages);
        let mut conditions = pg_sys::QualCost::default();
        pg_sys::cost_qual_eval(&mut conditions, (*relation).baserestrictinfo, root);
        let per_row = pg_sys::cpu_tuple_cost + conditions.per_tuple;
        RowsPath {
            path: path.cast(),
            cost: index_cost
                + conditions.startup
                + read * PAGE_COST * pg_sys::seq_page_cost
                + per_row * rows,
        }
    }
}

/// Returns what the plan reads of each row: its place and its distance.
///
/// # Safety
/// A relation of the planner's, and the operator that it is ordered by.
unsafe fn new_target(
    relation: *mut pg_sys::RelOptInfo,
    operator: *mut pg_sys::Node,
    distance: pg_sys::QualCost,
) -> *mut pg_sys::PathTarget {
    // SAFETY: the caller's promise.
    unsafe {
        let place = pg_sys::makeVar(
            (*relation).relid as _,
            pg_sys::SelfItemPointerAttributeNumber as pg_sys::AttrNumber,
            pg_sys::TIDOID,
            -1,
            pg_sys::InvalidOid,
            0,
        );
        let target = pg_sys::create_empty_pathtarget();
        (*target).exprs = pg_sys::lappend((*target).exprs, place.cast());
        (*target).exprs = pg_sys::lappend((*target).exprs, operator.cast());
        (*target).cost = distance;
        (*target).width = (size_of::<pg_sys::ItemPointerData>() + size_of::<f64>()) as i32;
        target
    }
}

/// Returns a path that reads the same rows as another one, and returns other columns.
///
/// # Safety
/// A path of `rows_path`'s.
unsafe fn with_target(
    path: *mut pg_sys::Path,
    target: *mut pg_sys::PathTarget,
) -> *mut pg_sys::Path {
    // SAFETY: the caller's promise; the tag says of which type the node is. The planner may free a
    // path that it has no use for.
    unsafe {
        let size = if is_a(path.cast(), pg_sys::NodeTag::T_BitmapHeapPath) {
            size_of::<pg_sys::BitmapHeapPath>()
        } else {
            size_of::<pg_sys::Path>()
        };
        let copy = pg_sys::palloc(size);
        std::ptr::copy_nonoverlapping(path.cast::<u8>(), copy.cast(), size);
        let copy: *mut pg_sys::Path = copy.cast();
        (*copy).pathtarget = target;
        (*copy).total_cost += (*target).cost.startup + (*target).cost.per_tuple * (*copy).rows;
        copy
    }
}

/// `PlanCustomPath`
#[pg_guard]
unsafe extern "C-unwind" fn plan(
    _root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    children: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: a path that `add` has added, and the plan of its child.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let methods = node::scan_methods();
        let scan = new_scan(&*relation, &*path, columns, clauses, methods);
        (*scan).custom_plans = children;
        let private = (*path).custom_private;
        let ordered = &*pg_sys::list_nth(private, 0).cast::<pg_sys::IndexPath>();
        (*scan).custom_exprs = ordered.indexorderbys;
        let index = pg_sys::lappend_oid(none, (*ordered.indexinfo).indexoid);
        (*scan).custom_private = pg_sys::lappend(none, index.cast());
        let numbers = pg_sys::list_delete_first(pg_sys::list_copy(private));
        (*scan).custom_private = pg_sys::list_concat((*scan).custom_private, numbers);
        scan.cast()
    }
}
