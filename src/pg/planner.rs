//! The hooks that the planner calls: for a statement before it is planned, for a relation whose
//! indexes it has read, and for a relation or for groups of rows that it has made paths for.
#![allow(unsafe_code)] // the planner's nodes

use std::{
    ffi::{c_char, c_int, c_void},
    sync::OnceLock,
};

use pgrx::{PgList, is_a, pg_guard, pg_sys};

/// Changes a statement before it is planned with some parameters.
pub type ChangeStatement = unsafe fn(query: *mut pg_sys::Query, parameters: pg_sys::ParamListInfo);

/// Changes what the planner knows of a relation, and the conditions of the relation's level of the
/// statement.
pub type ChangeRelation =
    unsafe fn(root: *mut pg_sys::PlannerInfo, relation: *mut pg_sys::RelOptInfo);

/// Adds paths of a relation. It is called with nodes of the planner.
pub type AddPaths = unsafe fn(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
);

/// Adds paths of the groups of a level, from the relation that has the rows of the level.
pub type AddGroupPaths = unsafe fn(
    root: *mut pg_sys::PlannerInfo,
    rows: *mut pg_sys::RelOptInfo,
    groups: *mut pg_sys::RelOptInfo,
);

static CHANGE_STATEMENT: OnceLock<ChangeStatement> = OnceLock::new();
static NEXT_PLANNER: OnceLock<pg_sys::planner_hook_type> = OnceLock::new();
static CHANGE_RELATION: OnceLock<ChangeRelation> = OnceLock::new();
static NEXT_RELATION: OnceLock<pg_sys::get_relation_info_hook_type> = OnceLock::new();
static ADD_PATHS: OnceLock<AddPaths> = OnceLock::new();
static NEXT_PATHS: OnceLock<pg_sys::set_rel_pathlist_hook_type> = OnceLock::new();
static ADD_GROUP_PATHS: OnceLock<AddGroupPaths> = OnceLock::new();
static NEXT_GROUP_PATHS: OnceLock<pg_sys::create_upper_paths_hook_type> = OnceLock::new();

unsafe extern "C-unwind" {
    // optimizer/planner.h; not called through pgrx, which would take every ERROR apart and raise it
    // again without its position
    fn standard_planner(
        query: *mut pg_sys::Query,
        text: *const c_char,
        options: c_int,
        parameters: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
    // nodes/nodeFuncs.h
    #[cfg_attr(
        any(feature = "pg16", feature = "pg17", feature = "pg18"),
        link_name = "query_tree_walker_impl"
    )]
    fn query_tree_walker(
        query: *mut pg_sys::Query,
        walker: TreeWalker,
        context: *mut c_void,
        flags: c_int,
    ) -> bool;
    #[cfg_attr(
        any(feature = "pg16", feature = "pg17", feature = "pg18"),
        link_name = "expression_tree_walker_impl"
    )]
    fn expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: TreeWalker,
        context: *mut c_void,
    ) -> bool;
}

type TreeWalker = Option<unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool>;

/// Registers a callback for each statement that is about to be planned. Called while the library is
/// loaded.
pub fn watch_statements(callback: ChangeStatement) {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if CHANGE_STATEMENT.set(callback).is_ok() && NEXT_PLANNER.set(pg_sys::planner_hook).is_ok()
        {
            pg_sys::planner_hook = Some(plan);
        }
    }
}

/// Registers a callback for each relation whose indexes the planner has read. The conditions of its
/// level are not distributed to relations yet. Called while the library is loaded.
pub fn watch_relations(callback: ChangeRelation) {
    // SAFETY: as above.
    unsafe {
        if CHANGE_RELATION.set(callback).is_ok()
            && NEXT_RELATION.set(pg_sys::get_relation_info_hook).is_ok()
        {
            pg_sys::get_relation_info_hook = Some(relation_read);
        }
    }
}

/// Registers a callback for each relation that the planner has made paths for. Called while the
/// library is loaded.
pub fn watch_paths(callback: AddPaths) {
    // SAFETY: as above.
    unsafe {
        if ADD_PATHS.set(callback).is_ok() && NEXT_PATHS.set(pg_sys::set_rel_pathlist_hook).is_ok()
        {
            pg_sys::set_rel_pathlist_hook = Some(paths_made);
        }
    }
}

