//! The access method as Postgres sees it: what it can do, and the function for each thing.

use std::ffi::{CStr, c_char};

use pgrx::{datum::Internal, pg_extern, pg_guard, pg_sys};

use super::{build, cost, insert, opclass, options, scan, vacuum};

/// Postgres calls it without the argument that it is declared with.
#[pg_extern(sql = false)]
fn hnsw_handler(_call: pg_sys::FunctionCallInfo) -> Internal {
    // SAFETY: a node in the current memory context, all fields zero where not set here.
    let mut routine = unsafe {
        pgrx::PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine)
    };
    // no operators that search, one that orders by distance
    routine.amstrategies = 0;
    routine.amsupport = 1;
    routine.amcanorderbyop = true;
    // nothing is searched for, so the column needs no condition; NULLs have no place in the graph
    routine.amoptionalkey = true;
    routine.amsearchnulls = false;
    routine.amcanmulticol = false;
    // threads build it, not parallel workers
    routine.amusemaintenanceworkmem = false;
    routine.amparallelvacuumoptions = pg_sys::VACUUM_OPTION_PARALLEL_BULKDEL as u8;
    routine.amkeytype = pg_sys::InvalidOid;

    routine.ambuild = Some(build::build);
    routine.ambuildempty = Some(build::build_empty);
    routine.ambuildphasename = Some(phase_name);
    routine.aminsert = Some(insert::insert);
    routine.ambulkdelete = Some(vacuum::bulk_delete);
    routine.amvacuumcleanup = Some(vacuum::cleanup);
    routine.amcostestimate = Some(cost::estimate);
    routine.amoptions = Some(options::parse);
    routine.amproperty = Some(opclass::property);
    routine.amvalidate = Some(opclass::validate);
    routine.ambeginscan = Some(scan::begin);
    routine.amrescan = Some(scan::rescan);
    routine.amgettuple = Some(scan::get_tuple);
    routine.amendscan = Some(scan::end);
    Internal::from(Some(routine.into_pg().into()))
}

/// What `pg_stat_progress_create_index` calls the phases of a build.
#[pg_guard]
unsafe extern "C-unwind" fn phase_name(phase: i64) -> *mut c_char {
    let name: &CStr = match phase {
        build::INITIALIZING => c"initializing",
        build::SAMPLING => c"sampling vectors",
        build::READING => c"reading vectors",
        build::LINKING => c"linking vectors",
        build::WRITING => c"writing pages",
        build::INSERTING => c"inserting what does not fit into maintenance_work_mem",
        build::LOGGING => c"writing the write-ahead log",
        _ => return std::ptr::null_mut(),
    };
    name.as_ptr().cast_mut()
}
