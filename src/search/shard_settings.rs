//! Settings of a search for a scan on another server.
//!
//! Citus does not send the settings of a session. So a statement for shards has the condition
//! `rag_internal.scan_settings(partition, 'rag.ef_search=200;...')`. The planner of the shard's
//! server asks what the condition becomes: it becomes true, and the settings are set until the
//! transaction ends, before the scan is planned. The coordinator's planner is told nothing, and
//! because of the column Citus does not compute the condition there: either way the shards would
//! not get it.
#![allow(unsafe_code)] // the planner's nodes

use std::ffi::CString;

use pgrx::{PgList, pg_extern, pg_sys};

use crate::{
    index::am::cost::constant,
    pg::{
        calls::c_function,
        guc::{set_for_transaction, setting},
    },
};

/// How Citus names its connections.
const INTERNAL: &str = "citus_internal";
/// Only settings whose names begin so are set.
const PREFIXES: [&str; 2] = ["rag.", "hnsw."];

/// The callback of [`c_function`] is not needed.
fn nothing() {}

c_function!(
    scan_settings_support_wrapper,
    pg_finfo_scan_settings_support_wrapper,
    handle_support,
    nothing
);

/// Returns true. It is only called where a shard is on the coordinator, whose session has the
/// settings.
#[pg_extern(sql = false, immutable, parallel_safe)]
fn scan_settings(_partition: &str, _settings: &str) -> bool {
    true
}

/// # Safety
/// Called by Postgres.
unsafe fn handle_support(call: pg_sys::FunctionCallInfo, _: fn()) -> pg_sys::Datum {
    // SAFETY: the planner passes a node, whose tag says of which type it is. The function has two
    // arguments. Nodes are allocated in the planner's memory context.
    unsafe {
        let Some(request) = pgrx::pg_getarg_datum(call, 0) else {
            return pg_sys::Datum::null();
        };
        let node = request.cast_mut_ptr::<pg_sys::Node>();
        if (*node).type_ == pg_sys::NodeTag::T_SupportRequestSelectivity {
            (*node.cast::<pg_sys::SupportRequestSelectivity>()).selectivity = 1.0;
            return request;
        }
        if (*node).type_ != pg_sys::NodeTag::T_SupportRequestSimplify
            || !setting(c"application_name").starts_with(INTERNAL)
        {
            return pg_sys::Datum::null();
        }
        let arguments = (*(*node.cast::<pg_sys::SupportRequestSimplify>()).fcall).args;
        let settings = PgList::<pg_sys::Node>::from_pg(arguments)
            .get_ptr(1)
            .and_then(|settings| constant(settings))
            .and_then(|settings| settings.get::<String>());
        match settings {
            Some(settings) => {
                set(&settings);
                pg_sys::Datum::from(pg_sys::makeBoolConst(true, false))
            }
            None => pg_sys::Datum::null(),
        }
    }
}

fn set(settings: &str) {
    for (name, value) in settings.split(';').filter_map(|it| it.split_once('=')) {
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        if let Ok(name) = CString::new(name) {
            set_for_transaction(&name, value);
        }
    }
}
