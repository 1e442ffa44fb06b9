//! Custom scans: plans of the extension's own that the server runs.
#![allow(unsafe_code)] // nodes of a plan

use std::ffi::{CStr, c_int};

use pgrx::{PgList, pg_sys};

/// A table of functions for the server.
pub struct Methods<T>(pub T);

// SAFETY: constant pointers to functions and texts.
unsafe impl<T> Sync for Methods<T> {}

/// What a node of a plan does, as the fields of the same names of `CustomExecMethods` say.
pub struct NodeFunctions {
    pub begin:
        unsafe extern "C-unwind" fn(*mut pg_sys::CustomScanState, *mut pg_sys::EState, c_int),
    pub next_row:
        unsafe extern "C-unwind" fn(*mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot,
    pub rescan: unsafe extern "C-unwind" fn(*mut pg_sys::CustomScanState),
    pub end: unsafe extern "C-unwind" fn(*mut pg_sys::CustomScanState),
    pub explain: unsafe extern "C-unwind" fn(
        *mut pg_sys::CustomScanState,
        *mut pg_sys::List,
        *mut pg_sys::ExplainState,
    ),
}

/// Returns the table of a node that is neither read backward nor by parallel workers.
pub const fn exec_methods(
    name: &'static CStr,
    functions: NodeFunctions,
) -> Methods<pg_sys::CustomExecMethods> {
    Methods(pg_sys::CustomExecMethods {
        CustomName: name.as_ptr(),
        BeginCustomScan: Some(functions.begin),
        ExecCustomScan: Some(functions.next_row),
        EndCustomScan: Some(functions.end),
        ReScanCustomScan: Some(functions.rescan),
        MarkPosCustomScan: None,
        RestrPosCustomScan: None,
        EstimateDSMCustomScan: None,
        InitializeDSMCustomScan: None,
        ReInitializeDSMCustomScan: None,
        InitializeWorkerCustomScan: None,
        ShutdownCustomScan: None,
        ExplainCustomScan: Some(functions.explain),
    })
}

/// Makes the state of a node, all zeros. `S` begins with a `CustomScanState`.
///
/// # Safety
/// Zeros are a state, which has nothing to drop.
pub unsafe fn new_state<S>(
    methods: &'static Methods<pg_sys::CustomExecMethods>,
) -> *mut pg_sys::Node {
    // SAFETY: the caller's promise.
    unsafe {
        let state: *mut pg_sys::CustomScanState = pg_sys::palloc0(size_of::<S>()).cast();
        (*state).ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*state).methods = &raw const methods.0;
        state.cast()
    }
}

/// Defines a node of plans: the tables of its functions, `create_state` for its state, `register`
/// and `scan_methods`. Its functions are those that [`NodeFunctions`] has, by these names.
macro_rules! scan_node {
    ($name:expr, $State:ty) => {
        static SCAN_METHODS: $crate::pg::custom_scan::Methods<pgrx::pg_sys::CustomScanMethods> =
            $crate::pg::custom_scan::Methods(pgrx::pg_sys::CustomScanMethods {
                CustomName: $name.as_ptr(),
                CreateCustomScanState: Some(create_state),
            });

        static EXEC_METHODS: $crate::pg::custom_scan::Methods<pgrx::pg_sys::CustomExecMethods> =
            $crate::pg::custom_scan::exec_methods(
                $name,
                $crate::pg::custom_scan::NodeFunctions {
                    begin,
                    next_row,
                    rescan,
                    end,
                    explain,
                },
            );

        /// Makes the node known to the server. Called while the library is loaded.
        pub fn register() {
            // SAFETY: a constant.
            unsafe { pgrx::pg_sys::RegisterCustomScanMethods(scan_methods()) };
        }

        pub fn scan_methods() -> *const pgrx::pg_sys::CustomScanMethods {
            &raw const SCAN_METHODS.0
        }

        /// `CreateCustomScanState`
        #[pgrx::pg_guard]
        unsafe extern "C-unwind" fn create_state(
            _plan: *mut pgrx::pg_sys::CustomScan,
        ) -> *mut pgrx::pg_sys::Node {
            // SAFETY: zeros are a valid state.
            unsafe { $crate::pg::custom_scan::new_state::<$State>(&EXEC_METHODS) }
        }
    };
}
pub(crate) use scan_node;

/// Returns the index that a plan reads: the first of the ids that it keeps.
///
/// # Safety
/// A plan that keeps a list of ids.
pub unsafe fn index_of(plan: *mut pg_sys::CustomScan) -> pg_sys::Oid {
    // SAFETY: the caller's promise.
    unsafe {
        PgList::<pg_sys::Oid>::from_pg((*plan).custom_private)
            .get_oid(0)
            .unwrap_or(pg_sys::InvalidOid)
    }
}