/// Registers a callback for the groups of each level that has some. Called while the library is
/// loaded.
pub fn watch_groups(callback: AddGroupPaths) {
    // SAFETY: as above.
    unsafe {
        if ADD_GROUP_PATHS.set(callback).is_ok()
            && NEXT_GROUP_PATHS
                .set(pg_sys::create_upper_paths_hook)
                .is_ok()
        {
            pg_sys::create_upper_paths_hook = Some(groups_made);
        }
    }
}

/// An ERROR of the planner leaps over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: as the server calls it.
    unsafe {
        change_statement(query, parameters);
        match NEXT_PLANNER.get() {
            Some(Some(next)) => next(query, text, options, parameters),
            _ => standard_planner(query, text, options, parameters),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn change_statement(
    query: *mut pg_sys::Query,
    parameters: pg_sys::ParamListInfo,
) {
    if let Some(callback) = CHANGE_STATEMENT.get() {
        // SAFETY: as the server calls it.
        unsafe { callback(query, parameters) };
    }
}

/// An ERROR of the next hook leaps over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn relation_read(
    root: *mut pg_sys::PlannerInfo,
    id: pg_sys::Oid,
    is_parent: bool,
    relation: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: as the planner calls it.
    unsafe {
        if let Some(Some(next)) = NEXT_RELATION.get() {
            next(root, id, is_parent, relation);
        }
        change_relation(root, relation);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn change_relation(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
) {
    if let Some(callback) = CHANGE_RELATION.get() {
        // SAFETY: as the planner calls it.
        unsafe { callback(root, relation) };
    }
}

/// An ERROR of the next hook leaps over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn paths_made(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: as the planner calls it.
    unsafe {
        if let Some(Some(next)) = NEXT_PATHS.get() {
            next(root, relation, number, entry);
        }
        add_paths(root, relation, entry);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_paths(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    if let Some(callback) = ADD_PATHS.get() {
        // SAFETY: as the planner calls it.
        unsafe { callback(root, relation, entry) };
    }
}

/// An ERROR of the next hook leaps over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn groups_made(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    rows: *mut pg_sys::RelOptInfo,
    made: *mut pg_sys::RelOptInfo,
    extra: *mut c_void,
) {
    // SAFETY: as the planner calls it.
    unsafe {
        if let Some(Some(next)) = NEXT_GROUP_PATHS.get() {
            next(root, stage, rows, made, extra);
        }
        if stage == pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG {
            add_group_paths(root, rows, made);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_group_paths(
    root: *mut pg_sys::PlannerInfo,
    rows: *mut pg_sys::RelOptInfo,
    groups: *mut pg_sys::RelOptInfo,
) {
    if let Some(callback) = ADD_GROUP_PATHS.get() {
        // SAFETY: as the planner calls it.
        unsafe { callback(root, rows, groups) };
    }
}

/// Returns true if `f` returns true for a node of an expression, or of a list of them.
///
/// # Safety
/// Null, or a node that the planner has prepared. `f` raises no ERROR.
pub unsafe fn any_node<F: FnMut(*mut pg_sys::Node) -> bool>(
    node: *mut pg_sys::Node,
    mut f: F,
) -> bool {
    // SAFETY: the caller's promise. The declaration is that of the server. The guard catches its
    // ERRORs.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| visit_any::<F>(node, (&raw mut f).cast())) }
}

/// Called for each node.
unsafe extern "C-unwind" fn visit_any<F: FnMut(*mut pg_sys::Node) -> bool>(
    node: *mut pg_sys::Node,
    context: *mut c_void,
) -> bool {
    // SAFETY: the server passes null or a node, and the context of `any_node`. An ERROR leaps over
    // this frame, which has nothing to drop.
    unsafe {
        !node.is_null()
            && ((*context.cast::<F>())(node)
                || expression_tree_walker(node, Some(visit_any::<F>), context))
    }
}

/// Calls `f` with each query in the expressions of a query, such as `(SELECT ...)` and
/// `EXISTS (...)`, but not with those in FROM and WITH.
///
/// # Safety
/// A query of the parser's.
pub unsafe fn each_query_of_expressions<F: FnMut(*mut pg_sys::Query)>(
    query: *mut pg_sys::Query,
    mut f: F,
) {
    let flags = pg_sys::QTW_IGNORE_RT_SUBQUERIES | pg_sys::QTW_IGNORE_CTE_SUBQUERIES;
    // SAFETY: the caller's promise. The declarations are those of the server. The guard catches its
    // ERRORs.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            let context = (&raw mut f).cast();
            query_tree_walker(query, Some(visit::<F>), context, flags as c_int)
        });
    }
}

/// Called for each expression.
unsafe extern "C-unwind" fn visit<F: FnMut(*mut pg_sys::Query)>(
    node: *mut pg_sys::Node,
    context: *mut c_void,
) -> bool {
    // SAFETY: the server passes null or a node, and the context of `each_query_of_expressions`. An
    // ERROR leaps over this frame, which has nothing to drop.
    unsafe {
        if node.is_null() {
            return false;
        }
        if is_a(node, pg_sys::NodeTag::T_Query) {
            pg_sys::panic::pgrx_extern_c_guard(|| (*context.cast::<F>())(node.cast()));
            return false;
        }
        expression_tree_walker(node, Some(visit::<F>), context)
    }
}

/// Asks the planner again for paths of a relation, as if it had other indexes and no joins. Returns
/// the paths, which may be added to the relation: they refer to it, because the indexes do.
///
/// # Safety
/// The planner's state, a relation that it is making paths for, and a list of indexes of it. The
/// paths keep pointers to the indexes.
pub unsafe fn paths_of_indexes(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    indexes: *mut pg_sys::List,
) -> PgList<pg_sys::Path> {
    // SAFETY: the caller's promise. The copy lives as long as the planner's memory context.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let copy: *mut pg_sys::RelOptInfo = pg_sys::palloc(size_of::<pg_sys::RelOptInfo>()).cast();
        std::ptr::copy_nonoverlapping(relation, copy, 1);
        (*copy).indexlist = indexes;
        (*copy).pathlist = none;
        (*copy).partial_pathlist = none;
        (*copy).ppilist = none;
        (*copy).joininfo = none;
        (*copy).has_eclass_joins = false;
        (*copy).consider_parallel = false;
        pg_sys::create_index_paths(root, copy);
        PgList::from_pg((*copy).pathlist)
    }
}

/// Returns the cheapest path that reads the rows that satisfy conditions by bitmaps of indexes.
///
/// The planner's own is among its paths only if no other is cheaper. So the planner is asked again,
/// for a copy of the relation whose indexes can only make bitmaps.
///
/// # Safety
/// The planner's state, and a relation that it is making paths for.
pub unsafe fn bitmap_path(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
) -> Option<*mut pg_sys::BitmapHeapPath> {
    // SAFETY: the caller's promise. The paths keep pointers to the copies, which live as long as
    // the planner's memory context.
    unsafe {
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let mut indexes = none;
        let known = PgList::<pg_sys::IndexOptInfo>::from_pg((*relation).indexlist);
        for index in known.iter_ptr().filter(|index| (**index).amhasgetbitmap) {
            let copy: *mut pg_sys::IndexOptInfo =
                pg_sys::palloc(size_of::<pg_sys::IndexOptInfo>()).cast();
            std::ptr::copy_nonoverlapping(index, copy, 1);
            (*copy).amhasgettuple = false;
            indexes = pg_sys::lappend(indexes, copy.cast());
        }
        if indexes.is_null() {
            return None;
        }
        paths_of_indexes(root, relation, indexes)
            .iter_ptr()
            .filter(|path| is_a((*path).cast(), pg_sys::NodeTag::T_BitmapHeapPath))
            .filter(|path| (**path).param_info.is_null())
            .min_by(|a, b| (**a).total_cost.total_cmp(&(**b).total_cost))
            .map(|path| path.cast())
    }
}
