//! `WITH (m = ..., ef_construction = ...)`.

use std::{
    ffi::{c_int, c_void},
    mem::offset_of,
    sync::OnceLock,
};

use pgrx::{pg_guard, pg_sys};

use crate::error::Error;

/// Links of a node: more make the index larger and slower to build, and answers better at equal
/// `rag.ef_search`, noticeably so above some 500 dimensions.
const M: (i32, i32, i32) = (16, 2, 100);
/// Candidates among which a new node's neighbours are chosen: more make a better graph, in
/// proportionally more time.
const EF_CONSTRUCTION: (i32, i32, i32) = (100, 4, 1000);

/// As Postgres keeps them with the relation.
#[repr(C)]
struct Stored {
    varlena: i32,
    m: c_int,
    ef_construction: c_int,
}

/// Options of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub m: u16,
    pub ef_construction: u16,
}

static KIND: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();

/// Tells Postgres of the options; once a process.
pub fn define() {
    KIND.get_or_init(|| {
        let lock = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
        // SAFETY: names and descriptions are copied.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            let add = |name: &std::ffi::CStr,
                       description: &std::ffi::CStr,
                       (default, min, max): (i32, i32, i32)| {
                pg_sys::add_int_reloption(
                    kind,
                    name.as_ptr(),
                    description.as_ptr(),
                    default,
                    min,
                    max,
                    lock,
                );
            };
            add(
                c"m",
                c"Links of a node of the graph; twice as many on its base level",
                M,
            );
            add(
                c"ef_construction",
                c"Candidates among which a new node's neighbours are chosen",
                EF_CONSTRUCTION,
            );
            kind
        }
    });
}

/// `amoptions`: reads what stands in `WITH`.
#[pg_guard]
pub unsafe extern "C-unwind" fn parse(
    reloptions: pg_sys::Datum,
    validate: bool,
) -> *mut pg_sys::bytea {
    let Some(kind) = KIND.get() else {
        Error::internal("the options of rag_hnsw are not defined").raise()
    };
    #[allow(clippy::needless_update)] // PostgreSQL 18 has a field more
    let option = |name: &std::ffi::CStr, offset: usize| pg_sys::relopt_parse_elt {
        optname: name.as_ptr(),
        opttype: pg_sys::relopt_type::RELOPT_TYPE_INT,
        offset: offset as c_int,
        ..Default::default()
    };
    let table = [
        option(c"m", offset_of!(Stored, m)),
        option(c"ef_construction", offset_of!(Stored, ef_construction)),
    ];
    // SAFETY: the table describes `Stored`.
    let stored: *mut c_void = unsafe {
        pg_sys::build_reloptions(
            reloptions,
            validate,
            *kind,
            size_of::<Stored>(),
            table.as_ptr(),
            table.len() as c_int,
        )
    };
    // SAFETY: null or a `Stored` that was just made.
    if validate && let Some(stored) = unsafe { stored.cast::<Stored>().as_ref() } {
        check(stored);
    }
    stored.cast()
}

/// Raises an error unless there are enough candidates to choose the links of a node from.
fn check(stored: &Stored) {
    if stored.ef_construction < 2 * stored.m {
        Error::invalid_parameter("ef_construction must be greater than or equal to 2 * m")
            .detail(format!(
                "ef_construction is {}, m is {}.",
                stored.ef_construction, stored.m
            ))
            .raise();
    }
}

impl Options {
    /// Those of an index.
    ///
    /// # Safety
    /// `index` is an open index of this access method.
    pub unsafe fn of(index: pg_sys::Relation) -> Self {
        // SAFETY: null, or what `parse` has made.
        let stored = unsafe { (*index).rd_options.cast::<Stored>().as_ref() };
        let (m, ef) = stored.map_or((M.0, EF_CONSTRUCTION.0), |stored| {
            (stored.m, stored.ef_construction)
        });
        Self {
            m: m as u16,
            ef_construction: ef as u16,
        }
    }
}