/// What a path of a relation costs until its first row and until its last.
#[derive(Debug, Clone, Copy)]
pub struct PathCost {
    pub startup: f64,
    pub total: f64,
}

/// Makes a path that reads a relation in the order of an index path. `child` is the path that it
/// reads rows from, and `private` is what the plan is made of.
///
/// # Safety
/// A relation of the planner's, and paths of it.
pub unsafe fn new_path(
    ordered: &pg_sys::IndexPath,
    cost: PathCost,
    child: *mut pg_sys::Path,
    private: *mut pg_sys::List,
    methods: *const pg_sys::CustomPathMethods,
) -> *mut pg_sys::Path {
    // SAFETY: the caller's promise. The path lives as long as the planner's memory context.
    unsafe {
        let size = size_of::<pg_sys::CustomPath>();
        let path: *mut pg_sys::CustomPath = pg_sys::palloc0(size).cast();
        (*path).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*path).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*path).path.parent = ordered.path.parent;
        (*path).path.pathtarget = (*ordered.path.parent).reltarget;
        (*path).path.rows = ordered.path.rows;
        (*path).path.startup_cost = cost.startup;
        (*path).path.total_cost = cost.total;
        (*path).path.pathkeys = ordered.path.pathkeys;
        (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        (*path).custom_paths = pg_sys::lappend(std::ptr::null_mut(), child.cast());
        (*path).custom_private = private;
        (*path).methods = methods;
        path.cast()
    }
}

/// Makes the plan of a path: a scan of a relation that returns columns of the rows that satisfy
/// conditions.
///
/// # Safety
/// What the planner gives to `PlanCustomPath`, and conditions of it.
pub unsafe fn new_scan(
    relation: &pg_sys::RelOptInfo,
    path: &pg_sys::CustomPath,
    columns: *mut pg_sys::List,
    conditions: *mut pg_sys::List,
    methods: *const pg_sys::CustomScanMethods,
) -> *mut pg_sys::CustomScan {
    // SAFETY: the caller's promise.
    unsafe {
        let size = size_of::<pg_sys::CustomScan>();
        let scan: *mut pg_sys::CustomScan = pg_sys::palloc0(size).cast();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = columns;
        (*scan).scan.plan.qual = pg_sys::extract_actual_clauses(conditions, false);
        (*scan).scan.scanrelid = relation.relid;
        (*scan).flags = path.flags;
        (*scan).methods = methods;
        scan
    }
}

/// Shows the index of a node, the operator that it orders by, and its conditions: the expressions
/// of its plan.
///
/// # Safety
/// What the server gives to `ExplainCustomScan`.
pub unsafe fn explain_search(
    plan: *mut pg_sys::CustomScan,
    index: pg_sys::Oid,
    ancestors: *mut pg_sys::List,
    output: *mut pg_sys::ExplainState,
) {
    let labels = [c"Order By", c"Index Cond"];
    // SAFETY: the caller's promise.
    unsafe { explain_index(plan, index, &labels, ancestors, output) };
}

/// Shows the index of a node, and the expressions of its plan. Those without a label of their own
/// have the last one.
///
/// # Safety
/// What the server gives to `ExplainCustomScan`.
pub unsafe fn explain_index(
    plan: *mut pg_sys::CustomScan,
    index: pg_sys::Oid,
    labels: &[&CStr],
    ancestors: *mut pg_sys::List,
    output: *mut pg_sys::ExplainState,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let name = pg_sys::get_rel_name(index);
        if !name.is_null() {
            pg_sys::ExplainPropertyText(c"Index Name".as_ptr(), name, output);
        }
        let context =
            pg_sys::set_deparse_context_plan((*output).deparse_cxt, plan.cast(), ancestors);
        let with_prefix = pg_sys::list_length((*output).rtable) > 1 || (*output).verbose;
        let operators = PgList::<pg_sys::Node>::from_pg((*plan).custom_exprs);
        let labels = labels.iter().chain(labels.last().into_iter().cycle());
        for (operator, label) in operators.iter_ptr().zip(labels) {
            let text = pg_sys::deparse_expression(operator, context, with_prefix, false);
            pg_sys::ExplainPropertyText(label.as_ptr(), text, output);
        }
    }
}

/// Shows a number of a node.
///
/// # Safety
/// What the server gives to `ExplainCustomScan`.
pub unsafe fn explain_number(label: &CStr, number: i64, output: *mut pg_sys::ExplainState) {
    // SAFETY: the caller's promise.
    unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), number, output) };
}
