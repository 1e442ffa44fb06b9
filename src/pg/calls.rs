//! Functions that the server calls by name: entry points of background workers, triggers and
//! planner support; and the call information of functions in SQL.
#![allow(unsafe_code)] // entry points of the library

use std::any::Any;

use pgrx::{
    callconv::{Arg, ArgAbi},
    fcinfo::pg_func_extra,
    pg_sys,
    pgrx_sql_entity_graph::metadata::{
        ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
    },
};

use super::hooks;
use crate::error::Error;

/// Defines the entry point of a background worker, which calls a function without arguments.
macro_rules! worker_main {
    ($name:ident, $main:path) => {
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        #[allow(unsafe_code)]
        pub extern "C-unwind" fn $name(_argument: pgrx::pg_sys::Datum) {
            $main();
        }
    };
}
pub(crate) use worker_main;

/// Defines a function in C that SQL can call: `$name` with its `pg_finfo_` function `$info`. The
/// handler is an `unsafe fn` of this module that gets the call information and `$callback`.
macro_rules! c_function {
    ($name:ident, $info:ident, $handler:path, $callback:expr) => {
        #[unsafe(no_mangle)]
        #[allow(unsafe_code)]
        pub extern "C" fn $info() -> &'static pgrx::pg_sys::Pg_finfo_record {
            const V1: pgrx::pg_sys::Pg_finfo_record =
                pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
            &V1
        }

        /// # Safety
        /// Called by Postgres.
        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        #[allow(unsafe_code)]
        pub unsafe extern "C-unwind" fn $name(
            call: pgrx::pg_sys::FunctionCallInfo,
        ) -> pgrx::pg_sys::Datum {
            // SAFETY: Postgres calls the function with valid call information.
            unsafe { $handler(call, $callback) }
        }
    };
}
pub(crate) use c_function;

/// Handles a trigger whose callback needs to know only that it was called.
///
/// # Safety
/// Called by Postgres.
pub unsafe fn handle_trigger(_call: pg_sys::FunctionCallInfo, callback: fn()) -> pg_sys::Datum {
    callback();
    pg_sys::Datum::null()
}

/// Handles an event trigger that is called before commands that drop extensions. The callback gets
/// true for CASCADE, and is called only if the command drops this extension.
///
/// # Safety
/// Called by Postgres.
pub unsafe fn handle_drop_trigger(
    call: pg_sys::FunctionCallInfo,
    callback: fn(bool) -> Result<(), Error>,
) -> pg_sys::Datum {
    // SAFETY: the caller's promise; the node's tag says whether this is an event trigger's call.
    let behavior = unsafe {
        let context = (*call).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_EventTriggerData {
            Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED,
                "rag_internal.before_drop() can only be called as an event trigger",
            )
            .raise();
        }
        hooks::drop_behavior((*context.cast::<pg_sys::EventTriggerData>()).parsetree)
    };
    if let Some(behavior) = behavior
        && let Err(error) = callback(behavior == pg_sys::DropBehavior::DROP_CASCADE)
    {
        error.raise();
    }
    pg_sys::Datum::null()
}

/// What a planner support function is asked about a call.
pub struct CostRequest<'a>(&'a mut pg_sys::SupportRequestCost);

impl CostRequest<'_> {
    /// Returns true if the call has the same arguments for every row.
    pub fn has_constant_arguments(&self) -> bool {
        let node = self.0.node;
        // SAFETY: the planner's node of the call.
        !node.is_null()
            && unsafe {
                !pg_sys::contain_var_clause(node) && !pg_sys::contain_volatile_functions(node)
            }
    }

    /// Sets the cost of the first call, and of each call, in the planner's units.
    pub fn set(&mut self, startup: f64, per_call: f64) {
        (self.0.startup, self.0.per_tuple) = (startup, per_call);
    }
}

/// Returns the planner's cost of an operator or function call.
pub fn operator_cost() -> f64 {
    // SAFETY: reads a setting.
    unsafe { pg_sys::cpu_operator_cost }
}

/// Handles a planner support function that answers requests for costs.
///
/// # Safety
/// Called by Postgres.
pub unsafe fn handle_support(
    call: pg_sys::FunctionCallInfo,
    callback: fn(&mut CostRequest<'_>),
) -> pg_sys::Datum {
    // SAFETY: the planner passes a node, whose tag says of which type it is.
    unsafe {
        let Some(datum) = pgrx::pg_getarg_datum(call, 0) else {
            return pg_sys::Datum::null();
        };
        if (*datum.cast_mut_ptr::<pg_sys::Node>()).type_ != pg_sys::NodeTag::T_SupportRequestCost {
            return pg_sys::Datum::null();
        }
        let request = &mut *datum.cast_mut_ptr::<pg_sys::SupportRequestCost>();
        callback(&mut CostRequest(request));
        datum
    }
}

/// The call information of a running function. Only Postgres creates it, as an argument that does
/// not appear in SQL.
pub struct CallInfo(pg_sys::FunctionCallInfo);

impl CallInfo {
    /// Returns a value that is kept between the calls of one place in a statement. A function that
    /// returns a set cannot use it.
    pub fn kept<T: Any + Default>(&mut self) -> &mut T {
        // SAFETY: the running function's own call information. Every function of the extension that
        // keeps something there keeps a value of this type; it lives as long as the statement.
        let kept = unsafe {
            let kept = pg_func_extra(self.0, || Box::new(T::default()) as Box<dyn Any>);
            &mut *kept.into_pg()
        };
        if !kept.is::<T>() {
            *kept = Box::new(T::default());
        }
        match kept.downcast_mut() {
            Some(kept) => kept,
            None => unreachable!("the value was just replaced by one of this type"),
        }
    }
}

// SAFETY: wraps what pgrx itself passes for this argument.
unsafe impl<'fcx> ArgAbi<'fcx> for CallInfo {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { pg_sys::FunctionCallInfo::unbox_arg_unchecked(arg) })
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: the argument does not appear in SQL, like that of the type that this one wraps.
unsafe impl SqlTranslatable for CallInfo {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(CallInfo);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::Skip));
}
