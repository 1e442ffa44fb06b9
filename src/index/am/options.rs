//! Options of an index: `WITH (name = value, ...)`. All are integers.

use std::{ffi::CStr, sync::OnceLock};

use pgrx::pg_sys::relopt_kind;

/// An option of an index.
pub struct IntegerOption {
    pub name: &'static CStr,
    pub description: &'static CStr,
    pub default: i32,
    pub min: i32,
    pub max: i32,
}

/// The options of an access method.
///
/// PostgreSQL keeps those of an index as a varlena: the header, then an integer for each option.
pub struct OptionSet {
    pub options: &'static [IntegerOption],
    /// What PostgreSQL knows the set by, once it is [registered](super::callbacks::register).
    pub(super) kind: OnceLock<relopt_kind::Type>,
}

impl OptionSet {
    pub const fn new(options: &'static [IntegerOption]) -> Self {
        Self {
            options,
            kind: OnceLock::new(),
        }
    }
}
